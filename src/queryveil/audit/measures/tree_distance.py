"""How far people's interests moved: earth mover's distance between category multisets on the category tree.

Pàmies-Estrems and Garcia-Alfaro (2023), section 5.4, after Rubner et al. (2000): a user's original categories are
matched with those of the queries released under the user's name at the least total path length. The worst case sends
everything through the root. On a tree the least total is the sum, over all edges, of the difference between the numbers
of categories below the edge (each surplus must cross it), so no matching has to be searched for.

The paper's figure is `loss`: the mean distance of a user divided by the mean worst case. Categories count at full
depth, whatever depth the mechanism used. Where a user has more categories on one side, the surplus travels to the root.

Cost: O(records · depth · log).

>>> moved = category_loss(np.array([0, 0, 0]), [1, 1, 3], np.array([0, 0, 0]), [3, 2, 1],
...                       parents=np.array([0, 4, 4, 5, 0, 0]), depths=np.array([0, 2, 2, 2, 1, 1]))
>>> moved.total, moved.worst, round(100 * moved.loss, 2)
(2, 12, 16.67)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class CategoryLoss:
    """Summed over users: the distance, and the distance if everything went through the root."""

    total: int
    worst: int
    users: int
    records: int

    @property
    def loss(self) -> float:
        """Distance as a share of the worst case."""
        return self.total / self.worst if self.worst else 0.0

    @property
    def per_user(self) -> float:
        """Mean distance of a user."""
        return self.total / self.users if self.users else 0.0

    @property
    def worst_per_user(self) -> float:
        """Mean worst case of a user."""
        return self.worst / self.users if self.users else 0.0

    @property
    def per_record(self) -> float:
        """Distance per original record."""
        return self.total / self.records if self.records else 0.0


def category_loss(
    original_users: npt.ArrayLike,
    original_categories: npt.ArrayLike,
    released_users: npt.ArrayLike,
    released_categories: npt.ArrayLike,
    *,
    parents: npt.ArrayLike,
    depths: npt.ArrayLike,
) -> CategoryLoss:
    """The loss between original and released categories of each user; category 0 is the root of the tree."""
    above, level = np.asarray(parents, np.int64), np.asarray(depths, np.int64)
    before, after = np.asarray(original_users, np.int64), np.asarray(released_users, np.int64)
    users = np.concatenate([before, after])
    at = np.concatenate([np.asarray(original_categories, np.int64), np.asarray(released_categories, np.int64)])
    sign = np.concatenate([np.ones(len(before), np.int64), -np.ones(len(after), np.int64)])
    worst, total = int(level[at].sum()), 0
    for depth in range(int(level.max(initial=0)), 0, -1):
        here = level[at] == depth
        keys, group = np.unique(users[here] * len(above) + at[here], return_inverse=True)
        surplus = np.bincount(group, weights=sign[here], minlength=len(keys)).astype(np.int64)
        total += int(np.abs(surplus).sum())
        # Pairs that meet at this category are done; only the surplus of each user travels on to the parent.
        left = surplus != 0
        users = np.concatenate([users[~here], keys[left] // len(above)])
        at = np.concatenate([at[~here], above[keys[left] % len(above)]])
        sign = np.concatenate([sign[~here], surplus[left]])
    return CategoryLoss(total, worst, len(np.unique(before)), len(before))

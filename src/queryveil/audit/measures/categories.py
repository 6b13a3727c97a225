"""How far categories move on the tree, and how much of them remains.

The distances stand in `tree_distance.py`, what remains of a person's categories in `srp.py`.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl

from queryveil.audit.context import AuditContext
from queryveil.audit.finding import (
    Found,
    LeftOut,
    kept,
    resampled,
)
from queryveil.audit.measures.floor import random_categories, random_texts
from queryveil.audit.measures.srp import release_srp
from queryveil.audit.measures.tree_distance import category_loss

SRP_LEVEL = 2


class CategoryDistance:
    """How far categories move on the tree, and how much of them remains."""

    key: ClassVar[str] = "categories"
    title: ClassVar[str] = "Categories of people"
    task: ClassVar[str] = "categories"

    def run(self, context: AuditContext) -> Found:
        """The findings, or what is missing."""
        tree = context.categories
        before, after = tree.of_text[context.original_texts], tree.of_text[context.released_texts]
        shape = {"parents": tree.parents, "depths": tree.depths}
        drawn = random_categories(context)
        together, floor = (
            category_loss(np.zeros(len(one), np.int64), one, np.zeros(len(other), np.int64), other, **shape)
            for one, other in (_like_sizes(before, shown, len(tree.parents)) for shown in (after, drawn))
        )
        yield kept(
            "categories-all", "Categories of all people together", "categories", together.loss,
            "Earth mover's distance on the category tree between both logs brought to one size, as a share of sending "
            "everything through the root: 0 unchanged. Counted, not sampled.",
            better="lower", unit="distance", raw=0.0, chance=floor.loss, trials=len(context.users),
        )  # fmt: skip
        if context.receivers is None:
            yield LeftOut(
                title="Categories of each person",
                reason=context.why_no_owners(),
                by_settings=True,
            )
            return
        chosen = context.some_people()
        mine = np.zeros(len(context.users) + 1, np.bool_)  # the last is for −1
        mine[chosen] = True
        behind = context.people(context.receivers)
        ours, theirs = mine[context.original_users], mine[behind]
        moved, floor = (
            category_loss(context.original_users[ours], before[ours], behind[theirs], shown[theirs], **shape)
            for shown in (after, drawn)
        )
        yield kept(
            "categories-person", "Categories of each person", "categories", moved.loss,
            "Earth mover's distance between the categories that people searched and those released under "
            "their pseudonyms, as a share of sending everything through the root; what is missing travels there.",
            better="lower", unit="distance", raw=0.0, chance=floor.loss, trials=len(chosen),
        )  # fmt: skip
        yield from _remaining(context, chosen)


def _like_sizes(before: npt.NDArray[np.int32], after: npt.NDArray[np.int32], count: int) -> list[npt.NDArray[np.int64]]:
    """Both as the same number of categories (up to 10,000), in proportion, so that only their mix is compared."""
    sides = []
    for side in (before, after):
        total = np.cumsum(np.bincount(side, minlength=count))
        ranks = (np.arange(10_000) + 0.5) / 10_000 * total[-1] if len(side) else np.zeros(0)
        sides.append(np.searchsorted(total, ranks, side="right"))
    return sides


def _remaining(context: AuditContext, chosen: npt.NDArray[np.int64]) -> Found:
    assert context.receivers is not None
    some = context.users.gather(chosen).implode()
    behind = pl.DataFrame([context.receivers.alias("user"), context.released.frame["user"].alias("pseudonym")])
    members = behind.filter(pl.col("user").is_in(some)).group_by("user").agg(pl.col("pseudonym").min())
    if members.is_empty():
        yield LeftOut(title="Categories that remain", reason="nobody looked at is in the release")
        return
    by_user, by_chance = (
        shares[~np.isnan(shares)]
        for shares in (
            release_srp(context.original, released, members, context.classifier, levels=SRP_LEVEL).by_user[:, -1]
            for released in (context.released, random_texts(context))
        )
    )
    if len(by_user):
        yield kept(
            "categories-remain", "Categories that remain", "categories", float(by_user.mean()),
            f"Mean over people in the release of the share of their categories at level {SRP_LEVEL} that the log "
            "released in place of theirs holds as well.",
            interval=resampled(by_user), raw=1.0, chance=float(by_chance.mean()), trials=len(by_user),
        )  # fmt: skip

"""A1 and A2: look at who received what nearby.

A1, *window plurality*: a user's own records enter and leave the pool together, so the author of a release is often
someone who received much around it. Per category, guess the user who appears most often as receiver among the W
neighbouring releases, W/2 on each side; in paper mode the receiver itself is left out, since it is never the author.

A2, *repeats and exclusion*: a text that one person issues again and again never meets its owner in paper mode. For a
text released at least four times, guess the user most often near those releases (8 on each side, same category) who
never received it. It counts where the text is personal, that is, all its releases have one owner.

Cost: O(n · W²) for A1, O(releases of repeated texts) for A2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from queryveil.audit.attacks.released_stream import ReleasedStream
from queryveil.audit.finding import Success

WINDOWS = (3, 10, 30)
REPEATS = 4
REACH = 8

Longs = npt.NDArray[np.int64]


def window_plurality(
    stream: ReleasedStream, *, depth: int, owner_excluded: bool, windows: Sequence[int] = WINDOWS
) -> dict[int, Success]:
    """The success of A1 for each window; the attacker takes the best."""
    from queryveil.audit.attacks import _neighbours_kernel

    order, starts, _ = _by_category(stream, depth)
    receivers, owners = stream.receivers[order], stream.owners[order]
    found = {}
    for window in windows:
        guesses = np.full(len(stream), -1, np.int64)
        _neighbours_kernel.most_frequent_neighbours(
            receivers, starts, window // 2, window - window // 2, owner_excluded, guesses
        )
        found[window] = Success(int((guesses == owners).sum()), len(stream))
    return found


@dataclass(frozen=True)
class Repeats:
    """A2's outcome: personal texts released at least four times, and how many were re-attributed."""

    eligible: int
    right: int

    @property
    def success(self) -> Success:
        """As a share with its bounds."""
        return Success(self.right, self.eligible)


def repeated_texts(stream: ReleasedStream, *, depth: int, personal: npt.NDArray[np.bool_] | None = None) -> Repeats:
    """The success of A2 on personal texts: those marked, or those whose released copies have one owner.

    A text that several people asked may by chance come out as one person's only.
    """
    from queryveil.audit.attacks import _neighbours_kernel

    order, starts, category_of = _by_category(stream, depth)
    receivers, owners, texts = stream.receivers[order], stream.owners[order], stream.texts[order]
    by_text = np.argsort(texts, kind="stable")
    bounds = np.flatnonzero(np.r_[True, np.diff(texts[by_text]) != 0, True]) if len(texts) else np.zeros(1, np.int64)
    counts = np.zeros(int(receivers.max(initial=0)) + 1, np.int64)
    eligible = right = 0
    for start, stop in zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True):
        places = by_text[start:stop]
        shared = (owners[places] != owners[places[0]]).any() if personal is None else not personal[texts[places[0]]]
        if stop - start < REPEATS or shared:
            continue
        eligible += 1
        touched = np.empty(2 * REACH * len(places), np.int64)
        found = _neighbours_kernel.count_neighbours(receivers, starts, category_of, places, REACH, counts, touched)
        near = touched[:found]
        weights = counts[near].copy()
        weights[np.isin(near, receivers[places])] = 0
        counts[near] = 0
        if found and weights.max() > 0:
            right += int(near[int(np.argmax(weights))] == owners[places[0]])
    return Repeats(eligible, right)


def _by_category(stream: ReleasedStream, depth: int) -> tuple[Longs, Longs, Longs]:
    """Releases ordered by category (and time within), where each category starts, and the category of each place."""
    categories = stream.at_depth(depth)
    order = np.argsort(categories, kind="stable")
    if not len(order):
        return order, np.zeros(1, np.int64), np.zeros(0, np.int64)
    changes = np.r_[True, np.diff(categories[order]) != 0]
    return order, np.r_[np.flatnonzero(changes), len(order)].astype(np.int64), np.cumsum(changes) - 1

"""A3: link the two halves of a log by what people are interested in.

Each user with enough records in both halves is described by the normalised histogram of categories in each half; a
first half is linked to the second half with the nearest profile by cosine, among those of everybody: a sample is drawn
of who is linked, never of whom they are linked to, since that would tear groups apart. Where several profiles are
equally near (people who share one log), one is drawn. Report it beside the same attack on the raw log and beside
chance: a release that keeps profiles on purpose keeps this link, whatever the pseudonyms.

Cost: a sparse product of those who are linked with everybody, `AT_ONCE` similarities in memory at a time.

>>> users = np.repeat(np.arange(4), 50)
>>> success = profile_linkage(users, users, np.tile(np.arange(50) < 25, 4))
>>> success.right, success.tried
(4, 4)
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import sparse

from queryveil.audit.attacks.released_stream import cut_to_depth
from queryveil.audit.context import AuditContext
from queryveil.audit.finding import (
    Found,
    LeftOut,
    Question,
    Success,
    risk,
)
from queryveil.privacy import Noise

AT_LEAST = 10
AT_ONCE = 1 << 23
MOST_COMPARED = 1 << 30
EQUALLY_NEAR = 1e-9
LOTS = 1 << 20
SEED = 3


def profile_linkage(
    users: npt.NDArray[np.integer],
    categories: npt.NDArray[np.integer],
    in_first_half: npt.NDArray[np.bool_],
    at_least: int = AT_LEAST,
    *,
    most: int | None = None,
    noise: Noise | None = None,
) -> Success:
    """How many of `most` users with `at_least` records in both halves find their own second half among everybody's."""
    enough = linkable(users, in_first_half, at_least)
    if not len(enough):
        return Success(0, 0)
    noise = noise or Noise.seeded(SEED)
    shape = (int(users.max()) + 1, int(categories.max()) + 1)
    mine, other = (_profiles(users[half], categories[half], shape, enough) for half in (in_first_half, ~in_first_half))
    tried = min(len(enough), most or len(enough), max(1, MOST_COMPARED // len(enough)))
    chosen = np.sort(noise.stream("attack: people to link").permutation(len(enough))[:tried])
    lots = noise.stream("attack: equally near").below(LOTS, tried)
    rows = max(1, AT_ONCE // len(enough))
    right = 0
    for start in range(0, tried, rows):
        part = chosen[start : start + rows]
        near = np.asarray((mine[part] @ other.T).todense())
        nearest = near >= near.max(axis=1, keepdims=True) - EQUALLY_NEAR
        place = (lots[start : start + rows] * nearest.sum(axis=1)) // LOTS  # which of those equally near is taken
        each = np.arange(len(part))
        right += int((nearest[each, part] & (np.cumsum(nearest, axis=1)[each, part] - 1 == place)).sum())
    return Success(right, tried)


def linkable(
    users: npt.NDArray[np.integer], in_first_half: npt.NDArray[np.bool_], at_least: int = AT_LEAST
) -> npt.NDArray[np.intp]:
    """The users with `at_least` records in both halves."""
    if not len(users):
        return np.zeros(0, np.intp)
    size = int(users.max()) + 1
    first, second = (np.bincount(users[half], minlength=size) for half in (in_first_half, ~in_first_half))
    return np.flatnonzero((first >= at_least) & (second >= at_least))


def halves(records: int) -> npt.NDArray[np.bool_]:
    """The first half of a log in its order."""
    return np.arange(records) < records // 2


def _profiles(
    users: npt.NDArray[np.integer],
    categories: npt.NDArray[np.integer],
    shape: tuple[int, int],
    rows: npt.NDArray[np.integer],
) -> sparse.csr_matrix:
    ones = np.ones(len(users))
    table = sparse.csr_matrix((ones, (users, categories)), shape=shape)[rows]
    lengths = np.sqrt(np.asarray(table.multiply(table).sum(axis=1)).ravel())
    return sparse.csr_matrix(sparse.diags_array(1 / lengths) @ table)


MOST_LINKED = 3000
PROFILE_DEPTH = 2


class ProfileLinkage:
    """A3: link two halves of the release by interests; needs no secrets."""

    key: ClassVar[str] = "profile-linkage"
    title: ClassVar[str] = "Two halves linked by interests"
    question: ClassVar[Question] = "linkability"
    counts_toward_risk: ClassVar[bool] = True

    def run(self, context: AuditContext) -> Found:
        """The findings, or what is missing."""
        title = self.title
        sides = [
            _sides(context, context.original.frame, context.original_users, context.original_texts),
            _sides(context, context.released.frame, context.released_names, context.released_texts),
        ]
        able = [linkable(users, first) for users, _, first in sides]
        if min(map(len, able)) < 2:
            where = "release" if len(able[1]) < 2 else "raw log"
            yield LeftOut(
                title=title, reason=f"fewer than 2 users of the {where} have {AT_LEAST} records in both halves"
            )
            return
        raw, shown = (
            profile_linkage(users, categories, first, most=MOST_LINKED, noise=context.fresh_noise())
            for users, categories, first in sides
        )
        yield risk(
            "profiles-linked", title, "profile linkage", "linkability", shown,
            f"Share of the pseudonyms with at least {AT_LEAST} records in each half of the release whose "
            "second half has the categories nearest to the first, among all of them; of those equally near one is "
            "drawn; the raw log likewise with its users.",
            raw=raw.share, chance=1 / len(able[1]), population="pseudonyms with enough records",
            detail=f"{shown.tried:,} pseudonyms, each among {len(able[1]):,}.",
        )  # fmt: skip


def _sides(
    context: AuditContext, frame: pl.DataFrame, users: npt.NDArray[np.int32], texts: npt.NDArray[np.int32]
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32], npt.NDArray[np.bool_]]:
    """Users, categories, and who is in the first half: by time, or every other record of a user without times."""
    categories = context.categories
    depth = int(context.parameters.get("depth") or PROFILE_DEPTH)
    cut = cut_to_depth(categories.parents, categories.depths, depth)[categories.of_text[texts]]
    known = cut > 0
    released_has_times = context.released.frame["time"].null_count() < len(context.released)
    if released_has_times and not frame["time"].null_count():
        order = np.argsort(frame["time"].to_physical().to_numpy(), kind="stable")
        first = np.zeros(len(frame), np.bool_)
        first[order[: len(order) // 2]] = True
    else:
        order = np.argsort(users, kind="stable")
        first = np.zeros(len(frame), np.bool_)
        first[order] = np.arange(len(order)) % 2 == 0
    return users[known], cut[known], first[known]

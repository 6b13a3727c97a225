"""User ids that are written differently and yet may be one person.

Two ids are similar if they are the same after `folding.folded`: they differ only in blanks around, in case, in Unicode
form or in invisible characters. Ids are never merged here. Whether `ANN` and `ann` are one person only the holder can
know (short random ids may well differ in case alone), and whichever way one guessed, somebody would be wrong without
being told: merged, two people share a budget and a group; apart, one person counts as two where a promise needs k. So
reading notes how many there are, a safe release refuses them unless told that they are different people, and an opt-out
takes all that are similar, because leaving too much out breaks no promise.

Cost: a scan of the distinct ids; only those with a capital, a blank at an end or anything outside ASCII are folded.

>>> users = pl.Series(["ann", "ANN ", "a\\u200bnn", "bob", "eve"])
>>> similar_ids(users)
3
>>> gone, unknown = ids_meant(users, ["Ann", "joe"])
>>> sorted(gone) == ["ANN ", "ann", "a\\u200bnn"], unknown
(True, 1)
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

import polars as pl

from queryveil.log.folding import folded

SIMILAR_IDS: Final = "user ids that differ only in blanks around, case, Unicode form or invisible characters"

_MAY_CHANGE: Final = r"[^\x20-\x40\x5b-\x7e]|^ | $"
"""What an id must hold to become another one when it is folded."""


def similar_ids(users: pl.Series) -> int:
    """How many of these distinct ids are similar to another one."""
    if not users.str.contains(_MAY_CHANGE).any():
        return 0
    forms = _forms(users)["form"]
    return int(forms.is_duplicated().sum())


def ids_meant(users: pl.Series, named: Collection[str]) -> tuple[list[str], int]:
    """Those of distinct ids that are named or similar to a named one, and how many of the named mean none of them."""
    wanted = _forms(pl.Series(list(named), dtype=pl.String)).filter(pl.col("form") != "")
    there = _forms(users)
    gone = there.filter(pl.col("form").is_in(wanted["form"].implode()) | pl.col("id").is_in(list(named)))["id"]
    return gone.to_list(), wanted.filter(~pl.col("form").is_in(there["form"].implode())).height


def _forms(ids: pl.Series) -> pl.DataFrame:
    """The ids with their folded forms, in whatever order."""
    frame = ids.rename("id").to_frame()
    may_change = pl.col("id").str.contains(_MAY_CHANGE)
    same, other = frame.filter(~may_change), frame.filter(may_change)
    return pl.concat([same.with_columns(form=pl.col("id")), other.with_columns(form=folded("id"))])

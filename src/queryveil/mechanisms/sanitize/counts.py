"""Who clicked what, how often, as integer arrays: the c_ijk of Hong et al. (2012).

A pair is a (query, url); one entry is a user who clicked a pair, with the number of clicks. Entries are sorted by pair,
then by user, so the users of a pair lie together.

>>> table = pl.DataFrame({"user": list("aba"), "query": list("qqr"), "url": list("uuv"), "count": [2, 1, 5]})
>>> counts = ClickCounts.of(table)
>>> counts.pairs, counts.without_unique_pairs().pairs
(2, 1)
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from queryveil.arrays import Flags, Floats, Longs
from queryveil.errors import DataError

LARGEST_TOTAL = 2**53
"""Counts stay below this in sum, so that a float holds each of them exactly."""


@dataclass(frozen=True)
class ClickCounts:
    """Entries (user, pair, count) and the names behind the numbers."""

    user: Longs
    pair: Longs
    count: Longs
    user_names: pl.Series
    pair_names: pl.DataFrame

    @classmethod
    def of(cls, clicks: pl.DataFrame) -> ClickCounts:
        """From a table `user, query, url, count`, as `QueryLog.clicks()` gives it; rows of one triplet are added up."""
        count = clicks["count"]
        if not count.dtype.is_integer() or count.null_count() or (len(count) and int(count.min()) < 1):  # type: ignore[arg-type]
            raise DataError("every count of clicks must be a whole number >= 1; at least one row's is not. Drop it.")
        if int(count.cast(pl.Int128).sum()) > LARGEST_TOTAL:
            raise DataError("the counts of clicks add up to more than 2^53, beyond what is computed exactly.")
        table = clicks.group_by("user", "query", "url").agg(pl.col("count").cast(pl.Int64).sum())
        user_names = table["user"].unique().sort()
        pair_names = table.select("query", "url").unique().sort("query", "url")
        numbered = (
            table.join(pair_names.with_row_index("pair"), on=["query", "url"])
            .join(pl.DataFrame({"user": user_names}).with_row_index("number"), on="user")
            .sort("pair", "number")
        )
        return cls(
            user=numbered["number"].to_numpy().astype(np.int64),
            pair=numbered["pair"].to_numpy().astype(np.int64),
            count=numbered["count"].to_numpy().astype(np.int64),
            user_names=user_names,
            pair_names=pair_names,
        )

    @classmethod
    def from_matrix(cls, matrix: npt.ArrayLike) -> ClickCounts:
        """From a small matrix users × pairs of counts, for toys; names are the numbers."""
        dense = np.asarray(matrix)
        pair, user = np.nonzero(dense.T)
        return cls(
            user=user.astype(np.int64),
            pair=pair.astype(np.int64),
            count=dense[user, pair].astype(np.int64),
            user_names=pl.Series("user", [str(k) for k in range(dense.shape[0])], dtype=pl.String),
            pair_names=pl.DataFrame(
                {"query": [f"q{j}" for j in range(dense.shape[1])], "url": [f"u{j}" for j in range(dense.shape[1])]},
                schema={"query": pl.String, "url": pl.String},
            ),
        )

    @property
    def users(self) -> int:
        """How many users there are, with or without an entry left."""
        return len(self.user_names)

    @property
    def pairs(self) -> int:
        """How many distinct pairs there are."""
        return self.pair_names.height

    @property
    def total(self) -> int:
        """|D|, the number of clicks."""
        return int(self.count.sum())

    def totals(self) -> Longs:
        """c_ij: the clicks of each pair."""
        return _grouped_sum(self.pair, self.count, self.pairs)

    def holders(self) -> Longs:
        """How many users clicked each pair."""
        return np.bincount(self.pair, minlength=self.pairs).astype(np.int64)

    def supports(self) -> Floats:
        """c_ij / |D|."""
        supports: Floats = self.totals() / max(self.total, 1)
        return supports

    def without_unique_pairs(self) -> ClickCounts:
        """Only the pairs that at least two users clicked (the paper's preprocessing), and the users who have one."""
        return self._only(self.holders()[self.pair] >= 2)

    def without_user(self, user: int) -> ClickCounts:
        """The neighbour of the log without one user; pairs keep their numbers, also those that become unique or empty.

        Entries of pairs that become unique are dropped, as the preprocessing would.
        """
        others = self.user != user
        holders = np.bincount(self.pair[others], minlength=self.pairs)
        keep = others & (holders[self.pair] >= 2)
        return ClickCounts(self.user[keep], self.pair[keep], self.count[keep], self.user_names, self.pair_names)

    def without_users(self, gone: Flags) -> ClickCounts:
        """The log without some users, preprocessed and numbered anew."""
        others = self._only(~gone[self.user])
        return others.without_unique_pairs()

    def _only(self, keep: Flags) -> ClickCounts:
        users, user = np.unique(self.user[keep], return_inverse=True)
        pairs, pair = np.unique(self.pair[keep], return_inverse=True)
        return ClickCounts(
            user=user.astype(np.int64),
            pair=pair.astype(np.int64),
            count=self.count[keep],
            user_names=self.user_names.gather(users.tolist()),
            pair_names=self.pair_names[pairs.tolist()],
        )


def _grouped_sum(group: Longs, values: Longs, groups: int) -> Longs:
    sums = np.zeros(groups, dtype=np.int64)
    np.add.at(sums, group, values)
    return sums

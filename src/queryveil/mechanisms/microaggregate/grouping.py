"""The search for groups over users who lie in blocks: one machine searches few, blocks of like activity many.

A user's profile is one row (`PROFILED`). Up to `partition.EXACT_UP_TO` users the driver has all profiles and searches
exactly. Similarity counts common categories, so it is large only between users who are both active: the search pairs
users of like activity. So more users are sorted by activity and cut into search blocks, the exact search runs in each,
and those left over in the blocks are searched together. Sorting a wider band by leading interest first, to have users
of one topic in a block, was measured to be worse. Cost: linear.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl

from queryveil.arrays import Ints, Longs
from queryveil.log.query_log import Schema, Table
from queryveil.mechanisms.microaggregate import partition
from queryveil.mechanisms.microaggregate.partition import LEFT_OVER
from queryveil.mechanisms.microaggregate.profiles import (
    CATEGORIES,
    COUNT,
    COUNTS,
    NODES,
    CountedLog,
    Profiles,
    Vocabulary,
    lists_of,
)
from queryveil.mechanisms.microaggregate.publishable import Labels

SIZE, TOTAL, NUMBER, SEARCH, GROUP = "__size", "__total", "__number", "__search", "__group"
REST, SIMILARITY = "__rest", "__similarity"
AT_ONCE = 16_384
PEOPLE: Schema = {"user": pl.String(), SIZE: pl.Int64(), TOTAL: pl.Int64()}
MATRIX: Schema = {NODES: pl.List(pl.Int32()), COUNTS: pl.List(pl.Int32())}
PROFILED: Schema = {**PEOPLE, **MATRIX}
NUMBERED: Schema = {NUMBER: pl.Int32(), SEARCH: pl.Int32(), **MATRIX}
FOUND: Schema = {NUMBER: pl.Int32(), SEARCH: pl.Int32(), GROUP: pl.Int32()}
NEAR: Schema = {REST: pl.Int32(), GROUP: pl.Int32(), SIMILARITY: pl.Int64()}


@dataclass(frozen=True)
class Profiling:
    """A block of users: how many records of each may be published, and the profile of all they asked (Algorithm 1).

    Users of whom nothing may be published are left out.
    """

    labels: Labels

    def __call__(self, block: int, rows: pl.DataFrame) -> pl.DataFrame:
        """A row for each user."""
        shown = pl.when(self.labels.final().is_not_null()).then(COUNT).otherwise(0).cast(pl.Int64)
        sizes = rows.group_by("user").agg(shown.sum().alias(SIZE)).filter(pl.col(SIZE) > 0).sort("user")
        pairs = rows.join(sizes.with_row_index(NUMBER), on="user").sort(NUMBER)  # the order of texts does not matter
        reading = self.labels.reading
        meant = Vocabulary.of_categories(reading.classifier.tree, lists_of(pairs[CATEGORIES]), reading.levels)
        who, counts = pairs[NUMBER].cast(pl.Int32).to_numpy(), pairs[COUNT].to_numpy()
        log = CountedLog(sizes["user"], pairs["query"], who, np.arange(pairs.height, dtype=np.int32), counts)
        profiles = meant.profiles(log)
        return pl.concat([sizes.with_columns(pl.Series(TOTAL, profiles.totals())), profiles.frame()], how="horizontal")


def people_of(profiled: Table) -> pl.DataFrame:
    """Everybody with something to publish, by name: one row for each user."""
    return profiled.map_rows(Chosen(tuple(PEOPLE)), PEOPLE).collect().sort("user")


def search(profiled: Table, users: pl.Series, totals: Longs, k: int, *, node_count: int, join: bool) -> Ints:
    """The group of each of these users, whose place in the series is their number; −1 for fewer than k left over.

    With `join` those left over are put into the group they have most in common with.
    """
    if len(users) <= partition.EXACT_UP_TO:
        profiles = _profiles_of(profiled, users, node_count)
        groups = partition.greedy(profiles, k)
        return partition.join_leftovers(profiles, groups) if join else groups
    groups = search_in_blocks(profiled, users, totals, k, partition.USERS_PER_BLOCK, node_count)
    return _joined(profiled, users, groups, node_count) if join else groups


def search_in_blocks(
    profiled: Table, users: pl.Series, totals: Longs, k: int, users_per_block: int, node_count: int
) -> Ints:
    """The group of each user, searched among users of like activity; −1 for fewer than k left over."""
    blocks = partition.like_activity(totals, users_per_block)
    numbered = pl.DataFrame({"user": users, NUMBER: np.arange(len(users), dtype=np.int32), SEARCH: blocks})
    placed = profiled.map_rows(Chosen(tuple(NUMBERED), numbered), NUMBERED)
    found = placed.map_blocks(SEARCH, Searching(k, node_count), FOUND).collect().sort(NUMBER)  # one row for each user
    inside = found[GROUP].to_numpy()
    made = np.zeros(blocks.max(initial=-1) + 2, np.int64)
    np.maximum.at(made, blocks + 1, inside + 1)
    groups = np.where(inside >= 0, inside + np.cumsum(made)[blocks], LEFT_OVER).astype(np.int32)
    rest = np.flatnonzero(groups == LEFT_OVER)  # fewer than k of each block, or everybody where k is above its size
    again = partition.greedy(_profiles_of(profiled, users.gather(rest), node_count), k)
    groups[rest] = np.where(again >= 0, again + made.sum(), LEFT_OVER)
    return groups


@dataclass(frozen=True)
class Chosen:
    """Chosen columns of rows, of all users or of some and with what is known of those."""

    columns: tuple[str, ...]
    known: pl.DataFrame | None = field(default=None, repr=False)

    def __call__(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Any cut of the records."""
        return (rows if self.known is None else rows.join(self.known, on="user")).select(self.columns)


@dataclass(frozen=True)
class Searching:
    """A block of search blocks: the exact search in each."""

    k: int
    node_count: int

    def __call__(self, block: int, rows: pl.DataFrame) -> pl.DataFrame:
        """The group of each user within their search block."""
        return pl.concat([self._searched(part.sort(NUMBER)) for part in rows.partition_by(SEARCH)])

    def _searched(self, rows: pl.DataFrame) -> pl.DataFrame:
        groups = partition.greedy(Profiles.of_frame(rows, self.node_count), self.k, all_cores=False)
        return rows.select(NUMBER, SEARCH, pl.Series(GROUP, groups))


@dataclass(frozen=True)
class Nearness:
    """How similar groups are to each user left over."""

    rest: pl.DataFrame = field(repr=False)
    groups: pl.DataFrame = field(repr=False)
    node_count: int

    def __call__(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Of any cut of the records, the part that its users have in it."""
        # Some users at a time: profiles are taken apart and put together again, each time into other memory.
        parts = [self._of_some(some) for some in rows.iter_slices(AT_ONCE)] or [self._of_some(rows)]
        return pl.concat(parts).group_by(REST, GROUP).agg(pl.col(SIMILARITY).sum())

    def _of_some(self, rows: pl.DataFrame) -> pl.DataFrame:
        rows = rows.join(self.groups, on="user")
        both = Profiles.of_frame(
            pl.concat([self.rest.select(NODES, COUNTS), rows.select(NODES, COUNTS)]), self.node_count
        )
        found = []
        for number, row in enumerate(partition.similarity_rows(both, np.arange(self.rest.height))):
            near = rows.select(GROUP, pl.Series(SIMILARITY, row[self.rest.height :])).filter(pl.col(SIMILARITY) > 0)
            found.append(near.select(pl.lit(number).alias(REST), GROUP, SIMILARITY))
        return pl.concat(found).group_by(REST, GROUP).agg(pl.col(SIMILARITY).sum())

    def nearest(self, block: int, rows: pl.DataFrame) -> pl.DataFrame:
        """Of a block of groups the one nearest to each user left over, the lowest number among equals."""
        whole = rows.group_by(REST, GROUP).agg(pl.col(SIMILARITY).sum())
        return whole.sort(REST, -pl.col(SIMILARITY), GROUP).group_by(REST).first()


def _joined(profiled: Table, users: pl.Series, groups: Ints, node_count: int) -> Ints:
    """`partition.join_leftovers` where the profiles lie in blocks."""
    rest = np.flatnonzero(groups == LEFT_OVER)
    joined = groups.copy()
    if not len(rest) or len(rest) == len(groups):
        return joined
    placed = pl.DataFrame({"user": users, GROUP: groups}).filter(pl.col(GROUP) != LEFT_OVER)
    alone = _rows_of(profiled, users.gather(rest))
    nearness = Nearness(alone, placed, node_count)
    near = profiled.map_rows(nearness, NEAR).map_blocks(GROUP, nearness.nearest, NEAR).collect()  # k rows a block
    best = nearness.nearest(0, near)
    joined[rest] = 0  # who has nothing in common with anybody
    joined[rest[best[REST].to_numpy()]] = best[GROUP].to_numpy()
    return joined


def _profiles_of(profiled: Table, users: pl.Series, node_count: int) -> Profiles:
    return Profiles.of_frame(_rows_of(profiled, users), node_count)


def _rows_of(profiled: Table, users: pl.Series) -> pl.DataFrame:
    """The profiles of few users, in their order: up to EXACT_UP_TO, or those left over."""
    numbered = pl.DataFrame({"user": users, NUMBER: np.arange(len(users), dtype=np.int32)})
    schema: Schema = {NUMBER: pl.Int32(), **MATRIX}
    return profiled.map_rows(Chosen(tuple(schema), numbered), schema).collect().sort(NUMBER)

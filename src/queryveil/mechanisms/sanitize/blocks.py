"""Sanitize's passes over the records as pure functions of one block, for one machine and for a cluster alike.

An entry is a user who clicked a pair (query, url). What concerns a user is done in blocks of users, what concerns a
pair in blocks of queries, so that all pairs of a query share a block. Before rows travel from one cut to another, they
are thinned out or added up where they lie (`map_rows`); the sums do not depend on where that was.

Cost: a hash of every click and a sort of the entries of each block.

>>> from queryveil.log.query_log import LocalTable
>>> clicks = pl.DataFrame({"user": list("abac"), "query": list("qqrr"), "url": ["u", "u", None, "v"]})
>>> shared_entries(LocalTable(clicks, blocks=2)).collect().sort("user").rows()
[('a', 'q', 'u', 1), ('b', 'q', 'u', 1)]
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl

from queryveil.arrays import Longs
from queryveil.log.query_log import Schema, Table, in_canonical_order
from queryveil.mechanisms.sanitize import synthetic_users
from queryveil.mechanisms.sanitize.counts import ClickCounts
from queryveil.mechanisms.sanitize.selection import Selection, contributed
from queryveil.privacy import Noise
from queryveil.privacy.noise import NoiseStream, NoiseStreams
from queryveil.release.release import Renaming

PAIR = ("query", "url")
ENTRY: Schema = {"user": pl.String(), "query": pl.String(), "url": pl.String()}
COUNTED_ENTRY: Schema = {**ENTRY, "count": pl.Int64()}
PEOPLE: Schema = {"query": pl.String(), "url": pl.String(), "people": pl.Int64()}
TOPICAL: Schema = {"user": pl.String(), "pair": pl.Int32(), "topic": pl.Int32()}
SUMS: Schema = {"cell": pl.Int32(), "users": pl.Int64()}


# Safe mode


def contributions(table: Table, noise: Noise, contribution: int) -> Table:
    """At most `contribution` distinct pairs of each user; kept, because pairs and users are counted from it."""
    bound = partial(_bound, noise.streams("sanitize: contributions", table.blocks), contribution)
    return _clicks(table).map_blocks("user", bound, ENTRY).kept()


def people_of_pairs(entries: Table, noise: Noise, selection: Selection) -> pl.DataFrame:
    """The published pairs with their noisy numbers of people, sorted by their texts.

    Only these come to this machine. Each has some threshold's worth of people, so they are a small part of the entries.
    """
    select = partial(_select, noise.streams("sanitize: people of pairs", entries.blocks), selection)
    return entries.map_rows(_people, PEOPLE).map_blocks("query", select, PEOPLE).collect().sort(PAIR)


def lengths_and_meetings(
    entries: Table, pairs: pl.DataFrame, topic: Longs, noise: Noise, contribution: int
) -> tuple[Longs, Longs]:
    """How many users have 1, 2, …, `contribution` published pairs, and which topics meet in one user; no noise yet.

    A block sends one number for each cell that a user of it is in: at most `contribution` + TOPICS².
    """
    numbered = pairs.select(*PAIR, pl.int_range(pl.len(), dtype=pl.Int32).alias("pair"), pl.Series("topic", topic))
    sum_cells = partial(_sum_cells, noise.streams("sanitize: two pairs of a user", entries.blocks), contribution)
    topical = entries.map_rows(partial(_with_topics, numbered), TOPICAL, keeps=["user"])
    sums = topical.map_blocks("user", sum_cells, SUMS).collect()
    cells = np.zeros(contribution + synthetic_users.TOPICS**2, dtype=np.int64)
    np.add.at(cells, sums["cell"].to_numpy(), sums["users"].to_numpy())
    return cells[:contribution], cells[contribution:].reshape(synthetic_users.TOPICS, synthetic_users.TOPICS)


def _bound(streams: NoiseStreams, contribution: int, block: int, rows: pl.DataFrame) -> pl.DataFrame:
    """Step 1 for a block of users."""
    entries = in_canonical_order(rows.unique())
    mine = contributed(_numbers(entries["user"]), streams[block], contribution)
    return entries.filter(pl.Series(mine))


def _people(entries: pl.DataFrame) -> pl.DataFrame:
    """The people of each pair among these entries; every entry is another person."""
    return entries.group_by(PAIR).agg(pl.len().alias("people"))


def _select(streams: NoiseStreams, selection: Selection, block: int, rows: pl.DataFrame) -> pl.DataFrame:
    """Step 2 for a block of queries."""
    pairs = rows.group_by(PAIR).agg(pl.col("people").sum()).sort(PAIR)
    kept, noisy = selection.apply(pairs["people"].to_numpy(), streams[block])
    return pairs.filter(pl.Series(kept)).with_columns(pl.Series("people", noisy))


def _with_topics(pairs: pl.DataFrame, entries: pl.DataFrame) -> pl.DataFrame:
    """The entries of published pairs, with number and topic of the pair."""
    return entries.join(pairs, on=PAIR).select(*TOPICAL)


def _sum_cells(streams: NoiseStreams, contribution: int, block: int, rows: pl.DataFrame) -> pl.DataFrame:
    """Steps 3 and 4 for a block of users: the cells of both tables, one after the other."""
    rows = in_canonical_order(rows)
    user, topic = _numbers(rows["user"]), rows["topic"].to_numpy().astype(np.int64)
    lengths = synthetic_users.length_histogram(user, contribution)
    meetings = synthetic_users.meeting_topics(user, topic, streams[block], synthetic_users.TOPICS)
    cells = np.concatenate([lengths, meetings.ravel()])
    filled = np.flatnonzero(cells)
    return pl.DataFrame({"cell": filled, "users": cells[filled]})


# Paper mode


def shared_entries(table: Table) -> Table:
    """`user, query, url, count` of the pairs that at least two users clicked; kept, for the solver and the sampling."""
    return _clicks(table).map_blocks("query", _shared, COUNTED_ENTRY).kept()


def of_users(entries: Table, users: pl.Series) -> Table:
    """The entries of these users only."""
    return entries.map_rows(partial(_of_users, users), COUNTED_ENTRY)


def sampled(entries: Table, pairs: pl.DataFrame, x: Longs, noise: Noise) -> Table:
    """x trials for each pair over the users who hold it, one row for each trial, under fresh names."""
    wanted = pairs.select(*PAIR, pl.Series("x", x)).filter(pl.col("x") > 0)
    sample = partial(_sample, noise.streams("sanitize: user sampling", entries.blocks), wanted)
    drawn = entries.map_blocks("query", sample, ENTRY)
    return drawn.map_blocks("user", Renaming.of(noise, entries.blocks), Renaming.schema(ENTRY))


def _shared(block: int, rows: pl.DataFrame) -> pl.DataFrame:
    """A block of queries: clicks added up, pairs of one user dropped."""
    entries = rows.group_by(*ENTRY).agg(pl.len().alias("count"))
    return entries.filter(pl.len().over(PAIR) >= 2)


def _of_users(users: pl.Series, entries: pl.DataFrame) -> pl.DataFrame:
    return entries.filter(pl.col("user").is_in(users.implode()))


def _sample(streams: NoiseStreams, wanted: pl.DataFrame, block: int, rows: pl.DataFrame) -> pl.DataFrame:
    """The multinomial trials of a block of queries, given how many each pair has (`query, url, x`)."""
    counts = ClickCounts.of(rows.join(wanted, on=PAIR, how="semi"))  # sorted by pair and user
    x = counts.pair_names.join(wanted, on=PAIR, how="left", maintain_order="left")["x"].to_numpy()
    return sample_users(counts, x, streams[block]).rows_of(counts)


@dataclass(frozen=True)
class Drawn:
    """Sampled clicks: user, pair, and how often."""

    user: Longs
    pair: Longs
    count: Longs

    def rows_of(self, counts: ClickCounts) -> pl.DataFrame:
        """`user, query, url` by the names of the counts drawn from; one row for each click."""
        rows = np.repeat(np.arange(len(self.count)), self.count)
        users = counts.user_names.gather(self.user[rows]).alias("user")
        return counts.pair_names[self.pair[rows]].select(users, "query", "url")


def sample_users(counts: ClickCounts, x: Longs, stream: NoiseStream) -> Drawn:
    """x_ij multinomial trials for each pair over the users who hold it: a user with probability c_ijk / c_ij each.

    A uniform whole number below c_ij falls on one of the pair's clicks, so the law is exact and the sampled totals
    equal x.

    >>> counts = ClickCounts.from_matrix([[2, 0], [5, 1], [0, 3]])
    >>> drawn = sample_users(counts, np.array([0, 7]), Noise.seeded(1).stream("users"))
    >>> sorted(set(drawn.user.tolist())), drawn.count.sum().item()
    ([1, 2], 7)
    """
    totals = counts.totals()
    if (x[totals == 0] > 0).any():
        raise ValueError("a pair without clicks cannot be sampled.")
    pair = np.repeat(np.arange(counts.pairs), x)
    upper = np.cumsum(counts.count)  # entries are sorted by pair: a pair's clicks lie together
    before = np.cumsum(totals) - totals
    click = before[pair] + stream.below(totals[pair]) if len(pair) else pair
    entry = np.searchsorted(upper, click, side="right")
    drawn, count = np.unique(entry, return_counts=True)
    return Drawn(counts.user[drawn], counts.pair[drawn], count.astype(np.int64))


# Both


def _clicks(table: Table) -> Table:
    return table.map_rows(_clicked, ENTRY, keeps=["user"])


def _clicked(rows: pl.DataFrame) -> pl.DataFrame:
    """`user, query, url` of the records with a click."""
    return rows.lazy().filter(pl.col("url").is_not_null()).select(*ENTRY).collect()


def _numbers(sorted_users: pl.Series) -> Longs:
    """0, 1, 2, … for the users of a sorted column."""
    return sorted_users.rle_id().to_numpy().astype(np.int64)

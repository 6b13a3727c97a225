"""Weighted selection, the default of safe mode: queries first, then clicks on published queries.

A fixed cap of d pairs a person wastes most of a budget: who has three pairs is blurred as if they had d. Here everybody
spends all they have, however many queries they asked.

1. *Queries.* A person's distinct queries, at most `most_queries`, chosen at random, have weight 1/√d each. A query is
   published where its sum of weights with noise exceeds a threshold; see `privacy/set_union.py`.
2. *Clicks.* The same for a person's distinct (query, url), counted among published queries only: those are few, so a
   person's weight is on what may come out at all.
3. *Counts.* The *items* are the published clicks, and each published query without one of them. A person has an item
   when they clicked it; and the query alone when they asked it and clicked none of its published urls (or none at all).
   Everybody with up to 4 items counts in full for each, who has d > 4 counts 2/√d for each.
4. *Lengths.* How many people have 1, 2, … items. 5. *Topics.* Which topics meet in one person.

Sums of steps 3 to 5 have noise on every cell and no threshold: what may have a count was published before. All sums are
of whole numbers, so blocks add up to the same numbers on any engine. `weighted_budget.py` has the noise, `proof.md` the
proof. A text that identifies by itself, or that some formats cannot hold, is dropped after it was selected.

Cost: one grouping of the records by user and text, then work on records of published queries only.
"""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import polars as pl

from queryveil.arrays import Longs
from queryveil.log.identifying import can_be_written, is_identifying
from queryveil.log.query_log import Schema, Table, in_canonical_order
from queryveil.mechanisms.sanitize import synthetic_users
from queryveil.mechanisms.sanitize.safe import Published
from queryveil.mechanisms.sanitize.synthetic_users import TOPICS
from queryveil.mechanisms.sanitize.weighted_budget import LENGTHS, WeightedSelection
from queryveil.privacy import Noise
from queryveil.privacy.noise import NoiseStreams
from queryveil.privacy.set_union import equal_weights, keep_above, weights_of

ASKED: Schema = {"user": pl.String(), "query": pl.String()}
ENTRY: Schema = {"user": pl.String(), "asked": pl.Int32(), "url": pl.String()}
"""A record of a published query, by the query's number."""
QUERY_WEIGHT: Schema = {"query": pl.String(), "weight": pl.Int64()}
CLICK_WEIGHT: Schema = {"asked": pl.Int32(), "url": pl.String(), "weight": pl.Int64()}
CELLS: Schema = {"cell": pl.Int64(), "weight": pl.Int64()}

UNLIKE = 0.15
"""How far the weights of one click's people may be from the mean of all, relatively."""
LARGEST_RATIO = 4.0
"""People for each unit of weight: who has the most clicks that count weighs a quarter for each."""
CLEAR = 2.0
"""In standard deviations of the noise: a cell below it is taken as empty."""


def publish(table: Table, noise: Noise, rule: WeightedSelection) -> Published:
    """All steps, over a table with `user, query, url`: the only ones that see private data."""
    rule.compute()
    queries = select_queries(table, noise, rule)
    entries = table.map_rows(partial(_of_queries, queries), ENTRY, keeps=["user"]).kept()
    items = items_of(queries, select_clicks(entries, queries, noise, rule))
    topic = synthetic_users.topics_of(items, items["weight"].to_numpy()) if items.height else np.zeros(0, np.int64)
    sums = sum_cells(entries, items.with_columns(pl.Series("topic", topic)), noise, rule)
    return Published(
        pairs=items.select("query", "url"),
        people=at_least_once(items) if rule.keys_only else estimate_people(items, sums["counts"], rule),
        lengths=_clear(sums["lengths"], rule.sigmas["lengths"], rule.unit),
        topic=topic,
        meetings=_clear(sums["topics"], rule.sigmas["topics"], rule.unit).reshape(TOPICS, TOPICS),
    )


# Step 1


def select_queries(table: Table, noise: Noise, rule: WeightedSelection) -> pl.DataFrame:
    """`query, weight`, numbered by place: the published texts, sorted. Only these come to this machine."""
    weigh = partial(_weigh_queries, noise.streams("sanitize: queries of users", table.blocks), rule)
    select = partial(_select, noise.streams("sanitize: queries", table.blocks), "queries", rule)
    weighed = table.map_rows(_asked, ASKED, keeps=["user"]).map_blocks("user", weigh, QUERY_WEIGHT)
    published = weighed.map_blocks("query", select, QUERY_WEIGHT).collect()
    return published.filter(~is_identifying("query") & can_be_written("query")).sort("query")


def _asked(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.select(*ASKED)


def _weigh_queries(streams: NoiseStreams, rule: WeightedSelection, block: int, rows: pl.DataFrame) -> pl.DataFrame:
    """Sums of weights of the queries of a block of users."""
    entries = rows.unique()
    entries = entries.with_columns(pl.len().over("user").alias("keys"))
    most = rule.most_keys["queries"]
    few, many = entries.filter(pl.col("keys") <= most), in_canonical_order(entries.filter(pl.col("keys") > most))
    weight = np.concatenate(
        [
            equal_weights(few["keys"].to_numpy().astype(np.int64), rule.unit),
            weights_of(_numbers(many["user"]), streams[block], most_keys=most, unit=rule.unit),
        ]
    )
    weighed = pl.concat([few, many]).select("query", pl.Series("weight", weight))
    return weighed.filter(pl.col("weight") > 0).group_by("query").agg(pl.col("weight").sum())


def _select(streams: NoiseStreams, union: str, rule: WeightedSelection, block: int, rows: pl.DataFrame) -> pl.DataFrame:
    """The published keys of a block of keys: each that anybody has gets noise of its own, in the order of texts."""
    names = [name for name in rows.columns if name != "weight"]
    keys = rows.group_by(names).agg(pl.col("weight").sum()).sort(names)
    kept, noisy = keep_above(
        keys["weight"].to_numpy(), streams[block], sigma=rule.sigmas[union], threshold=rule.thresholds[union]
    )
    return keys.filter(pl.Series(kept, dtype=pl.Boolean)).with_columns(pl.Series("weight", noisy))


# Step 2


def _of_queries(queries: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """The distinct entries of published queries among these rows."""
    numbered = queries.select("query", pl.int_range(pl.len(), dtype=pl.Int32).alias("asked"))
    return (
        rows.lazy().select("user", "query", "url").join(numbered.lazy(), on="query").select(*ENTRY).unique().collect()
    )


def select_clicks(entries: Table, queries: pl.DataFrame, noise: Noise, rule: WeightedSelection) -> pl.DataFrame:
    """`asked, url, weight` of the published clicks."""
    weigh = partial(_weigh_clicks, noise.streams("sanitize: clicks of users", entries.blocks), rule)
    select = partial(_select, noise.streams("sanitize: clicks", entries.blocks), "clicks", rule)
    published = entries.map_blocks("user", weigh, CLICK_WEIGHT).map_blocks("url", select, CLICK_WEIGHT).collect()
    return published.filter(~is_identifying("url") & can_be_written("url"))


def _weigh_clicks(streams: NoiseStreams, rule: WeightedSelection, block: int, rows: pl.DataFrame) -> pl.DataFrame:
    """Sums of weights of the clicks of a block of users."""
    clicks = in_canonical_order(rows.filter(pl.col("url").is_not_null()).unique())
    weight = weights_of(_numbers(clicks["user"]), streams[block], most_keys=rule.most_keys["clicks"], unit=rule.unit)
    weighed = clicks.select("asked", "url", pl.Series("weight", weight)).filter(pl.col("weight") > 0)
    return weighed.group_by("asked", "url").agg(pl.col("weight").sum())


# Steps 3 to 5


def items_of(queries: pl.DataFrame, clicks: pl.DataFrame) -> pl.DataFrame:
    """`item, asked, query, url, weight`: each published query by itself, where url is null, and the clicks."""
    asked = pl.int_range(pl.len(), dtype=pl.Int32).alias("asked")
    alone = queries.select(asked, pl.lit(None, pl.String()).alias("url"), "weight")
    every = pl.concat([alone, clicks]).sort("asked", "url", nulls_last=False)
    names = queries["query"].gather(every["asked"].cast(pl.UInt32))
    return every.select(pl.int_range(pl.len(), dtype=pl.Int64).alias("item"), "asked", names, "url", "weight")


def sum_cells(entries: Table, items: pl.DataFrame, noise: Noise, rule: WeightedSelection) -> dict[str, Longs]:
    """The sums of all cells of counts (one for each item), lengths and topics, with noise."""
    streams = noise.streams("sanitize: two items of a user", entries.blocks)
    cells = {"counts": items.height, "lengths": LENGTHS, "topics": TOPICS**2}
    parts = entries.map_blocks("user", partial(_cells, streams, items.drop("query", "weight"), rule), CELLS)
    found = parts.map_blocks("cell", _sum, CELLS).collect()
    totals = np.zeros(sum(cells.values()), np.int64)
    totals[found["cell"].to_numpy()] = found["weight"].to_numpy()
    places = np.cumsum([0, *cells.values()])
    return {
        step: totals[place : place + size]
        + noise.stream(f"sanitize: {step}").discrete_gaussian(rule.sigmas[step], size)
        for (step, size), place in zip(cells.items(), places[:-1], strict=True)
        if step in rule.sigmas
    }


def _cells(
    streams: NoiseStreams, items: pl.DataFrame, rule: WeightedSelection, block: int, rows: pl.DataFrame
) -> pl.DataFrame:
    """What the users of a block add to the cells: the items, then lengths, then topics that meet."""
    held = _held(items, rows)
    user, item = _numbers(held["user"]), held["item"].to_numpy()
    mine = np.bincount(user)[user]
    counts = equal_weights(np.maximum(mine, rule.counted_in_full), rule.unit)
    first = np.concatenate([[True], user[1:] != user[:-1]]) if len(user) else np.zeros(0, np.bool_)
    length = items.height + np.minimum(mine[first], LENGTHS) - 1
    meetings = synthetic_users.meeting_topics(user, held["topic"].to_numpy(), streams[block], TOPICS).ravel()
    met = np.flatnonzero(meetings)
    added = pl.DataFrame(
        {
            "cell": np.concatenate([item, length, items.height + LENGTHS + met]),
            "weight": np.concatenate([counts, np.full(len(length), rule.unit), rule.unit * meetings[met]]),
        }
    )
    return added.group_by("cell").agg(pl.col("weight").sum())


def _held(items: pl.DataFrame, rows: pl.DataFrame) -> pl.DataFrame:
    """`user, item, topic` of the items that each user has, sorted: clicks, and queries without a published one."""
    clicked = rows.join(items, on=["asked", "url"])
    alone = rows.select("user", "asked").unique().join(clicked, on=["user", "asked"], how="anti")
    alone = alone.join(items.filter(pl.col("url").is_null()), on="asked")
    held = pl.concat([part.select("user", "item", "topic") for part in (clicked, alone)])
    return in_canonical_order(held.unique())


def _sum(block: int, rows: pl.DataFrame) -> pl.DataFrame:
    return rows.group_by("cell").agg(pl.col("weight").sum())


def estimate_people(items: pl.DataFrame, counts: Longs, rule: WeightedSelection) -> Longs:
    """The people of each item, from the noisy sums alone.

    A click has two: its count, and the weight it was selected by, with less noise but for people of any number of
    clicks. How many people a weight stands for, over all clicks, is told by both; the mean of that and of the count by
    their variances is taken. A query alone is shown beside its clicks where its count is clear of the noise.
    """
    scale = math.sqrt(rule.counted_in_full) / rule.unit
    counted, noise = counts * scale, rule.sigmas["counts"] * scale
    weight, click = items["weight"].to_numpy() / rule.unit, items["url"].is_not_null().to_numpy()
    ratio = float(np.clip(counted[click].sum() / max(weight[click].sum(), 1.0), 1.0, LARGEST_RATIO))
    by_weight = ratio * weight
    unsure = (ratio * rule.sigmas["clicks"] / rule.unit) ** 2 + (UNLIKE * by_weight) ** 2
    both = (counted * unsure + by_weight * noise**2) / (unsure + noise**2)
    least = at_least_once(items)
    alone = np.where((least > 0) | (counted > CLEAR * noise), counted, 0.0)
    return np.maximum(least, np.rint(np.where(click, both, alone)).astype(np.int64))


def _clear(sums: Longs, sigma: int, unit: int) -> Longs:
    """People in each cell, 0 where noise alone may have made it: half of the noise in empty cells is upwards."""
    return np.where(sums > CLEAR * sigma, np.rint(sums / unit), 0).astype(np.int64)


def at_least_once(items: pl.DataFrame) -> Longs:
    """One for each click, and for each query that has none published."""
    clicks = items.select(pl.col("url").is_not_null().sum().over("asked")).to_series()
    return (items["url"].is_not_null() | (clicks == 0)).to_numpy().astype(np.int64)


def _numbers(sorted_users: pl.Series) -> Longs:
    """0, 1, 2, … for the users of a sorted column."""
    return sorted_users.rle_id().to_numpy().astype(np.int64)

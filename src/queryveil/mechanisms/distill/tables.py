"""The noisy tables: the only step that sees private data.

Blocks of people send sums of whole numbers, which add up to the same whatever the blocks; blocks of keys add noise and
keep what exceeds the threshold. Everything else in the package of this mechanism works on `NoisyTables` alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl

from queryveil.arrays import Longs
from queryveil.log.table import Schema, Table
from queryveil.mechanisms.distill import contributions, unions
from queryveil.mechanisms.distill.budget import CELLS, MOST_KEYS, Budget
from queryveil.mechanisms.distill.texts import Asked
from queryveil.privacy import Noise
from queryveil.privacy.noise import Stream, Streams
from queryveil.privacy.set_union import keep_above

TABLES = (*CELLS, "pairs")
"""Tables whose cells are numbers; `pairs` is a union of them."""
PAIRS = len(CELLS)
PARTS = 4096
NUMBERED: Schema = {"table": pl.Int32(), "cell": pl.Int64(), "weight": pl.Int64(), "part": pl.Int32()}
NAMED: Schema = {"table": pl.String(), "key": pl.String(), "weight": pl.Int64()}


@dataclass(frozen=True)
class NoisyTables:
    """All that leaves the private side. Numbers are in units of 1/`UNIT`."""

    cells: Mapping[str, Longs]
    """The tables with public cells."""
    pairs: pl.DataFrame
    """`cell, weight` of the published pairs of words."""
    unions: Mapping[str, pl.DataFrame]
    """`key, weight` of the other unions."""
    budget: Budget


def collect(table: Table, noise: Noise, budget: Budget) -> NoisyTables:
    """Sum what people add, and add the noise."""
    choose = {name: noise.streams(f"distill: keys of {name}", table.blocks) for name in MOST_KEYS}
    numbered = table.map_blocks("user", partial(_numbered, choose["pairs"]), NUMBERED).kept()
    named = table.map_blocks("user", partial(_named, choose), NAMED)
    cells = _public(numbered, noise, budget)
    select = partial(_select_pairs, noise.streams("distill: pairs", table.blocks), budget)
    pairs = numbered.map_rows(_only_pairs, NUMBERED).map_blocks("part", select, NUMBERED).collect()
    streams = {name: noise.streams(f"distill: {name}", table.blocks) for name in MOST_KEYS if name != "pairs"}
    keys = named.map_blocks("key", partial(_select_keys, streams, budget), NAMED).collect()
    return NoisyTables(
        cells=cells,
        pairs=pairs.select("cell", "weight").sort("cell"),
        unions={
            name: keys.filter(table=name).select("key", "weight").sort("weight", "key", descending=[True, False])
            for name in streams
        },
        budget=budget,
    )


def _numbered(streams: Streams, block: int, rows: pl.DataFrame) -> pl.DataFrame:
    """Sums of a block of people, and the weights of their pairs of words."""
    asked = Asked.of(rows)
    person, pair = unions.word_pairs(asked)
    weight = unions.weights_of(person, "pairs", streams[block])
    sums = contributions.sums(asked)
    sums["pair_total"] = contributions.total_weight("pairs", person, weight)
    sums["head_total"] = contributions.total_weight("head", *unions.head_weights(asked))
    made = [(TABLES.index(name), np.flatnonzero(total), total[total != 0]) for name, total in sums.items()]
    summed = pl.DataFrame({"cell": pair, "weight": weight}).filter(pl.col("weight") > 0)
    summed = summed.group_by("cell").agg(pl.col("weight").sum())
    made.append((PAIRS, summed["cell"].to_numpy(), summed["weight"].to_numpy()))
    return pl.concat(
        pl.DataFrame({"cell": cell, "weight": weight}).with_columns(
            pl.lit(number, dtype=pl.Int32).alias("table"), (pl.col("cell") % PARTS).alias("part")
        )
        for number, cell, weight in made
    )


def _named(streams: Mapping[str, Streams], block: int, rows: pl.DataFrame) -> pl.DataFrame:
    """The weights of the keys that are texts, of a block of people."""
    found = unions.text_keys(Asked.of(rows))
    made = []
    for name in sorted(set(MOST_KEYS) - {"pairs"}):
        mine = found.filter(table=name)
        weight = unions.weights_of(mine["person"].to_numpy().astype(np.int64), name, streams[name][block])
        made.append(mine.select("table", "key", pl.Series("weight", weight)))
    return pl.concat(made).filter(pl.col("weight") > 0).group_by("table", "key").agg(pl.col("weight").sum())


def _public(numbered: Table, noise: Noise, budget: Budget) -> dict[str, Longs]:
    """The tables with public cells: every cell gets noise, also those that nobody touched."""
    sums = numbered.map_rows(_only_public, NUMBERED).collect()
    cells = {}
    for number, name in enumerate(CELLS):
        total = np.zeros(contributions.cells_of(name), np.int64)
        mine = sums.filter(table=number)
        np.add.at(total, mine["cell"].to_numpy(), mine["weight"].to_numpy())
        cells[name] = total + noise.stream(f"distill: {name}").discrete_gaussian(budget.sigmas[name], len(total))
    return cells


def _only_public(rows: pl.DataFrame) -> pl.DataFrame:
    shown = rows.filter(pl.col("table") < PAIRS).group_by("table", "cell").agg(pl.col("weight").sum())
    return shown.with_columns(pl.lit(0, dtype=pl.Int32).alias("part"))


def _only_pairs(rows: pl.DataFrame) -> pl.DataFrame:
    return rows.filter(pl.col("table") == PAIRS)


def _select_pairs(streams: Streams, budget: Budget, block: int, rows: pl.DataFrame) -> pl.DataFrame:
    """The published pairs of a block of pairs; each pair of words that anybody has gets noise of its own."""
    pairs = rows.group_by("cell").agg(pl.col("table", "part").first(), pl.col("weight").sum()).sort("cell")
    return _published(pairs, "pairs", budget, streams[block])


def _select_keys(streams: Mapping[str, Streams], budget: Budget, block: int, rows: pl.DataFrame) -> pl.DataFrame:
    """The published keys of a block of keys, of all unions."""
    kept = []
    for name in sorted(streams):
        keys = rows.filter(table=name).group_by("table", "key").agg(pl.col("weight").sum()).sort("key")
        kept.append(_published(keys, name, budget, streams[name][block]))
    return pl.concat(kept)


def _published(keys: pl.DataFrame, name: str, budget: Budget, stream: Stream) -> pl.DataFrame:
    """The keys whose noisy weight exceeds the threshold, with it."""
    kept, noisy = keep_above(
        keys["weight"].to_numpy(), stream, sigma=budget.sigmas[name], threshold=budget.thresholds[name]
    )
    return keys.filter(pl.Series(kept, dtype=pl.Boolean)).with_columns(pl.Series("weight", noisy))

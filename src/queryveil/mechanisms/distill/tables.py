"""The noisy tables: the only step that sees private data.

Blocks of people send sums of whole numbers, which add up to the same whatever the blocks; blocks of keys add noise and
keep what exceeds the threshold. Everything else in the package of this mechanism works on `NoisyTables` alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import polars as pl

from queryveil.arrays import Longs
from queryveil.log.query_log import Schema, Table, block_numbers
from queryveil.mechanisms.distill import contributions, unions
from queryveil.mechanisms.distill.budget import CELLS, MOST_KEYS, Budget
from queryveil.mechanisms.distill.texts import Asked, distinct
from queryveil.privacy import Noise
from queryveil.privacy.noise import NoiseStreams
from queryveil.privacy.set_union import keep_above

UNIONS = ("pairs", *sorted(set(MOST_KEYS) - {"pairs"}))
TABLES = (*CELLS, *UNIONS)
"""All tables by number: those with public cells, then the unions, of which `pairs` has numbers for keys."""
PAIRS = len(CELLS)
PARTS = 4096
SUMS: Schema = {"table": pl.Int32(), "cell": pl.Int64(), "key": pl.String(), "weight": pl.Int64(), "part": pl.Int32()}
"""What a cell or a key has in sum; `part`, which all rows of it share, says who adds it up."""


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
    """Sum what people add, and add the noise: first to the number of people, by which all others have their shares."""
    choose = {name: noise.streams(f"distill: keys of {name}", table.blocks) for name in UNIONS}
    return add_noise(table.map_blocks("user", partial(_of_people, choose), SUMS, combine=_added_up), noise, budget)


def add_noise(sums: Table, noise: Noise, budget: Budget) -> NoisyTables:
    """The noisy tables from blocks' sums."""
    sums = sums.kept()
    people = _noisy("users", sums.map_rows(_people, SUMS).collect(), noise, budget)
    budget = budget.for_people(int(people[0]))
    streams = {name: noise.streams(f"distill: {name}", sums.blocks) for name in UNIONS}
    found = sums.map_blocks("part", partial(_of_keys, streams, budget), SUMS).collect()
    keys = {name: found.filter(table=TABLES.index(name)) for name in UNIONS}
    return NoisyTables(
        cells={name: people if name == "users" else _noisy(name, found, noise, budget) for name in CELLS},
        pairs=keys.pop("pairs").select("cell", "weight").sort("cell"),
        unions={
            name: rows.select("key", "weight").sort("weight", "key", descending=[True, False])
            for name, rows in keys.items()
        },
        budget=budget,
    )


def _people(rows: pl.DataFrame) -> pl.DataFrame:
    """The sums that are of the number of people."""
    return rows.filter(table=TABLES.index("users"))


def _of_people(choose: Mapping[str, NoiseStreams], block: int, rows: pl.DataFrame) -> pl.DataFrame:
    """Sums of a block of people: of cells, of pairs of words, and of keys that are texts."""
    asked = Asked.of(rows)
    person, pair = unions.word_pairs(asked)
    weight = unions.weights_of(person, "pairs", choose["pairs"][block])
    cells = contributions.sums(asked)
    found = unions.text_keys(asked)
    cells["pair_total"] = contributions.total_weight("pair_total", person)
    cells["head_total"] = contributions.total_weight("head_total", found["head"].person)
    made = [(TABLES.index(name), np.flatnonzero(sums), sums[sums != 0]) for name, sums in cells.items()]
    pair, weight = pair[weight > 0], weight[weight > 0]
    pairs = distinct(pair)
    made.append((PAIRS, pairs, _summed(np.searchsorted(pairs, pair), weight, len(pairs))))
    named = []
    for number_of_table, name in enumerate(UNIONS[1:], PAIRS + 1):
        keys = found[name]
        total = _summed(keys.number, unions.weights_of(keys.person, name, choose[name][block]), len(keys.names))
        named.append(_named(number_of_table, keys.names.gather(np.flatnonzero(total)), total[total != 0]))
    return pl.concat([_numbered(*map(np.concatenate, zip(*_with_numbers(made), strict=True))), *named])


def _summed(place: Longs, weight: Longs, places: int) -> Longs:
    """The weight of each place; whole numbers far below 2^53, so that floats add them up exactly."""
    return np.bincount(place, weight, minlength=places).astype(np.int64)


def _with_numbers(made: Sequence[tuple[int, Longs, Longs]]) -> list[tuple[Longs, Longs, Longs]]:
    return [(np.full(len(cell), table), cell, weight) for table, cell, weight in made]


def _numbered(table: Longs, cell: Longs, weight: Longs) -> pl.DataFrame:
    return pl.DataFrame({"table": table, "cell": cell, "weight": weight}).select(
        pl.col("table").cast(pl.Int32),
        "cell",
        pl.lit(None, pl.String).alias("key"),
        "weight",
        (pl.col("cell") % PARTS).cast(pl.Int32).alias("part"),
    )


def _named(table: int, key: pl.Series, weight: Longs) -> pl.DataFrame:
    return pl.DataFrame(
        {
            "table": np.full(len(key), table, np.int32),
            "cell": np.zeros(len(key), np.int64),
            "key": key,
            "weight": weight,
            "part": block_numbers(key, PARTS).astype(np.int32),
        }
    )


def _added_up(rows: pl.DataFrame) -> pl.DataFrame:
    """The same sums with one row for each cell and pair; texts are added up where all of one text are together."""
    numbered = rows.filter(pl.col("table") <= PAIRS)
    numbered = numbered.group_by("table", "cell").agg(pl.col("weight").sum(), pl.col("key", "part").first())
    return pl.concat([numbered.select(rows.columns), rows.filter(pl.col("table") > PAIRS)])


def _noisy(name: str, found: pl.DataFrame, noise: Noise, budget: Budget) -> Longs:
    """A table with public cells: every cell gets noise, also those that nobody touched."""
    total = np.zeros(contributions.cells_of(name), np.int64)
    mine = found.filter(table=TABLES.index(name))
    np.add.at(total, mine["cell"].to_numpy(), mine["weight"].to_numpy())
    return total + noise.stream(f"distill: {name}").discrete_gaussian(budget.sigmas[name], len(total))


def _of_keys(streams: Mapping[str, NoiseStreams], budget: Budget, block: int, rows: pl.DataFrame) -> pl.DataFrame:
    """A block of cells and keys, added up: cells as they are, and the keys that are published, with noise.

    Each key that anybody has gets noise of its own.
    """
    cells = rows.filter(pl.col("table") < PAIRS).group_by("table", "cell").agg(pl.col("weight").sum())
    kept = [_numbered(*(cells[name].to_numpy() for name in ("table", "cell", "weight")))]
    for number, name in enumerate(UNIONS, PAIRS):
        by = "cell" if name == "pairs" else "key"
        keys = rows.filter(table=number).group_by(by).agg(pl.col("weight").sum()).sort(by)
        shown, noisy = keep_above(
            keys["weight"].to_numpy(), streams[name][block],
            sigma=budget.sigmas[name], threshold=budget.thresholds[name],
        )  # fmt: skip
        mine = keys[by].filter(pl.Series(shown, dtype=pl.Boolean))
        if by == "cell":
            kept.append(_numbered(np.full(len(mine), number), mine.to_numpy(), noisy))
        else:
            kept.append(_named(number, mine, noisy))
    return pl.concat(kept)

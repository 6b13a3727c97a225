"""The noisy tables as files beside the log: what an analyst reads, and what a model is loaded from.

Every row has its noisy `weight` in whole numbers, `value`, the same in people's unit vectors, and `sigma`, the standard
deviation of the noise of `value`: a 95 % interval of the true sum is value ± 1.96 sigma. Rows of unions were selected
by a threshold, so their values are a little too high near it (`index` has the threshold).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

import numpy as np
import polars as pl

from queryveil.arrays import Longs
from queryveil.errors import DataError, ParameterError, VerificationError
from queryveil.knowledge.word_prior import START
from queryveil.mechanisms.distill.budget import (
    BEFORE,
    CELLS,
    CLASSES,
    FOLLOW_LENGTHS,
    FOLLOWS,
    GAP_BUCKETS,
    HOURS,
    LENGTHS,
    MOST_KEYS,
    RANKS,
    RECORD_BUCKETS,
    SESSION_LENGTHS,
    SHARES,
    UNIT,
    Budget,
    shares,
)
from queryveil.mechanisms.distill.contributions import cells_of, classes_of_words
from queryveil.mechanisms.distill.known_queries import KINDS, known_names
from queryveil.mechanisms.distill.tables import NoisyTables
from queryveil.mechanisms.distill.texts import vocabulary
from queryveil.mechanisms.distill.unions import SEPARATOR, pair_base
from queryveil.release.manifest import TABLES, verify

EXAMPLES = 3
NOT_OURS = "the tables of the release are not as this version writes them."
LARGEST_WEIGHT = UNIT << 40
"""More than a unit for each person that could be."""
KEYS = {"own_words": ("word",), "head": ("query",), "clicks": ("query", "url"), "hosts": ("topic", "host")}
"""What the parts of a union's keys are called."""


def frames(tables: NoisyTables) -> dict[str, pl.DataFrame]:
    """Every table with labels, weights and the size of their noise, and an index of them."""
    made = {name: _with_noise(_labels(name), cells, tables, name) for name, cells in tables.cells.items()}
    words = pl.concat([_labels("words")["word"], pl.Series([START])])
    cell = tables.pairs["cell"].to_numpy()
    pairs = {"first": words.gather(cell // pair_base()), "second": words.gather(cell % pair_base())}
    made["pairs"] = _with_noise(pairs, tables.pairs["weight"].to_numpy(), tables, "pairs")
    for name, keys in tables.unions.items():
        halves = keys["key"].str.splitn(SEPARATOR, len(KEYS[name])).struct.rename_fields(list(KEYS[name]))
        made[name] = _with_noise(halves.struct.unnest().to_dict(), keys["weight"].to_numpy(), tables, name)
    portions = shares(tables.budget.regime)
    made["index"] = pl.DataFrame(
        {
            "table": list(portions),
            "share": [float(share) for share in portions.values()],
            "sigma": [tables.budget.sigmas[name] / UNIT for name in SHARES],
            "threshold": [tables.budget.thresholds[name] / UNIT if name in MOST_KEYS else None for name in SHARES],
            "knowledge": [vocabulary().digest] * len(SHARES),
        }
    )
    return made


def load(folder: str | Path, key: str | Path | None = None) -> NoisyTables:
    """The noisy tables of a release folder, after it was verified."""
    from queryveil.mechanisms.distill.distillation import Distill  # which writes them

    manifest = verify(folder, key).manifest
    if not {f"{name}.parquet" for name in ("index", *SHARES)} <= set(manifest.get(TABLES, {})):
        raise DataError("the release holds no tables that a model could be made from.")
    try:
        found = {name: pl.read_parquet(Path(folder) / TABLES / f"{name}.parquet") for name in ("index", *SHARES)}
        made_by = Distill(**{name: manifest["parameters"][name] for name in ("epsilon", "delta")})
        promised = {name: manifest["guarantee"][name] for name in ("model", "epsilon", "delta")}
        expected = made_by.guarantee().as_dict()
        if manifest["mechanism"] != made_by.name or any(promised[name] != expected[name] for name in promised):
            raise ValueError
    except (KeyError, TypeError, ValueError, OverflowError, ParameterError, pl.exceptions.PolarsError):
        raise VerificationError(NOT_OURS) from None
    return parsed(found, made_by.budget)


def parsed(found: Mapping[str, pl.DataFrame], budget: Budget) -> NoisyTables:
    """The noisy tables that published ones are: those from which this version would write the same."""
    try:
        tables = _parsed(found, budget)
        if any(not frame.equals(found[name]) for name, frame in frames(tables).items()):
            raise ValueError  # labels, σ, shares or thresholds of another version, or of nobody's
        return tables
    except (KeyError, IndexError, TypeError, ValueError, OverflowError, ParameterError, pl.exceptions.PolarsError):
        raise VerificationError(NOT_OURS) from None


def _parsed(found: Mapping[str, pl.DataFrame], budget: Budget) -> NoisyTables:
    if found["index"]["knowledge"][0] != vocabulary().digest:
        raise VerificationError("the release was made with other public word lists or classes than are installed.")
    for name in SHARES:
        weights = found[name]["weight"]
        if weights.dtype != pl.Int64 or weights.null_count() or (weights.abs() > LARGEST_WEIGHT).any():
            raise ValueError
    budget = budget.for_people(int(found["users"]["weight"][0]))
    for name in MOST_KEYS:
        keys = found[name].select(KEYS.get(name, ("first", "second")))
        if keys.null_count().sum_horizontal().item() or keys.is_duplicated().any():
            raise ValueError
        if (found[name]["weight"] <= budget.thresholds[name]).any():
            raise ValueError
    cells = {name: found[name]["weight"].to_numpy() for name in CELLS}
    if any(len(cells[name]) != cells_of(name) for name in CELLS):
        raise ValueError
    numbers = vocabulary().numbers | {START: pair_base() - 1}
    pairs = found["pairs"]
    first, second = (pairs[name].replace_strict(numbers, return_dtype=pl.Int64) for name in ("first", "second"))
    return NoisyTables(
        cells=cells,
        pairs=pl.DataFrame({"cell": first * pair_base() + second, "weight": pairs["weight"]}).sort("cell"),
        unions={
            name: found[name].select(pl.concat_str(*names, separator=SEPARATOR).alias("key"), "weight")
            for name, names in KEYS.items()
        },
        budget=budget,
    )


def _with_noise(labels: Mapping[str, pl.Series], weight: Longs, tables: NoisyTables, name: str) -> pl.DataFrame:
    sigma = tables.budget.sigmas[name] / UNIT
    return pl.DataFrame(dict(labels)).with_columns(
        pl.Series("weight", weight), pl.Series("value", weight / UNIT), pl.lit(sigma).alias("sigma")
    )


@cache
def _labels(name: str) -> Mapping[str, pl.Series]:
    """What the cells of a table mean, which is public and the same for every release."""
    if name in ("topics_64", "topics_512", "topics_3000"):
        level = ("topics_64", "topics_512", "topics_3000").index(name)
        return {"class": _counting(CLASSES[level]), "examples": pl.Series(examples(level))}
    if name in ("phrases_64", "phrases_512"):
        classes = CLASSES[("phrases_64", "phrases_512").index(name)]
        return dict(zip(("class_before", "class"), _grid(BEFORE, classes), strict=True))
    if name in ("people", "successions"):
        names = ("class", "other_class") if name == "people" else ("class_before", "class")
        return dict(zip(names, _grid(CLASSES[0], CLASSES[0]), strict=True))
    if name == "follows":
        kind, length = _grid(len(FOLLOWS), FOLLOW_LENGTHS)
        return {"how": pl.Series(FOLLOWS).gather(kind), "words": length + 1}
    if name == "words":
        return {"word": pl.Series([*vocabulary().words.to_list(), None], dtype=pl.String)}
    if name == "queries":
        return {"query": known_names()}
    if name == "query_kinds":
        return {"kind": pl.Series(KINDS)}
    if name == "records":
        return {"at_least": pl.Series(1 << np.arange(RECORD_BUCKETS))}
    if name == "gaps":
        return {"seconds_at_least": pl.Series((1 << np.arange(GAP_BUCKETS)) - 1)}
    counts = {
        "users": ("people", 1, 0),
        "query_total": ("people", 1, 0),
        "pair_total": ("people", 1, 0),
        "head_total": ("people", 1, 0),
        "session_lengths": ("queries", SESSION_LENGTHS, 1),
        "lengths": ("words", LENGTHS, 1),
        "hours": ("hour_of_week", HOURS, 0),
        "ranks": ("rank", RANKS, 0),
    }
    label, cells, first = counts[name]
    return {label: _counting(cells) + first}


def examples(level: int) -> list[str | None]:
    """The most frequent words of each class, publicly."""
    words, classes = vocabulary().words.to_list(), classes_of_words()[level][:-1]
    order = np.argsort(classes, kind="stable")  # words are sorted by their public counts
    begins = np.searchsorted(classes[order], np.arange(CLASSES[level]))
    shown = [" ".join(words[n] for n in order[begin : begin + EXAMPLES]) for begin in begins[:-1]]
    return [*shown, None]


def _counting(cells: int) -> pl.Series:
    return pl.Series(np.arange(cells))


def _grid(rows: int, columns: int) -> tuple[pl.Series, pl.Series]:
    return pl.Series(np.repeat(np.arange(rows), columns)), pl.Series(np.tile(np.arange(columns), rows))

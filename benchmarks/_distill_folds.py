"""The AOL sample in five folds by person, for `distill.py`: sums of each fold's tables, and test words as numbers."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import polars as pl

import queryveil
from queryveil.log import QueryLog
from queryveil.mechanisms.distill import contributions, unions
from queryveil.mechanisms.distill.budget import BEFORE, CELLS, CLASSES, MOST_KEYS, REGIMES, SHARES, UNIT, Budget
from queryveil.mechanisms.distill.tables import NoisyTables
from queryveil.mechanisms.distill.texts import Asked, vocabulary
from queryveil.privacy import Noise

FOLDS = 5
DATA = Path(os.environ.get("QUERYVEIL_DATA", "../shared/data")) / "aol" / "aol-1017-users.tsv.gz"


@dataclass(frozen=True)
class ScaledBudget(Budget):
    """The noise as it would be beside the sums of so many times the people."""

    larger: float = 1.0

    @property
    def _whole(self) -> Budget:
        return Budget(self.epsilon, self.delta, self.regime)

    @cached_property
    def sigmas(self) -> dict[str, int]:
        """σ divided by how many times larger the log would be."""
        return {name: max(1, round(sigma / self.larger)) for name, sigma in self._whole.sigmas.items()}

    @cached_property
    def thresholds(self) -> dict[str, int]:
        """Thresholds divided alike."""
        whole = self._whole.thresholds
        return {name: max(1, round(threshold / self.larger)) for name, threshold in whole.items()}


@dataclass(frozen=True)
class Fold:
    """One fifth of the people: the sums of their tables, and their words in order."""

    people: int
    sums: dict[str, np.ndarray]
    pairs: pl.DataFrame
    head: pl.DataFrame
    before: np.ndarray
    word: np.ndarray
    person: np.ndarray

    @classmethod
    def of(cls, log: QueryLog) -> Fold:
        """From their records."""
        asked = Asked.of(log.frame)
        person, pair = unions.word_pairs(asked)
        weight = unions.weights_of(person, "pairs", Noise.seeded(1).stream("pairs"))
        sums = contributions.sums(asked)
        sums["pair_total"] = contributions.total_weight("pair_total", person)
        keys = unions.text_keys(asked)["head"]
        sums["head_total"] = contributions.total_weight("head_total", keys.person)
        given = unions.weights_of(keys.person, "head", Noise.seeded(1).stream("head"))
        owner, text = asked.distinct()
        which, place = asked.texts.spread(text)
        return cls(
            asked.people,
            sums,
            _summed(pl.DataFrame({"cell": pair, "weight": weight}), "cell"),
            _summed(pl.DataFrame({"key": keys.names.gather(keys.number), "weight": given}), "key"),
            asked.texts.before(start=len(vocabulary()) + 1)[place],
            asked.texts.numbers[place],
            owner[which],
        )


def _summed(rows: pl.DataFrame, by: str) -> pl.DataFrame:
    return rows.filter(pl.col("weight") > 0).group_by(by).agg(pl.col("weight").sum()).sort(by)


def read_folds() -> list[Fold]:
    """The folds, the same each time."""
    log = queryveil.read(DATA, format="aol")
    users = log.users()
    number = pl.Series(np.random.default_rng(2026).permutation(len(users)) % FOLDS)
    fold = log.frame["user"].replace_strict(users, number, return_dtype=pl.Int64)
    return [Fold.of(QueryLog(log.frame.filter(fold == k))) for k in range(FOLDS)]


def plain_tables(before: np.ndarray, word: np.ndarray) -> NoisyTables:
    """Any log's plain counts of words and phrases, without noise, for the same estimation; every count is a unit."""
    classes = contributions.classes_of_words()
    row = np.append(classes[0], BEFORE - 1)[before]
    cells = {name: np.zeros(contributions.cells_of(name), np.int64) for name in CELLS}
    for level, name in enumerate(("topics_64", "topics_512", "topics_3000")):
        cells[name] = np.bincount(classes[level][word], minlength=CLASSES[level]) * UNIT
    for level, name in enumerate(("phrases_64", "phrases_512")):
        counts = np.bincount(row * CLASSES[level] + classes[level][word], minlength=BEFORE * CLASSES[level])
        cells[name] = counts * UNIT
    cells["words"] = np.bincount(word, minlength=len(vocabulary()) + 1) * UNIT
    nothing = pl.DataFrame(schema={"key": pl.String(), "weight": pl.Int64()})
    none = pl.DataFrame(schema={"cell": pl.Int64(), "weight": pl.Int64()})
    unions_of = {name: nothing for name in MOST_KEYS if name != "pairs"}
    return NoisyTables(
        cells=cells, pairs=none, unions=unions_of, budget=ScaledBudget(8.0, 1e-8, REGIMES - 1, larger=1e6)
    )


def noisy_tables(folds: list[Fold], budget: Budget, seed: int) -> NoisyTables:
    """The tables of the people of these folds with the noise of a budget."""
    noise = Noise.seeded(seed)
    sums = {name: sum(fold.sums[name] for fold in folds) for name in folds[0].sums}
    cells: dict[str, np.ndarray] = {}
    for name in ("users", *(name for name in sums if name != "users")):
        total = sums[name]
        cells[name] = total + noise.stream(name).discrete_gaussian(budget.sigmas[name], len(total))
        if name == "users":  # which says what noise the others have
            budget = budget.for_people(int(cells[name][0]))
    kept = {}
    for name, by in (("pairs", "cell"), ("head", "key")):
        rows = _summed(pl.concat([getattr(fold, name) for fold in folds]), by)
        drawn = noise.stream(f"union {name}").discrete_gaussian(budget.sigmas[name], rows.height)
        rows = rows.with_columns(pl.col("weight") + pl.Series(drawn))
        kept[name] = rows.filter(pl.col("weight") > budget.thresholds[name])
    nothing = pl.DataFrame(schema={"key": pl.String(), "weight": pl.Int64()})
    other = {name: nothing for name in MOST_KEYS if name not in kept}
    assert set(cells) | set(MOST_KEYS) == set(SHARES)
    return NoisyTables(cells=cells, pairs=kept["pairs"], unions=other | {"head": kept["head"]}, budget=budget)

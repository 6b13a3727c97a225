"""Canaries for the audit of a claim in one run: people who are in the log or not.

A canary asks one public word, no two of one class, so that its whole vector lies in cells that nobody else touches, in
several tables at once: the most that a person can move. The evidence is the likelihood of four of them together.
*Busy* ones ask many texts of that word, in case texts count instead of people; *lone* ones ask a text of their own,
which nobody should see.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from queryveil.arrays import Flags, Floats, Longs
from queryveil.log import QueryLog
from queryveil.mechanisms.distill.budget import BEFORE, CLASSES
from queryveil.mechanisms.distill.contributions import classes_of_words
from queryveil.mechanisms.distill.texts import vocabulary

if TYPE_CHECKING:
    from queryveil.mechanisms.distill.distillation import Distill
    from queryveil.release.release import Release

CLASSES_OF_ONE: Final = CLASSES[1] - 2
LONE: Final = 2_000
TEXTS: Final = 40
"""How many texts a busy canary asks: its word once, twice, three times, …"""


@dataclass(frozen=True)
class AddedPeople:
    """People who are in the log or not, and ask a word, or a text, of their own."""

    name: str
    canaries: int
    texts: int
    lone: bool

    def log(self, coins: Flags) -> QueryLog:
        """Somebody who is always there, and the canaries whose coin is heads."""
        there = np.flatnonzero(coins)
        number = np.repeat(there, self.texts)
        turn = np.tile(np.arange(self.texts), len(there))
        word = self._words().gather(number)
        rows = pl.DataFrame({"number": number, "turn": turn, "word": word}).select(
            pl.format("canary {}", "number").alias("user"),
            pl.concat_str(pl.col("word").repeat_by(pl.col("turn") + 1).list.join(" ")).alias("query"),
        )
        always = pl.DataFrame({"user": ["other"], "query": ["weather"]})
        return QueryLog(pl.concat([always, rows]))

    def evidence(self, release: Release) -> Floats:
        """The log-likelihood ratio of each canary's cells, or whether its text is published."""
        if self.lone:
            shown = set(release.tables["head"]["query"])
            return np.array([float(word in shown) for word in self._words()])
        numbers = words_of_classes()
        classes = classes_of_words()
        start = BEFORE - 1
        # A busy canary's word follows itself more often than it follows the start.
        before = start if self.texts == 1 else classes[0][numbers]
        cells = {
            "words": numbers,
            "topics_3000": classes[2][numbers],
            "topics_512": classes[1][numbers],
            "phrases_512": before * CLASSES[1] + classes[1][numbers],
        }
        total = np.zeros(len(numbers))
        for table, cell in cells.items():
            frame = release.tables[table]
            value = frame["value"].to_numpy()[cell]
            total += (value - 0.5) / frame["sigma"][0] ** 2
        return total

    def _words(self) -> pl.Series:
        if self.lone:
            return pl.Series([f"qzx{number}" for number in range(self.canaries)])
        return pl.Series(vocabulary().words.to_list()).gather(words_of_classes())


@lru_cache(maxsize=1)
def words_of_classes() -> Longs:
    """The last word of each class of 512, which publicly is the least frequent one."""
    classes = classes_of_words()[1][:-1]
    last = np.zeros(CLASSES[1], np.int64)
    last[classes] = np.arange(len(classes))
    return last[:CLASSES_OF_ONE]


def added_people(mechanism: Distill) -> list[AddedPeople]:
    """Canaries who ask once, who ask many texts, and lone ones."""
    return [
        AddedPeople("added people", CLASSES_OF_ONE, 1, lone=False),
        AddedPeople("busy people", CLASSES_OF_ONE, TEXTS, lone=False),
        AddedPeople("lone texts", LONE, 1, lone=True),
    ]

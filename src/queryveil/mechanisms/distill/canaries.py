"""Canaries for the audit of a claim in one run: people who are in the log or not.

A canary asks one public word that nobody else asks, so that its whole vector lies in one cell of the table of words:
the most that a person can move. The evidence is the cell's noisy value. *Repeating* ones ask it many times over and
under many texts, in case records count; *lone* ones ask a text of their own, which nobody should see.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from queryveil.arrays import Flags, Floats
from queryveil.log import QueryLog
from queryveil.mechanisms.distill.texts import vocabulary

if TYPE_CHECKING:
    from queryveil.mechanisms.distill.distillation import Distill
    from queryveil.release.release import Release

MOST_CANARIES: Final = 2_000
REPEATS: Final = 40
FIRST_RARE_WORD: Final = 150_000
"""From here on the public words are so rare that raking leaves them as they are."""


@dataclass(frozen=True)
class AddedWords:
    """People who are in the log or not, and ask a word, or a text, of their own."""

    name: str
    canaries: int
    repeats: int
    lone: bool

    def log(self, coins: Flags) -> QueryLog:
        """Somebody who is always there, and the canaries whose coin is heads."""
        there = np.flatnonzero(coins)
        numbers = np.repeat(there, self.repeats)
        words = pl.Series(self._asked(), dtype=pl.String)
        rows = pl.DataFrame({"number": numbers}).select(
            pl.format("canary {}", "number").alias("user"), words.gather(numbers).alias("query")
        )
        always = pl.DataFrame({"user": ["other"], "query": ["weather"]})
        return QueryLog(pl.concat([always, rows]))

    def evidence(self, release: Release) -> Floats:
        """The noisy value of each canary's cell, or whether its text is published."""
        asked = pl.DataFrame({"key": self._asked()})
        if self.lone:
            shown = release.tables["head"].select(key="query", value=pl.lit(1.0))
        else:
            shown = release.tables["words"].select(key="word", value=pl.col("value") - 0.5)
        found = asked.join(shown, on="key", how="left", maintain_order="left")["value"].fill_null(0.0)
        return found.to_numpy().astype(np.float64)

    def _asked(self) -> list[str]:
        if self.lone:
            return [f"canary qzx{number}" for number in range(self.canaries)]
        return vocabulary().words.to_list()[FIRST_RARE_WORD : FIRST_RARE_WORD + self.canaries]


def added_words(mechanism: Distill) -> list[AddedWords]:
    """Canaries who ask once, who ask again and again, and lone ones."""
    return [
        AddedWords("added words", MOST_CANARIES, 1, lone=False),
        AddedWords("repeated words", MOST_CANARIES, REPEATS, lone=False),
        AddedWords("lone texts", MOST_CANARIES, 1, lone=True),
    ]

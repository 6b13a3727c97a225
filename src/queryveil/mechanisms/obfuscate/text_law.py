"""The public law of words in small sets, as an attacker reads it: from words that were asked to words that come out.

Only for mechanisms whose words come out of a small public set of their own: then the set itself is told for certain,
whatever ε is, and a person's words are as good as known by their sets. Laws over the whole vocabulary take a sum over
it for each word and say little about far words; for those the attacker goes by the words that come out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl

from queryveil.arrays import Floats, Longs
from queryveil.mechanisms.obfuscate.blending import BlendedWords
from queryveil.mechanisms.obfuscate.selecting import CustomisedWords


@dataclass(frozen=True)
class WordLaw:
    """P(word that comes out | word that was asked)."""

    unit: ClassVar[str] = "word"

    words: CustomisedWords | BlendedWords

    def inputs(self, asked: pl.Series) -> Longs:
        """The number of each word in the vocabulary; −1 for one that is not in it."""
        numbers = self.words.vectors.numbers
        return np.array([numbers.get(word, -1) for word in asked.to_list()], np.int64)

    def chances(self, released: str, inputs: Longs) -> Floats:
        """How likely a word comes out for each input; 0 for a word outside the vocabulary."""
        output = self.words.vectors.numbers.get(released)
        return np.zeros(len(inputs)) if output is None else self.words.chances(output, inputs)

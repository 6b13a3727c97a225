"""Texts as words of a public vocabulary.

A text is cut into runs of letters and digits, in lower case and without accents. What the vocabulary does not hold is
an unknown word: safe mode puts one fixed public word in its place before any noise, so that not even the fact shows;
paper mode leaves it out, as the authors' program does. No unknown word ever comes out as it went in.

>>> vectors = WordVectors.load(most=1000)
>>> said = "The zzzzyx GOVERNMENT!"
>>> [vectors.words[i] for i in Reader(vectors, keep_places=True).indices(said)]
['the', 'the', 'government']
>>> [vectors.words[i] for i in Reader(vectors, keep_places=False).indices(said)]
['the', 'government']
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from queryveil.arrays import Flags, Longs
from queryveil.errors import DataError
from queryveil.knowledge.embeddings import WordVectors
from queryveil.knowledge.engines import terms
from queryveil.knowledge.tagging import normal_text

TOKEN = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
STAND_IN = 0
"""The number of the word that stands in for unknown ones: the vocabulary's first, which is its most frequent."""
MOST_WORDS = 1000


def tokens_of(text: str) -> list[str]:
    """The words of a text as the vocabulary would write them.

    >>> tokens_of("Crohn’s disease, naïve-Bayes 2024 🌷")
    ['crohn', 'disease', 'naive', 'bayes', '2024']
    """
    return [normal_text(token) for token in TOKEN.findall(text)]


def stems_of(text: str) -> frozenset[str]:
    """What an engine sees of a text that stems words and knows no order: two texts alike in this are one query to it.

    >>> stems_of("throat cancers") == stems_of("Cancer of the throat")
    True
    """
    return frozenset(terms(text))


@dataclass(frozen=True)
class Reader:
    """Reads texts against a vocabulary; `keep_places` puts the stand-in where a word is unknown."""

    vectors: WordVectors
    keep_places: bool

    def indices(self, text: str) -> Longs:
        """The words as numbers; a text without any word is one unknown word."""
        numbers = self.vectors.numbers
        known = [numbers.get(token, -1) for token in tokens_of(text)] or [-1]
        if self.keep_places:
            return np.array([STAND_IN if number < 0 else number for number in known], np.int64)
        return np.array([number for number in known if number >= 0], np.int64)

    def known(self, text: str) -> Flags:
        """Which of `indices` are words of the text, and not the stand-in for an unknown one."""
        held = np.array([token in self.vectors.numbers for token in tokens_of(text)] or [False])
        return held if self.keep_places else held[held]

    def query(self, text: str) -> Longs:
        """The words of a query that somebody is about to send; refuses what cannot be obfuscated usefully."""
        tokens = tokens_of(text)
        if not tokens:
            raise DataError("the query has no words. Type at least one word made of letters. Nothing was sent.")
        if len(tokens) > MOST_WORDS:
            raise DataError(
                f"a query may have at most {MOST_WORDS:,} words; this one has {len(tokens):,}. Nothing was sent."
            )
        if not any(token in self.vectors.numbers for token in tokens):
            raise DataError(
                "no word of the query is in the vocabulary, so it cannot be obfuscated. Use other words, or give "
                "another embedding. Nothing was sent."
            )
        return self.indices(text)

    def text(self, indices: Longs) -> str:
        """Numbers as words."""
        return " ".join(self.vectors.words[int(number)] for number in indices)

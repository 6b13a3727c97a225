"""Words of a public vocabulary: how texts are read as words, and what every word mechanism is.

A text is cut into runs of letters and digits, in lower case and without accents. What the vocabulary does not hold is
an unknown word: safe mode puts one fixed public word in its place before any noise, so that not even the fact shows;
paper mode leaves it out, as the authors' program does. No unknown word ever comes out as it went in.

A word mechanism is a random map from words of the vocabulary to words of the same vocabulary.

>>> vectors = WordVectors.load(most=1000)
>>> said = "The zzzzyx GOVERNMENT!"
>>> [vectors.words[i] for i in Reader(vectors, keep_places=True).indices(said)]
['the', 'the', 'government']
>>> [vectors.words[i] for i in Reader(vectors, keep_places=False).indices(said)]
['the', 'government']
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from queryveil.arrays import Flags, Floats, Longs
from queryveil.checks import one_of, real_number, require
from queryveil.errors import DataError, KnowledgeError
from queryveil.knowledge.embeddings import WordVectors
from queryveil.knowledge.engines import terms
from queryveil.knowledge.tagging import normal_text
from queryveil.privacy import Guarantee
from queryveil.privacy.noise import NoiseStream

NOISY = ("cmp", "mhl", "vkr-cmp", "vkr-mhl")
SELECTING = ("tem", "santext", "custext", "wbb")
WORD_MECHANISMS = (*NOISY, *SELECTING)
MOST_EXAMINED = 20
"""Words of a query whose deniability is counted: it takes a look at the whole vocabulary for each."""
SMALLEST_EPSILON, LARGEST_EPSILON = 1e-6, 1e6
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


@dataclass(frozen=True)
class Deniability:
    """How many words, the true one included, an observer finds at least half as likely as the true one."""

    words: int
    how: str
    """Whether that was counted or estimated, and against which observer."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "words", max(1, self.words))  # the true word fits, whatever an estimate rounds to


class WordMechanism(Protocol):
    """Replaces words, each by itself, by a law with a promise of its own for one word; see `guarantee`."""

    @property
    def vectors(self) -> WordVectors:
        """The public vocabulary."""

    @property
    def epsilon(self) -> float:
        """The loss of one word replaced once, for each unit of distance."""

    @property
    def metric(self) -> str:
        """What a unit of distance is: losses of a word add up over all mechanisms that measure alike.

        A cut distance is measured as the whole one, which is never smaller.
        """

    @property
    def diameter(self) -> float:
        """No two words are further apart in the guarantee's sense, whatever their vectors; infinite without a cut."""

    def replace(self, indices: Longs, stream: NoiseStream) -> Longs:
        """A drawn word for each word. Words drawn first do not depend on how many follow."""

    def replace_many(self, questions: Sequence[tuple[Longs, NoiseStream]]) -> list[Longs]:
        """What `replace` gives for each question, faster."""

    def guarantee(self) -> Guarantee:
        """What one replacement of one word promises."""

    def chance_unchanged(self, indices: Longs, nearest: Longs) -> Floats:
        """The chance, at least, that each word comes out as it went in; `nearest` are the nearest other words."""

    def distances(self, first: Longs, second: Longs) -> Floats:
        """The distance, in the guarantee's sense, between words pair by pair."""

    def deniability(self, indices: Longs, drawn: Longs, stream: NoiseStream) -> list[Deniability]:
        """For each of the first `MOST_EXAMINED` words, how many words could as well be behind its column of `drawn`.

        `drawn` holds what `replace` gave for the words over and over; `stream` is the one it read from, repeated.
        """


def word_mechanism(
    name: str,
    vectors: WordVectors,
    *,
    epsilon: float,
    t: float = 0.75,
    lambda_: float = 1.0,
    everywhere: bool = True,
) -> WordMechanism:
    """A word mechanism by its name: cmp, mhl, vkr-cmp, vkr-mhl, tem, santext, custext or wbb.

    `t` is the Vickrey mechanisms' leaning to the second word, `lambda_` the regularisation of the Mahalanobis ones;
    `everywhere` False gives wbb as it was published, without a promise.
    """
    require(
        one_of("mechanism", name, WORD_MECHANISMS, suggest="cmp"),
        real_number("epsilon", epsilon, at_least=SMALLEST_EPSILON, at_most=LARGEST_EPSILON, suggest=10.0),
        real_number("t", t, at_least=0, at_most=1, suggest=0.75),
        real_number("lambda", lambda_, at_least=0, at_most=1, suggest=0.5),
    )
    if len(vectors) < 2:
        raise KnowledgeError("a vocabulary needs at least two words, or there is nothing to hide among.")
    if name in NOISY:
        from queryveil.mechanisms.obfuscate.noisy import NoisyWords

        return NoisyWords(
            vectors,
            epsilon=float(epsilon),
            lambda_=float(lambda_) if name.endswith("mhl") else None,
            t=float(t) if name.startswith("vkr") else 0.0,
        )
    from queryveil.mechanisms.obfuscate.selecting import CustomisedWords, SelectedWords

    if name == "wbb":
        from queryveil.mechanisms.obfuscate.blending import BlendedWords

        return BlendedWords(vectors, epsilon=float(epsilon), everywhere=everywhere)
    if name == "custext":
        return CustomisedWords(vectors, epsilon=float(epsilon))
    return SelectedWords(vectors, epsilon=float(epsilon), truncated=name == "tem")

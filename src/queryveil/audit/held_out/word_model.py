"""How likely a word is after another: what a log, or a model that a release publishes, adds to public counts.

The same reader for every release. Public counts give two estimates of P(word | word before), by words and by pairs; a
log's plain counts give two more; a model that is published in tables gives one. They are mixed with weights (Jelinek
and Mercer 1980, "Interpolated estimation of Markov source parameters from sparse data"), which expectation maximisation
fits to one half of the held-out people, for the judgement by the other half, and the other way round. So nobody judges
what was fitted to them, a release that says nothing gets no weight, and the private log has no part in any weight.

Where a word before is not listed, its pairs say what words alone do. Words outside the vocabulary are one word.

>>> fitted(np.array([[0.5, 0.1], [0.25, 0.1]])).round(3).tolist()
[1.0, 0.0]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Protocol

import numpy as np

from queryveil.arrays import Floats, Longs
from queryveil.audit.held_out.searches import Searches, other_word, start_of_text, vocabulary

TEMPER: Final = 0.8
"""Public counts are of the web's pages; queries use its words more evenly, so counts enter by this power."""
PUBLIC_OTHER: Final = 0.03
"""The public share of words outside the vocabulary."""
ROUNDS: Final = 40
LEAST: Final = 1e-12
"""No word is less likely than this, so that one that nothing expects costs no more than 40 bits."""


class WordSource(Protocol):
    """Something that says how likely words are."""

    def estimates(self, before: Longs, word: Longs) -> Floats:
        """P(word | before) by each of its estimates, one column each."""


@dataclass(frozen=True, eq=False)
class Pairs:
    """Shares of second words given the first, for listed pairs only, sorted by both."""

    key: Longs
    share: Floats
    start: Longs
    """Where the pairs of each first word begin."""

    @classmethod
    def of(cls, first: Longs, second: Longs, count: Floats) -> Pairs:
        """From pairs that may be listed more than once."""
        base = start_of_text() + 1
        key, place = np.unique(first.astype(np.int64) * base + second, return_inverse=True)
        summed = np.bincount(place, count, minlength=len(key))
        whole = np.bincount(key // base, summed, minlength=base)
        return cls(key, summed / whole[key // base], np.searchsorted(key, np.arange(base + 1) * base))

    def listed(self, first: Longs) -> Any:
        """Whether anything is known of what follows."""
        return self.start[first + 1] > self.start[first]

    def shares(self, first: Longs, second: Longs) -> Floats:
        """The share of each pair; 0 where it is not listed."""
        if not len(self.key):
            return np.zeros(len(second))
        wanted = np.asarray(first, np.int64) * (start_of_text() + 1) + second
        place = np.searchsorted(self.key, wanted).clip(0, len(self.key) - 1)
        return np.where(self.key[place] == wanted, self.share[place], 0.0)


@dataclass(frozen=True, eq=False)
class WordCounts:
    """Shares of words and of pairs of words."""

    shares: Floats
    pairs: Pairs

    @classmethod
    @lru_cache(maxsize=1)
    def public(cls) -> WordCounts:
        """The public counts: the floor of every judgement."""
        prior = vocabulary()
        words = prior.counts.astype(np.float64) ** TEMPER
        shares = np.append(words / words.sum() * (1 - PUBLIC_OTHER), PUBLIC_OTHER)
        first = prior.pair_first.astype(np.int64)
        first = np.where(first == len(prior), start_of_text(), first)
        value = prior.pair_counts.astype(np.float64) ** TEMPER
        return cls(shares, Pairs.of(first, prior.pair_second.astype(np.int64), value))

    @classmethod
    def of(cls, searches: Searches) -> WordCounts:
        """The plain counts of a log."""
        _, before, word = searches.words
        counts = np.bincount(word, minlength=other_word() + 1).astype(np.float64)
        return cls(counts / max(1.0, counts.sum()), Pairs.of(before, word, np.ones(len(word))))

    def estimates(self, before: Longs, word: Longs) -> Floats:
        """By words, and by pairs."""
        words = self.shares[word]
        return np.column_stack([words, np.where(self.pairs.listed(before), self.pairs.shares(before, word), words)])


@dataclass(frozen=True, eq=False)
class PublishedModel:
    """A model that a release publishes, as its mechanism computes it from the tables (`word_model`)."""

    model: Any

    def estimates(self, before: Longs, word: Longs) -> Floats:
        """By the model."""
        return np.asarray(self.model.probability(before, word), np.float64)[:, None]


def estimates(sources: Sequence[WordSource], before: Longs, word: Longs) -> Floats:
    """The estimates of all sources, one column each."""
    return np.column_stack([source.estimates(before, word) for source in sources])


def fitted(parts: Floats, rounds: int = ROUNDS) -> Floats:
    """The weights under which what was seen is likeliest, by expectation maximisation."""
    weights = np.full(parts.shape[1], 1 / parts.shape[1])
    parts = parts[parts.sum(axis=1) > 0]
    for _ in range(rounds if len(parts) else 0):
        shares = parts * weights
        shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1e-300)
        weights = shares.sum(axis=0) / shares.sum()
    return weights


def halves(person: Longs) -> Longs:
    """Which half of the judges each belongs to: every other one."""
    return person % 2


def weights_for(parts: Floats, half: Longs) -> Floats:
    """For the judges of each half, one row: the weights that the other half's observations give."""
    return np.stack([fitted(parts[half == 1 - side]) for side in (0, 1)])


def mixed(parts: Floats, half: Longs, weights: Floats) -> Floats:
    """The mixture, for each observation with the weights for its half."""
    return np.asarray(np.maximum((parts * weights[half]).sum(axis=1), LEAST))

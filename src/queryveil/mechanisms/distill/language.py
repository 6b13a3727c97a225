"""P(word | word before): a mixture of public and noisy parts with public weights.

    prior word · prior pair, moved by raking · raked word · raked phrase (64, 512 classes) · published pair

Words outside the vocabulary are one outcome, `other`. The weights are constants: fitting them to the private log would
cost privacy (a broken twin in the tests does it).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from queryveil.arrays import Floats, Longs
from queryveil.mechanisms.distill import estimation
from queryveil.mechanisms.distill.budget import BEFORE, CLASSES, LENGTHS, UNIT
from queryveil.mechanisms.distill.contributions import classes_of_words, greatest_weight
from queryveil.mechanisms.distill.shape import share_of
from queryveil.mechanisms.distill.tables import NoisyTables
from queryveil.mechanisms.distill.texts import vocabulary
from queryveil.mechanisms.distill.unions import pair_base

MIXTURE: dict[str, tuple[float, ...]] = {
    "prior": (0.03, 0.02, 0.02, 0.03, 0.08, 0.17, 0.24),
    "pairs": (0.26, 0.26, 0.25, 0.24, 0.21, 0.19, 0.19),
    "words": (0.04, 0.04, 0.02, 0.02, 0.01, 0.01, 0.01),
    "coarse": (0.29, 0.29, 0.32, 0.30, 0.29, 0.23, 0.18),
    "fine": (0.38, 0.39, 0.39, 0.41, 0.41, 0.40, 0.38),
}
"""The weight of each part, by regime (`budget.STEPS`): what the noise leaves of a table is worth the more the less
noise there is beside the people."""
DISCOUNT = 0.9
"""Of a published pair's weight, what one person gives a pair counts so much less (Ney, Essen and Kneser 1994, "On
structuring probabilistic dependences"): what few people have is not what others will ask."""
MOST_PUBLISHED = 0.95
"""Of what follows a word, published pairs make up at most this."""


@dataclass(frozen=True)
class Pairs:
    """Shares of second words given the first, for listed pairs only; sorted by `key` = first · base + second."""

    key: Longs
    share: Floats
    upper: Floats
    """Running sums of the shares within a first word, to draw by."""
    start: Longs
    """Where the pairs of each first word begin."""
    weight: Floats
    """How much the list says about each first word, from 0 (nothing) to 1."""

    @classmethod
    def of(cls, first: Longs, second: Longs, value: Floats, weight: Floats) -> Pairs:
        """From pairs sorted by first and second word."""
        base = pair_base()
        total = np.bincount(first, value, minlength=base)
        share = value / np.maximum(total[first], 1e-300)
        start = np.searchsorted(first, np.arange(base + 1))
        running = np.cumsum(share)
        before = np.concatenate([[0.0], running])[start[:-1]]
        return cls(first * base + second, share, running - before[first], start, np.where(total > 0, weight, 0.0))

    def probability(self, before: Longs, word: Longs) -> Floats:
        """The share of each pair, 0 where it is not listed."""
        wanted = before * pair_base() + word
        if not len(self.key):
            return np.zeros(len(wanted))
        place = np.searchsorted(self.key, wanted).clip(0, len(self.key) - 1)
        return np.where(self.key[place] == wanted, self.share[place], 0.0)


@dataclass(frozen=True)
class Language:
    """The model of words. `START` is the number behind that of `other`."""

    words: estimation.Words
    public_pairs: Pairs
    published_pairs: Pairs
    mixture: Mapping[str, float]
    """The weight of each part."""

    @classmethod
    def of(cls, tables: NoisyTables) -> Language:
        """Estimate everything from the noisy tables."""
        words = estimation.rake(tables)
        mixture = {part: weights[tables.budget.regime] for part, weights in MIXTURE.items()}
        return cls(words, _public_pairs(words), _published_pairs(tables, words), mixture)

    @property
    def other(self) -> int:
        """The number of all words outside the vocabulary."""
        return len(vocabulary())

    @property
    def start(self) -> int:
        """What stands before the first word."""
        return len(vocabulary()) + 1

    @cached_property
    def classes(self) -> Longs:
        """The class of each word at each level."""
        return classes_of_words()

    @cached_property
    def class_before(self) -> Longs:
        """The class of 64 of what may stand before a word."""
        return np.append(self.classes[0], BEFORE - 1)

    def parts(self, before: Longs, word: Longs) -> Floats:
        """P(word | before) by each part of the mixture, one column each, and the weight of published pairs."""
        raked = self.words.raked[word]
        row = self.class_before[before]
        coarse = raked * self.words.coarse[row, self.classes[0][word]]
        fine = raked * self.words.fine[row, self.classes[1][word]]
        listed = self.public_pairs.weight[before] > 0
        pairs = np.where(listed, self.public_pairs.probability(before, word), coarse)
        return np.column_stack([self.words.prior[word], pairs, raked, coarse, fine])

    def probability(self, before: Longs, word: Longs) -> Floats:
        """P(word | before) for each pair of numbers."""
        mixed = self.parts(before, word) @ np.array(list(self.mixture.values()))
        weight = self.published_pairs.weight[before]
        blended: Floats = (1 - weight) * mixed + weight * self.published_pairs.probability(before, word)
        return blended


def _public_pairs(words: estimation.Words) -> Pairs:
    prior = vocabulary()
    first, second = prior.pair_first.astype(np.int64), prior.pair_second.astype(np.int64)
    first = np.where(first == len(prior), pair_base() - 1, first)
    moved = (words.raked[second] / words.prior[second]) ** estimation.PAIR_ADAPTATION
    value = prior.pair_counts.astype(np.float64) ** estimation.PAIR_TEMPER * moved
    return Pairs.of(first, second, value, np.ones(pair_base()))


def _published_pairs(tables: NoisyTables, words: estimation.Words) -> Pairs:
    """What follows a word by published pairs, and how much of all that follows it they are."""
    base = pair_base()
    cell = tables.pairs["cell"].to_numpy()
    first = cell // base
    starts = 1 / float(share_of(tables, "lengths") @ np.arange(1, LENGTHS + 1))
    stands_first = np.append(words.raked * (1 - starts), starts)
    people, each = (max(float(tables.cells[t][0]), float(tables.budget.sigmas[t])) for t in ("users", "pair_total"))
    total = each * greatest_weight("pair_total")
    of_one_person = people * UNIT / total  # a person with d pairs gives them √d in sum and 1/√d each
    value = np.maximum(tables.pairs["weight"].to_numpy() - DISCOUNT * of_one_person, 0.0)
    seen = np.bincount(first, value, minlength=base) / np.maximum(stands_first * total, 1e-9)
    return Pairs.of(first, cell % base, value, np.minimum(seen, MOST_PUBLISHED))


def mass_of_classes(words: Floats, level: int) -> Floats:
    """The share of each class at a level."""
    return estimation.summed(classes_of_words()[level], words, CLASSES[level])

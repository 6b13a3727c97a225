"""TEM, SanText and CusText: draw the answer from a law over words, without noise on vectors.

All three are exponential mechanisms, P(u | w) ∝ e^(−(ε/2) · cost(w, u)):

- **santext** (Yue, Du, Wang, Li, Sun and Chow 2021): the cost is the Euclidean distance d(w, u), over the whole
  vocabulary. Costs of two inputs differ by at most d(w, w′), once in the weight and once in the sum: metric privacy
  with ε·d(w, w′).
- **tem** (Carvalho, Vasiloudis and Feyisetan 2021): the cost is min(d(w, u), γ). That is the paper's law, which takes
  words within γ by their distance and one more outcome that stands for all others and then picks one of them at
  random. Its promise is ε·min(d(w, w′), γ), so no two words ever differ by more than e^(εγ).
  γ = (2/ε)·ln(((1−β)/β)·(N−1)), with which a word further than γ is drawn with probability at most β = 0.001.
- **custext** (Chen, Mo, Wang, Chen, Cui, Zhang and Wei 2023): the vocabulary is cut into sets of 20, each a word and
  the nearest words not yet taken, and the answer is drawn in the word's own set, the cost being the distance scaled to
  [0, 1] in the set and ε/2 the exponent. ε-differential privacy between words of one set; **between words of different
  sets nothing at all**: the answer names the set. Words are taken in the vocabulary's order, which is public.

Weights are turned to whole numbers ≥ 1 that add up to 2^53 or so, and drawn from exactly. What rounding moves in all,
with u = 2^-53: a distance over n coordinates by a share of (n/2 + 2)u, the exponent x by (n/2 + 3)u, twice that and 1
for custext, which divides two distances; so a weight by x·e^(−x) ≤ 1/e times that and 2u, of a sum that is at least 1;
and whole numbers by N·u. The total variation between the law drawn from and the one above is therefore at most N·(n/2 +
8)·u, the guarantee's δ: except with probability δ the answer is that of the law above. It is no additive slack: two
inputs at distance d may differ by (1 + e^(εd))·δ beyond the factor e^(εd).

Cost: one distance to every word for each distinct input of santext and tem; custext compares 20 words, after a
partition that is made once and kept in the cache folder.

>>> vectors = WordVectors.load(most=1000)
>>> stream = Noise.seeded(1).stream("doctest")
>>> tem = SelectedWords(vectors, epsilon=20.0, truncated=True)
>>> len(tem.replace(np.zeros(4, np.int64), stream))
4
"""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from queryveil.arrays import Array, Floats, Longs
from queryveil.knowledge._store import cache_folder, compiled_once
from queryveil.knowledge.embeddings import WordVectors
from queryveil.knowledge.word_distances import WordDistances, exact_distances
from queryveil.mechanisms.obfuscate.words import MOST_EXAMINED, Deniability
from queryveil.privacy import MetricDP
from queryveil.privacy import Noise as Noise
from queryveil.privacy.noise import NoiseStream, integer_weights
from queryveil.progress import each, tell

BETA = 0.001
SET_SIZE = 20
SEEDS_AT_ONCE = 256
NEIGHBOURS_AT_ONCE = 120
DRAWS_AT_ONCE = 32
MOST_COMPARED = 64


def rounding_error(words: int, dimension: int) -> float:
    """The total variation between the law that is drawn from and the ideal one, at most; see above."""
    return words * (dimension / 2 + 8) * 2.0**-53


class SelectedWords:
    """SanText, or TEM where `truncated`."""

    def __init__(self, vectors: WordVectors, *, epsilon: float, truncated: bool) -> None:
        self.vectors = vectors
        self.epsilon = epsilon
        self.truncation = 2 / epsilon * math.log((1 - BETA) / BETA * (len(vectors) - 1)) if truncated else math.inf
        self._recent: dict[int, Longs] = {}
        self._lock = threading.Lock()

    @property
    def metric(self) -> str:
        """That of cmp: what is cut at γ is at most the distance."""
        return "Euclidean"

    @property
    def diameter(self) -> float:
        """γ for tem."""
        return self.truncation

    def replace(self, indices: Longs, stream: NoiseStream) -> Longs:
        """A drawn word for each word."""
        drawn = np.empty(len(indices), np.int64)
        for start in range(0, len(indices), DRAWS_AT_ONCE):  # a law has a number for every word: few at a time
            part = indices[start : start + DRAWS_AT_ONCE]
            laws = {int(index): self._cumulative(int(index)) for index in part}
            chances = stream.below(np.array([laws[int(index)][-1] for index in part]))
            drawn[start : start + len(part)] = [
                np.searchsorted(laws[int(index)], chance, side="right")
                for index, chance in zip(part, chances, strict=True)
            ]
        return drawn

    def replace_many(self, questions: Sequence[tuple[Longs, NoiseStream]]) -> list[Longs]:
        """The same for many questions."""
        return [self.replace(indices, stream) for indices, stream in each("drawing words", questions)]

    def _cumulative(self, index: int) -> Longs:
        law = self._recent.get(index)
        if law is None:
            law = np.cumsum(integer_weights(self._weights(index)))
            with self._lock:
                while len(self._recent) >= DRAWS_AT_ONCE:
                    del self._recent[next(iter(self._recent))]
                self._recent[index] = law
        return law

    def _weights(self, index: int) -> Floats:
        cost = np.minimum(exact_distances(self.vectors.matrix, index), self.truncation)
        return np.asarray(np.exp(-self.epsilon / 2 * cost))

    def distances(self, first: Longs, second: Longs) -> Floats:
        """Euclidean, cut at γ."""
        difference = self.vectors.matrix[first].astype(np.float64) - self.vectors.matrix[second]
        return np.asarray(np.minimum(np.linalg.norm(difference, axis=-1), self.truncation))

    def deniability(self, indices: Longs, drawn: Longs, stream: NoiseStream) -> list[Deniability]:
        """Words at least half as likely; exact, or from a sample where more than 64 come into question."""
        return [self._deniability(int(index), drawn[:, place]) for place, index in enumerate(indices[:MOST_EXAMINED])]

    def _deniability(self, index: int, drawn: Longs) -> Deniability:
        towards = np.zeros(len(self.vectors))
        for answer, times in zip(*np.unique(drawn, return_counts=True), strict=True):
            away = np.minimum(exact_distances(self.vectors.matrix, int(answer)), self.truncation)
            towards -= times * self.epsilon / 2 * away
        least = towards[index] - len(drawn) * self._log_total(index) - math.log(2)
        # A law's total is at least 1, the weight of the word itself: nobody else can reach the limit.
        possible = np.flatnonzero(towards >= least)
        compared = possible[np.linspace(0, len(possible) - 1, min(len(possible), MOST_COMPARED)).astype(np.int64)]
        totals = np.array([self._log_total(int(word)) for word in compared])
        share = float(np.mean(towards[compared] - len(drawn) * totals >= least - 1e-9))
        if len(compared) == len(possible):
            return Deniability(round(share * len(possible)), "counted exactly")
        return Deniability(round(share * len(possible)), f"estimated from {len(compared)} words")

    def _log_total(self, index: int) -> float:
        return math.log(float(self._weights(index).sum()))

    def chance_unchanged(self, indices: Longs, nearest: Longs) -> Floats:
        """A word has weight 1 for itself: exactly 1 of its total."""
        return np.exp(-self.log_totals(indices))

    # The law as an attacker computes it: P(output | word) = e^(log weight − log total)

    @cached_property
    def _fast(self) -> WordDistances:
        return WordDistances(np.asarray(self.vectors.matrix))

    def log_weights(self, outputs: Longs) -> tuple[Longs, Array]:
        """Every word of the vocabulary, and ln of its weight for each output."""
        weights = np.empty((len(outputs), len(self.vectors)), np.float32)
        for columns, away in self._fast.blocks(outputs):
            away = np.minimum(away, np.float32(self.truncation), out=away)
            np.multiply(away, np.float32(-self.epsilon / 2), out=weights[:, columns])
        return np.arange(len(self.vectors)), weights

    def log_totals(self, words: Longs) -> Floats:
        """ln of the sum of each word's weights."""
        return np.log(self._fast.exponential_sums(words, self.epsilon / 2, self.truncation))

    def least_log_totals(self) -> Floats:
        """For every word a number that its `log_totals` is not below."""
        return self._least_log_totals.copy()

    @cached_property
    def _least_log_totals(self) -> Floats:
        return np.log(self._fast.least_exponential_sums(self.epsilon / 2, self.truncation))

    def guarantee(self) -> MetricDP:
        """Metric privacy in the distance, cut at γ for tem."""
        cut = "" if math.isinf(self.truncation) else f", cut at {self.truncation:.4g}"
        return MetricDP(
            epsilon=self.epsilon,
            delta=rounding_error(len(self.vectors), self.vectors.dimension),
            distance=f"Euclidean distance of word vectors{cut} (sha256 {self.vectors.digest[:16]})",
            unit="word",
            relation="one word replaced by another of the vocabulary",
            assumptions=("the key of the noise stays secret",),
            not_protected=("which position of the query a word has",),
        )


class CustomisedWords:
    """CusText: the answer comes from the word's own set."""

    def __init__(self, vectors: WordVectors, *, epsilon: float) -> None:
        self.vectors = vectors
        self.epsilon = epsilon
        self._widest: dict[int, float] = {}

    @property
    def metric(self) -> str:
        """Its own: 1 within a set."""
        return "set"

    @property
    def diameter(self) -> float:
        """Words of different sets have nothing in common."""
        return math.inf

    @property
    def most_unchanged(self) -> float:
        """No word has a larger chance to come out unchanged: all others of its set weigh e^(−ε/2) at least."""
        others = min(SET_SIZE, len(self.vectors)) - 1
        return 1 / (1 + others * math.exp(-self.epsilon / 2))

    @property
    def _kept_in(self) -> Path:
        return cache_folder() / f"custext-{self.vectors.digest[:16]}.arrays"

    @property
    def prepared(self) -> bool:
        """Whether the vocabulary has been cut into sets before; otherwise the first answer takes a minute or two."""
        return self._kept_in.exists()

    @cached_property
    def _sets(self) -> tuple[Longs, list[Longs]]:
        """The number of each word's set, and the members of each set."""

        def build() -> tuple[dict[str, Any], dict[str, Array]]:
            return {}, {"sets": partition(np.asarray(self.vectors.matrix), SET_SIZE)}

        _, arrays = compiled_once(self._kept_in, build)
        sets = np.asarray(arrays["sets"], np.int64)
        order = np.argsort(sets, kind="stable")
        return sets, np.split(order, np.cumsum(np.bincount(sets))[:-1])

    @cached_property
    def sets_digest(self) -> str:
        """Which sets these are: rounding on another machine may make others of the same vectors."""
        return hashlib.sha256(self._sets[0].tobytes()).hexdigest()

    def law(self, index: int) -> tuple[Longs, Longs]:
        """The members of a word's set and their weights as whole numbers."""
        sets, members = self._sets
        own = members[sets[index]]
        return own, integer_weights(np.exp(-self.epsilon / 2 * self._costs(index, own)))

    def _costs(self, index: int, own: Longs) -> Floats:
        """Distances scaled by the set's own range, a public number, to [0, 1]."""
        rows = self.vectors.matrix[own].astype(np.float64)
        if (widest := self._widest.get(int(own[0]))) is None:
            widest = self._widest[int(own[0])] = float(np.linalg.norm(rows[:, None] - rows, axis=2).max())
        away = np.linalg.norm(rows - self.vectors.matrix[index], axis=1)
        return np.asarray(away / widest if widest else away)

    def replace(self, indices: Longs, stream: NoiseStream) -> Longs:
        """A drawn word for each word."""
        laws = {int(index): self.law(int(index)) for index in np.unique(indices)}
        sums = {index: np.cumsum(weights) for index, (_, weights) in laws.items()}
        chances = stream.below(np.array([sums[int(index)][-1] for index in indices], np.int64))
        drawn = [
            laws[int(index)][0][np.searchsorted(sums[int(index)], chance, side="right")]
            for index, chance in zip(indices, chances, strict=True)
        ]
        return np.array(drawn, np.int64)

    def replace_many(self, questions: Sequence[tuple[Longs, NoiseStream]]) -> list[Longs]:
        """The same for many questions."""
        return [self.replace(indices, stream) for indices, stream in each("drawing words", questions)]

    def distances(self, first: Longs, second: Longs) -> Floats:
        """0 for the same word, 1 within a set, infinite between sets."""
        sets, _ = self._sets
        return np.where(first == second, 0.0, np.where(sets[first] == sets[second], 1.0, np.inf))

    def deniability(self, indices: Longs, drawn: Longs, stream: NoiseStream) -> list[Deniability]:
        """Words of the set at least half as likely, exactly; words outside it are excluded for certain."""
        return [self._deniability(int(index), drawn[:, place]) for place, index in enumerate(indices[:MOST_EXAMINED])]

    def chance_unchanged(self, indices: Longs, nearest: Longs) -> Floats:
        """A word has weight 1 for itself: exactly 1 of its total."""
        return np.exp(-self.log_totals(indices))

    # The law as an attacker computes it: P(output | word) = e^(log weight − log total)

    def log_weights(self, outputs: Longs) -> tuple[Longs, Floats]:
        """The words of the outputs' sets, which alone can give them, and ln of their weights; −∞ between sets."""
        sets, members = self._sets
        words = np.concatenate([members[number] for number in np.unique(sets[outputs])])
        weights = np.full((len(outputs), len(words)), -np.inf)
        for row, output in zip(weights, outputs.tolist(), strict=True):
            own = sets[words] == sets[output]
            row[own] = -self.epsilon / 2 * self._costs(output, words[own])  # as far from there as to there
        return words, weights

    def log_totals(self, words: Longs) -> Floats:
        """ln of the sum of each word's weights."""
        sets, members = self._sets
        costs = (self._costs(int(word), members[sets[word]]) for word in words)
        return np.array([math.log(np.exp(-self.epsilon / 2 * cost).sum()) for cost in costs])

    def least_log_totals(self) -> Floats:
        """For every word a number that its `log_totals` is not below: a word has weight 1 for itself."""
        return np.zeros(len(self.vectors))

    def chances(self, output: int, inputs: Longs) -> Floats:
        """How likely a word comes out for each input; 0 for one outside its set, or outside the vocabulary."""
        found = np.zeros(len(inputs))
        words, weights = self.log_weights(np.array([output]))
        able, place, source = np.intersect1d(inputs, words, return_indices=True)
        if len(able):
            found[place] = np.exp(weights[0, source] - self.log_totals(able))
        return found

    def _deniability(self, index: int, drawn: Longs) -> Deniability:
        own, _ = self.law(index)
        laws = {int(word): self.law(int(word))[1] for word in own}
        places = np.searchsorted(own, drawn)
        likely = {word: np.log(weights[places] / weights.sum()).sum() for word, weights in laws.items()}
        count = sum(value >= likely[index] - math.log(2) - 1e-12 for value in likely.values())
        return Deniability(int(count), "counted exactly")

    def guarantee(self) -> MetricDP:
        """ε-differential privacy inside a set, and nothing between sets."""
        return MetricDP(
            epsilon=self.epsilon,
            delta=rounding_error(2 * SET_SIZE, self.vectors.dimension),
            distance="1 between two words of one customised set, infinite between words of different sets "
            f"(sets of {SET_SIZE} near words; sha256 {self.vectors.digest[:16]})",
            unit="word",
            relation="one word replaced by another of the vocabulary",
            assumptions=("the key of the noise stays secret",),
            not_protected=(
                "which set a word belongs to: every answer names it",
                "which position of the query a word has",
            ),
            detail="ε-differential privacy among the words of one set only: an observer narrows every word to "
            f"{SET_SIZE} candidates with certainty.",
        )


def partition(matrix: Array, size: int) -> Longs:
    """The number of each word's set: in the words' order, a word not yet taken and the nearest not yet taken.

    The last words, too few for a set of their own, join the last set.
    """
    sets = np.full(len(matrix), -1, np.int64)
    number = 0
    while len(left := np.flatnonzero(sets < 0)):
        tell("cutting the vocabulary into sets", len(matrix) - len(left), len(matrix))
        if len(left) < 2 * size:
            sets[left] = number
            break
        rows = np.ascontiguousarray(matrix[left], np.float32)
        half_norms = (rows**2).sum(axis=1) / 2
        seeds = min(SEEDS_AT_ONCE, len(left))
        wanted = min(NEIGHBOURS_AT_ONCE, len(left))
        scores = half_norms - rows[:seeds] @ rows.T
        near = np.argpartition(scores, wanted - 1, axis=1)[:, :wanted] if wanted < len(left) else None
        free = len(left)
        for seed in range(seeds):
            if sets[left[seed]] >= 0:
                continue
            if free < 2 * size:
                break
            candidates = np.arange(len(left)) if near is None else near[seed]
            open_ones = candidates[sets[left[candidates]] < 0]
            if len(open_ones) < size:
                break  # too many neighbours were taken: look again among those left
            away = scores[seed, open_ones]
            away = np.where(open_ones == seed, -np.inf, away)
            chosen = open_ones[np.lexsort((open_ones, away))[:size]]
            sets[left[chosen]] = number
            number += 1
            free -= size
    tell("cutting the vocabulary into sets", 1)
    return sets

"""P(output | word) learned by running a mechanism that tells nothing of its law.

A law e^(−s·distance) over the vocabulary, with s fitted to the mean distance of answers, picks a short list of words
for each row of outputs. Then the mechanism is run on the words of the lists, and what was counted is mixed with the
fitted law; how much of each is decided by how well the mixture foretells fresh answers. Nothing of this looks at the
truth.

Cost: words on the lists · draws runs of the mechanism; N distances to the whole vocabulary for each word.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from queryveil.arrays import Floats, Longs
from queryveil.audit.attacks._word_law import ReplacesWords
from queryveil.knowledge.word_distances import WordDistances
from queryveil.privacy import Noise
from queryveil.privacy.noise import NoiseStream

FITTED_ON = 2000
BISECTIONS = 24
"""To a ten-thousandth of a usual scale; the answers that it is fitted to tell it to a hundredth."""
MIXTURES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 1e6)
"""Weights of the fitted law that are tried, in answers for each answer counted."""
FLOOR = 1e-12
"""Nothing is impossible to the attacker, only very unlikely; the law is fitted, not known."""
WORDS_AT_ONCE = 1 << 16
MOST_FITTED_ON = 1 << 24


def guess_by_running(
    mechanism: ReplacesWords,
    outputs: Longs,
    counts: Sequence[int],
    log_priors: Floats,
    noise: Noise,
    *,
    shortlist: int,
    draws: int,
) -> dict[int, Longs]:
    """For each count N and each prior the likeliest word of a short list behind the first N outputs of each row."""
    law = DistanceLaw(mechanism, noise.stream("likelihood attack: fit"))
    lists = {count: law.shortlists(outputs[:, :count], shortlist) for count in counts}
    learned = LearnedLaw(law, np.unique(np.concatenate([rows.ravel() for rows in lists.values()])), draws, noise)
    guesses = {}
    for count, rows in lists.items():
        likely = learned.log_chances(rows[:, :, None], outputs[:, None, :count]).sum(axis=2)
        best = (likely + log_priors[:, rows]).argmax(axis=2)  # of equal ones the fitted law's favourite
        guesses[count] = rows[np.arange(len(rows)), best]
    return guesses


class DistanceLaw:
    """P(output | word) ∝ e^(−scale · Euclidean distance), the scale fitted to answers of the mechanism."""

    def __init__(self, mechanism: ReplacesWords, stream: NoiseStream, *, fitted_on: int = FITTED_ON) -> None:
        self.mechanism = mechanism
        self._matrix = np.asarray(mechanism.vectors.matrix, np.float32)
        self._distances = WordDistances(self._matrix)
        size = len(self._matrix)
        words = stream.below(size, fitted_on)
        away = np.linalg.norm(self._matrix[words] - self._matrix[mechanism.replace(words, stream)], axis=1)
        self.scale = self._fitted(words[: max(1, min(100, MOST_FITTED_ON // size))], float(away.mean()))
        self._log_totals: dict[int, float] = {}

    def _fitted(self, words: Longs, mean: float) -> float:
        """The scale with that mean distance, by bisection: the larger the scale, the nearer the answers."""
        blocks = [away.copy() for _, away in self._distances.blocks(words)]
        room = np.empty_like(blocks[0])
        low, high = 0.0, 1e3
        for _ in range(BISECTIONS):
            scale = (low + high) / 2
            totals, distances = np.zeros(len(words)), np.zeros(len(words))
            for away in blocks:
                weights = np.multiply(away, np.float32(-scale), out=room[:, : away.shape[1]])
                np.exp(weights, out=weights)
                totals += weights.sum(axis=1)
                distances += np.einsum("ij,ij->i", weights, away)
            low, high = (scale, high) if (distances / totals).mean() > mean else (low, scale)
        return scale

    @cached_property
    def _least_log_totals(self) -> Floats:
        """Below `log_totals`, quickly, for every word; near where the scale is small or so large that both are 0."""
        return np.log(self._distances.least_exponential_sums(self.scale, np.inf))

    def surprise(self, outputs: Longs, times: Longs) -> Floats:
        """−ln of the chance of the outputs together, roughly, for every word of the vocabulary."""
        towards = self.scale * self._distances.sums(outputs, times)
        return np.asarray(towards + times.sum() * self._least_log_totals)

    def rough_chances(self, words: Longs, outputs: Longs) -> Floats:
        """P(output | word) [outputs × words], roughly."""
        away = np.linalg.norm(self._matrix[outputs].astype(np.float64)[:, None] - self._matrix[words], axis=2)
        return np.asarray(np.exp(-self.scale * away - self._least_log_totals[words]) + FLOOR)

    def shortlists(self, outputs: Longs, length: int) -> Longs:
        """The likeliest words behind each row of outputs, best first.

        The sum over the vocabulary that makes the law one of chances is dear, so it is taken for a wider list only.
        """
        length = min(length, len(self._matrix))
        wide = min(10 * length, len(self._matrix))
        rows = []
        away = np.empty(len(self._matrix))
        for row in outputs:
            for columns, some in self._distances.blocks(row):
                some.sum(axis=0, out=away[columns])
            found = np.argpartition(away, wide - 1)[:wide]
            likely = -self.scale * away[found] - len(row) * self.log_totals(found)
            rows.append(found[np.argsort(-likely, kind="stable")[:length]])
        return np.array(rows, np.int64).reshape(len(outputs), length)

    def log_totals(self, words: Longs) -> Floats:
        """ln Σ_u e^(−scale · distance) of words."""
        new = np.array(sorted(set(words.tolist()) - self._log_totals.keys()), np.int64)
        totals = np.zeros(len(new))
        for _, away in self._distances.blocks(new):
            away *= np.float32(-self.scale)
            totals += np.exp(away, out=away).sum(axis=1)
        self._log_totals.update(zip(new.tolist(), np.log(totals).tolist(), strict=True))  # the word itself adds 1
        return np.array([self._log_totals[word] for word in words.tolist()])

    def chances(self, words: Longs, outputs: Longs) -> Floats:
        """P(output | word), pair by pair."""
        away = np.linalg.norm(self._matrix[words].astype(np.float64) - self._matrix[outputs], axis=-1)
        totals = self.log_totals(words.ravel()).reshape(words.shape)
        return np.asarray(np.exp(-self.scale * away - totals) + FLOOR, np.float64)


class LearnedLaw:
    """What the mechanism was seen to answer for some words, mixed with the fitted law."""

    def __init__(self, law: DistanceLaw, words: Longs, draws: int, noise: Noise) -> None:
        self._law, self._words, self._draws = law, words, draws
        self._size = len(law.mechanism.vectors)
        self._pairs, self._times = self._counted(draws, noise, "simulation")
        fresh, times = self._counted(max(1, draws // 10), noise, "fresh answers")
        places, outputs = np.divmod(fresh, self._size)
        self._weight = max(
            (weight * draws for weight in MIXTURES),
            key=lambda weight: float(times @ self._mixed(words[places], outputs, weight)),
        )

    def log_chances(self, words: Longs, outputs: Longs) -> Floats:
        """ln P(output | word), for arrays that broadcast; the words must be among those that were run."""
        shape = np.broadcast_shapes(words.shape, outputs.shape)
        return self._mixed(np.broadcast_to(words, shape), np.broadcast_to(outputs, shape), self._weight)

    def _mixed(self, words: Longs, outputs: Longs, weight: float) -> Floats:
        pairs = np.searchsorted(self._words, words) * self._size + outputs
        place = np.minimum(np.searchsorted(self._pairs, pairs), len(self._pairs) - 1)
        seen = np.where(self._pairs[place] == pairs, self._times[place], 0)
        mixed = (seen + weight * self._law.chances(words, outputs)) / (self._draws + weight)
        return np.asarray(np.log(mixed), np.float64)

    def _counted(self, draws: int, noise: Noise, purpose: str) -> tuple[Longs, Longs]:
        """Which answers each word gave and how often, as sorted pairs (place of the word · size + answer)."""
        found = []
        step = max(1, WORDS_AT_ONCE // draws)
        for block, start in enumerate(range(0, len(self._words), step)):
            places = np.repeat(np.arange(start, min(start + step, len(self._words))), draws)
            stream = noise.stream(f"likelihood attack: {purpose}", block)
            answers = self._law.mechanism.replace(self._words[places], stream)
            found.append(np.unique(places * self._size + answers, return_counts=True))
        return np.concatenate([pairs for pairs, _ in found]), np.concatenate([times for _, times in found])

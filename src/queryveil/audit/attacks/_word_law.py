"""What a mechanism that replaces words tells an attacker of its law, and the likeliest word by it.

Everything is public: the vocabulary, the law and its parameters. A word mechanism may declare, by its methods,

- `KnownLaw`: P(output | word) can be written down. The likeliest word of the whole vocabulary is then found exactly,
  without the table of all pairs: only words that can give an output are looked at, and the dear part of the law, each
  word's sum of weights, is taken only while a word could still win by a bound on that sum (`least_log_totals`);
- `KnownNoise`: noise around a vector, then a near word. P(output | word) is the mass of the noise in the output's cell,
  estimated for words near the outputs from the same points (`_noise_law.py`);
- neither: the law is learned by running the mechanism (`_learned_law.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import numpy as np

from queryveil.arrays import Array, Floats, Longs
from queryveil.knowledge.embeddings import WordVectors
from queryveil.privacy.noise import NoiseStream

MOST_TOTALS = 500
"""Sums over the vocabulary that are taken in all, where the law is known; later words are judged by the bound."""
FEW_WORDS = 1000
"""Where no more can give an output, their sums do not count."""
CLOSE, TOTALS_AT_ONCE = 0.1, 16


class ReplacesWords(Protocol):
    """What is attacked: words are numbers of a public vocabulary, each replaced by itself."""

    @property
    def vectors(self) -> WordVectors:
        """The public vocabulary."""

    def replace(self, indices: Longs, stream: NoiseStream) -> Longs:
        """A drawn word for each word."""


@runtime_checkable
class KnownLaw(ReplacesWords, Protocol):
    """P(output | word) = e^(log weight − log total)."""

    def log_weights(self, outputs: Longs) -> tuple[Longs, Array]:
        """The words that can give any of the outputs, and ln of each one's weight for each output (−∞ for none).

        Where that is every word of the vocabulary they come in its order.
        """

    def log_totals(self, words: Longs) -> Floats:
        """ln of the sum of each word's weights."""

    def least_log_totals(self) -> Floats:
        """For every word of the vocabulary a number that its `log_totals` is not below, quickly."""


@runtime_checkable
class KnownNoise(ReplacesWords, Protocol):
    """Noise around the word's vector, then a near word."""

    def noise_vectors(self, count: int, stream: NoiseStream) -> Floats:
        """Noise as it is put around any word."""

    def cell_chances(self, words: Longs, outputs: Longs, near: Longs, noise: Floats) -> Floats:
        """P(output | word) [outputs × words], estimated from the noises, were `near` the vocabulary."""


def guess_by_law(law: KnownLaw, outputs: Longs, counts: Sequence[int], log_priors: Floats) -> dict[int, Longs]:
    """For each count N the word of the whole vocabulary that is likeliest behind the first N outputs of each row.

    `log_priors` has a row for each prior: ln of each word's weight before anything is seen. So has what comes back.
    """
    totals = _Totals(law)
    guesses: dict[int, list[list[int]]] = {count: [] for count in counts}
    for row in outputs:
        seen, places = np.unique(row[: max(counts)], return_inverse=True)
        words, weights = law.log_weights(seen)
        for count, found in guesses.items():
            times = np.bincount(places[:count])
            towards = times @ weights[: len(times)] if times.all() else times[times > 0] @ weights[times.nonzero()]
            priors = log_priors if len(words) == log_priors.shape[1] else log_priors[:, words]
            found.append([totals.likeliest(words, towards + prior, count) for prior in priors])
    return {count: np.array(found, np.int64).T for count, found in guesses.items()}


class _Totals:
    """Sums of weights, each taken once, and only for words that could win."""

    def __init__(self, law: KnownLaw) -> None:
        self._law = law
        self._totals = law.least_log_totals()
        self._exact = np.zeros(len(self._totals), bool)
        self._left = MOST_TOTALS

    def likeliest(self, words: Longs, towards: Floats, count: int) -> int:
        """The word with the largest `towards` − count · ln total, of equal ones the first.

        With a bound in place of a total a word looks at least as likely as it is: one with its total that still leads
        is the likeliest of all. Where no more totals may be taken, bounds decide.
        """
        few = len(words) <= FEW_WORDS
        likely = towards - count * (self._totals if len(words) == len(self._totals) else self._totals[words])
        best = int(likely.argmax())
        while not self._exact[words[best]]:
            close = np.flatnonzero((likely >= likely[best] - CLOSE * count) & ~self._exact[words])
            close = close[
                np.argsort(-likely[close], kind="stable")[: TOTALS_AT_ONCE if few else min(TOTALS_AT_ONCE, self._left)]
            ]
            if not len(close):
                break
            self._totals[words[close]] = self._law.log_totals(words[close])
            self._exact[words[close]] = True
            self._left -= 0 if few else len(close)
            likely[close] = towards[close] - count * self._totals[words[close]]
            possible = np.flatnonzero(likely >= likely[close].max())
            words, towards, likely = words[possible], towards[possible], likely[possible]
            best = int(likely.argmax())
        return int(words[best])

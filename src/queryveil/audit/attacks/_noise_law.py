"""P(output | word) where noise is put around a vector and a near word is the answer.

It is the mass of the noise around the word in the output's cell. Noise is drawn once and put around every word of a
short list; where a point falls into the cell of an output it counts for each of these words by the density of its noise
there (importance sampling: the mechanism's `cell_chances`). Cells are cut out by the words near the outputs alone.

The short list holds the likeliest words of the whole vocabulary by a law e^(−s·distance), s fitted to the mechanism's
answers. Some of that law is mixed in, for outputs that hardly any point gave: as much as lets the attacker find words
best that he obfuscated himself.

Cost: words on a list · draws · near words additions for each row of outputs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import logsumexp

from queryveil.arrays import Array, Floats, Longs
from queryveil.audit.attacks._learned_law import DistanceLaw
from queryveil.audit.attacks._word_law import KnownNoise
from queryveil.privacy import Noise
from queryveil.privacy.noise import NoiseStream, integer_weights

NEAR = 1000
"""Words that a noisy point may land on."""
FITTED_SHARES = (0.001, 0.03, 0.1, 0.3, 0.5, 0.8)
"""Of the fitted law in the mixture: what is tried."""
FITTED_ON, OWN_WORDS = 500, 40


def guess_by_noise(
    mechanism: KnownNoise,
    outputs: Longs,
    counts: Sequence[int],
    log_priors: Floats,
    noise: Noise,
    *,
    shortlist: int,
    draws: int,
) -> dict[int, Longs]:
    """For each count N and each prior the likeliest of the words near the first N outputs of each row."""
    law = _NoiseLaw(mechanism, noise, shortlist, draws)
    own = law.own_words(log_priors[-1], max(counts), noise.stream("likelihood attack: own words"))
    guesses = {}
    for count in counts:
        share = law.best_share(*own, count)
        rows, places = np.unique(np.sort(outputs[:, :count], axis=1), axis=0, return_inverse=True)
        found = []
        for row in rows:
            words, likely = law.likely(row, (share,))
            found.append(words[(likely + log_priors[:, words]).argmax(axis=1)])
        guesses[count] = np.array(found, np.int64)[places.ravel()].T
    return guesses


class _NoiseLaw:
    """ln P(outputs | word), up to a constant, for the words of a short list."""

    def __init__(self, mechanism: KnownNoise, noise: Noise, shortlist: int, draws: int) -> None:
        self._mechanism, self._shortlist = mechanism, shortlist
        self._fitted = DistanceLaw(mechanism, noise.stream("likelihood attack: fit"), fitted_on=FITTED_ON)
        self._noise = mechanism.noise_vectors(draws, noise.stream("likelihood attack: noise"))

    def likely(self, row: Longs, shares: Sequence[float]) -> tuple[Longs, Floats]:
        """The words of the row's list, and a row of their likelihoods for each share of the fitted law."""
        seen, times = np.unique(row, return_counts=True)
        near = nearest(self._fitted.surprise(seen, times), NEAR)
        words = near[: self._shortlist]
        among = np.concatenate([near, np.setdiff1d(seen, near)])
        chances = self._mechanism.cell_chances(words, seen, among, self._noise)
        rough = self._fitted.rough_chances(words, seen)
        return words, np.stack([times @ np.log((1 - share) * chances + share * rough) for share in shares])

    def own_words(self, log_prior: Floats, most: int, stream: NoiseStream) -> tuple[Longs, Longs]:
        """Words that the attacker expects, drawn by himself, and so many obfuscations of each."""
        words = stream.choice(integer_weights(np.exp(log_prior - log_prior.max())), OWN_WORDS)
        return words, self._mechanism.replace(np.repeat(words, most), stream).reshape(len(words), most)

    def best_share(self, own: Longs, outputs: Longs, count: int) -> float:
        """The share with which he finds his own words best, by the mean of ln P(word | outputs, list)."""
        scores = np.zeros(len(FITTED_SHARES))
        for word, row in zip(own.tolist(), outputs[:, :count], strict=True):
            words, likely = self.likely(row, FITTED_SHARES)
            if word in words:
                scores += likely[:, words == word][:, 0] - logsumexp(likely, axis=1)
        return FITTED_SHARES[int(scores.argmax())]


def nearest(away: Array, count: int) -> Longs:
    """The places of the smallest numbers, smallest first, of equal ones the first."""
    count = min(count, len(away))
    every = max(1, len(away) // (4 * count))
    some = away[::every]
    rank = min(len(some) - 1, 3 * count // (2 * every) + 8)
    close = np.flatnonzero(away <= np.partition(some, rank)[rank])  # a limit from a sample saves sorting all
    if len(close) < count:
        close = np.arange(len(away))
    return close[np.lexsort((close, away[close]))][:count]

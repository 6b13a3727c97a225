"""What weighted selection spends, computed apart from the code: exact discrete laws on a toy with a coarse unit.

The loss of a discrete Gaussian whose mean moves by s is (2sz + s²)/2σ² for its noise z. The loss of several is their
sum: laws on a fine lattice, convolved, every loss rounded up for an upper bound on δ and down for a lower one.
"""

import math
from collections import Counter

import numpy as np

BINS = 1 << 20
GAP = 2.5e-5
"""Losses between −13 and 13."""


def law(sigma: int) -> tuple[np.ndarray, np.ndarray]:
    """The numbers a discrete Gaussian draws, but for 10^-31 of them, and their chances."""
    reach = math.ceil(12 * sigma)
    noise = np.arange(-reach, reach + 1)
    mass = np.exp(-(noise.astype(float) ** 2) / (2.0 * sigma * sigma))
    return noise, mass / mass.sum()


def tail(sigma: int, beyond: int) -> float:
    """P(noise > beyond)."""
    noise, mass = law(sigma)
    return float(mass[noise > beyond].sum())


def gaussian_delta(shifts: list[tuple[int, int]], epsilon: float) -> tuple[float, float]:
    """Bounds on δ at ε of discrete Gaussians (shift, σ), from below and from above."""
    bounds = []
    for whole in (np.floor, np.ceil):
        spectrum = np.ones(BINS // 2 + 1, dtype=complex)
        for (shift, sigma), times in Counter(shifts).items():
            noise, mass = law(sigma)
            loss = (2.0 * shift * noise + shift * shift) / (2.0 * sigma * sigma)
            cells = np.bincount(whole(loss / GAP).astype(np.int64) % BINS, weights=mass, minlength=BINS)
            spectrum *= np.fft.rfft(cells) ** times
        chances = np.fft.irfft(spectrum, BINS)
        losses = np.where(np.arange(BINS) < BINS // 2, np.arange(BINS), np.arange(BINS) - BINS) * GAP
        above = losses > epsilon
        bounds.append(float((chances[above] * -np.expm1(epsilon - losses[above])).sum()))
    return bounds[0], bounds[1]


def one_person_comes_out(sigma: int, threshold: int, unit: int, most_keys: int) -> float:
    """The greatest chance that any of a person's own keys exceeds the threshold, over how many there are."""
    chances = []
    for keys in range(1, most_keys + 1):
        weight = math.isqrt(unit * unit // keys)
        chances.append(-math.expm1(keys * math.log1p(-tail(sigma, threshold - weight))))
    return max(chances)


def full_vectors(rule) -> dict[str, list[int]]:
    """What a person adds who has four queries with a click each: the whole unit of length in every step."""
    halves = [rule.unit // 2] * 4
    return {step: halves if step in ("queries", "clicks", "counts") else [rule.unit] for step in rule.sigmas}


def spent(rule, vectors=None) -> float:
    """δ at the rule's ε, from above: of all steps for a person who moves them by `vectors`, and of own keys."""
    moved = (vectors or full_vectors(rule)).items()
    _, noise = gaussian_delta([(shift, rule.sigmas[step]) for step, vector in moved for shift in vector], rule.epsilon)
    own = [
        one_person_comes_out(rule.sigmas[union], threshold, rule.unit, rule.most_keys[union])
        for union, threshold in rule.thresholds.items()
    ]
    return noise + sum(own)

"""How much noise, and which threshold, a wanted (ε, δ) needs.

For counts of people where one person touches at most `keys` counts, each by one:

- *Discrete Gaussian.* Canonne, Kamath and Steinke (2020), theorem 7: the loss between `keys` counts and the same counts
  shifted by one is decided by the sum Y of the noises, and δ(ε) = Σ P(y) · (1 − e^(ε − (2y + keys) / 2σ²)) over the y
  that make the bracket positive. Y follows the discrete Gaussian with variance keys · σ² but for a factor e^τ with
  τ ≤ 10 · Σ_k e^(−2π²σ² k/(k+1)), k < keys (Kairouz, Liu and Steinke 2021, theorem 9; there 5, doubled here).
  All sums run over the whole numbers the sampler draws from, with the sampler's own σ², and are rounded up.
- *Discrete Laplace.* Scale keys / ε; its tail has a closed form.
- *Truncated geometric.* Desfontaines, Voss, Gipson and Mandayam (2022), "Differentially private partition selection":
  the most likely keeping of a key that any (ε, δ)-DP rule may have. Here over fractions of 2^62, rounded down, so that
  the four inequalities hold for the numbers that are drawn with.

The continuous Gaussian (Balle and Wang 2018) is the reference the discrete one comes near to.

>>> round(analytic_gaussian_sigma(epsilon=2.0, delta=5e-7, sensitivity=5**0.5), 4)
5.1385
>>> sigma = discrete_gaussian_sigma(epsilon=2.0, delta=5e-7, keys=5)
>>> round(float(sigma), 2), discrete_gaussian_threshold(sigma, tail=1e-7)
(5.14, 28)
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt
from scipy.special import log_ndtr

from queryveil.checks import real_number, require, whole_number
from queryveil.privacy.noise import gaussian_fraction

Floats = npt.NDArray[np.float64]

DUST = 1e-9
"""Every computed probability is enlarged by this share of itself; the float error of the sums is below 1e-12 of it."""

FARTHEST = 40.0
"""Beyond 40 standard deviations a Gaussian holds less than 1e-340."""

FINEST = 1024
"""Sums over a Gaussian take at least so many steps in one standard deviation, where it has as many whole numbers."""

SIGMA_STEP = Fraction(1, 1024)
"""σ is a multiple of this, so that it prints short and means the same everywhere."""

LARGEST_INFLATION = 1.0
"""A bound e^τ on the law of a sum that is looser than e is not worth calibrating with: more noise is asked for."""

KEEP_UNIT = 2**62


def analytic_gaussian_sigma(*, epsilon: float, delta: float, sensitivity: float) -> float:
    """The least σ with which continuous Gaussian noise is (ε, δ)-DP; a reference, not for released counts."""
    require(*_budget(epsilon, delta), real_number("sensitivity", sensitivity, above=0, suggest=1.0))
    return _least(lambda sigma: _analytic_delta(epsilon, sensitivity / sigma) <= delta)


def discrete_gaussian_delta(*, sigma: Fraction | float, epsilon: float, keys: int) -> float:
    """The δ of `keys` discrete Gaussian counts, each shifted by at most one, at ε; rounded up."""
    require(
        real_number("sigma", sigma, above=0, suggest=5.0),
        real_number("epsilon", epsilon, above=0, suggest=1.0),
        whole_number("keys", keys, at_least=1, suggest=5),
    )
    variance = _sampled_variance(sigma)
    spread = math.sqrt(keys * variance)
    inflation = _sum_inflation(variance, keys)
    if not inflation < LARGEST_INFLATION:
        return 1.0  # the law of the sum is not known well enough to promise anything
    farthest = math.ceil(FARTHEST * spread) + 40
    first = max(math.floor(epsilon * variance - keys / 2) + 1, -farthest)  # the least y with a positive bracket
    last = farthest if first <= 0 else first + min(farthest, math.ceil(80 * spread * spread / first) + 40)
    y, width = _blocks(first, last, spread)
    bracket = -np.expm1(np.minimum(epsilon - (2 * (y + width - 1) + keys) / (2 * variance), 0.0))
    likeliest = np.clip(0.0, y, y + width - 1)  # of each block: the law falls off on both sides of zero
    delta = width * float((_gaussian_mass(likeliest, keys * variance) * bracket).sum())
    return min(1.0, delta * math.exp(inflation) * (1 + DUST))


@lru_cache(maxsize=64)
def discrete_gaussian_sigma(*, epsilon: float, delta: float, keys: int) -> Fraction:
    """The least σ, in steps of 1/1024, with which `keys` discrete Gaussian counts are (ε, δ)-DP."""
    require(*_budget(epsilon, delta), whole_number("keys", keys, at_least=1, suggest=5))
    near = analytic_gaussian_sigma(epsilon=epsilon, delta=delta, sensitivity=math.sqrt(keys))

    def suffices(steps: int) -> bool:
        return discrete_gaussian_delta(sigma=steps * SIGMA_STEP, epsilon=epsilon, keys=keys) <= delta

    high = max(1, math.ceil(near / SIGMA_STEP))
    while not suffices(high):
        high += max(1, high // 8)
    low = 0
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high * SIGMA_STEP


def discrete_gaussian_tail(sigma: Fraction | float, beyond: int) -> float:
    """P(noise > beyond), rounded up."""
    variance = _sampled_variance(sigma)
    spread = math.sqrt(variance)
    if beyond < 0:
        return min(1.0, 1.0 - discrete_gaussian_tail(sigma, -beyond - 1) * (1 - 3 * DUST))
    if beyond > FARTHEST * spread:
        return math.nextafter(0.0, 1.0)
    y, width = _blocks(beyond + 1, math.ceil((FARTHEST + 1) * spread) + 1, spread)
    return min(1.0, width * float(_gaussian_mass(y, variance).sum()) * (1 + DUST))


def discrete_gaussian_threshold(sigma: Fraction | float, *, tail: float) -> int:
    """The least whole T with P(1 + noise > T) ≤ tail: what one person alone brings above T as good as never."""
    return 1 + _least_whole(lambda beyond: discrete_gaussian_tail(sigma, beyond) <= tail)


def discrete_laplace_tail(scale: Fraction | float, beyond: int) -> float:
    """P(noise > beyond) for discrete Laplace noise, rounded up."""
    rate = float(1 / Fraction(scale))
    if beyond < 0:
        return min(1.0, 1.0 - discrete_laplace_tail(scale, -beyond - 1) * (1 - 3 * DUST))
    return min(1.0, math.exp(-(beyond + 1) * rate) / (1 + math.exp(-rate)) * (1 + DUST))


def discrete_laplace_threshold(scale: Fraction | float, *, tail: float) -> int:
    """The least whole T with P(1 + noise > T) ≤ tail."""
    return 1 + _least_whole(lambda beyond: discrete_laplace_tail(scale, beyond) <= tail)


def laplace_threshold(*, scale: float, tail: float) -> float:
    """T = 1 + scale · ln(1 / 2·tail) for continuous Laplace noise: a reference."""
    return 1 + scale * math.log(1 / (2 * tail))


def gaussian_threshold(*, sigma: float, tail: float) -> float:
    """T = 1 + σ · Φ⁻¹(1 − tail) for continuous Gaussian noise: a reference."""
    from scipy.special import ndtri

    return 1 - sigma * float(ndtri(tail))


@lru_cache(maxsize=64)
def truncated_geometric_keep(*, epsilon: float, delta: float) -> tuple[int, ...]:
    """P(a key of n people is kept) · 2^62 for n = 0, 1, …, up to the first n that is always kept.

    π(n) = min(e^ε π(n−1) + δ, 1 − e^−ε (1 − π(n−1) − δ), 1), each step rounded down.
    """
    require(*_budget(epsilon, delta))
    growth = _exponential_down(epsilon)
    slack = math.floor(Fraction(delta) * KEEP_UNIT)
    if slack == 0:
        raise ValueError("delta is below 2^-62, the finest probability a key is kept with.")
    kept = [0]
    while kept[-1] < KEEP_UNIT:
        before = kept[-1]
        rising = math.floor(growth * before) + slack
        falling = KEEP_UNIT - math.ceil(max(0, KEEP_UNIT - before - slack) / growth)
        kept.append(min(rising, falling, KEEP_UNIT))
    return tuple(kept)


def _budget(epsilon: float, delta: float) -> tuple[str | None, str | None]:
    return (
        real_number("epsilon", epsilon, above=0, at_most=10**4, suggest=1.0),
        real_number("delta", delta, above=0, below=1, suggest=1e-6),
    )


def _analytic_delta(epsilon: float, shift: float) -> float:
    """Balle and Wang's δ for a shift of `shift` standard deviations, Φ(s/2 − ε/s) − e^ε Φ(−s/2 − ε/s)."""
    first = float(log_ndtr(shift / 2 - epsilon / shift))
    second = epsilon + float(log_ndtr(-shift / 2 - epsilon / shift))
    return math.exp(first) * -math.expm1(min(second - first, 0.0))


def _least(suffices: Callable[[float], bool]) -> float:
    high = 1.0
    while not suffices(high):
        high *= 2
    low = 0.0
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high


def _least_whole(suffices: Callable[[int], bool]) -> int:
    low, high = -1, 1
    while not suffices(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high


def _blocks(first: int, last: int, spread: float) -> tuple[Floats, int]:
    """Where to sum a falling mass from `first` to `last`: every number, or the start of every block of some width.

    Where the spread is large the mass at a block's start stands for all of it, which is at most 1 % too much within ten
    standard deviations and never too little. Left of 0 the mass does not fall, so there every number is taken.
    """
    width = max(1, math.floor(spread / FINEST)) if first >= 0 else 1
    return np.arange(first, last + 1, width, dtype=np.float64), width


def _sampled_variance(sigma: Fraction | float) -> float:
    top, bottom, _ = gaussian_fraction(sigma)
    return top / bottom


def _gaussian_mass(y: Floats, variance: float) -> Floats:
    """P(Y = y) under the discrete Gaussian."""
    mass: Floats = np.exp(-(y * y) / (2 * variance)) / _normaliser(variance)
    return mass


def _normaliser(variance: float) -> float:
    """Σ e^(−y²/2σ²) over all whole numbers; by Poisson summation √(2πσ²) but for e^(−2π²σ²) where σ is large."""
    if variance >= 25:
        return math.sqrt(2 * math.pi * variance)
    reach = math.ceil(FARTHEST * math.sqrt(variance)) + 1
    return math.fsum(math.exp(-(y * y) / (2 * variance)) for y in range(-reach, reach + 1))


def _sum_inflation(variance: float, keys: int) -> float:
    """τ: how far the sum of `keys` noises may be from one discrete Gaussian, as a bound on the log-ratio."""
    if keys == 1:
        return 0.0
    if variance < 0.5:
        return math.inf  # outside the theorem
    k = np.arange(1, keys)
    return 10 * float(np.exp(-2 * math.pi**2 * variance * k / (k + 1)).sum())


def _exponential_down(epsilon: float) -> Fraction:
    """A fraction just below e^ε: the partial sum of its series to 40 digits, cut to 128 bits."""
    x = Fraction(epsilon)
    total = term = Fraction(1)
    n = 0
    while term > total / 2**140 or n < x:
        n += 1
        term = term * x / n
        term = Fraction(math.floor(term * 2**160), 2**160)
        total += term
    return Fraction(math.floor(total * 2**128), 2**128)

"""Many tables, one Gaussian mechanism: noise for several sums of vectors that are published together.

Every person adds to each table a vector of whole numbers of length at most `unit`. Table t gets discrete Gaussian noise
of parameter σ_t. Together that is one Gaussian mechanism whose means, in standard deviations, lie at most
μ = √Σ (unit/σ_t)² apart:

- it is ρ-zero-concentrated with ρ = μ²/2 (Canonne, Kamath and Steinke 2020, theorem 4 and proposition 5);
- it is (ε, δ)-DP for every δ ≥ Φ(μ/2 − ε/μ) − e^ε Φ(−μ/2 − ε/μ), the exact curve of the continuous Gaussian (Balle and
  Wang 2018), which is better than what ρ gives.

Why the curve of the continuous Gaussian holds for the discrete one (*smoothing*). Let X be continuous Gaussian of
variance σ² − 4 around a whole number m, and Z drawn from the whole numbers with weights e^(−(z−X)²/8). Whatever X,
those weights add up to √(8π) · (1 ± 2e^(−8π²)) by Poisson's summation. So P(Z = z) is, but for a factor within
e^(±10^-33), proportional to the integral of e^(−(x−m)²/2(σ²−4)) · e^(−(z−x)²/8) over x, which is proportional to
e^(−(z−m)²/2σ²): the discrete Gaussian of variance σ² around m. Z is made from X without knowing m. So a discrete
Gaussian, up to that factor for each number that is published, is a continuous one of variance σ² − 4 that somebody
processed further, and loses no more. `NUMBERS` numbers make factors within e^(±10^-23), which the calibration covers
by aiming at an ε and a δ smaller by 10^-9 of themselves.

>>> sigmas = joint_sigmas(epsilon=8.0, delta=1e-8, shares={"words": Fraction(3, 4), "head": Fraction(1, 4)}, unit=2**16)
>>> [round(sigma / 2**16, 4) for sigma in sigmas.values()]
[0.8642, 1.4968]
>>> round(float(joint_rho(sigmas.values(), unit=2**16)), 4), round(zcdp_rho(epsilon=8.0, delta=1e-8), 4)
(0.8927, 0.8157)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction

import numpy as np
from scipy.special import ndtri

from queryveil.checks import real_number, require
from queryveil.privacy.calibration import analytic_gaussian_sigma

SMOOTHING = 4
"""The variance that smoothing takes from a discrete Gaussian."""
LEAST_SIGMA = 64
"""Below it the smoothing would cost more than a thousandth of the noise."""
NUMBERS = 10**9
MARGIN = 1e-9


def joint_sigmas(*, epsilon: float, delta: float, shares: Mapping[str, Fraction], unit: int) -> dict[str, int]:
    """A whole σ for each table, by its share of the budget, so that all of them together are (ε, δ)-DP."""
    if sum(shares.values()) > 1 or not all(share > 0 for share in shares.values()):
        raise ValueError("the shares of a budget are positive and add up to at most 1.")
    sigma = analytic_gaussian_sigma(epsilon=epsilon * (1 - MARGIN), delta=delta * (1 - MARGIN), sensitivity=1.0)
    target = Fraction(sigma * (1 + MARGIN)) * unit
    sigmas = {name: _root_up(target**2 / share + SMOOTHING) for name, share in shares.items()}
    if min(sigmas.values()) < LEAST_SIGMA:
        raise ValueError("the unit is too coarse for so little noise.")
    return sigmas


def joint_rho(sigmas: Iterable[int], *, unit: int) -> Fraction:
    """ρ = Σ unit² / 2σ_t² of all tables together."""
    return sum((Fraction(unit * unit, 2 * sigma * sigma) for sigma in sigmas), Fraction(0))


def joint_smoothed_rho(sigmas: Iterable[int], *, unit: int) -> Fraction:
    """ρ of the continuous Gaussian mechanism that all tables together are made from (see *smoothing* above).

    A little more than `joint_rho`; a ledger composes it by the exact curve of the Gaussian.
    """
    return sum((Fraction(unit * unit, 2 * (sigma * sigma - SMOOTHING)) for sigma in sigmas), Fraction(0))


def zcdp_delta(*, rho: float, epsilon: float) -> float:
    """The least δ that ρ-zCDP promises at ε: inf over α of e^((α−1)(αρ−ε)) / (α−1) · (1−1/α)^α (CKS 2020, cor. 13)."""
    require(real_number("rho", rho, above=0, suggest=0.5), real_number("epsilon", epsilon, above=0, suggest=1.0))
    low, high = 1.0 + 1e-9, (epsilon + 1) / (2 * rho) + 2
    alpha = low + (high - low) * np.linspace(1e-6, 1, 20_001)
    for _ in range(3):  # the exponent is convex in α: look closer around the least
        value = (alpha - 1) * (alpha * rho - epsilon) - np.log(alpha - 1) + alpha * np.log1p(-1 / alpha)
        best = int(np.argmin(value))
        least = float(value[best])
        alpha = np.linspace(alpha[max(0, best - 1)], alpha[min(len(alpha) - 1, best + 1)], 2001)
    return min(1.0, math.exp(min(least, 0.0)) * (1 + MARGIN))


def zcdp_rho(*, epsilon: float, delta: float) -> float:
    """The largest ρ whose zCDP gives (ε, δ)-DP, rounded down."""
    low, high = 0.0, epsilon
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if zcdp_delta(rho=middle, epsilon=epsilon) <= delta else (low, middle)
    return low


def union_threshold(*, sigma: int, delta: float, most_keys: int, unit: int) -> int:
    """What a key's noisy weight must exceed, so that one person alone brings none of their keys out but with δ.

    A person with t keys gives each ⌊unit/√t⌋. The noise exceeds y ≥ 0 with probability at most Φ(−y/σ): a sum over
    whole numbers of a falling function is at most its integral, and Σ e^(−y²/2σ²) is at least √(2πσ²) (Poisson). With
    Φ(−y/σ) ≤ δ/t for each of t keys, none comes out with probability at least 1 − δ. The largest over all t counts.
    """
    keys = np.arange(1, most_keys + 1)
    reach = np.ceil(-ndtri(delta * (1 - MARGIN) / keys) * sigma * (1 + MARGIN)).astype(np.int64)
    own = np.array([key_weight(int(count), unit) for count in keys])
    return int((own + reach).max())


def key_weight(keys: int, unit: int) -> int:
    """⌊unit/√keys⌋, exactly: `keys` of them have length at most `unit`."""
    return math.isqrt(unit * unit // keys)


def _root_up(value: Fraction) -> int:
    """The least whole number whose square is not below a fraction."""
    whole = math.ceil(value)
    root = math.isqrt(whole)
    return root if root * root >= whole else root + 1

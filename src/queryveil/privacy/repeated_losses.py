"""The privacy loss of many independent draws, with a bound on every rounding error.

One draw's loss is a law over a lattice of numbers; the loss of `times` draws is its `times`-fold convolution P, and

    δ(ε) = Σ over losses above ε of P(loss) · (1 − e^(ε − loss)).

A Fourier transform convolves quickly, but errs by the same small amount everywhere, and δ lies in a tail that may be
far below it. So the law is tilted first (Esscher 1932): q(l) = p(l) e^(θl) / M has its bulk where ε lies, and P(l) =
M^times e^(−θl) Q(l) with Q the convolution of q. An error of Q then is an error *relative* to Chernoff's bound on δ,
which is of δ's own size.

What is added against ourselves, with u = 2^-53, L bins, F the transform of q, all |F| ≤ 1:

- transform: an output is a sum of |q| ≤ 1 in all, through log2 L levels of butterflies, each with an error of a few u
  relative to the moduli that meet in it: every entry within η = 16 u log2 L (the tests see 0.3 u log2 L);
- power: products of complex floats are within √5 u (Brent, Percival and Zimmermann 2007), so F^times, by squaring, is
  within times · √5 u of itself, and η becomes times · η · (|F| + η)^(times − 1): the error that grows with `times`;
- inverse: every bin within 1/L of the sum of those errors, and of η times the sum of moduli;
- bins: what lies outside the window of L bins is bounded by Chernoff and added; what wraps around only adds. The bound
  is taken from logarithms: e^(order · place) may lift a chance that as a float is subnormal, or 0, above all others;
- underflow: a float below 2^-1022 may be off by 2^-1075, in q and in every product; 1e-300 is added to every bin;
- q itself: within a factor 1 ± ρ by rounding of logarithms, so Q within (1 ± ρ)^times, and likewise M^times e^(−θl).

The choice of θ, window and search decides how good the answer is, never whether it holds.

Cost: two real transforms of L ≈ 20 standard deviations of the sum, in steps of the lattice.

>>> response = Lattice(start=-0.1, gap=0.2, chances=np.array([1.0, np.exp(0.1)]) / (1 + np.exp(0.1)))
>>> round(epsilon_of(response, 100, 1e-6), 3)
4.775
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import fft, optimize, special

Floats: TypeAlias = npt.NDArray[np.float64]

VERSION = 2  # raise when another ε may come out: laws that were calibrated with it are then made again
ROUNDING = 2.0**-53
TRANSFORM_ERROR = 16
"""Of a transform's entries, in units of 2^-53 · log2 of its length."""
OUTSIDE_THE_WINDOW = 1e-18
NEGLIGIBLE = 60.0
"""Bins in which the tilt is below e^-60 are not summed up; all they hold is added as if it were there."""
CLOSE_ENOUGH = 1e-9


@dataclass(frozen=True)
class Lattice:
    """The loss start + gap · l with chance `chances[l]`, each right to a few units in the last place; else infinite.

    Chances that sum up to more than 1 are an upper bound on a law, and the result is one too.
    """

    start: float
    gap: float
    chances: Floats
    infinite: float = 0.0


def epsilon_of(losses: Lattice, times: int, delta: float) -> float:
    """An ε ≥ 0, near the least, for which `times` draws are together (ε, delta)-DP; infinite where there is none."""
    lost = -math.expm1(times * math.log1p(-losses.infinite)) * (1 + 1e-9)
    allowed = (delta - lost) * (1 - 1e-12)
    if allowed <= 0:
        return math.inf
    most = (len(losses.chances) - 1) * times
    summed = _Tilted.of(losses.chances, times, _tilt(losses.chances, times, math.log(allowed)))
    rounding = 16 * ROUNDING * (times * abs(losses.start) + losses.gap * most)
    # From the place of ε = 0, less what the losses there may be off, to the place of the plain sum.
    low, high = (-times * losses.start - rounding) / losses.gap, float(most)
    if low >= high or summed.delta_at(low, losses.gap) <= allowed:
        return 0.0
    while high - low > CLOSE_ENOUGH * (1 + abs(high)):
        middle = (low + high) / 2
        low, high = (low, middle) if summed.delta_at(middle, losses.gap) <= allowed else (middle, high)
    return max(0.0, times * losses.start + losses.gap * high + rounding)


@dataclass(frozen=True)
class _Tilted:
    """An upper bound on Q, the law of the sum of `times` tilted draws, in the bins from `first` on."""

    chances: Floats
    first: int
    tilt: float
    log_scale: float
    """times · ln M."""
    rounding: float
    """How far logarithms of chances may be off."""

    @classmethod
    def of(cls, chances: Floats, times: int, tilt: float) -> _Tilted:
        logs = _logarithms(chances)
        places = np.arange(len(chances))
        log_total = float(special.logsumexp(logs + tilt * places))
        log_tilted = logs + tilt * places - log_total
        tilted = np.exp(log_tilted)
        first, last = _window(log_tilted, times)
        bins = fft.next_fast_len(max(last - first + 1, len(chances)), real=True)
        sums = _upper_bound(tilted, times, bins)
        largest = float(np.abs(logs[chances > 0]).max()) + tilt * len(chances) + abs(log_total)
        return cls(
            np.roll(sums, -(first % bins))[: last - first + 1],
            first,
            tilt,
            times * log_total,
            ROUNDING * (times * (8 * largest + 16) + 4 * bins),
        )

    def delta_at(self, place: float, gap: float) -> float:
        """An upper bound on δ at the loss of this place (a real number) of the lattice."""
        start = min(max(0, math.floor(place) + 1 - self.first), len(self.chances))
        end = min(len(self.chances), start + 1 + math.ceil(NEGLIGIBLE / self.tilt))
        above = np.arange(self.first + start, self.first + end) - place
        weights = np.exp(-self.tilt * above) * -np.expm1(-gap * above)
        rest = OUTSIDE_THE_WINDOW + math.exp(-NEGLIGIBLE)
        log_scale = self.log_scale - self.tilt * place
        log_scale += self.rounding + 8 * ROUNDING * (abs(self.log_scale) + abs(self.tilt * place))
        return math.inf if log_scale > 600 else math.exp(log_scale) * (float(weights @ self.chances[start:end]) + rest)


def _logarithms(chances: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        return np.log(chances)


def _tilt(chances: Floats, times: int, log_delta: float) -> float:
    """θ > 0 with the least ε by Chernoff's bound, times · ln M(θ) − θ · place = ln δ."""
    places = np.arange(len(chances))
    mean = chances @ places / chances.sum()
    spread = math.sqrt(chances @ (places - mean) ** 2 / chances.sum()) or 1.0
    usual = math.sqrt(-2 * min(log_delta, -1.0) / times) / spread
    logs = _logarithms(chances)

    def place(log_tilt: float) -> float:
        tilt = math.exp(log_tilt)
        total = special.logsumexp(logs + tilt * (places - mean))
        return float((times * total - log_delta) / tilt)

    centre = math.log(usual)
    return math.exp(optimize.minimize_scalar(place, bounds=(centre - 5, centre + 2), method="bounded").x)


def _window(log_tilted: Floats, times: int) -> tuple[int, int]:
    """First and last bin of the sum, but for a chance of `OUTSIDE_THE_WINDOW`, by Chernoff's bound."""
    places, tilted = np.arange(len(log_tilted)), np.exp(log_tilted)
    mean = tilted @ places
    spread = math.sqrt(times * (tilted @ (places - mean) ** 2))
    orders = np.arange(1, 41) / max(spread, 1.0)
    price = math.log(4 / OUTSIDE_THE_WINDOW)
    above, below = (
        min(
            (times * special.logsumexp(log_tilted + side * order * (places - mean)) + price) / order for order in orders
        )
        for side in (1, -1)
    )
    most = (len(log_tilted) - 1) * times
    return max(0, math.floor(times * mean - below)), min(most, math.ceil(times * mean + above))


def _upper_bound(tilted: Floats, times: int, bins: int) -> Floats:
    """The convolution modulo `bins`, every bin with the most that rounding may have taken from it."""
    entry = TRANSFORM_ERROR * ROUNDING * math.log2(max(bins, 2))
    spectrum = fft.rfft(tilted, bins)
    moduli = np.abs(spectrum) + entry
    powered = times * (entry + math.sqrt(5) * ROUNDING) * float(np.power(moduli, times - 1).sum())
    spectrum = _power(spectrum, times)
    inverse = entry * float(np.abs(spectrum).sum())
    error = 2 / bins * (powered + inverse) * 1.01 + 1e-300  # of the spectrum, which is symmetric, a half is kept
    return np.maximum(fft.irfft(spectrum, bins), 0.0) + error


def _power(base: npt.NDArray[np.complex128], times: int) -> npt.NDArray[np.complex128]:
    """base^times by squaring."""
    result = None
    while True:
        if times & 1:
            result = base if result is None else result * base
        times >>= 1
        if not times:
            assert result is not None
            return result
        base = base * base

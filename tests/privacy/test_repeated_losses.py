"""Many draws together are within their claim by exact arithmetic, also where δ is below what a transform resolves."""

import math
import os
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import fft, stats

from queryveil.privacy.accounting import repeated_pure
from queryveil.privacy.repeated_losses import ROUNDING, TRANSFORM_ERROR, Lattice, epsilon_of

THOUSANDTH = 1e-3
EXAMPLES = int(os.environ.get("QUERYVEIL_EXAMPLES", "60"))  # 50,000 take about an hour


def exact_delta(losses: Lattice, times: int, epsilon: float) -> float:
    """δ by convolving fractions and 50 digits of e^x: an independent oracle, for small cases."""
    one = [Fraction(float(chance)) for chance in losses.chances]
    together = [Fraction(1)]
    for _ in range(times):
        longer = [Fraction(0)] * (len(together) + len(one) - 1)
        for i, a in enumerate(together):
            for j, b in enumerate(one):
                longer[i + j] += a * b
        together = longer
    with localcontext() as context:
        context.prec = 50
        total = Decimal(0)
        for place, chance in enumerate(together):
            loss = Decimal(losses.start) * times + Decimal(losses.gap) * place
            if loss > Decimal(epsilon):
                share = 1 - (Decimal(epsilon) - loss).exp()
                total += Decimal(chance.numerator) / Decimal(chance.denominator) * share
        return float(total)


@given(
    weights=st.lists(st.integers(0, 10**6), min_size=2, max_size=6).filter(lambda w: sum(map(bool, w)) > 1),
    gap=st.floats(1e-4, 3.0),
    first=st.integers(-5, 0),
    times=st.integers(1, 12),
    digits=st.floats(0.5, 40.0),
)
# Tilted, the chance of 1 is subnormal.
@example(weights=[1, 0, 0, 410_500, 794_803], gap=1.0, first=0, times=1, digits=28.9)
@example(weights=[1, 0, 156_303, 526_733, 0, 0], gap=3.0, first=0, times=1, digits=39.8)
@example(weights=[1, 0, 835, 1, 1_000_000], gap=1.0, first=-4, times=11, digits=19.6)
# -5 · 1.0001 + 5 · 1.0001 is 0 in floats, and above 0 in the numbers they are.
@example(weights=[0, 0, 0, 0, 1, 1], gap=1.0001, first=-5, times=1, digits=16.0)
@settings(max_examples=EXAMPLES, deadline=None)
def test_a_few_draws_are_within_the_claim_by_exact_arithmetic(weights, gap, first, times, digits):
    losses = Lattice(first * gap, gap, np.array(weights) / sum(weights))
    delta = 10.0**-digits
    claimed = epsilon_of(losses, times, delta)
    assert exact_delta(losses, times, claimed) <= delta
    assert claimed <= max(0.0, times * (losses.start + gap * (len(weights) - 1)) * (1 + 1e-12) + 1e-12)


@pytest.mark.parametrize(("times", "delta"), [(1, 0.05), (5, 1e-3), (12, 1e-9), (12, 1e-12)])
def test_the_claim_is_nearly_the_least_one(times, delta):
    losses = Lattice(-0.5, 0.25, np.array([0.05, 0.1, 0.3, 0.25, 0.3]))
    claimed = epsilon_of(losses, times, delta)
    assert exact_delta(losses, times, claimed) <= delta
    assert exact_delta(losses, times, claimed * (1 - 1e-6)) > delta * (1 - THOUSANDTH)


def test_infinite_losses_are_paid_for_by_delta():
    chances = np.array([0.4, 0.6])
    assert epsilon_of(Lattice(-1.0, 2.0, chances, infinite=1e-7), 20, 1e-6) == math.inf
    some = epsilon_of(Lattice(-1.0, 2.0, chances, infinite=1e-8), 20, 1e-6)
    assert epsilon_of(Lattice(-1.0, 2.0, chances), 20, 1e-6) < some < math.inf
    assert epsilon_of(Lattice(-1.0, 2.0, chances), 20, 0.8e-6 - 1e-13) == pytest.approx(some, rel=1e-7)


@pytest.mark.parametrize("bins", [1000, 4096, 3**5 * 5**4, 2**20])
def test_transforms_err_far_less_than_is_allowed_for(bins):
    """Against extended precision, in both directions, for flat, peaked and few-point laws."""
    dice = np.random.default_rng(1)
    allowed = TRANSFORM_ERROR * ROUNDING * math.log2(bins)
    for law in (dice.random(bins), dice.random(bins) ** 40, (np.arange(bins) < 3) * 1.0):
        chances = law / law.sum()
        spectrum = fft.rfft(chances)
        forth = np.abs(spectrum - fft.rfft(chances.astype(np.longdouble))).max()
        back = np.abs(fft.irfft(spectrum, bins) - fft.irfft(spectrum.astype(np.clongdouble), bins)).max()
        assert forth < allowed / 10
        assert back < allowed / 10 * 2 * np.abs(spectrum).sum() / bins


# Where δ is small and draws are many: randomised response, whose sums are binomial


def delta_of_responses(epsilon: float, times: int, total: float) -> float:
    """δ from logarithms of binomial chances, each right to about a millionth."""
    counts = np.arange(times + 1)
    losses = (2 * counts - times) * epsilon
    above = losses > total
    logs = stats.binom.logpmf(counts[above], times, 1 / (1 + math.exp(-epsilon)))
    return float(np.exp(logs) @ -np.expm1(total - losses[above]))


def as_it_was(epsilon: float, times: int, delta: float) -> float:
    """The twin: one transform of the law as it is, and a margin of 1e-13 however many draws."""
    chances = np.array([1 / (1 + math.exp(epsilon)), 0.0, 1 / (1 + math.exp(-epsilon))])
    middle, spread = times * math.tanh(epsilon / 2), math.sqrt(times)
    first = max(-times, int(middle - 10 * spread))
    bins = fft.next_fast_len(min(2 * times, int(20 * spread)) + 3)
    places = first + np.arange(bins)
    sums = np.roll(np.real(fft.ifft(fft.fft(chances, bins) ** times)), -(first + times) % bins)
    low, high = 0.0, epsilon * times
    while high - low > 1e-9:
        total = (low + high) / 2
        above = places * epsilon > total
        slack = sums[above] @ -np.expm1(total - places[above] * epsilon)
        low, high = (low, total) if slack <= delta * 0.999 - 1e-13 else (total, high)
    return high


MANY = [(0.01, 10**4, 2e-13), (0.003, 10**5, 2e-13), (0.001, 10**6, 3e-13), (0.003, 10**6, 1e-12)]


@pytest.mark.parametrize(("epsilon", "times", "delta"), [*MANY, (0.001, 10**6, 1e-10), (0.003, 10**5, 1e-30)])
def test_many_responses_are_within_a_small_delta_and_use_it(epsilon, times, delta):
    spent = delta_of_responses(epsilon, times, repeated_pure(epsilon, times, delta))
    assert (1 - THOUSANDTH) * delta < spent <= delta


def test_a_margin_that_does_not_grow_with_the_draws_is_caught():
    exceeded = [delta_of_responses(e, n, as_it_was(e, n, delta)) / delta for e, n, delta in MANY]
    assert max(exceeded) > 1.1, exceeded

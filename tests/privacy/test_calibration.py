"""Noise and thresholds: near the continuous references, exact for the numbers that are drawn."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from properties import examples
from queryveil.errors import ParameterError
from queryveil.privacy import calibration as cal
from queryveil.privacy.noise import Noise, gaussian_fraction


def law(sigma, reach=None):
    """The discrete Gaussian by plain summation: (values, probabilities)."""
    top, bottom, _ = gaussian_fraction(sigma)
    variance = top / bottom
    reach = reach or math.ceil(14 * math.sqrt(variance)) + 2
    y = np.arange(-reach, reach + 1)
    mass = np.exp(-(y.astype(float) ** 2) / (2 * variance))
    return y, mass / mass.sum()


def delta_by_convolution(sigma, epsilon, keys):
    """The hockey-stick distance of `keys` counts shifted by one, from the law of the sum itself."""
    y, mass = law(sigma)
    total = mass
    for _ in range(keys - 1):
        total = np.convolve(total, mass)
    top, bottom, _ = gaussian_fraction(sigma)
    values = np.arange(len(total)) + keys * y[0]
    loss = (2 * values + keys) / (2 * top / bottom)
    return float((total * np.maximum(0, -np.expm1(epsilon - loss))).sum())


def test_continuous_references_equal_the_specification():
    assert cal.analytic_gaussian_sigma(epsilon=2.0, delta=5e-7, sensitivity=math.sqrt(5)) == pytest.approx(
        5.138493795035
    )
    assert cal.analytic_gaussian_sigma(epsilon=2.0, delta=5e-7, sensitivity=math.sqrt(20)) == pytest.approx(10.27698759)
    assert cal.gaussian_threshold(sigma=5.138493795035096, tail=1e-7) == pytest.approx(27.716763904390564, abs=1e-9)
    assert cal.gaussian_threshold(sigma=10.276987590070192, tail=2.5e-8) == pytest.approx(57.023049719358085, abs=1e-9)
    assert cal.laplace_threshold(scale=2.5, tail=1e-6 / 5) == pytest.approx(37.829503224596074, abs=1e-9)
    assert cal.laplace_threshold(scale=10, tail=1e-6 / 20) == pytest.approx(162.1809565095832, abs=1e-9)


def test_the_continuous_tail_at_its_threshold_is_what_was_asked_for():
    for d, sigma in ((5, 5.138493795035096), (20, 10.276987590070192)):
        threshold = cal.gaussian_threshold(sigma=sigma, tail=1e-6 / (2 * d))
        assert stats.norm.sf((threshold - 1) / sigma) == pytest.approx(1e-6 / (2 * d), rel=1e-12)


@pytest.mark.parametrize(("sigma", "epsilon", "keys"), [(0.8, 3.0, 1), (1.2, 2.0, 3), (5.14, 2.0, 5), (3.2, 8.0, 20)])
def test_delta_of_many_counts_is_that_of_the_law_of_their_sum(sigma, epsilon, keys):
    exact = delta_by_convolution(sigma, epsilon, keys)
    bound = cal.discrete_gaussian_delta(sigma=sigma, epsilon=epsilon, keys=keys)
    assert exact <= bound
    looseness = math.exp(cal._sum_inflation(cal._sampled_variance(sigma), keys))
    assert bound <= exact * looseness * (1 + 1e-6)


@settings(max_examples=examples(40), deadline=None)
@given(st.floats(0.05, 8), st.sampled_from([1e-5, 1e-7, 5e-9]), st.integers(1, 30))
def test_sigma_suffices_and_lies_within_two_percent_of_the_continuous_one(epsilon, delta, keys):
    sigma = cal.discrete_gaussian_sigma(epsilon=epsilon, delta=delta, keys=keys)
    assert cal.discrete_gaussian_delta(sigma=sigma, epsilon=epsilon, keys=keys) <= delta
    near = cal.analytic_gaussian_sigma(epsilon=epsilon, delta=delta, sensitivity=math.sqrt(keys))
    if near > 2:
        assert float(sigma) == pytest.approx(near, rel=0.02)


def test_broken_twin_ten_percent_less_noise_does_not_suffice():
    sigma = cal.discrete_gaussian_sigma(epsilon=2.0, delta=5e-7, keys=5)
    assert delta_by_convolution(sigma * Fraction(9, 10), 2.0, 5) > 5e-7


@settings(max_examples=examples(60), deadline=None)
@given(st.floats(0.3, 40), st.integers(-60, 200))
def test_gaussian_tail_is_the_sum_of_the_law_rounded_up(sigma, beyond):
    y, mass = law(sigma, reach=max(abs(beyond), math.ceil(14 * sigma)) + 20)
    exact = float(mass[y > beyond].sum())
    tail = cal.discrete_gaussian_tail(sigma, beyond)
    assert exact * (1 - 1e-12) <= tail <= exact * (1 + 1e-8) + 5e-324


@settings(max_examples=examples(60), deadline=None)
@given(st.floats(0.2, 40), st.integers(-60, 200))
def test_laplace_tail_is_the_sum_of_the_law_rounded_up(scale, beyond):
    ratio = math.exp(-1 / scale)
    reach = max(abs(beyond), math.ceil(60 * scale)) + 60
    exact = sum((1 - ratio) / (1 + ratio) * ratio ** abs(y) for y in range(beyond + 1, reach + 1))
    assert exact * (1 - 1e-9) <= cal.discrete_laplace_tail(scale, beyond) <= exact * (1 + 1e-8) + 1e-20


@pytest.mark.parametrize("tail", [1e-3, 1e-7, 2.5e-9])
def test_thresholds_are_the_least_that_hold(tail):
    for sigma in (0.7, 5.1396484375, 40.0):
        threshold = cal.discrete_gaussian_threshold(sigma, tail=tail)
        assert cal.discrete_gaussian_tail(sigma, threshold - 1) <= tail
        assert cal.discrete_gaussian_tail(sigma, threshold - 2) > tail or threshold == 1
    for scale in (0.5, 2.5, 30.0):
        threshold = cal.discrete_laplace_threshold(scale, tail=tail)
        assert cal.discrete_laplace_tail(scale, threshold - 1) <= tail < cal.discrete_laplace_tail(scale, threshold - 2)


def test_drawn_noise_exceeds_the_threshold_as_often_as_computed():
    """400,000 draws, α = 1e-6: a tail of 0.01 that is 10 % off is rejected with probability above 0.9999."""
    sigma = Fraction(5)
    threshold = cal.discrete_gaussian_threshold(sigma, tail=0.01)
    exceeding = int((1 + Noise.seeded(3).stream("tail").discrete_gaussian(sigma, 400_000) > threshold).sum())
    chance = cal.discrete_gaussian_tail(sigma, threshold - 1)
    assert stats.binomtest(exceeding, 400_000, chance).pvalue > 1e-6
    assert stats.binomtest(exceeding, 400_000, 1.1 * chance).pvalue < 1e-6


def test_truncated_geometric_equals_the_specification():
    keep = [k / cal.KEEP_UNIT for k in cal.truncated_geometric_keep(epsilon=1.0, delta=1e-5)]
    assert keep[1] == pytest.approx(1e-5, rel=1e-9)
    assert keep[2] == pytest.approx(3.718282e-5, rel=1e-6)
    assert keep[5] == pytest.approx(8.579102e-4, rel=1e-6)
    assert keep[10] == pytest.approx(0.128183081, rel=1e-8)
    assert keep[11] == pytest.approx(0.3484477384533131, rel=1e-9)
    assert [next(n for n, k in enumerate(keep) if k >= level) for level in (0.5, 0.99, 1.0)] == [12, 16, 23]


@settings(max_examples=examples(60), deadline=None)
@given(st.floats(0.01, 5), st.floats(1e-12, 0.1))
def test_all_four_inequalities_hold_exactly_for_every_number_of_people(epsilon, delta):
    keep = cal.truncated_geometric_keep(epsilon=epsilon, delta=delta)
    keep = [*keep, *[cal.KEEP_UNIT] * max(1, 59 - len(keep))]
    growth, slack, one = cal._exponential_down(epsilon), Fraction(delta) * cal.KEEP_UNIT, cal.KEEP_UNIT
    assert float(growth) == pytest.approx(math.exp(epsilon), rel=1e-12)
    assert growth <= Fraction(math.nextafter(math.exp(epsilon), math.inf))
    for before, after in itertools.pairwise(keep):
        assert after <= growth * before + slack
        assert before <= growth * after + slack
        assert one - after <= growth * (one - before) + slack
        assert one - before <= growth * (one - after) + slack


@pytest.mark.parametrize(
    "bad",
    [{"epsilon": 0.0, "delta": 1e-6}, {"epsilon": float("nan"), "delta": 1e-6}, {"epsilon": 1.0, "delta": 1.0}],
)
def test_impossible_budgets_are_refused(bad):
    with pytest.raises(ParameterError):
        cal.discrete_gaussian_sigma(**bad, keys=1)
    with pytest.raises(ParameterError):
        cal.truncated_geometric_keep(**bad)


def test_a_slack_finer_than_the_sampler_is_refused():
    with pytest.raises(ValueError, match="finest probability"):
        cal.truncated_geometric_keep(epsilon=1.0, delta=1e-30)


def test_sums_in_blocks_are_never_too_small_and_at_most_one_percent_too_large(monkeypatch):
    """At a large σ the calibration sums blocks; the sum over every number is the reference."""
    blocks = [
        cal.discrete_gaussian_tail(20_000.0, 110_000),
        cal.discrete_gaussian_delta(sigma=9000.0, epsilon=0.002, keys=9),
    ]
    monkeypatch.setattr(cal, "FINEST", 10**9)
    every = [
        cal.discrete_gaussian_tail(20_000.0, 110_000),
        cal.discrete_gaussian_delta(sigma=9000.0, epsilon=0.002, keys=9),
    ]
    for coarse, fine in zip(blocks, every, strict=True):
        assert fine <= coarse <= 1.01 * fine
        assert 0 < fine < 1e-6


@pytest.mark.parametrize(
    ("sigma", "epsilon", "keys"), [(2.0, 1.0, 10_000), (3.0, 0.5, 400), (20.0, 0.01, 50), (5.0, 2.0, 100)]
)
def test_delta_is_right_where_most_of_the_law_lies_below_zero(sigma, epsilon, keys):
    """The continuous law is the reference: it comes near the discrete one here, and δ is close to 1."""
    shift = math.sqrt(keys) / sigma
    far = math.exp(epsilon) * stats.norm.cdf(-shift / 2 - epsilon / shift)
    reference = stats.norm.cdf(shift / 2 - epsilon / shift) - far
    assert cal.discrete_gaussian_delta(sigma=sigma, epsilon=epsilon, keys=keys) == pytest.approx(reference, rel=0.02)
    assert reference > 0.1


def test_without_a_known_law_of_the_sum_nothing_is_promised():
    assert cal.discrete_gaussian_delta(sigma=0.1, epsilon=1000.0, keys=2) == 1.0


@pytest.mark.parametrize("keys", [1, 20, 1000, 5000, 100_000])
@pytest.mark.parametrize("epsilon", [0.1, 20.0, 100.0, 400.0, 1000.0])
def test_noise_is_never_less_than_the_continuous_law_needs(epsilon, keys):
    sigma = float(cal.discrete_gaussian_sigma(epsilon=epsilon, delta=1e-7, keys=keys))
    needed = cal.analytic_gaussian_sigma(epsilon=epsilon, delta=1e-7, sensitivity=math.sqrt(keys))
    # A single count with hardly any noise is exact by itself: its law stands mostly on one number, not on a curve.
    assert sigma >= 0.8 * needed or keys == 1
    assert cal.discrete_gaussian_delta(sigma=sigma, epsilon=epsilon, keys=keys) <= 1e-7

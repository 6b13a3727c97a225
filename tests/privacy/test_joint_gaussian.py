"""Noise for several tables at once: the shares, the smoothing argument, the conversion of ρ, thresholds of unions."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queryveil.privacy.calibration import (
    analytic_gaussian_sigma,
    discrete_gaussian_delta,
    discrete_gaussian_tail,
)
from queryveil.privacy.joint_gaussian import (
    SMOOTHING,
    joint_rho,
    joint_sigmas,
    key_weight,
    union_threshold,
    zcdp_delta,
    zcdp_rho,
)

UNIT = 2**16
TABLES = {"a": Fraction(1, 2), "b": Fraction(1, 3), "c": Fraction(1, 7)}


@given(st.floats(0.05, 20), st.sampled_from([1e-6, 1e-8, 1e-12]))
def test_all_tables_together_are_no_farther_apart_than_one_gaussian_of_the_whole_budget(epsilon, delta):
    sigmas = joint_sigmas(epsilon=epsilon, delta=delta, shares=TABLES, unit=UNIT)
    distance = sum(Fraction(UNIT**2, sigma**2 - SMOOTHING) for sigma in sigmas.values())
    whole = analytic_gaussian_sigma(epsilon=epsilon, delta=delta, sensitivity=1.0)
    assert distance <= 1 / Fraction(whole) ** 2
    assert joint_rho(sigmas.values(), unit=UNIT) <= distance / 2


def test_one_table_costs_hardly_more_than_the_best_noise():
    sigma = joint_sigmas(epsilon=2.0, delta=1e-6, shares={"a": Fraction(1)}, unit=UNIT)["a"]
    best = analytic_gaussian_sigma(epsilon=2.0, delta=1e-6, sensitivity=1.0) * UNIT
    assert best <= sigma <= best * 1.0001


def test_shares_above_one_are_refused():
    with pytest.raises(ValueError, match="add up"):
        joint_sigmas(epsilon=1.0, delta=1e-6, shares={"a": Fraction(2, 3), "b": Fraction(1, 2)}, unit=UNIT)


@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
def test_the_exact_loss_of_one_discrete_number_stays_below_the_promise(epsilon):
    """An independent sum over whole numbers, of the least promise that fits a whole σ."""
    sigma = joint_sigmas(epsilon=epsilon, delta=1e-6, shares={"a": Fraction(1)}, unit=4096)["a"]
    y = np.arange(-60 * sigma, 60 * sigma + 1, dtype=np.float64)
    law = np.exp(-(y**2) / (2 * sigma**2))
    shifted = np.exp(-((y - 4096) ** 2) / (2 * sigma**2))
    delta = np.maximum(law - math.exp(epsilon) * shifted, 0).sum() / law.sum()
    assert 0.97e-6 < delta <= 1e-6


def test_a_continuous_gaussian_drawn_again_from_whole_numbers_is_the_discrete_one():
    """The smoothing argument in numbers: σ² = 25, of which 4 are the second draw's."""
    z = np.arange(-60, 61)
    x = np.linspace(-60, 60, 24_001)
    outer = np.exp(-(x**2) / (2 * (25 - SMOOTHING)))
    inner = np.exp(-((z[:, None] - x[None, :]) ** 2) / (2 * SMOOTHING))
    law = (inner / inner.sum(axis=0) * outer).sum(axis=1)
    discrete = np.exp(-(z**2) / 50.0)
    middle = np.abs(z) < 35
    assert np.allclose((law / law.sum())[middle], (discrete / discrete.sum())[middle], rtol=1e-9)


def test_rho_converts_as_the_specification_says():
    rho = zcdp_rho(epsilon=8.0, delta=1e-8)
    assert rho == pytest.approx(0.816, abs=5e-4) and 1 / math.sqrt(2 * rho) == pytest.approx(0.783, abs=1e-3)
    assert zcdp_delta(rho=rho, epsilon=8.0) <= 1e-8 < zcdp_delta(rho=rho * 1.001, epsilon=8.0)


@given(st.floats(0.1, 10), st.floats(0.01, 2))
def test_what_rho_promises_is_never_less_than_what_a_gaussian_of_that_rho_loses(epsilon, rho):
    sigma = 64 / math.sqrt(2 * rho)
    assert zcdp_delta(rho=rho, epsilon=epsilon) * (1 + 1e-6) + 1e-300 >= _loss(sigma, epsilon)


def _loss(sigma, epsilon):
    y = np.arange(-60 * int(sigma + 1), 60 * int(sigma + 1) + 1, dtype=np.float64)
    law, shifted = np.exp(-(y**2) / (2 * sigma**2)), np.exp(-((y - 64) ** 2) / (2 * sigma**2))
    return float(np.maximum(law - math.exp(epsilon) * shifted, 0).sum() / law.sum())


def test_sums_of_the_calibration_agree():
    assert discrete_gaussian_delta(sigma=20, epsilon=0.2, keys=1) == pytest.approx(_shift_by_one(20, 0.2), rel=1e-6)


def _shift_by_one(sigma, epsilon):
    y = np.arange(-60 * sigma, 60 * sigma + 1, dtype=np.float64)
    law, shifted = np.exp(-(y**2) / (2 * sigma**2)), np.exp(-((y - 1) ** 2) / (2 * sigma**2))
    return float(np.maximum(law - math.exp(epsilon) * shifted, 0).sum() / law.sum())


def escape_probability(sigma, threshold, keys, unit):
    """P(any of a lone person's keys comes out), by the exact tail."""
    each = discrete_gaussian_tail(sigma, threshold - key_weight(keys, unit))
    return -math.expm1(keys * math.log1p(-min(each, 0.999)))


@pytest.mark.parametrize("most", [1, 7, 128])
def test_a_lone_person_brings_no_key_out_but_with_delta_however_many_they_have(most):
    sigma, delta, unit = 3000, 1e-7, 1000
    threshold = union_threshold(sigma=sigma, delta=delta, most_keys=most, unit=unit)
    escapes = [escape_probability(sigma, threshold, keys, unit) for keys in range(1, most + 1)]
    assert max(escapes) <= delta
    assert max(escapes) > 0.9 * delta, "the threshold is higher than it needs to be"


@pytest.mark.parametrize("wrong", [{"most_keys": 1}, {"delta": 1e-5}])
def test_a_threshold_for_fewer_keys_or_another_delta_is_caught(wrong):
    sigma, unit, right = 3000, 1000, {"delta": 1e-7, "most_keys": 128}
    threshold = union_threshold(sigma=sigma, unit=unit, **(right | wrong))
    assert max(escape_probability(sigma, threshold, keys, unit) for keys in range(1, 129)) > right["delta"]


@given(st.integers(1, 5000))
def test_keys_of_one_person_have_length_one_at_most(keys):
    assert keys * key_weight(keys, UNIT) ** 2 <= UNIT**2

"""Losses add up exactly, only kind with like kind, and tight composition is never worse than the plain sum."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytest import approx
from scipy import optimize, stats

from queryveil.privacy import ApproxDP, KAnonymity, PureDP
from queryveil.privacy.accounting import (
    DISJOINT_PEOPLE,
    float_up,
    parallel,
    repeated_gaussian,
    repeated_pure,
    sequential,
)
from queryveil.privacy.noise import gaussian_fraction

losses = st.lists(st.floats(1e-9, 100), min_size=1, max_size=20)


@given(losses)
def test_the_sum_is_never_below_the_exact_one(epsilons):
    total = sequential(*(PureDP(epsilon=e) for e in epsilons)).epsilon
    exact = sum(map(Fraction, epsilons))
    assert Fraction(total) >= exact
    assert Fraction(math.nextafter(total, 0)) < exact


def test_approximate_losses_add_in_both_numbers():
    together = sequential(ApproxDP(epsilon=1.0, delta=1e-6), ApproxDP(epsilon=0.5, delta=2e-6))
    assert (together.epsilon, together.delta) == (1.5, approx(3e-6, abs=1e-20))


def test_parallel_takes_the_worst_and_says_what_it_assumes():
    together = parallel(PureDP(epsilon=1.0), PureDP(epsilon=0.5))
    assert together.epsilon == 1.0
    assert DISJOINT_PEOPLE in together.assumptions


def test_the_weakest_evidence_and_every_gap_are_carried_over():
    one = PureDP(epsilon=1, not_protected=("order",), evidence="paper")
    two = PureDP(epsilon=1, not_protected=("time",))
    together = sequential(one, two)
    assert together.evidence == "paper"
    assert together.not_protected == ("order", "time")


def test_kinds_units_and_relations_do_not_mix():
    with pytest.raises(TypeError):
        sequential(PureDP(epsilon=1), ApproxDP(epsilon=1, delta=1e-6))
    with pytest.raises(TypeError):
        sequential(PureDP(epsilon=1, unit="query"), PureDP(epsilon=1, unit="user"))
    with pytest.raises(TypeError, match="no loss that adds up"):
        sequential(KAnonymity(k=3), KAnonymity(k=3))
    with pytest.raises(ValueError, match="at least one"):
        sequential()


def exact_delta_of_repeated_response(epsilon: float, times: int, total: float) -> float:
    """δ of `times` randomised responses, by enumerating how many of them point one way (an independent oracle)."""
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    counts = range(times + 1)
    losses = [(2 * c - times) * epsilon for c in counts]
    return sum(
        max(0.0, stats.binom.pmf(c, times, p) * (1 - math.exp(total - loss)))
        for c, loss in zip(counts, losses, strict=True)
        if loss > total
    )


@pytest.mark.parametrize(("epsilon", "times", "delta"), [(0.1, 100, 1e-6), (0.5, 10, 1e-5), (0.05, 400, 1e-7)])
def test_tight_composition_is_sound_nearly_exact_and_better_than_the_sum(epsilon, times, delta):
    tight = repeated_pure(epsilon, times, delta)
    assert exact_delta_of_repeated_response(epsilon, times, tight) <= delta
    exact = optimize.brentq(lambda e: exact_delta_of_repeated_response(epsilon, times, e) - delta, 0, epsilon * times)
    assert exact <= tight <= exact * 1.01
    assert tight < epsilon * times


def test_one_run_costs_what_it_costs():
    assert repeated_pure(1.0, 1, 1e-9) == approx(1.0, abs=1e-3)


def exact_delta_of_discrete_gaussian(sigma: float, epsilon: float) -> float:
    """δ of one discrete Gaussian number of sensitivity 1, by summing over all whole numbers that matter."""
    points = np.arange(-int(40 * sigma) - 5, int(40 * sigma) + 6)
    law = np.exp(-(points**2) / (2 * sigma**2))
    law /= law.sum()
    moved = np.roll(law, 1)
    return float(np.maximum(0, law - math.exp(epsilon) * moved).sum())


@pytest.mark.parametrize(("sigma", "delta"), [(0.3, 1e-3), (0.5, 1e-9), (1.0, 1e-3), (2.0, 1e-6), (5.0, 1e-6)])
def test_one_discrete_gaussian_is_accounted_for_by_its_own_law_not_the_continuous_one(sigma, delta):
    epsilon = repeated_gaussian(sigma, 1, 1, delta)
    top, bottom, _ = gaussian_fraction(sigma)
    drawn = math.sqrt(top / bottom)  # σ² is rounded up to what the sampler can draw with
    assert exact_delta_of_discrete_gaussian(drawn, epsilon) <= delta
    assert exact_delta_of_discrete_gaussian(drawn, epsilon * 0.999) > delta


def test_many_wide_gaussians_come_near_the_analytic_formula():
    def delta_at(epsilon: float, mu: float) -> float:
        return stats.norm.cdf(mu / 2 - epsilon / mu) - math.exp(epsilon) * stats.norm.cdf(-mu / 2 - epsilon / mu)

    sigma, times, delta = 20.0, 16, 1e-6
    mu = math.sqrt(times) / sigma
    exact = optimize.brentq(lambda e: delta_at(e, mu) - delta, 0, 50)
    assert repeated_gaussian(sigma, 1, times, delta) == approx(exact, rel=0.01)


@given(st.fractions(min_value=0, max_value=1000))
def test_float_up_is_the_smallest_float_not_below(exact):
    rounded = float_up(exact)
    assert Fraction(rounded) >= exact
    assert rounded == 0 or Fraction(math.nextafter(rounded, -1)) < exact

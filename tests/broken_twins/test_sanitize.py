"""Deliberately wrong variants of sanitize's safe mode: the exact audit must reject each, and accept the real one."""

import dataclasses
from fractions import Fraction

import numpy as np
import polars as pl
import pytest

from mechanisms.exact_selection import distance
from mechanisms.sanitize_toys import LN2, example_e
from queryveil.log.query_log import LocalTable
from queryveil.mechanisms.sanitize import linear, safe
from queryveil.mechanisms.sanitize.constraints import Constraints
from queryveil.mechanisms.sanitize.selection import Selection, contributed
from queryveil.privacy import Noise

EPSILON, DELTA = 1.6, 1e-4


def worst(selection: Selection, contribution: int) -> float:
    """The greatest distance over neighbours with shared and own pairs."""
    half = selection.half_kept
    return max(
        distance(selection, EPSILON, others=[n] * (contribution - own), own=own)
        for own in range(contribution + 1)
        for n in (1, half - 1, half + 4)
    )


def real(contribution: int = 2) -> list[Selection]:
    settings = {"epsilon": EPSILON, "delta": DELTA, "contribution": contribution}
    return [Selection.gaussian(**settings), Selection.laplace(**settings), Selection.truncated_geometric(**settings)]


@pytest.mark.parametrize("selection", real(), ids=lambda s: s.kind)
def test_the_real_selection_is_accepted(selection):
    assert worst(selection, 2) <= DELTA


@pytest.mark.parametrize("selection", real()[:2], ids=lambda s: s.kind)
def test_half_the_noise_is_rejected(selection):
    assert worst(dataclasses.replace(selection, scale=selection.scale / 2), 2) > DELTA


def test_a_threshold_of_two_is_rejected():
    for selection in real()[:2]:
        assert worst(dataclasses.replace(selection, threshold=2), 2) > DELTA


def test_a_threshold_that_forgets_the_factor_d_is_rejected():
    """Calibrated for one pair a user, used with two."""
    for selection in real(1):
        assert worst(selection, 2) > DELTA


def test_a_scale_that_forgets_the_square_root_of_d_is_rejected():
    one, two = real(1)[0], real(2)[0]
    assert worst(dataclasses.replace(two, scale=one.scale), 2) > DELTA


def test_keys_kept_by_a_hard_count_are_rejected():
    """k-anonymity in place of noise: kept from 5 people on, never before."""
    unit = 2**62
    assert worst(Selection("truncated geometric", 4, keys=(0, 0, 0, 0, 0, unit)), 1) == pytest.approx(1.0)


def test_unblurred_counts_above_a_noisy_threshold_are_rejected():
    """As with noise of next to nothing: the count itself tells whether she is in."""
    sharp = dataclasses.replace(real(1)[1], scale=Fraction(1, 1000))
    assert worst(sharp, 1) == pytest.approx(1.0)


def test_without_the_contribution_bound_one_user_adds_more_than_promised():
    user = np.zeros(50, dtype=np.int64)
    assert contributed(user, Noise.seeded(1).stream("c"), 5).sum() == 5  # the twin keeps all 50
    selection = Selection.laplace(epsilon=EPSILON, delta=DELTA, contribution=1)
    assert distance(selection, EPSILON, others=[30, 30], own=0) > DELTA


def test_clicks_counted_instead_of_people_let_one_user_out():
    clicks = pl.DataFrame({"user": ["a"], "query": ["q"], "url": ["u"], "count": [500]})
    selection = Selection.laplace(epsilon=EPSILON, delta=DELTA, contribution=1)
    kept, _ = selection.apply(clicks["count"].to_numpy(), Noise.seeded(1).stream("clicks"))
    assert kept.all()  # the twin
    published = safe.publish(LocalTable(clicks), Noise.seeded(1), epsilon=2.0, contribution=1, selection=selection)
    assert published.pairs.height == 0


def test_a_solution_within_a_solver_s_tolerance_is_rejected_by_the_exact_check():
    constraints = Constraints.of(example_e(), LN2)
    relaxed = linear.greatest_size(constraints).x
    rounded_up = np.ceil(relaxed).astype(np.int64)
    assert len(constraints.breaches(rounded_up)) > 0
    barely = Constraints.of(example_e(), 2 * float(np.log(4 / 3)) * (1 - 1e-13))
    assert len(barely.breaches(np.array([0, 1, 1]))) == 4  # a tolerance of 1e-9 would let it pass

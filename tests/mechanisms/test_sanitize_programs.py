"""Counts, constraints, linear programs and rounding of sanitize: the specification's numbers, and slow twins."""

import math
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mechanisms.sanitize_toys import (
    LN2,
    exact_size,
    example_e,
    figure_1,
    joint_value,
    largest_whole,
    shared_counts,
    weights_by_hand,
)
from properties import examples
from queryveil.errors import DataError
from queryveil.mechanisms.sanitize import linear, objectives
from queryveil.mechanisms.sanitize.constraints import Constraints, limit
from queryveil.mechanisms.sanitize.counts import ClickCounts
from queryveil.mechanisms.sanitize.rounding import filled, floored
from vectors.sanitize import LARGEST_OF_FIGURE_1, LEAST_B_FOR_SIZE_2_OF_E, SIZE_OF_E, TABLE_4, WEIGHTS_OF_E

LIMITS = st.floats(0.05, 4.0)


def dense(counts: ClickCounts) -> np.ndarray:
    matrix = np.zeros((counts.users, counts.pairs), dtype=int)
    matrix[counts.user, counts.pair] = counts.count
    return matrix


# --- counts


def test_pairs_of_one_user_are_dropped_and_only_those():
    counts = figure_1()
    assert dense(counts).tolist() == [[3, 15, 0], [0, 7, 2], [1, 17, 5]]
    assert counts.total == 50


def test_rows_of_one_triplet_are_added_up_and_order_does_not_matter():
    table = pl.DataFrame(
        {"user": ["b", "a", "b"], "query": ["q", "q", "q"], "url": ["u", "u", "u"], "count": [1, 2, 4]}
    )
    assert dense(ClickCounts.of(table)).tolist() == [[2], [5]]
    assert dense(ClickCounts.of(table.reverse())).tolist() == [[2], [5]]


@pytest.mark.parametrize("count", [[0, 1], [-3, 1], [None, 1], [2**60, 2**60]])
def test_impossible_counts_are_refused_without_showing_rows(count):
    table = pl.DataFrame({"user": ["secret", "b"], "query": ["q", "q"], "url": ["u", "u"], "count": count})
    with pytest.raises(DataError) as refused:
        ClickCounts.of(table)
    assert "secret" not in str(refused.value)


def test_counts_that_are_not_whole_are_refused():
    with pytest.raises(DataError, match="whole number"):
        ClickCounts.of(pl.DataFrame({"user": ["a"], "query": ["q"], "url": ["u"], "count": [1.5]}))


def test_a_neighbour_loses_the_user_and_the_pairs_that_become_unique():
    neighbour = figure_1().without_user(1)
    assert dense(neighbour).tolist() == [[3, 15, 0], [0, 0, 0], [1, 17, 0]]


# --- constraints


def test_weights_of_figure_1_equal_the_specification():
    expected = [[math.log(4), math.log(1.625), 0], [0, math.log(1.21875), math.log(1.4)]]
    expected.append([math.log(4 / 3), math.log(39 / 22), math.log(3.5)])
    assert Constraints.of(figure_1(), 1.0).by_user.toarray() == pytest.approx(np.array(expected), rel=1e-14)


def test_loads_of_the_solution_in_figure_1_need_an_epsilon_of_17():
    loads = Constraints.of(figure_1(), 1.0).loads([3, 20, 4])
    assert loads == pytest.approx([13.869039398993689, 5.302403813083249, 17.324481946763427], rel=1e-12)
    assert 1 - math.exp(-loads.max()) == pytest.approx(0.9999999700723174, abs=1e-12)


def test_the_smaller_of_the_two_limits_counts():
    assert limit(epsilon=0.5, delta=0.9) == 0.5
    assert limit(epsilon=5.0, delta=0.5) == pytest.approx(LN2)


def test_a_pair_of_one_user_cannot_be_constrained():
    with pytest.raises(ValueError, match="drop unique pairs"):
        Constraints.of(ClickCounts.from_matrix([[1], [0]]), 1.0)


def test_the_check_decides_the_boundary_exactly():
    """x = 1 on a pair of two equal users weighs ln 2 exactly; no tolerance may let more through."""
    two = Constraints.of(ClickCounts.from_matrix([[5], [5]]), LN2)
    assert two.breaches(np.array([1])).tolist() == []
    barely_less = Constraints.of(ClickCounts.from_matrix([[5], [5]]), LN2 * (1 - 4e-16))
    assert barely_less.breaches(np.array([1])).tolist() == [0, 1]


@settings(max_examples=examples(150), deadline=None)
@given(shared_counts(), st.lists(st.integers(0, 6), min_size=6, max_size=6), st.fractions(1, 200, max_denominator=50))
def test_the_check_agrees_with_whole_number_arithmetic(counts, x, e_to_b):
    """Π t^x ≤ e^b over fractions, with e^b a fraction and b its logarithm rounded to a float."""
    chosen = np.array(x[: counts.pairs])
    b = math.log(e_to_b)
    if b == 0:
        return
    broken = Constraints.of(counts, b).breaches(chosen).tolist()
    matrix = dense(counts)
    total = matrix.sum(axis=0)
    for user in range(counts.users):
        product = Fraction(1)
        for pair in np.flatnonzero(matrix[user]):
            product *= Fraction(int(total[pair]), int(total[pair] - matrix[user, pair])) ** int(chosen[pair])
        if product == e_to_b:
            assert user not in broken
        elif abs(math.log(product) / b - 1) > 1e-12:
            assert (user in broken) == (product > e_to_b)


def test_broken_solutions_are_cut_back_until_they_hold():
    constraints = Constraints.of(example_e(), LN2)
    within = constraints.within(np.array([3, 3, 3]))
    assert len(constraints.breaches(within)) == 0
    assert (within <= 3).all()


def test_only_whole_non_negative_solutions_are_checked():
    constraints = Constraints.of(example_e(), LN2)
    with pytest.raises(ValueError, match="whole numbers"):
        constraints.breaches(np.array([0.5, 0, 0]))
    with pytest.raises(ValueError, match="whole numbers"):
        constraints.breaches(np.array([-1, 0, 0]))


# --- the programs


@pytest.mark.parametrize(
    ("b", "value", "whole"), [(LN2, 1.2565769946192933, 1), (3.0, 5.438572195897236, 5), (17.5, 31.725004476067205, 31)]
)
def test_size_of_figure_1_equals_the_specification(b, value, whole):
    constraints = Constraints.of(figure_1(), b)
    optimum = objectives.greatest_size(constraints, rounding="floor")
    assert optimum.relaxed.value == pytest.approx(value, abs=1e-7)
    assert optimum.relaxed.value <= optimum.relaxed.bound <= value + 1e-7
    assert optimum.size == whole
    assert exact_size(constraints).sum() == whole
    assert optimum.relaxed.value / b == pytest.approx(1.812857, abs=1e-6)


@pytest.mark.parametrize(("b", "expected"), [*zip((LN2, 0.9), SIZE_OF_E.values(), strict=True)])
def test_size_of_example_e_is_that_of_an_exact_solver(b, expected):
    value, whole = expected
    constraints = Constraints.of(example_e(), b)
    assert objectives.greatest_size(constraints).relaxed.value == pytest.approx(value, abs=1e-7)
    assert exact_size(constraints).sum() == whole


@pytest.mark.parametrize(("b", "expected"), [*zip((LN2, 3.0, 17.5), LARGEST_OF_FIGURE_1.values(), strict=True)])
def test_the_largest_output_of_figure_1_is_that_of_an_exact_solver(b, expected):
    constraints = Constraints.of(figure_1(), b)
    assert linear.greatest_size(constraints).x == pytest.approx(expected["x"], abs=1e-7)
    assert constraints.cap == pytest.approx(expected["cap"])


def test_weights_and_the_dual_of_example_e_are_those_computed_apart():
    assert Constraints.of(example_e(), 1.0).by_user.toarray() == pytest.approx(np.array(WEIGHTS_OF_E))
    assert objectives.least_limit(example_e(), size=2.0) == pytest.approx(LEAST_B_FOR_SIZE_2_OF_E, abs=1e-9)


@pytest.mark.parametrize(("ratio", "delta", "b", "printed"), TABLE_4)
def test_table_4_of_the_paper_cannot_come_from_its_constraints(ratio, delta, b, printed):
    assert limit(epsilon=math.log(ratio), delta=delta) == pytest.approx(b, rel=1e-12)
    assert printed > 1980 * b


@settings(max_examples=examples(60), deadline=None)
@given(shared_counts(), LIMITS, st.floats(0.1, 10))
def test_size_is_linear_in_the_limit_and_below_the_cap(counts, b, factor):
    one, other = (linear.greatest_size(Constraints.of(counts, scale)).value for scale in (b, factor * b))
    assert other == pytest.approx(factor * one, rel=1e-7)
    assert one <= Constraints.of(counts, b).cap * (1 + 1e-9)


@settings(max_examples=examples(40), deadline=None)
@given(shared_counts(users=5, pairs=3), st.floats(0.2, 1.5))
def test_whole_optimum_equals_trying_all_and_rounding_never_exceeds_it(counts, b):
    constraints = Constraints.of(counts, b)
    weights = weights_by_hand(dense(counts))
    most = int(max(np.floor(linear.longest(constraints) + 1e-9).max(), 0))
    if most > 8:
        return
    best = largest_whole(weights, b, most)
    assert exact_size(constraints).sum() == best
    relaxed = linear.greatest_size(constraints)
    lower, fuller = floored(constraints, relaxed.x), filled(constraints, relaxed.x)
    assert lower.sum() <= fuller.sum() <= best <= relaxed.bound + 1e-9
    for x in (lower, fuller):
        assert (weights @ x <= b + 1e-9).all()
    load = weights @ fuller
    for pair in range(counts.pairs):  # nothing more fits
        assert (load + weights[:, pair] > b - 1e-9).any()


@settings(max_examples=examples(15), deadline=None)
@given(shared_counts(users=12, pairs=12), LIMITS)
def test_pdlp_with_repair_is_feasible_and_its_bound_holds(counts, b):
    constraints = Constraints.of(counts, b)
    segments = [linear.Segment(linear.longest(constraints), np.ones(counts.pairs))]
    exact = linear.greatest_size(constraints)
    first_order = linear.solve(constraints, segments, largest_for_highs=0)
    assert first_order.solver == "PDLP"
    assert (constraints.loads(first_order.x) <= b * (1 + 1e-12)).all()
    assert first_order.value <= exact.bound * (1 + 1e-9)
    assert exact.value <= first_order.bound * (1 + 1e-9)
    assert first_order.gap < 0.01


@settings(max_examples=examples(30), deadline=None)
@given(shared_counts(), LIMITS, st.lists(st.floats(0, 3), min_size=6, max_size=6))
def test_the_bound_holds_for_any_prices(counts, b, prices):
    constraints = Constraints.of(counts, b)
    matrix = linear.sparse.csc_array(constraints.by_user / b)
    given_prices = np.array((prices * counts.users)[: counts.users])
    bound = linear._bound(matrix, np.ones(counts.pairs), linear.longest(constraints), given_prices, 0.0, None)
    assert linear.greatest_size(constraints).value <= bound + 1e-9


def test_supports_are_kept_and_the_counterexample_to_precision_one_comes_out():
    matrix = np.zeros((22, 2), dtype=int)
    matrix[:2, 0], matrix[2:, 1] = 30, 2
    constraints = Constraints.of(ClickCounts.from_matrix(matrix), LN2)
    assert linear.greatest_size(constraints).value == pytest.approx(14.5134073339649, abs=1e-7)
    optimum = objectives.closest_supports(constraints, size=10, support=0.5)
    assert optimum.x.tolist() == [1, 9]
    assert 0.6 - optimum.relaxed.value == pytest.approx(0.5, abs=1e-9)


@settings(max_examples=examples(40), deadline=None)
@given(shared_counts(users=8, pairs=5), st.floats(0.5, 3.0), st.integers(1, 3), st.sampled_from([0.05, 0.2, 0.5]))
def test_support_program_equals_the_paper_form_solved_by_another_way(counts, b, size, support):
    """The printed form: y ≥ ±(x/|O| − c/|D|) for frequent pairs, Σx = |O|, minimise Σy."""
    from scipy.optimize import linprog

    constraints = Constraints.of(counts, b)
    if size > linear.greatest_size(constraints).value or not (counts.supports() >= support).any():
        return
    frequent = np.flatnonzero(counts.supports() >= support)
    pairs, m = counts.pairs, len(frequent)
    pick = np.zeros((m, pairs))
    pick[np.arange(m), frequent] = 1 / size
    rows = np.block(
        [
            [weights_by_hand(dense(counts)), np.zeros((counts.users, m))],
            [pick, -np.eye(m)],
            [-pick, -np.eye(m)],
        ]
    )
    target = counts.supports()[frequent]
    right = np.concatenate([np.full(counts.users, b), target, -target])
    cost = np.concatenate([np.zeros(pairs), np.ones(m)])
    total = np.concatenate([np.ones(pairs), np.zeros(m)])[None, :]
    printed = linprog(cost, A_ub=rows, b_ub=right, A_eq=total, b_eq=[size])
    ours = objectives.closest_supports(constraints, size=size, support=support)
    assert target.sum() - ours.relaxed.value == pytest.approx(printed.fun, abs=1e-7)
    assert ours.size <= size
    assert len(constraints.breaches(ours.x)) == 0


def test_a_penalty_keeps_infrequent_pairs_near_their_support():
    """Two infrequent pairs can take up the rest; with a price on their excess both stay near their own share."""
    counts = ClickCounts.from_matrix(np.vstack([[8, 3, 1]] * 12))
    constraints = Constraints.of(counts, 1.0)
    free = objectives.closest_supports(constraints, size=8, support=0.5).relaxed.x
    priced = objectives.closest_supports(constraints, size=8, support=0.5, infrequent_penalty=0.1).relaxed.x
    share = counts.supports()
    assert np.abs(priced / 8 - share).sum() <= np.abs(free / 8 - share).sum() + 1e-9
    assert np.abs(priced / 8 - share).sum() < 1e-6


def test_a_size_above_the_greatest_is_refused_with_the_greatest_named():
    with pytest.raises(DataError, match="greatest output the privacy constraints allow, 2"):
        objectives.closest_supports(Constraints.of(example_e(), LN2), size=3, support=0.1)


def test_a_support_no_pair_has_is_refused():
    with pytest.raises(DataError, match="Lower support"):
        objectives.closest_supports(Constraints.of(example_e(), LN2), size=1, support=0.9)


@settings(max_examples=examples(30), deadline=None)
@given(shared_counts(users=8, pairs=5), st.floats(0.5, 3.0), st.floats(0, 2), st.floats(0, 2), st.floats(0, 2))
def test_the_joint_program_is_not_beaten_by_any_single_one(counts, b, w_size, w_support, w_diversity):
    constraints = Constraints.of(counts, b)
    weights = {"size_weight": w_size, "support_weight": w_support, "diversity_weight": w_diversity}
    settings_ = {"size": 4, "support": 0.05} | weights
    if not (counts.supports() >= 0.05).any():
        return
    best = objectives.joint(constraints, **settings_)
    frequent = counts.supports() >= 0.05
    offset = w_support * counts.supports()[frequent].sum()
    assert joint_value(counts, best.relaxed.x, **settings_) == pytest.approx(best.relaxed.value - offset, abs=1e-6)
    rivals = [linear.greatest_size(constraints).x, np.zeros(counts.pairs), best.x]
    for rival in rivals:
        assert joint_value(counts, rival, **settings_) <= best.relaxed.bound - offset + 1e-6
    assert len(constraints.breaches(best.x)) == 0

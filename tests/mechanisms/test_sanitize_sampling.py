"""Sampling of users, neighbours, and the Laplace step as printed."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mechanisms.sanitize_toys import LN2, example_e, figure_1, probability_of_appearing, shared_counts
from properties import examples
from queryveil.mechanisms.sanitize import blocks, diversity, laplace_step, linear, objectives
from queryveil.mechanisms.sanitize.constraints import Constraints
from queryveil.mechanisms.sanitize.counts import ClickCounts
from queryveil.mechanisms.sanitize.laplace_step import NeighbourPrograms, size_segments, support_segments
from queryveil.privacy import Noise

ALPHA = 1e-6


@settings(max_examples=examples(60), deadline=None)
@given(shared_counts(), st.lists(st.integers(0, 30), min_size=6, max_size=6), st.integers(0, 2**32))
def test_sampled_totals_equal_the_counts_and_only_holders_are_drawn(counts, x, seed):
    wanted = np.array(x[: counts.pairs])
    drawn = blocks.sample_users(counts, wanted, Noise.seeded(seed).stream("users"))
    totals = np.zeros(counts.pairs, dtype=int)
    np.add.at(totals, drawn.pair, drawn.count)
    assert totals.tolist() == wanted.tolist()
    holders = set(zip(counts.user.tolist(), counts.pair.tolist(), strict=True))
    assert set(zip(drawn.user.tolist(), drawn.pair.tolist(), strict=True)) <= holders


def drawn_counts(counts: ClickCounts, pair: int, trials: int) -> np.ndarray:
    x = np.zeros(counts.pairs, dtype=np.int64)
    x[pair] = trials
    drawn = blocks.sample_users(counts, x, Noise.seeded(7).stream("users"))
    by_user = np.zeros(counts.users, dtype=np.int64)
    by_user[drawn.user] = drawn.count
    return by_user


def test_users_are_drawn_in_proportion_to_their_clicks():
    """100,000 draws, α = 1e-6: a probability of 0.38 that is 0.01 off is rejected with probability above 0.99. The twin
    draws every holder alike."""
    counts = figure_1()
    drawn = drawn_counts(counts, 1, 100_000)
    expected = np.array([15, 7, 17]) / 39 * 100_000
    assert stats.chisquare(drawn, expected).pvalue > ALPHA
    assert stats.chisquare(drawn, np.full(3, 100_000 / 3)).pvalue < ALPHA


def test_car_of_figure_1_is_drawn_by_the_binomial_law_of_the_specification():
    """20,000 releases with x = 4, α = 1e-6: the law of user 082's count; a share of 0.28 off by 0.02 is rejected."""
    expected = np.array([0.26030820, 0.41649313, 0.24989588, 0.06663890, 0.00666389])
    assert stats.binom.pmf(np.arange(5), 4, 2 / 7) == pytest.approx(expected, abs=1e-8)
    matrix = np.tile(np.array([[0, 2, 5]]).T, (1, 20_000))
    many = ClickCounts.from_matrix(matrix)
    drawn = blocks.sample_users(many, np.full(20_000, 4), Noise.seeded(3).stream("users"))
    of_082 = np.zeros(20_000, dtype=int)
    of_082[drawn.pair[drawn.user == 1]] = drawn.count[drawn.user == 1]
    seen = np.bincount(of_082, minlength=5)
    assert stats.chisquare(seen, expected / expected.sum() * 20_000).pvalue > ALPHA
    assert stats.chisquare(seen, stats.binom.pmf(np.arange(5), 4, 0.31) * 20_000).pvalue < ALPHA


def test_the_probability_of_appearing_equals_the_specification():
    constraints = Constraints.of(figure_1(), 1.0)
    appearing = probability_of_appearing(constraints, np.array([3, 20, 4]))
    assert appearing[1] == pytest.approx(0.99502039, abs=1e-8)


def test_no_user_appears_with_more_than_the_stated_probability():
    for b in (0.1, LN2, 2.0):
        constraints = Constraints.of(example_e(), b)
        x = objectives.greatest_size(constraints).x
        assert (probability_of_appearing(constraints, x) <= -math.expm1(-b) + 1e-12).all()


@settings(max_examples=examples(25), deadline=None)
@given(shared_counts(users=7, pairs=6), st.floats(0.3, 3.0))
def test_changed_programs_have_the_optimum_of_programs_made_anew(counts, b):
    constraints = Constraints.of(counts, b)
    programs = NeighbourPrograms(constraints, size_segments)
    whole = linear.greatest_size(constraints).value
    assert programs.whole().sum() == pytest.approx(whole, rel=1e-6, abs=1e-7)
    anew = laplace_step.by_solver(constraints, lambda c: linear.greatest_size(c).x)
    for user in range(counts.users):
        changed, fresh = programs.without(user), anew(user)
        assert changed.sum() == pytest.approx(fresh.sum(), rel=1e-6, abs=1e-7)
        gone = counts.without_user(user)
        assert (changed[np.bincount(gone.pair, minlength=counts.pairs) == 0] == 0).all()
    assert programs.whole().sum() == pytest.approx(whole, rel=1e-6, abs=1e-7)  # everything was changed back


@settings(max_examples=examples(15), deadline=None)
@given(shared_counts(users=7, pairs=6), st.floats(0.8, 3.0))
def test_changed_support_programs_have_the_optimum_of_programs_made_anew(counts, b):
    constraints = Constraints.of(counts, b)
    size, support = 1, 0.1
    programs = NeighbourPrograms(constraints, support_segments(size, support), size=size)
    if linear.greatest_size(constraints).value < 1:
        return
    for user in range(counts.users):
        neighbour = counts.without_user(user)
        there = programs.without(user)
        smaller = neighbour.without_unique_pairs()
        greatest = linear.greatest_size(Constraints.of(smaller, b)).value if smaller.pairs else 0.0
        if greatest < size - 1e-6:
            assert there is None
        elif greatest > size + 1e-6 and (smaller.supports() >= support).any():
            best = objectives.closest_supports(Constraints.of(smaller, b), size=size, support=support)
            frequent = neighbour.supports() >= support
            distance = np.abs(there / size - neighbour.supports())[frequent].sum()
            wanted = smaller.supports()[smaller.supports() >= support].sum() - best.relaxed.value
            assert distance == pytest.approx(wanted, abs=1e-6)


def test_users_whose_absence_moves_a_count_by_more_than_d_are_deleted():
    """Pair 0 has two holders and vanishes without either; the far pairs 1 and 2 of other users do not move at all."""
    matrix = np.array([[1, 0, 0], [1, 0, 0], [0, 1, 2], [0, 1, 2], [0, 1, 2], [0, 0, 2]])
    constraints = Constraints.of(ClickCounts.from_matrix(matrix), 3.0)
    without = laplace_step.by_programs(NeighbourPrograms(constraints, size_segments))
    moved = np.array([np.abs(without(None) - without(k)).max() for k in range(6)])
    assert moved[:2] == pytest.approx([3 / LN2] * 2)  # all of pair 0
    for d in (0.01, 1.0, 3.0, 4.0, 5.0):
        assert laplace_step.far_neighbours(constraints, without, d=d).tolist() == (moved > d + 1e-6).tolist()
    assert laplace_step.far_neighbours(constraints, without, d=3 / LN2).sum() < 6


def test_the_laplace_step_reports_deleted_users_and_broken_constraints():
    constraints = Constraints.of(example_e(), LN2)

    def solver(c):
        return objectives.greatest_size(c, rounding="floor").x

    without = laplace_step.by_programs(NeighbourPrograms(constraints, size_segments))
    quiet = laplace_step.with_laplace(constraints, solver, without, Noise.seeded(1), d=10.0, epsilon=1000.0)
    assert (quiet.deleted, quiet.broken) == (0, 0)
    assert quiet.x.tolist() == solver(constraints).tolist()
    loud = laplace_step.with_laplace(constraints, solver, without, Noise.seeded(4), d=10.0, epsilon=0.1)
    assert loud.broken == 4
    assert (loud.x >= 0).all()
    strict = laplace_step.with_laplace(constraints, solver, without, Noise.seeded(1), d=1e-9, epsilon=0.1)
    assert strict.deleted == 4
    assert len(strict.x) == 0


def test_the_laplace_step_does_not_hide_which_pairs_exist():
    """Documents why it is not end-to-end private: a pair that becomes unique without one user leaves the support."""
    counts = ClickCounts.from_matrix([[1, 3], [1, 3], [0, 3]])
    here = laplace_step.with_laplace(
        Constraints.of(counts, LN2),
        lambda c: diversity.eliminate(c).astype(np.int64),
        lambda user: np.zeros(2),
        Noise.seeded(1),
        d=1.0,
        epsilon=0.1,
    )
    assert here.counts.pairs == 2
    assert counts.without_user(0).without_unique_pairs().pairs == 1


def test_a_pair_nobody_clicked_cannot_be_sampled():
    with pytest.raises(ValueError, match="without clicks"):
        blocks.sample_users(
            ClickCounts.from_matrix([[1, 0], [1, 0]]), np.array([1, 1]), Noise.seeded(1).stream("users")
        )

"""Value kept: where a release lies between public knowledge and the raw log, by people who are in neither."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queryveil.audit.held_out.judgement import (
    NO_GAP,
    TOO_FEW_JUDGES,
    NothingToSayError,
    distances,
    judge,
    means,
    reciprocal_rank,
    total_variation,
)
from queryveil.audit.held_out.word_model import fitted, mixed, weights_for
from queryveil.privacy import Noise

PEOPLE = np.repeat(np.arange(20), 3)


def scores(of_people, spread=0.0, seed=1):
    """Three trials for each of 20 people, around a mean for each."""
    return np.repeat(of_people, 3) + spread * np.random.default_rng(seed).normal(size=60)


def test_value_kept_is_the_share_of_the_way_from_floor_to_ceiling():
    level = np.linspace(5, 10, 20)  # people differ, which all three readers see alike
    found = judge(*means(PEOPLE, scores(level), scores(level - 1), scores(level - 4)), Noise.seeded(1), better="lower")
    assert found.value == pytest.approx(0.25) and found.low == pytest.approx(0.25) == found.high
    assert (found.floor, found.release, found.ceiling) == pytest.approx((7.5, 6.5, 3.5))


def test_a_release_may_be_worse_than_nothing_or_better_than_the_raw_log():
    for release, value in ((-1.0, -0.5), (4.0, 2.0)):
        figures = means(PEOPLE, scores(np.zeros(20)), scores(np.full(20, release)), scores(np.full(20, 2.0)))
        assert judge(*figures, Noise.seeded(1)).value == value


def test_the_interval_is_that_of_people_not_of_trials():
    """Copies of everybody's trials tell nothing new: the interval stays as wide, where one over trials would shrink."""
    floor, ceiling = scores(np.zeros(20)), scores(np.ones(20))
    release = scores(np.linspace(0, 1, 20))
    once = judge(*means(PEOPLE, floor, release, ceiling), Noise.seeded(1))
    often = judge(*means(np.tile(PEOPLE, 50), *(np.tile(s, 50) for s in (floor, release, ceiling))), Noise.seeded(1))
    assert (often.low, often.high) == pytest.approx((once.low, once.high))
    assert 0.15 < once.high - once.low < 0.35  # ±2 · 0.3/√20


def test_the_interval_holds_the_truth_nineteen_times_in_twenty():
    """300 samples of 40 people around 0.5, spread 0.3: 88 to 98.5 % hold it (α < 10⁻³ where 93 to 95 % do); intervals
    half as wide hold it in two thirds."""
    rng, hits, narrow = np.random.default_rng(3), 0, 0
    people = np.arange(40)
    for number in range(300):
        kept = rng.normal(0.5, 0.3, 40)
        figures = means(people, np.zeros(40), kept, np.ones(40))
        found = judge(*figures, Noise.seeded(number))
        half = (found.high - found.low) / 4
        hits += found.low <= 0.5 <= found.high
        narrow += found.value - half <= 0.5 <= found.value + half
    assert 264 <= hits <= 296 and narrow < 250


def test_few_judges_or_no_gap_give_no_figure():
    with pytest.raises(NothingToSayError, match=TOO_FEW_JUDGES):
        judge(*means(np.arange(9), *np.zeros((3, 9))), Noise.seeded(1))
    noisy = scores(np.zeros(20), spread=1.0)
    for ceiling in (noisy, scores(np.zeros(20), spread=1.0, seed=2), noisy - 1):
        with pytest.raises(NothingToSayError, match=NO_GAP):
            judge(*means(PEOPLE, noisy, noisy, ceiling), Noise.seeded(1))


def test_distances_are_from_the_shares_of_the_judges():
    cell = np.tile([0, 0, 1], 20)  # everybody: two thirds and one third
    said = np.array([[0.0, 1.0], [1 / 3, 2 / 3], [2 / 3, 1 / 3]])
    found = judge(*distances(PEOPLE, cell, *said), Noise.seeded(1), better="lower")
    assert (found.floor, found.release, found.ceiling) == pytest.approx((2 / 3, 1 / 3, 0))
    assert found.value == pytest.approx(0.5)


weights = st.lists(st.integers(0, 9), min_size=4, max_size=4).filter(any)


@given(weights, weights, weights)
def test_total_variation_is_a_distance_from_0_to_1(a, b, c):
    one, two, three = (np.array(w) / sum(w) for w in (a, b, c))
    assert 0 <= total_variation(one, two) <= 1 + 1e-12
    assert total_variation(one, two) == total_variation(two, one)
    assert total_variation(one, three) <= total_variation(one, two) + total_variation(two, three) + 1e-12
    assert total_variation(one, one) == 0


@given(st.lists(st.integers(0, 4), min_size=1, max_size=15), st.data())
def test_a_reciprocal_rank_is_that_of_a_stable_sort(given_scores, data):
    place = data.draw(st.integers(0, len(given_scores) - 1))
    order = sorted(range(len(given_scores)), key=lambda k: -given_scores[k])
    rank = order.index(place) + 1
    assert reciprocal_rank(np.array(given_scores), place, 10) == (1 / rank if rank <= 10 else 0)


def test_weights_are_the_likeliest_and_come_from_the_other_half():
    parts = np.array([[0.8, 0.2]] * 3 + [[0.2, 0.8]])
    best = max(np.linspace(0.001, 0.999, 999), key=lambda w: np.log2(parts @ [w, 1 - w]).sum())
    assert fitted(parts, rounds=500)[0] == pytest.approx(best, abs=0.002)
    half = np.array([0, 0, 1, 1])
    opposed = np.array([[1.0, 0.001], [1.0, 0.001], [0.001, 1.0], [0.001, 1.0]])
    told = weights_for(opposed, half)
    assert told[0, 1] > 0.99 and told[1, 0] > 0.99  # the other half's, however wrong for one's own
    assert (mixed(opposed, half, told) < 0.02).all()

"""The most distinct pairs: elimination as printed and corrected, local search, bounds."""

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exact_diversity import most_diverse
from mechanisms.sanitize_toys import exact_size, example_e, most_distinct, shared_counts
from properties import examples
from queryveil.mechanisms.sanitize import objectives
from queryveil.mechanisms.sanitize.constraints import Constraints
from queryveil.mechanisms.sanitize.counts import ClickCounts
from queryveil.mechanisms.sanitize.diversity import (
    eliminate,
    eliminate_as_printed,
    reproducibly_diverse,
)
from queryveil.privacy import Noise
from vectors.sanitize import ELIMINATION_GAP, ELIMINATION_IN_E

LIMITS = st.floats(0.1, 3.0)


def printed_by_hand(weights: np.ndarray, b: float) -> np.ndarray:
    """Algorithm 2 word for word: zero the pair with the largest t, then look."""
    kept = np.ones(weights.shape[1], dtype=bool)
    while kept.any():
        entries = [(-weights[k, j], k, j) for k, j in zip(*np.nonzero(weights), strict=True) if kept[j]]
        kept[min(entries)[2]] = False
        if (weights @ kept <= b + 1e-12).all():
            break
    return kept


def corrected_by_hand(weights: np.ndarray, b: float) -> np.ndarray:
    kept = np.ones(weights.shape[1], dtype=bool)
    while (broken := np.flatnonzero(weights @ kept > b + 1e-12)).size:
        entries = [(-weights[k, j], k, j) for k in broken for j in np.flatnonzero(weights[k]) if kept[j]]
        kept[min(entries)[2]] = False
    return kept


@settings(max_examples=examples(100), deadline=None)
@given(shared_counts(users=7, pairs=8), LIMITS)
def test_elimination_equals_the_algorithm_by_hand(counts, b):
    constraints = Constraints.of(counts, b)
    weights = constraints.by_user.toarray()
    assert eliminate_as_printed(constraints).tolist() == printed_by_hand(weights, b).tolist()
    assert eliminate(constraints).tolist() == corrected_by_hand(weights, b).tolist()


@pytest.mark.parametrize(("b", "best", "printed", "corrected"), [(0.6, 2, 2, 2), (0.9, 2, 2, 2), (1.2, 3, 2, 3)])
def test_example_e_equals_the_specification(b, best, printed, corrected):
    constraints = Constraints.of(example_e(), b)
    assert eliminate_as_printed(constraints).sum() == printed
    assert eliminate(constraints).sum() == corrected
    answer = most_diverse(constraints, Noise.seeded(1), seconds=2)
    assert (answer.value, answer.bound) == (best, best)


def test_as_printed_removes_a_pair_although_nothing_is_broken():
    constraints = Constraints.of(example_e(), 5.0)
    assert eliminate_as_printed(constraints).tolist() == [False, True, True]
    assert eliminate(constraints).tolist() == [True, True, True]


@pytest.mark.parametrize("b", ELIMINATION_IN_E)
def test_elimination_in_example_e_is_that_by_hand(b):
    constraints, expected = Constraints.of(example_e(), b), ELIMINATION_IN_E[b]
    printed = eliminate_as_printed(constraints)
    assert printed.sum() == expected["kept as printed"]
    assert np.flatnonzero(~printed).tolist() == expected["removed as printed"]
    assert eliminate(constraints).sum() == expected["kept when it checks first"]


def test_elimination_as_printed_keeps_less_than_it_could():
    weights, b = np.array(ELIMINATION_GAP["weights"]), ELIMINATION_GAP["b"]
    assert printed_by_hand(weights, b).sum() == ELIMINATION_GAP["kept as printed"]
    assert corrected_by_hand(weights, b).sum() == ELIMINATION_GAP["kept when corrected"]


@settings(max_examples=examples(12), deadline=None)
@given(shared_counts(users=7, pairs=8), LIMITS)
def test_the_search_finds_the_optimum_of_small_logs_and_the_bound_holds(counts, b):
    constraints = Constraints.of(counts, b)
    best = most_distinct(constraints.by_user.toarray(), b)
    quick = reproducibly_diverse(constraints, Noise.seeded(1))
    assert quick.value <= best <= quick.bound
    full = most_diverse(constraints, Noise.seeded(1), seconds=3)
    assert full.value == best == full.bound
    assert len(constraints.breaches(full.y.astype(np.int64))) == 0


def middle_sized(seed: int = 2) -> ClickCounts:
    """400 users, about 600 shared pairs, few clicks each: many conflicts."""
    random = np.random.default_rng(seed)
    weight = 1 / (np.arange(900) + 5.0)
    matrix = np.zeros((400, 900), dtype=int)
    for user in range(400):
        for pair in random.choice(900, size=random.integers(2, 14), p=weight / weight.sum()):
            matrix[user, pair] += 1
    return ClickCounts.from_matrix(matrix).without_unique_pairs()


def test_search_beats_elimination_by_a_quarter_and_is_the_same_every_time():
    constraints = Constraints.of(middle_sized(), math.log(2))
    first, again = (reproducibly_diverse(constraints, Noise.seeded(5)) for _ in range(2))
    assert first.y.tolist() == again.y.tolist()
    assert first.value >= 1.25 * eliminate(constraints).sum()
    assert first.gap < 0.25
    assert len(constraints.breaches(first.y.astype(np.int64))) == 0


def test_distinct_queries_count_each_query_once():
    counts = middle_sized()
    queries = [f"q{j // 3}" for j in range(counts.pairs)]
    grouped = dataclasses.replace(counts, pair_names=counts.pair_names.with_columns(query=np.array(queries)))
    constraints = Constraints.of(grouped, math.log(2))
    answer = most_diverse(constraints, Noise.seeded(1), seconds=1, distinct_queries=True)
    chosen = np.flatnonzero(answer.y)
    assert len({queries[j] for j in chosen}) == len(chosen)
    pairs_found = reproducibly_diverse(constraints, Noise.seeded(1)).y
    assert answer.value >= len({queries[j] for j in np.flatnonzero(pairs_found)})
    assert answer.value <= answer.bound <= len(set(queries))


def test_where_no_pair_fits_nothing_is_chosen():
    constraints = Constraints.of(ClickCounts.from_matrix([[1], [1]]), 0.1)
    assert most_diverse(constraints, Noise.seeded(1), seconds=1).value == 0
    assert reproducibly_diverse(constraints, Noise.seeded(1)).bound == 0
    assert eliminate(constraints).sum() == 0


def test_search_over_copies_beats_filling_and_keeps_the_constraints():
    """O-UMP in whole numbers: a pair may come out several times."""
    constraints = Constraints.of(middle_sized(), math.log(2))
    filled = objectives.greatest_size(constraints)
    searched, again = (objectives.searched_size(constraints, Noise.seeded(5), filled) for _ in range(2))
    assert searched.x.tolist() == again.x.tolist()
    assert searched.size > filled.size
    assert searched.size <= searched.relaxed.bound
    assert len(constraints.breaches(searched.x)) == 0
    assert searched.size >= reproducibly_diverse(constraints, Noise.seeded(5)).value


def test_search_over_copies_finds_the_whole_number_optimum_of_toys():
    for b in (math.log(2), 0.9, 2.0):
        constraints = Constraints.of(example_e(), b)
        start = objectives.greatest_size(constraints, rounding="floor")
        best = exact_size(constraints).sum()
        assert objectives.searched_size(constraints, Noise.seeded(1), start).size == best

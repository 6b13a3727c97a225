"""Measures of click logs: the specification's numbers, hand-made cases, and the shapes the paper reports."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queryveil.audit.measures import clicks
from queryveil.errors import ParameterError

COUNTS = st.lists(st.integers(0, 50), min_size=1, max_size=12)


def test_support_distance_of_figure_1_equals_the_specification():
    given_counts, released = np.array([2, 4, 39, 1, 7]), np.array([0, 3, 20, 0, 4])
    distance = clicks.support_distance(given_counts, released, frequent=given_counts > 0)
    assert distance.total == pytest.approx(0.11320754716981132, abs=1e-12)
    assert distance.average == pytest.approx(0.11320754716981132 / 5, abs=1e-12)


def test_diff_ratio_equals_the_specification():
    ratio = clicks.diff_ratio([15], [8], given_size=53, released_size=27)
    assert ratio == pytest.approx([0.04691358024691355], abs=1e-12)


def test_the_counterexample_has_neither_precision_nor_recall():
    result = clicks.measure([60, 40], [1, 9], support=0.5)
    assert (result.precision, result.recall) == (0.0, 0.0)
    assert result.support_distance.total == pytest.approx(0.5)


def test_precision_and_recall_count_frequent_pairs():
    given_counts, released = [50, 30, 15, 5], [5, 4, 0, 1]
    assert clicks.precision(given_counts, released, 0.1) == pytest.approx(2 / 3)  # the last is frequent only after
    assert clicks.recall(given_counts, released, 0.1) == pytest.approx(2 / 3)  # the third is frequent only before
    assert clicks.diversity(released) == 0.75


@given(COUNTS, st.floats(0.001, 1))
def test_a_log_compared_with_itself_is_perfect(counts, support):
    result = clicks.measure(counts, counts, support=support)
    assert result.support_distance.total == 0
    if clicks.is_frequent(counts, support).any():
        assert (result.precision, result.recall) == (1.0, 1.0)
    else:
        assert math.isnan(result.recall)


@given(COUNTS, st.data(), st.floats(0.001, 1))
def test_measures_stay_in_their_range(counts, data, support):
    released = data.draw(st.lists(st.integers(0, 50), min_size=len(counts), max_size=len(counts)))
    result = clicks.measure(counts, released, support=support)
    for value in (result.precision, result.recall, result.diversity):
        assert math.isnan(value) or 0 <= value <= 1
    assert 0 <= result.support_distance.total <= 2


def test_the_histogram_of_ratios_counts_every_triplet_once():
    ratios = np.array([0.0, 0.05, 0.1, 0.95, 1.0, 1.01, 7.0])
    assert clicks.diff_ratio_histogram(ratios).tolist() == [2, 1, 0, 0, 0, 0, 0, 0, 0, 2, 2]


def test_tables_are_matched_by_name():
    def table(rows):
        return pl.DataFrame(rows, schema=["user", "query", "url", "count"], orient="row")

    before = table([("a", "q", "u", 3), ("b", "q", "u", 1), ("a", "r", "v", 4)])
    after = table([("x", "q", "u", 1), ("y", "s", "w", 1)])
    result = clicks.compare(before, after, support=0.5)
    assert result.size == 2
    assert (result.precision, result.recall, result.diversity) == (0.5, 0.5, 0.5)
    assert result.support_distance.total == pytest.approx(0.5)


def test_an_impossible_support_is_refused():
    with pytest.raises(ParameterError, match="support"):
        clicks.measure([1], [1], support=0.0)


def test_the_support_distance_does_not_depend_on_the_order_of_the_pairs():
    given_counts = np.arange(1, 400) ** 2
    released = np.arange(400, 1, -1) ** 3
    order = np.arange(len(given_counts))
    totals = {
        clicks.support_distance(g, r, frequent=g > 0).total
        for g, r in ((given_counts[turn], released[turn]) for turn in (np.roll(order, i) for i in range(50)))
    }
    assert len(totals) == 1

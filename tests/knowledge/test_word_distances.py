"""Distances to the whole vocabulary, beside a slow look at every pair; the bound on sums is in test_word_law.py."""

import numpy as np
import pytest

from queryveil.knowledge import word_distances
from queryveil.knowledge.word_distances import WordDistances, exact_distances


@pytest.mark.parametrize(("count", "dimension"), [(1, 1), (7, 3), (600, 50)])
@pytest.mark.parametrize("at_once", [1, 1 << 19])
def test_fast_and_exact_distances_are_those_of_every_pair(count, dimension, at_once, monkeypatch):
    monkeypatch.setattr(word_distances, "DISTANCES_AT_ONCE", at_once)
    matrix = np.random.default_rng(count).normal(size=(count, dimension)).astype(np.float32)
    rows = matrix.astype(np.float64)
    every = np.array([[np.sqrt(((a - b) ** 2).sum()) for b in rows] for a in rows[:5]])
    words = np.arange(min(5, count))
    fast = WordDistances(matrix)
    assert exact_distances(matrix, 0) == pytest.approx(every[0], abs=1e-13)
    assert np.concatenate([away.copy() for _, away in fast.blocks(words)], axis=1) == pytest.approx(every, abs=1e-4)
    times = np.arange(1, len(words) + 1)
    assert fast.sums(words, times) == pytest.approx(times @ every, abs=1e-2)
    expected = np.exp(-1.5 * np.minimum(every, 2.0)).sum(axis=1)
    assert fast.exponential_sums(words, 1.5, 2.0) == pytest.approx(expected, rel=1e-4)

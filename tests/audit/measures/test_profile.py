"""Profiles and their divergence: exact figures, properties, a slow twin, and what releases do to them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queryveil.audit.measures.profile import divergence, divergences, mean_similarity, topic_counts
from queryveil.knowledge.phrases import PhraseMapper
from queryveil.knowledge.wordnet import WordNet
from semantic_oracle import TOY, similarity, toy_taxonomy
from vectors.semantic import DIVERGENCE

counts = st.lists(st.integers(0, 1000), min_size=4, max_size=4)


def slow_divergence(one: list[int], other: list[int]) -> float:
    p, q = [x / sum(one) for x in one], [x / sum(other) for x in other]
    total = 0.0
    for a, b in zip(p, q, strict=True):
        middle = (a + b) / 2
        total += (a * math.log2(a / middle) if a else 0.0) / 2 + (b * math.log2(b / middle) if b else 0.0) / 2
    return total


@pytest.fixture(scope="module")
def mapper():
    return PhraseMapper.of_nouns(WordNet.load())


def test_the_divergence_is_that_of_the_papers_equations():
    assert divergence(DIVERGENCE["one"], DIVERGENCE["other"]) == pytest.approx(DIVERGENCE["value"], abs=1e-12)
    assert divergence([3, 1], [3, 1]) == 0.0
    assert divergence([3, 0], [0, 7]) == 1.0


@given(counts, counts)
def test_divergence_is_that_of_the_slow_twin_symmetric_and_between_0_and_1(one, other):
    found = divergence(one, other)
    assert found == divergence(other, one)
    assert 0.0 <= found <= 1.0
    if sum(one) and sum(other):
        assert found == pytest.approx(slow_divergence(one, other), abs=1e-12)
    else:
        assert found == float(bool(sum(one)) != bool(sum(other)))


@given(counts, st.integers(2, 9))
def test_only_shares_matter(one, factor):
    assert divergence(one, [factor * x for x in one]) == pytest.approx(0.0, abs=1e-15)


@pytest.mark.parametrize("wrong", [[[-1, 2]], [[math.nan, 1]], [[math.inf, 1]], [[1, 2, 3]]])
def test_what_is_no_profile_is_refused(wrong):
    with pytest.raises(ValueError, match="counts"):
        divergences(wrong, [[1, 2]])


def test_counts_by_user_and_topic_with_and_without_the_others():
    users, topics = np.array([0, 0, 2, 2, 2]), np.array([1, -1, 0, 0, -1])
    assert topic_counts(users, topics, 3, 2).tolist() == [[0, 1], [0, 0], [2, 0]]
    assert topic_counts(users, topics, 3, 2, other=True).tolist() == [[0, 1, 1], [0, 0, 0], [2, 0, 1]]


def test_similarity_kept_is_the_mean_of_equation_5():
    taxonomy = toy_taxonomy()
    pairs = [("flu", "flu"), ("flu", "tennis"), ("H", "R"), ("flu", "asthma")]
    inputs, outputs = (np.array([taxonomy.concept(pair[side]) for pair in pairs]) for side in (0, 1))
    expected = sum(similarity(TOY, a, b) for a, b in pairs) / 4
    assert mean_similarity(taxonomy, inputs, outputs) == pytest.approx(expected, abs=1e-12)
    assert mean_similarity(taxonomy, inputs[:0], outputs[:0]) == 1.0

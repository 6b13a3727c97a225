"""The sparse scores against slow ones, and SimAttack against its definition."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from properties import examples
from queryveil.audit.attacks import _sim_attack_kernel
from queryveil.audit.attacks.interests import Likelihood, Terms, TfIdf, counts_of

TABLES = st.lists(st.lists(st.integers(0, 3), min_size=5, max_size=5), min_size=1, max_size=6)


def table(rows: list[list[int]]):
    dense = np.array(rows)
    place = np.nonzero(dense)
    return counts_of(
        np.repeat(place[0], dense[place]), np.repeat(place[1], dense[place]), len(rows), dense.shape[1]
    ), dense


def slow_likelihood(past: np.ndarray, row: np.ndarray, own: float = 0.5) -> list[float]:
    everybody = past.sum(axis=0) + 1.0
    everybody = everybody / everybody.sum()
    scores = []
    for person in past:
        shares = person / max(person.sum(), 1)
        scores.append(
            sum(
                count * math.log(1 + own / (1 - own) * shares[term] / everybody[term])
                for term, count in enumerate(row)
                if count
            )
        )
    return scores


def slow_cosine(past: np.ndarray, row: np.ndarray) -> list[float]:
    idf = [math.log((len(past) + 1) / (1 + (past[:, term] > 0).sum())) for term in range(past.shape[1])]

    def weighted(counts: np.ndarray) -> list[float]:
        return [(1 + math.log(count)) * idf[term] if count else 0.0 for term, count in enumerate(counts)]

    scores = []
    for person in past:
        mine = weighted(person)
        length = math.sqrt(sum(weight**2 for weight in mine))
        scores.append(sum(a * b for a, b in zip(mine, weighted(row), strict=True)) / length if length else 0.0)
    return scores


@pytest.mark.parametrize(("scores", "slow"), [(Likelihood, slow_likelihood), (TfIdf, slow_cosine)])
@settings(max_examples=examples(60), deadline=None)
@given(past=TABLES, rows=TABLES, draw=st.floats(0, 0.999))
def test_the_best_person_is_that_of_a_slow_search(scores, slow, past, rows, draw) -> None:
    (mine, dense), (those, dense_rows) = table(past), table(rows)
    index = scores(mine)
    best = index.best(those, np.full(len(rows), draw))
    pairs = np.divmod(np.arange(len(rows) * len(past)), len(past))
    found = index.scores(those, *pairs).reshape(len(rows), len(past))
    for i, row in enumerate(dense_rows):
        expected = slow(dense, row)
        assert found[i] == pytest.approx(expected, abs=1e-5)
        assert expected[best[i]] == pytest.approx(max([*expected, 0.0]), abs=1e-5)


def test_ties_are_broken_by_the_number_drawn_and_a_prior_decides_where_no_term_does() -> None:
    past, _ = table([[1, 0], [1, 0], [0, 1]])
    row, _ = table([[1, 0]])
    index = Likelihood(past)
    assert {int(index.best(row, np.array([draw]))[0]) for draw in (0.0, 0.99)} == {0, 1}
    nothing, _ = table([[0, 0]])
    assert index.best(nothing, np.array([0.5]), np.array([0.0, 2.0, 1.0])).tolist() == [1]


def test_terms_are_words_texts_and_categories_with_those_above() -> None:
    terms = Terms(pl.Series(["Red shoes", "shoes", "red  red"]))
    assert terms.words.to_list() == ["red", "shoes"]
    texts = terms.numbers(pl.Series(["Red shoes", "shoes"]))
    assert terms.by_words(np.array([0, 0]), texts, 1).toarray().tolist() == [[1, 2]]
    tree = np.array([0, 0, 1], np.int32)  # 2 lies below 1
    of_text = np.zeros(3, np.int32)
    of_text[texts] = [2, 1]
    assert terms.by_categories(np.array([0, 0]), texts, 1, of_text, tree).toarray().tolist() == [[0, 2, 1]]


def slow_sim_attack(row: set[int], past: list[tuple[int, set[int]]], people: int, alpha: float) -> list[float]:
    """Sorted similarities, smoothed exponentially from the smallest on."""
    scores = []
    for person in range(people):
        likeness = sorted(2 * len(row & words) / (len(row) + len(words)) for who, words in past if who == person)
        smoothed = 0.0
        for value in likeness:
            smoothed = alpha * value + (1 - alpha) * smoothed
        scores.append(smoothed)
    return scores


@settings(max_examples=examples(60), deadline=None)
@given(
    past=st.lists(st.tuples(st.integers(0, 3), st.sets(st.integers(0, 5), min_size=1)), min_size=1, max_size=12),
    row=st.sets(st.integers(0, 5), min_size=1),
    draw=st.floats(0, 0.999),
)
def test_sim_attack_is_its_definition(past, row, draw) -> None:
    people = max(person for person, _ in past) + 1
    words = counts_of(
        np.concatenate([np.full(len(words), i) for i, (_, words) in enumerate(past)]),
        np.concatenate([sorted(words) for _, words in past]), len(past), 6,
    ).tocsc()  # fmt: skip
    best = np.array([-1])
    _sim_attack_kernel.most_similar(
        np.array([0, len(row)]), np.array(sorted(row)), words.indptr, words.indices,
        np.array([person for person, _ in past]), np.array([len(words) for _, words in past]), 0.8, np.array([draw]),
        best,
    )  # fmt: skip
    expected = slow_sim_attack(row, past, people, 0.8)
    if max(expected) == 0:
        assert best[0] == -1
    else:
        assert expected[best[0]] == pytest.approx(max(expected), abs=1e-4)

"""Engines against plain formulas, against bm25s, and on random texts."""

import math
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from properties import examples
from queryveil.errors import KnowledgeError, ParameterError
from queryveil.knowledge.engines import DenseEngine, LexicalEngine, content_words, terms

TEXTS = ["the cat sat on the mat", "cats and dogs", "a dog barks at cats, dogs and birds", "birds sing", ""]
WORDS = ["cat", "dog", "bird", "fish", "tea", "mouse"]
texts_and_query = st.tuples(
    st.lists(st.lists(st.sampled_from(WORDS), max_size=8), min_size=1, max_size=12).filter(any),
    st.lists(st.sampled_from(WORDS), max_size=5),
)


def plain_bm25(documents, query):
    mean = sum(map(len, documents)) / len(documents)
    scores = []
    for words in documents:
        score = 0.0
        for term in query:
            df = sum(term in other for other in documents)
            tf = words.count(term)
            if tf:
                idf = math.log(1 + (len(documents) - df + 0.5) / (df + 0.5))
                score += idf * tf / (tf + 1.2 * (1 - 0.75 + 0.75 * len(words) / mean))
        scores.append(score)
    return scores


def plain_tfidf(documents, query):
    def vector(words):
        counts = Counter(words)
        return {
            t: (1 + math.log(c)) * math.log(1 + len(documents) / sum(t in d for d in documents))
            for t, c in counts.items()
        }

    scores = []
    for words in documents:
        weights = vector(words)
        length = math.sqrt(sum(w * w for w in weights.values())) or 1.0
        idf = {t: w / (1 + math.log(words.count(t))) for t, w in weights.items()}
        scores.append(sum(idf[t] * weights[t] for t in query if t in weights) / length)
    return scores


def same_ranking(found, scores):
    """Places in falling order of score, only those above 0; equal scores may differ by rounding."""
    assert sorted(found) == [place for place, score in enumerate(scores) if score > 0]
    ordered = [scores[place] for place in found]
    assert all(a >= b - 1e-9 for a, b in pairwise(ordered))


@pytest.mark.parametrize(("make", "formula"), [(LexicalEngine.bm25, plain_bm25), (LexicalEngine.tfidf, plain_tfidf)])
@settings(max_examples=examples(150), deadline=None)
@given(drawn=texts_and_query)
def test_an_engine_ranks_as_its_plain_formula(make, formula, drawn):
    documents, query = ([" ".join(words) for words in drawn[0]], " ".join(drawn[1]))
    found = make(documents).search([query], 100)[0].tolist()
    same_ranking(found, formula([terms(text) for text in documents], terms(query)))


def test_bm25_agrees_with_bm25s():
    bm25s = pytest.importorskip("bm25s", reason="the extra retrieval is not installed")
    words = np.random.default_rng(1).choice(["ant", "bee", "cow", "dog", "elk", "fox", "gnu", "hen"], (60, 12))
    documents = [list(row[: 3 + i % 10]) for i, row in enumerate(words)]
    judge = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
    judge.index(documents, show_progress=False)
    engine = LexicalEngine.bm25([" ".join(row) for row in documents])
    for query in (["ant"], ["bee", "fox"], ["cow", "cow", "hen"]):
        scores = judge.get_scores(query)
        same_ranking(engine.search([" ".join(query)], 60)[0].tolist(), scores.astype(float).tolist())


def test_equal_texts_are_found_in_their_order_and_no_more_than_asked_for():
    engine = LexicalEngine.bm25(["tea", "tea", "tea", "milk"])
    assert engine.search(["tea"], 2)[0].tolist() == [0, 1]
    assert engine.search(["coffee", ""], 2)[0].tolist() == []


def test_stop_words_and_inflection_do_not_matter():
    assert content_words("The cats of the house") == ["cats", "house"]
    engine = LexicalEngine.tfidf(TEXTS)
    assert engine.search(["a dog"], 9)[0].tolist() == engine.search(["dogs"], 9)[0].tolist() != []


def test_an_empty_collection_and_one_without_words_are_refused():
    for texts in ([], ["", "the of"]):
        with pytest.raises(KnowledgeError):
            LexicalEngine.bm25(texts)
    with pytest.raises(ParameterError, match="depth"):
        LexicalEngine.bm25(TEXTS).search(["cat"], 0)


class LettersAsVectors:
    """An encoder that a test can compute by hand: counts of a, b and c, scaled to length 1."""

    def encode(self, texts):
        counts = np.array([[text.count(letter) for letter in "abc"] for text in texts], np.float32)
        return counts / np.maximum(np.linalg.norm(counts, axis=1, keepdims=True), 1)


@settings(max_examples=examples(50), deadline=None)
@given(
    st.lists(st.text("abc", min_size=1, max_size=6), min_size=1, max_size=20), st.text("abc", min_size=1, max_size=4)
)
def test_the_dense_engine_ranks_by_cosine_and_ties_by_place(texts, query):
    engine = DenseEngine(texts, LettersAsVectors())
    scores = (LettersAsVectors().encode([query]) @ engine.vectors.T)[0]
    whole = engine.search([query], len(texts))[0].tolist()
    assert whole == sorted(range(len(texts)), key=lambda place: (-scores[place], place))
    for depth in (1, 2, 5):
        assert engine.search([query], depth)[0].tolist() == whole[:depth]

"""Jaccard, similarity, pooled recall and nDCG: the spec's numbers, and slow twins on random pools."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queryveil.audit.measures import retrieval
from queryveil.audit.measures.retrieval import (
    expected_jaccard,
    home_rankings,
    jaccard,
    mean_jaccard,
    mean_similarity,
    ndcg,
    pooled_recall,
    pools,
    reranked,
)
from queryveil.errors import DataError, ParameterError, UsageError
from queryveil.knowledge.collections import Collection
from queryveil.knowledge.engines import LexicalEngine
from vectors.obfuscate import EXPECTED_JACCARD, JACCARD, POOLED_RECALL

pytest.importorskip("ir_measures", reason="the extra retrieval is not installed")
QRELS = {query: dict.fromkeys(documents, 1) for query, documents in POOLED_RECALL["relevant"].items()}
POOLED = POOLED_RECALL["pooled"]
GRADES = {"q": {"a": 3, "b": 2, "c": 1}}
WORDS = st.lists(st.sampled_from("abcdefg"), max_size=6)


def test_jaccard_is_on_sets_of_words():
    assert jaccard(JACCARD["query"], JACCARD["other"]) == JACCARD["value"]
    assert jaccard("a a B", "b A") == 1.0
    assert jaccard("a", "b") == 0.0
    assert jaccard("", "") == 1.0


@given(WORDS, WORDS)
def test_jaccard_agrees_with_counting(one, other):
    shared = sum(word in other for word in set(one))
    together = sum(word in one or word in other for word in "abcdefg")
    assert jaccard(" ".join(one), " ".join(other)) == (shared / together if together else 1.0)


@pytest.mark.parametrize(("words", "keep"), EXPECTED_JACCARD)
def test_expected_jaccard_is_that_of_listing_all_outcomes(words, keep):
    assert expected_jaccard(words=words, keep=keep) == pytest.approx(EXPECTED_JACCARD[words, keep], abs=1e-12)


@given(st.integers(1, 6), st.floats(0, 1))
def test_expected_jaccard_agrees_with_every_outcome_listed(words, keep):
    mean = 0.0
    for kept in range(2**words):
        k = kept.bit_count()
        query, other = {*range(words)}, {i if kept >> i & 1 else i + words for i in range(words)}
        mean += keep**k * (1 - keep) ** (words - k) * len(query & other) / len(query | other)
    assert expected_jaccard(words=words, keep=keep) == pytest.approx(mean)


def test_recall_counts_queries_that_found_nothing_and_the_paper_script_does_not():
    assert pooled_recall(POOLED, QRELS, documents=100).recall == POOLED_RECALL["value"]
    assert pooled_recall(POOLED, QRELS, documents=100, recall="paper_script").recall == 0.5


def test_chance_is_what_a_random_pool_of_that_size_finds():
    measured = pooled_recall(POOLED, QRELS, documents=100)
    assert measured.by_chance == pytest.approx((2 / 100 + 1 / 100) / 2)
    assert measured.pool_size == 1.5
    # 4,000 random pools of 20 of 50 with 5 relevant: mean .4, standard error .0033; off by one document is .02, 6 sigma
    rng = np.random.default_rng(1)
    drawn = [len(set(rng.permutation(50)[:20].tolist()) & set(range(5))) / 5 for _ in range(4000)]
    qrels = {"q": {str(i): 1 for i in range(5)}}
    chance = pooled_recall({"q": [str(i) for i in range(20)]}, qrels, documents=50).by_chance
    assert chance == pytest.approx(np.mean(drawn), abs=5 * 0.0033)


@given(st.dictionaries(st.sampled_from("pqr"), st.lists(st.sampled_from("abcdef")), min_size=1))
def test_recall_agrees_with_counting(pooled):
    qrels = {query: {"a": 1, "b": 2, "c": 0} for query in "pqr"}
    shares = [(("a" in pool) + ("b" in pool)) / 2 for pool in pooled.values()]
    assert pooled_recall(pooled, qrels, documents=6).recall == pytest.approx(sum(shares) / len(shares))
    script = pooled_recall(pooled, qrels, documents=6, recall="paper_script").recall
    hit = [share for share in shares if share]
    assert script == pytest.approx(sum(hit) / len(hit)) if hit else math.isnan(script)


def test_a_query_without_a_relevant_document_is_refused():
    with pytest.raises(DataError, match="no relevant document"):
        pooled_recall({"q": ["a"]}, {"q": {"a": 0}}, documents=3)


def test_ndcg_has_the_specs_values_with_linear_and_exponential_gain():
    ranked = {"q": ["b", "x", "c"]}
    assert ndcg(ranked, GRADES) == pytest.approx(0.525005, abs=1e-6)
    assert ndcg(ranked, GRADES, gain="exponential") == pytest.approx(0.372626, abs=1e-6)


@settings(deadline=None)
@given(st.permutations("abcxyz"), st.integers(0, 6), st.integers(1, 5), st.sampled_from(["linear", "exponential"]))
def test_ndcg_agrees_with_the_formula(documents, length, depth, gain):
    def worth(grade):
        return grade if gain == "linear" else 2**grade - 1

    ranked = documents[:length]
    got = sum(worth(GRADES["q"].get(d, 0)) / math.log2(rank + 2) for rank, d in enumerate(ranked[:depth]))
    ideal = sum(worth(grade) / math.log2(rank + 2) for rank, grade in enumerate([3, 2, 1][:depth]))
    assert ndcg({"q": ranked}, GRADES, depth=depth, gain=gain) == pytest.approx(got / ideal)


def test_an_empty_ranking_counts_as_zero_in_the_mean():
    assert ndcg({"q": ["a", "b", "c"], "r": []}, {**GRADES, "r": {"a": 1}}) == pytest.approx(0.5)


def toy_collection():
    documents = {"d1": "green tea", "d2": "black tea", "d3": "coffee", "d4": "milk tea and coffee"}
    judged = {"q1": {"d1": 1, "d4": 2}}
    return Collection(documents=documents, queries={"q1": "tea"}, judgements=judged)


def test_pools_hold_each_document_once_and_reranking_follows_the_true_query():
    collection = toy_collection()
    engine = LexicalEngine.tfidf(list(collection.documents.values()))
    pooled = pools(collection, {"q1": ["coffee", "milk", "coffee"]}, engine, depth=2)
    assert pooled == {"q1": ["d3", "d4"]}
    home = home_rankings(collection, ["q1"], engine)
    assert set(home["q1"]) == {"d1", "d2", "d4"}
    assert reranked(pooled, home) == {"q1": ["d4", "d3"]}  # coffee alone shares no word with the query: it comes last


def test_ranking_the_whole_collection_and_keeping_the_pool_is_ranking_the_pool():
    collection = toy_collection()
    engine = LexicalEngine.bm25(list(collection.documents.values()))
    whole = home_rankings(collection, ["q1"], engine)["q1"]
    for pool in (["d4", "d1"], ["d2"], ["d1", "d2", "d4"]):
        assert reranked({"q1": pool}, {"q1": whole})["q1"] == [d for d in whole if d in pool]


class OneVectorPerText:
    def __init__(self):
        self.calls = 0

    def encode(self, texts):
        self.calls += len(texts)
        table = {"tea": [1, 0], "coffee": [0, 1], "both": [0.6, 0.8]}
        return np.array([table[text] for text in texts], np.float32)


def test_means_are_over_queries_first_and_each_text_is_encoded_once():
    queries = {"q1": "tea", "q2": "coffee", "q3": "tea"}
    obfuscations = {"q1": ["tea", "coffee"], "q2": ["both"], "q3": []}
    encoder = OneVectorPerText()
    assert mean_similarity(queries, obfuscations, encoder) == pytest.approx((0.5 + 0.8) / 2)
    assert encoder.calls == 3
    assert mean_jaccard(queries, obfuscations) == pytest.approx((0.5 + 0) / 2)


def test_a_missing_extra_names_the_command_that_mends_it(monkeypatch):
    monkeypatch.setattr(retrieval, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'queryveil\[retrieval\]'"):
        ndcg({"q": ["a"]}, GRADES)


def test_unknown_choices_are_refused():
    with pytest.raises(ParameterError, match="recall must be one of"):
        pooled_recall(POOLED, QRELS, documents=3, recall="best")
    with pytest.raises(ParameterError, match="gain must be one of"):
        ndcg({"q": ["a"]}, GRADES, gain="cubic")

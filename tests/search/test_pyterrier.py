"""Obfuscation as a pipeline step, on pandas and Polars frames."""

import polars as pl
import pytest

from queryveil.errors import DataError, ParameterError
from queryveil.privacy import Noise
from queryveil.search.pyterrier import ObfuscateQueries, PoolResults

KINDS = ["polars", "pandas"]


class Marked:
    def obfuscate(self, query, n, noise):
        return [f"{query}{i}" for i in range(n)]


def frame(kind, columns):
    if kind == "polars":
        return pl.DataFrame(columns)
    return pytest.importorskip("pandas", reason="pandas is not installed").DataFrame(columns)


def rows(table):
    return [tuple(row) for row in (table.rows() if isinstance(table, pl.DataFrame) else table.itertuples(index=False))]


@pytest.mark.parametrize("kind", KINDS)
def test_a_frame_of_queries_comes_out_as_it_went_in_with_other_queries(kind):
    topics = frame(kind, {"qid": ["1", "2"], "query": ["tea", "milk"], "query_0": ["my tea", "my milk"]})
    out = ObfuscateQueries(Marked(), Noise.seeded(1))(topics)
    assert type(out) is type(topics)
    assert list(out.columns) == ["qid", "query"]  # what was typed does not go along in other columns
    assert rows(out) == [("1", "tea0"), ("2", "milk0")]


@pytest.mark.parametrize("kind", KINDS)
def test_several_obfuscations_have_names_of_their_own_and_are_pooled_back(kind):
    topics = frame(kind, {"qid": ["1", "2"], "query": ["tea", "milk"]})
    out = ObfuscateQueries(Marked(), Noise.seeded(1), n=2).transform(topics)
    assert rows(out) == [("1~0", "tea0"), ("1~1", "tea1"), ("2~0", "milk0"), ("2~1", "milk1")]
    results = frame(
        kind,
        {
            "qid": ["1~0", "1~0", "1~1", "2~0"],
            "docno": ["a", "b", "b", "a"],
            "rank": [0, 1, 0, 0],
            "score": [9.0, 8.0, 7.0, 6.0],
        },
    )
    pooled = PoolResults()(results)
    assert type(pooled) is type(results)
    assert rows(pooled) == [("1", "a", 0.0, 0), ("1", "b", -1.0, 1), ("2", "a", 0.0, 0)]


def test_results_of_single_queries_keep_their_names():
    results = pl.DataFrame({"qid": ["1"], "docno": ["a"], "rank": [3]})
    assert rows(PoolResults()(results)) == [("1", "a", 0.0, 0)]


def test_empty_frames_stay_empty():
    assert rows(ObfuscateQueries(Marked(), Noise.seeded(1))(pl.DataFrame({"qid": [], "query": []}))) == []
    assert rows(PoolResults()(pl.DataFrame({"qid": [], "docno": [], "rank": []}))) == []


def test_missing_columns_marked_names_and_wrong_numbers_are_refused():
    step = ObfuscateQueries(Marked(), Noise.seeded(1))
    with pytest.raises(DataError, match="no column query"):
        step(pl.DataFrame({"qid": ["1"], "text": ["tea"]}))
    with pytest.raises(DataError, match="qid holds ~"):
        step(pl.DataFrame({"qid": ["1~2"], "query": ["tea"]}))
    with pytest.raises(ParameterError, match="n must be"):
        ObfuscateQueries(Marked(), Noise.seeded(1), n=0)


def test_the_true_mechanism_fits_in():
    from queryveil.mechanisms.obfuscate import Obfuscate

    step = ObfuscateQueries(Obfuscate(mechanism="aed", n=2), Noise.seeded(1), n=2)
    out = step(pl.DataFrame({"qid": ["1"], "query": ["throat cancer"]}))
    assert out["qid"].to_list() == ["1~0", "1~1"]
    assert "throat cancer" not in out["query"].to_list()

"""Collections in BEIR's layout, whole and broken."""

import gzip
import json

import pytest

from queryveil.errors import DataError
from queryveil.knowledge.collections import Collection, read_corpus

CORPUS = [{"_id": "d1", "title": "Tea", "text": "a drink"}, {"_id": "d2", "text": "coffee", "metadata": {}}]
QUERIES = [{"_id": "q1", "text": "hot drinks"}, {"_id": "q2", "text": "not judged"}, {"_id": "q3", "text": "only zero"}]
QRELS = "query-id\tcorpus-id\tscore\nq1\td1\t2\nq1\td2\t0\nq3\td2\t0\n"


def lines(rows):
    return "\n".join(map(json.dumps, rows)) + "\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "corpus.jsonl").write_text(lines(CORPUS))
    (tmp_path / "queries.jsonl").write_text(lines(QUERIES))
    (tmp_path / "qrels").mkdir()
    (tmp_path / "qrels" / "test.tsv").write_text(QRELS)
    return tmp_path


def test_a_collection_is_read_and_queries_without_a_relevant_text_are_left_out(folder):
    collection = Collection.read(folder)
    assert collection.documents == {"d1": "Tea a drink", "d2": "coffee"}
    assert collection.queries == {"q1": "hot drinks"}
    assert collection.judgements == {"q1": {"d1": 2, "d2": 0}}
    assert collection.relevant("q1") == {"d1"}


def test_packed_files_and_judgements_beside_the_corpus_are_read_alike(folder):
    plain = Collection.read(folder)
    (folder / "corpus.jsonl").unlink()
    (folder / "corpus.jsonl.gz").write_bytes(gzip.compress(lines(CORPUS).encode()))
    (folder / "qrels" / "test.tsv").rename(folder / "qrels.tsv")
    assert Collection.read(folder) == plain
    assert read_corpus(folder) == plain.documents


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("corpus.jsonl", '{"_id": "d1"}\n', "line 1: expected an object"),
        ("corpus.jsonl", lines(CORPUS) + "\n" + lines(CORPUS[:1]), "line 4: an _id that was there before"),
        ("corpus.jsonl", "", "is empty"),
        ("queries.jsonl", "secret words\n", "line 1: expected an object"),
        ("qrels/test.tsv", "q1 d1 2\n", "no query has a relevant text"),
        ("qrels/test.tsv", QRELS + "q1\td1\n", "line 5: expected"),
        ("qrels/test.tsv", QRELS + "q1\td1\tmany\n", "line 5: expected"),
        ("qrels/test.tsv", QRELS + "q1\td9\t1\n", "line 5: judges"),
        ("qrels/test.tsv", "query-id\tcorpus-id\tscore\n", "no query has a relevant text"),
    ],
)
def test_what_is_wrong_is_told_by_line_and_never_by_content(folder, name, content, told):
    (folder / name).write_text(content)
    with pytest.raises(DataError, match=told) as problem:
        Collection.read(folder)
    assert "secret" not in str(problem.value)
    assert problem.value.__cause__ is None


def test_a_missing_file_and_a_damaged_one_are_told(folder):
    (folder / "corpus.jsonl").rename(folder / "corpus.jsonl.gz")
    with pytest.raises(DataError, match="damaged"):
        Collection.read(folder)
    (folder / "corpus.jsonl.gz").unlink()
    with pytest.raises(DataError, match=r"has no corpus\.jsonl"):
        Collection.read(folder)


@pytest.mark.data
@pytest.mark.parametrize(("name", "documents", "queries"), [("cranfield", 1400, 225), ("vaswani", 11_429, 93)])
def test_the_sample_collections_have_the_counts_their_readme_tells(shared_data, name, documents, queries):
    collection = Collection.read(shared_data / "ir" / name)
    assert (len(collection.documents), len(collection.queries)) == (documents, queries)

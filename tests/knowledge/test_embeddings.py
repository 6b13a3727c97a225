"""Word vectors: GloVe as published, every file format, the vocabulary filter, covariance, bad files."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pytest

from queryveil.errors import KnowledgeError, ParameterError
from queryveil.knowledge import embeddings as module
from queryveil.knowledge.embeddings import WordVectors

WORDS = ["the", "cat", "3rd", "dog", "été", "cat"]
MATRIX = np.array([[0, 1], [2, 0.5], [9, 9], [1, -1], [7, 7], [5, 5]], np.float32)


@pytest.fixture(scope="module")
def glove() -> WordVectors:
    return WordVectors.load()


@pytest.fixture(autouse=True)
def own_cache_for_files(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if "glove" not in request.fixturenames:
        monkeypatch.setenv("QUERYVEIL_CACHE", str(tmp_path / "cache"))


def as_text(header: str = "") -> str:
    rows = (" ".join([word, *(repr(float(number)) for number in row)]) for word, row in zip(WORDS, MATRIX, strict=True))
    return header + "\n".join(rows) + "\n"


def test_glove_has_its_words_and_vectors(glove: WordVectors) -> None:
    assert glove.dimension == 50
    assert len(glove) == 317_756
    assert glove.words[0] == "the"
    assert glove.matrix[glove.numbers["the"]][:3] == pytest.approx([0.418, 0.24968, -0.41242], abs=1e-6)
    assert glove.matrix.flags.c_contiguous
    assert not glove.matrix.flags.writeable
    near = glove.matrix @ glove.matrix[glove.numbers["king"]]
    norms = np.linalg.norm(glove.matrix, axis=1) * np.linalg.norm(glove.matrix[glove.numbers["king"]])
    assert "prince" in [glove.words[int(i)] for i in np.argsort(-near / norms)[:5]]


def test_all_400000_words_are_there_when_asked_for(glove: WordVectors) -> None:
    everything = WordVectors.load(vocabulary="all")
    assert len(everything) == 400_000
    assert everything.digest != glove.digest


def test_glove_is_mapped_into_memory_and_not_read(glove: WordVectors) -> None:
    again = WordVectors.load()
    assert again.numbers["dog"] == glove.numbers["dog"]
    base = again.matrix
    while isinstance(base, np.ndarray) and not isinstance(base, np.memmap):
        base = base.base
    assert isinstance(base, np.memmap)


def test_covariance_has_trace_n_and_its_root_squares_to_it(glove: WordVectors) -> None:
    direct = np.cov(glove.matrix.astype(np.float64), rowvar=False)
    direct *= 50 / np.trace(direct)
    assert np.abs(glove.covariance() - direct).max() < 1e-8
    for regularisation in (0.0, 0.5, 1.0):
        covariance, root = glove.covariance(regularisation), glove.covariance_root(regularisation)
        assert np.trace(covariance) == pytest.approx(50, abs=1e-8)
        assert np.abs(root @ root - covariance).max() < 1e-10
        assert np.abs(root - root.T).max() < 1e-12
        assert np.abs(covariance - (regularisation * direct + (1 - regularisation) * np.eye(50))).max() < 1e-8


@pytest.mark.parametrize("kind", ["glove.txt", "word2vec.txt", "fasttext.vec", "glove.txt.gz", "v.npz", "v.npy"])
def test_every_format_gives_the_same_vectors(tmp_path: Path, kind: str) -> None:
    path = tmp_path / kind
    if kind == "v.npz":
        np.savez(path, words=np.array(WORDS), vectors=MATRIX)
    elif kind == "v.npy":
        np.save(path, MATRIX)
        path.with_suffix(".txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    elif kind.endswith(".gz"):
        path.write_bytes(gzip.compress(as_text().encode()))
    else:
        path.write_text(as_text("" if kind == "glove.txt" else "6 2\n"), encoding="utf-8")
    alphabetic = WordVectors.load(path)
    assert alphabetic.words.to_list() == ["the", "cat", "dog"]
    assert np.array_equal(alphabetic.matrix, MATRIX[[0, 1, 3]])  # the first of two equal words counts
    assert WordVectors.load(path, vocabulary="all").words.to_list() == WORDS[:5]
    assert WordVectors.load(path, most=2).words.to_list() == ["the", "cat"]


def test_a_word_with_spaces_keeps_them(tmp_path: Path) -> None:
    path = tmp_path / "v.txt"
    path.write_text("a 1 2\nnew york 3 4\n")
    assert WordVectors.load(path, vocabulary="all").words.to_list() == ["a", "new york"]


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "v.txt"
    path.write_text("a 1 2\nb 3 4\n")
    first = WordVectors.load(path)
    path.write_text("a 1 2\nb 3 4\nc 5 7\n")
    second = WordVectors.load(path)
    assert (len(first), len(second)) == (2, 3)
    assert first.digest != second.digest


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a 1 2\nb 3\n", "line 2: expected a word and 2 numbers"),
        ("a 1 2\nsecret x y\n", r"line 2: expected a word and 2 numbers\.$"),
        ("", "holds no word vectors"),
        ("2 2\n", "holds no word vectors"),
        ("a 1 2\n", "fewer than two words"),
        ("a 1 nan\nb 2 3\n", "not finite"),
        ("a 1 2\nb 1 2\n", "all word vectors are equal"),
        ("word\nother\n", "line 1: expected a word and 1 numbers"),
    ],
)
def test_bad_text_is_refused_without_showing_it(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "v.txt"
    path.write_text(text)
    with pytest.raises(KnowledgeError, match=message) as caught:
        WordVectors.load(path)
    assert "secret" not in str(caught.value)


def test_other_words_beside_the_same_array_are_seen(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", MATRIX)
    (tmp_path / "v.txt").write_text("\n".join(WORDS))
    assert "another" not in WordVectors.load(tmp_path / "v.npy").numbers
    (tmp_path / "v.txt").write_text("\n".join([*WORDS[:-1], "another"]))
    assert "another" in WordVectors.load(tmp_path / "v.npy").numbers


def test_bad_numpy_files_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "alone.npy", MATRIX)
    with pytest.raises(KnowledgeError, match="needs its words"):
        WordVectors.load(tmp_path / "alone.npy")
    (tmp_path / "alone.txt").write_text("just\none\n")
    with pytest.raises(KnowledgeError, match="do not go with an array of shape"):
        WordVectors.load(tmp_path / "alone.npy")
    np.savez(tmp_path / "x.npz", words=np.array(WORDS))
    with pytest.raises(KnowledgeError, match="two arrays"):
        WordVectors.load(tmp_path / "x.npz")
    np.savez(tmp_path / "p.npz", words=np.array(WORDS, object), vectors=MATRIX)
    with pytest.raises(KnowledgeError, match="cannot be read as NumPy"):  # pickles are never opened
        WordVectors.load(tmp_path / "p.npz")
    (tmp_path / "bad.npy").write_bytes(b"nonsense")
    (tmp_path / "bad.txt").write_text("a\n")
    with pytest.raises(KnowledgeError, match="cannot be read as NumPy"):
        WordVectors.load(tmp_path / "bad.npy")
    with pytest.raises(KnowledgeError, match="no word vectors at"):
        WordVectors.load(tmp_path / "nothing.txt")
    (tmp_path / "cut.txt.gz").write_bytes(gzip.compress(as_text().encode() * 100)[:-30])
    with pytest.raises(KnowledgeError, match="damaged"):
        WordVectors.load(tmp_path / "cut.txt.gz")


@pytest.mark.parametrize("options", [{"vocabulary": "mine"}, {"most": 1}, {"most": 2.0}, {"most": True}])
def test_wrong_options_are_refused(options: dict) -> None:
    with pytest.raises(ParameterError):
        WordVectors.load(**options)


@pytest.mark.parametrize("regularisation", [-0.1, 1.1, float("nan"), "1", True])
def test_wrong_regularisation_is_refused(glove: WordVectors, regularisation: float) -> None:
    with pytest.raises(ParameterError, match="regularisation"):
        glove.covariance(regularisation)


def test_vectors_that_are_not_the_published_ones_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "INDEX_SHA256", "0" * 64)
    with pytest.raises(KnowledgeError, match="not the published ones"):
        WordVectors.load()
    monkeypatch.setattr(module, "MATRIX_BYTES", 5)
    with pytest.raises(KnowledgeError, match="damaged"):
        WordVectors.load()
    monkeypatch.setattr(module, "DISTRIBUTION", "no-such-distribution")
    with pytest.raises(KnowledgeError, match="not installed"):
        WordVectors.load()

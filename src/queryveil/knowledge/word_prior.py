"""How often words and pairs of words are used in public, and which words belong together.

Counts are those of Brants and Franz (2006), "Web 1T 5-gram", in Norvig's selection: 333,000 words and 286,000 pairs,
from the installed distribution wordsegment (its files are read, it is not imported). GloVe (`embeddings`) adds words
the counts do not have, numbers above all; such a word is given the count that words of its rank have.

Classes are nested, 64 ⊃ 512 ⊃ 3,000: spherical k-means from the top down over the 100,000 most frequent words of GloVe,
weighted by the square root of their counts; every other word with a vector goes where its vector does. Words without a
vector make up one more class at each level. All of it in whole numbers below 2^24 (vectors are rounded to 10 bits), so
that the classes are the same on every machine, whatever order it adds in: a release is read with the classes that it
was made with (`digest`).

Nothing here looks at anybody's queries. Compiled once, in half a minute; memory-mapped ever after.

>>> prior = WordPrior.load()
>>> prior.words[0], (prior.classes[0, prior.number("paris")] == prior.classes[0, prior.number("london")]).item()
('the', True)
"""

from __future__ import annotations

import hashlib
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import sparse

from queryveil.errors import KnowledgeError
from queryveil.knowledge._arrays import Array, Strings
from queryveil.knowledge._store import cache_folder, compiled_once, file_digest
from queryveil.knowledge.embeddings import MATRIX_SHA256, WordVectors

SCHEMA = 1
DISTRIBUTION = "wordsegment"
VERSION = "1.3.1"
SHA256 = {
    "unigrams.txt": "fd27e15b83ee7a55d8e17731a397eb4d389cbe2afd1c26afcba8ee2634c0a6d5",
    "bigrams.txt": "3bd156ba9477842930c5609fc7113864e3c093a97880736fba522c7edb4ba799",
}
START = "<s>"
"""What stands before the first word."""

LEVELS = (64, 512, 3000)
CLUSTERED_WORDS = 100_000
UNIT = 1023
"""Vectors have this length; products of two are below 2^21, which float32 holds exactly."""
ROUNDS = 12
MOST_COUNT_WEIGHT = 1 << 20
NEARBY_RANKS = 401

Numbers = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]


class WordPrior:
    """Words 0 … N−1, frequent ones first, with their public counts, pairs and classes."""

    def __init__(self, header: dict[str, Any], arrays: dict[str, Array]) -> None:
        self.digest: str = header["digest"]
        """SHA-256 of words, counts, pairs and classes: what a release was made with."""
        self.words = Strings(arrays["words.text"], arrays["words.offsets"])
        self.counts: npt.NDArray[np.int64] = arrays["counts"]
        self.classes: Numbers = arrays["classes"]
        """One row for each of `LEVELS`; a level's last class, of that very number, has the words without a vector."""
        self.pair_first: Numbers = arrays["pairs.first"]
        """The first word of each pair, sorted; N stands for the start of a query."""
        self.pair_second: Numbers = arrays["pairs.second"]
        self.pair_counts: npt.NDArray[np.int64] = arrays["pairs.counts"]

    @classmethod
    def load(cls) -> WordPrior:
        """The prior; compiled at the first call."""
        name = hashlib.sha256(repr((SCHEMA, SHA256, MATRIX_SHA256, LEVELS)).encode()).hexdigest()
        return cls(*compiled_once(cache_folder() / f"prior-{name[:16]}.arrays", _build))

    def __len__(self) -> int:
        return len(self.counts)

    @cached_property
    def table(self) -> pl.DataFrame:
        """`word, number`, to join with."""
        numbers = pl.int_range(len(self), dtype=pl.Int32, eager=True)
        return pl.DataFrame({"word": self.words.to_list(), "number": numbers})

    @cached_property
    def numbers(self) -> dict[str, int]:
        """Each word's number."""
        return {word: number for number, word in enumerate(self.words.to_list())}

    def number(self, word: str) -> int:
        """A word's number; −1 where it is not known."""
        return self.numbers.get(word, -1)


def _build() -> tuple[dict[str, Any], dict[str, Array]]:
    unigrams, bigrams = _files()
    counted = _counted(unigrams)
    vectors = WordVectors.load(vocabulary="all")
    ranked = pl.DataFrame({"word": vectors.words.to_list()}).with_row_index("rank")
    ranked = ranked.filter(pl.col("word").str.contains(r"^[\p{L}\p{N}]+$"))
    words = _with_ranks(counted, ranked).sort("count", "word", descending=[True, False])
    row = words["rank"].fill_null(-1).to_numpy().astype(np.int64)
    counts = words["count"].to_numpy().astype(np.int64)
    classes = _classes(np.asarray(vectors.matrix), row, counts)
    first, second, pair_counts = _pairs(bigrams, words["word"])
    packed = Strings.of(words["word"])
    arrays: dict[str, Array] = {
        "words.text": packed.text,
        "words.offsets": packed.offsets,
        "counts": counts,
        "classes": classes,
        "pairs.first": first,
        "pairs.second": second,
        "pairs.counts": pair_counts,
    }
    content = hashlib.sha256()
    for name in sorted(arrays):
        content.update(name.encode() + arrays[name].tobytes())
    return {"digest": content.hexdigest()}, arrays


def _files() -> tuple[Path, Path]:
    try:
        listed = metadata.distribution(DISTRIBUTION).files or []
    except metadata.PackageNotFoundError:
        raise KnowledgeError(
            f"word counts are missing: the distribution {DISTRIBUTION} is not installed. "
            f"pip install {DISTRIBUTION}=={VERSION}"
        ) from None
    found = {entry.name: Path(str(entry.locate())) for entry in listed}
    unigrams, bigrams = (found.get(name, Path(name)) for name in SHA256)
    for path in (unigrams, bigrams):
        if not path.is_file() or file_digest(path) != SHA256[path.name]:
            raise KnowledgeError(
                f"the files of {DISTRIBUTION} are not those of version {VERSION}. "
                f"pip install --force-reinstall {DISTRIBUTION}=={VERSION}"
            )
    return unigrams, bigrams


def public_words() -> pl.Series:
    """The words of the public list of word counts, without those that only the vectors have."""
    return _counted(_files()[0])["word"]


def _counted(unigrams: Path) -> pl.DataFrame:
    return pl.read_csv(unigrams, separator="\t", has_header=False, new_columns=["word", "count"], quote_char=None)


def _with_ranks(counted: pl.DataFrame, ranked: pl.DataFrame) -> pl.DataFrame:
    """`word, count, rank` of both lists; a word that only GloVe has gets the median count around its rank."""
    both = ranked.join(counted, on="word", how="left", maintain_order="left")
    known = both["count"].is_not_null()
    counts = both.filter(known).sort("rank")
    usual = counts["count"].rolling_median(NEARBY_RANKS, min_samples=1, center=True).to_numpy()
    place = np.searchsorted(counts["rank"].to_numpy(), both["rank"].to_numpy()).clip(0, counts.height - 1)
    guessed = pl.Series("guessed", np.maximum(1, usual[place]).astype(np.int64))
    both = both.with_columns(guessed).with_columns(pl.coalesce("count", "guessed").alias("count")).drop("guessed")
    rest = counted.join(both, on="word", how="anti").with_columns(pl.lit(None, dtype=pl.UInt32).alias("rank"))
    return pl.concat([both.select("word", "count", "rank"), rest.select("word", "count", "rank")])


def _pairs(path: Path, words: pl.Series) -> tuple[Numbers, Numbers, npt.NDArray[np.int64]]:
    """First and second word and count of each pair, sorted by both; the start has the number behind all words."""
    pairs = pl.read_csv(path, separator="\t", has_header=False, new_columns=["pair", "count"], quote_char=None)
    split = pairs.select(pl.col("pair").str.split_exact(" ", 1).struct.rename_fields(["first", "second"]), "count")
    numbers = pl.DataFrame({"word": words, "number": pl.int_range(len(words), dtype=pl.Int32, eager=True)})
    start = pl.DataFrame({"word": [START], "number": [len(words)]}, schema=numbers.schema)
    first = pl.concat([numbers, start]).rename({"word": "first", "number": "a"})
    known = split.unnest("pair").join(first, on="first").join(numbers, left_on="second", right_on="word")
    summed = known.group_by("a", "number").agg(pl.col("count").sum()).sort("a", "number")
    return summed["a"].to_numpy(), summed["number"].to_numpy(), summed["count"].to_numpy()


# Classes


def _classes(matrix: npt.NDArray[np.float32], row: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> Numbers:
    """The class of every word at each level, by the row of its vector (−1 where it has none)."""
    there = np.flatnonzero(row >= 0)
    vectors = _rounded(matrix[row[there]])
    weight = np.sqrt(np.minimum(counts[there], MOST_COUNT_WEIGHT**2).astype(np.float64)).astype(np.int64) + 1
    trained = np.argsort(row[there], kind="stable")[:CLUSTERED_WORDS]
    group = np.zeros(len(there), np.int64)
    levels = np.repeat(np.array(LEVELS, np.int32)[:, None], len(row), axis=1)
    groups = 1
    for level, wanted in enumerate(LEVELS):
        shares = _shares(_sums(group[trained], weight[trained].astype(np.float64), groups), wanted)
        finer = np.zeros(len(there), np.int64)
        start = 0
        for parent, children in enumerate(shares.tolist()):
            members = np.flatnonzero(group == parent)
            inside = trained[group[trained] == parent]
            centres = _centres(vectors[inside], weight[inside], children)
            finer[members] = start + _nearest(vectors[members], centres)
            start += len(centres)
        group, groups = finer, start
        levels[level, there] = group
    return levels


def _rounded(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Unit vectors times `UNIT`, in whole numbers; each step is rounded as IEEE 754 says, in a fixed order."""
    scaled = vectors.astype(np.float64) * (UNIT / np.maximum(_sizes(vectors), 1e-6))[:, None]
    return np.trunc(scaled).astype(np.float32)


def _shares(weights: Floats, wanted: int) -> npt.NDArray[np.int64]:
    """How many children each group gets, at least one, in proportion to the root of its weight; `wanted` in all."""
    roots = np.floor(np.sqrt(weights)) + 1
    given: npt.NDArray[np.int64] = np.maximum(1, (wanted * roots // roots.sum()).astype(np.int64))
    order = np.argsort(-roots, kind="stable")
    place = 0
    while given.sum() != wanted:
        index = order[place % len(order)]
        step = 1 if given.sum() < wanted else -1
        given[index] += step if given[index] + step >= 1 else 0
        place += 1
    return given


def _centres(vectors: npt.NDArray[np.float32], weight: npt.NDArray[np.int64], count: int) -> npt.NDArray[np.float32]:
    """Spherical k-means: starts with the weightiest vector, then always the weightiest one least like those before."""
    if count >= len(vectors):
        return vectors if len(vectors) else np.zeros((1, vectors.shape[1]), np.float32)
    chosen = np.zeros((count, vectors.shape[1]), np.float32)
    likest = np.zeros(len(vectors))
    root = np.floor(np.sqrt(weight.astype(np.float64)))
    for centre in range(count):
        best = int(np.argmax((UNIT * UNIT - likest) * root))
        chosen[centre] = vectors[best]
        likest = np.maximum(likest, vectors @ vectors[best])
    weighted = vectors.astype(np.float64) * weight[:, None]
    ones, each = np.ones(len(vectors)), np.arange(len(vectors) + 1)
    for _ in range(ROUNDS):
        group = _nearest(vectors, chosen)
        members = sparse.csc_array((ones, group, each), shape=(count, len(group)))
        # Exact: the sums are whole numbers below 2^53, in any order, and 2^20 is a power of two.
        chosen = (np.asarray(members @ weighted) / 2**20).astype(np.float32)
        chosen = np.trunc(chosen * (UNIT / np.maximum(_sizes(chosen), 1e-6)).astype(np.float32)[:, None])
    return chosen


def _sizes(vectors: npt.NDArray[np.float32]) -> Floats:
    """Euclidean lengths; each step is rounded as IEEE 754 says, in a fixed order."""
    squares = np.zeros(len(vectors))
    for column in vectors.T.astype(np.float64):
        squares += column * column
    return np.sqrt(squares)


def _sums(group: npt.NDArray[np.int64], values: Floats, groups: int) -> Floats:
    """The sum of the values of each group."""
    return np.asarray(np.bincount(group, weights=values, minlength=groups), np.float64)


def _nearest(vectors: npt.NDArray[np.float32], centres: npt.NDArray[np.float32]) -> npt.NDArray[np.int64]:
    """The centre of the largest product, the first where several are; whole numbers, so exact in any order."""
    nearest = np.empty(len(vectors), np.int64)
    for start in range(0, len(vectors), 65536):
        nearest[start : start + 65536] = np.argmax(vectors[start : start + 65536] @ centres.T, axis=1)
    return nearest

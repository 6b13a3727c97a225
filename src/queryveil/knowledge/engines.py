"""Small search engines over a list of texts: BM25, TF-IDF, and one by meaning. For measuring, and for ranking at home.

- **BM25** (Robertson et al. 1994) with Lucene's never negative idf: weight ln(1 + (N − df + ½)/(df + ½)) ·
  tf / (tf + k1·(1 − b + b·length/mean length)), k1 = 1.2, b = 0.75.
- **TF-IDF** (Salton, Wong and Yang 1975): cosine of the vectors with weights (1 + ln tf)·ln(1 + N/df), up to the
  query's own length, which does not change the order; a query's words count as often as they are typed.
- **Dense**: cosine of sentence vectors (see `sentences`).

Words are lowered, stop words dropped, the rest stemmed with Porter's stemmer. Every engine answers with places in the
list of texts, best first, and of equal ones the first first; a lexical engine finds only texts that share a word with
the query.

Cost: an index in the number of distinct words per text; a query adds up the postings of its words in compiled code.

>>> engine = LexicalEngine.bm25(["the cat sat", "dogs and cats", "a bird"])
>>> [found.tolist() for found in engine.search(["cat", "flying birds", "fish"], depth=2)]
[[0, 1], [2], []]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from queryveil.checks import require, whole_number
from queryveil.errors import KnowledgeError
from queryveil.knowledge._arrays import Floats, Ints, Lists
from queryveil.knowledge.phrases import label_words, stemmer
from queryveil.knowledge.sentences import Encoder
from queryveil.knowledge.tagging import STOP_WORDS

K1, B = 1.2, 0.75
MOST_FOUND = 10**7
QUERIES_AT_ONCE = 256


class SearchEngine(Protocol):
    """What answers queries with places in a list of texts."""

    def search(self, queries: Sequence[str], depth: int) -> list[Ints]:
        """For each query the places of the best texts, at most `depth` of them."""


def content_words(text: str) -> list[str]:
    """The words of a text in lower case, without stop words."""
    return [word for word in label_words(text) if word not in STOP_WORDS]


def terms(text: str) -> list[str]:
    """The words of a text as an index knows them: content words, stemmed."""
    stem = stemmer()
    return [stem(word) for word in content_words(text)]


class LexicalEngine:
    """An inverted index with one weight for each word of each text."""

    def __init__(self, numbers: dict[str, int], postings: tuple[npt.NDArray[np.int64], Ints, Floats], size: int):
        self.numbers = numbers
        """The number of each term."""
        self.postings = postings
        """(offsets, texts, weights): term t stands in texts[offsets[t] : offsets[t+1]]."""
        self._size = size

    @classmethod
    def bm25(cls, texts: Sequence[str]) -> LexicalEngine:
        """BM25 over texts."""
        numbers, documents, words, counts = _counted(texts)
        frequency = np.bincount(words, minlength=len(numbers))
        lengths = np.bincount(documents, weights=counts, minlength=len(texts))
        idf = np.log1p((len(texts) - frequency + 0.5) / (frequency + 0.5))
        norm = K1 * (1 - B + B * lengths[documents] / lengths.mean())
        return cls._of(numbers, documents, words, idf[words] * counts / (counts + norm), len(texts))

    @classmethod
    def tfidf(cls, texts: Sequence[str]) -> LexicalEngine:
        """TF-IDF with cosine normalisation over texts."""
        numbers, documents, words, counts = _counted(texts)
        idf = np.log1p(len(texts) / np.bincount(words, minlength=len(numbers)))
        weights = (1 + np.log(counts)) * idf[words]
        lengths = np.sqrt(np.bincount(documents, weights=weights**2, minlength=len(texts)))
        return cls._of(numbers, documents, words, idf[words] * weights / lengths[documents], len(texts))

    @classmethod
    def _of(cls, numbers: dict[str, int], documents: Ints, words: Ints, weights: Floats, size: int) -> LexicalEngine:
        order = np.argsort(words, kind="stable")
        offsets = np.zeros(len(numbers) + 1, np.int64)
        np.cumsum(np.bincount(words, minlength=len(numbers)), out=offsets[1:])
        return cls(numbers, (offsets, documents[order], weights[order]), size)

    def __len__(self) -> int:
        return self._size

    def search(self, queries: Sequence[str], depth: int) -> list[Ints]:
        """For each query the places of the best texts that share a word with it."""
        _check_depth(depth)
        from queryveil.knowledge._odp_kernel import best_categories, room  # Numba: only who searches pays

        known = self.numbers
        # Sorted, so that the order of words does not change how a sum is rounded.
        asked = Lists.of(sorted(known[term] for term in terms(query) if term in known) for query in queries)
        scratch = room(len(queries), self._size, min(depth, max(1, self._size)))
        alike = np.zeros(self._size, np.int32)  # ties go to the first text
        best_categories(asked.offsets, asked.values, *self.postings, alike, scratch[2].shape[1], *scratch)
        return [best[:found] for best, found in zip(scratch[2], scratch[3].tolist(), strict=True)]


class DenseEngine:
    """Texts and queries as sentence vectors, compared by cosine."""

    def __init__(self, texts: Sequence[str], encoder: Encoder) -> None:
        _check_texts(texts)
        self._encoder = encoder
        self.vectors = encoder.encode(texts)

    def __len__(self) -> int:
        return len(self.vectors)

    def search(self, queries: Sequence[str], depth: int) -> list[Ints]:
        """For each query the places of the texts nearest in meaning."""
        _check_depth(depth)
        found: list[Ints] = []
        for start in range(0, len(queries), QUERIES_AT_ONCE):
            asked = self._encoder.encode(queries[start : start + QUERIES_AT_ONCE])
            found += [_best(row, depth) for row in asked @ self.vectors.T]
        return found


def _best(scores: npt.NDArray[np.float32], depth: int) -> Ints:
    if depth < len(scores):
        least = np.partition(scores, len(scores) - depth)[len(scores) - depth]
        kept = np.flatnonzero(scores >= least)  # more than `depth` where some are equal
    else:
        kept = np.arange(len(scores))
    return kept[np.argsort(-scores[kept], kind="stable")][:depth].astype(np.int32)


def _counted(texts: Sequence[str]) -> tuple[dict[str, int], Ints, Ints, Floats]:
    """Numbers of terms, then for each pair of text and term the two and how often it stands there."""
    _check_texts(texts)
    numbers: dict[str, int] = {}
    words = Lists.of([numbers.setdefault(term, len(numbers)) for term in terms(text)] for text in texts)
    if not numbers:
        raise KnowledgeError("none of the texts to search holds a word.")
    pairs = words.owners().astype(np.int64) * len(numbers) + words.values
    distinct, counts = np.unique(pairs, return_counts=True)
    documents, found = np.divmod(distinct, len(numbers))
    return numbers, documents.astype(np.int32), found.astype(np.int32), counts.astype(np.float64)


def _check_texts(texts: Sequence[str]) -> None:
    if not texts:
        raise KnowledgeError("there are no texts to search.")


def _check_depth(depth: int) -> None:
    require(whole_number("depth", depth, at_least=1, at_most=MOST_FOUND, suggest=100))

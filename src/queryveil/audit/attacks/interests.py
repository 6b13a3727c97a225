"""What people's earlier queries say about who is behind a row of later ones: scores by words and texts, sparse.

A row (the records of a pseudonym, or one record) and a person's past are described by *terms*: words, whole texts,
categories. Two scores are tried:

- *TF-IDF*: the cosine of the vectors with weights (1 + ln count) · ln(people / people with the term);
- *likelihood*: Σ over the row's terms of ln(1 + λ/(1−λ) · P(term | person) / P(term | everybody)), the logarithm of
  how much likelier a mixture of the person's own frequencies and everybody's makes the row than everybody's alone.

Both are sums over the terms that row and person share, so an inverted index finds the best person of everybody in the
time that its lists take, and one number for each person of memory: no table of rows by people.

>>> past = counts_of(np.array([0, 0, 1]), np.array([0, 1, 2]), 2, 3)
>>> rows = counts_of(np.array([0, 1]), np.array([2, 1]), 2, 3)
>>> Likelihood(past).best(rows, np.array([0.5, 0.5])).tolist()
[1, 0]
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import sparse

OWN_SHARE = 0.5
"""λ: how much of a person's queries are taken to come from their own past."""
WORD = r"[\p{L}\p{N}]+"

Floats = npt.NDArray[np.float64]
Longs = npt.NDArray[np.int64]
Ints = npt.NDArray[np.int32]
Table = sparse.csr_matrix


class Terms:
    """The texts of several logs as numbers, and the terms that describe each: words, itself, categories."""

    def __init__(self, *queries: pl.Series) -> None:
        self.texts = pl.concat(queries).unique().sort()
        words = (
            self.texts.to_frame("text")
            .with_row_index("number")
            .select("number", pl.col("text").str.to_lowercase().str.extract_all(WORD).list.unique().alias("word"))
            .explode("word")
            .drop_nulls()
        )
        self.words = words["word"].unique().sort()
        place = words["word"].cast(pl.Enum(self.words)).to_physical().to_numpy() if len(words) else np.zeros(0, int)
        self.words_of_text = counts_of(words["number"].to_numpy(), place, len(self.texts), len(self.words))

    def numbers(self, queries: pl.Series) -> Longs:
        """The number of each text."""
        return self.texts.search_sorted(queries).to_numpy().astype(np.int64) if len(queries) else np.zeros(0, np.int64)

    def by_words(self, rows: npt.NDArray[np.integer], texts: Longs, count: int) -> Table:
        """In how many distinct texts of a row each word stands."""
        return _product(_once(self.by_texts(rows, texts, count)), self.words_of_text)

    def by_texts(self, rows: npt.NDArray[np.integer], texts: Longs, count: int) -> Table:
        """How often a row has each text."""
        return counts_of(rows, texts, count, len(self.texts))

    def by_words_and_texts(self, rows: npt.NDArray[np.integer], texts: Longs, count: int) -> Table:
        """Words as `by_words`, and after them the whole texts."""
        return side_by_side(self.by_words(rows, texts, count), self.by_texts(rows, texts, count))

    def by_categories(
        self, rows: npt.NDArray[np.integer], texts: Longs, count: int, of_text: npt.NDArray[np.integer], tree: Ints
    ) -> Table:
        """How often a row has each category, those above included; `tree` has the parents, 0 is the root."""
        number, category = np.arange(len(self.texts)), of_text.astype(np.int64)
        found = []
        while (inside := category > 0).any():
            number, category = number[inside], category[inside]
            found.append((number, category))
            category = tree[category].astype(np.int64)
        places, above = (np.concatenate([np.zeros(0, np.int64), *(pair[side] for pair in found)]) for side in (0, 1))
        paths = counts_of(places, above, len(self.texts), len(tree))
        return _product(self.by_texts(rows, texts, count), paths)


def counts_of(rows: npt.NDArray[np.integer], terms: npt.NDArray[np.integer], row_count: int, term_count: int) -> Table:
    """How often each row has each term."""
    table = Table((np.ones(len(rows), np.float32), (rows, terms)), shape=(row_count, term_count))
    table.sum_duplicates()
    return table


def _product(one: Table, other: Table) -> Table:
    found = Table(one @ other)
    found.sort_indices()
    return found


def side_by_side(*tables: Table) -> Table:
    """One table with the terms of all."""
    return Table(sparse.hstack(tables, format="csr"))


def _once(table: Table) -> Table:
    return Table((np.ones(table.nnz, np.float32), table.indices, table.indptr), shape=table.shape)


class Scores(ABC):
    """Everybody's terms with their weights."""

    weights: Table

    def best(self, rows: Table, draws: Floats, prior: Floats | None = None) -> Longs:
        """The number of the person who fits each row best, of everybody."""
        from queryveil.audit.attacks._candidates_kernel import best_candidates

        by_term = self.weights.tocsc()
        found = np.zeros(rows.shape[0], np.int64)
        best_candidates(
            rows.indptr, rows.indices, self.of_row(rows), by_term.indptr, by_term.indices, by_term.data,
            np.zeros(self.weights.shape[0]) if prior is None else prior, draws, found,
        )  # fmt: skip
        return found

    def scores(self, rows: Table, pair_rows: Longs, pair_people: Longs) -> Floats:
        """How well a person fits a row, for each pair."""
        from queryveil.audit.attacks._candidates_kernel import pair_scores

        found, mine = np.zeros(len(pair_rows)), self.weights
        pair_scores(
            rows.indptr, rows.indices, self.of_row(rows), mine.indptr, mine.indices, mine.data, pair_rows, pair_people,
            found,
        )  # fmt: skip
        return found

    @abstractmethod
    def of_row(self, rows: Table) -> Floats:
        """The weight of each entry of the rows."""


class TfIdf(Scores):
    """The cosine of TF-IDF vectors."""

    def __init__(self, past: Table) -> None:
        people = past.shape[0]
        self._idf = np.log((people + 1) / (1 + np.bincount(past.indices, minlength=past.shape[1])))
        weighted = (1 + np.log(past.data)) * self._idf[past.indices]
        table = Table((weighted, past.indices, past.indptr), shape=past.shape)
        lengths = np.sqrt(np.asarray(table.multiply(table).sum(axis=1)).ravel())
        table.data /= np.repeat(np.where(lengths > 0, lengths, 1.0), np.diff(table.indptr))
        self.weights = table

    def of_row(self, rows: Table) -> Floats:
        """A row's own length is the same for everybody, so it is left out."""
        return np.asarray((1 + np.log(rows.data)) * self._idf[rows.indices], np.float64)


class Likelihood(Scores):
    """How much likelier a person's own frequencies make a row."""

    def __init__(self, past: Table, own: float = OWN_SHARE) -> None:
        totals = np.asarray(past.sum(axis=1)).ravel()
        everybody = np.asarray(past.sum(axis=0)).ravel() + 1.0
        share = past.data / np.repeat(np.where(totals > 0, totals, 1.0), np.diff(past.indptr))
        odds = own / (1 - own) * share / (everybody / everybody.sum())[past.indices]
        self.weights = Table((np.log1p(odds), past.indices, past.indptr), shape=past.shape)

    def of_row(self, rows: Table) -> Floats:
        """Each time a term occurs."""
        return np.asarray(rows.data, np.float64)

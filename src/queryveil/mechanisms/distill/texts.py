"""Records as arrays: who asked which text, and the numbers of its words in the public vocabulary.

A text is what was typed in lower case, Unicode's form NFKC and single blanks; its words are runs of letters and digits.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt
import polars as pl

from queryveil.arrays import Longs
from queryveil.knowledge.word_prior import WordPrior
from queryveil.mechanisms.distill import _vector_kernel as kernel

WORD = r"[\p{L}\p{N}]+"
MOST_WORDS = 64
"""Of a longer text the first so many count."""


@lru_cache(maxsize=1)
def vocabulary() -> WordPrior:
    """The public words, loaded once in a process."""
    return WordPrior.load()


@lru_cache(maxsize=1)
def _hashed_words() -> tuple[npt.NDArray[np.uint64], Longs]:
    """A hash table of all words: their hashes, and whose they are. 64 bits are found far faster than a text."""
    hashes = pl.Series(vocabulary().words.to_list()).hash().to_numpy()
    slots = np.zeros(4 << len(hashes).bit_length(), np.uint64)
    numbers = np.full(len(slots), -1, np.int64)
    kernel.fill_slots(hashes, slots, numbers)
    return slots, numbers


def plain(column: str) -> pl.Expr:
    """The text of a query, however it was typed."""
    return pl.col(column).str.normalize("NFKC").str.to_lowercase().str.replace_all(r"\s+", " ").str.strip_chars(" ")


def words_of(column: str) -> pl.Expr:
    """The words of a plain text."""
    return pl.col(column).str.extract_all(WORD).list.head(MOST_WORDS)


def numbers_of(words: pl.Series) -> Longs:
    """Each word's number; the one behind all words where it is not in the vocabulary.

    Two words share a hash with a probability of 10^-14; one would then be counted as the other, in a person's own
    vector and nowhere else.
    """
    found = np.empty(len(words), np.int64)
    kernel.find_slots(words.hash().to_numpy(), *_hashed_words(), len(vocabulary()), found)
    return found


def distinct(values: Longs) -> Longs:
    """The distinct numbers, sorted: several times as fast as `np.unique`, which hashes them first."""
    ordered = np.sort(values)
    return ordered[np.flatnonzero(np.diff(ordered, prepend=ordered[0] - 1))] if len(ordered) else ordered


@dataclass(frozen=True)
class Texts:
    """Distinct texts 0 … n−1 with their words: text k has `numbers[offsets[k]:offsets[k+1]]`."""

    offsets: Longs
    numbers: Longs

    @classmethod
    def of(cls, texts: pl.Series) -> Texts:
        """Split texts into words."""
        words = texts.to_frame("text").select(words_of("text"))["text"]
        offsets = np.zeros(len(texts) + 1, np.int64)
        np.cumsum(words.list.len().to_numpy(), out=offsets[1:])
        every = words.explode(empty_as_null=False) if len(words) else pl.Series(dtype=pl.String)
        return cls(offsets, numbers_of(every))

    @property
    def lengths(self) -> Longs:
        """How many words each text has."""
        return np.diff(self.offsets)

    def spread(self, text: Longs) -> tuple[Longs, Longs]:
        """For texts in some order: which of them each word belongs to, and where in `numbers` it is."""
        lengths = self.lengths[text]
        of = np.repeat(np.arange(len(text)), lengths)
        ends = np.cumsum(lengths)
        place = np.arange(len(of)) - np.repeat(ends - lengths, lengths) + self.offsets[text][of]
        return of, place

    def before(self, start: int) -> Longs:
        """The number of the word before each word, or `start`."""
        if not len(self.numbers):
            return self.numbers
        before = np.concatenate([[start], self.numbers[:-1]])
        first = self.offsets[:-1][self.lengths > 0]
        before[first] = start
        return before

    def rarest(self) -> Longs:
        """The last number among each text's known words, which is its rarest word; −1 where it has none."""
        known = np.where(self.numbers < len(vocabulary()), self.numbers, -1)
        rarest = np.full(len(self.offsets) - 1, -1, np.int64)
        filled = self.lengths > 0
        if filled.any():
            rarest[filled] = np.maximum.reduceat(known, self.offsets[:-1][filled])
        return rarest


@dataclass(frozen=True)
class Asked:
    """A block's records: of person 0, 1, … each, in the order of their times; and which texts there are."""

    rows: pl.DataFrame
    """`person, text_number, time, rank, url, session`, one for each record, sorted by person and time."""
    names: pl.Series
    """The texts by their number."""
    texts: Texts

    @classmethod
    def of(cls, rows: pl.DataFrame) -> Asked:
        """The records of whole people, in any order."""
        typed = rows.select(pl.col("query").unique()).with_columns(plain("query").alias("text"))
        names = typed["text"].unique().sort()
        numbered = pl.DataFrame({"text": names, "text_number": np.arange(len(names))})
        columns = ["user", "time", "text_number", "rank", "url", "session"]
        rows = rows.join(typed.join(numbered, on="text"), on="query", how="left").sort(columns, nulls_last=False)
        rows = rows.select(pl.col("user").rle_id().alias("person"), *columns[1:])
        return cls(rows, names, Texts.of(names))

    @property
    def people(self) -> int:
        """How many people the block has."""
        return int(self.rows["person"][-1]) + 1 if self.rows.height else 0

    def distinct(self) -> tuple[Longs, Longs]:
        """Person and text of each pair of them, once however often the text was asked; sorted."""
        return self._distinct

    @cached_property
    def _distinct(self) -> tuple[Longs, Longs]:
        texts = max(1, len(self.names))
        person, text = (self.rows[name].to_numpy().astype(np.int64) for name in ("person", "text_number"))
        pairs = distinct(person * texts + text)
        return pairs // texts, pairs % texts

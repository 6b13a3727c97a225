"""A log as arrays, as everybody who receives one would read it: who asked which text, in which words, when, what next.

A text is what was typed in lower case, Unicode's form NFKC and single blanks; its words are runs of letters and digits,
as numbers of the public vocabulary (`WordPrior`): N stands for every word outside it, N + 1 for the start of a text.
A text that one user asks again counts once, so that a habit does not fill the counts. The class of a word is the one
of 512 of the public classes, that of a text the class of its rarest word.

A session is what the log says it is; else it ends with a break of 30 minutes where times are exact, with the day where
they were cut to the day or the hour, and with the user where there are none.

>>> searches = Searches(QueryLog.of([("ann", "New York"), ("ann", "new york  weather"), ("bob", "new york")]))
>>> searches.people, searches.names.to_list(), searches.asked[0].tolist()
(2, ['new york', 'new york weather'], [0, 0, 1])
>>> searches.names.gather([*searches.steps.text, *searches.steps.next]).to_list()
['new york', 'new york weather']
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

import numpy as np
import polars as pl

from queryveil.arrays import Flags, Longs
from queryveil.knowledge.word_prior import LEVELS, WordPrior
from queryveil.log import QueryLog

WORD: Final = r"[\p{L}\p{N}]+"
HOST: Final = r"^(?:[a-z][a-z0-9+.-]*://)?(?:[^/@]*@)?(?:www\.)?([^/:?#]+)"
MOST_WORDS: Final = 64
"""Of a longer text the first so many count."""
BREAK: Final = timedelta(minutes=30)
COARSE, FINE = 0, 1
"""Levels of the public classes: 64 and 512."""


@lru_cache(maxsize=1)
def vocabulary() -> WordPrior:
    """The public words, loaded once in a process."""
    return WordPrior.load()


def other_word() -> int:
    """The number of every word outside the vocabulary."""
    return len(vocabulary())


def start_of_text() -> int:
    """The number of what stands before the first word."""
    return len(vocabulary()) + 1


@lru_cache(maxsize=2)
def classes(level: int) -> Longs:
    """The class of each word's number; words outside the vocabulary are with those that have no vector."""
    return np.append(vocabulary().classes[level].astype(np.int64), LEVELS[level])


def class_count(level: int) -> int:
    """How many classes a level has, that of words without a vector included."""
    return LEVELS[level] + 1


class Steps(NamedTuple):
    """From one text to the next, another one, within a session."""

    person: Longs
    text: Longs
    next: Longs


class Words(NamedTuple):
    """Every word of every text that a person asked, with the word before it."""

    person: Longs
    before: Longs
    word: Longs


@dataclass(frozen=True, eq=False)
class Searches:
    """A log's people, texts, words, sessions and clicks by number."""

    log: QueryLog

    @cached_property
    def rows(self) -> pl.DataFrame:
        """`person, text, time, session, url` of each record, sorted by person and time."""
        typed = self.log.frame.select(pl.col("query").unique()).with_columns(_plain("query").alias("plain"))
        names = typed["plain"].unique().sort()
        numbered = pl.DataFrame({"plain": names, "text": np.arange(len(names))})
        rows = self.log.frame.join(typed.join(numbered, on="plain"), on="query", how="left", maintain_order="left")
        rows = rows.with_columns(pl.col("user").rank("dense").cast(pl.Int64).alias("person") - 1)
        rows = rows.select("person", "text", "time", "session", "url")
        return rows.sort("person", "time", maintain_order=True, nulls_last=True)

    @cached_property
    def people(self) -> int:
        """How many users there are."""
        return self.log.user_count()

    @cached_property
    def names(self) -> pl.Series:
        """The distinct texts by their number."""
        return self.log.frame.select(_plain("query").alias("plain").unique().sort())["plain"]

    @cached_property
    def _words_of_texts(self) -> tuple[Longs, Longs]:
        """Text k has the words `numbers[offsets[k]:offsets[k + 1]]`."""
        words = self.names.to_frame("text").select(pl.col("text").str.extract_all(WORD).list.head(MOST_WORDS))["text"]
        offsets = np.zeros(len(words) + 1, np.int64)
        np.cumsum(words.list.len().to_numpy(), out=offsets[1:])
        every = words.explode(empty_as_null=False) if len(words) else pl.Series(dtype=pl.String)
        return offsets, word_numbers(every)

    @property
    def offsets(self) -> Longs:
        """Where each text's words begin."""
        return self._words_of_texts[0]

    @property
    def numbers(self) -> Longs:
        """The words of all texts, one text after the other."""
        return self._words_of_texts[1]

    @cached_property
    def rarest(self) -> Longs:
        """The number of each text's rarest known word (rare words have large numbers); −1 where none is known."""
        known = np.where(self.numbers < other_word(), self.numbers, -1)
        found = np.full(len(self.names), -1, np.int64)
        filled = np.diff(self.offsets) > 0
        if filled.any():
            found[filled] = np.maximum.reduceat(known, self.offsets[:-1][filled])
        return found

    def class_of_texts(self, level: int) -> Longs:
        """The class of each text; −1 where no word of it is known."""
        return np.where(self.rarest >= 0, classes(level)[self.rarest], -1)

    @cached_property
    def asked(self) -> tuple[Longs, Longs]:
        """Person and text of each pair of them, once however often it was asked; sorted."""
        texts = max(1, len(self.names))
        person, text = (self.rows[name].to_numpy().astype(np.int64) for name in ("person", "text"))
        pairs = np.unique(person * texts + text)
        return pairs // texts, pairs % texts

    def words_of(self, texts: Longs) -> tuple[Longs, Longs]:
        """The words of some texts: which of these each belongs to, and its number."""
        lengths = np.diff(self.offsets)[texts]
        of = np.repeat(np.arange(len(texts)), lengths)
        place = np.arange(len(of)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + self.offsets[texts][of]
        return of, self.numbers[place]

    @cached_property
    def words(self) -> Words:
        """The words of the texts that people asked."""
        person, text = self.asked
        of, word = self.words_of(text)
        first = np.diff(of, prepend=-1) != 0
        before = np.where(first, start_of_text(), np.concatenate([[0], word[:-1]])[: len(word)])
        return Words(person[of], before.astype(np.int64), word)

    @cached_property
    def _session_starts(self) -> Flags:
        """Which records begin a session."""
        rows = self.rows
        new = pl.col("person") != pl.col("person").shift(1)
        if rows["session"].null_count() == 0:
            new |= pl.col("session") != pl.col("session").shift(1)
        elif rows["time"].null_count() < rows.height:
            time, before = pl.col("time"), pl.col("time").shift(1)
            late = time.dt.date() != before.dt.date() if self.whole_hours else time - before > BREAK
            new |= late.fill_null(True)
        found: Flags = rows.select(new.fill_null(True).alias("new"))["new"].to_numpy()
        return found

    @cached_property
    def whole_hours(self) -> bool:
        """Whether all times were cut to the hour or the day."""
        time = pl.col("time")
        return bool(self.rows.select((time == time.dt.truncate("1h")).all()).item())

    @cached_property
    def tells_hours(self) -> bool:
        """Whether times tell the hour of the day."""
        time = pl.col("time")
        known = self.rows.filter(time.is_not_null())
        return bool(known.height) and not known.select((time == time.dt.truncate("1d")).all()).item()

    @cached_property
    def _changes(self) -> Flags:
        """Which records begin a session or hold another text than the one before: one for each ask."""
        text = self.rows["text"].to_numpy()
        return np.asarray(self._session_starts | (np.diff(text, prepend=-1) != 0))

    @cached_property
    def steps(self) -> Steps:
        """What people asked next."""
        kept = self.rows.filter(pl.Series(self._changes, dtype=pl.Boolean))
        person, text = (kept[name].to_numpy().astype(np.int64) for name in ("person", "text"))
        goes_on = ~self._session_starts[self._changes][1:]
        return Steps(person[1:][goes_on], text[:-1][goes_on], text[1:][goes_on])

    @cached_property
    def session_lengths(self) -> tuple[Longs, Longs]:
        """Person and number of asks of each session."""
        starts, asks = self._session_starts, np.cumsum(self._changes)
        begin = np.flatnonzero(starts)
        person = self.rows["person"].to_numpy().astype(np.int64)[begin]
        before = np.append(asks[begin] - 1, asks[-1] if len(asks) else 0)
        return person, np.diff(before)

    @cached_property
    def hours(self) -> tuple[Longs, Longs]:
        """Person and hour of the day of each ask with a time."""
        kept = self.rows.filter(pl.Series(self._changes, dtype=pl.Boolean)).filter(pl.col("time").is_not_null())
        return kept["person"].to_numpy().astype(np.int64), kept["time"].dt.hour().to_numpy().astype(np.int64)

    @cached_property
    def clicks(self) -> pl.DataFrame:
        """`person, class, host` of each click (the class of 64 of its text), once for a person, text and host."""
        host = pl.col("url").str.to_lowercase().str.extract(HOST).alias("host")
        rows = self.rows.filter(pl.col("url").is_not_null()).select("person", "text", host).drop_nulls().unique()
        texts = rows["text"].to_numpy()
        return rows.with_columns(pl.Series("class", self.class_of_texts(COARSE)[texts])).sort("person", "text", "host")


def _plain(column: str) -> pl.Expr:
    return pl.col(column).str.normalize("NFKC").str.to_lowercase().str.replace_all(r"\s+", " ").str.strip_chars(" ")


def word_numbers(words: pl.Series) -> Longs:
    """Each word's number; that of all other words where it is not in the vocabulary."""
    if not len(words):
        return np.zeros(0, np.int64)
    known, other = vocabulary().numbers, other_word()
    distinct = words.unique()
    numbers = [known.get(word, other) for word in distinct]
    return words.replace_strict(distinct, numbers, return_dtype=pl.Int64).to_numpy()

"""Autocomplete: the word that somebody means, after its first two letters.

Of the words of held-out people's texts, up to `MOST_TRIALS` that are in the public vocabulary are typed again: what
stands before is known and two letters are there. A reader ranks all words of the vocabulary that begin so by P(word |
word before), equals by how frequent they are in public. The figure is the mean reciprocal rank, 0 beyond the tenth
(MRR@10).

The readers are those of `language`. Cost: for each trial a look at the words that begin so and can be among the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Final

import numpy as np
import polars as pl

from queryveil.arrays import Flags, Floats, Longs
from queryveil.audit.context import AuditContext
from queryveil.audit.finding import LeftOut
from queryveil.audit.held_out.judgement import Judged, JudgedByOthers, means
from queryveil.audit.held_out.judging import Judging, Reader
from queryveil.audit.held_out.searches import Searches, other_word, vocabulary
from queryveil.audit.held_out.word_model import WordSource, estimates, halves
from queryveil.privacy import Noise

LETTERS: Final = 2
FREQUENT: Final = 300
SHOWN: Final = 10
MOST_TRIALS: Final = 1000
TRIALS_SEED: Final = 20_261


@dataclass(frozen=True, eq=False)
class Candidates:
    """The words that begin with the same letters as a word, as far as any of them can be among the first.

    A word that no pair and no log has, and before which the public puts `FREQUENT` others that begin so, is behind all
    of these for every reader who counts; of a published model it is taken for granted.
    """

    words: Longs
    """Those with the same letters next to each other, in the order of their numbers."""
    start: Longs

    @classmethod
    def of(cls, *used: Longs) -> Candidates:
        """With words that occur in logs."""
        letters, keep = first_letters(), _frequent().copy()
        for words in used:
            keep[words[words < other_word()]] = True
        kept = np.flatnonzero(keep)
        order = kept[np.argsort(letters[kept], kind="stable")]
        return cls(order, np.searchsorted(letters[order], np.arange(letters.max() + 2)))

    def like(self, word: Longs) -> tuple[Longs, Longs]:
        """The candidates for each word: whose they are, and they."""
        letters = first_letters()[word]
        count = self.start[letters + 1] - self.start[letters]
        of = np.repeat(np.arange(len(word)), count)
        return of, self.words[np.arange(len(of)) - np.repeat(np.cumsum(count) - count, count) + self.start[letters][of]]


@lru_cache(maxsize=1)
def first_letters() -> Longs:
    """A number for the first letters of each word."""
    letters = pl.Series(vocabulary().words.to_list()).str.slice(0, LETTERS)
    return letters.rank("dense").cast(pl.Int64).to_numpy() - 1


@lru_cache(maxsize=1)
def _frequent() -> Flags:
    """The first words, publicly, of all that begin alike, and those that public pairs have."""
    letters = first_letters()
    order = np.argsort(letters, kind="stable")
    place = np.arange(len(order)) - np.searchsorted(letters[order], letters[order])
    keep = np.zeros(len(order), np.bool_)
    keep[order[place < FREQUENT]] = True
    keep[vocabulary().pair_second] = True
    return keep


def trials(judging: Judging) -> Longs:
    """Which of the judges' words are completed: the same for every release."""
    long_enough = pl.Series(vocabulary().words.to_list()).str.len_chars().to_numpy() >= LETTERS
    word = judging.judges.words.word
    able = np.flatnonzero(np.append(long_enough, False)[np.minimum(word, other_word())])
    order = Noise.seeded(TRIALS_SEED).stream("autocomplete: trials").permutation(len(able))
    return np.sort(able[order[:MOST_TRIALS]])


def reciprocal_ranks(
    sources: Sequence[WordSource], weights: Floats, candidates: Candidates, before: Longs, word: Longs
) -> Floats:
    """1 / rank of each word among those that begin like it, by a row of weights for each; 0 beyond the tenth."""
    trial, tried = candidates.like(word)
    likely = (estimates(sources, before[trial], tried) * weights[trial]).sum(axis=1)
    meant = np.zeros(len(word))
    is_meant = tried == word[trial]
    meant[trial[is_meant]] = likely[is_meant]
    first = (likely > meant[trial]) | ((likely == meant[trial]) & (tried < word[trial]))
    rank = 1 + np.bincount(trial[first], minlength=len(word))
    return np.where(rank <= SHOWN, 1 / rank, 0.0)


class Autocomplete(JudgedByOthers):
    """MRR@10 of a word after two letters."""

    key: ClassVar[str] = "autocomplete"
    title: ClassVar[str] = "Autocomplete for other people"
    task: ClassVar[str] = "autocomplete"

    def judged(self, context: AuditContext) -> Iterator[Judged | LeftOut]:
        """Mean reciprocal ranks of each reader."""
        judging = context.judging
        chosen = judging.once("completed words", lambda: trials(judging))
        person, before, word = (column[chosen] for column in judging.judges.words)

        def ranks(reader: Reader, log: Searches) -> Floats:
            candidates = Candidates.of(judging.judges.words.word, log.words.word)
            weights = judging.word_weights(reader)[halves(person)]
            return reciprocal_ranks(judging.sources(reader), weights, candidates, before, word)

        floor = judging.once("completed: floor", lambda: ranks("floor", judging.raw))
        ceiling = judging.once("completed: ceiling", lambda: ranks("ceiling", judging.raw))
        release = ranks("release", judging.released)
        yield from judging.judge(
            self.title, self.key,
            f"How far up the word that other people meant stands after {LETTERS} letters, with {judging.read_how}: "
            f"mean reciprocal rank among the first {SHOWN}.",
            f"MRR@{SHOWN}", means(person, floor, release, ceiling),
        )  # fmt: skip

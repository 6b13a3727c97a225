"""Autocomplete: the word that somebody means, after its first two letters.

Of the words of held-out people's texts, up to `MOST_TRIALS` of the public vocabulary are typed again: what stands before
is known and two letters are there. A reader ranks all words of the vocabulary that begin so by P(word | word before),
equals by how frequent they are in public. The figure is the mean reciprocal rank, 0 beyond the tenth (MRR@10).

The readers are those of `language`. Cost: for each trial, one look at all words that begin so.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import ClassVar, Final

import numpy as np
import polars as pl

from queryveil.arrays import Floats, Longs
from queryveil.audit.context import AuditContext
from queryveil.audit.finding import LeftOut
from queryveil.audit.held_out.judgement import Judged, JudgedByOthers, means
from queryveil.audit.held_out.judging import READERS, Judging, Reader
from queryveil.audit.held_out.searches import other_word, vocabulary
from queryveil.audit.held_out.word_model import Source, estimates_after, halves
from queryveil.privacy import Noise

LETTERS: Final = 2
SHOWN: Final = 10
MOST_TRIALS: Final = 1000
TRIALS_SEED: Final = 20_261


@lru_cache(maxsize=1)
def words_by_letters() -> tuple[Longs, Longs, Longs]:
    """For each word the number of its first letters, all words by these, and where each number's words begin."""
    letters = vocabulary().words.to_list()
    first = pl.Series(letters).str.slice(0, LETTERS).rank("dense").cast(pl.Int64).to_numpy() - 1
    order = np.argsort(first, kind="stable")
    return first, order, np.searchsorted(first[order], np.arange(first.max() + 2))


def trials(judging: Judging) -> Longs:
    """Which of the judges' words are completed: the same for every release."""
    long_enough = pl.Series(vocabulary().words.to_list()).str.len_chars().to_numpy() >= LETTERS
    word = judging.judges.words.word
    able = np.flatnonzero(np.append(long_enough, False)[np.minimum(word, other_word())])
    order = Noise.seeded(TRIALS_SEED).stream("autocomplete: trials").permutation(len(able))
    return np.sort(able[order[:MOST_TRIALS]])


def reciprocal_ranks(sources: Sequence[Source], weights: Floats, before: Longs, word: Longs, half: Longs) -> Floats:
    """1 / rank of each word among those that begin like it; 0 beyond the tenth."""
    first, order, start = words_by_letters()
    found = np.zeros(len(word))
    for place, meant in enumerate(word.tolist()):
        candidates = order[start[first[meant]] : start[first[meant] + 1]]
        likely = estimates_after(sources, int(before[place]), candidates) @ weights[half[place]]
        mine = likely[np.searchsorted(candidates, meant)]
        rank = 1 + int((likely > mine).sum() + ((likely == mine) & (candidates < meant)).sum())
        found[place] = 1 / rank if rank <= SHOWN else 0.0
    return found


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

        def ranks(reader: Reader) -> Floats:
            weights = judging.word_weights(reader)
            return reciprocal_ranks(judging.sources(reader), weights, before, word, halves(person))

        floor, ceiling = (judging.once(f"completed {r}", lambda r=r: ranks(r)) for r in (READERS[0], READERS[2]))
        yield from judging.judge(
            self.title, self.key,
            f"How far up the word that other people meant stands after {LETTERS} letters, with {judging.read_how}: mean "
            f"reciprocal rank among the first {SHOWN}.",
            f"MRR@{SHOWN}", means(person, floor, ranks("release"), ceiling),
        )  # fmt: skip

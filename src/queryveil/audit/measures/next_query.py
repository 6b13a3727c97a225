"""Suggestion: what people who are in neither log ask next in a session, by its words and by its class.

A step goes from one text to the next, another one, in the same session (`held_out.searches`). *Words*: what those words
of the next text that the text before has not cost in bits, on average. (Ranks would tell nothing: among 470,000 words
the right one is hardly ever one of the first ten, whatever is known.) *Class*: the reciprocal rank of the next text's
class among 512, 0 beyond the tenth (MRR@10).

Three readers guess. Estimates of a new word: by public counts, words, pairs with the last word, and words of the same
class; by a log the same, and which words and classes its sessions add to the words and the class of a text. Estimates
of the class: the same one again, and public shares; by a log its shares, and how its sessions go from class to class.
They are mixed with weights that the other half of the judges gives, as in `language`.

Which whole queries a release still suggests is told by `suggestion`. Cost: one look-up for each added word, word before
it and estimate; a table of 513 × 513.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Final

import numpy as np

from queryveil.arrays import Floats, Longs
from queryveil.audit.context import AuditContext
from queryveil.audit.finding import LeftOut
from queryveil.audit.held_out.judgement import Judged, JudgedByOthers, means, reciprocal_rank, shares_of
from queryveil.audit.held_out.judging import Judging, Reader
from queryveil.audit.held_out.searches import FINE, Searches, class_count, classes, other_word
from queryveil.audit.held_out.word_model import Pairs, WordCounts, halves, mixed, weights_for
from queryveil.audit.measures.topics import public_topics
from queryveil.privacy import Noise

SHOWN: Final = 10
MOST_TRIALS: Final = 2000
TRIALS_SEED: Final = 20_262


@dataclass(frozen=True, eq=False)
class Added:
    """Known words of next texts that the texts before have not, each once, and all words of the texts before."""

    searches: Searches

    @cached_property
    def _trials(self) -> tuple[Longs, Longs]:
        steps, base = self.searches.steps, other_word() + 1
        before, after = (self.searches.words_of(texts) for texts in (steps.text, steps.next))
        keys = [np.unique(step * base + word) for step, word in (before, after)]
        new = np.setdiff1d(keys[1], keys[0], assume_unique=True)
        step, word = new // base, new % base
        good = (word < other_word()) & (np.diff(self.searches.offsets)[steps.text[step]] > 0)
        return step[good], word[good]

    @property
    def word(self) -> Longs:
        """The added words."""
        return self._trials[1]

    @property
    def person(self) -> Longs:
        """Who added each."""
        return self.searches.steps.person[self._trials[0]]

    @property
    def text(self) -> Longs:
        """The text before each."""
        return self.searches.steps.text[self._trials[0]]

    @cached_property
    def last(self) -> Longs:
        """The last word of the text before."""
        return self.searches.numbers[self.searches.offsets[self.text + 1] - 1]

    @cached_property
    def topic(self) -> Longs:
        """The class of the text before; that of words without a vector where none of its words is known."""
        topic = self.searches.class_of_texts(FINE)[self.text]
        return np.where(topic >= 0, topic, class_count(FINE) - 1)

    @cached_property
    def before(self) -> tuple[Longs, Longs]:
        """Each word of the text before, with the number of the added word."""
        return self.searches.words_of(self.text)


@dataclass(frozen=True, eq=False)
class Adding:
    """What a reader knows of words that are added."""

    counts: WordCounts
    sessions: Pairs | None = None
    """Which words sessions add to each word."""
    topics: Floats | None = None
    """The share of each class among the words that sessions add to a text of each class."""

    @classmethod
    def of(cls, searches: Searches) -> Adding:
        """What a log teaches."""
        added, count = Added(searches), class_count(FINE)
        number, before = added.before
        table = np.bincount(added.topic * count + classes(FINE)[added.word], minlength=count * count)
        table = table.reshape(count, count)
        return cls(
            WordCounts.of(searches),
            Pairs.of(before, added.word[number], np.ones(len(number))),
            table / np.maximum(table.sum(axis=1, keepdims=True), 1),
        )

    def estimates(self, added: Added) -> Floats:
        """P(added word) by each estimate, one column each."""
        word, topic = added.word, classes(FINE)[added.word]
        shares = self.counts.shares[word]
        whole = np.bincount(classes(FINE), self.counts.shares, minlength=class_count(FINE))
        within = np.divide(shares, whole[topic], out=np.zeros(len(word)), where=shares > 0)
        parts = [self.counts.estimates(added.last, word), (within * (topic == added.topic))[:, None]]
        if self.sessions is not None and self.topics is not None:
            number, before = added.before
            listed = self.sessions.listed(before)
            found = np.bincount(number, self.sessions.shares(before, word[number]), minlength=len(word))
            known = np.bincount(number[listed], minlength=len(word))
            parts.append(np.where(known > 0, found / np.maximum(known, 1), shares)[:, None])
            moves = np.where(self.topics[added.topic].any(axis=1), self.topics[added.topic, topic] * within, shares)
            parts.append(moves[:, None])
        return np.concatenate(parts, axis=1)


def added_bits(judging: Judging, reader: Reader, added: Added) -> Floats:
    """What each added word costs a reader."""
    readers = [Adding(WordCounts.public())]
    if reader != "floor":
        readers.append(Adding.of(judging.released if reader == "release" else judging.raw))
    parts = np.concatenate([one.estimates(added) for one in readers], axis=1)
    half = halves(added.person)
    return -np.log2(mixed(parts, half, weights_for(parts, half)))


def class_estimates(searches: Searches | None, topics: Longs) -> Floats:
    """P(next class | class) by each estimate: for each class a row of all classes, for each estimate a last axis."""
    count = class_count(FINE)
    public = np.broadcast_to(public_topics(), (len(topics), count))
    parts = [np.eye(count)[topics], public]
    if searches is not None:
        of_text = searches.class_of_texts(FINE)
        asked = of_text[searches.asked[1]]
        shares = shares_of(asked[asked >= 0], count, public_topics())
        one, other = of_text[searches.steps.text], of_text[searches.steps.next]
        known = (one >= 0) & (other >= 0)
        table = np.bincount(one[known] * count + other[known], minlength=count * count).reshape(count, count)
        sums = table.sum(axis=1, keepdims=True)
        moves = np.where(sums > 0, table / np.maximum(sums, 1), shares)
        parts += [np.broadcast_to(shares, public.shape), moves[topics]]
    return np.stack(parts, axis=2)


def class_ranks(searches: Searches | None, topics: Longs, following: Longs, half: Longs) -> Floats:
    """The reciprocal rank of each next class."""
    distinct, row = np.unique(topics, return_inverse=True)
    estimates = class_estimates(searches, distinct)
    weights = weights_for(estimates[row, following], half)
    scores = [estimates @ weights[side] for side in (0, 1)]
    trials = zip(half, row, following.tolist(), strict=True)
    return np.array([reciprocal_rank(scores[h][r], place, SHOWN) for h, r, place in trials])


def class_trials(judges: Searches) -> tuple[Longs, Longs, Longs]:
    """Person, class and next class of each trial, the same for every release."""
    steps, of_text = judges.steps, judges.class_of_texts(FINE)
    one, other = of_text[steps.text], of_text[steps.next]
    known = np.flatnonzero((one >= 0) & (other >= 0))
    order = Noise.seeded(TRIALS_SEED).stream("next query: trials").permutation(len(known))
    chosen = known[np.sort(order[:MOST_TRIALS])]
    return steps.person[chosen], one[chosen], other[chosen]


class NextQuery(JudgedByOthers):
    """Bits of the next query's new words, and MRR@10 of its class."""

    key: ClassVar[str] = "next-query"
    title: ClassVar[str] = "What other people ask next"
    task: ClassVar[str] = "query suggestion"

    def judged(self, context: AuditContext) -> Iterator[Judged | LeftOut]:
        """The figures of each reader."""
        judging = context.judging
        added = judging.once("added words", lambda: Added(judging.judges))
        costs = (
            judging.once("added words: floor", lambda: added_bits(judging, "floor", added)),
            added_bits(judging, "release", added),
            judging.once("added words: ceiling", lambda: added_bits(judging, "ceiling", added)),
        )
        yield from judging.judge(
            f"{self.title}: words", "next-words",
            "How well the new words of other people's next query are predicted by what the release's sessions add: the "
            "share of what the raw log saves in bits per word.",
            "Bits per added word", means(added.person, *costs), better="lower",
        )  # fmt: skip
        person, topics, following = judging.once("next classes", lambda: class_trials(judging.judges))
        half = halves(person)
        ranks = (
            judging.once("next classes: floor", lambda: class_ranks(None, topics, following, half)),
            class_ranks(judging.released, topics, following, half),
            judging.once("next classes: ceiling", lambda: class_ranks(judging.raw, topics, following, half)),
        )
        yield from judging.judge(
            f"{self.title}: class", "next-class",
            "How far up the class of other people's next query stands among 512 public classes of words, by the "
            f"release's sessions: mean reciprocal rank among the first {SHOWN}.", f"MRR@{SHOWN}", means(person, *ranks),
        )  # fmt: skip

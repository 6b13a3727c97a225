"""Suggestion: what people who are in neither log ask next in a session, by its words and by its class.

A step goes from one text to the next, another one, in the same session (`held_out.searches`). *Words*: for each word of
the next text that the text before has not, the reciprocal rank among all words of the vocabulary that it has not, 0
beyond the tenth (MRR@10). *Class*: the same for the class of the next text, of 512.

Three readers guess. Estimates of a new word: public words, public pairs with the last word; and by a log its words, its
pairs with the last word, and which words its sessions add to each word of a text. Estimates of the class: the same one
again, public shares; and by a log its shares, and how its sessions go from class to class. They are mixed with weights
that the other half of the judges gives, as in `language`. Up to `MOST_TRIALS` words and classes are tried.

Which whole queries a release still suggests is told by `suggestion`. Cost: for each trial the words that anything is
known to add, and the most frequent ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np

from queryveil.arrays import Floats, Longs
from queryveil.audit.context import AuditContext
from queryveil.audit.finding import LeftOut
from queryveil.audit.held_out.judgement import Judged, JudgedByOthers, means, shares_of
from queryveil.audit.held_out.judging import Judging, Reader
from queryveil.audit.held_out.searches import FINE, Searches, class_count, other_word
from queryveil.audit.held_out.word_model import Pairs, WordCounts, halves, weights_for
from queryveil.audit.measures.topics import public_topics
from queryveil.privacy import Noise

SHOWN: Final = 10
MOST_TRIALS: Final = 1000
TRIALS_SEED: Final = 20_262


# Words


@dataclass(frozen=True, eq=False)
class Added:
    """Words that steps add: for each step with one, all its words before, and the added one."""

    step: Longs
    word: Longs

    @classmethod
    def of(cls, searches: Searches) -> Added:
        """Known words of the next text that the text before has not, once each."""
        steps, base = searches.steps, other_word() + 1
        before, after = (_words_of(searches, text) for text in (steps.text, steps.next))
        keys = [np.unique(step * base + word) for step, word in (before, after)]
        new = np.setdiff1d(keys[1], keys[0], assume_unique=True)
        new = new[new % base < other_word()]
        return cls(new // base, new % base)


def _words_of(searches: Searches, texts: Longs) -> tuple[Longs, Longs]:
    """Which of the texts each word belongs to, and the word."""
    lengths = np.diff(searches.offsets)[texts]
    of = np.repeat(np.arange(len(texts)), lengths)
    place = np.arange(len(of)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + searches.offsets[texts][of]
    return of, searches.numbers[place]


@dataclass(frozen=True, eq=False)
class Adding:
    """What a reader knows of words that are added: counts of words and pairs, and what sessions add to each word."""

    counts: WordCounts
    sessions: Pairs | None

    @classmethod
    def public(cls) -> Adding:
        """Public counts alone."""
        return cls(WordCounts.public(), None)

    @classmethod
    def of(cls, searches: Searches) -> Adding:
        """What a log teaches."""
        added, steps = Added.of(searches), searches.steps
        of, word = _words_of(searches, steps.text)
        starts = np.searchsorted(of, added.step), np.searchsorted(of, added.step, side="right")
        lengths = starts[1] - starts[0]
        row = np.repeat(np.arange(len(lengths)), lengths)
        place = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths) + starts[0][row]
        pairs = Pairs.of(word[place], added.word[row], np.ones(len(row)))
        return cls(WordCounts.of(searches), pairs)

    def estimates(self, text: Longs, words: Longs) -> Floats:
        """P(added word) by each estimate, one column each, for sorted words after those of one text."""
        parts = self.counts.after(int(text[-1]), words)
        if self.sessions is None:
            return parts
        tried = (self.sessions.after(int(before), words) for before in text)
        found = [shares for shares in tried if shares is not None]
        by_sessions = sum(found) / len(found) if found else self.counts.shares[words]
        return np.concatenate([parts, by_sessions[:, None]], axis=1)

    def listed(self, text: Longs) -> list[Longs]:
        """Words that pairs or sessions list after a text."""
        found = [self.counts.pairs.followers(int(text[-1]))]
        if self.sessions is not None:
            found += [self.sessions.followers(int(before)) for before in text]
        return found


def added_ranks(readers: list[Adding], texts: list[Longs], word: Longs, half: Longs) -> Floats:
    """The reciprocal rank of each added word among all words that its text has not."""
    frequent = [_most(reader.counts.shares[: other_word()]) for reader in readers]
    choices, parts, meant = [], [], np.zeros(len(word), np.int64)
    for place, text in enumerate(texts):
        listed = (words for reader in readers for words in reader.listed(text))
        words = np.unique(np.concatenate([*frequent, *listed, word[[place]]]))
        words = words[~np.isin(words, text) & (words < other_word())]
        choices.append(np.concatenate([reader.estimates(text, words) for reader in readers], axis=1))
        meant[place] = np.searchsorted(words, word[place])
        parts.append(choices[-1][meant[place]])
    weights = weights_for(np.array(parts), half) if parts else np.zeros((2, 1))
    scores = (choice @ weights[side] for choice, side in zip(choices, half, strict=True))
    return np.array([reciprocal_rank(likely, place) for likely, place in zip(scores, meant.tolist(), strict=True)])


def _most(shares: Floats) -> Longs:
    """The words that are most frequent: beyond them a word that nothing lists is not among the first."""
    return np.argsort(-shares, kind="stable")[: 20 * SHOWN]


def reciprocal_rank(scores: Floats, place: int) -> float:
    """1 / rank of the one at a place, those before it going first among equals; 0 beyond the tenth.

    >>> reciprocal_rank(np.array([0.1, 0.5, 0.1]), 1), reciprocal_rank(np.array([0.1, 0.5, 0.1]), 2)
    (1.0, 0.3333333333333333)
    """
    rank = 1 + int((scores > scores[place]).sum() + (scores[:place] == scores[place]).sum())
    return 1 / rank if rank <= SHOWN else 0.0


# Classes


def class_estimates(searches: Searches | None, classes: Longs) -> Floats:
    """P(next class | class) by each estimate: for each class a row of all classes, for each estimate a last axis."""
    count = class_count(FINE)
    public = np.broadcast_to(public_topics(), (len(classes), count))
    parts = [np.eye(count)[classes], public]
    if searches is not None:
        of_text = searches.class_of_texts(FINE)
        asked = of_text[searches.asked[1]]
        shares = shares_of(asked[asked >= 0], count, public_topics())
        one, other = of_text[searches.steps.text], of_text[searches.steps.next]
        known = (one >= 0) & (other >= 0)
        table = np.bincount(one[known] * count + other[known], minlength=count * count).reshape(count, count)
        sums = table.sum(axis=1, keepdims=True)
        moves = np.where(sums > 0, table / np.maximum(sums, 1), shares)
        parts += [np.broadcast_to(shares, public.shape), moves[classes]]
    return np.stack(parts, axis=2)


def class_ranks(searches: Searches | None, classes: Longs, following: Longs, half: Longs) -> Floats:
    """The reciprocal rank of each next class."""
    distinct, row = np.unique(classes, return_inverse=True)
    estimates = class_estimates(searches, distinct)
    weights = weights_for(estimates[row, following], half)
    scores = [estimates @ weights[side] for side in (0, 1)]
    return np.array([reciprocal_rank(scores[h][r], f) for h, r, f in zip(half, row, following.tolist(), strict=True)])


class NextQuery(JudgedByOthers):
    """MRR@10 of the next query's new words and of its class."""

    key: ClassVar[str] = "next-query"
    title: ClassVar[str] = "What other people ask next"
    task: ClassVar[str] = "query suggestion"

    def judged(self, context: AuditContext) -> Iterator[Judged | LeftOut]:
        """Mean reciprocal ranks of each reader."""
        judging = context.judging
        person, texts, word = judging.once("added words", lambda: _word_trials(judging.judges))
        ranks = (
            judging.once("added words: floor", lambda: _by_words(judging, "floor", person, texts, word)),
            _by_words(judging, "release", person, texts, word),
            judging.once("added words: ceiling", lambda: _by_words(judging, "ceiling", person, texts, word)),
        )
        yield from judging.judge(
            f"{self.title}: words", "next-words",
            "How far up the new words of other people's next query stand among the words that the release suggests: "
            f"mean reciprocal rank among the first {SHOWN}.", f"MRR@{SHOWN}", means(person, *ranks),
        )  # fmt: skip
        person, classes, following = judging.once("next classes", lambda: _class_trials(judging.judges))
        half = halves(person)
        ranks = (
            judging.once("next classes: floor", lambda: class_ranks(None, classes, following, half)),
            class_ranks(judging.released, classes, following, half),
            judging.once("next classes: ceiling", lambda: class_ranks(judging.raw, classes, following, half)),
        )
        yield from judging.judge(
            f"{self.title}: class", "next-class",
            "How far up the class of other people's next query stands among 512 public classes of words, by the "
            f"release's sessions: mean reciprocal rank among the first {SHOWN}.", f"MRR@{SHOWN}", means(person, *ranks),
        )  # fmt: skip


def _by_words(judging: Judging, reader: Reader, person: Longs, texts: list[Longs], word: Longs) -> Floats:
    log = {"floor": None, "release": judging.released, "ceiling": judging.raw}[reader]
    readers = [Adding.public()] if log is None else [Adding.public(), Adding.of(log)]
    return added_ranks(readers, texts, word, halves(person))


def _word_trials(judges: Searches) -> tuple[Longs, list[Longs], Longs]:
    """Person, words of the text before, and added word of each trial."""
    steps, added = judges.steps, Added.of(judges)
    chosen = _some(len(added.step))
    step = added.step[chosen]
    texts = [judges.numbers[judges.offsets[t] : judges.offsets[t + 1]] for t in steps.text[step].tolist()]
    there = np.array([len(text) > 0 for text in texts], np.bool_)
    texts = [text for text in texts if len(text)]
    return steps.person[step][there], texts, added.word[chosen][there]


def _class_trials(judges: Searches) -> tuple[Longs, Longs, Longs]:
    """Person, class and next class of each trial."""
    steps, of_text = judges.steps, judges.class_of_texts(FINE)
    one, other = of_text[steps.text], of_text[steps.next]
    known = np.flatnonzero((one >= 0) & (other >= 0))
    chosen = known[_some(len(known))]
    return steps.person[chosen], one[chosen], other[chosen]


def _some(trials: int) -> Longs:
    order = Noise.seeded(TRIALS_SEED).stream("next query: trials").permutation(trials)
    return np.sort(order[:MOST_TRIALS])

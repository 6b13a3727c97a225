"""Whose pseudonym is this, by what earlier queries mean (sentence vectors)?

A person's past and a pseudonym's records are each the mean of their texts' sentence vectors; a pseudonym is put down to
the nearest person by cosine. That sees through other words for the same thing, and is slow (some 170 texts a second):
it runs only where an encoder is given, on few people with few texts each. The candidates are those people alone, which
makes the attack easier than among everybody, never harder.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt

from queryveil.audit.attacks.interests import Longs
from queryveil.audit.attacks.knowing import Knowing, Targets
from queryveil.audit.context import AuditContext
from queryveil.audit.finding import Found, LeftOut, Question, Success, risk
from queryveil.knowledge.sentences import Encoder

PEOPLE = 300
TEXTS_EACH = 20

Vectors = npt.NDArray[np.float32]


class VectorsByPast:
    """A pseudonym is named by what its records mean."""

    key: ClassVar[str] = "past-vectors"
    title: ClassVar[str] = "Whose pseudonym it is, by what queries mean"
    question: ClassVar[Question] = "linkability"
    counts_toward_risk: ClassVar[bool] = True

    def run(self, context: AuditContext) -> Found:
        """The findings, or what is missing."""
        if context.encoder is None:
            reason = "needs an encoder of sentences, which takes minutes"
            yield LeftOut(title=self.title, reason=reason, by_settings=True)
            return
        missing = context.nothing_to_go_by(self.title)
        if missing is not None:
            yield missing
            return
        knowing = context.knowing
        stream = context.fresh_noise().stream("attack: pseudonyms to name by meaning")
        targets = knowing.pseudonyms_to_name(stream, PEOPLE)
        if len(targets) < 2:
            yield LeftOut(title=self.title, reason="fewer than two released people have a known past")
            return
        right = nearest(knowing, targets, context.encoder) == targets.truth
        yield risk(
            "past-vectors", "Pseudonyms named from the past by what queries mean", "knowing the past", self.question,
            Success(int(right.sum()), len(right)),
            f"Share of pseudonyms that are put down to the right person, of at most {PEOPLE} people who are tried "
            f"alone, by an attacker who knows {knowing.told}: the person with the nearest mean sentence vector, of at "
            f"most {TEXTS_EACH} texts each.",
            chance=1 / len(np.unique(targets.truth)), population="released people whose past is known",
        )  # fmt: skip


def nearest(knowing: Knowing, targets: Targets, encoder: Encoder) -> Longs:
    """The person with the nearest mean vector for each target, of those behind the targets."""
    people = np.unique(targets.truth)
    place = np.full(len(knowing.people), -1, np.int64)
    place[people] = np.arange(len(people))
    known = place[knowing.past_people] >= 0
    sides = (
        (targets.rows, targets.texts, len(targets)),
        (
            place[knowing.past_people[known]],
            knowing.past_texts[known],
            len(people),
        ),
    )
    chosen = [_first_texts(rows, texts) for rows, texts, _ in sides]
    distinct = np.unique(np.concatenate([texts for _, texts in chosen]))
    vectors = encoder.encode(knowing.terms.texts.gather(distinct).to_list())
    shown, past = (
        _means(rows, vectors[np.searchsorted(distinct, texts)], count)
        for (rows, texts), (_, _, count) in zip(chosen, sides, strict=True)
    )
    found: Longs = people[(shown @ past.T).argmax(axis=1)]
    return found


def _first_texts(rows: Longs, texts: Longs) -> tuple[Longs, Longs]:
    """At most so many distinct texts of each row."""
    pairs = np.unique(np.column_stack([rows, texts]), axis=0)
    first = np.flatnonzero(np.r_[True, np.diff(pairs[:, 0]) != 0])
    rank = np.arange(len(pairs)) - np.repeat(first, np.diff(np.r_[first, len(pairs)]))
    kept = pairs[rank < TEXTS_EACH]
    return kept[:, 0], kept[:, 1]


def _means(rows: Longs, vectors: Vectors, count: int) -> Vectors:
    sums = np.zeros((count, vectors.shape[1]), np.float32)
    np.add.at(sums, rows, vectors)
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    return np.asarray(sums / np.where(lengths > 0, lengths, 1), np.float32)

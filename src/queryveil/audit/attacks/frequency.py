"""Rank-frequency matching: what is asked most often is easy to guess, whatever it is called in the release.

*Texts.* Where a release replaces texts, the attacker takes a public log of like people, ranks its texts and the
release's by how often they occur, and reads the i-th of the release as the i-th of the public log. It is judged person
by person: a reading counts where the person behind the pseudonym really asked that text, each of their raw records
counting once. Beside it stands what reading at random by the public log's frequencies gives, judged in the same way.

*People.* The attacker knows how active everybody is and matches the i-th busiest pseudonym with the i-th busiest user.

Cost: sorts.

>>> busiest_first(np.array([3, 1, 2])).tolist()
[0, 2, 1]
>>> by_activity_rank(np.array([0, 0, 0, 1]), np.array([1, 1, 0]), np.array([1, 0]))
Success(right=2, tried=2)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from queryveil.audit.context import AuditContext
from queryveil.audit.finding import (
    Found,
    LeftOut,
    Question,
    Success,
    risk,
)
from queryveil.log.query_log import FIRST_OF_QUERY
from queryveil.privacy.noise import NoiseStream

ENOUGH_READINGS = 100_000
MOST_TURNS = 100

Array = npt.NDArray[np.integer]


@dataclass(frozen=True)
class Readings:
    """How many released records were read right, and the share that reading at random gives."""

    success: Success
    chance: float


def busiest_first(counts: Array) -> Array:
    """Places by falling count; ties stay in order."""
    return np.argsort(-counts, kind="stable")


def read_by_rank(
    raw_people: Array,
    raw_texts: Array,
    released_people: Array,
    released_texts: Array,
    text_count: int,
    *,
    public: npt.NDArray[np.bool_],
    stream: NoiseStream,
) -> Readings:
    """Texts and people are numbers; `public` marks the people whose records the attacker has, who are not judged."""
    in_public = public[raw_people]
    known = np.bincount(raw_texts[in_public], minlength=text_count)
    shown = np.bincount(released_texts, minlength=text_count)
    reading = np.full(text_count, -1, np.int64)
    ranked = min(int((known > 0).sum()), int((shown > 0).sum()))
    reading[busiest_first(shown)[:ranked]] = busiest_first(known)[:ranked]
    judged = (released_people >= 0) & ~public[released_people]
    people, texts = released_people[judged].astype(np.int64), reading[released_texts[judged]]
    asked = raw_people[~in_public], raw_texts[~in_public]
    right = _in_common(*asked, people[texts >= 0], texts[texts >= 0], text_count)
    return Readings(Success(right, len(people)), _by_chance(asked, people, known, stream))


def _by_chance(asked: tuple[Array, Array], people: Array, known: Array, stream: NoiseStream) -> float:
    """What a reader gets who reads each record as a text drawn from the public log, judged as the other one is."""
    total = int(known.sum())
    if not len(people) or not total:
        return 0.0
    turns = max(1, min(MOST_TURNS, ENOUGH_READINGS // len(people)))
    until = np.cumsum(known)
    right = 0
    for _ in range(turns):
        texts = np.searchsorted(until, stream.below(total, len(people)), side="right")
        right += _in_common(*asked, people, texts, len(known))
    return right / (turns * len(people))


def _in_common(people: Array, texts: Array, other_people: Array, other_texts: Array, text_count: int) -> int:
    """Σ over (person, text) of the smaller count of the two sides."""
    ours, counts = np.unique(people.astype(np.int64) * text_count + texts, return_counts=True)
    theirs, other_counts = np.unique(other_people.astype(np.int64) * text_count + other_texts, return_counts=True)
    _, here, there = np.intersect1d(ours, theirs, assume_unique=True, return_indices=True)
    return int(np.minimum(counts[here], other_counts[there]).sum())


def by_activity_rank(raw_people: Array, released_names: Array, person_behind: Array) -> Success:
    """How many pseudonyms are matched with their person; `person_behind` names the person of each pseudonym."""
    names = len(person_behind)
    people = busiest_first(np.bincount(raw_people))
    pseudonyms = busiest_first(np.bincount(released_names, minlength=names))
    ranked = min(len(people), names)
    return Success(int((person_behind[pseudonyms[:ranked]] == people[:ranked]).sum()), names)


class FrequencyMatching:
    """Rank-frequency matching of people by activity, and of texts where the release replaces them."""

    key: ClassVar[str] = "frequency"
    title: ClassVar[str] = "Frequency matching"
    question: ClassVar[Question] = "linkability"
    counts_toward_risk: ClassVar[bool] = True

    def run(self, context: AuditContext) -> Found:
        """The findings, or what is missing."""
        if context.receivers is None:
            yield context.not_attacked(self.title)
            return
        behind = context.people(context.receivers)
        person = np.full(int(context.released_names.max(initial=-1)) + 1, -1, np.int32)
        person[context.released_names] = behind
        if len(person):
            yield risk(
                "people-by-activity", "Pseudonyms matched with people by how active they are", "frequency",
                "linkability", by_activity_rank(_activity(context), context.released_names, person),
                "Share of pseudonyms whose place among all by number of records is that of their person in the raw "
                "log.",
                raw=1.0, chance=1 / len(person),
            )  # fmt: skip
        if not context.declares("replaces_texts"):
            reason = "texts are released as typed: nothing to read"
            yield LeftOut(title="Texts read by their frequency", reason=reason, by_settings=True)
            return
        halves = context.fresh_noise().stream("attack: people of the public log").permutation(len(context.users))
        public = np.zeros(len(context.users), np.bool_)
        public[halves[: len(halves) // 2]] = True
        read = read_by_rank(
            context.original_users, context.original_texts, behind, context.released_texts, len(context.texts),
            public=public, stream=context.fresh_noise().stream("attack: reading at random"),
        )  # fmt: skip
        if read.success.measured:
            yield risk(
                "texts-by-frequency", "Texts read by their frequency", "frequency", "inference", read.success,
                "Share of released records that are read as a text their person really asked, where the i-th most "
                "frequent "
                "text of the release is read as the i-th most frequent of a public log (the other half of the people).",
                raw=1.0, chance=read.chance,
            )  # fmt: skip


def _activity(context: AuditContext) -> npt.NDArray[np.int32]:
    """People, once for each thing they did that a release would show as a record.

    Where a release has one record for a query, however many clicks the raw log has of it, so counts who attacks.
    """
    if not context.declares("one_record_per_query"):
        return context.original_users
    shown = context.original.frame.select(FIRST_OF_QUERY).to_series().to_numpy()
    users: npt.NDArray[np.int32] = context.original_users[shown]
    return users

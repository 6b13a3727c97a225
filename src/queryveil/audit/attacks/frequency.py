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

import numpy as np
import numpy.typing as npt

from queryveil.audit.attacks.released_stream import Success
from queryveil.privacy.noise import Stream

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
    stream: Stream,
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


def _by_chance(asked: tuple[Array, Array], people: Array, known: Array, stream: Stream) -> float:
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

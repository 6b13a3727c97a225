"""Topics: what people who are in neither log ask about, by 512 public classes of words.

Total variation distance between the shares of classes among held-out people's words (each text of a person once) and
among the release's; the public counts give the floor, the raw log the ceiling. An empty release is read as what is
public. How far the topics of the raw log's own people move is told by `topic-profiles`, on the category tree.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from queryveil.arrays import Floats
from queryveil.audit.context import AuditContext
from queryveil.audit.finding import LeftOut
from queryveil.audit.held_out.judgement import Judged, JudgedByOthers, distances, shares_of
from queryveil.audit.held_out.searches import FINE, Searches, class_count, classes
from queryveil.audit.held_out.word_model import WordCounts


def public_topics() -> Floats:
    """The public share of each class."""
    return np.asarray(np.bincount(classes(FINE), WordCounts.public().shares, class_count(FINE)), np.float64)


def topics(searches: Searches) -> Floats:
    """The share of each class among a log's words."""
    return shares_of(classes(FINE)[searches.words.word], class_count(FINE), public_topics())


class Topics(JudgedByOthers):
    """Distance of the shares of classes."""

    key: ClassVar[str] = "topics-others"
    title: ClassVar[str] = "Topics of other people"
    task: ClassVar[str] = "topic profiles"

    def judged(self, context: AuditContext) -> Iterator[Judged | LeftOut]:
        """Distances of each reader."""
        judging = context.judging
        person, _, word = judging.judges.words
        raw = judging.once("raw topics", lambda: topics(judging.raw))
        yield from judging.judge(
            self.title, self.key,
            "How near the shares of 512 public classes of words come to those of other people: total variation "
            "distance.",
            "Distance", distances(person, classes(FINE)[word], public_topics(), topics(judging.released), raw),
            better="lower",
        )  # fmt: skip

"""Language of frequent and of rare queries apart: what a release teaches about the head and about the tail.

Bits per word as in `language`, with the same readers, over two kinds of held-out people's texts: *frequent* ones, which
at least `FREQUENT` people of the raw log asked too, and *rare* ones, which at most one of them did. Few words are in
frequent texts once each person's texts count once, so that `language` speaks of rare ones for the most part.

Cost: as that of `language`, whose estimates are used again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

import numpy as np

from queryveil.arrays import Longs
from queryveil.audit.context import AuditContext
from queryveil.audit.finding import LeftOut
from queryveil.audit.held_out.judgement import Judged, JudgedByOthers, means
from queryveil.audit.held_out.judging import READERS, Judging
from queryveil.audit.measures.language import bits

FREQUENT: Final = 10


class LanguageStrata(JudgedByOthers):
    """Bits per word of frequent and of rare texts."""

    key: ClassVar[str] = "language-strata"
    title: ClassVar[str] = "Language of other people"
    task: ClassVar[str] = "language of head and tail"

    def judged(self, context: AuditContext) -> Iterator[Judged | LeftOut]:
        """Bits per word of each reader, for each kind of text."""
        judging = context.judging
        known = judging.once("people behind the judges' words", lambda: known_people(judging))
        costs = [bits(judging, reader) for reader in READERS]
        for key, kind, told, chosen in (
            (
                "language-head",
                "frequent queries",
                f"at least {FREQUENT} people",
                known >= FREQUENT,
            ),
            ("language-tail", "rare queries", "at most one person", known <= 1),
        ):
            title = f"{self.title}: {kind}"
            if not chosen.any():
                yield LeftOut(title=title, reason=f"nobody who was kept aside asked {kind}")
                continue
            yield from judging.judge(
                title, key,
                f"As the language of all queries, for those that {told} of the raw log asked.",
                "Bits per word",
                means(judging.judges.words.person[chosen], *(cost[chosen] for cost in costs)), better="lower",
            )  # fmt: skip


def known_people(judging: Judging) -> Longs:
    """How many people of the raw log asked the text of each of the judges' words."""
    judges, raw = judging.judges, judging.raw
    people = np.bincount(raw.asked[1], minlength=len(raw.names))
    place = np.minimum(raw.names.search_sorted(judges.names).to_numpy(), max(len(raw.names) - 1, 0))
    same = (raw.names.gather(place) == judges.names).to_numpy() if len(raw.names) else np.zeros(len(judges.names), bool)
    of_text = np.where(same, people[place] if len(people) else 0, 0)
    text = judges.asked[1]
    found: Longs = of_text[text[judges.words_of(text)[0]]]
    return found

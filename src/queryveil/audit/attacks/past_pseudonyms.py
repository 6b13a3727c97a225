"""Whose pseudonym is this, for somebody who knows what people asked before?

Every pseudonym is put down to the person of the past whom its records fit best, of everybody: by TF-IDF over words, by
the likelihood of words and whole texts, and by the likelihood of categories (`interests.py`). The attacker knows no
more of the release than its recipient. Beside each figure stand the same attack on the raw log's later records under
one name for each person, and chance.

Cost: what the lists of the inverted index take; one number for each person of memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from queryveil.audit.attacks.interests import Likelihood, Scores, Table, TfIdf
from queryveil.audit.attacks.knowing import BUSY_PEOPLE, POPULATION, Knowing, Targets
from queryveil.audit.context import AuditContext
from queryveil.audit.finding import ENOUGH_TRIALS, Found, LeftOut, Question, Success, risk

NOBODYS_PAST = "nobody who is in the release is in what the attacker knows"


class PseudonymsByPast:
    """A pseudonym is named by how people searched before."""

    key: ClassVar[str] = "past-pseudonyms"
    title: ClassVar[str] = "Whose pseudonym it is, known from the past"
    question: ClassVar[Question] = "linkability"
    counts_toward_risk: ClassVar[bool] = True

    def run(self, context: AuditContext) -> Found:
        """The findings, or what is missing."""
        missing = context.nothing_to_go_by(self.title)
        if missing is not None:
            yield missing
            return
        knowing = context.knowing
        stream = context.fresh_noise().stream("attack: pseudonyms to name")
        targets, raw = knowing.pseudonyms_to_name(stream), knowing.people_to_name(stream)
        if not len(targets):
            yield LeftOut(title=self.title, reason=NOBODYS_PAST)
            return
        ways: dict[str, tuple[str, Callable[[], Scores], Callable[[Targets], Table]]] = {
            "words": ("words (TF-IDF)", lambda: TfIdf(knowing.past_by_words), knowing.by_words),
            "likelihood": ("words and texts (likelihood)", lambda: Likelihood(knowing.past_by_texts), knowing.by_texts),
            "categories": ("categories", lambda: Likelihood(knowing.past_by_categories), knowing.by_categories),
        }
        for way, (told, scores, described) in ways.items():
            index = scores()
            right, on_raw = (
                index.best(described(those), stream.uniform(len(those))) == those.truth for those in (targets, raw)
            )
            yield from named(
                f"past-pseudonyms-{way}", f"by {told}", f"the person whose earlier {told} fit best", knowing,
                (targets, right), (raw, on_raw),
            )  # fmt: skip


Judged = tuple[Targets, npt.NDArray[np.bool_]]


def named(key: str, by: str, guess: str, knowing: Knowing, released: Judged, raw: Judged | None = None) -> Found:
    """Findings of how many pseudonyms got their person: of everybody, and of busy people where there are enough."""
    targets, right = released
    by_chance = knowing.chance_of_rows(targets)
    for suffix, who, population, of in (
        ("", "Pseudonyms", POPULATION, lambda these: np.ones(len(these), np.bool_)),
        ("-busy", "Pseudonyms of busy people", BUSY_PEOPLE, knowing.busy),
    ):
        chosen = of(targets)
        tried = Success(int(right[chosen].sum()), int(chosen.sum()))
        if suffix and (tried.tried < ENOUGH_TRIALS or tried.tried == len(targets)):
            continue
        same = None if raw is None else raw[1][of(raw[0])]
        yield risk(
            f"{key}{suffix}", f"{who} named from the past {by}", "knowing the past", "linkability", tried,
            f"Share of pseudonyms that are put down to the right person, of everybody, by an attacker who knows "
            f"{knowing.told}: {guess}.",
            raw=float(same.mean()) if same is not None and len(same) else None,
            chance=max(float(by_chance[chosen].mean()), 1 / len(knowing.people)), population=population,
            detail=f"{len(knowing.people):,} candidates.",
        )  # fmt: skip

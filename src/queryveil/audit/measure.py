"""What a measure of utility is, and where measures are found.

A measure is one class in one file: what it computes, and the findings it makes of a release for a task. Those of third
parties join through the entry-point group `queryveil.measures`; what every measure has to pass is
`queryveil.testing.audits.check_measure`.

>>> tasks()[:2]
['topic profiles', 'query frequency']
"""

from __future__ import annotations

from typing import ClassVar, Final, Protocol

from queryveil.audit.attack import load_parts
from queryveil.audit.context import AuditContext
from queryveil.audit.finding import Found

ENTRY_POINTS: Final = "queryveil.measures"
BUILT_IN: Final = (
    "profile:TopicProfiles",
    "clicks:FrequentQueries",
    "categories:CategoryDistance",
    "contents:WhatIsReceived",
    "volume:LogVolume",
    "suggestion:Suggestion",
    "retrieval:Retrieval",
    "language:Language",
    "language_strata:LanguageStrata",
    "autocomplete:Autocomplete",
    "next_query:NextQuery",
    "head:HeadQueries",
    "topics:Topics",
    "shape:Shape",
    "hosts:HostsClicked",
)
"""In the order of the report."""


class Measure(Protocol):
    """How good a release is for a task, beside the raw log.

    It may declare `needs_collection` (False): that it measures nothing without a collection of documents, and
    `needs_held_out` (False): nothing without people whom the mechanism never saw (`held_out.judgement`);
    `counts_in_blocks` (False) is what it is for an `Attack`.
    """

    key: ClassVar[str]
    title: ClassVar[str]
    task: ClassVar[str]

    def run(self, context: AuditContext) -> Found:
        """Its findings, or what was left out and what that would need."""


def measures() -> list[Measure]:
    """Every measure: ours in the order of the report, then third parties' by name."""
    return load_parts("queryveil.audit.measures", BUILT_IN, ENTRY_POINTS)


def tasks(*, collection: bool = False) -> list[str]:
    """The tasks that there are measures for, with a collection of documents at hand or without."""
    usable = [measure for measure in measures() if collection or not getattr(measure, "needs_collection", False)]
    return list(dict.fromkeys(measure.task for measure in usable))

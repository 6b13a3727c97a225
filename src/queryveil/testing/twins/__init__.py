"""Broken twins: mechanisms that look right, promise what the real ones promise, and do something wrong.

An audit is worth what it rejects. `TWINS` lists, for each mechanism, wrong variants with the finding that gives each
away; the tests run the audit on every one of them and on the real mechanisms, on `telltale_log()`, which holds what the
faults would let out. docs/audit.md shows the same list. Whoever writes an audit of their own can try it on these.

More twins, of parts that a release does not show (draws, thresholds, snapshots, budgets), are in tests/broken_twins,
each rejected by an exact test.

>>> sorted({twin.mechanism for twin in TWINS}), len(TWINS) >= 15
(['distill', 'microaggregate', 'sanitize', 'semantic', 'stream', 'suppress'], True)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from queryveil.release.mechanism import Mechanism
from queryveil.testing.twins.distill import TablesWithTooLittleNoise, TextsInsteadOfPeople, TextsWithoutAThreshold
from queryveil.testing.twins.microaggregate import (
    GroupsByUserId,
    GroupsOneShort,
    GroupsWithoutQuotas,
    GroupsWithOwnLabels,
    GroupsWithRareTexts,
    GroupsWithUnlikeCopies,
)
from queryveil.testing.twins.sanitize import (
    ClicksInsteadOfPeople,
    ClicksWithALowThreshold,
    ClicksWithHalfTheNoise,
    ClicksWithoutABound,
    SearchesInsteadOfPeople,
    WeightsWithoutAThreshold,
    WeightsWithTooLittleNoise,
)
from queryveil.testing.twins.semantic import (
    SemanticDrawingForEveryClick,
    SemanticDroppingTheUnmapped,
    SemanticKeepingWords,
    SemanticWithoutTheSplit,
    SemanticWithTwiceEpsilon,
)
from queryveil.testing.twins.stream import (
    StreamAsPrinted,
    StreamInOrderOfArrival,
    StreamUnderOwnNames,
    StreamWithoutAGate,
    StreamWithSmallPools,
)
from queryveil.testing.twins.suppress import (
    SuppressAsPrinted,
    SuppressCountingRecords,
    SuppressKeepingClicks,
    SuppressOffByOne,
    SuppressWithHashedNames,
    SuppressWithTellingRanks,
    SuppressWithTimes,
)
from queryveil.testing.twins.telltale import telltale_log

__all__ = [
    "TWINS",
    "ClicksInsteadOfPeople",
    "ClicksWithALowThreshold",
    "ClicksWithHalfTheNoise",
    "ClicksWithoutABound",
    "GroupsByUserId",
    "GroupsOneShort",
    "GroupsWithOwnLabels",
    "GroupsWithRareTexts",
    "GroupsWithUnlikeCopies",
    "GroupsWithoutQuotas",
    "SearchesInsteadOfPeople",
    "SemanticDrawingForEveryClick",
    "SemanticDroppingTheUnmapped",
    "SemanticKeepingWords",
    "SemanticWithTwiceEpsilon",
    "SemanticWithoutTheSplit",
    "StreamAsPrinted",
    "StreamInOrderOfArrival",
    "StreamUnderOwnNames",
    "StreamWithSmallPools",
    "StreamWithoutAGate",
    "SuppressAsPrinted",
    "SuppressCountingRecords",
    "SuppressKeepingClicks",
    "SuppressOffByOne",
    "SuppressWithHashedNames",
    "SuppressWithTellingRanks",
    "SuppressWithTimes",
    "TablesWithTooLittleNoise",
    "TextsInsteadOfPeople",
    "TextsWithoutAThreshold",
    "Twin",
    "WeightsWithTooLittleNoise",
    "WeightsWithoutAThreshold",
    "telltale_log",
]


@dataclass(frozen=True)
class Twin:
    """A wrong variant of a mechanism, and the finding that an audit rejects it by."""

    kind: type[Any]
    parameters: Mapping[str, Any]
    caught_by: str

    @property
    def mechanism(self) -> str:
        """The name of the mechanism it claims to be."""
        name: str = self.kind.name
        return name

    @property
    def fault(self) -> str:
        """What is wrong with it."""
        return str(self.kind.__doc__).strip()

    def create(self) -> Mechanism:
        """The wrong variant."""
        wrong: Mechanism = self.kind(**self.parameters)
        return wrong

    def real(self) -> Mechanism:
        """The mechanism it claims to be, with the same parameters."""
        right: Mechanism = self.kind.__bases__[0](**self.parameters)
        return right


SUPPRESS: Final = {"k_text": 5}
MICROAGGREGATE: Final = {"k": 3, "k_text": 5}
SANITIZE: Final = {"epsilon": 1.0, "selection": "capped", "contribution": 1}
WEIGHTED: Final = {"epsilon": 1.0}
DISTILL: Final = {"epsilon": 1.0, "users": 20}
SEMANTIC: Final = {"epsilon": 1.0, "per": "query", "domain": "contact_sport", "criterion": "nsqc"}
SEMANTIC_PER_USER: Final = SEMANTIC | {"per": "user", "max_queries": 5}
STREAM: Final = {"k": 10, "depth": 1, "k_text": 5}

TWINS: Final = (
    Twin(SuppressOffByOne, SUPPRESS, "rare-texts"),
    Twin(SuppressCountingRecords, SUPPRESS, "rare-texts"),
    Twin(SuppressAsPrinted, SUPPRESS, "identifiers"),
    Twin(SuppressKeepingClicks, SUPPRESS, "rare-clicks"),
    Twin(SuppressWithTimes, SUPPRESS, "columns-left"),
    Twin(SuppressWithTellingRanks, SUPPRESS, "rare-ranks"),
    Twin(SuppressWithHashedNames, SUPPRESS, "pseudonym-hash"),
    Twin(GroupsOneShort, MICROAGGREGATE, "shared-logs"),
    Twin(GroupsWithUnlikeCopies, MICROAGGREGATE, "shared-logs"),
    Twin(GroupsWithoutQuotas, MICROAGGREGATE, "author-by-activity"),
    Twin(GroupsWithRareTexts, MICROAGGREGATE, "rare-texts"),
    Twin(GroupsWithOwnLabels, MICROAGGREGATE, "rare-texts-rewritten"),
    Twin(GroupsByUserId, MICROAGGREGATE, "groups-by-id"),
    Twin(ClicksWithHalfTheNoise, SANITIZE, "one-run"),
    Twin(ClicksWithALowThreshold, SANITIZE, "one-run"),
    Twin(ClicksInsteadOfPeople, SANITIZE, "one-run"),
    Twin(ClicksWithoutABound, SANITIZE, "one-run"),
    Twin(WeightsWithTooLittleNoise, WEIGHTED, "one-run"),
    Twin(SearchesInsteadOfPeople, WEIGHTED, "one-run"),
    Twin(WeightsWithoutAThreshold, WEIGHTED, "one-run"),
    Twin(TablesWithTooLittleNoise, DISTILL, "one-run"),
    Twin(TextsInsteadOfPeople, DISTILL, "one-run"),
    Twin(TextsWithoutAThreshold, DISTILL, "one-run"),
    Twin(SemanticWithTwiceEpsilon, SEMANTIC, "one-run"),
    Twin(SemanticDroppingTheUnmapped, SEMANTIC, "one-run"),
    Twin(SemanticKeepingWords, SEMANTIC, "one-run"),
    Twin(SemanticWithoutTheSplit, SEMANTIC_PER_USER, "one-run"),
    Twin(SemanticDrawingForEveryClick, SEMANTIC, "one-run"),
    Twin(StreamWithSmallPools, STREAM, "author-by-name"),
    Twin(StreamWithoutAGate, STREAM, "rare-texts"),
    Twin(StreamUnderOwnNames, STREAM, "author-by-name"),
    Twin(StreamAsPrinted, STREAM, "repeats-eligible"),
    Twin(StreamInOrderOfArrival, STREAM, "order-told"),
)
"""Every twin that an audit must reject."""

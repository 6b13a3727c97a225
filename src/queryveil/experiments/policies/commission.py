"""The draft measures of April 2026 for Article 6(11) of the Digital Markets Act (case DMA.100209), as reported.

As publicly described: account, device and address identifiers go; a query is split into entities, with detectors that
resolve them to a standard form, and is kept only if each of its entities is used by enough people; the length of a
query is limited; place, device, language and time are generalised until every combination has enough people; sessions
are cut into mini-sessions. It is published daily, and recipients keep it for 13 months, which no release here can show.

We have read reports and not the measures. How many people an entity needs, how long a query may be and how long a
mini-session is are assumed, and so is the order in which metadata are generalised. Clicked and shown
results are kept with their query. Names of people are found where
libraries look for them, and then only frequent ones: other names pass where each of their words is common.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Literal

from queryveil.checks import require, whole_number
from queryveil.experiments.policies.policy import ASSUMED, FilteringPipeline
from queryveil.experiments.policies.steps import Step, allowlist, cut_sessions, generalise, limit
from queryveil.log.query_log import METADATA
from queryveil.log.shown import SHOWN


@dataclass(frozen=True, kw_only=True)
class Commission(FilteringPipeline):
    """Keep queries made of entities that many people used, in mini-sessions, with coarse metadata."""

    name: ClassVar[str] = "commission"
    title: ClassVar[str] = "Allowlist of entities, mini-sessions (draft measures of April 2026, as reported)"
    summary: ClassVar[str] = "Queries whose every part many people used, a few records at a time."
    origin: ClassVar[str] = (
        "our reading of the European Commission's draft measures of April 2026 on Article 6(11) of the "
        "Digital Markets Act (case DMA.100209), as publicly reported"
    )
    named: ClassVar[Literal["person", "mini-session", "record"]] = "mini-session"
    reads_columns: ClassVar[tuple[str, ...]] = (*METADATA, SHOWN)

    people_per_entity: int = field(
        default=50, metadata={**ASSUMED, "help": "how many people must have used each part of a query (assumed)"}
    )
    words_per_query: int = field(default=5, metadata={**ASSUMED, "help": "the longest query, in words (assumed)"})
    people_per_group: int = field(
        default=1000, metadata={"help": "how many people must share a combination of metadata"}
    )
    records_per_session: int = field(
        default=3, metadata={**ASSUMED, "help": "the longest mini-session, in records (assumed)"}
    )

    def __post_init__(self) -> None:
        require(
            whole_number("people_per_entity", self.people_per_entity, at_least=1, at_most=10**9, suggest=50),
            whole_number("words_per_query", self.words_per_query, at_least=1, at_most=10**6, suggest=5),
            whole_number("people_per_group", self.people_per_group, at_least=1, at_most=10**9, suggest=1000),
            whole_number("records_per_session", self.records_per_session, at_least=1, at_most=10**6, suggest=3),
            *self.filter_problems(),
        )

    def in_words(self) -> str:
        """The rule in one sentence."""
        return (
            f"queries of at most {self.value('words_per_query')} words each of whose entities at least "
            f"{self.value('people_per_entity')} people used, in mini-sessions of at most "
            f"{self.value('records_per_session')} records, with metadata that at least "
            f"{self.value('people_per_group')} people share"
        )

    def steps(self) -> dict[str, Step]:
        """See `Pipeline`."""
        return {
            "limit": partial(limit, words=self.words_per_query),
            "detect, resolve, allowlist": partial(allowlist, people=self.people_per_entity, detectors=self.filters()),
            "cut into mini-sessions": partial(cut_sessions, records=self.records_per_session),
            "generalise": partial(generalise, people=self.people_per_group),
        }

    def columns(self) -> dict[str, str]:
        """See `Pipeline`."""
        kept = f"kept where all its entities have at least {self.people_per_entity} people"
        coarse = f"generalised until {self.people_per_group} people share the combination"
        with_query = "kept with its query"
        return {
            "query": kept,
            "time": coarse,
            **dict.fromkeys(("rank", "url", SHOWN), with_query),
            **dict.fromkeys(METADATA, coarse),
        }

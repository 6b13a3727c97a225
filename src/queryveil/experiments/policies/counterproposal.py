"""A counterproposal, as publicly described: pseudonymous users, times rounded to 24 hours, filters for personal data.

Two more of its filters are not described in what we read and are left out here, which makes it look weaker than it may
be. Its authors report that fewer than 5 % of distinct queries are lost. Pseudonyms last as long as the log does: for
how long they last in the proposal is assumed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, Literal

from queryveil.checks import require, whole_number
from queryveil.experiments.policies.policy import FilteringPipeline
from queryveil.experiments.policies.steps import Step, round_times, without_identifiers
from queryveil.log.shown import SHOWN


@dataclass(frozen=True, kw_only=True)
class Counterproposal(FilteringPipeline):
    """Rename people, round times, and leave out texts in which a filter finds personal data."""

    name: ClassVar[str] = "counterproposal"
    title: ClassVar[str] = "Pseudonyms, rounded times and filters (a counterproposal, as reported)"
    summary: ClassVar[str] = "Everything but what filters for mail, numbers and addresses find."
    origin: ClassVar[str] = (
        "our reading of a proposal made against the draft measures, as publicly reported; two of its "
        "filters are not described publicly"
    )
    named: ClassVar[Literal["person", "mini-session", "record"]] = "person"
    reads_columns: ClassVar[tuple[str, ...]] = (SHOWN,)

    hours: int = field(default=24, metadata={"help": "what times are rounded to, in hours"})

    def __post_init__(self) -> None:
        require(
            whole_number("hours", self.hours, at_least=1, at_most=24 * 365, suggest=24),
            *self.filter_problems(),
        )

    @property
    def time(self) -> str:
        """That there are times in the release, for formats that need some."""
        return "day"

    def in_words(self) -> str:
        """The rule in one sentence."""
        return (
            f"all queries in which no filter for mail, numbers and addresses finds anything, under pseudonyms that "
            f"last (assumed), with times rounded to {self.hours} hours; two more filters are not described publicly "
            "and left out"
        )

    def steps(self) -> dict[str, Step]:
        """See `Pipeline`."""
        return {
            "detect": partial(without_identifiers, detectors=self.filters()),
            "round times": partial(round_times, hours=self.hours),
        }

    def columns(self) -> dict[str, str]:
        """See `Pipeline`."""
        kept = "kept where no filter finds personal data"
        with_query = "kept with its query"
        rounded = f"rounded to {self.hours} hours"
        return {"query": kept, "time": rounded, **dict.fromkeys(("rank", "url", SHOWN), with_query)}

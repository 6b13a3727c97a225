"""What search consoles show: texts that "a few dozen" users asked in two to three months; the numbers are assumed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import polars as pl

from queryveil.checks import require, whole_number
from queryveil.experiments.policies.policy import ASSUMED, Pipeline
from queryveil.experiments.policies.steps import Step, shared_in_window


@dataclass(frozen=True, kw_only=True)
class Console(Pipeline):
    """Tell how often texts were asked that many people asked in the last months.

    >>> from queryveil import Noise, QueryLog
    >>> log = QueryLog.of([("ann", "weather"), ("bob", "weather"), ("ann", "my rash"), ("ann", "my rash")])
    >>> Console(users=2).protect(log, Noise.seeded(1)).log.queries()
    ['weather', 'weather']
    """

    name: ClassVar[str] = "console"
    title: ClassVar[str] = "A few dozen users in three months, as search consoles show"
    summary: ClassVar[str] = "Counts of texts that a few dozen people asked within months."
    origin: ClassVar[str] = "what consoles for owners of web sites show, as far as it is described"

    users: int = field(default=36, metadata={**ASSUMED, "help": "how many people must have asked a text (assumed)"})
    days: int = field(default=90, metadata={**ASSUMED, "help": "within how many days (assumed)"})
    every: int | None = field(
        default=None, metadata={"help": "the length of a period in days; as long as the window where not given"}
    )

    def __post_init__(self) -> None:
        require(
            whole_number("users", self.users, at_least=1, at_most=10**9, suggest=36),
            whole_number("days", self.days, at_least=1, at_most=100_000, suggest=90),
            whole_number("every", self.every, at_least=1, at_most=100_000, suggest=90, optional=True),
        )

    def in_words(self) -> str:
        """The rule in one sentence."""
        decided = "" if self.every is None else f", decided every {self.every} days"
        return f"texts that at least {self.value('users')} users asked within {self.value('days')} days{decided}"

    def steps(self) -> dict[str, Step]:
        """See `Pipeline`."""
        return {"texts of the window": self._of_the_window}

    def _of_the_window(self, rows: pl.DataFrame) -> pl.DataFrame:
        return shared_in_window(rows, "query", users=self.users, days=self.days, every=self.every)

    def columns(self) -> dict[str, str]:
        """See `Pipeline`."""
        return {"query": f"kept where {self.users} users asked it in {self.days} days"}

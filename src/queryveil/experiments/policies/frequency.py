"""The plainest rule: a text is told if at least k people asked it, ever."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import polars as pl

from queryveil.checks import require, whole_number
from queryveil.experiments.policies.policy import Pipeline
from queryveil.experiments.policies.steps import Step, shared


@dataclass(frozen=True, kw_only=True)
class Frequency(Pipeline):
    """Tell how often texts were asked that at least `k` people asked."""

    name: ClassVar[str] = "frequency"
    title: ClassVar[str] = "Texts that k people asked"
    summary: ClassVar[str] = "Counts of texts that some people asked."
    origin: ClassVar[str] = "nobody's rule: a plain threshold, to compare with"

    k: int = field(
        default=10,
        metadata={"help": "how many people must have asked a text", "shown": "texts of at least {} people"},
    )

    def __post_init__(self) -> None:
        require(whole_number("k", self.k, at_least=1, at_most=10**9, suggest=10))

    def in_words(self) -> str:
        """The rule in one sentence."""
        return f"texts that at least {self.k} users asked"

    def steps(self) -> dict[str, Step]:
        """See `Pipeline`."""
        return {"texts of k users": self._of_enough_users}

    def _of_enough_users(self, rows: pl.DataFrame) -> pl.DataFrame:
        return shared(rows, "query", users=self.k)

    def columns(self) -> dict[str, str]:
        """See `Pipeline`."""
        return {"query": f"kept where {self.k} users asked it"}

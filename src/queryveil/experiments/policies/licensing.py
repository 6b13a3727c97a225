"""A gatekeeper's licensing programme for search data, as publicly described: texts of 30 signed-in users in 13 months.

A row (query, result, device, country) is published only with at least 5 users in the quarter. A reported estimate says
that more than 99 % of distinct queries and 42 % of the volume are lost. Everybody counts as signed in here, which
flatters the rule.

A log that tells which results were shown has a row for each of them, whose users are those to whom it was shown: the
results of rarer rows go, and a record with them where it has no other or where what was clicked is among them. Whether
the programme counts those who saw a result or those who clicked it is not known: the first is assumed.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import polars as pl

from queryveil.checks import require, whole_number
from queryveil.experiments.policies.policy import Pipeline
from queryveil.experiments.policies.steps import Step, shared_in_window
from queryveil.log.shown import SHOWN, results

ROW = ("query", "url", "device", "country")


@dataclass(frozen=True, kw_only=True)
class Licensing(Pipeline):
    """Tell how often rows were asked whose text many people asked within a year, and a few in the quarter."""

    name: ClassVar[str] = "licensing"
    title: ClassVar[str] = "30 signed-in users in 13 months, rows of 5 in the quarter"
    summary: ClassVar[str] = "Counts of queries and clicks that many people asked within a year."
    origin: ClassVar[str] = (
        "our reading of the terms on which a search engine licenses its data under that article, as publicly reported"
    )
    reads_columns: ClassVar[tuple[str, ...]] = ("device", "country", SHOWN)

    users: int = field(default=30, metadata={"help": "how many people must have asked a text"})
    days: int = field(default=396, metadata={"help": "within how many days: 13 months"})
    users_per_row: int = field(default=5, metadata={"help": "how many people a row must have in the quarter"})
    every: int = field(default=91, metadata={"help": "the length of a quarter in days"})

    def __post_init__(self) -> None:
        require(
            whole_number("users", self.users, at_least=1, at_most=10**9, suggest=30),
            whole_number("days", self.days, at_least=1, at_most=100_000, suggest=396),
            whole_number("users_per_row", self.users_per_row, at_least=1, at_most=10**9, suggest=5),
            whole_number("every", self.every, at_least=1, at_most=100_000, suggest=91),
        )

    def in_words(self) -> str:
        """The rule in one sentence."""
        return (
            f"texts that at least {self.users} users asked within {self.days} days, decided every {self.every} days, "
            f"and of these the rows (query, result, device, country) with at least {self.users_per_row} users"
        )

    def steps(self) -> dict[str, Step]:
        """See `Pipeline`."""
        return {"texts of the year": self._of_the_year, "rows of the quarter": self._of_the_quarter}

    def _of_the_year(self, rows: pl.DataFrame) -> pl.DataFrame:
        return shared_in_window(rows, "query", users=self.users, days=self.days, every=self.every)

    def _of_the_quarter(self, rows: pl.DataFrame) -> pl.DataFrame:
        columns = [name for name in ROW if name in rows.columns]
        if SHOWN not in rows.columns:
            return shared_in_window(rows, *columns, users=self.users_per_row, days=self.every)
        return self._shown_in_the_quarter(rows.with_row_index("__row"), columns).drop("__row")

    def _shown_in_the_quarter(self, rows: pl.DataFrame, columns: list[str]) -> pl.DataFrame:
        shown = rows.with_columns(result=results(rows[SHOWN]), listed=True).explode("result").drop_nulls("result")
        clicked = rows.with_columns(result="url", listed=False)
        # Nothing clicked is a row of its own only where nothing was shown.
        clicked = clicked.filter(
            pl.col("url").is_not_null() | ~pl.col("__row").is_in(shown["__row"].unique().implode())
        )
        columns = ["result" if name == "url" else name for name in columns]
        kept = shared_in_window(pl.concat([shown, clicked]), *columns, users=self.users_per_row, days=self.every)
        told = kept.group_by("__row").agg(
            pl.col("result").filter("listed"), pl.col("listed").not_().any().alias("click")
        )
        left = rows.join(told, on="__row", maintain_order="left").filter(pl.col("url").is_null() | pl.col("click"))
        return left.with_columns(pl.when(pl.col(SHOWN).is_not_null()).then("result").alias(SHOWN)).select(rows.columns)

    def columns(self) -> dict[str, str]:
        """See `Pipeline`."""
        row = f"kept in rows of at least {self.users_per_row} users in {self.every} days"
        query = f"kept where {self.users} users asked it in {self.days} days"
        return {"query": query, **dict.fromkeys((*ROW[1:], SHOWN), row)}

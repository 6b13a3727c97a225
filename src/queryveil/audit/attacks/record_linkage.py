"""Who wrote a released record? The two simplest guesses of somebody who knows whom each pseudonym stands for.

*By name*: its author is the person behind the pseudonym it carries. That is always right where a release only renames
users, and right for one in k + 1 where a record got the name of anybody in a pool.

*By activity*, for logs that several people share: its author is the most active person of those behind that log, since
the busiest supplies most where nothing holds them back.

Cost: one grouping.

>>> owners, receivers = pl.Series(["ann", "bob", "ann"]), pl.Series(["ann", "ann", "bob"])
>>> by_name(owners, receivers)
Success(right=1, tried=3)
"""

from __future__ import annotations

from typing import ClassVar

import polars as pl

from queryveil.audit.attacks.groups import logs_of
from queryveil.audit.context import AuditContext
from queryveil.audit.finding import (
    Found,
    Question,
    Success,
    risk,
)
from queryveil.log import QueryLog


def by_name(owners: pl.Series, receivers: pl.Series) -> Success:
    """How many records were written by the person whose pseudonym they carry; where both are known."""
    same = (owners == receivers).drop_nulls()
    return Success(int(same.sum()), len(same))


def by_activity(original: QueryLog, released: QueryLog, owners: pl.Series, receivers: pl.Series) -> Success:
    """How many records were written by the most active of those who share the log; ties go to the first name."""
    activity = original.frame.group_by("user").len("records")
    records = released.frame.select("user", "query").with_columns(owners.alias("owner"), receivers.alias("receiver"))
    behind = records.group_by("user").agg(pl.col("receiver").drop_nulls().first())
    logs = logs_of(records.select("user", "query")).join(behind, on="user")
    busiest = (
        logs.join(activity, left_on="receiver", right_on="user", how="left")
        .sort("receiver")
        .group_by("log")
        .agg(pl.col("receiver").get(pl.col("records").fill_null(0).arg_max()).alias("guess"))
    )
    guesses = logs.join(busiest, on="log").select("user", "guess")
    judged = records.join(guesses, on="user").select(pl.col("guess") == pl.col("owner")).to_series().drop_nulls()
    return Success(int(judged.sum()), len(judged))


class RecordLinkage:
    """A0 without a pool: the author is the one behind the pseudonym, or the busiest of those behind the log."""

    key: ClassVar[str] = "record-linkage"
    title: ClassVar[str] = "Who wrote a record"
    question: ClassVar[Question] = "linkability"
    counts_toward_risk: ClassVar[bool] = False

    def run(self, context: AuditContext) -> Found:
        """The findings, or what is missing."""
        if context.owners is None or context.receivers is None:
            yield context.not_attacked(self.title)
            return
        k = context.promised_k("k-anonymity", "probabilistic-k-anonymity")
        chance = 1 / max(len(context.users), 1)
        yield risk(
            "author-by-name", "Author guessed by the name on the record", "record linkage", "linkability",
            by_name(context.owners, context.receivers),
            "Share of released records that were written by the person whose pseudonym they carry: what somebody is "
            "right "
            "about who found out whom a pseudonym stands for and takes its records at their word.",
            raw=1.0, chance=chance, bound=None if k is None else 1 / k,
        )  # fmt: skip
        if context.promised_k("k-anonymity") is not None:
            yield risk(
                "author-by-activity", "Author guessed as the busiest of the group", "record linkage",
                "linkability",
                by_activity(context.original, context.released, context.owners, context.receivers),
                "Share of released records written by the most active of the people who share the log.",
                raw=1.0, chance=chance, bound=1 / k if k is not None and context.safe else None,
            )  # fmt: skip

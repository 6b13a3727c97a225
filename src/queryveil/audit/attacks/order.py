"""What order tells: records that lie as they came, and groups of people whose ids are neighbours.

*Order of records*: two records that lie side by side under one pseudonym and one published time, or under one published
time where the log is not sorted by pseudonyms, should lie in either order as often. Each pair is a trial: the attacker
takes the first to have been asked first. Records are found in the raw log where their author asked the text once.

*Order of ids*: where people share logs, somebody who knows the ids guesses that a person shares with the one whose id
comes next (as text, and by length first, which sorts numbers). Ids are never to be interpreted, so this should succeed
no more often than the promise allows anybody to be told apart from k.

Cost: sorts.

>>> shared_with_next(pl.Series(["a1", "a2", "a3", "a4"]), pl.Series(["x", "x", "y", "y"]))
Success(right=2, tried=3)
"""

from __future__ import annotations

from typing import ClassVar

import polars as pl

from queryveil.audit.attacks.groups import logs_of
from queryveil.audit.context import AuditContext
from queryveil.audit.finding import Found, LeftOut, Question, Success, risk

SURE = 1 - 1e-4
"""Of the intervals that are held against a bound: honest releases are at the bound, and must not break it by chance."""


def in_order_asked(asked: pl.DataFrame, shown: pl.DataFrame) -> Success:
    """How often the first of two records side by side was asked first; both have `user`, `query`, in their order.

    `shown` has also `name` and `time` as published; `user` is who asked.
    """
    once = asked.with_row_index("place").group_by("user", "query").agg(pl.len(), pl.col("place").first())
    once = once.filter(pl.col("len") == 1).drop("len")
    placed = shown.join(once, on=["user", "query"], how="left", maintain_order="left")
    by_name = placed["name"].is_sorted() or placed["name"].is_sorted(descending=True)
    alike = ["name", "time"] if by_name else ["time"]
    same = pl.all_horizontal(pl.col(name).eq_missing(pl.col(name).shift(-1)) for name in alike)
    pairs = placed.select(same.alias("same"), (pl.col("place").shift(-1) > pl.col("place")).alias("later"))
    later = pairs.filter(pl.col("same"))["later"].drop_nulls()
    return Success(int(later.sum()), len(later))


def shared_with_next(people: pl.Series, logs: pl.Series) -> Success:
    """How many people share the log of the one whose id comes next, in the order in which more do."""
    frame = pl.DataFrame([people.alias("id"), logs.alias("log")])
    orders = [frame.sort("id"), frame.sort(pl.col("id").str.len_chars(), "id")]
    return Success(max(int((one["log"] == one["log"].shift(-1)).sum()) for one in orders), max(frame.height - 1, 0))


class WhatOrderTells:
    """Records in the order in which they came, and groups in the order of ids."""

    key: ClassVar[str] = "order"
    title: ClassVar[str] = "Order of records and of ids"
    question: ClassVar[Question] = "linkability"
    counts_toward_risk: ClassVar[bool] = False
    """Half of all pairs are in order by chance, and who shares a log is not who somebody is."""

    def run(self, context: AuditContext) -> Found:
        """The findings, or what is missing."""
        if context.owners is None or context.receivers is None:
            yield context.not_attacked(self.title)
            return
        frame = context.released.frame
        shown = frame.select(context.owners.alias("user"), "query", "time", pl.col("user").alias("name"))
        found = in_order_asked(context.original.frame.select("user", "query"), shown)
        title = "Records in the order in which they were asked"
        if found.measured:
            yield risk(
                "order-told", title, "order", self.question, found,
                "Share of pairs of neighbouring records under one pseudonym and time (or one time, where the log is "
                "not sorted by pseudonyms) of which the first was asked first.",
                chance=0.5, bound=0.5 if context.safe else None, confidence=SURE, population="pairs of records",
            )  # fmt: skip
        else:
            yield LeftOut(title=title, reason="no two neighbouring records can be found in the raw log")
        k = context.promised_k("k-anonymity")
        if k is None or not len(frame):
            return
        logs = logs_of(context.released.frame).rename({"user": "name"})
        behind = frame.select(pl.col("user").alias("name"), context.receivers.alias("id")).drop_nulls().unique("name")
        both = behind.join(logs, on="name").sort("id")
        sizes = both.group_by("log").len()["len"]
        chance = float((sizes * (sizes - 1)).sum()) / max(both.height * (both.height - 1), 1)
        yield risk(
            "groups-by-id", "Who shares a log guessed by neighbouring ids", "order", self.question,
            shared_with_next(both["id"], both["log"]),
            "Share of people who share their published log with the one whose id comes next.",
            chance=chance, bound=max(1 / k, chance),  # where groups are a large part of all, neighbours share by chance
            confidence=SURE, population="released people",
        )  # fmt: skip

"""A watcher: somebody who sees who asks when, compares what comes out, and so knows the pool of every record.

Where records come out of pools, a single record is as likely anybody's in its pool. But a text comes out again and
again, each time from a pool of other people, and whoever writes it is in every pool that it comes out of. The watcher
counts, for each text, in how many of its pools each person was, takes away how many that would be by the person's
presence alone, and puts each record down to the person of its own pool with the most.

A scenario: it needs somebody at the line who sees every arrival, which no recipient of a release does.

Cost: one sort of all memberships.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl

from queryveil.arrays import Longs
from queryveil.audit.context import AuditContext
from queryveil.audit.finding import Found, LeftOut, Question, Success, risk

SCENARIO = "somebody watches every arrival and so knows the pools"


class Watcher:
    """Repeats compared by somebody who sees arrivals."""

    key: ClassVar[str] = "watcher"
    title: ClassVar[str] = "Author named by somebody who watches arrivals"
    question: ClassVar[Question] = "linkability"
    counts_toward_risk: ClassVar[bool] = False
    is_scenario: ClassVar[bool] = True

    def run(self, context: AuditContext) -> Found:
        """The findings, or what is missing."""
        if not context.declares("pools") or not context.safe:
            return
        pools = context.pools
        if pools is None or not len(pools.owners):
            yield LeftOut(title=self.title, reason="no record came out of a pool")
            return
        draws = context.fresh_noise().stream("attack: ties of the watcher").uniform(len(pools.members))
        found = by_repeats(pools.owners, pools.queries, pools.starts, pools.members, draws)
        yield risk(
            "watcher", self.title, "scenario: a watcher", self.question, found,
            "Share of records that are put down to who wrote them, of the pool each came out of, by how often people "
            "are in the pools of the same text. Tried on a run made again.",
            raw=1.0, chance=float((1 / np.diff(pools.starts)).mean()), population="released records",
            scenario=SCENARIO,
        )  # fmt: skip


def by_repeats(
    owners: pl.Series, texts: pl.Series, starts: Longs, members: pl.Series, draws: npt.NDArray[np.float64]
) -> Success:
    """How many records are put down to their owner."""
    sizes = np.diff(starts)
    record = np.repeat(np.arange(len(sizes)), sizes)
    seen = pl.DataFrame({"record": record, "person": members, "draw": draws}).with_columns(
        texts.gather(record).alias("text")
    )
    presence = pl.len().over("person") / len(sizes)
    releases = pl.col("record").n_unique().over("text")
    scored = seen.with_columns((pl.len().over("text", "person") - releases * presence).alias("score"))
    best = scored.sort("record", "score", "draw").group_by("record", maintain_order=True).last().sort("record")
    return Success(int((best["person"] == owners).sum()), len(owners))

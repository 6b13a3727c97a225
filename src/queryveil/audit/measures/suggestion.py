"""Query suggestion: which queries people ask next, and how many of those a release still suggests.

A follower of a query is the next record of the same user within the same session, where it is another text. Sessions
are breaks of 30 minutes where times are exact, days where they were cut to the day or hour, and the whole user where
there are none. For the most asked queries of the raw log that have at least five followers, the release's k most
frequent followers are compared with the raw log's k: the share kept, averaged over the queries. Beside it stands what
always suggesting the k most asked queries would give.

Cost: one sort of the records, one grouping of the pairs.

>>> log = QueryLog.of([(f"u{i}", text) for i in range(9) for text in ("flights", "hotels")])
>>> top_followers_kept(log, log).share
1.0
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from queryveil.audit.context import AuditContext
from queryveil.audit.finding import (
    Found,
    LeftOut,
    kept,
    resampled,
)
from queryveil.log import QueryLog

BREAK: Final = timedelta(minutes=30)
FOLLOWERS: Final = 5
SUGGESTED: Final = 5
QUERIES: Final = 1000


@dataclass(frozen=True)
class Suggestions:
    """The share of followers kept for each query looked at, and what the most asked queries would give instead."""

    by_query: npt.NDArray[np.float64]
    by_popularity: npt.NDArray[np.float64]

    @property
    def share(self) -> float:
        """The mean over queries; not a number where there is none."""
        return float(self.by_query.mean()) if len(self.by_query) else float("nan")

    @property
    def chance(self) -> float:
        """The mean of what popularity alone gives."""
        return float(self.by_popularity.mean()) if len(self.by_popularity) else float("nan")


def followers(log: QueryLog) -> pl.DataFrame:
    """`query`, `next`, `times`: how often one query followed another in a session."""
    frame = log.frame.select("user", "query", "time").sort("user", "time", maintain_order=True, nulls_last=True)
    same = pl.col("user") == pl.col("user").shift(-1)
    if frame["time"].null_count() < frame.height:
        same &= _same_session(frame)
    pairs = frame.select("query", pl.col("query").shift(-1).alias("next"), same.alias("same"))
    kept = pairs.filter(pl.col("same") & (pl.col("query") != pl.col("next")))
    return kept.group_by("query", "next").agg(pl.len().cast(pl.Int64).alias("times"))


def _same_session(frame: pl.DataFrame) -> pl.Expr:
    time = pl.col("time")
    whole_hours = frame.select((time == time.dt.truncate("1h")).all()).item()
    if whole_hours:
        return time.dt.truncate("1d") == time.shift(-1).dt.truncate("1d")
    return (time.shift(-1) - time) <= BREAK


def top_followers_kept(
    original: QueryLog, released: QueryLog, *, suggested: int = SUGGESTED, queries: int = QUERIES
) -> Suggestions:
    """How many of the raw log's first suggestions the release still makes."""
    raw = followers(original)
    asked = original.frame.group_by("query").agg(pl.len().alias("asked")).sort("asked", "query", descending=True)
    able = raw.group_by("query").agg(pl.col("times").sum()).filter(pl.col("times") >= FOLLOWERS)
    chosen = asked.join(able, on="query", how="semi", maintain_order="left").head(queries).select("query")
    wanted = _top(raw.join(chosen, on="query", how="semi"), suggested)
    shown = _top(followers(released).join(chosen, on="query", how="semi"), suggested)
    popular = asked.head(suggested).select(pl.col("query").alias("next"))
    of = wanted.group_by("query").agg(pl.len().alias("of"))
    found = []
    for share in (
        wanted.join(shown, on=["query", "next"], how="semi"),
        wanted.join(popular, on="next", how="semi"),
    ):
        counted = of.join(share.group_by("query").len("share"), on="query", how="left").sort("query")
        found.append(counted.select(pl.col("share").fill_null(0) / pl.col("of")).to_series().to_numpy())
    return Suggestions(*found)


def _top(pairs: pl.DataFrame, suggested: int) -> pl.DataFrame:
    ranked = pairs.sort("query", "times", "next", descending=[False, True, False])
    return ranked.group_by("query", maintain_order=True).head(suggested).select("query", "next")


class Suggestion:
    """Next queries."""

    key: ClassVar[str] = "suggestion"
    title: ClassVar[str] = "Query suggestion"
    task: ClassVar[str] = "query suggestion"

    def run(self, context: AuditContext) -> Found:
        """The findings, or what is missing."""
        found = top_followers_kept(context.original, context.released)
        if not len(found.by_query):
            reason = f"no query of the raw log has {FOLLOWERS} followers"
            yield LeftOut(title=self.title, reason=reason)
            return
        yield kept(
            "suggestion", "Query suggestion", "query suggestion", found.share,
            f"Of the {SUGGESTED} queries that most often follow each of the most asked ones in the raw log, "
            "the share that the release suggests as well.", detail=f"{len(found.by_query):,} queries.",
            interval=resampled(found.by_query), raw=1.0, chance=found.chance, trials=len(found.by_query),
        )  # fmt: skip

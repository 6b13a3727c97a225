"""Wrong variants of semantic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from queryveil.log import QueryLog
from queryveil.mechanisms.semantic import Semantic
from queryveil.privacy import Noise
from queryveil.release.mechanism import parameters_of
from queryveil.release.release import Release
from queryveil.testing.twins.pretending import claiming


@dataclass(frozen=True, kw_only=True)
class SemanticWithTwiceEpsilon(Semantic):
    """Draws with 2ε where ε is promised."""

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        return claiming(self, _really(self, epsilon=2 * self.epsilon).protect(log, noise))


@dataclass(frozen=True, kw_only=True)
class SemanticDroppingTheUnmapped(Semantic):
    """Leaves out queries that mean nothing in the domain: their absence tells."""

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        mapped = self.reader.concepts(log.queries()) != self.public_domain.outside
        return claiming(self, _really(self).protect(QueryLog(log.frame.filter(pl.Series(mapped))), noise))


@dataclass(frozen=True, kw_only=True)
class SemanticKeepingWords(Semantic):
    """Puts the new label into the frame of a query's own words."""

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        shown = _really(self).protect(log, noise)
        first = log.frame.group_by("user").agg(pl.col("query").sort().first().str.split(" ").list.first().alias("word"))
        words = shown.people().collect().join(first, on="user", how="left", maintain_order="left")
        framed = shown.log.frame.with_columns(pl.format("{} {}", pl.lit(words["word"]), "query").alias("query"))
        return claiming(self, shown, log=QueryLog(framed))


@dataclass(frozen=True, kw_only=True)
class SemanticWithoutTheSplit(Semantic):
    """Spends the whole of a user's ε on every query."""

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        return claiming(self, _really(self, per="query").protect(log, noise))


@dataclass(frozen=True, kw_only=True)
class SemanticDrawingForEveryClick(Semantic):
    """Takes every record for a query, so that a query is drawn for as often as it was clicked."""

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        timeless = log.frame.with_columns(pl.lit(None, pl.Datetime("us")).alias("time"))
        return claiming(self, _really(self).protect(QueryLog(timeless), noise))


def _really(mechanism: Semantic, **changes: Any) -> Semantic:
    return Semantic(**parameters_of(mechanism) | changes)

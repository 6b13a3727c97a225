"""Wrong variants of sanitize."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from queryveil.log import QueryLog
from queryveil.mechanisms.sanitize import Sanitize, safe
from queryveil.mechanisms.sanitize.selection import Selection
from queryveil.mechanisms.sanitize.weighted_budget import WeightedSelection
from queryveil.privacy import Noise
from queryveil.release.release import Release


@dataclass(frozen=True, kw_only=True)
class ClicksWithHalfTheNoise(Sanitize):
    """Everything is blurred half as much: twice the loss."""

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        less = dataclasses.replace(self.capped_rule, scale=self.capped_rule.scale / 2)
        return _published(self, log, noise, less, 2 * self.epsilon)


@dataclass(frozen=True, kw_only=True)
class ClicksWithALowThreshold(Sanitize):
    """Publishes every pair that looks like two people's."""

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        return _published(self, log, noise, dataclasses.replace(self.capped_rule, threshold=1), self.epsilon)


@dataclass(frozen=True, kw_only=True)
class ClicksInsteadOfPeople(Sanitize):
    """Counts a pair's clicks, so one person moves a count by many."""

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        turn = pl.int_range(pl.len()).over("user", "query", "url")
        return super().protect(QueryLog(log.frame.with_columns(pl.format("{} {}", "user", turn).alias("user"))), noise)


@dataclass(frozen=True, kw_only=True)
class ClicksWithoutABound(Sanitize):
    """Uses all pairs of a user, however many there are."""

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        each = pl.format("{} {} {}", "user", "query", "url").alias("user")
        return super().protect(QueryLog(log.frame.filter(pl.col("url").is_not_null()).with_columns(each)), noise)


def _published(mechanism: Sanitize, log: QueryLog, noise: Noise, selection: Selection, epsilon: float) -> Release:
    published = safe.publish(log.table(), noise, epsilon=epsilon, contribution=mechanism.used, selection=selection)
    people = np.maximum(published.people, 1)
    columns = dict.fromkeys(("user", "query", "url"), "published by a noisy count")
    return Release.of(mechanism, safe.synthetic_log(published, people, noise), noise=noise, columns=columns)


@dataclass(frozen=True, kw_only=True)
class WeightsWithTooLittleNoise(Sanitize):
    """Draws the noise of an ε thirty times as large."""

    @property
    def weighted_rule(self) -> WeightedSelection:
        return dataclasses.replace(super().weighted_rule, epsilon=30 * self.epsilon)


@dataclass(frozen=True, kw_only=True)
class SearchesInsteadOfPeople(Sanitize):
    """Every record weighs as if it were another person's."""

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        each = pl.format("{} {}", "user", pl.int_range(pl.len())).alias("user")
        return super().protect(QueryLog(log.frame.with_columns(each)), noise)


@dataclass(frozen=True, kw_only=True)
class WeightsWithoutAThreshold(Sanitize):
    """Publishes every query and click whose noisy weight is above that of one person."""

    @property
    def weighted_rule(self) -> WeightedSelection:
        return _LowThresholds(**dataclasses.asdict(super().weighted_rule))


class _LowThresholds(WeightedSelection):
    @property
    def thresholds(self) -> Mapping[str, int]:
        return dict.fromkeys(super().thresholds, self.unit)

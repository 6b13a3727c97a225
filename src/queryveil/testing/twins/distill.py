"""Wrong variants of distill."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import polars as pl

from queryveil.log import QueryLog
from queryveil.mechanisms.distill import Distill
from queryveil.mechanisms.distill.budget import Budget
from queryveil.privacy import Noise
from queryveil.release.release import Release


@dataclass(frozen=True, kw_only=True)
class TablesWithTooLittleNoise(Distill):
    """Draws the noise of an ε twenty times as large."""

    @property
    def budget(self) -> Budget:
        return Budget(20 * self.epsilon, self.delta)


@dataclass(frozen=True, kw_only=True)
class TextsInsteadOfPeople(Distill):
    """Every text of a person adds a vector of length one."""

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        each = pl.format("{} {}", "user", "query").alias("user")
        return super().protect(QueryLog(log.frame.with_columns(each)), noise)


@dataclass(frozen=True, kw_only=True)
class TextsWithoutAThreshold(Distill):
    """Publishes whole queries however small their weight is."""

    @property
    def budget(self) -> Budget:
        return _WithoutThresholds(self.epsilon, self.delta)


class _WithoutThresholds(Budget):
    @property
    def thresholds(self) -> Mapping[str, int]:
        return dict.fromkeys(Budget(self.epsilon, self.delta).thresholds, -(10**9))

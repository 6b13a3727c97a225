"""Wrong variants of microaggregate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from queryveil.log import QueryLog
from queryveil.mechanisms.microaggregate import Microaggregate
from queryveil.privacy import Noise
from queryveil.testing.twins.pretending import claiming, only


@dataclass(frozen=True, kw_only=True)
class GroupsOneShort(Microaggregate):
    """Groups of k − 1."""

    def protect(self, log: QueryLog, noise: Noise) -> Any:
        return claiming(self, Microaggregate(k=self.k - 1, k_text=self.k_text).protect(log, noise))


@dataclass(frozen=True, kw_only=True)
class GroupsWithUnlikeCopies(Microaggregate):
    """Each copy of a group's log lacks a record of its own."""

    def protect(self, log: QueryLog, noise: Noise) -> Any:
        shown = Microaggregate(k=self.k, k_text=self.k_text).protect(log, noise)
        size, turn = pl.len().over("user"), pl.int_range(pl.len()).over("user")
        keep = shown.log.frame.select(turn != pl.col("user").rank("dense") % size).to_series()
        return claiming(self, shown, **only(shown, keep))


@dataclass(frozen=True, kw_only=True)
class GroupsWithoutQuotas(Microaggregate):
    """As in the paper, the busiest member supplies most of a log, and rare texts go through."""

    def protect(self, log: QueryLog, noise: Noise) -> Any:
        return claiming(self, Microaggregate(k=self.k, k_text=self.k_text, mode="paper").protect(log, noise))


@dataclass(frozen=True, kw_only=True)
class GroupsWithRareTexts(Microaggregate):
    """A text needs one user fewer than promised."""

    def protect(self, log: QueryLog, noise: Noise) -> Any:
        return claiming(self, Microaggregate(k=self.k, k_text=self.k_text - 1).protect(log, noise))


@dataclass(frozen=True, kw_only=True)
class GroupsWithOwnLabels(Microaggregate):
    """A rare text gives way to a label made of one member's own words."""

    def protect(self, log: QueryLog, noise: Noise) -> Any:
        shown = Microaggregate(k=self.k, k_text=self.k_text).protect(log, noise)
        own = log.frame.filter(pl.col("query").str.starts_with("my ")).group_by("user").agg(pl.col("query").min())
        words = shown.people().collect().join(own, on="user", how="left", maintain_order="left")["query"]
        labelled = pl.col("query").str.starts_with("[") & pl.lit(words.is_not_null())
        texts = pl.when(labelled).then(pl.format("[{}]", pl.lit(words))).otherwise("query").alias("query")
        return claiming(self, shown, log=QueryLog(shown.log.frame.with_columns(texts)))


@dataclass(frozen=True, kw_only=True)
class GroupsByUserId(Microaggregate):
    """People are grouped in the order of their ids, whatever they search for."""

    def _grouped(self, profiled: Any, people: pl.DataFrame, *others: Any) -> Any:
        groups = (people["user"].rank("ordinal").to_numpy().astype(np.int64) - 1) // self.k
        return np.minimum(groups, people.height // self.k - 1).astype(np.int32), None

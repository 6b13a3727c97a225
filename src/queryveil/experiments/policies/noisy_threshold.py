"""Texts whose number of users, with noise, is above a threshold: the one rule here that promises something.

Korolova et al. (2009), "Releasing search queries and clicks privately", by the sharper thresholds of
`mechanisms.sanitize.selection`: differentially private per user. Its count is the noisy number of users. It is here to
be compared with, and no release is made by it: the mechanism that these thresholds belong to does that.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import polars as pl

from queryveil.checks import real_number, require, whole_number
from queryveil.experiments.policies.policy import NAMED, Policy
from queryveil.log.query_log import QueryLog
from queryveil.mechanisms.sanitize.selection import Selection, contributed
from queryveil.privacy import ApproxDP, Charge, Guarantee, Noise
from queryveil.release.release import Release


@dataclass(frozen=True, kw_only=True)
class NoisyThreshold(Policy):
    """Tell a text whose number of users, with noise, is above a threshold; differentially private per user."""

    name: ClassVar[str] = "noisy-threshold"
    title: ClassVar[str] = "A threshold with noise (differentially private)"
    summary: ClassVar[str] = "Counts of texts above a threshold, both with noise."
    origin: ClassVar[str] = "nobody's rule: what a threshold with noise would give, to compare with"

    epsilon: float = 1.0
    delta: float = 1e-6
    contribution: int = field(default=20, metadata={"shown": "of each person at most {} texts count"})

    def __post_init__(self) -> None:
        require(
            real_number("epsilon", self.epsilon, at_least=1e-3, at_most=100, suggest=1.0),
            real_number("delta", self.delta, at_least=1e-30, at_most=1e-3, suggest=1e-6),
            whole_number("contribution", self.contribution, at_least=1, at_most=100_000, suggest=20),
        )

    @property
    def selection(self) -> Selection:
        """The noise and the threshold, from public numbers."""
        return Selection.best(epsilon=self.epsilon, delta=self.delta, contribution=self.contribution, keys_only=False)

    def in_words(self) -> str:
        """The rule in one sentence."""
        return (
            f"texts whose number of users, with noise, is above {self.selection.threshold}; of each user at most "
            f"{self.contribution} count (ε = {self.epsilon:g}, δ = {self.delta:g})"
        )

    def guarantee(self) -> Guarantee:
        """(ε, δ)-differential privacy per user."""
        relation = "all records of one user added or removed"
        return ApproxDP(epsilon=self.epsilon, delta=self.delta, relation=relation, evidence="paper")

    def charge(self) -> Charge:
        """Everybody pays."""
        return Charge.dataset(epsilon=self.epsilon, delta=self.delta)

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        """The noisy number of users of each text above the threshold, as so many records."""
        pairs = log.frame.select("user", "query").unique().sort("user", "query")
        user = pairs.select(pl.col("user").rank("dense")).to_series().to_numpy().astype(np.int64)
        counted = pairs.filter(pl.Series(contributed(user, noise.stream("rule: contributions"), self.contribution)))
        texts = counted.group_by("query").len().sort("query")
        people = texts["len"].to_numpy().astype(np.int64)
        kept, noisy = self.selection.apply(people, noise.stream("rule: people of texts"))
        told = texts.filter(pl.Series(kept)).select(pl.col("query").repeat_by(pl.Series(noisy))).explode("query")
        made = told.with_columns(user="record " + pl.int_range(pl.len()).cast(pl.String))
        columns = {"user": NAMED["record"], "query": "kept above a noisy threshold"}
        return Release.of(self, QueryLog(made), noise=noise, columns=columns, keep_order=True)

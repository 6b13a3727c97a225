"""Today's rules for publishing queries, simulated on a log of one's own.

None of these is a mechanism of ours and none publishes people: each decides which texts may be told, and publishes how
often they were asked, without users, times or clicks. A rule's release is therefore a log in which every record has a
user of its own.

- `UsersInWindow`: a text is told for a period if enough distinct users asked it in the window that the period ends.
  `users=36, days=90` is like a search console that hides queries of fewer than "a few dozen" users over two to three
  months; `users=30, days=396, every=91` is "30 signed-in users in 13 months", decided every quarter, as for the search
  data shared under Article 6(11) of the Digital Markets Act. Everybody counts as signed in, which flatters the rule.
- `Frequency`: a text is told if it was asked often enough, by whomever. One busy person suffices.
- `NoisyThreshold`: a text is told if its number of users, with noise, is above a threshold (Korolova et al. 2009,
  "Releasing search queries and clicks privately", by the sharper thresholds of `mechanisms.sanitize.selection`):
  differentially private per user. Its count is the noisy number of users.

>>> log = QueryLog.of([("ann", "weather"), ("bob", "weather"), ("ann", "my rash"), ("ann", "my rash")])
>>> Frequency(k=2).published(log, Noise.seeded(1)).queries()
['my rash', 'my rash', 'weather', 'weather']
>>> UsersInWindow(users=2).published(log, Noise.seeded(1)).queries()
['weather', 'weather']
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any, ClassVar, Protocol

import numpy as np
import polars as pl

from queryveil.checks import real_number, require, whole_number
from queryveil.errors import ParameterError, UsageError
from queryveil.log import QueryLog
from queryveil.mechanisms.sanitize.selection import Selection, contributed
from queryveil.privacy import Noise


class Rule(Protocol):
    """Which texts may be told, and how often each."""

    name: ClassVar[str]

    def in_words(self) -> str:
        """The rule in one sentence."""

    def promise(self) -> dict[str, Any]:
        """What it promises, as a manifest would say it."""

    def published(self, log: QueryLog, noise: Noise) -> QueryLog:
        """What it publishes: one record for each count, each under a user of its own."""


NOTHING_FORMAL: dict[str, Any] = {"model": "none", "unit": "user"}


@dataclass(frozen=True, kw_only=True)
class UsersInWindow:
    """Tell a text for a period if `users` distinct users asked it in the `days` that end with the period."""

    name: ClassVar[str] = "users-in-window"

    users: int = 36
    days: int = 90
    every: int | None = field(default=None)
    """The length of a period in days; as long as the window where it is not given."""

    def __post_init__(self) -> None:
        require(
            whole_number("users", self.users, at_least=1, at_most=10**9, suggest=36),
            whole_number("days", self.days, at_least=1, at_most=100_000, suggest=90),
            whole_number("every", self.every, at_least=1, at_most=100_000, suggest=90, optional=True),
        )

    def in_words(self) -> str:
        """The rule in one sentence."""
        decided = "" if self.every is None else f", decided every {self.every} days"
        return f"texts that at least {self.users} users asked within {self.days} days{decided}"

    def promise(self) -> dict[str, Any]:
        """Nothing formal."""
        return NOTHING_FORMAL

    def published(self, log: QueryLog, noise: Noise) -> QueryLog:
        """Every record of a period whose text enough users asked in the window."""
        frame = log.frame.select("user", "query", "time").sort("query", "time", maintain_order=True)
        first, last = frame["time"].min(), frame["time"].max()
        if first is None or last is None:  # a log without times is one window
            return _without_users(frame.filter(pl.col("user").n_unique().over("query") >= self.users))
        period = timedelta(days=self.every or self.days)
        told, start = [], first
        while start <= last:  # type: ignore[operator]
            end = start + period  # type: ignore[operator]
            window = frame.filter(pl.col("time") >= end - timedelta(days=self.days), pl.col("time") < end)
            enough = window.group_by("query").agg(pl.col("user").n_unique()).filter(pl.col("user") >= self.users)
            told.append(window.filter(pl.col("time") >= start).join(enough, on="query", how="semi"))
            start = end
        return _without_users(pl.concat(told).sort("query", maintain_order=True))


@dataclass(frozen=True, kw_only=True)
class Frequency:
    """Tell a text that was asked at least `k` times."""

    name: ClassVar[str] = "frequency"

    k: int = 10

    def __post_init__(self) -> None:
        require(whole_number("k", self.k, at_least=1, at_most=10**9, suggest=10))

    def in_words(self) -> str:
        """The rule in one sentence."""
        return f"texts that were asked at least {self.k} times, by whomever"

    def promise(self) -> dict[str, Any]:
        """Nothing formal."""
        return NOTHING_FORMAL

    def published(self, log: QueryLog, noise: Noise) -> QueryLog:
        """Every record with a frequent text."""
        return _without_users(log.frame.filter(pl.len().over("query") >= self.k).select("query").sort("query"))


@dataclass(frozen=True, kw_only=True)
class NoisyThreshold:
    """Tell a text whose number of users, with noise, is above a threshold; differentially private per user."""

    name: ClassVar[str] = "noisy-threshold"

    epsilon: float = 1.0
    delta: float = 1e-6
    contribution: int = 20

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
            f"texts whose number of users, with noise, is above {self.selection.threshold}; at most "
            f"{self.contribution} texts of a user count (ε = {self.epsilon:g}, δ = {self.delta:g})"
        )

    def promise(self) -> dict[str, Any]:
        """(ε, δ)-differential privacy per user."""
        return {"model": "approx-dp", "unit": "user", "epsilon": self.epsilon, "delta": self.delta}

    def published(self, log: QueryLog, noise: Noise) -> QueryLog:
        """The noisy number of users of each text above the threshold, as so many records."""
        pairs = log.frame.select("user", "query").unique().sort("user", "query")
        user = pairs.select(pl.col("user").rank("dense")).to_series().to_numpy().astype(np.int64)
        counted = pairs.filter(pl.Series(contributed(user, noise.stream("rule: contributions"), self.contribution)))
        texts = counted.group_by("query").len().sort("query")
        people = texts["len"].to_numpy().astype(np.int64)
        kept, noisy = self.selection.apply(people, noise.stream("rule: people of texts"))
        told = texts.filter(pl.Series(kept)).select(pl.col("query").repeat_by(pl.Series(noisy))).explode("query")
        return _without_users(told)


RULES: dict[str, type[Any]] = {rule.name: rule for rule in (UsersInWindow, Frequency, NoisyThreshold)}


def make(name: str, **parameters: Any) -> Any:
    """A rule by its name."""
    if name not in RULES:
        raise UsageError(f"there is no rule of that name. Choose one of {', '.join(RULES)}.")
    try:
        return RULES[name](**parameters)
    except TypeError:
        known = ", ".join(each.name for each in fields(RULES[name]))
        raise ParameterError([f"the rule {name} has the parameters {known} and no others."]) from None


def _without_users(frame: pl.DataFrame) -> QueryLog:
    """The texts of a frame, each record under a user of its own."""
    numbers = pl.int_range(pl.len()).cast(pl.String)
    return QueryLog(frame.select(("record " + numbers).alias("user"), "query"))

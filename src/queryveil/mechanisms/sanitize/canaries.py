"""Canaries for the audit of a claim in one run: users who are in the log or not.

A canary is a user who is in the log or not, by its coin, and clicks on pairs that a known number of others clicked too.
The evidence is how far the published number of clicks lies above the middle. *Heavy* ones click often and on more pairs
than a user may contribute, in case that is not held back; *lone* ones click pairs of their own, which nobody should
see.

For weighted selection they are searchers: each asks queries, and clicks their result, that a known number of others
have. *At the threshold* the canary decides whether a query, or the click, is published; *counted* ones move the count
of published queries; *busy* ones have as many queries as count, in case each of them has the full weight; *lone* ones
ask a query of their own as often as would be enough people, in case records count instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

import numpy as np
import polars as pl

from queryveil.arrays import Flags, Floats
from queryveil.log import QueryLog
from queryveil.mechanisms.sanitize.weighted_budget import WeightedSelection
from queryveil.release.release import Release

if TYPE_CHECKING:
    from queryveil.mechanisms.sanitize.sanitization import Sanitize

Reading: TypeAlias = Literal["sign", "sum", "kept", "seen"]
"""What copies of a pair speak for: above the middle or not, how far above, published or not, published at all."""

MOST_CLICKERS: Final = 2_000
MOST_HEAVY: Final = 500
MOST_CLICKS: Final = 600_000
HEAVY_PAIRS, HEAVY_CLICKS = 6, 5
CLEAR_OF_THRESHOLD: Final = 5


@dataclass(frozen=True)
class AddedClickers:
    """Users who are in the log or not, and click `pairs` pairs each, `clicks` times, which `others` people share."""

    name: str
    canaries: int
    pairs: int
    clicks: int
    others: int
    per_other: int
    """How many of the pairs one of the others holds."""
    reading: Reading

    def log(self, coins: Flags) -> QueryLog:
        """The others, and the canaries whose coin is heads."""
        count = self.canaries * self.pairs
        pair = np.arange(count)
        of_canary = np.repeat(pair[coins[pair // self.pairs]], self.clicks)
        of_others = np.repeat(pair, self.others)
        turn = np.tile(np.arange(self.others), count)
        users = [
            pl.select(pl.format("canary {}", pl.lit(pl.Series(of_canary // self.pairs)))).to_series(),
            pl.select(
                pl.format("other {} {}", pl.lit(pl.Series(of_others // self.per_other)), pl.lit(pl.Series(turn)))
            ).to_series(),
        ]
        pairs = pl.Series(np.concatenate([of_canary, of_others]))
        return QueryLog(
            pl.DataFrame({"user": pl.concat([one.alias("user") for one in users]), "pair": pairs}).select(
                "user", pl.format("query {}", "pair").alias("query"), pl.lit("canary.example").alias("url")
            )
        )

    def evidence(self, release: Release) -> Floats:
        """How far the published clicks on a canary's pairs lie above the middle of both cases."""
        shown = release.log.frame.group_by("query").agg(pl.len().alias("copies"))
        every = pl.DataFrame({"pair": np.arange(self.canaries * self.pairs)}).select(
            pl.format("query {}", "pair").alias("query")
        )
        found = every.join(shown, on="query", how="left", maintain_order="left")["copies"].fill_null(0)
        copies = found.to_numpy().astype(np.float64)
        above = copies - self.others - 0.5
        spoken_for = {
            "sign": np.sign(above),
            "sum": above,
            "kept": np.sign(copies - 0.5),
            "seen": np.sign(copies),
        }[self.reading]
        summed: Floats = spoken_for.reshape(self.canaries, self.pairs).sum(axis=1)
        return summed


def added_clickers(mechanism: Sanitize) -> list[AddedClickers]:
    """Ordinary clickers, those who click again and again or on more than is allowed, and lone ones."""
    rule = mechanism.capped_rule
    keys_only = mechanism.objective == "diversity"
    others = rule.half_kept - 1 if keys_only else rule.half_kept + int(np.ceil(CLEAR_OF_THRESHOLD * float(rule.scale)))
    # Laplace's noise tells no more than on which side of the middle a count lies; Gauss's tells the more, the farther.
    reading: Reading = "kept" if keys_only else "sign" if rule.kind == "laplace" else "sum"
    allowed = mechanism.used
    kinds: list[AddedClickers] = []
    heavy = HEAVY_PAIRS * allowed
    for name, pairs, clicks, wanted in (
        ("clickers", allowed, 1, MOST_CLICKERS),
        ("repeating clickers", allowed, HEAVY_CLICKS, MOST_CLICKERS),
        ("heavy clickers", heavy, HEAVY_CLICKS, MOST_HEAVY),
    ):
        most = MOST_CLICKS // (others * pairs)
        if mechanism.objective == "frequent":
            most = min(most, int(0.5 / (float(mechanism.support) * pairs)))
        canaries = min(wanted, most)
        if canaries:
            kinds.append(AddedClickers(name, canaries, pairs, clicks, others, allowed, reading))
    if mechanism.objective != "frequent":
        kinds.append(AddedClickers("lone clickers", MOST_CLICKERS, allowed, HEAVY_CLICKS, 0, allowed, "seen"))
    return kinds


MOST_SEARCHES: Final = 100_000
REPEATS: Final = 5
SearchReading: TypeAlias = Literal["count", "query", "click", "seen"]
"""What of a query speaks for the canary: how often it comes, whether it does, whether its click does, both or none."""


@dataclass(frozen=True)
class AddedSearchers:
    """Users who are in the log or not, and ask `queries` queries each, which `askers` others ask; some click, too."""

    name: str
    canaries: int
    queries: int
    askers: int
    clickers: int
    """How many of the others click the query's one result."""
    repeats: int
    """How often a canary asks and clicks."""
    reading: SearchReading

    def log(self, coins: Flags) -> QueryLog:
        """The others, who ask one query each, and the canaries whose coin is heads, who ask and click repeatedly."""
        query = np.arange(self.canaries * self.queries)
        mine = np.repeat(query[coins[query // self.queries]], self.repeats)
        shared, turn = np.repeat(query, self.askers), np.tile(np.arange(self.askers), len(query))
        rows = pl.DataFrame(
            {
                "query": np.concatenate([mine, shared]),
                "person": np.concatenate([mine // self.queries, shared]),
                "turn": np.concatenate([np.full(len(mine), -1), turn]),
            }
        )
        return QueryLog(
            rows.select(
                pl.when(pl.col("turn") < 0)
                .then(pl.format("canary {}", "person"))
                .otherwise(pl.format("other {} {}", "person", "turn"))
                .alias("user"),
                pl.format("query {}", "query").alias("query"),
                pl.when(pl.col("turn") < self.clickers).then(pl.lit("canary.example")).alias("url"),
            )
        )

    def evidence(self, release: Release) -> Floats:
        """How far what is published of a canary's queries lies above the middle of both cases."""
        shown = release.log.frame.group_by("query").agg(
            pl.len().alias("copies"), pl.col("url").is_not_null().sum().alias("clicks")
        )
        every = pl.DataFrame({"number": np.arange(self.canaries * self.queries)}).select(
            pl.format("query {}", "number").alias("query")
        )
        found = every.join(shown, on="query", how="left", maintain_order="left").fill_null(0)
        copies, clicks = (found[name].to_numpy().astype(np.float64) for name in ("copies", "clicks"))
        spoken_for = {
            "count": copies - self.askers - 0.5,
            "query": np.sign(copies - 0.5),
            "click": np.sign(clicks - 0.5),
            "seen": np.sign(copies),
        }[self.reading]
        summed: Floats = spoken_for.reshape(self.canaries, self.queries).sum(axis=1)
        return summed


def added_searchers(rule: WeightedSelection) -> list[AddedSearchers]:
    """Searchers who decide whether a query or a click is published, who are counted, who are busy, and lone ones."""
    at = {name: max(1, int(rule.thresholds[name] // rule.unit)) for name in rule.thresholds}
    clear = int(np.ceil((rule.thresholds["queries"] + CLEAR_OF_THRESHOLD * rule.sigmas["queries"]) / rule.unit)) + 1
    counted, busy = rule.counted_in_full, rule.most_queries
    kinds: list[tuple[str, int, int, int, int, SearchReading]] = [
        ("searchers at the threshold", 1, at["queries"], 0, REPEATS, "query"),
        ("clicks at the threshold", 1, max(clear, at["clicks"]), at["clicks"], REPEATS, "click"),
        ("busy searchers", busy, at["queries"], 0, 1, "query"),
        ("lone searchers", 1, 0, 0, clear, "seen"),
    ]
    if not rule.keys_only:
        kinds.append(("counted searchers", counted, clear, 0, 1, "count"))
    made = []
    for name, queries, askers, clickers, repeats, reading in kinds:
        canaries = min(MOST_CLICKERS, MOST_SEARCHES // (queries * max(askers, repeats)))
        if canaries:
            made.append(AddedSearchers(name, canaries, queries, askers, clickers, repeats, reading))
    return made

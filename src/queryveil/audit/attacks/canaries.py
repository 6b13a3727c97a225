"""Canaries for the audit in one run, made for what each mechanism's claim is about.

*Replaced queries* (semantic): a canary is a user who is always there and asks one of two texts, by its coin. What each
text is released as is learnt in a training run, and the evidence is the sum of log-likelihood ratios over the user's
released texts; records that are missing count as a text of their own. One query of a user where the claim is per query,
as many as the public maximum where it is per user. Every query has several clicks, each a record of the log, in case
somebody draws for each of them.

*Added clickers* (sanitize): a canary is a user who is in the log or not, by its coin, and clicks on pairs that a known
number of others clicked too. The evidence is how far the published number of clicks lies above the middle. *Heavy*
ones click often and on more pairs than a user may contribute, in case that is not held back; *lone* ones click pairs
of their own, which nobody should see.

Who owns a released record is taken from the release's secrets: the claims hold for somebody who knows that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import combinations
from typing import Final, Literal, TypeAlias

import numpy as np
import polars as pl

from queryveil.audit.attacks.one_run import Canaries, Flags, Floats
from queryveil.log import QueryLog
from queryveil.mechanisms.sanitize import SanitizeClicks, safe
from queryveil.mechanisms.semantic import SemanticRelease
from queryveil.privacy import Noise
from queryveil.release.mechanism import Mechanism
from queryveil.release.release import Release

Reading: TypeAlias = Literal["sign", "sum", "kept", "seen"]
"""What copies of a pair speak for: above the middle or not, how far above, published or not, published at all."""

MOST_CANARIES: Final = 10_000
MOST_CLICKERS: Final = 2_000
MOST_HEAVY: Final = 500
MOST_RECORDS: Final = 400_000
MOST_CLICKS: Final = 600_000
LARGEST_HISTOGRAMS: Final = 20_000_000
LABELS_TRIED: Final = 6
PAIRS_KEPT: Final = 3
FILLERS: Final = ("cheap", "dear")
UNMAPPED: Final = "zxqv"
CLICKS: Final = 3
ASKED: Final = datetime(2026, 3, 1)
HEAVY_PAIRS, HEAVY_CLICKS = 6, 5
CLEAR_OF_THRESHOLD: Final = 5


def canaries_for(mechanism: Mechanism, noises: Iterator[Noise]) -> list[Canaries]:
    """The kinds of canaries that fit a mechanism; none where its claim is not one that canaries can test."""
    if mechanism.mode != "safe":
        return []
    if isinstance(mechanism, SemanticRelease):
        return replaced_queries(mechanism, noises)
    if isinstance(mechanism, SanitizeClicks):
        return added_clickers(mechanism)
    return []


# Semantic


@dataclass(frozen=True)
class ReplacedQueries:
    """Users who ask `heads` or `tails`, each `queries` times; `table` is what a released text speaks for."""

    name: str
    canaries: int
    heads: str
    tails: str
    queries: int
    table: pl.DataFrame = field(repr=False)
    missing: float
    """What a record that is not there speaks for."""

    def log(self, coins: Flags) -> QueryLog:
        """Every canary with its text."""
        return _asking([self.heads if coin else self.tails for coin in coins.tolist()], self.queries)

    def evidence(self, release: Release) -> Floats:
        """Log-likelihood ratios, summed over a user's records."""
        assert release.owners is not None
        shown = pl.DataFrame([release.owners.alias("user"), release.log.frame["query"]])
        weighed = shown.join(self.table, on="query", how="left").with_columns(pl.col("ratio").fill_null(0.0))
        summed = weighed.group_by("user").agg(pl.col("ratio").sum(), pl.len().alias("records"))
        everybody = pl.DataFrame({"user": _names(self.canaries)})
        found = everybody.join(summed, on="user", how="left", maintain_order="left").fill_null(0)
        absent = np.maximum(self.queries - found["records"].to_numpy().astype(np.int64), 0)
        weights: Floats = found["ratio"].to_numpy() + self.missing * absent
        return weights


def replaced_queries(mechanism: SemanticRelease, noises: Iterator[Noise]) -> list[Canaries]:
    """A few pairs of texts whose released forms differ most in a training run."""
    queries = mechanism.max_queries if mechanism.per == "user" else 1
    records = mechanism.max_queries if mechanism.counts == "padded" else queries
    canaries = min(MOST_CANARIES, max(MOST_RECORDS // records, 200))
    if mechanism.criterion == "hbdp":
        canaries = min(canaries, LARGEST_HISTOGRAMS // len(mechanism.public_domain))
        if canaries < 200:
            return []
    texts = _telling_texts(mechanism)
    each = max(canaries // 2, 100)
    shares = [_shares(mechanism, text, each, queries, next(noises)) for text in texts]
    kinds = []
    for (heads, one), (tails, other) in combinations(zip(texts, shares, strict=True), 2):
        both = one.join(other, on="query", how="full", coalesce=True).fill_null(0)
        ratio = np.log((both["count"].to_numpy() + 0.5) / (both["count_right"].to_numpy() + 0.5))
        differs = float(np.abs(both["count"].to_numpy() - both["count_right"].to_numpy()).sum())
        table = pl.DataFrame({"query": both["query"], "ratio": ratio})
        gone = table.filter(pl.col("query").is_null())["ratio"].to_list()
        kind = ReplacedQueries(
            "replaced queries", canaries, heads, tails, queries, table.drop_nulls(), gone[0] if gone else 0.0
        )
        kinds.append((differs, kind))
    kinds.sort(key=lambda one: -one[0])
    return [kind for _, kind in kinds[:PAIRS_KEPT]]


def _telling_texts(mechanism: SemanticRelease) -> list[str]:
    """Labels from all over the domain, each with a word of its own around, and a text that is not mapped."""
    labels, reader = mechanism.public_domain.main_labels, mechanism.reader
    spread = np.unique(np.linspace(0, len(labels) - 1, 4 * LABELS_TRIED).astype(np.int64)).tolist()
    fillers = FILLERS * len(spread)
    texts = [f"{filler} {labels[place]}" for filler, place in zip(fillers, spread, strict=False)]
    kept = [text for text, place, read in zip(texts, spread, reader.concepts(texts), strict=True) if place == read]
    step = max(len(kept) // LABELS_TRIED, 1)
    return [*kept[::step][:LABELS_TRIED], f"{FILLERS[-1]} {UNMAPPED}"]


def _shares(mechanism: SemanticRelease, text: str, users: int, queries: int, noise: Noise) -> pl.DataFrame:
    """How often each released text (null: none at all) came out where everybody asked one text."""
    log = mechanism.protect(_asking([text] * users, queries), noise).log
    counts = log.frame.group_by("query").agg(pl.len().cast(pl.Int64).alias("count"))
    gone = pl.DataFrame({"query": [None], "count": [max(users * queries - len(log), 0)]}, schema=counts.schema)
    return pl.concat([counts, gone])


def _asking(texts: list[str], queries: int) -> QueryLog:
    """Everybody with so many queries, one a minute, each with a few clicks."""
    names = _names(len(texts))
    rows = np.repeat(np.arange(len(texts)), queries * CLICKS)
    turns = pl.Series(np.tile(np.repeat(np.arange(queries), CLICKS), len(texts)))
    times = pl.select(ASKED + turns * timedelta(minutes=1)).to_series().cast(pl.Datetime("us"))
    return QueryLog(pl.DataFrame({"user": names, "query": texts})[rows].with_columns(time=times))


def _names(size: int) -> pl.Series:
    return pl.select(pl.format("canary {}", pl.int_range(size)).alias("user")).to_series()


# Sanitize


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
        told = {
            "sign": np.sign(above),
            "sum": above,
            "kept": np.sign(copies - 0.5),
            "seen": np.sign(copies),
        }[self.reading]
        summed: Floats = told.reshape(self.canaries, self.pairs).sum(axis=1)
        return summed


def added_clickers(mechanism: SanitizeClicks) -> list[Canaries]:
    """Ordinary clickers, those who click again and again or on more than is allowed, and lone ones."""
    rule = safe.rule(
        epsilon=mechanism.epsilon,
        delta=mechanism.slack,
        contribution=mechanism.contribution,
        objective=mechanism.objective,
    )
    keys_only = mechanism.objective == "diversity"
    others = rule.half_kept - 1 if keys_only else rule.half_kept + int(np.ceil(CLEAR_OF_THRESHOLD * float(rule.scale)))
    # Laplace's noise tells no more than on which side of the middle a count lies; Gauss's tells the more, the farther.
    reading: Reading = "kept" if keys_only else "sign" if rule.kind == "laplace" else "sum"
    allowed = mechanism.contribution
    kinds: list[Canaries] = []
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

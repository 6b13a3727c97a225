"""Canaries for the audit of a claim in one run: users who ask one of two texts.

A canary is a user who is always there and asks one of two texts, by its coin. What each text is released as is learnt
in a training run, and the evidence is the sum of log-likelihood ratios over the user's released texts; records that are
missing count as a text of their own. One query of a user where the claim is per query, as many as the public maximum
where it is per user. Every query has several clicks, each a record of the log, in case somebody draws for each of them.

Who owns a released record is taken from the release's secrets: the claim holds for somebody who knows that.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import combinations
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from queryveil.arrays import Flags, Floats
from queryveil.log import QueryLog
from queryveil.privacy import Noise
from queryveil.release.release import Release

if TYPE_CHECKING:
    from queryveil.mechanisms.semantic.replacement import Semantic


MOST_CANARIES: Final = 10_000
MOST_RECORDS: Final = 400_000
LARGEST_HISTOGRAMS: Final = 20_000_000
LABELS_TRIED: Final = 6
PAIRS_KEPT: Final = 3
FILLERS: Final = ("cheap", "dear")
UNMAPPED: Final = "zxqv"
CLICKS: Final = 3
ASKED: Final = datetime(2026, 3, 1)


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


def replaced_queries(mechanism: Semantic, noises: Iterator[Noise]) -> list[ReplacedQueries]:
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


def _telling_texts(mechanism: Semantic) -> list[str]:
    """Labels from all over the domain, each with a word of its own around, and a text that is not mapped."""
    labels, reader = mechanism.public_domain.main_labels, mechanism.reader
    spread = np.unique(np.linspace(0, len(labels) - 1, 4 * LABELS_TRIED).astype(np.int64)).tolist()
    fillers = FILLERS * len(spread)
    texts = [f"{filler} {labels[place]}" for filler, place in zip(fillers, spread, strict=False)]
    kept = [text for text, place, read in zip(texts, spread, reader.concepts(texts), strict=True) if place == read]
    step = max(len(kept) // LABELS_TRIED, 1)
    return [*kept[::step][:LABELS_TRIED], f"{FILLERS[-1]} {UNMAPPED}"]


def _shares(mechanism: Semantic, text: str, users: int, queries: int, noise: Noise) -> pl.DataFrame:
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

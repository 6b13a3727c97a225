"""Steps on records: which of them are one query, the public maximum, labels, and records out of histograms."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import polars as pl

from queryveil.arrays import Array
from queryveil.mechanisms.semantic import histogram
from queryveil.mechanisms.semantic.domain import Domain
from queryveil.privacy.noise import Stream

QUERY = ["user", "query", "time", "session"]
"""What the records of one query share."""
FIRST_OF_QUERY = pl.col("time").is_null() | pl.struct(QUERY).is_first_distinct()
"""One record of each query; where a record has no time it counts as a query (see `asked`)."""


def asked(records: pl.DataFrame) -> pl.DataFrame:
    """One record for every query: `QUERY`, in no particular order.

    A log has one record for every click, so a query with five clicks is there five times. Five draws for it would cost
    five times its ε and tell how many clicks it had. Records without a time cannot be told from searches that were
    repeated: each of them counts as a query.

    >>> from datetime import datetime
    >>> noon = datetime(2026, 1, 2, 12)
    >>> rows = [("ann", "tulips", noon, "s"), ("ann", "tulips", noon, "s"), ("ann", "tea", None, None)]
    >>> log = pl.DataFrame(rows + rows[2:], schema=QUERY, orient="row")
    >>> sorted(asked(log)["query"])
    ['tea', 'tea', 'tulips']
    """
    return records.select(QUERY).filter(FIRST_OF_QUERY)


def within_maximum(frame: pl.DataFrame, most: int, stream: Stream, weight: str | None = None) -> pl.DataFrame:
    """At most `most` records of each user, chosen at random (or so many that the column `weight` sums up to `most`)."""
    cost = "\0cost"  # cannot collide: the frame holds canonical columns only
    costly = frame.with_columns((pl.repeat(1, pl.len()) if weight is None else pl.col(weight)).alias(cost))
    if (costly.group_by("user").agg(pl.col(cost).sum())[cost] > most).any():
        shuffled = costly[stream.permutation(frame.height)]
        costly = shuffled.filter(pl.col(cost).cum_sum().over("user") <= most)
    return costly.drop(cost)


def texts_of(domain: Domain, concepts: Array) -> pl.Series:
    """The main label of each concept."""
    return pl.Series(domain.main_labels, dtype=pl.String).gather(pl.Series(concepts, dtype=pl.UInt32))


def histogram_rows(
    users: pl.Series, who: Array, concepts: Array, domain: Domain, rate: Fraction, stream: Stream
) -> pl.DataFrame:
    """Records for every noisy count: columns user, query, time (null)."""
    blocks = []
    for first, counts in histogram.noisy_counts(who, concepts, len(users), len(domain), rate, stream):
        row, concept = np.nonzero(counts)
        times = counts[row, concept]
        blocks.append((np.repeat(row + first, times), np.repeat(concept, times)))
    rows = np.concatenate([block[0] for block in blocks]) if blocks else np.empty(0, np.int64)
    drawn = np.concatenate([block[1] for block in blocks]) if blocks else np.empty(0, np.int64)
    return pl.DataFrame(
        {
            "user": users.gather(rows),
            "query": texts_of(domain, drawn.astype(np.int32)),
            "time": pl.Series([None] * len(rows), dtype=pl.Datetime("us")),
        }
    )

"""What became of the texts: how much of head, torso and tail a release keeps, examples of it, and what is still rare.

Texts are ranked by how often they were asked. The most frequent ones that make up the first third of all records are
the head, the next third the torso, the rest the tail. A release keeps of a text as many records as it publishes with
that very text, but no more than were asked: texts that a mechanism made up count for nothing.

`examples` and `rarest` quote queries of the original, so they are for its holder only.

>>> log = QueryLog.of([("ann", "weather"), ("bob", "weather"), ("ann", "tulip bulbs"), ("cleo", "my rash")])
>>> survival(log, QueryLog.of([("x", "weather"), ("y", "weather"), ("z", "storm")]))
Survival(volume=0.5, distinct=0.3333333333333333, head=1.0, torso=0.0, tail=0.0)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import polars as pl

from queryveil.log import QueryLog
from queryveil.log.identifying import CREDENTIALS, EMAIL, LONG_NUMBER

STRATA = ("head", "torso", "tail")
FEW = 5


@dataclass(frozen=True)
class Survival:
    """Shares of the original that a release keeps: of its records, its distinct texts, and its records by stratum."""

    volume: float
    distinct: float
    head: float
    torso: float
    tail: float


def survival(original: QueryLog, released: QueryLog) -> Survival:
    """How much of the original's texts a release keeps."""
    texts = fates(original, released)
    shares = {
        stratum: _share(int(part["kept"].sum()), int(part["records"].sum()))
        for stratum, part in ((name, texts.filter(pl.col("stratum") == name)) for name in STRATA)
    }
    return Survival(
        volume=_share(int(texts["kept"].sum()), int(texts["records"].sum())),
        distinct=_share(int((texts["kept"] > 0).sum()), texts.height),
        **shares,
    )


def examples(original: QueryLog, released: QueryLog, *, each: int = 5) -> dict[str, list[dict[str, Any]]]:
    """Texts through the ranks of each stratum, with how often they were asked and are published."""
    texts = fates(original, released)
    return {name: spread(texts.filter(pl.col("stratum") == name), each).to_dicts() for name in STRATA}


def published_examples(original: QueryLog, released: QueryLog, *, each: int = 5) -> dict[str, list[dict[str, Any]]]:
    """Texts of each stratum of the release, with whether the original has that very text."""
    in_original = pl.col("query").is_in(original.frame["query"].unique().implode())
    known = _strata(released).with_columns(in_original.alias("original"))
    return {name: spread(known.filter(pl.col("stratum") == name), each).to_dicts() for name in STRATA}


def rarest(original: QueryLog, released: QueryLog, *, most: int = 15) -> list[dict[str, Any]]:
    """The published texts of the original that name somebody or that the fewest people asked, worst first."""
    patterns = {"e-mail address": EMAIL, "long number": LONG_NUMBER, "credentials in a URL": CREDENTIALS}
    named = pl.concat_list(
        [
            pl.when(pl.col("query").str.contains(pattern)).then(pl.lit(what, dtype=pl.String))
            for what, pattern in patterns.items()
        ]
    ).list.drop_nulls()
    found = (
        fates(original, released)
        .filter(pl.col("kept") > 0)
        .with_columns(named.alias("names"))
        .filter((pl.col("users") < FEW) | (pl.col("names").list.len() > 0))
    )
    order = [pl.col("names").list.len() == 0, pl.col("users"), pl.col("records"), pl.col("query")]
    return found.sort(order).head(most).select("query", "users", "records", "published", "names").to_dicts()


def _strata(log: QueryLog) -> pl.DataFrame:
    """Each text with its records, its users and its stratum, the most frequent first."""
    texts = log.frame.group_by("query").agg(pl.len().alias("records"), pl.col("user").n_unique().alias("users"))
    texts = texts.sort(pl.col("records"), pl.col("query"), descending=[True, False])
    before = pl.col("records").cum_sum() - pl.col("records")
    return texts.with_columns(
        pl.when(3 * before < len(log))
        .then(pl.lit("head"))
        .when(3 * before < 2 * len(log))
        .then(pl.lit("torso"))
        .otherwise(pl.lit("tail"))
        .alias("stratum")
    )


def fates(original: QueryLog, released: QueryLog) -> pl.DataFrame:
    """Each text of the original, the most frequent first, with how often it is published and how much of it is kept."""
    published = released.frame.group_by("query").agg(pl.len().alias("published"))
    texts = _strata(original).join(published, on="query", how="left", maintain_order="left")
    texts = texts.with_columns(pl.col("published").fill_null(0))
    return texts.with_columns(pl.min_horizontal("records", "published").alias("kept"))


def spread(rows: pl.DataFrame, count: int) -> pl.DataFrame:
    """Up to `count` rows, the first and the last included and denser towards the first: the same ones every time."""
    if rows.height <= count:
        return rows
    return rows[sorted({round(rows.height ** (i / (count - 1))) - 1 for i in range(count)})]


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0

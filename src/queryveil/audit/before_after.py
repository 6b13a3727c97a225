"""Five queries before and after: what a reader believes sooner than a percentage. For the holder's eyes only.

Where it is known who is behind each released record, a person with one record in the log and one in the release makes a
pair that is certainly true. Where too few people are so, nobody knows, or texts stay as typed, texts of the log stand
with what became of them: published as typed so many times, or withheld. A release of made-up people has no pairs:
nobody is behind them.

Which ones are shown follows from the logs alone, so that two reports on one release show the same: texts through the
ranks, from the most frequent to the rarest.

>>> log = QueryLog.of([("ann", "weather"), ("bob", "weather"), ("cleo", "my rash")])
>>> shown = QueryLog.of([("x", "weather"), ("y", "[illness]")])
>>> [(pair.before, pair.after) for pair in pairs(log, shown, owners=pl.Series(["bob", "cleo"]))]
[('weather', 'weather'), ('my rash', '[illness]')]
>>> [(pair.before, pair.after) for pair in pairs(log, shown)]
[('weather', 'published as typed, 1 of 2 times'), ('my rash', 'withheld')]
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from queryveil.audit.survival import fates, spread
from queryveil.log import QueryLog

SHOWN = 5


@dataclass(frozen=True)
class Pair:
    """One query of the log, and what the release holds in its place, or what became of it."""

    before: str
    after: str
    same_record: bool
    """Whether `after` is the text of that very record; else it says what became of the text."""


def pairs(original: QueryLog, released: QueryLog, *, owners: pl.Series | None = None) -> tuple[Pair, ...]:
    """Up to five, from the most frequent text to the rarest."""
    ranked = fates(original, released).select("query", "records", "published").with_row_index("rank")
    known = None if owners is None else _of_single_records(original, released, owners)
    if known is not None and known.height >= min(SHOWN, max(1, len(released))) and _tell_something(known):
        rows = spread(known.join(ranked, left_on="before", right_on="query").sort("rank", "after"), SHOWN)
        return tuple(Pair(row["before"], row["after"], True) for row in rows.iter_rows(named=True))
    return tuple(
        Pair(row["query"], _fate(row["records"], row["published"]), False)
        for row in spread(ranked, SHOWN).iter_rows(named=True)
    )


def _of_single_records(original: QueryLog, released: QueryLog, owners: pl.Series) -> pl.DataFrame:
    """People with one record before and one after: which record became which is certain for them alone."""
    after = released.frame.select(pl.col("query").alias("after"), owners.cast(pl.String).alias("owner"))
    single_after = after.filter(pl.col("owner").is_not_null() & (pl.len().over("owner") == 1))
    before = original.frame.select(pl.col("query").alias("before"), pl.col("user").alias("owner"))
    single_before = before.filter(pl.len().over("owner") == 1)
    both = single_before.join(single_after, on="owner", how="inner").select("before", "after").sort("before", "after")
    return both.unique("before", keep="first", maintain_order=True)  # a frequent text is shown once


def _tell_something(known: pl.DataFrame) -> bool:
    """Where texts stay as typed, pairs show only those that were not withheld: then what became of texts tells more."""
    return not known.filter(pl.col("before") != pl.col("after")).is_empty()


def _fate(records: int, published: int) -> str:
    if not published:
        return "withheld"
    if published >= records:
        return "published as typed"
    return f"published as typed, {published:,} of {records:,} times"

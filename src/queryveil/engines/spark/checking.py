"""The rules that every reader of the package has, for rows of a Parquet log as Spark hands them to a worker.

They are not written a second time: times and ranks are parsed, and rows judged, by the functions that read a Parquet
file on one machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

import polars as pl

from queryveil.log.formats.column_names import parsed_from_text
from queryveil.log.formats.format import Rule, first_broken
from queryveil.log.formats.parquet import times_in_calendar
from queryveil.log.identifying import representatives
from queryveil.log.query_log import QueryLog

TimeUnit: TypeAlias = Literal["d", "ms", "us", "ns"]

BROKEN_TEXT, REASON, WRITTEN_ID = "__broken_text", "__reason", "__written_id"
"""The first column of a row whose bytes are no text (Spark looks, since a worker could not even load them), why a row
is bad, and the user's id as it is in the file where the record has its representative."""


@dataclass(frozen=True)
class Checking:
    """Makes records of rows; of a bad one, nothing is left but the reason."""

    columns: Sequence[str]
    times: TimeUnit | None
    """What times are whole numbers of; None where they are text, or where there are none."""
    merge: bool = False
    """Whether each id is replaced by its representative (`queryveil.log.identifying`)."""

    def __call__(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The records and the reasons."""
        if self.times:
            rows = rows.with_columns(pl.col("time").cast(pl.Date() if self.times == "d" else pl.Datetime(self.times)))
        rows, outside = times_in_calendar(rows)
        no_text = [Rule(name, "not UTF-8", pl.col(BROKEN_TEXT) == name) for name in self.columns]
        parsed, rules = parsed_from_text(rows, self.columns, [*no_text, *outside])
        reasons = pl.Series([f"column {rule.column}: {rule.reason}" for rule in rules], dtype=pl.String)
        broken = parsed.select(first_broken([rule.broken for rule in rules])).to_series()
        good = QueryLog(parsed.filter(broken.is_null()).select(self.columns)).frame
        if self.merge:
            good = good.with_columns(representatives(good["user"]), pl.col("user").alias(WRITTEN_ID))
        bad = pl.DataFrame({REASON: reasons.gather(broken.drop_nulls())})
        return pl.concat([good, bad], how="diagonal")

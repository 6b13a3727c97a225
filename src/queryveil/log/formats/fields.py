"""Values as text and back, over whole columns: times, ranks, characters that line formats cannot hold.

>>> frame = pl.DataFrame({"time": ["2006-03-01 07:17:12", "2006-03-01T08:17:12.5+01:00", "yesterday"]})
>>> frame.select(iso_time("time")).to_series().to_list()
[datetime.datetime(2006, 3, 1, 7, 17, 12), datetime.datetime(2006, 3, 1, 7, 17, 12, 500000), None]
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

import polars as pl

from queryveil.log.problems import Rule
from queryveil.log.query_log import exactly
from queryveil.log.source import Block

SECONDS = "%Y-%m-%d %H:%M:%S"
WRITTEN_TIME = "%Y-%m-%dT%H:%M:%S%.f"
"""How csv, jsonl and ubi write a time: UTC, with as many decimals as it has (none, 3 or 6)."""

_SECONDS_SHAPE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}$"
_ISO = (
    r"^(?<date>[0-9]{4}-[0-9]{2}-[0-9]{2})(?:[T ](?<clock>[0-9]{2}:[0-9]{2})"
    r"(?::(?<second>[0-9]{2})(?:[.,](?<fraction>[0-9]{1,9}))?)?"
    r"(?: ?(?:[Zz]|UTC|(?<sign>[+-])(?<hours>[0-9]{2}):?(?<minutes>[0-9]{2})))?)?$"
)


def iso_time(column: str) -> pl.Expr:
    """ISO 8601 text as UTC, null where it is none; a time without a zone is taken for UTC, decimals past µs are cut."""
    part = pl.col(column).str.extract_groups(_ISO).struct
    whole = part["date"] + " " + part["clock"].fill_null("00:00") + ":" + part["second"].fill_null("00")
    micros = part["fraction"].fill_null("").str.pad_end(6, "0").str.slice(0, 6).cast(pl.Int64, strict=False)
    minutes = part["hours"].cast(pl.Int64, strict=False) * 60 + part["minutes"].cast(pl.Int64, strict=False)
    east = pl.when(part["sign"] == "-").then(-minutes).otherwise(minutes).fill_null(0)
    moment = whole.str.to_datetime(SECONDS, strict=False, time_unit="us")
    return in_calendar(moment + pl.duration(microseconds=micros) - pl.duration(minutes=east)).alias(column)


def plain_time(column: str) -> pl.Expr:
    """Text like 2006-03-01 07:17:12, null where it is anything else."""
    well_formed = pl.when(pl.col(column).str.contains(_SECONDS_SHAPE)).then(pl.col(column))
    return in_calendar(well_formed.str.to_datetime(SECONDS, strict=False, time_unit="us")).alias(column)


def in_calendar(moment: pl.Expr) -> pl.Expr:
    """Null outside the years 1 to 9999, the only ones that Python's own dates know."""
    return pl.when(moment.is_between(dt.datetime.min, dt.datetime.max)).then(moment)


def rank(column: str) -> pl.Expr:
    """Decimal digits as a rank, null where the text is empty or no such number."""
    digits = pl.when(pl.col(column).str.contains(r"^[0-9]{1,10}$")).then(pl.col(column))
    return digits.cast(pl.UInt32, strict=False).alias(column)


def given(column: str) -> pl.Expr:
    """True where the text holds something."""
    return pl.col(column).fill_null("") != ""


def holds_any_of(columns: Iterable[str], characters: str, reason: str) -> list[Rule]:
    """Rules against characters for which a format has no escape."""
    listed = "".join(f"\\x{{{ord(character):x}}}" for character in characters)
    return [Rule(column, reason, exactly(column).str.contains(f"[{listed}]")) for column in columns]


def stray_returns(block: Block, columns: Iterable[str]) -> list[Rule]:
    """Rules against carriage returns that are not part of a line end; none where the block has no return at all."""
    return holds_any_of(columns, "\r", "a carriage return inside the line") if b"\r" in block.data else []


def has_fraction() -> Rule:
    """Against times finer than a second."""
    fine = pl.col("time").dt.microsecond() != 0
    return Rule("time", "finer than a second; round it with time.dt.truncate('1s')", fine)


def outside_years(first: int, last: int) -> Rule:
    """Against times that would not fit the digits of the year."""
    early, late = pl.lit(dt.datetime(first, 1, 1)), pl.lit(dt.datetime(last, 12, 31, 23, 59, 59, 999999))
    return Rule("time", f"outside the years {first} to {last}", ~pl.col("time").is_between(early, late))

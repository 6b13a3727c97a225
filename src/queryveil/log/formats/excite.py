"""Excite's log: `user`, `yymmddhhmmss` and `query`, tab separated, without a header.

Two digits of a year from 70 on mean the 20th century, lower ones the 21st. Like AOL's, the format has no escapes, so a
value with a tab or a line end cannot be written. An empty time is read as no time.

Cost: one vectorised pass.

>>> import io
>>> from datetime import datetime
>>> from queryveil.log.query_log import QueryLog
>>> out = io.BytesIO()
>>> write(QueryLog.of([("ann", "tulip bulbs", datetime(1997, 9, 16, 12, 3, 4))]), out)
>>> out.getvalue().decode().split()
['ann', '970916120304', 'tulip', 'bulbs']
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import polars as pl

from queryveil.log.formats.format import (
    Declared,
    Findings,
    Format,
    Rule,
    given,
    has_fraction,
    holds_any_of,
    keep_first_mark,
    no_records,
    outside_years,
    real_moment,
    refuse_what_is_lost,
    rules_for_all,
    stray_returns,
    tab_cells,
)
from queryveil.log.query_log import QueryLog
from queryveil.log.source import Block, LogFile

COLUMNS = ("user", "query", "time")

_FIRST_LINE = re.compile(rb"[^\t\n]+\t[0-9]{12}\t[^\t\n]*\r?(\n|\Z)")
_DIGITS = "%y%m%d%H%M%S"
_FULL_DIGITS = "%Y%m%d%H%M%S"


def sniff(head: bytes, path: Path) -> bool:
    """Three columns, the second of twelve digits."""
    return _FIRST_LINE.match(head) is not None


def pieces(source: LogFile, found: Findings, declared: Declared) -> Iterator[pl.DataFrame]:
    """Every line that is a record, as canonical columns, block by block."""
    yield no_records(COLUMNS)
    for block in source.blocks():
        yield _records(block, found)


def _records(block: Block, found: Findings) -> pl.DataFrame:
    well_formed = pl.when(pl.col("digits").str.contains("^[0-9]{12}$")).then(pl.col("digits"))
    century = pl.when(pl.col("digits").str.slice(0, 2) >= "70").then(pl.lit("19")).otherwise(pl.lit("20"))
    moment = (century + well_formed).str.to_datetime(_FULL_DIGITS, strict=False, time_unit="us")
    time = real_moment(moment, pl.col("digits").str.ends_with("60")).alias("time")
    parsed = tab_cells(block, found, ("user", "digits", "query")).with_columns(time)
    rules = [
        Rule(None, "not 3 columns", pl.col("query").is_null() | pl.col("_more").is_not_null()),
        *rules_for_all(("user", "query")),
        *stray_returns(block, ("user", "query")),
        Rule("time", "not a time as yymmddhhmmss", given("digits") & pl.col("time").is_null()),
    ]
    return found.sift(parsed, rules, block.broken).select(COLUMNS)


def write(log: QueryLog, out: IO[bytes]) -> None:
    """One line per record, or `FormatError` for what the three columns cannot hold."""
    refuse_what_is_lost(
        log,
        "excite",
        columns=COLUMNS,
        instead="csv, jsonl or parquet",
        rules=[
            *holds_any_of(("user", "query"), "\t\n\r\0", "a tab, line end or NUL, for which Excite has no escape"),
            has_fraction(),
            outside_years(1970, 2069),
        ],
    )
    keep_first_mark(log, out)
    named = log.frame.select("user", pl.col("time").dt.to_string(_DIGITS), "query")
    named.write_csv(out, separator="\t", quote_style="never", include_header=False)


FORMAT = Format(
    name="excite",
    suffix=".excite.log",
    title="Excite's log: user, yymmddhhmmss, query, tab separated",
    columns=COLUMNS,
    extras=False,
    sniff=sniff,
    pieces=pieces,
    write=write,
    by_lines=True,
)

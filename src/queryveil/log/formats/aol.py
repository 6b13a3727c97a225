"""AOL's tab separated log of 2006: `AnonID Query QueryTime ItemRank ClickURL`, a row per click or clickless query.

Rows without a click lack the last two columns or leave them empty. The format has no quotes and no escapes, so a value
with a tab or a line end cannot be written. An empty time is read as no time, for logs whose times were dropped.

Cost: one vectorised pass; `benchmarks/io.py` measures it.

>>> import io
>>> from queryveil.log.query_log import QueryLog
>>> out = io.BytesIO()
>>> write(QueryLog.of([("ann", "tulip bulbs")]), out)
>>> out.getvalue().decode().split()
['AnonID', 'Query', 'QueryTime', 'ItemRank', 'ClickURL', 'ann', 'tulip', 'bulbs']
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import polars as pl

from queryveil.log.formats.format import (
    AOL_NAMES,
    SECONDS,
    Declared,
    Findings,
    Format,
    Rule,
    given,
    has_fraction,
    holds_any_of,
    no_records,
    outside_years,
    plain_time,
    rank,
    refuse_what_is_lost,
    rules_for_all,
    stray_returns,
)
from queryveil.log.query_log import QueryLog
from queryveil.log.source import LINE, Block, LogFile

COLUMNS = tuple(AOL_NAMES)
HEADER = "\t".join(AOL_NAMES.values())

_TIME = re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")


def sniff(head: bytes, path: Path) -> bool:
    """Its header, or a first line of three or five columns with a time in the third."""
    first = head.split(b"\n", 1)[0].rstrip(b"\r")
    cells = first.split(b"\t")
    return first == HEADER.encode() or (len(cells) in (3, 5) and _TIME.fullmatch(cells[2]) is not None)


def read(source: LogFile, found: Findings, declared: Declared) -> pl.DataFrame:
    """Every line that is a record, as canonical columns."""
    return pl.concat(pieces(source, found, declared))


def pieces(source: LogFile, found: Findings, declared: Declared) -> Iterator[pl.DataFrame]:
    """The same, block by block."""
    yield no_records(COLUMNS)
    for block in source.blocks():
        found.lines += block.line_count
        yield _records(block.lines(), block, found)


def _records(lines: pl.DataFrame, block: Block, found: Findings) -> pl.DataFrame:
    # AOL's log came in ten files, so a header may stand wherever two were put together.
    idle = lines["text"].is_in(["", HEADER])
    if idle.any():
        blank = int((lines["text"] == "").sum())
        if blank:
            found.note("blank lines left out", blank)
        lines = lines.filter(~idle)
    # One cell more than AOL has, to see lines with too many; cells that a line lacks are null.
    cells = lines.select(LINE, pl.col("text").str.split_exact("\t", 5).struct.rename_fields([*COLUMNS, "_more"]))
    parsed = cells.unnest("text").with_columns(
        rank("rank"),
        plain_time("time"),
        given("time").alias("_timed"),
        given("rank").alias("_ranked"),
        (
            pl.col("time").is_null()
            | pl.col("_more").is_not_null()
            | (pl.col("rank").is_not_null() & pl.col("url").is_null())
        ).alias("_count"),
    )
    rules = [
        Rule(None, "not 3 or 5 columns", pl.col("_count")),
        *rules_for_all(("user", "query", "url")),
        *stray_returns(block, ("user", "query", "url")),
        Rule("time", "not a time like 2006-03-01 07:17:12", pl.col("_timed") & pl.col("time").is_null()),
        Rule("rank", "not a whole number below 2^32", pl.col("_ranked") & pl.col("rank").is_null()),
    ]
    return found.sift(parsed, rules, block.broken).select(COLUMNS)


def write(log: QueryLog, out: IO[bytes]) -> None:
    """Header and rows, or `FormatError` for what AOL's columns cannot hold."""
    refuse_what_is_lost(
        log,
        "aol",
        columns=COLUMNS,
        instead="csv, jsonl or parquet",
        rules=[
            *holds_any_of(("user", "query", "url"), "\t\n\r\0", "a tab, line end or NUL, for which AOL has no escape"),
            has_fraction(),
            outside_years(1, 9999),
        ],
    )
    named = log.frame.select(pl.col(ours).alias(theirs) for ours, theirs in AOL_NAMES.items())
    named.write_csv(out, separator="\t", quote_style="never", datetime_format=SECONDS)


FORMAT = Format(
    name="aol",
    suffix=".tsv",
    title="AOL's tab separated log: AnonID Query QueryTime ItemRank ClickURL",
    columns=COLUMNS,
    extras=False,
    sniff=sniff,
    read=read,
    pieces=pieces,
    write=write,
    header_lines=1,
    by_lines=True,
)

"""Sogou's click logs (SogouQ): time, user, query, rank of the click, its place among the clicks, URL; tab separated.

Two layouts are read, told line by line by the time. That of 2012 has six columns and a time like `20111230000005`. That
of 2006 and 2008 has a time of day, the query in brackets, and rank and order in one column, a blank between:

    00:00:01    2982199073774412    [tulip bulbs]    8 3    tulips.example/bulbs

A time of day has no date, which the names of the files told: it is put on 1 January 1970, so that only differences
mean something. Times are local to China and taken as they are. The old files are in GB18030, which has to be declared;
those of 2012 are in UTF-8. The order of the clicks is checked and not kept.

Written is the layout of 2012 in UTF-8, without an order. There are no escapes. An empty time, rank or URL is none.

>>> import io
>>> from queryveil.log.query_log import QueryLog
>>> out = io.BytesIO()
>>> write(QueryLog.of([("ann", "tulips")]), out)
>>> out.getvalue()
b'\\tann\\ttulips\\t\\t\\t\\n'
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
    in_calendar,
    no_records,
    outside_years,
    rank,
    real_moment,
    refuse_what_is_lost,
    rules_for_all,
    stray_returns,
    tab_cells,
)
from queryveil.log.query_log import QueryLog
from queryveil.log.source import Block, LogFile

COLUMNS = ("user", "query", "time", "rank", "url")
NO_DATE = "times of day without a date were put on 1 January 1970"

_CELLS = ("digits", "user", "query", "place", "order", "url")
_FIRST_LINE = re.compile(
    rb"([0-9]{14}\t[^\t\n]+\t[^\t\n]*\t[0-9]*\t[0-9]*|[0-9]{2}(:[0-9]{2}){2}\t[0-9]+\t\[[^\t\n]*\]\t[0-9]+[ \t][0-9]+)"
    rb"\t[^\t\n]*\r?(\n|\Z)"
)
_DIGITS = "%Y%m%d%H%M%S"


def sniff(head: bytes, path: Path) -> bool:
    """A first line of either layout."""
    return _FIRST_LINE.match(head) is not None


def pieces(source: LogFile, found: Findings, declared: Declared) -> Iterator[pl.DataFrame]:
    """Every line that is a record, as canonical columns, block by block."""
    yield no_records(COLUMNS)
    for block in source.blocks():
        yield _records(block, found)


def _records(block: Block, found: Findings) -> pl.DataFrame:
    cells = tab_cells(block, found, _CELLS)
    of_day = pl.col("digits").str.contains("^[0-9]{2}:[0-9]{2}:[0-9]{2}$")
    if cells.select(of_day.any()).item():
        found.note(NO_DATE)
        cells = _as_in_2012(cells, of_day)
    whole = pl.when(pl.col("digits").str.contains("^[0-9]{14}$")).then(pl.col("digits"))
    moment = whole.str.to_datetime(_DIGITS, strict=False, time_unit="us")
    parsed = cells.with_columns(
        in_calendar(real_moment(moment, pl.col("digits").str.ends_with("60"))).alias("time"),
        rank("place").alias("rank"),
    )
    rules = [
        Rule(None, "not 5 or 6 columns", pl.col("url").is_null() | pl.col("_more").is_not_null()),
        *rules_for_all(("user", "query", "url")),
        *stray_returns(block, ("user", "query", "url")),
        Rule("time", "not a time like 20111230000005 or 00:00:05", given("digits") & pl.col("time").is_null()),
        Rule("rank", "not a whole number below 2^32", given("place") & pl.col("rank").is_null()),
        Rule(None, "the order of the click is no number", ~pl.col("order").str.contains("^[0-9]*$")),
    ]
    read = found.sift(parsed, rules, block.broken).select(COLUMNS)
    return read.with_columns(pl.when(pl.col("url") != "").then(pl.col("url")))


def _as_in_2012(cells: pl.DataFrame, of_day: pl.Expr) -> pl.DataFrame:
    """Lines of the old layout as the new one would have them; what is not in brackets there becomes no query."""
    rank_and_order = pl.col("place").str.split_exact(" ", 1).struct
    joined = of_day & pl.col("url").is_null()  # rank and order in one column
    return cells.with_columns(
        pl.when(of_day)
        .then("19700101" + pl.col("digits").str.replace_all(":", ""))
        .otherwise("digits")
        .alias("digits"),
        pl.when(of_day).then(pl.col("query").str.extract(r"^\[((?s).*)\]$")).otherwise("query").alias("query"),
        pl.when(joined).then(rank_and_order.field("field_0")).otherwise("place").alias("place"),
        pl.when(joined).then(rank_and_order.field("field_1")).otherwise("order").alias("order"),
        pl.when(joined).then("order").otherwise("url").alias("url"),
    )


def write(log: QueryLog, out: IO[bytes]) -> None:
    """One line per record, or `FormatError` for what Sogou's columns cannot hold."""
    texts = ("user", "query", "url")
    refuse_what_is_lost(
        log,
        "sogou",
        columns=COLUMNS,
        instead="csv, jsonl or parquet",
        rules=[
            *holds_any_of(texts, "\t\n\r\0", "a tab, line end or NUL, for which Sogou's log has no escape"),
            Rule("url", "empty, which is read as none", pl.col("url") == ""),
            has_fraction(),
            outside_years(1, 9999),
        ],
    )
    named = log.frame.select(
        pl.col("time").dt.to_string(_DIGITS), "user", "query", "rank", pl.lit("").alias("order"), "url"
    )
    named.with_columns(pl.exclude("user", "query").cast(pl.String).fill_null("")).write_csv(
        out, separator="\t", quote_style="never", include_header=False
    )


FORMAT = Format(
    name="sogou",
    suffix=".sogou.tsv",
    title="Sogou's click log: time, user, query, rank, order, URL, tab separated",
    columns=COLUMNS,
    extras=False,
    sniff=sniff,
    pieces=pieces,
    write=write,
)

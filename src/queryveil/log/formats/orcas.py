"""ORCAS, the clicks of MS MARCO and TREC's deep learning track: query id, query, document id and URL, tab separated.

The file (`orcas.tsv`) has no header, no times and no users: its publisher summed it up over people and left out what
fewer than k of them asked. The id of the query stands in the column of users, so that a query's clicks stay together,
and a release that promises something to a person is refused: no row says whose it is. Document ids are not read;
written, they are empty. There are no escapes, so a value with a tab or a line end cannot be written.

>>> import io
>>> from queryveil.log.query_log import QueryLog
>>> out = io.BytesIO()
>>> write(QueryLog.of([("7", "tulips", None, None, "http://tulips.example")]), out)
>>> out.getvalue().decode().split("\\t")
['7', 'tulips', '', 'http://tulips.example\\n']
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
    holds_any_of,
    keep_first_mark,
    no_records,
    refuse_what_is_lost,
    rules_for_all,
    stray_returns,
    tab_cells,
)
from queryveil.log.query_log import QueryLog
from queryveil.log.source import LogFile

COLUMNS = ("user", "query", "url")
NOBODY = "no row says who asked: the query's id stands for a user, and nothing can be promised to a person"

_CELLS = ("user", "query", "document", "url")
_FIRST_LINE = re.compile(rb"[0-9]+\t[^\t\n]+\tD[0-9]+\thttps?://[^\t\n]*\r?(\n|\Z)")


def sniff(head: bytes, path: Path) -> bool:
    """Four columns: a number, a text, a document of MS MARCO and a web address."""
    return _FIRST_LINE.match(head) is not None


def pieces(source: LogFile, found: Findings, declared: Declared) -> Iterator[pl.DataFrame]:
    """Every line that is a record, as canonical columns, block by block."""
    found.note(NOBODY)
    yield no_records(COLUMNS)
    for block in source.blocks():
        cells = tab_cells(block, found, _CELLS)
        rules = [
            Rule(None, "not 4 columns", pl.col("url").is_null() | pl.col("_more").is_not_null()),
            *rules_for_all(COLUMNS),
            *stray_returns(block, _CELLS),
        ]
        read = found.sift(cells, rules, block.broken).select(COLUMNS)
        yield read.with_columns(pl.when(pl.col("url") != "").then(pl.col("url")))


def write(log: QueryLog, out: IO[bytes]) -> None:
    """One line per record, or `FormatError` for what the columns cannot hold."""
    no_escape = holds_any_of(COLUMNS, "\t\n\r\0", "a tab, line end or NUL, for which ORCAS has no escape")
    empty = Rule("url", "empty, which is read as none", pl.col("url") == "")
    refuse_what_is_lost(log, "orcas", columns=COLUMNS, instead="csv, jsonl or parquet", rules=[*no_escape, empty])
    keep_first_mark(log, out)
    named = log.frame.select("user", "query", pl.lit("").alias("document"), pl.col("url").fill_null(""))
    named.write_csv(out, separator="\t", quote_style="never", include_header=False)


FORMAT = Format(
    name="orcas",
    suffix=".orcas.tsv",
    title="ORCAS and MS MARCO clicks: query id, query, document id, URL, tab separated; no users",
    columns=COLUMNS,
    extras=False,
    sniff=sniff,
    pieces=pieces,
    write=write,
    stands_for_user="query",
    prefixes=("orcas.tsv",),
)

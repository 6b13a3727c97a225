"""Solr's log (`solr.log`): requests are lines with `params={…}`, in which the query is the parameter `q`.

    2026-03-01 07:17:12.255 INFO  (qtp1-11) [ x:shop] o.a.s.c.S.Request webapp=/solr path=/select
    params={q=tulip+bulbs&user=ann} hits=12 status=0 QTime=3                                      (one line)

Solr knows no users: who it was is a parameter that the application sends along, `user` unless another is declared, and
a request without it is bad. Where the typed text is in another parameter (`{!edismax v=$typed}`), declare that for the
query. Of a parameter that stands twice the first counts, as for Solr itself. Values are percent-encoded UTF-8.

Lines that are no requests, requests without a query, and those of one node to another (`isShard=true`), which repeat a
search, are left out and counted. Times are taken for UTC. `hits` and `status` are read as extra columns where they are
asked for, text as they are there. Jetty's request log is an access log: read it as such.

Cost: one compiled pass over the bytes.

>>> import io
>>> from datetime import datetime
>>> from queryveil.log.query_log import QueryLog
>>> out = io.BytesIO()
>>> write(QueryLog.of([("ann", "50 % off", datetime(2026, 3, 1))]), out)
>>> out.getvalue().decode().split()[-4:]
['params={q=50+%25+off&user=ann}', 'hits=0', 'status=0', 'QTime=0']
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
import polars as pl

from queryveil.log.formats.format import (
    Declared,
    Findings,
    Format,
    Rule,
    no_records,
    outside_years,
    refuse_what_is_lost,
    rules_for_all,
)
from queryveil.log.query_log import QueryLog, exactly
from queryveil.log.source import LINE, Block, LogFile

COLUMNS = ("user", "query", "time")
COUNTS = ("hits", "status")

_REQUEST = re.compile(
    rb"^[^\n]*[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9:.]+[^\n]* params=\{[^\n]* status=[0-9]+ QTime=[0-9]+", re.M
)
_WRITTEN = "%Y-%m-%d %H:%M:%S%.f"
_WORDS = (b"INFO  - ", b" params={", b"isShard=true")
_ESCAPES = {chr(code): f"%{code:02X}" for code in range(32)} | {
    "%": "%25", "&": "%26", "=": "%3D", "+": "%2B", " ": "+", "}": "%7D",
}  # fmt: skip


def sniff(head: bytes, path: Path) -> bool:
    """A request of Solr among the first lines."""
    return b"webapp=" in head and _REQUEST.search(head) is not None


def pieces(source: LogFile, found: Findings, declared: Declared) -> Iterator[pl.DataFrame]:
    """Every request with a query and a user, as canonical columns, block by block."""
    wanted = [name for name in COUNTS if name in declared.extras]
    yield no_records(COLUMNS).with_columns(pl.lit("").alias(name) for name in wanted)
    for block in source.blocks():
        found.lines += block.line_count
        yield _records(block, found, declared, wanted)


def _records(block: Block, found: Findings, declared: Declared, wanted: list[str]) -> pl.DataFrame:
    from queryveil.log.formats import _line_kernel as kernel  # Numba takes a second to import: only who reads pays
    from queryveil.log.formats._json_columns import Pieces, percent_decoded

    lines, numbers = Pieces.lines_of(block)
    names = [declared.columns.get(name, usual) for name, usual in (("user", "user"), ("query", "q"))]
    froms, tos = (np.zeros((len(lines), 3), np.int64) for _ in range(2))
    kinds = np.zeros(len(lines), np.uint8)
    kernel.solr_lines(lines.data, lines.starts, lines.stops, *_joined(_WORDS), *_joined(names), froms, tos, kinds)
    asked = (kinds == kernel.REQUEST) & (froms[:, 2] > 0) & (tos[:, 2] > froms[:, 2])
    broken = np.isin(numbers, list(block.broken))
    for idle, why in (
        (kinds == kernel.OTHER, "lines that are no requests left out"),
        (kinds == kernel.SHARD_REQUEST, "requests of one node to another left out"),
        ((kinds == kernel.REQUEST) & ~asked, "requests without a query left out"),
    ):
        if count := int((idle & ~broken).sum()):
            found.note(why, count)
    chosen = np.flatnonzero(asked | broken)
    columns = [percent_decoded(lines.data, froms[chosen, place], tos[chosen, place]) for place in (1, 2)]
    frame = pl.DataFrame(
        {
            LINE: pl.Series(numbers[chosen], dtype=pl.UInt32),
            "user": columns[0][0],
            "query": columns[1][0],
            "time": Pieces.of(lines.data, froms[chosen, 0], tos[chosen, 0]).times(),
            "_unreadable": ~(columns[0][1] & columns[1][1]),
        }
    )
    if wanted:
        rests = Pieces.of(lines.data, tos[chosen].max(axis=1), lines.stops[chosen]).texts()
        frame = frame.with_columns(rests.str.extract(rf"\}} (?:.* )?{name}=([0-9]+)").alias(name) for name in wanted)
    rules = [
        Rule(None, "not percent-encoded UTF-8", pl.col("_unreadable")),
        Rule("time", "not a time like 2026-03-01 07:17:12.255", pl.col("time").is_null()),
        Rule("user", "no parameter says who asked (columns maps user to the one that does)", pl.col("user").is_null()),
        *rules_for_all(COLUMNS),
    ]
    return found.sift(frame, rules, block.broken).select(*COLUMNS, *wanted)


def _joined(words: tuple[bytes, ...] | list[str]) -> tuple[np.ndarray, np.ndarray]:
    """Words one after the other, and where each ends."""
    encoded = [word if isinstance(word, bytes) else word.encode() for word in words]
    return np.frombuffer(b"".join(encoded), np.uint8), np.cumsum([len(word) for word in encoded])


def write(log: QueryLog, out: IO[bytes]) -> None:
    """A request per record, or `FormatError` for what the log cannot hold."""
    no_time = Rule("time", "missing, and every line of Solr's log has one", pl.col("time").is_null())
    odd = [Rule(name, "no number", ~pl.col(name).str.contains("^[0-9]+$")) for name in COUNTS]
    refuse_what_is_lost(
        log,
        "solr",
        columns=(*COLUMNS, *COUNTS),
        instead="csv, jsonl or parquet",
        rules=[no_time, outside_years(2, 9998), *odd],
    )
    frame = log.frame
    encoded = {name: pl.col(name).str.replace_many(_ESCAPES) for name in ("user", "query")}
    counts = {name: exactly(name).fill_null("0") if name in frame.columns else pl.lit("0") for name in COUNTS}
    line = pl.concat_str(
        pl.col("time").dt.to_string(_WRITTEN),
        pl.lit(" INFO  (qtp1-1) [ x:core] o.a.s.c.S.Request webapp=/solr path=/select params={q="),
        encoded["query"],
        pl.lit("&user="),
        encoded["user"],
        pl.lit("} hits="),
        counts["hits"],
        pl.lit(" status="),
        counts["status"],
        pl.lit(" QTime=0\n"),
    )
    out.write("".join(frame.select(line).to_series()).encode())


FORMAT = Format(
    name="solr",
    suffix=".solr.log",
    title="Solr's log: requests with params={q=…}",
    columns=COLUMNS,
    extras=False,
    optional=COUNTS,
    sniff=sniff,
    pieces=pieces,
    write=write,
    header_lines=0,
    needs_time=True,
    prefixes=("solr.log",),
    mapped=("user", "query"),
)

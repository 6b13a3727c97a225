"""Access logs of Apache and nginx (combined, or common): searches are requests with a search parameter.

The query is the value of the first of `q, query, s, search, searchword, k, keyword` that the URL gives a value to, in
this order whatever the order in the URL. Requests without such a value are no searches and are counted in a note. Times
become UTC.

The user is the address alone. The agent changes with every update of a browser, so that address and agent together make
one person many, and what k "different" people asked was asked by one. Taking several people behind one address for one
errs the other way: less is published. A note says what was taken for a person.

Written: one GET of /search per record, with the user for the address and no agent.

Cost: one compiled pass over the bytes (`_access_kernel`). Short files, and lines with escapes, go by patterns, and a
loop over the distinct URLs of searches; what a line means is decided there, and the compiled way says the same.

>>> wanted("/find?s=1&q=tulip+bulbs%21", "utf-8")
'tulip bulbs!'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO
from urllib.parse import quote_plus, unquote_to_bytes

import numpy as np
import polars as pl

from queryveil.log.formats.format import (
    Declared,
    Findings,
    Format,
    Rule,
    has_fraction,
    in_calendar,
    keep_first_mark,
    no_records,
    outside_years,
    real_moment,
    refuse_what_is_lost,
    rules_for_all,
    write_lines,
)
from queryveil.log.query_log import QueryLog
from queryveil.log.source import LINE, Block, LogFile

COLUMNS = ("user", "query", "time")
SEARCH_PARAMETERS = ("q", "query", "s", "search", "searchword", "k", "keyword")

_QUOTED = r'"((?:[^"\\]|\\.)*)"'
_LINE = (
    r"^(?<address>[^ ]+) [^ ]+ [^ ]+ \[(?<time>[^\]]*)\] "
    + _QUOTED.replace("(", "(?<request>", 1)
    + r" [0-9]{3} (?:[0-9]+|-)(?: "
    + _QUOTED.replace("(", "(?:", 1)
    + " "
    + _QUOTED.replace("(", "(?:", 1)
    + r")?(?: .*)?$"
)
_FIRST_LINE = re.compile(rb'[^ \n]+ [^ \n]+ [^ \n]+ \[[^\]\n]+\] "[^\n]*" [0-9]{3} ')
_SEARCH = r"^[A-Za-z]+ ([^ ]*\?[^ ]*)(?: HTTP/[0-9.]+)?$"
_TIME = "%d/%b/%Y:%H:%M:%S"
_ESCAPE = re.compile(rb'\\(?:x([0-9A-Fa-f]{2})|(["\\bnrtvf]))')
_LETTERS = {b"b": b"\b", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v", b"f": b"\f"}
_UNREADABLE = ""
_TAKEN_FOR_A_PERSON = (
    "each address was taken for one person: people who share one count as one, a person with several counts as several"
)


def sniff(head: bytes, path: Path) -> bool:
    """A first line with address, time in brackets, quoted request and status."""
    return _FIRST_LINE.match(head) is not None


def read(source: LogFile, found: Findings, declared: Declared) -> pl.DataFrame:
    """Every request that is a search, as canonical columns."""
    return pl.concat(pieces(source, found, declared))


def pieces(source: LogFile, found: Findings, declared: Declared) -> Iterator[pl.DataFrame]:
    """The same, block by block."""
    found.note(_TAKEN_FOR_A_PERSON)
    yield no_records(COLUMNS)
    encoding = "latin-1" if source.encoding == "latin-1" else "utf-8"
    for block in source.blocks():
        found.lines += block.line_count
        compiled = block.is_long and encoding == "utf-8"
        parts = _plain_parts(block) if compiled else _parts(block.lines().filter(pl.col("text") != ""), encoding)
        yield _records(parts, block.broken, found)


def _parts(lines: pl.DataFrame, encoding: str) -> pl.DataFrame:
    """Address, time and query of lines by patterns; no address where a line is none of an access log."""
    parts = lines.select(LINE, pl.col("text").str.extract_groups(_LINE)).unnest("text")
    parts = parts.with_columns(pl.col("request").str.extract(_SEARCH).alias("target"), _moment("time"))
    query = _of_distinct(parts["target"], lambda target: wanted(target, encoding)).alias("query")
    return parts.select(LINE, "address", "time", query)


def _moment(column: str) -> pl.Expr:
    moment = pl.col(column).str.to_datetime(f"{_TIME} %z", strict=False, time_unit="us").dt.replace_time_zone(None)
    return in_calendar(real_moment(moment, pl.col(column).str.contains(":60 ", literal=True))).alias(column)


def _plain_parts(block: Block) -> pl.DataFrame:
    """The same by one compiled pass; lines with escapes go by patterns."""
    from queryveil.log.formats import _access_kernel as kernel  # which takes Numba: short files need none
    from queryveil.log.formats import _bytes_kernel as of_bytes
    from queryveil.log.formats._json_columns import Pieces, percent_decoded

    lines, numbers = Pieces.lines_of(block)
    froms, tos = (np.empty((3, len(lines)), np.int64) for _ in range(2))
    kinds = np.empty(len(lines), np.uint8)
    words = [name.encode() for name in SEARCH_PARAMETERS]
    names = np.frombuffer(b"".join(words), np.uint8), np.cumsum([len(word) for word in words])
    kernel.access_lines(lines.data, lines.starts, lines.stops, *names, froms, tos, kinds)
    present = np.where(kinds != kernel.OTHER, of_bytes.TEXT, of_bytes.ABSENT).astype(np.uint8)
    address, time = (Pieces(lines.data, froms[place], tos[place], present) for place in (0, 1))
    query, readable = percent_decoded(lines.data, froms[kernel.QUERY], tos[kernel.QUERY], strict=False)
    if not readable.all():
        query = query.scatter(np.flatnonzero(~readable), _UNREADABLE)
    parts = pl.DataFrame(
        {
            LINE: pl.Series(numbers, dtype=pl.UInt32),
            "address": address.texts(),
            "time": time.moments(of_bytes.clock_times, _moment),
            "query": query,
        }
    )
    escaped = kinds == kernel.ESCAPED_REQUEST
    if not escaped.any():
        return parts
    texts = lines[escaped].texts().str.strip_suffix("\r")
    others = _parts(pl.DataFrame({LINE: parts[LINE].filter(pl.Series(escaped)), "text": texts}), "utf-8")
    return pl.concat([parts.filter(pl.Series(~escaped)), others]).sort(LINE)


def _records(parts: pl.DataFrame, broken: Mapping[int, str], found: Findings) -> pl.DataFrame:
    no_search = pl.col("address").is_not_null() & pl.col("query").is_null() & pl.col("time").is_not_null()
    if broken:
        no_search &= ~pl.col(LINE).is_in(list(broken))
    idle = parts.select(no_search.alias("idle"))["idle"]
    if others := int(idle.sum()):
        found.note("requests without a search parameter left out", others)
        parts = parts.filter(~idle)
    searches = parts.rename({"address": "user"})
    rules = [
        Rule(None, "not a line of a combined or common access log", pl.col("user").is_null()),
        Rule("time", "not a time like 01/Mar/2006:07:17:12 +0000", pl.col("time").is_null()),
        Rule("query", "not UTF-8; if it is Latin-1, say so with encoding latin-1", pl.col("query") == _UNREADABLE),
        *rules_for_all(("user", "query")),
    ]
    return found.sift(searches, rules, broken).select(COLUMNS)


def wanted(target: str, encoding: str) -> str | None:
    """The search text of a URL: None where there is none, empty where its bytes are not in the encoding."""
    _, _, parameters = _unescaped(target).partition(b"?")
    values: dict[bytes, bytes] = {}
    for pair in parameters.partition(b"#")[0].split(b"&"):
        name, _, value = pair.partition(b"=")
        if value:
            values.setdefault(unquote_to_bytes(name), value)
    for parameter in SEARCH_PARAMETERS:
        if text := values.get(parameter.encode()):
            try:
                return unquote_to_bytes(text.replace(b"+", b" ")).decode(encoding)
            except UnicodeDecodeError:
                return _UNREADABLE
    return None


def _unescaped(text: str) -> bytes:
    def byte(match: re.Match[bytes]) -> bytes:
        code, letter = match.groups()
        return bytes.fromhex(code.decode()) if code else _LETTERS.get(letter, letter)

    return _ESCAPE.sub(byte, text.encode())


def _of_distinct(column: pl.Series, function: Callable[[str], str | None]) -> pl.Series:
    distinct = column.drop_nulls().unique()
    answers = pl.Series("answer", [function(text) for text in distinct], dtype=pl.String)
    table = pl.DataFrame([distinct, answers])
    return column.to_frame().join(table, on=column.name, how="left", maintain_order="left")["answer"]


def write(log: QueryLog, out: IO[bytes]) -> None:
    """One line per record, or `FormatError` for what an access log cannot hold."""
    refuse_what_is_lost(
        log,
        "access",
        columns=COLUMNS,
        instead="csv, jsonl or parquet",
        rules=[
            Rule(
                "user",
                "not an address without blanks and control characters",
                ~pl.col("user").str.contains(r"^[^\x00-\x20\x7f]+$"),
            ),
            Rule("time", "missing, and every line of an access log has one", pl.col("time").is_null()),
            has_fraction(),
            outside_years(1, 9999),
        ],
    )
    keep_first_mark(log, out)
    write_lines(out, _lines(log))


def _lines(log: QueryLog) -> Iterable[bytes]:
    times = log.frame["time"].dt.to_string(_TIME)
    for user, query, time in zip(log.frame["user"], log.frame["query"], times, strict=True):
        request = f"GET /search?q={quote_plus(query)} HTTP/1.1"
        yield f'{user} - - [{time} +0000] "{request}" 200 0 "-" "-"\n'.encode()


FORMAT = Format(
    name="access",
    suffix=".access.log",
    title="Access log of Apache or nginx; searches are requests with a search parameter",
    columns=COLUMNS,
    extras=False,
    sniff=sniff,
    read=read,
    pieces=pieces,
    write=write,
    by_lines=True,
    needs_time=True,
)

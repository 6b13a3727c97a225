"""Search slow logs of OpenSearch and Elasticsearch: JSON (`slowlog`), or the plain text of older versions.

A line tells of a search on one shard that took long, with its request body (`source`) in the query language. What
somebody typed is in one of its clauses. Unless one is declared, the first of these that the search has counts:
`match, multi_match, query_string, simple_query_string, combined_fields, match_phrase, match_phrase_prefix,
match_bool_prefix, term`. A declared one (`query` mapped to `multi_match`, or to `match.title` for one field) is the
only one. Clauses below `filter`, `must_not`, `negative` and `functions` are conditions of the application and are not
looked at. A search without such a text is left out and counted.

Who it was is what the application sent as `X-Opaque-Id`: `elasticsearch.slowlog.id` or `id`. Another key of JSON can be
declared. Whether it stands for a person is for the holder to know: many applications send an id of their own, or one a
request. A line without it is bad. A search on several shards, or slow in both phases, is several lines and records.

In plain text the source ends at the last `], id[`, so that nothing in it can pass for an id; a line whose source is
then no JSON, or whose id holds a bracket, is bad. Times without a zone are taken for UTC.

Cost: one compiled pass over the line and one over its source (`_json_columns`).

>>> import io
>>> from queryveil.log.query_log import QueryLog
>>> out = io.BytesIO()
>>> write(QueryLog.of([("ann", "tulips")]), out)
>>> print(out.getvalue().decode().strip())  # doctest: +ELLIPSIS
{"@timestamp":null,...,"elasticsearch.slowlog.source":"{\\"query\\":{\\"match\\":{\\"text\\":{\\"query\\":\\"tulips\\"}}}}"}
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import partial, reduce
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np
import polars as pl

from queryveil.errors import UsageError
from queryveil.log.formats.format import (
    WRITTEN_TIME,
    Declared,
    Findings,
    Format,
    Rule,
    holds_any_of,
    no_records,
    not_given,
    outside_years,
    refuse_what_is_lost,
    rules_for_all,
)
from queryveil.log.formats.json_keys import TWICE
from queryveil.log.formats.json_lines import first_object
from queryveil.log.query_log import QueryLog
from queryveil.log.source import LINE, Block, LogFile

if TYPE_CHECKING:
    from queryveil.log.formats._json_columns import Pieces  # which takes Numba: only who reads pays

COLUMNS = ("user", "query", "time")
OF_FIELDS = ("match", "match_phrase", "match_phrase_prefix", "match_bool_prefix")
"""Clauses that hold a text for a field, or an object with a `query` for one."""
OF_TERMS = ("term", "prefix", "wildcard", "fuzzy", "regexp")
"""The same with a `value`."""
WHOLE = ("multi_match", "query_string", "simple_query_string", "combined_fields")
"""Clauses with a `query` of their own."""
USUAL = ("match", *WHOLE, *OF_FIELDS[1:], "term")
CONDITIONS = ("filter", "must_not", "negative", "functions")

_USERS = ("elasticsearch.slowlog.id", "id")
_SOURCES = ("elasticsearch.slowlog.source", "source")
_TIMES = ("@timestamp", "timestamp")
_NO_ID = ("", "null")  # some versions write a missing one so
_FIRST_LINE = re.compile(
    rb"\[[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:,]+\]\[[A-Z ]+\]\[i(ndex)?\.s(earch)?\.s(lowlog)?[^\n]*source\["
)
_BEFORE = "][INFO ][index.search.slowlog.query] [node] [index][0] took[0s], took_millis[0], total_hits[0 hits], "
_BEFORE += "stats[], search_type[QUERY_THEN_FETCH], total_shards[1], source["


def sniff(head: bytes, path: Path) -> bool:
    """A first object with a source, of a log of slow searches."""
    first = first_object(head)
    return _SOURCES[0] in first or ("source" in first and first.get("type") == "index_search_slowlog")


def pieces(source: LogFile, found: Findings, declared: Declared, *, text: bool) -> Iterator[pl.DataFrame]:
    """Every slow search with a text and a user, as canonical columns, block by block."""
    from queryveil.log.formats import _json_kernel as kernel
    from queryveil.log.formats._json_columns import TEXT as TYPED
    from queryveil.log.formats._json_columns import Pieces, find

    paths = paths_to_text(declared.columns.get("query"))
    yield no_records(COLUMNS)
    for block in source.blocks():
        found.lines += block.line_count
        lines, numbers = Pieces.lines_of(block)
        states = np.zeros(len(lines), np.uint8)
        if text:
            moment, body, user, states = _parts(lines)
        else:
            users = (declared.columns["user"],) if "user" in declared.columns else _USERS
            keys = find(lines, {key: (key,) for key in dict.fromkeys((*users, *_SOURCES, *_TIMES))})
            moment, body, user = (
                reduce(lambda mine, other: mine.or_else(other), [keys[key] for key in names])
                for names in (_TIMES, _SOURCES, users)
            )
            states = keys.states
        search = find(body.read(kernel.OBJECT), paths, below="query", outside=CONDITIONS)
        frame = pl.DataFrame(
            {
                LINE: pl.Series(numbers, dtype=pl.UInt32),
                "user": user.texts(numbers=True),
                "query": search[TYPED].texts(),
                "time": moment.times(),
                "_state": states,
                "_source": search.states != kernel.GOOD,
                "_timed": ~moment.is_any_of(kernel.ABSENT, kernel.NULL),
            }
        ).with_columns(pl.when(~pl.col("user").is_in(_NO_ID)).then(pl.col("user")))
        rules = [
            Rule(None, "not a line of a slow log", pl.col("_state") == kernel.NO_OBJECT),
            Rule(None, TWICE, pl.col("_state") == kernel.KEY_TWICE),
            Rule(None, "the source is not a JSON object", pl.col("_source")),
            Rule("time", "not an ISO 8601 time", pl.col("_timed") & pl.col("time").is_null()),
            *rules_for_all(COLUMNS),
            *(holds_any_of(["user"], "[]", "a bracket in the id") if text else ()),
        ]
        yield found.sift(_searches(frame, block, found), rules, block.broken).select(COLUMNS)


def _searches(frame: pl.DataFrame, block: Block, found: Findings) -> pl.DataFrame:
    """Without searches that have no text, which are nothing wrong and are counted."""
    idle = (pl.col("_state") == 0) & ~pl.col("_source") & pl.col("query").is_null()
    if block.broken:
        idle &= ~pl.col(LINE).is_in(list(block.broken))
    if others := int(frame.select(idle.sum()).item()):
        found.note("searches without a text in a clause that is looked at left out", others)
        return frame.filter(~idle)
    return frame


def paths_to_text(clause: str | None) -> dict[str, tuple[str, ...]]:
    """The ends of the ways to the text in the query language, in the order in which a search is asked for them.

    >>> paths_to_text("match.title")
    {'match title query': ('match', 'title', 'query'), 'match title ': ('match', 'title')}
    """
    name, dot, field = (clause or "").partition(".")
    known = (*OF_FIELDS, *OF_TERMS, *WHOLE)
    if clause and (name not in known or (dot and (not field or name in WHOLE))):
        listed = ", ".join(sorted(known))
        raise UsageError(f"columns maps query to no clause that holds a text. The clauses are: {listed}.")
    paths: dict[str, tuple[str, ...]] = {}
    for each in [name] if name else USUAL:
        inner = "value" if each in OF_TERMS else "query"
        for way in [(each, inner)] if each in WHOLE else [(each, field, inner), (each, field)]:
            paths[f"{each} {field} {inner if way[-1] == inner else ''}"] = way
    return paths


def _parts(lines: Pieces) -> tuple[Pieces, Pieces, Pieces, np.ndarray]:
    """Time, source, id and state of lines of plain text."""
    from queryveil.log.formats import _json_kernel, _line_kernel
    from queryveil.log.formats._json_columns import Pieces

    froms, tos = (np.zeros((len(lines), 3), np.int64) for _ in range(2))
    good = np.zeros(len(lines), np.bool_)
    words = (np.frombuffer(word, np.uint8) for word in (b", source[", b"], id["))
    _line_kernel.slow_lines(lines.data, lines.starts, lines.stops, *words, froms, tos, good)
    kinds = np.where((froms > 0) & good[:, None], _json_kernel.TEXT, _json_kernel.ABSENT).astype(np.uint8)
    columns = zip(froms.T.copy(), tos.T.copy(), kinds.T.copy(), strict=True)
    moment, body, user = (Pieces(lines.data, *each) for each in columns)
    return moment, body, user, np.where(good, _json_kernel.GOOD, _json_kernel.NO_OBJECT).astype(np.uint8)


def write(log: QueryLog, out: IO[bytes], *, text: bool = False) -> None:
    """A search with one `match` per record, or `FormatError` for what a slow log cannot hold."""
    no_id = Rule("user", "a text that is read as no id", pl.col("user").is_in(_NO_ID))
    brackets = holds_any_of(["user"], "[]\n\r\0", "a bracket, line end or NUL, for which plain text has no escape")
    no_time = Rule("time", "missing, and every line of plain text has one", pl.col("time").is_null())
    refuse_what_is_lost(
        log,
        "slowlog-text" if text else "slowlog",
        columns=COLUMNS,
        instead="csv, jsonl or parquet",
        rules=[no_id, outside_years(2, 9998), *([*brackets, no_time] if text else [])],
    )
    body = pl.col("query")
    for name in ("query", "text", "match", "query"):
        body = pl.struct(body.alias(name))
    body, moment = body.struct.json_encode(), pl.col("time").dt.to_string(WRITTEN_TIME)
    if text:
        moment = moment.str.replace(".", ",", literal=True)
        line = pl.concat_str(pl.lit("["), moment, pl.lit(_BEFORE), body, pl.lit("], id["), "user", pl.lit("], "))
        out.write("".join(f"{each}\n" for each in log.frame.select(line).to_series()).encode())
        return
    log.frame.select(
        (moment + "Z").alias("@timestamp"),
        pl.lit("elasticsearch.index_search_slowlog").alias("event.dataset"),
        pl.col("user").alias(_USERS[0]),
        body.alias(_SOURCES[0]),
    ).write_ndjson(out)


FORMAT = Format(
    name="slowlog",
    suffix="_index_search_slowlog.json",
    title="Search slow log of OpenSearch or Elasticsearch, JSON",
    columns=COLUMNS,
    extras=False,
    sniff=sniff,
    pieces=partial(pieces, text=False),
    write=write,
    header_lines=0,
    mapped=("user", "query"),
)

TEXT = replace(
    FORMAT,
    name="slowlog-text",
    suffix="_index_search_slowlog.log",
    title="Search slow log of OpenSearch or Elasticsearch, plain text",
    sniff=lambda head, path: _FIRST_LINE.match(head) is not None,
    read=not_given,
    pieces=partial(pieces, text=True),
    write=partial(write, text=True),
    needs_time=True,
    mapped=("query",),
)

"""User Behavior Insights 1.3 of OpenSearch, as JSON Lines: queries joined with the events that name them.

Read from a folder with `ubi_queries*.jsonl` and `ubi_events*.jsonl`, from one of such two files (the other is found
beside it), or from one file that mixes both kinds: an object with `action_name` is an event. An event whose
`action_name` holds "click" is a click: its `position.ordinal` is the rank, its `object.object_id` the url. The session
is the event's; a query without a click takes the session of its first event. Times with a zone become UTC; a number is
taken for milliseconds of 1970.

Who it was is said by one declared field, `client_id` as in UBI's specification or `user_id`, and every line speaks for
its own user alone: a click counts only for the query of the same user with the same `query_id`, whoever else has one of
that id, and a line without the field is a problem. Otherwise one person's events would change what another is taken to
have searched for. A person with several ids counts as several.

The results that a query showed (`query_response_hit_ids`) are read where they are asked for, as the column `shown`.
Nothing else is read, so that nothing else can be written: `message`, `trail`, `query_attributes` and the `user_query`
that events repeat all carry the text that a mechanism protects in one place only.

Written: one file, per record a query with its number for `query_id`, followed by an event for a click (`click`) or for
a session without a click (`search`). UBI demands a time of every event.

Cost: one pass and two joins; memory in the number of queries and events.

>>> import io
>>> from queryveil.log.query_log import QueryLog
>>> out = io.BytesIO()
>>> write(QueryLog.of([("ann", "tulips")]), out)
>>> out.getvalue()
b'{"query_id":"1","client_id":"ann","user_query":"tulips"}\\n'
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import msgspec
import polars as pl

from queryveil.log.formats.format import (
    WRITTEN_TIME,
    Declared,
    Findings,
    Format,
    Rule,
    given,
    iso_time,
    outside_years,
    rank,
    refuse_what_is_lost,
    rules_for_all,
    write_lines,
)
from queryveil.log.formats.json_lines import decoded_lines, first_object
from queryveil.log.query_log import COLUMNS, QueryLog
from queryveil.log.shown import SHOWN, as_text, is_no_list, results
from queryveil.log.source import LINE, Block, LogFile

QUERIES, EVENTS = "ubi_queries", "ubi_events"
HITS = "query_response_hit_ids"

_ENCODER = msgspec.json.Encoder()
_MILLISECONDS_LIMIT = 253_402_300_800_000  # the year 10000


class _Line(msgspec.Struct, gc=False):
    """The fields that are read, of queries and events alike; msgspec drops all others unseen."""

    user: Any = None
    action_name: Any = None
    query_id: Any = None
    session_id: Any = None
    timestamp: Any = None
    user_query: Any = None
    event_attributes: Any = None


class _OfClient(_Line, gc=False):
    """Lines whose client is the user."""

    user: Any = msgspec.field(default=None, name="client_id")


class _OfUser(_Line, gc=False):
    """Lines whose user_id is the user."""

    user: Any = msgspec.field(default=None, name="user_id")


def _decoder(declared: Declared) -> msgspec.json.Decoder[_Line]:
    """Of lines with the fields that were declared."""
    line: Any = {"client_id": _OfClient, "user_id": _OfUser}[declared.user_field]
    if SHOWN in declared.extras:
        hits: Any = msgspec.field(default=None, name=HITS)
        line = msgspec.defstruct("_WithHits", [("hits", Any, hits)], bases=(line,), gc=False)
    return msgspec.json.Decoder(line)


def files_of(path: Path) -> list[Path]:
    """The files that a folder, or a file of queries or events, stands for: queries before events."""
    if path.is_dir():
        inside = sorted(each for each in path.iterdir() if ".jsonl" in each.suffixes)
        return [each for kind in (QUERIES, EVENTS) for each in inside if each.name.startswith(kind)] or [path]
    this, other = (QUERIES, EVENTS) if path.name.startswith(QUERIES) else (EVENTS, QUERIES)
    beside = path.with_name(other + path.name.removeprefix(this))
    return sorted([path, beside], reverse=True) if beside.exists() else [path]


def sniff(head: bytes, path: Path) -> bool:
    """A first object with a field that UBI's queries and events have, and not the two every other log has."""
    names = first_object(head).keys()
    return bool({"user_query", "action_name"} & names) and not {"user", "query"} <= names


def read(source: LogFile, found: Findings, declared: Declared) -> pl.DataFrame:
    """Every query with its clicks."""
    files = (source, *source.companions)
    return records([(part.path.name if source.companions else None, part.blocks) for part in files], found, declared)


def records(
    parts: Iterable[tuple[str | None, Callable[[int], Iterator[Block]]]], found: Findings, declared: Declared
) -> pl.DataFrame:
    """Every query with its clicks, from parts that may have a name and are blocks of lines from a number on."""
    queries: list[tuple[object, ...]] = []
    events: list[tuple[object, ...]] = []
    decoder = _decoder(declared)
    shown = (SHOWN,) if SHOWN in declared.extras else ()
    for name, blocks in parts:
        if name:
            found.begin_file(name)
        for block in blocks(found.lines + 1):
            found.lines += block.line_count
            numbers, rows = decoded_lines(block, decoder, found)
            for line, row in zip(numbers, rows, strict=True):
                if row.action_name is not None:
                    events.append((line, *_event(row)))
                elif row.user_query is not None:
                    time = _time_text(row.timestamp)
                    hits = (_hits(getattr(row, "hits", None)),) if shown else ()
                    queries.append((line, *_texts(row.query_id, row.user, row.user_query, time, *hits)))
                else:
                    found.add(line, "neither user_query nor action_name")
    no_user = Rule("user", f"no {declared.user_field}", pl.col("user").is_null())
    return _joined(
        _checked(queries, ("query_id", "user", "query", "time", *shown), found, no_user),
        _checked_events(events, found, no_user),
        found,
        shown,
    )


def _hits(value: object) -> object:
    """The ids of a list as text; what is no list of ids as it never is, so that its line is reported."""
    if value is None:
        return None
    if not isinstance(value, list) or any(type(each) not in (str, int) for each in value):
        return False
    return as_text(value)


def _event(row: _Line) -> tuple[object, ...]:
    details = row.event_attributes if isinstance(row.event_attributes, dict) else {}
    item, position = details.get("object"), details.get("position")
    return (
        isinstance(row.action_name, str) and "click" in row.action_name.lower(),
        *_texts(
            row.query_id,
            row.user,
            row.session_id,
            _time_text(row.timestamp),
            item.get("object_id") if isinstance(item, dict) else None,
            position.get("ordinal") if isinstance(position, dict) else None,
        ),
    )


def _texts(*values: object) -> tuple[object, ...]:
    """Text as it is (null where empty) and whole numbers as text, then whether all values were one of these or null."""
    texts = [str(value) if type(value) is int else (value or None) if type(value) is str else None for value in values]
    return *texts, all(value is None or type(value) in (str, int) for value in values)


def _time_text(value: object) -> object:
    if type(value) is int and 0 <= value < _MILLISECONDS_LIMIT:
        return (dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=value)).isoformat()
    return value


def _checked_events(events: list[tuple[object, ...]], found: Findings, no_user: Rule) -> pl.DataFrame:
    columns = ("query_id", "user", "session", "time", "url", "rank")
    checked = _checked(events, columns, found, no_user, flag="_click")
    others = checked.height - int(checked["_click"].sum())
    if others:
        found.note("events other than clicks", others)
    return checked


def _checked(
    rows: list[tuple[object, ...]], columns: tuple[str, ...], found: Findings, no_user: Rule, flag: str | None = None
) -> pl.DataFrame:
    """Rows with good times, ranks and lengths, with their line as `_at`; the others are reported."""
    flags = {flag: pl.Boolean()} if flag else {}
    schema = {LINE: pl.UInt32(), **flags, **dict.fromkeys(columns, pl.String()), "_all_text": pl.Boolean()}
    frame = pl.DataFrame(rows, schema=schema, orient="row").with_columns(
        pl.col(LINE).alias("_at"), iso_time("time"), given("time").alias("_timed")
    )
    rules = [
        Rule(None, "a field that should be text is not", ~pl.col("_all_text")),
        Rule("time", "not an ISO 8601 time like 2006-03-01T07:17:12Z", pl.col("_timed") & pl.col("time").is_null()),
        no_user,
        *rules_for_all(columns),
    ]
    if "rank" in columns:
        frame = frame.with_columns(rank("rank"), given("rank").alias("_ranked"))
        rules.append(Rule("rank", "not a whole number below 2^32", pl.col("_ranked") & pl.col("rank").is_null()))
    return found.sift(frame, rules, {}).drop("_all_text", "_timed", "_ranked", strict=False)


def _joined(queries: pl.DataFrame, events: pl.DataFrame, found: Findings, shown: tuple[str, ...]) -> pl.DataFrame:
    """Each query with the clicks of its own user on it; a query without an id is one that nothing clicks on."""
    own = ["user", "query_id"]
    repeated = pl.col("query_id").is_not_null() & ~pl.struct(own).is_first_distinct()
    queries = found.sift(
        queries.with_columns(pl.col("_at").alias(LINE)),
        [Rule(None, "a query_id that an earlier query of the same user has", repeated)],
        {},
    )
    clicks = events.filter("_click").drop("_click")
    astray = clicks.join(queries, on=own, how="anti").select(pl.col("_at").alias(LINE))
    found.sift(astray, [Rule(None, "a click on a query that its user did not ask here", pl.lit(True))], {})
    first = events.group_by(own).agg(pl.col("session").sort_by("_at").drop_nulls().first().name.suffix("_of_first"))
    rows = queries.join(first, on=own, how="left", maintain_order="left").join(
        clicks.drop("_at"), on=own, how="left", suffix="_of_click", maintain_order="left_right"
    )
    return rows.select(
        "user",
        "query",
        pl.coalesce("time", "time_of_click").alias("time"),
        "rank",
        "url",
        pl.coalesce("session", "session_of_first").alias("session"),
        *shown,
    )


def write(log: QueryLog, out: IO[bytes]) -> None:
    """A query and at most one event per record, or `FormatError` for what UBI cannot hold."""
    refuse_what_ubi_loses(log)
    write_lines(out, (_ENCODER.encode(content) + b"\n" for _, content in documents(log)))


def refuse_what_ubi_loses(log: QueryLog) -> None:
    """Raise `FormatError` for a log with columns or values that UBI has no place for."""
    needs_event = pl.col("rank").is_not_null() | pl.col("url").is_not_null() | pl.col("session").is_not_null()
    refuse_what_is_lost(
        log,
        "ubi",
        columns=(*COLUMNS, SHOWN),
        instead="csv, jsonl or parquet",
        rules=[
            Rule("time", "missing, and UBI demands one of clicks and sessions", needs_event & pl.col("time").is_null()),
            outside_years(1, 9999),
            Rule(SHOWN, "not a JSON list of texts, without blanks between", is_no_list()),
        ],
    )


def documents(log: QueryLog) -> Iterator[tuple[str, dict[str, Any]]]:
    """What is written of each record: a query, and an event where there is something to tell of one."""
    shown = results(log.frame[SHOWN]) if SHOWN in log.frame.columns else pl.lit(None)
    frame = log.frame.select(*COLUMNS, shown.alias(SHOWN)).with_columns(pl.col("time").dt.to_string(WRITTEN_TIME) + "Z")
    for number, (user, query, time, rank_, url, session, hits) in enumerate(frame.iter_rows(), start=1):
        common = {"query_id": str(number), "client_id": user}
        moment = {"timestamp": time} if time is not None else {}
        listed = {HITS: hits} if hits is not None else {}
        yield QUERIES, {**common, "user_query": query, **moment, **listed}
        clicked = rank_ is not None or url is not None
        if clicked or session is not None:
            details = {} if url is None else {"object": {"object_id": url}}
            details |= {} if rank_ is None else {"position": {"ordinal": rank_}}
            event = {"action_name": "click" if clicked else "search", **common, **moment}
            event |= {} if session is None else {"session_id": session}
            event |= {"event_attributes": details} if details else {}
            yield EVENTS, event


FORMAT = Format(
    name="ubi",
    suffix=".ubi.jsonl",
    title="OpenSearch User Behavior Insights 1.3: queries and events as JSON Lines",
    columns=tuple(COLUMNS),
    extras=False,
    optional=(SHOWN,),
    sniff=sniff,
    read=read,
    write=write,
    needs_time=True,
    prefixes=(QUERIES, EVENTS),
    files_of=files_of,
)

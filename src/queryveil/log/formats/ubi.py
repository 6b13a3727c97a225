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
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import msgspec
import numpy as np
import polars as pl

from queryveil.log.formats import json_rows
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
from queryveil.log.formats.json_lines import first_object
from queryveil.log.query_log import COLUMNS, QueryLog
from queryveil.log.shown import SHOWN, as_text, is_no_list, results
from queryveil.log.source import LINE, Block, LogFile

QUERIES, EVENTS = "ubi_queries", "ubi_events"
HITS = "query_response_hit_ids"

_ENCODER = msgspec.json.Encoder()
_MILLISECONDS_LIMIT = 253_402_300_800_000  # the year 10000
_INSIDE = msgspec.json.Decoder(dict[str, msgspec.Raw])
_NO_DETAILS = msgspec.Raw(b"null")
_NEITHER = "neither user_query nor action_name"
_OF_EVENTS = ("_click", "query_id", "user", "session", "time", "url", "rank")
_IN_EVENTS = {
    "object": ("event_attributes", "object"),
    "object_id": ("event_attributes", "object", "object_id"),
    "position": ("event_attributes", "position"),
    "ordinal": ("event_attributes", "position", "ordinal"),
}


class _Line(msgspec.Struct, gc=False):
    """The fields that are read, of queries and events alike; msgspec drops all others unseen."""

    user: Any = None
    action_name: Any = None
    query_id: Any = None
    session_id: Any = None
    timestamp: Any = None
    user_query: Any = None
    event_attributes: msgspec.Raw = _NO_DETAILS  # of which only two values are decoded


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
    decoder = _decoder(declared)
    shown = (SHOWN,) if SHOWN in declared.extras else ()
    of_queries, of_events = ("query_id", "user", "query", "time", *shown), _OF_EVENTS
    queries, events = [_parsed([], of_queries)], [_parsed([], of_events)]
    for name, blocks in parts:
        if name:
            found.begin_file(name)
        for block in blocks(found.lines + 1):
            found.lines += block.line_count
            if block.is_long:
                asked, done, others = _plain_lines(block, found, declared, of_queries)
                queries.append(asked)
                events.append(done)
                numbers, rows = json_rows.decoded_singly(others, block.broken, decoder, found)
            else:
                numbers, rows = json_rows.decoded_lines(block, decoder, found)
            if rows:
                asked_rows, event_rows = _rows(numbers, rows, found, shown)
                queries.append(_parsed(asked_rows, of_queries))
                events.append(_parsed(event_rows, of_events))
    no_user = Rule("user", f"no {declared.user_field}", pl.col("user").is_null())
    return _joined(
        _checked(pl.concat(queries), of_queries, found, no_user),
        _checked_events(pl.concat(events), found, no_user),
        found,
        shown,
    )


def _plain_lines(
    block: Block, found: Findings, declared: Declared, of_queries: tuple[str, ...]
) -> tuple[pl.DataFrame, pl.DataFrame, list[tuple[int, bytes]]]:
    """Queries and events of lines whose values are as they mostly are, and the other lines with their numbers."""
    from queryveil.log.formats import _json_kernel as kernel  # which takes Numba: short files need none
    from queryveil.log.formats._json_columns import plain_lines

    texts, text = (kernel.TEXT, kernel.ESCAPED_TEXT, kernel.WHOLE), kernel.TEXT
    top = (declared.user_field, "action_name", "query_id", "session_id", "timestamp", "user_query")
    paths = {name: (name,) for name in (*top, "event_attributes")} | _IN_EVENTS
    kinds = dict.fromkeys((*top, "object_id"), texts) | {"action_name": (text,), "ordinal": (text, kernel.WHOLE)}
    if SHOWN in of_queries:
        paths[HITS], kinds[HITS] = (HITS,), (kernel.ARRAY,)
    lines = plain_lines(block, paths, kinds, below={"timestamp": _MILLISECONDS_LIMIT}, ascii_only=["action_name"])
    values, nothing = lines.found, (kernel.ABSENT, kernel.NULL)
    is_event = ~values["action_name"].is_any_of(*nothing)
    is_query = ~is_event & ~values["user_query"].is_any_of(*nothing)
    for number in lines.numbers[~(is_event | is_query)].tolist():
        found.add(number, _NEITHER)

    def table(chosen: np.ndarray, names: Mapping[str, str]) -> pl.DataFrame:
        columns = [pl.Series(LINE, lines.numbers[chosen], dtype=pl.UInt32)]
        for name, theirs in names.items():
            value = values[theirs][chosen].without_empty()
            if name == "time":
                given = value.is_any_of(*texts)
                columns += [value.times(milliseconds=True).alias(name), pl.Series("_timed", given)]
            elif name == "rank":
                columns += [value.ranks().alias(name), pl.Series("_ranked", value.is_any_of(*texts))]
            elif name == "_click":
                columns.append(pl.Series(name, value.hold(b"click")[0]))
            else:
                columns.append(value.read(kernel.WHOLE, kernel.ARRAY).column().alias(name))
        return pl.DataFrame(columns).with_columns(pl.lit(True).alias("_all_text"))

    common = {"query_id": "query_id", "user": declared.user_field, "time": "timestamp"}
    asked = table(
        np.flatnonzero(is_query), {**common, "query": "user_query"} | ({SHOWN: HITS} if HITS in paths else {})
    )
    done = table(
        np.flatnonzero(is_event),
        {**common, "_click": "action_name", "session": "session_id", "url": "object_id", "rank": "ordinal"},
    )
    return asked.select(_columns(of_queries)), done.select(_columns(_OF_EVENTS)), lines.others


def _rows(
    numbers: list[int], rows: list[_Line], found: Findings, shown: tuple[str, ...]
) -> tuple[list[tuple[object, ...]], list[tuple[object, ...]]]:
    """Queries and events of decoded lines."""
    queries: list[tuple[object, ...]] = []
    events: list[tuple[object, ...]] = []
    for line, row in zip(numbers, rows, strict=True):
        if row.action_name is not None:
            events.append((line, *_event(row)))
        elif row.user_query is not None:
            time = _time_text(row.timestamp)
            hits = (_hits(getattr(row, "hits", None)),) if shown else ()
            queries.append((line, *_texts(row.query_id, row.user, row.user_query, time, *hits)))
        else:
            found.add(line, _NEITHER)
    return queries, events


def _hits(value: object) -> object:
    """The ids of a list as text; what is no list of ids as it never is, so that its line is reported."""
    if value is None:
        return None
    if not isinstance(value, list) or any(type(each) not in (str, int) for each in value):
        return False
    return as_text(value)


def _event(row: _Line) -> tuple[object, ...]:
    details = _inside(row.event_attributes)
    return (
        isinstance(row.action_name, str) and "click" in row.action_name.lower(),
        *_texts(
            row.query_id,
            row.user,
            row.session_id,
            _time_text(row.timestamp),
            _value(_inside(details.get("object")).get("object_id")),
            _value(_inside(details.get("position")).get("ordinal")),
        ),
    )


def _inside(raw: msgspec.Raw | None) -> dict[str, msgspec.Raw]:
    """What stands in an object, undecoded; nothing where it is none."""
    try:
        return {} if raw is None else _INSIDE.decode(raw)
    except msgspec.MsgspecError:
        return {}


def _value(raw: msgspec.Raw | None) -> object:
    try:
        return None if raw is None else msgspec.json.decode(raw)
    except msgspec.MsgspecError:
        return False  # no text


def _texts(*values: object) -> tuple[object, ...]:
    """Text as it is (null where empty) and whole numbers as text, then whether all values were one of these or null."""
    texts = [str(value) if type(value) is int else (value or None) if type(value) is str else None for value in values]
    return *texts, all(value is None or type(value) in (str, int) for value in values)


def _time_text(value: object) -> object:
    if type(value) is int and 0 <= value < _MILLISECONDS_LIMIT:
        return (dt.datetime(1970, 1, 1) + dt.timedelta(milliseconds=value)).isoformat()
    return value


def _columns(columns: tuple[str, ...]) -> list[str]:
    flags = ("_timed", *(("_ranked",) if "rank" in columns else ()))
    return [LINE, *columns, "_all_text", *flags]


def _parsed(rows: list[tuple[object, ...]], columns: tuple[str, ...]) -> pl.DataFrame:
    """Texts of rows with their times and ranks read."""
    types = {LINE: pl.UInt32(), "_click": pl.Boolean(), "_all_text": pl.Boolean()}
    schema = {name: types.get(name, pl.String()) for name in (LINE, *columns, "_all_text")}
    frame = pl.DataFrame(rows, schema=schema, orient="row")
    frame = frame.with_columns(iso_time("time"), given("time").alias("_timed"))
    if "rank" in columns:
        frame = frame.with_columns(rank("rank"), given("rank").alias("_ranked"))
    return frame.select(_columns(columns))


def _checked_events(events: pl.DataFrame, found: Findings, no_user: Rule) -> pl.DataFrame:
    checked = _checked(events, _OF_EVENTS, found, no_user)
    others = checked.height - int(checked["_click"].sum())
    if others:
        found.note("events other than clicks", others)
    return checked


def _checked(frame: pl.DataFrame, columns: tuple[str, ...], found: Findings, no_user: Rule) -> pl.DataFrame:
    """Rows with good times, ranks and lengths, with their line as `_at`; the others are reported."""
    in_order = frame if frame[LINE].is_sorted() else frame.sort(LINE)
    rules = [
        Rule(None, "a field that should be text is not", ~pl.col("_all_text")),
        Rule("time", "not an ISO 8601 time like 2006-03-01T07:17:12Z", pl.col("_timed") & pl.col("time").is_null()),
        no_user,
        *rules_for_all([name for name in columns if name != "_click"]),
    ]
    if "rank" in columns:
        rules.append(Rule("rank", "not a whole number below 2^32", pl.col("_ranked") & pl.col("rank").is_null()))
    sifted = found.sift(in_order.with_columns(pl.col(LINE).alias("_at")), rules, {})
    return sifted.drop("_all_text", "_timed", "_ranked", strict=False)


def _joined(queries: pl.DataFrame, events: pl.DataFrame, found: Findings, shown: tuple[str, ...]) -> pl.DataFrame:
    """Each query with the clicks of its own user on it; a query without an id is one that nothing clicks on."""
    own = ["user", "query_id"]
    ids = queries["query_id"].drop_nulls()
    if ids.n_unique() < len(ids):  # which is told faster than whose they are
        repeated = pl.col("query_id").is_not_null() & ~pl.struct(own).is_first_distinct()
        queries = found.sift(
            queries.with_columns(pl.col("_at").alias(LINE)),
            [Rule(None, "a query_id that an earlier query of the same user has", repeated)],
            {},
        )
    queries = queries.with_row_index("_of")
    asked = events.select(own).join(queries.select(*own, "_of"), on=own, how="left", maintain_order="left")
    events = events.with_columns(asked["_of"])
    clicks = events.filter("_click")
    astray = clicks.filter(pl.col("_of").is_null()).select(pl.col("_at").alias(LINE))
    found.sift(astray, [Rule(None, "a click on a query that its user did not ask here", pl.lit(True))], {})
    # All text is compared by now: the rest goes by numbers of queries.
    queries = queries.with_columns(_sessions_of_first_events(events, queries.height).alias("session_of_first"))
    details = clicks.select("_of", "session", pl.col("time").alias("time_of_click"), "rank", "url")
    rows = queries.join(details, on="_of", how="left", maintain_order="left_right")
    return rows.select(
        "user",
        "query",
        pl.coalesce("time", "time_of_click").alias("time"),
        "rank",
        "url",
        pl.coalesce("session", "session_of_first").alias("session"),
        *shown,
    )


def _sessions_of_first_events(events: pl.DataFrame, queries: int) -> pl.Series:
    """The session of each query's first event that has one, null where none has."""
    told = events.select("_of", "session").drop_nulls()
    query, first = told["_of"].to_numpy(), np.full(queries, told.height)
    first[query[::-1]] = np.arange(told.height)[::-1]  # of several, the last one that is set stays
    return pl.concat([told["session"], pl.Series([None], dtype=pl.String)]).gather(first)


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

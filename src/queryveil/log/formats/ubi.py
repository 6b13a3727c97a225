"""User Behavior Insights 1.3 of OpenSearch, as JSON Lines: queries joined with the events that name them.

Read from a folder with `ubi_queries*.jsonl` and `ubi_events*.jsonl`, from one of such two files (the other is found
beside it), or from one file that mixes both kinds: an object with `action_name` is an event. An event whose
`action_name` holds "click" is a click: its `position.ordinal` is the rank, its `object.object_id` the url. The session
is the event's; a query without a click takes the session of its first event. Times with a zone become UTC; a number is
taken for milliseconds of 1970.

All records of a query have one user: the query's `client_id`, or else that of its first event that has one. Where
there is none, the first `user_id` of its events stands for the `client_id` that the log first ties it to (in one event,
or in a query and its event). The two kinds of ids are never mixed, since one person would count as two: a `user_id`
that nothing ties to a `client_id` is a problem, unless the log has no `client_id` at all; then each `user_id` is a
user. A person with several `client_id`s still counts as several. Notes tell how often each of this happened.

Nothing else is read, so that nothing else can be written: `message`, `trail`, `query_attributes`, the hit ids and the
`user_query` that events repeat all carry the text that a mechanism protects in one place only.

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
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import msgspec
import polars as pl

from queryveil.log.formats.fields import WRITTEN_TIME, given, iso_time, outside_years, rank
from queryveil.log.formats.format import Declared, Format, refuse_what_is_lost, write_lines
from queryveil.log.formats.json_lines import decoded_lines, first_object
from queryveil.log.problems import LINE, Findings, Rule, rules_for_all
from queryveil.log.query_log import COLUMNS, QueryLog
from queryveil.log.source import Source

QUERIES, EVENTS = "ubi_queries", "ubi_events"

_ENCODER = msgspec.json.Encoder()
_MILLISECONDS_LIMIT = 253_402_300_800_000  # the year 10000


class _Line(msgspec.Struct, gc=False):
    """The fields that are read, of queries and events alike; msgspec drops all others unseen."""

    action_name: Any = None
    query_id: Any = None
    client_id: Any = None
    user_id: Any = None
    session_id: Any = None
    timestamp: Any = None
    user_query: Any = None
    event_attributes: Any = None


_DECODER = msgspec.json.Decoder(_Line)


def files_of(path: Path) -> list[Path]:
    """The files a path stands for: queries before events for a UBI folder or pair, otherwise the path alone."""
    try:
        if path.is_dir():
            inside = sorted(each for each in path.iterdir() if ".jsonl" in each.suffixes)
            parts = [each for kind in (QUERIES, EVENTS) for each in inside if each.name.startswith(kind)]
            return parts or [path]
        for this, other in ((QUERIES, EVENTS), (EVENTS, QUERIES)):
            if path.name.startswith(this):
                beside = path.with_name(other + path.name.removeprefix(this))
                return sorted([path, beside], reverse=True) if beside.exists() else [path]
    except (OSError, ValueError):
        pass  # opening the path tells what is wrong with it
    return [path]


def sniff(head: bytes, path: Path) -> bool:
    """A first object with a field that UBI's queries and events have, and not the two every other log has."""
    names = first_object(head).keys()
    return bool({"user_query", "action_name"} & names) and not {"user", "query"} <= names


def read(source: Source, found: Findings, declared: Declared) -> pl.DataFrame:
    """Every query with its clicks."""
    queries: list[tuple[object, ...]] = []
    events: list[tuple[object, ...]] = []
    for part in (source, *source.companions):
        if source.companions:
            found.begin_file(part.path.name)
        for block in part.blocks(first_line=found.lines + 1):
            found.lines += block.line_count
            numbers, rows = decoded_lines(block, _DECODER, found)
            for line, row in zip(numbers, rows, strict=True):
                if row.action_name is not None:
                    events.append((line, *_event(row)))
                elif row.user_query is not None:
                    time = _time_text(row.timestamp)
                    queries.append((line, *_texts(row.query_id, row.client_id, row.user_query, time)))
                else:
                    found.add(line, "neither user_query nor action_name")
    return _joined(
        _checked(queries, ("query_id", "user", "query", "time"), found), _checked_events(events, found), found
    )


def _event(row: _Line) -> tuple[object, ...]:
    details = row.event_attributes if isinstance(row.event_attributes, dict) else {}
    item, position = details.get("object"), details.get("position")
    return (
        isinstance(row.action_name, str) and "click" in row.action_name.lower(),
        *_texts(
            row.query_id,
            row.client_id,
            row.user_id,
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


def _checked_events(events: list[tuple[object, ...]], found: Findings) -> pl.DataFrame:
    checked = _checked(events, ("query_id", "user", "user_id", "session", "time", "url", "rank"), found, flag="_click")
    others = checked.height - int(checked["_click"].sum())
    if others:
        found.note("events other than clicks", others)
    return checked


def _checked(
    rows: list[tuple[object, ...]], columns: tuple[str, ...], found: Findings, flag: str | None = None
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
        *(rule for rule in rules_for_all(columns) if rule.column != "user" or "longer" in rule.reason),
    ]
    if "rank" in columns:
        frame = frame.with_columns(rank("rank"), given("rank").alias("_ranked"))
        rules.append(Rule("rank", "not a whole number below 2^32", pl.col("_ranked") & pl.col("rank").is_null()))
    return found.sift(frame, rules, {}).drop("_all_text", "_timed", "_ranked", strict=False)


def _joined(queries: pl.DataFrame, events: pl.DataFrame, found: Findings) -> pl.DataFrame:
    repeated = pl.col("query_id").is_not_null() & ~pl.col("query_id").is_first_distinct()
    queries = found.sift(
        queries.with_columns(pl.col("_at").alias(LINE)),
        [Rule(None, "a query_id that an earlier query has", repeated)],
        {},
    )
    clicks = events.filter("_click").drop("_click")
    astray = clicks.join(queries, on="query_id", how="anti").select(LINE=pl.col("_at"))
    found.sift(astray.rename({"LINE": LINE}), [Rule(None, "a click on a query that is not here", pl.lit(True))], {})
    first = events.group_by("query_id", maintain_order=True).agg(
        pl.col("session", "user", "user_id").drop_nulls().first().name.suffix("_of_first")
    )
    asked = queries.join(first, on="query_id", how="left", maintain_order="left")
    rows = _with_one_user(asked, events, found).join(
        clicks.drop("_at", "user", "user_id"),
        on="query_id",
        how="left",
        suffix="_of_click",
        maintain_order="left_right",
    )
    rows = rows.select(
        pl.col("_at").alias(LINE),
        "user",
        "user_id_of_first",
        "query",
        pl.coalesce("time", "time_of_click").alias("time"),
        "rank",
        "url",
        pl.coalesce("session", "session_of_first").alias("session"),
    )
    no_user = pl.col("user").is_null()
    rules = [
        Rule("user", "a user_id that nothing ties to a client_id", no_user & pl.col("user_id_of_first").is_not_null()),
        Rule("user", "no client_id, and no event that tells the user", no_user),
    ]
    return found.sift(rows, rules, {}).drop("user_id_of_first")


def _with_one_user(asked: pl.DataFrame, events: pl.DataFrame, found: Findings) -> pl.DataFrame:
    """The queries with one kind of id for their users."""
    asked = asked.with_columns(pl.coalesce("user", "user_of_first").alias("user"))
    if not asked["user"].count() + events["user"].count():
        if asked["user_id_of_first"].count():
            found.note("no client_id: each user_id was taken for one person")
        return asked.with_columns(pl.col("user_id_of_first").alias("user"))
    of_query = asked.select("query_id", pl.col("user").alias("asker"))
    ties = (
        events.join(of_query, on="query_id", how="left", maintain_order="left")
        .select("user_id", tied=pl.coalesce("user", "asker"))
        .drop_nulls()
        .unique(maintain_order=True)
    )
    if several := ties.filter(pl.col("user_id").is_duplicated())["user_id"].n_unique():
        found.note("user_ids with several client_ids, each of which counts as a person of its own", several)
    asked = asked.join(
        ties.unique("user_id", keep="first", maintain_order=True),
        left_on="user_id_of_first",
        right_on="user_id",
        how="left",
        maintain_order="left",
    )
    if tied := asked.filter(pl.col("user").is_null())["tied"].count():
        found.note("queries with a user_id only, taken for the client_id that it is tied to", tied)
    return asked.with_columns(pl.coalesce("user", "tied").alias("user"))


def write(log: QueryLog, out: IO[bytes]) -> None:
    """A query and at most one event per record, or `FormatError` for what UBI cannot hold."""
    needs_event = pl.col("rank").is_not_null() | pl.col("url").is_not_null() | pl.col("session").is_not_null()
    refuse_what_is_lost(
        log,
        "ubi",
        columns=tuple(COLUMNS),
        instead="csv, jsonl or parquet",
        rules=[
            Rule("time", "missing, and UBI demands one of clicks and sessions", needs_event & pl.col("time").is_null()),
            outside_years(1, 9999),
        ],
    )
    write_lines(out, _lines(log))


def _lines(log: QueryLog) -> Iterator[bytes]:
    frame = log.frame.select(*COLUMNS).with_columns(pl.col("time").dt.to_string(WRITTEN_TIME) + "Z")
    for number, (user, query, time, rank_, url, session) in enumerate(frame.iter_rows(), start=1):
        common = {"query_id": str(number), "client_id": user}
        moment = {"timestamp": time} if time is not None else {}
        yield _ENCODER.encode({**common, "user_query": query, **moment}) + b"\n"
        clicked = rank_ is not None or url is not None
        if clicked or session is not None:
            details = {} if url is None else {"object": {"object_id": url}}
            details |= {} if rank_ is None else {"position": {"ordinal": rank_}}
            event = {"action_name": "click" if clicked else "search", **common, **moment}
            event |= {} if session is None else {"session_id": session}
            event |= {"event_attributes": details} if details else {}
            yield _ENCODER.encode(event) + b"\n"


FORMAT = Format(
    name="ubi",
    suffix=".ubi.jsonl",
    title="OpenSearch User Behavior Insights 1.3: queries and events as JSON Lines",
    columns=tuple(COLUMNS),
    extras=False,
    sniff=sniff,
    read=read,
    write=write,
    needs_time=True,
)

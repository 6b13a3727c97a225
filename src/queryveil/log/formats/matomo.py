"""Site searches in Matomo: the visits that its API method `Live.getLastVisitsDetails` gives as JSON.

A file is the array of visits that the API answers with, or a visit a line (JSON Lines). Of the actions of a visit
(`actionDetails`) those of the type `search` are records: `siteSearchKeyword` is the query, `timestamp` (in seconds
since 1970) its time, `idVisit` the session. The user is the `visitorId`, or `userId` where that is declared. Without
cookies Matomo gives somebody another `visitorId` every day, and each device has its own: a person may then be several
users.

What else Matomo exports is not read. Its reports (`Actions.getSiteSearchKeywords`) are sums over people, in which
nobody is named. Its CSV spreads a visit over as many columns as the longest visit has actions; ask for JSON instead.
From the database, a table of visitor, keyword and time is a `csv` with mapped columns.

"Line" in a report is the number of the visit. Written is one visit a record.

Cost: compiled passes over the bytes (`_json_columns`); an array is held in memory whole.

>>> import io
>>> from queryveil.log.query_log import QueryLog
>>> out = io.BytesIO()
>>> write(QueryLog.of([("ann", "tulips")]), out)
>>> print(out.getvalue().decode())
[{"idVisit":null,"visitorId":"ann","actionDetails":[{"type":"search","siteSearchKeyword":"tulips","timestamp":null}]}]
<BLANKLINE>
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING

import numpy as np
import polars as pl

from queryveil.errors import FormatError
from queryveil.log.formats.format import (
    Declared,
    Findings,
    Format,
    Rule,
    has_fraction,
    no_records,
    outside_years,
    refuse_what_is_lost,
    rules_for_all,
)
from queryveil.log.formats.json_keys import TWICE
from queryveil.log.query_log import QueryLog
from queryveil.log.source import LINE, LogFile, is_utf8

if TYPE_CHECKING:
    from queryveil.log.formats._json_columns import Pieces  # which takes Numba: only who reads pays

COLUMNS = ("user", "query", "time", "session")

_BLANK = b" \t\r\n"
_SECONDS_LIMIT = int(dt.datetime(9999, 12, 31, tzinfo=dt.UTC).timestamp())


def sniff(head: bytes, path: Path) -> bool:
    """JSON that begins with visits."""
    return head.lstrip()[:1] in (b"[", b"{") and b'"idVisit"' in head and b'"actionDetails"' in head


def pieces(source: LogFile, found: Findings, declared: Declared) -> Iterator[pl.DataFrame]:
    """Every search of every visit, as canonical columns, visits in lines block by block."""
    from queryveil.log.formats import _json_kernel as kernel
    from queryveil.log.formats._json_columns import Pieces, elements_of

    yield no_records(COLUMNS)
    if source.head().lstrip()[:1] == b"[":
        content = b"".join(source.utf8()).strip(_BLANK)
        if not content.endswith(b"]"):
            raise FormatError("the array of visits is cut off. Fetch it again.")
        ends = np.array([0]), np.array([len(content)])
        visits, _ = elements_of(Pieces(np.frombuffer(content, np.uint8), *ends, np.array([kernel.ARRAY], np.uint8)))
        found.lines += len(visits)
        spans = [] if is_utf8(content) else zip(visits.starts, visits.stops, strict=True)
        broken = {
            at: "not valid UTF-8" for at, (start, stop) in enumerate(spans, 1) if not is_utf8(content[start:stop])
        }
        yield _records(visits, np.arange(1, len(visits) + 1), broken, found, declared)
        return
    for block in source.blocks():
        found.lines += block.line_count
        yield _records(*Pieces.lines_of(block), block.broken, found, declared)


def _records(
    visits: Pieces, numbers: np.ndarray, broken: dict[int, str], found: Findings, declared: Declared
) -> pl.DataFrame:
    from queryveil.log.formats import _json_kernel as kernel
    from queryveil.log.formats._json_columns import elements_of, find

    user = declared.columns.get("user", "visitorId")
    of_visit = find(visits, {"user": (user,), "session": ("idVisit",), "actions": ("actionDetails",)})
    odd = of_visit["actions"].kinds != kernel.ARRAY
    told = pl.DataFrame(
        {
            LINE: pl.Series(numbers, dtype=pl.UInt32),
            "_at": np.arange(len(visits)),
            "_state": of_visit.states,
            "_odd": odd,
        }
    )
    rules = [
        Rule(None, "not a JSON object", pl.col("_state") == kernel.NO_OBJECT),
        Rule(None, TWICE, pl.col("_state") == kernel.KEY_TWICE),
        Rule(None, "no actionDetails", pl.col("_odd")),
    ]
    good = found.sift(told, rules, broken)["_at"].to_numpy()
    actions, owners = elements_of(of_visit["actions"][good])
    owners = good[owners]
    of_action = find(actions, {"type": ("type",), "query": ("siteSearchKeyword",), "time": ("timestamp",)})
    searched = (of_action["type"].texts() == "search").fill_null(False).to_numpy() | (of_action.states != kernel.GOOD)
    if others := len(good) - len(np.unique(owners[searched])):
        found.note("visits without a search", others)
    chosen = np.flatnonzero(searched)
    owners = owners[chosen]
    moment, users, sessions = of_action["time"][chosen], of_visit["user"], of_visit["session"]
    seconds = moment.texts(numbers=True).cast(pl.Int64, strict=False)
    frame = pl.DataFrame(
        {
            LINE: pl.Series(numbers[owners], dtype=pl.UInt32),
            "user": users[owners].texts(numbers=True),
            "query": of_action["query"][chosen].texts(),
            "seconds": seconds,
            "session": sessions[owners].texts(numbers=True),
            "_state": of_action.states[chosen],
            "_timed": (moment.kinds != kernel.ABSENT) & (moment.kinds != kernel.NULL),
        }
    ).with_columns(pl.from_epoch("seconds", time_unit="s").cast(pl.Datetime("us")).alias("time"))
    late = pl.col("seconds").is_null() | ~pl.col("seconds").is_between(-62_135_596_800, _SECONDS_LIMIT)
    rules = [
        Rule(None, "an action that is no JSON object, or has a key twice", pl.col("_state") != kernel.GOOD),
        Rule("time", "not a time in seconds of 1970", pl.col("_timed") & late),
        *rules_for_all(COLUMNS),
    ]
    return found.sift(frame, rules, {}).select(COLUMNS)


def write(log: QueryLog, out: IO[bytes]) -> None:
    """A visit with one search per record, or `FormatError` for what such a visit cannot hold."""
    refuse_what_is_lost(
        log,
        "matomo",
        columns=COLUMNS,
        instead="csv, jsonl or parquet",
        rules=[has_fraction(), outside_years(1, 9998)],
    )
    search = pl.struct(
        pl.lit("search").alias("type"),
        pl.col("query").alias("siteSearchKeyword"),
        pl.col("time").dt.epoch("s").alias("timestamp"),
    )
    visit = pl.struct(
        pl.col("session").alias("idVisit"),
        pl.col("user").alias("visitorId"),
        pl.concat_list(search).alias("actionDetails"),
    )
    visits = log.frame.select(visit.struct.json_encode()).to_series()
    out.write(("[" + ",\n".join(visits) + "]\n").encode())


FORMAT = Format(
    name="matomo",
    suffix=".matomo.json",
    title="Matomo's visits with their site searches: Live.getLastVisitsDetails as JSON",
    columns=COLUMNS,
    extras=False,
    sniff=sniff,
    pieces=pieces,
    write=write,
    multiline=True,
    mapped=("user",),
)

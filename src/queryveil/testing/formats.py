"""A conformance kit for formats: whatever one user's records look like, everybody else's are read the same.

A promise per person starts at the bytes of the file. `check_format` writes random logs, puts a hostile user's records
among them (foreign ids, repeated ids, odd keys, nulls, values of other types, broken lines, huge lines), reads both and
compares the rows of all other people. `road` is how a file becomes rows: the library's own reading unless told
otherwise, so that the same check serves a command line, an engine or a service.

>>> from queryveil.log.formats import FORMATS
>>> check_format(FORMATS["jsonl"], users=3)
"""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import polars as pl

from queryveil.errors import FormatError
from queryveil.log import QueryLog
from queryveil.log._numbers import Dice, below
from queryveil.log.formats import Format
from queryveil.log.formats.format import LONGEST_FIELD
from queryveil.log.formats.ubi import HITS
from queryveil.log.reading import read
from queryveil.log.shown import SHOWN, as_text
from queryveil.log.source import LONGEST_LINE

Road: TypeAlias = Callable[[Path, Format], pl.DataFrame]
Writer: TypeAlias = Callable[[QueryLog], bytes]

HOSTILE = "10.66.66.66"
"""The hostile user's id: an address, so that an access log can hold it too."""
PEOPLE = tuple(f"10.0.0.{number}" for number in range(1, 9))
QUERIES = ("weather", "tulip bulbs", 'inch 5" nails', "a, b; c", "дом", "q=1&s=2", "new york", "{}", "null")
LINE_ENDS = ("two\nlines", f"x\n{PEOPLE[0]},injected\ny", "\r\n", '"\n"')
ODD_TEXTS = (
    *QUERIES, *PEOPLE, '"', '""', '",', "',", "\\", "\\n", "\ufeff", "\u2028", "\x1f", "\x0b", "=1+1", "AnonID", "user",
    "x" * 5000, "😀" * 40, "%00%0a", "NaN", "true", "0", "-1",
)  # fmt: skip
HUGE_EVERY = 50
"""One hostile user in so many has a line longer than any that is read, which costs the most time."""


class _Random:
    """Choices from a seed; they decide what is tried and protect nothing."""

    def __init__(self, seed: int) -> None:
        self._dice = Dice(seed)

    def number(self, limit: int) -> int:
        return int(below(self._dice.words(1), limit)[0])

    def one_of(self, items: Sequence[Any]) -> Any:
        return items[self.number(len(items))]


def library(path: Path, format_: Format) -> pl.DataFrame:
    """The library's own way from a file to rows."""
    return read(path, format=format_.name, on_error="skip", extras=[SHOWN]).frame


def check_format(
    format_: Format, *, users: int = 200, seed: int = 1, road: Road = library, writer: Writer | None = None
) -> None:
    """Raise `AssertionError` if one of so many hostile users changes how somebody else's records are read.

    `writer` makes a file of a log, where the format itself cannot.
    """
    written = writer or partial(_written, format_=format_)
    texts = [text for text in (*ODD_TEXTS, *LINE_ENDS) if _carries(text, format_, written)]
    with tempfile.TemporaryDirectory() as folder:
        for number in range(users):
            random = _Random(seed * 1_000_003 + number)
            honest = _honest_log(random, format_)
            hostile = _hostile_log(random, format_, texts)
            with_hostile = QueryLog(_shuffled([honest.frame, hostile.frame], random))
            path, other = (Path(folder) / f"{name}{format_.suffix}" for name in ("honest", "both"))
            content, alone = map(written, (with_hostile, honest))
            if format_.name == "jsonl" and random.number(2):
                content, alone = map(_with_aols_names, (content, alone))
            path.write_bytes(alone)
            if format_.is_text and not format_.multiline:
                content = _with_lines(content, format_, random, huge=number % HUGE_EVERY == 0)
            other.write_bytes(content)
            expected, seen = (_of_people(road(file, format_)) for file in (path, other))
            assert expected.height, f"{format_.name}: nothing of the honest log is read (hostile user {number})"
            assert seen.schema == expected.schema and seen.equals(expected, null_equal=True), (
                f"{format_.name}: other people's records are read differently beside hostile user {number}, seed {seed}"
            )


def _honest_log(random: _Random, format_: Format) -> QueryLog:
    start = datetime(2006, 3, 1)
    rows = []
    for number in range(4 + random.number(20)):
        clicked = (1 + random.number(10), random.one_of(("http://a.example", "item 7"))) if random.number(2) else ()
        when = start + timedelta(seconds=3600 * number + random.number(3600))
        rows.append((random.one_of(PEOPLE), random.one_of(QUERIES), when, *clicked))
    shown = [random.one_of((None, "[]", as_text(["http://a.example", "item 7"]))) for _ in rows]
    return _with_shown(QueryLog.of(rows), format_, shown)


def _hostile_log(random: _Random, format_: Format, texts: Sequence[str]) -> QueryLog:
    """Records as an honest exporter writes them, of a user who searches for anything that the format can hold."""
    rows = []
    for _ in range(1 + random.number(6)):
        when = datetime(2006, 3, 1) + timedelta(seconds=random.number(10**6))
        rank, url = (random.one_of((None, 0, 2**32 - 1)), random.one_of((None, *texts)))
        rows.append((HOSTILE, random.one_of(texts), when, rank, url, random.one_of((None, *texts))))
    shown = [random.one_of((None, as_text([random.one_of(ODD_TEXTS)] * random.number(3)))) for _ in rows]
    return _with_shown(QueryLog.of(rows), format_, shown)


def _with_shown(log: QueryLog, format_: Format, shown: list[str | None]) -> QueryLog:
    """What the format has columns for, the results shown among them where it can carry those."""
    kept = log.keeping(format_.columns)
    carried = format_.extras or SHOWN in format_.optional
    return QueryLog(kept.frame.with_columns(pl.Series(SHOWN, shown, dtype=pl.String))) if carried else kept


def _carries(text: str, format_: Format, written: Writer) -> bool:
    log = QueryLog.of([(HOSTILE, text, datetime(2006, 3, 1), None, text, text)])
    try:
        written(log.keeping(format_.columns))
    except FormatError:
        return False
    return True


def _shuffled(frames: list[pl.DataFrame], random: _Random) -> pl.DataFrame:
    """Both logs in one file, each in its own order, the hostile rows anywhere."""
    honest, hostile = frames
    places = sorted(random.number(honest.height + 1) for _ in range(hostile.height))
    cuts = [0, *places, honest.height]
    pieces = [honest[cuts[0] : cuts[1]]]
    for number in range(hostile.height):
        pieces += [hostile[number : number + 1], honest[cuts[number + 1] : cuts[number + 2]]]
    return pl.concat(pieces)


def _written(log: QueryLog, format_: Format) -> bytes:
    out = io.BytesIO()
    format_.write(log, out)
    return out.getvalue()


def _with_aols_names(content: bytes) -> bytes:
    """The same objects with the other names that are known, but for the hostile user's."""
    lines = content.split(b"\n")
    for number, line in enumerate(lines):
        if HOSTILE.encode() not in line:
            lines[number] = line.replace(b'"url":', b'"ClickURL":').replace(b'"query":', b'"Query":')
    return b"\n".join(lines)


def _with_lines(content: bytes, format_: Format, random: _Random, *, huge: bool) -> bytes:
    """The file with lines of the hostile user that no exporter would write, after the header if there is one."""
    ends_open = not content.endswith(b"\n")
    lines = content.removesuffix(b"\n").split(b"\n")
    first = format_.header_lines or 0
    more = [_broken_line(lines, random) for _ in range(1 + random.number(4))]
    more += [line(random) for line in ODD_LINES.get(format_.name, ()) for _ in range(random.number(3))]
    if huge:
        more.append(HOSTILE.encode() + b"x" * (LONGEST_LINE + 1))
    for line in more:
        place = first + random.number(len(lines) + 1 - first)
        # A record of UBI may lie on two lines, which nobody else's line may part; it is written in any order.
        lines.insert(place, line)
    return b"\n".join(lines) + (b"" if ends_open else b"\n")


def _broken_line(lines: list[bytes], random: _Random) -> bytes:
    """A line of the hostile user that is broken in some way, or is nobody's."""
    own = next((line for line in lines if HOSTILE.encode() in line), HOSTILE.encode())
    cut = random.number(len(own) + 1)
    return bytes(
        random.one_of(
            (
                own[:cut],
                own + b'"',
                own + b',"',
                own.replace(b'"', b"", 1),
                own[:cut] + b"\0" + own[cut:],
                own[:cut] + b"\xff\xfe" + own[cut:],
                own + b"\r\r",
                own + b"\t" * 9 + b"," * 9,
                b"",
                b" ",
                b"\xef\xbb\xbf" + own,
                b"\x1f\x8b\x08",
                b"\xff\xfe" + own,
                b"\xff\xfe\0\0",
                b"PK\x03\x04",
                b"#comment",
                b'"',
                b"[",
                b"{",
                HOSTILE.encode() + b"\t" + b"y" * (LONGEST_FIELD + 1),
            )
        )
    )


# Lines in a format of their own


@dataclass(frozen=True)
class _Objects:
    """JSON objects of the hostile user: the field of the user is theirs, everything else is anything."""

    user_fields: tuple[str, ...]
    keys: tuple[str, ...]

    def __call__(self, random: _Random) -> bytes:
        made: dict[str, Any] = {random.one_of(self.keys): _any_value(random) for _ in range(random.number(8))}
        made |= dict.fromkeys(self.user_fields, HOSTILE)
        return json.dumps(made, ensure_ascii=bool(random.number(2))).encode()


def _any_value(random: _Random) -> Any:
    return random.one_of(
        (None, True, 0, -1, 2**70, 1.5, "", [], {}, [[1]], {"a": None}, "2006-03-01", *ODD_TEXTS[:12], *PEOPLE)
    )


def _foreign_event(random: _Random) -> bytes:
    """An event of UBI by the hostile client on a query of somebody else, which may name them in every other field."""
    person = random.one_of(PEOPLE)
    made = {
        "action_name": random.one_of(("click", "view", "search")),
        "query_id": str(1 + random.number(12)),
        "client_id": HOSTILE,
        "user_id": person,
        "session_id": person,
        "timestamp": "2006-03-01T00:00:00Z",
        "event_attributes": {"object": {"object_id": "evil.example"}, "position": {"ordinal": 1}},
    }
    return json.dumps(made).encode()


def _repeated_query(random: _Random) -> bytes:
    made = {"query_id": str(1 + random.number(12)), "client_id": HOSTILE, "user_query": random.one_of(QUERIES)}
    return json.dumps(made).encode()


SLOW_KEYS = ("id", "source", "elasticsearch.slowlog.source", "@timestamp", "timestamp", "type", "z")
ODD_LINES: dict[str, tuple[Callable[[_Random], bytes], ...]] = {
    "slowlog": (_Objects(("elasticsearch.slowlog.id",), SLOW_KEYS), _Objects(("id",), SLOW_KEYS[1:])),
    "jsonl": (
        _Objects(("user",), ("query", "Query", "url", "ClickURL", "time", "QueryTime", "rank", "session", "z", SHOWN)),
        _Objects(("user", "AnonID"), ("query", "url", "topic", "")),
    ),
    "ubi": (
        _foreign_event,
        _repeated_query,
        _Objects(
            ("client_id",),
            ("user_query", "action_name", "query_id", "timestamp", "event_attributes", "user_id", HITS),
        ),
    ),
}


def _of_people(frame: pl.DataFrame) -> pl.DataFrame:
    return frame.filter(pl.col("user").is_in(PEOPLE))

"""The XML of TREC's Session track: sessions with the queries somebody asked, the results they got and their clicks.

    <session num="7" userid="ann">
      <interaction num="1" starttime="09:54:27.674484">
        <query>tulip bulbs</query>
        <results><result rank="1"><url>http://tulips.example</url>…</result>…</results>
        <clicked><click num="1" starttime="09:54:42.635247"><rank>1</rank></click></clicked>
      </interaction>
      …
    </session>

An interaction is a record for each of its clicks, or one. The url is that of the result at the rank; the time that of
the click, or else of the query. The session stands for a user, since a person had many, and a release that promises
something to a person is refused; where the sessions have an attribute that names the person (`userid` in some years),
declare it for `user`, and the session comes as a column. `currentquery`, the query to be answered, is not read.

A time of day has no date, and a number of seconds no start: both are put on 1 January 1970, so that only differences
mean something. The files of the years differ in details; what is not as above is a bad session.

A session is taken out by its tags and parsed by itself, so that one which is not well-formed costs no other, nothing
but the predefined entities is known, no document type can define more, and memory stays at one session's size. "Line"
in a report is the line where the session begins. Written is one session a record, with the user for its number.

Cost: one search for tags, then expat for each session.

>>> import io
>>> from queryveil.log.query_log import QueryLog
>>> out = io.BytesIO()
>>> write(QueryLog.of([("ann", "a & b")]), out)
>>> out.getvalue().decode().splitlines()[2]
'<session num="ann"><interaction num="1"><query>a &amp; b</query></interaction></session>'
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO
from xml.etree.ElementTree import Element, ParseError, XMLParser

import polars as pl

from queryveil.errors import FormatError
from queryveil.log.formats.format import (
    WRITTEN_TIME,
    Declared,
    Findings,
    Format,
    Rule,
    iso_time,
    no_records,
    outside_years,
    rank,
    refuse_what_is_lost,
    rules_for_all,
)
from queryveil.log.query_log import QueryLog
from queryveil.log.source import LINE, LONGEST_LINE, LogFile

COLUMNS = ("user", "query", "time", "rank", "url")
NOBODY = "nothing says who asked: the session stands for a user, and nothing can be promised to a person"

_MARK = re.compile(rb"<!\[CDATA\[(.*?\]\]>)?|<!--(.*?-->)?|<session[\s>]|</session\s*>", re.DOTALL)
_PROSE = re.compile(rb"<(title|snippet)>[^<]*</\1>")
_CLOCK = r"^[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?$"
_SECONDS = r"^[0-9]{1,9}(\.[0-9]{1,9})?$"
_NOT_XML = "[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]"
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\r": "&#13;", "\n": "&#10;", "\t": "&#9;"}
_HEAD, _TAIL = b'<?xml version="1.0" encoding="UTF-8"?>\n<sessiontrack>\n', b"</sessiontrack>\n"
_ROWS_AT_ONCE = 50_000


def sniff(head: bytes, path: Path) -> bool:
    """XML whose root is a Session track."""
    return re.match(rb"\s*(<\?xml[^>]*>\s*)?<sessiontrack", head) is not None


def pieces(source: LogFile, found: Findings, declared: Declared) -> Iterator[pl.DataFrame]:
    """Every interaction, as canonical columns, so many at a time."""
    person = declared.columns.get("user")
    columns = (*COLUMNS, "session") if person else COLUMNS
    if not person:
        found.note(NOBODY)
    yield no_records(columns)
    head = source.head()
    if head.strip() and b"<session" not in head:
        raise FormatError("it has no sessions, so that it is not of TREC's Session track.")
    rows: list[tuple[object, ...]] = []
    for line, content in _sessions(source, found):
        parser = XMLParser()
        try:
            parser.feed(content)
            rows += _interactions(parser.close(), line, person or "num")
        except (ParseError, ValueError):
            found.add(line, "a session that is not well-formed XML, or uses an entity of its own")
        if len(rows) >= _ROWS_AT_ONCE:
            yield _records(rows, found, columns)
            rows = []
    yield _records(rows, found, columns)


def _sessions(source: LogFile, found: Findings) -> Iterator[tuple[int, bytes]]:
    """The text of each session and the line where it begins; what cannot be one is reported."""
    rest, first_line, broken = b"", 1, dict[int, str]()
    for block in source.blocks():
        found.lines += block.line_count
        broken |= block.broken
        data, start, keep = rest + block.data, -1, -1
        counted, line = 0, first_line
        for mark in _MARK.finditer(data):
            if mark[0] in (b"<![CDATA[", b"<!--"):  # the end is in the next block
                keep = mark.start()
                break
            if mark[0].startswith(b"<!") or (start < 0 and mark[0].startswith(b"</")):
                continue
            if start < 0 or not mark[0].startswith(b"</"):
                if start >= 0:
                    found.add(line, "a session that is not closed")
                line += data.count(b"\n", counted, mark.start())
                start = counted = mark.start()
                continue
            last = line + data.count(b"\n", start, mark.end())
            if faults := [why for number, why in broken.items() if line <= number <= last]:
                found.add(line, faults[0])
            else:
                content = data[start : mark.end()]
                yield line, content if b"<![CDATA[" in content else _PROSE.sub(b"", content)
            start = -1
        keep = start if start >= 0 else keep if keep >= 0 else len(data)
        if len(data) - keep > LONGEST_LINE:
            found.add(first_line + data.count(b"\n", 0, keep), f"a session of more than {LONGEST_LINE:,} bytes")
            keep = len(data)
        first_line += data.count(b"\n", 0, keep)
        rest = data[keep:]
    if rest:
        found.add(first_line, "a session that is not closed")


def _interactions(session: Element, line: int, person: str) -> Iterator[tuple[object, ...]]:
    user, number = session.get(person), session.get("num")
    for interaction in session:
        if interaction.tag != "interaction":
            continue
        query = interaction.find("query")
        text = query.text if query is not None and not len(query) else None
        time, clicked = interaction.get("starttime"), interaction.find("clicked")
        if clicked is None or not len(clicked):
            yield line, user, text, time, None, None, number
            continue
        shown = interaction.find("results")
        urls = {} if shown is None else {result.get("rank"): result.findtext("url") for result in shown}
        for click in clicked:
            place = click.findtext("rank")
            yield line, user, text, click.get("starttime", time), place, urls.get(place) or None, number


def _records(rows: list[tuple[object, ...]], found: Findings, columns: tuple[str, ...]) -> pl.DataFrame:
    texts = dict.fromkeys(("user", "query", "time", "rank", "url", "session"), pl.String)
    frame = pl.DataFrame(rows, schema={LINE: pl.UInt32, **texts}, orient="row")
    time = pl.col("time")
    dated = pl.when(time.str.contains(_CLOCK)).then("1970-01-01T" + time).otherwise(time).alias("time")
    seconds = pl.when(time.str.contains(_SECONDS)).then(time).cast(pl.Float64, strict=False)
    since = (seconds * 1_000_000).round().cast(pl.Int64).cast(pl.Datetime("us"))
    parsed = frame.with_columns(since.alias("_since"), (time.fill_null("") != "").alias("_timed"), dated).with_columns(
        pl.coalesce("_since", iso_time("time")).alias("time"),
        rank("rank"),
        (pl.col("rank").fill_null("") != "").alias("_ranked"),
    )
    rules = [
        *rules_for_all(columns),
        Rule("time", "neither a time of day, nor seconds, nor ISO 8601", pl.col("_timed") & pl.col("time").is_null()),
        Rule("rank", "not a whole number below 2^32", pl.col("_ranked") & pl.col("rank").is_null()),
    ]
    return found.sift(parsed, rules, {}).select(columns)


def write(log: QueryLog, out: IO[bytes]) -> None:
    """One session per record, or `FormatError` for what XML or the track's elements cannot hold."""
    texts = ("user", "query", "url")
    refuse_what_is_lost(
        log,
        "trec-session",
        columns=COLUMNS,
        instead="csv, jsonl or parquet",
        rules=[
            *(Rule(name, "a character that XML does not have", pl.col(name).str.contains(_NOT_XML)) for name in texts),
            Rule("url", "empty, which is read as none", pl.col("url") == ""),
            outside_years(1, 9999),
        ],
    )
    user, query, url = (pl.col(name).str.replace_many(_ESCAPES) for name in texts)
    place, shown = pl.col("rank").cast(pl.String).fill_null(""), pl.col("url").is_not_null()
    result = pl.format('<results><result rank="{}"><url>{}</url></result></results>', place, url)
    click = pl.format('<clicked><click num="1"><rank>{}</rank></click></clicked>', place)
    session = pl.format(
        '<session num="{}"><interaction num="1"{}><query>{}</query>{}{}</interaction></session>\n',
        user,
        pl.format(' starttime="{}"', pl.col("time").dt.to_string(WRITTEN_TIME)).fill_null(""),
        query,
        pl.when(shown).then(result).otherwise(pl.lit("")),
        pl.when(shown | pl.col("rank").is_not_null()).then(click).otherwise(pl.lit("")),
    )
    out.write(_HEAD)
    out.write("".join(log.frame.select(session).to_series()).encode())
    out.write(_TAIL)


FORMAT = Format(
    name="trec-session",
    suffix=".trec.xml",
    title="XML of TREC's Session track: sessions with queries, results and clicks",
    columns=COLUMNS,
    extras=False,
    sniff=sniff,
    pieces=pieces,
    write=write,
    multiline=True,
    mapped=("user",),
    stands_for_user="session",
)

"""Lines to records and back. A line that is no record is reported by its number and the reason, never by its content.

JSON Lines are decoded here, since a batch of live messages has no common header and one bad line must not touch the
next. AOL's and the other line formats are read by `queryveil.log`, which reports bad lines by number. A record is one
line; formats that need a whole file (parquet) or several (ubi) cannot be read live, csv only from a file, which has a
header.

>>> read = Decoder("jsonl", {}, category_column="topic")
>>> found = read([b'{"user": 7, "query": "tulips", "topic": "garden"}', b"{", None])
>>> found.frame.select("user", "query", "topic").rows()
[('7', 'tulips', 'garden')]
>>> found.bad[1], found.bad[2]
('not valid JSON', 'longer than 1,048,576 bytes')
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl

from queryveil.arrays import Flags
from queryveil.errors import FormatError, UsageError
from queryveil.log import QueryLog
from queryveil.log.formats import FORMATS, Declared, aol
from queryveil.log.formats import _json_kernel as kernel
from queryveil.log.formats._json_columns import Pieces, find
from queryveil.log.formats.delimited import PlainReader
from queryveil.log.formats.format import LONGEST_FIELD, Findings, iso_time
from queryveil.log.formats.json_keys import TWICE, lines_with_twins
from queryveil.log.formats.plain_lines import moments
from queryveil.log.source import LogFile, is_utf8
from queryveil.log.spans import Spans
from queryveil.mechanisms.stream.lines import AOL_LINES, JSON_LINES, TIMED_JSON_LINES, LineFormat
from queryveil.mechanisms.stream.records import StreamRecords

WRITTEN_LIVE = ("jsonl", "aol")
LONGEST_RECORD = LONGEST_FIELD
NOT_RECORDS = (b"", aol.HEADER.encode())
DECODED_AT_ONCE = 1 << 13
CANNOT_BE_WRITTEN = r"[\t\n\r\x00]"
SURE_DIGITS = 18
NOT_OF_THE_FORMAT = "not a record of the format"


def read_by_lines() -> tuple[str, ...]:
    """The formats whose records can be read one by one, others' too."""
    return tuple(name for name, known in FORMATS.items() if known.by_lines)


@dataclass(frozen=True)
class Decoded:
    """The records of a batch, the number within it of each, and the lines that are none, by number and reason.

    `idle` counts blank lines and headers.
    """

    frame: pl.DataFrame
    numbers: list[int]
    bad: dict[int, str]
    idle: int


class Decoder:
    """Reads lines of one format."""

    def __init__(
        self,
        format: str,  # noqa: A002 -- as everywhere in the package
        columns: Mapping[str, str],
        *,
        category_column: str | None = None,
        header: bytes | None = None,
        longest: int = LONGEST_RECORD,
        no_tabs: bool = False,
    ) -> None:
        if format not in (known := read_by_lines()):
            raise UsageError(f"{format} cannot be read record by record. Use one of {', '.join(known)}.")
        if format == "csv" and header is None:
            raise UsageError("csv needs a header, which single messages lack. Send jsonl, or read a file.")
        self._format, self._columns, self._header = format, dict(columns), header
        self._category_column, self._longest, self._no_tabs = category_column, longest, no_tabs
        self._no_records = {*NOT_RECORDS, header or b""}  # also where files were put together
        self._lines_of = self._json if format == "jsonl" else self._text
        self._one = msgspec.json.Decoder(self._shape())

    def __call__(self, lines: Sequence[bytes | None]) -> Decoded:
        """The records among these lines."""
        if lines and self._format == "jsonl" and (frame := self._all_good(lines)) is not None:
            found = _check(frame, list(range(len(lines))), {})
            return _without_tabs(found) if self._no_tabs else found
        bad: dict[int, str] = {}
        kept = []
        for number, line in enumerate(lines):
            if line is None or len(line) > self._longest:
                bad[number] = f"longer than {self._longest:,} bytes"
            elif b"\n" in line or (self._format == "csv" and line.count(b'"') % 2):
                bad[number] = "more than one line"
            else:
                kept.append((number, line.removesuffix(b"\r")))
        records = [(number, line) for number, line in kept if line not in self._no_records]
        found = self._lines_of(records, bad)
        if self._no_tabs:
            found = _without_tabs(found)
        return Decoded(found.frame, found.numbers, found.bad, len(kept) - len(records))

    # JSON

    def plain(self, lines: Spans | Sequence[bytes | None]) -> StreamRecords | None:
        """The usual case without an object for any record: every line a good one. None where that is not so.

        What a line says is what the decoder of single lines makes of it; that also says what is wrong with one.
        """
        if not isinstance(lines, Spans) or not self._category_column or not len(lines):
            return None
        if self._format == "csv":
            return self._plain_csv(lines)
        if self._format != "jsonl":
            return None
        if (lines.data >= 128).any() and not is_utf8(lines.data.tobytes()):
            return None
        theirs = {name: (self._columns.get(name, name),) for name in ("user", "query", "time")}
        found = find(Pieces.of(lines.data, lines.starts, lines.stops), {**theirs, "topic": (self._category_column,)})
        if (found.states != kernel.GOOD).any():
            return None
        user, query = found["user"], found["query"]
        if len({*theirs.values(), (self._category_column,)}) < 4 or not (_small_numbers(user) | user.has_text()).all():
            return None
        if not query.has_text().all() or (self._no_tabs and (query.kinds == kernel.ESCAPED_TEXT).any()):
            return None
        users, texts = _texts(user, numbers=True), _texts(query)
        written, paths = _texts(found["time"]), _texts(found["topic"])
        if users is None or texts is None or written is None or paths is None:
            return None
        times, known = moments(written)
        if not (known.all() and users.lengths.all() and texts.lengths.all()):
            return None
        return StreamRecords(users, texts, times, paths)

    def _plain_csv(self, lines: Spans) -> StreamRecords | None:
        if self._no_tabs or self._header is None:
            return None
        lengths = [len(line) for line in self._no_records]
        if not self._no_records.isdisjoint(lines.gather(np.isin(lines.lengths, lengths))):
            return None
        try:
            reader = PlainReader(self._header, self._columns)
        except FormatError:  # as the text road says it
            return None
        place = reader.place(self._category_column or "")
        found = reader(lines.joined(b"\n"))
        if found is None or len(found) != len(lines) or place not in found.texts:
            return None
        return StreamRecords.from_plain(found, place)

    def _shape(self) -> type[Any]:
        fields: list[Any] = [("user", str | int), ("query", str), ("time", str | None, None)]
        if self._category_column:
            fields.append(("topic", str | None, None))
        theirs = {**self._columns, **({"topic": self._category_column} if self._category_column else {})}
        return msgspec.defstruct("Record", fields, rename=lambda name: theirs.get(name, name), gc=False)

    def _all_good(self, lines: Sequence[bytes | None]) -> pl.DataFrame | None:
        """The usual case in one go: every line one object. None where that is not so.

        The decoder takes any white space for a line end and two objects on one line. But where every line opens with
        a brace and closes with one, no object goes on over a line end, so as many objects as lines are one on each.
        Some thousands of lines at a time: their objects find room in memory that is still in the processor's cache.
        """
        frames = []
        for start in range(0, len(lines), DECODED_AT_ONCE):
            block = lines[start : start + DECODED_AT_ONCE]
            if None in block:
                return None
            whole: list[bytes] = block  # type: ignore[assignment]  # there is no None in it
            content = b"\n".join(whole)
            braces = content.startswith(b"{") and content.endswith(b"}") and content.count(b"}\n{") == len(block) - 1
            if not braces or content.count(b"\n") >= len(block) or max(map(len, whole)) > self._longest:
                return None
            try:
                rows = self._one.decode_lines(content)
            except (msgspec.MsgspecError, UnicodeError, RecursionError):
                return None
            if len(rows) != len(block):
                return None
            frames.append(self._frame(rows))
            if lines_with_twins(content, partial(list, whole), self._present(frames[-1])):
                return None
        return pl.concat(frames, rechunk=True)

    def _json(self, records: list[tuple[int, bytes]], bad: dict[int, str]) -> Decoded:
        rows, numbers = [], []
        decode = self._one.decode
        for number, line in records:
            try:
                rows.append(decode(line))
                numbers.append(number)
            except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
                bad[number] = _json_fault(line, error)
        by_number, frame = dict(records), self._frame(rows)
        lines = [by_number[number] for number in numbers]
        twins = set(lines_with_twins(b"\n".join(lines), lambda: lines, self._present(frame)))
        reasons = pl.Series([TWICE if place in twins else None for place in range(len(lines))], dtype=pl.String)
        once = _without(Decoded(frame, numbers, bad, 0), reasons)
        return _check(once.frame, once.numbers, once.bad)

    def _present(self, frame: pl.DataFrame) -> dict[str, Callable[[], int]]:
        """How many lines have a value for each key that is read."""
        names = {"user": "user", "query": "query", "time": "time"} | self._columns
        columns = {theirs: name for name, theirs in names.items() if name in frame.columns}
        if self._category_column:
            columns[self._category_column] = self._category_column
        return {key: partial(_given, frame[name]) for key, name in columns.items()}

    def _frame(self, rows: list[Any]) -> pl.DataFrame:
        """The fields of decoded objects, all of them text."""
        columns = {
            "user": pl.Series([str(row.user) for row in rows], dtype=pl.String),
            "query": pl.Series([row.query for row in rows], dtype=pl.String),
            "time": pl.Series([row.time for row in rows], dtype=pl.String),
        }
        if self._category_column:
            columns[self._category_column] = pl.Series([row.topic for row in rows], dtype=pl.String)
        return pl.DataFrame(columns)

    # All other formats

    def _text(self, records: list[tuple[int, bytes]], bad: dict[int, str]) -> Decoded:
        found = Findings(len(records) + 1)
        # A first line of our own, so that no bytes of a record can pass for a byte order mark.
        content = b"\n".join([self._header or b"", *(line for _, line in records), b""])
        try:
            frame = FORMATS[self._format].read(_Lines(content), found, Declared(columns=self._columns))
        except FormatError:
            return Decoded(QueryLog.empty().frame, [], bad | {number: NOT_OF_THE_FORMAT for number, _ in records}, 0)
        at_fault = {problem.line - 2: problem.reason for problem in found.problems if problem.line >= 2}
        bad |= {records[place][0]: reason for place, reason in at_fault.items()}
        numbers = [number for place, (number, _) in enumerate(records) if place not in at_fault]
        if len(numbers) != frame.height:  # a line that is no record in its format's own way, a comment perhaps
            return self._one_by_one(records, bad)
        return Decoded(QueryLog(frame).frame, numbers, bad, 0)

    def _one_by_one(self, records: list[tuple[int, bytes]], bad: dict[int, str]) -> Decoded:
        if len(records) == 1:
            return Decoded(QueryLog.empty().frame, [], {**bad, records[0][0]: NOT_OF_THE_FORMAT}, 0)
        parts = [self._text([record], {}) for record in records]
        frame = pl.concat([QueryLog.empty().frame, *(part.frame for part in parts)], how="diagonal")
        for part in parts:
            bad |= part.bad
        return Decoded(frame, [number for part in parts for number in part.numbers], bad, 0)


class _Lines(LogFile):
    """A batch of lines as the formats of `queryveil.log` want their file."""

    def __init__(self, content: bytes) -> None:
        self.path, self.encoding, self.companions = Path("batch"), "utf-8", []
        self._content, self._magic = content, b""

    def raw(self) -> Iterator[bytes]:
        yield self._content


def line_format(format: str, *, with_time: bool) -> LineFormat:  # noqa: A002
    """How released records are written as lines."""
    if format not in WRITTEN_LIVE:
        raise UsageError(f"{format} cannot be written record by record. Use one of {', '.join(WRITTEN_LIVE)}.")
    if format == "aol":
        return AOL_LINES  # which has a column for the time, empty or not
    return TIMED_JSON_LINES if with_time else JSON_LINES


def _small_numbers(values: Pieces) -> Flags:
    """Which values are whole numbers that are written in one way only."""
    small: Flags = (values.kinds == kernel.WHOLE) & (values.stops - values.starts <= SURE_DIGITS)
    small[small] = values.data[values.starts[small]] != ord("-")
    return small


def _texts(values: Pieces, *, numbers: bool = False) -> Spans | None:
    """What texts say, and whole numbers where they are wanted; null and what is not there say nothing.

    None where there is anything else.
    """
    kinds = np.bincount(values.kinds, minlength=kernel.ARRAY + 1)
    if kinds[[kernel.NUMBER, kernel.BOOLEAN, kernel.OBJECT, kernel.ARRAY]].any():
        return None
    if kinds[kernel.WHOLE] and not numbers:
        return None
    if kinds[kernel.ESCAPED_TEXT]:
        values = values.read(kernel.WHOLE)
    absent = (values.kinds == kernel.ABSENT) | (values.kinds == kernel.NULL)
    stops = np.where(absent, values.starts, values.stops) if absent.any() else values.stops
    return Spans(values.data, values.starts, stops)


def _given(values: pl.Series) -> int:
    return len(values) - values.null_count()


def _json_fault(line: bytes, error: Exception) -> str:
    try:
        line.decode()
    except UnicodeDecodeError:
        return "not valid UTF-8"
    wrong_type = isinstance(error, msgspec.ValidationError)
    return "no user or no query, or a field of the wrong type" if wrong_type else "not valid JSON"


def _check(frame: pl.DataFrame, numbers: list[int], bad: dict[int, str]) -> Decoded:
    no_times = frame["time"].null_count() == len(numbers)
    timed = frame.with_columns(
        pl.lit(None, pl.Datetime("us")).alias("time") if no_times else iso_time("time"),
        (pl.col("time").fill_null("") != "").alias("_timed"),
    )
    reasons = (
        pl.when((pl.col("user") == "") | (pl.col("query") == ""))
        .then(pl.lit("the user or the query is empty"))
        .when(pl.col("_timed") & pl.col("time").is_null())
        .then(pl.lit("the time is no ISO 8601 time"))
    )
    return _without(Decoded(timed.drop("_timed"), numbers, bad, 0), timed.select(reasons).to_series())


def _without_tabs(found: Decoded) -> Decoded:
    broken = pl.col("query").str.contains(CANNOT_BE_WRITTEN)
    reason = pl.when(broken).then(pl.lit("a tab or line end in the query, which the output format cannot carry"))
    return _without(found, found.frame.select(reason.alias("reason")).to_series())


def _without(found: Decoded, reasons: pl.Series) -> Decoded:
    """Without the records for which there is a reason."""
    if reasons.null_count() == len(reasons):
        return found
    by_number = dict(zip(found.numbers, reasons.to_list(), strict=True))
    bad = found.bad | {number: reason for number, reason in by_number.items() if reason is not None}
    numbers = [number for number, reason in by_number.items() if reason is None]
    return Decoded(found.frame.filter(reasons.is_null()), numbers, bad, found.idle)

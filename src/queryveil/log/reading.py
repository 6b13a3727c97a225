"""Read a query log from a file of any known format, with every bad line left out and reported by number and reason.

A promise per person must not depend on other people's records, from the bytes of the file on. So whether a file is read
at all is not for its records to decide. Refused is

- a file whose header or schema is not that of its format (CSV, Parquet, and AOL where it has one): those of a log tell
  nothing about the people in it;
- a file with lines none of which is of its format, not even a header: it is another kind of file altogether. Only in
  a file of nothing else but lines that cannot be read does it matter here whether one person's line is there.

Everything else is a log. Any number of bad lines is left out (`on_error="skip"`), and a file without a record, a header
alone or no line at all, is an empty log. `on_error="fail"` is for who would rather fix a file than lose a line of it:
then one bad line of one person stops everything, which tells that it is there.

>>> import tempfile
>>> from pathlib import Path
>>> with tempfile.TemporaryDirectory() as folder:
...     path = Path(folder) / "log.csv"
...     _ = path.write_text("uid,text\\nann,tulips\\nbob,\\n")
...     log, report = read_with_report(path, columns={"user": "uid", "query": "text"})
>>> log
QueryLog(1 records, 1 users)
>>> [str(problem) for problem in report.problems]
['line 3, column query: the query is empty']
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypedDict, Unpack

import polars as pl

from queryveil.checks import one_of, require, whole_number
from queryveil.errors import FormatError, Remedy, UsageError
from queryveil.log.formats import FORMATS, Declared, Format, aol, sniffed_in_order
from queryveil.log.formats.format import AOL_NAMES, Findings, ReadReport, listed_problems
from queryveil.log.identifying import SIMILAR_IDS, similar_ids
from queryveil.log.query_log import COLUMNS, QueryLog
from queryveil.log.source import ENCODINGS, LogFile

if TYPE_CHECKING:
    from queryveil.log.databases.database import Database, DatabaseReading

ON_ERROR = ("skip", "fail")
USER_FIELDS = ("client_id", "user_id")
PACKED_SUFFIXES = (".gz", ".zst")
UNPACKED = 6
"""How many bytes of text a byte of a compressed file or of Parquet stands for, about."""


class ReadingOptions(TypedDict, total=False):
    """What can be said of a file beside where it is.

    `format` is told by the file's name or header where it is not given (`format_by_structure`), or else guessed.
    `columns` maps canonical names to the file's own (`{"user": "uid"}`). `on_error="skip"` leaves bad lines out and
    reports the first `most_problems` of them; `"fail"` raises `FormatError` with them. `encoding` is found out unless
    it is given. `user_field` is the field of UBI that says who it was: its specification's `client_id`, or `user_id`.
    `extras` names the keys of JSON Lines that travel along; formats with a header bring all their columns.
    """

    format: str | None
    columns: Mapping[str, str] | None
    on_error: Literal["skip", "fail"]
    encoding: str | None
    user_field: str
    extras: Sequence[str]
    most_problems: int


def read(path: str | Path, **declared: Unpack[ReadingOptions]) -> QueryLog:
    """The log in a file or at the address of a database; see `ReadingOptions`.

    `read_with_report` also tells what was left out.
    """
    return read_with_report(path, **declared)[0]


def read_with_report(path: str | Path, **declared: Unpack[ReadingOptions]) -> tuple[QueryLog, ReadReport]:
    """The log in a file and what reading it found.

    `ReadingOptions` says what can be told of the file, the top of this module what is refused whatever `on_error`
    says, and what is an empty log.
    """
    reading = open_log(path, **declared)
    log = QueryLog(reading.whole())
    return log, reading.report(len(log), log.frame["user"].unique())


def open_log(path: str | Path, **declared: Unpack[ReadingOptions]) -> Reading | DatabaseReading:
    """A file, or a database by its address (`queryveil.log.databases`), that is about to be read."""
    found = database_at(path)
    if found is None:
        return Reading(path, **declared)
    from queryveil.log.databases.database import DatabaseReading

    return DatabaseReading(found, **declared)


def database_at(place: str | Path | None) -> Database | None:
    """The database of an address; None for a path, for which nothing of databases is loaded."""
    if not isinstance(place, str) or not re.match(r"[a-z0-9]+:", place):
        return None
    from queryveil.log.databases import database

    return database(place)


class Reading:
    """A file that is being read, whole or a piece at a time; see `ReadingOptions` for what can be said of it."""

    def __init__(
        self,
        path: str | Path,
        *,
        format: str | None = None,  # noqa: A002 -- the name of the command line's option
        columns: Mapping[str, str] | None = None,
        on_error: Literal["skip", "fail"] = "skip",
        encoding: str | None = None,
        user_field: str = "client_id",
        extras: Sequence[str] = (),
        most_problems: int = 20,
    ) -> None:
        require(
            *wrong_settings(format, columns, on_error, encoding, user_field),
            whole_number("most_problems", most_problems, at_least=1, suggest=20),
        )
        self._source = _opened(Path(path), encoding)
        self._chosen = FORMATS[format or _sniffed(self._source)]
        _refuse_fixed(self._chosen, columns or {})
        # AOL's header is optional, so that only a file that was told by it has surely one.
        has_header = bool(self._chosen.header_lines) and (format is None or self._chosen.name != "aol")
        for part in (self._source, *self._source.companions):
            part.mark_counts = has_header
        self._on_error = on_error
        self._found = Findings(most_problems)
        self._declared = Declared(columns=columns or {}, extras=extras, user_field=user_field)

    @property
    def stands_for_user(self) -> str:
        """What is taken for a user where the file names nobody and nobody was declared to; empty where users are."""
        return "" if "user" in self._declared.columns else self._chosen.stands_for_user

    def whole(self) -> pl.DataFrame:
        """All records."""
        with self._told_by_name():
            rows = self._chosen.read(self._source, self._found, self._declared)
        _refuse(self._source, self._chosen, self._found, rows.height, self._on_error)
        return rows

    def pieces(self) -> Iterator[QueryLog]:
        """All records, a piece at a time; of a file that is refused after all, some came before that is known."""
        if self._chosen.pieces is None:
            yield QueryLog(self.whole())
            return
        records = 0
        with self._told_by_name():
            for rows in self._chosen.pieces(self._source, self._found, self._declared):
                records += rows.height
                yield QueryLog(rows)
        _refuse(self._source, self._chosen, self._found, records, self._on_error)

    def report(self, records: int, users: pl.Series) -> ReadReport:
        """What was found, once all of so many records of these distinct users were read."""
        found = self._found
        if similar := similar_ids(users):
            found.note(SIMILAR_IDS, similar)
        return ReadReport(self._chosen.name, found.lines, records, found.problems, found.problem_count, found.notes)

    @contextmanager
    def _told_by_name(self) -> Iterator[None]:
        try:
            yield
        except FormatError as error:
            message = _with_name(self._source.path.name, error.message) + self._source.hint
            raise FormatError(message, remedy=error.remedy) from None


def _refuse_fixed(chosen: Format, columns: Mapping[str, str]) -> None:
    """Names can be declared only of what the format lets be found elsewhere."""
    if chosen.extras or set(columns) <= set(chosen.mapped):
        return
    if chosen.mapped:
        raise UsageError(f"columns names only {' and '.join(chosen.mapped)} in {chosen.name}. Leave the others out.")
    raise UsageError(f"columns has no meaning for {chosen.name}, whose columns are fixed. Leave it out.")


def wrong_settings(
    format: str | None,  # noqa: A002 -- the name of the command line's option
    columns: Mapping[str, str] | None,
    on_error: str,
    encoding: str | None,
    user_field: str,
) -> list[str | None]:
    """A finding for each setting that no reader takes, whichever engine reads."""
    return [
        one_of("format", format, FORMATS, optional=True),
        one_of("on_error", on_error, ON_ERROR, suggest="skip"),
        one_of("encoding", encoding, ENCODINGS, optional=True),
        *(one_of("columns", name, COLUMNS) for name in columns or ()),
        one_of("user_field", user_field, USER_FIELDS, suggest="client_id"),
    ]


def sniff(path: str | Path) -> str:
    """The name of the format a file is in, or `FormatError` that lists the known ones."""
    return _sniffed(_opened(Path(path), None))


def _opened(path: Path, encoding: str | None) -> LogFile:
    first, *companions = _files_of(path)
    return LogFile(first, encoding, companions=companions)


def _files_of(path: Path) -> list[Path]:
    try:
        for known in FORMATS.values():
            if known.files_of and (path.name.startswith(known.prefixes) or path.is_dir()):
                return known.files_of(path)
    except (OSError, ValueError):
        pass  # opening the path tells what is wrong with it
    return [path]


def format_of_name(path: Path) -> str | None:
    """The format that a file's suffix stands for, if any: `log.ubi.jsonl.gz` is ubi."""
    name = path.name.lower()
    for packed in PACKED_SUFFIXES:
        name = name.removesuffix(packed)
    fitting = [known for known in FORMATS.values() if name.endswith(known.suffix)]
    return max(fitting, key=lambda known: len(known.suffix)).name if fitting else None


def format_by_structure(path: str | Path) -> str | None:
    """The format that a file's name, header or magic bytes tell, None where only its records could.

    A file's first record is somebody's, and must not decide how everybody else's are read. So a `.jsonl` is JSON Lines
    whatever its lines look like, and a `.tsv` is AOL's or a CSV with tabs by its header; where the name says nothing,
    only AOL's header counts.
    """
    return _by_structure(_opened(Path(path), None))


def _by_structure(source: LogFile) -> str | None:
    begins = (known.name for known in FORMATS.values() if source.path.name.startswith(known.prefixes))
    named = next(begins, None) or format_of_name(source.path)
    if named not in (None, "aol"):
        return named
    head = source.head()
    first = head.split(b"\n", 1)[0].rstrip(b"\r").decode(errors="replace")
    if first == aol.HEADER:
        return "aol"
    # A record may hold a column's name for its user or its query; a header holds nothing else.
    cells = {cell.strip('"') for cell in first.split("\t")}
    known = {*COLUMNS, *AOL_NAMES.values()}
    is_header = cells <= known and ({"user", "query"} <= cells or {"AnonID", "Query"} <= cells)
    return "csv" if named == "aol" and is_header else None


def _sniffed(source: LogFile) -> str:
    if known := _by_structure(source):
        return known
    head = source.head()
    for name in sniffed_in_order():
        if FORMATS[name].sniff(head, source.path):
            return name
    if (named := format_of_name(source.path)) is None:
        known = "\n  ".join(f"{known.name:14} {known.suffix:14} {known.title}" for known in FORMATS.values())
        raise FormatError(
            f"{source.path.name}: not in a format that can be told.{source.hint} Name one of\n  {known}\n",
            remedy=Remedy("format", "NAME"),
        )
    return named


def _refuse(source: LogFile, chosen: Format, found: Findings, records: int, on_error: str) -> None:
    """Refuse what is not of its format at all, and bad lines where that was asked for; see the module for why no more.

    A header or schema that is not the format's was refused by the format itself.
    """
    if not found.problem_count:
        return
    if on_error == "fail":
        problem = f"{found.problem_count:,} of {found.lines:,} lines cannot be read as {chosen.name}."
        advice, remedy = "Fix them, or leave them out.", Remedy("on_error", "skip")
    elif not records and not _has_a_line_of(chosen, source, found):
        problem = f"no line can be read as {chosen.name}, so the file is not of this format at all."
        advice, remedy = "Is it the right file, and are its format and encoding as declared or guessed?", None
    else:
        return
    listed = listed_problems(found.problems, found.problem_count)
    raise FormatError(
        "\n  ".join([f"{source.path.name}: {problem}", *listed]) + f"\n{advice}{source.hint}", remedy=remedy
    )


def _has_a_line_of(chosen: Format, source: LogFile, found: Findings) -> bool:
    """Whether any line is of the format, were it a header, a request without a search or an event without a click."""
    if chosen.extras and chosen.header_lines != 0:
        return True  # names of columns stand in a header or schema, which was read
    written = 0
    for part in (source, *source.companions):
        for block in part.blocks():
            written += sum(line not in (b"", b"\r") for line in block.data.split(b"\n"))
    return written > found.problem_count


def _with_name(name: str, message: str) -> str:
    return message if message.startswith(f"{name}:") else f"{name}: {message}"


def text_size(path: Path) -> int:
    """How many bytes of text a log has, about; what is no file is for the reader to refuse."""
    if not path.exists():
        return 0
    files = [file for file in path.iterdir() if file.is_file()] if path.is_dir() else [path]
    packed = (*PACKED_SUFFIXES, ".parquet")
    return sum(file.stat().st_size * (UNPACKED if file.name.lower().endswith(packed) else 1) for file in files)


def address_of(text: str) -> str | None:
    """The text itself where it is an address with a scheme, like `hdfs:///data/log` or `dbfs:/mnt/log`."""
    return text if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", text) else None


def without_credentials(address: str) -> str:
    """The address without the name and password that may stand before its host."""
    return re.sub(r"(?<=://)[^/]*@", "", address)

"""Read a query log from a file of any known format, with every bad line reported by number and reason.

>>> import tempfile
>>> from pathlib import Path
>>> with tempfile.TemporaryDirectory() as folder:
...     path = Path(folder) / "log.csv"
...     _ = path.write_text("uid,text\\nann,tulips\\nbob,\\n")
...     log, report = read_with_report(path, columns={"user": "uid", "query": "text"}, on_error="skip")
>>> log
QueryLog(1 records, 1 users)
>>> [str(problem) for problem in report.problems]
['line 3, column query: the query is empty']
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import polars as pl

from queryveil.checks import one_of, require, truth_value, whole_number
from queryveil.errors import FormatError, UsageError
from queryveil.log.formats import FORMATS, SNIFFED_IN_ORDER, Declared, Format, aol, ubi
from queryveil.log.people import SIMILAR_IDS, similar_ids
from queryveil.log.problems import Findings, ReadReport
from queryveil.log.query_log import COLUMNS, QueryLog
from queryveil.log.source import ENCODINGS, Source

USER_FIELDS = ("client_id", "user_id")
PACKED_SUFFIXES = (".gz", ".zst")


def read(
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002 -- the name of the command line's option
    columns: Mapping[str, str] | None = None,
    on_error: Literal["fail", "skip"] = "fail",
    encoding: str | None = None,
    user_field: str = "client_id",
    extras: Sequence[str] = (),
    most_problems: int = 20,
    allow_empty: bool = False,
) -> QueryLog:
    """The log in a file. See `read_with_report`, which also tells what was left out."""
    return read_with_report(
        path,
        format=format,
        columns=columns,
        on_error=on_error,
        encoding=encoding,
        user_field=user_field,
        extras=extras,
        most_problems=most_problems,
        allow_empty=allow_empty,
    )[0]


def read_with_report(
    path: str | Path,
    *,
    format: str | None = None,  # noqa: A002 -- the name of the command line's option
    columns: Mapping[str, str] | None = None,
    on_error: Literal["fail", "skip"] = "fail",
    encoding: str | None = None,
    user_field: str = "client_id",
    extras: Sequence[str] = (),
    most_problems: int = 20,
    allow_empty: bool = False,
) -> tuple[QueryLog, ReadReport]:
    """The log in a file and what reading it found.

    `format` is told by the file's name or header where it is not given (`format_by_structure`), or else guessed.
    `columns` maps canonical names to the file's own (`{"user": "uid"}`). `on_error="fail"` raises `FormatError` with
    the first `most_problems` bad lines; `"skip"` leaves them out. `encoding` is found out unless it is given.
    `user_field` is the field of UBI that says who it was: its specification's `client_id`, or `user_id`. `extras` names
    the keys of JSON Lines that travel along; formats with a header bring all their columns. A file without any record
    is refused unless `allow_empty`.
    """
    require(
        *wrong_settings(format, columns, on_error, encoding, user_field),
        whole_number("most_problems", most_problems, at_least=1, suggest=20),
        truth_value("allow_empty", allow_empty),
    )
    source = _opened(Path(path), encoding)
    chosen = FORMATS[format or _sniffed(source)]
    if columns and not chosen.extras:
        raise UsageError(f"columns has no meaning for {chosen.name}, whose columns are fixed. Leave it out.")
    found = Findings(most_problems)
    try:
        frame = chosen.read(source, found, Declared(columns=columns or {}, extras=extras, user_field=user_field))
    except FormatError as error:
        raise FormatError(_with_name(source.path.name, str(error)) + source.hint) from None
    _refuse(source, chosen, found, frame, on_error, allow_empty)
    log = QueryLog(frame)
    if similar := similar_ids(log.frame["user"].unique()):
        found.note(SIMILAR_IDS, similar)
    return log, ReadReport(chosen.name, found.lines, len(log), found.problems, found.problem_count, found.notes)


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
        one_of("on_error", on_error, ("fail", "skip"), suggest="fail"),
        one_of("encoding", encoding, ENCODINGS, optional=True),
        *(one_of("columns", name, COLUMNS) for name in columns or ()),
        one_of("user_field", user_field, USER_FIELDS, suggest="client_id"),
    ]


def sniff(path: str | Path) -> str:
    """The name of the format a file is in, or `FormatError` that lists the known ones."""
    return _sniffed(_opened(Path(path), None))


def _opened(path: Path, encoding: str | None) -> Source:
    first, *companions = ubi.files_of(path)
    return Source(first, encoding, companions=companions)


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
    only AOL's header and Parquet's magic bytes count.
    """
    return _by_structure(_opened(Path(path), None))


def _by_structure(source: Source) -> str | None:
    named = "ubi" if source.path.name.startswith((ubi.QUERIES, ubi.EVENTS)) else format_of_name(source.path)
    if named not in (None, "aol"):
        return named
    head = source.head()
    first = head.split(b"\n", 1)[0].rstrip(b"\r").decode(errors="replace")
    if first == aol.HEADER:
        return "aol"
    cells = {cell.strip('"') for cell in first.split("\t")}
    if named == "aol" and ({"user", "query"} <= cells or {"AnonID", "Query"} <= cells):
        return "csv"
    return "parquet" if FORMATS["parquet"].sniff(head, source.path) else None


def _sniffed(source: Source) -> str:
    if told := _by_structure(source):
        return told
    head = source.head()
    for name in SNIFFED_IN_ORDER:
        if FORMATS[name].sniff(head, source.path):
            return name
    if (named := format_of_name(source.path)) is None:
        known = "\n  ".join(f"{known.name:14} {known.suffix:14} {known.title}" for known in FORMATS.values())
        raise FormatError(
            f"{source.path.name}: not in a format that can be told.{source.hint} Name it with --format:\n  {known}"
        )
    return named


def _refuse(
    source: Source, chosen: Format, found: Findings, frame: pl.DataFrame, on_error: str, allow_empty: bool
) -> None:
    name = source.path.name
    if found.problem_count and (on_error == "fail" or not frame.height):
        listed = [f"{name}: {found.problem_count:,} of {found.lines:,} lines cannot be read as {chosen.name}."]
        listed += map(str, found.problems)
        if found.problem_count > len(found.problems):
            listed.append(f"… and {found.problem_count - len(found.problems):,} more")
        remedy = (
            "Mend them, or leave them out with --on-error skip."
            if frame.height
            else f"No line is left to work with.{source.hint}"
        )
        raise FormatError("\n  ".join(listed) + f"\n{remedy}")
    if not frame.height and not allow_empty:
        held = "has no record, only a header or lines without one" if found.lines else "is empty"
        raise FormatError(f"{name}: the file {held}. Is it the right file?")


def _with_name(name: str, message: str) -> str:
    return message if message.startswith(f"{name}:") else f"{name}: {message}"

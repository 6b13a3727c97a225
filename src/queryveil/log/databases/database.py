"""What a database is to a log, and what all of them share: where a log is read from and a released one copied to.

A table has no order. So that a log is a function of its rows, and not of how a server happens to hand them out, records
are sorted by time and then by everything else; rows are numbered as they came where a bad one is reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar, Literal, Protocol

import polars as pl

from queryveil.checks import require, whole_number
from queryveil.errors import FormatError, Remedy, UsageError
from queryveil.log.formats import Declared, Findings
from queryveil.log.formats.format import ReadReport, listed_problems
from queryveil.log.identifying import SIMILAR_IDS, similar_ids
from queryveil.log.query_log import QueryLog, exactly


class Database(Protocol):
    """One place in a database. Nothing is asked of a server before a method is called."""

    kind: ClassVar[str]
    file_format: ClassVar[str]
    """The format of a release's own file where none is asked for."""
    columns_are_fixed: ClassVar[bool]
    """Whether names of columns cannot be mapped."""

    @property
    def title(self) -> str:
        """The table's name, for people and for names of folders."""

    def read(self, found: Findings, declared: Declared) -> pl.DataFrame:
        """Every row that is a record, in canonical columns; the others are reported by their number."""

    def columns(self) -> list[str]:
        """The names of all columns, canonical where they count as such; those that are never read included."""

    def check_free(self) -> None:
        """`UsageError` where something lies already where a copy should go, or nothing can."""

    def refuse_what_is_lost(self, log: QueryLog) -> None:
        """`FormatError` for a log that cannot be written here whole."""

    def write(self, log: QueryLog) -> None:
        """All of the log or nothing, wherever the work is cut off; nothing that is there already is changed."""


class DatabaseReading:
    """A database that is being read; has the methods of a `queryveil.log.reading.Reading`."""

    stands_for_user: ClassVar[str] = ""

    def __init__(
        self,
        database: Database,
        *,
        format: str | None = None,  # noqa: A002 -- as for files
        columns: Mapping[str, str] | None = None,
        on_error: Literal["skip", "fail"] = "skip",
        encoding: str | None = None,
        user_field: str = "client_id",
        extras: Sequence[str] = (),
        most_problems: int = 20,
    ) -> None:
        require(whole_number("most_problems", most_problems, at_least=1, suggest=20))
        for name, value in (("format", format), ("encoding", encoding)):
            if value is not None:
                message = f"{name} is said of a file; {database.kind} knows its own."
                raise UsageError(message, remedy=Remedy(name))
        if columns and database.columns_are_fixed:
            raise UsageError(f"columns has no meaning for {database.kind}, whose columns are fixed. Leave it out.")
        self._database, self._on_error, self._found = database, on_error, Findings(most_problems)
        self._declared = Declared(columns=columns or {}, extras=extras, user_field=user_field)

    def whole(self) -> pl.DataFrame:
        """All records."""
        rows = self._database.read(self._found, self._declared)
        found = self._found
        if found.problem_count and self._on_error == "fail":
            listed = listed_problems(found.problems, found.problem_count)
            problem = f"{self._database.title}: {found.problem_count:,} of {found.lines:,} rows cannot be read."
            advice = "\nFix them, or leave them out."
            raise FormatError("\n  ".join([problem, *listed]) + advice, remedy=Remedy("on_error", "skip"))
        return in_order(rows)

    def pieces(self) -> Iterator[QueryLog]:
        """All records at once: they are sorted, and a server sorts text by rules of its own."""
        yield QueryLog(self.whole())

    def report(self, records: int, users: pl.Series) -> ReadReport:
        """What was found, once all of so many records of these distinct users were read."""
        found = self._found
        if similar := similar_ids(users):
            found.note(SIMILAR_IDS, similar)
        kind = self._database.kind
        return ReadReport(kind, found.lines, records, found.problems, found.problem_count, found.notes)


def in_order(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows by time and then by all else, which no order of the same rows changes.

    >>> rows = pl.DataFrame({"user": ["b", "a", "a"], "query": ["q", "q", "p"]})
    >>> in_order(rows).rows() == in_order(rows[::-1]).rows()
    True
    """
    by = sorted(rows.columns, key=lambda name: name != "time")
    return rows.sort(map(exactly, by))

"""What a format is, and what formats share: problems of a file, values of columns, what is refused in writing.

A format is a name, a suffix, what it can carry, and three functions: sniff, read, write. `read` gets a `LogFile` and a
`Findings` to report to and returns a frame with canonical column names; `write` gets a log that is known to be one and
refuses what it cannot carry, since a silent loss or an invented escape would be a lie.

What reading found wrong is told by line numbers, columns and reasons, and never by anything of the file's content.

>>> found = Findings(most_problems=2)
>>> for line in (3, 5, 9):
...     found.add(line, "the query is empty", column="query")
>>> [str(problem) for problem in found.problems]
['line 3, column query: the query is empty', 'line 5, column query: the query is empty']
>>> found.problem_count
3
>>> log = QueryLog.of([("ann", "two" + chr(9) + "words")])
>>> refuse_what_is_lost(log, "aol", columns=("user", "query"), instead="csv", rules=[
...     Rule("query", "a tab", pl.col("query").str.contains(chr(9), literal=True))])
Traceback (most recent call last):
queryveil.errors.FormatError: aol cannot carry this log:
  row 1, column query: a tab (1 such row)
Write it as csv instead, or change the log first.
>>> frame = pl.DataFrame({"time": ["2006-03-01 07:17:12", "2006-03-01T08:17:12.5+01:00", "yesterday"]})
>>> frame.select(iso_time("time")).to_series().to_list()
[datetime.datetime(2006, 3, 1, 7, 17, 12), datetime.datetime(2006, 3, 1, 7, 17, 12, 500000), None]
"""

from __future__ import annotations

import codecs
import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import IO, Any

import polars as pl

from queryveil.errors import FormatError, Remedy
from queryveil.log.query_log import COLUMNS, QueryLog, exactly
from queryveil.log.source import LINE, Block, LogFile

LONGEST_FIELD = 1 << 20
"""Bytes of UTF-8 a single value may have. A longer one is an accident or an attack, not a query."""
MOST_SHOWN = 5
AOL_NAMES = {"user": "AnonID", "query": "Query", "time": "QueryTime", "rank": "ItemRank", "url": "ClickURL"}
SECONDS = "%Y-%m-%d %H:%M:%S"
WRITTEN_TIME = "%Y-%m-%dT%H:%M:%S%.f"
"""How csv, jsonl and ubi write a time: UTC, with as many decimals as it has (none, 3 or 6)."""
_SECONDS_SHAPE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}$"
_ISO = (
    r"^(?<date>[0-9]{4}-[0-9]{2}-[0-9]{2})(?:[T ](?<clock>[0-9]{2}:[0-9]{2})"
    r"(?::(?<second>[0-9]{2})(?:[.,](?<fraction>[0-9]{1,9}))?)?"
    r"(?: ?(?:[Zz]|UTC|(?<sign>[+-])(?<hours>[0-9]{2}):?(?<minutes>[0-9]{2})))?)?$"
)


@dataclass(frozen=True)
class Problem:
    """One record that could not be read: where and why."""

    line: int
    reason: str
    column: str | None = None
    file: str | None = None
    """Only where a log is spread over several files."""

    def __str__(self) -> str:
        file, column = f"{self.file}, " if self.file else "", f", column {self.column}" if self.column else ""
        return f"{file}line {self.line:,}{column}: {self.reason}"


@dataclass(frozen=True)
class ReadReport:
    """What reading one file saw. `problems` stops at the limit asked for; `problem_count` counts them all."""

    format: str
    lines: int
    records: int
    problems: tuple[Problem, ...]
    problem_count: int
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rule:
    """A record for which `broken` is true is refused for `reason`."""

    column: str | None
    reason: str
    broken: pl.Expr


class Findings:
    """Collects problems and notes while a format reads; keeps the first `most_problems` in the order of the file."""

    def __init__(self, most_problems: int) -> None:
        self.lines = 0
        self.problem_count = 0
        self._most = most_problems
        self._kept: list[Problem] = []
        self._notes: dict[str, int] = {}
        self._files: list[tuple[int, str]] = []

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The first problems by line, as many as asked for."""
        self._cut()
        return tuple(map(self._placed, self._kept))

    @property
    def notes(self) -> tuple[str, ...]:
        """What was left out without being wrong, with how often."""
        return tuple(f"{text}: {count:,}" if count else text for text, count in self._notes.items())

    def begin_file(self, name: str) -> None:
        """The next lines belong to another file; lines are numbered through inside and told per file."""
        self._files.append((self.lines, name))

    def add(self, line: int, reason: str, column: str | None = None) -> None:
        """Report one record."""
        self.problem_count += 1
        self._kept.append(Problem(line, reason, column))
        if len(self._kept) > 2 * self._most:
            self._cut()

    def note(self, text: str, count: int = 0) -> None:
        """Count something worth knowing that is not wrong; a text without a count is told once."""
        if count or text not in self._notes:
            self._notes[text] = self._notes.get(text, 0) + count

    def sift(self, frame: pl.DataFrame, rules: Sequence[Rule], broken: Mapping[int, str]) -> pl.DataFrame:
        """Report the records that break a rule (the first one counts) and return the others without the line column.

        `broken` names lines that are already known to be bad, with the reason.
        """
        known = pl.col(LINE).is_in(list(broken)) if broken else pl.lit(False)
        # Nearly always nothing is wrong, which is told faster than what is.
        if not frame.select(pl.any_horizontal(known, *(rule.broken for rule in rules)).any()).item():
            return frame.drop(LINE)
        judged = frame.with_columns(first_broken([known, *(rule.broken for rule in rules)]).alias("_verdict"))
        bad = judged.select(LINE, "_verdict").filter(pl.col("_verdict").is_not_null())
        if bad.height:
            self._report(bad, rules, broken)
            judged = judged.filter(pl.col("_verdict").is_null())
        return judged.drop(LINE, "_verdict")

    def _report(self, bad: pl.DataFrame, rules: Sequence[Rule], broken: Mapping[int, str]) -> None:
        self.problem_count += bad.height
        for line, number in bad.sort(LINE).head(self._most).iter_rows():
            rule = rules[number - 1]
            self._kept.append(Problem(line, rule.reason, rule.column) if number else Problem(line, broken[line]))
        self._cut()

    def _placed(self, problem: Problem) -> Problem:
        for lines_before, name in reversed(self._files):
            if problem.line > lines_before:
                return replace(problem, line=problem.line - lines_before, file=name)
        return problem

    def _cut(self) -> None:
        self._kept = sorted(self._kept, key=lambda problem: problem.line)[: self._most]


@dataclass(frozen=True, kw_only=True)
class Declared:
    """What the holder said about a file. Together with its header or schema this decides what a row means, never other
    rows: a promise per person would not hold if one person's records changed how another's are read."""

    columns: Mapping[str, str] = field(default_factory=dict)
    """Names of the table to names of the file, in formats with names of their own."""
    extras: Sequence[str] = ()
    """Columns beyond the canonical ones that are wanted, in formats whose rows have no header to name them."""
    user_field: str = "client_id"
    """Which field of UBI says who it was."""


def not_given(*_: Any) -> Any:
    """Stands for a function that a format leaves to `Format`."""


@dataclass(frozen=True, kw_only=True)
class Format:
    """One way to keep a query log in a file."""

    name: str
    suffix: str
    title: str
    columns: tuple[str, ...]
    """The canonical columns it can carry."""
    extras: bool
    """Whether it can carry other columns, so that a reader may also map names."""
    sniff: Callable[[bytes, Path], bool]
    read: Callable[[LogFile, Findings, Declared], pl.DataFrame] = not_given
    """All `pieces`, where nothing else is given."""
    write: Callable[[QueryLog, IO[bytes]], None] = not_given
    """Not given where a file can only be read."""
    mapped: tuple[str, ...] = ()
    """Of the canonical columns those whose name in the file can be declared, where it does not carry other columns."""
    stands_for_user: str = ""
    """What stands in the column of users where a file names nobody. No promise to a person is made then, unless the
    holder declares where the users are (`mapped`)."""
    optional: tuple[str, ...] = ()
    """Of the other columns those that it can carry where it does not carry any."""
    pieces: Callable[[LogFile, Findings, Declared], Iterator[pl.DataFrame]] | None = None
    """What `read` gives, a piece at a time in the order of the file, the first of them perhaps without rows: for logs
    that outgrow the memory. None where a file can only be read whole."""
    header_lines: int | None = None
    """Lines before the first record, where every record is then a line of its own; None where a file is not so."""
    by_lines: bool = False
    """Whether each record is a line that can be read without the others, so that messages of a stream can be."""
    is_text: bool = True
    """Whether a file is lines of text; Parquet is not."""
    multiline: bool = False
    """Whether a record may go over several lines, so that a broken line may cost its neighbours: never guessed."""
    needs_time: bool = False
    """Whether a record without a time cannot be written (for UBI: one with a click)."""
    prefixes: tuple[str, ...] = ()
    """How names of files begin that are of this format whatever they end in."""
    files_of: Callable[[Path], list[Path]] | None = None
    """The files that a folder, or a name with one of the prefixes, stands for, where a log may lie in several."""
    read_only: bool = False
    """Whether it cannot be written, since it demands what no release has."""

    def __post_init__(self) -> None:
        if self.read is not_given:
            object.__setattr__(self, "read", self._read_pieces)
        if self.write is not_given:
            object.__setattr__(self, "write", self._refuse_to_write)
            object.__setattr__(self, "read_only", True)

    def _read_pieces(self, source: LogFile, found: Findings, declared: Declared) -> pl.DataFrame:
        assert self.pieces is not None
        return pl.concat(self.pieces(source, found, declared))

    def _refuse_to_write(self, log: QueryLog, out: IO[bytes]) -> None:
        raise FormatError(f"{self.name} is read and not written.", remedy=Remedy("format", "csv"))


def listed_problems(problems: Sequence[Problem], count: int) -> list[str]:
    """The problems that were kept, a line each, and how many more there are.

    >>> listed_problems([Problem(3, "not 3 columns")], 12)
    ['line 3: not 3 columns', '… and 11 more']
    """
    more = [f"… and {count - len(problems):,} more"] if count > len(problems) else []
    return [*map(str, problems), *more]


def first_broken(conditions: Sequence[pl.Expr]) -> pl.Expr:
    """The number of the first condition that holds, null where none does."""
    return pl.coalesce(pl.when(broken).then(pl.lit(number, pl.UInt16)) for number, broken in enumerate(conditions))


def rules_for_all(columns: Sequence[str]) -> list[Rule]:
    """What every record of every format has to obey."""
    rules = [
        Rule(name, f"the {name} is empty", pl.col(name).is_null() | (pl.col(name) == ""))
        for name in ("user", "query")
        if name in columns
    ]
    return rules + [
        Rule(name, f"the {name} is longer than {LONGEST_FIELD:,} bytes", pl.col(name).str.len_bytes() > LONGEST_FIELD)
        for name in columns
        if COLUMNS.get(name, pl.String()) == pl.String()
    ]


def refuse_what_is_lost(
    log: QueryLog, name: str, *, columns: Sequence[str], instead: str | None, rules: Sequence[Rule]
) -> None:
    """Raise `FormatError` when the log uses columns the format lacks or has rows that break a rule."""
    lost = [column for column in log.used_columns if column not in columns]
    complaints = [f"it has no place for column {shown_name(column)}" for column in lost]
    schema = log.lazy().collect_schema()
    checked = [rule for rule in rules if rule.column is None or rule.column in schema]
    checked += [
        Rule(column, f"longer than {LONGEST_FIELD:,} bytes", exactly(column).str.len_bytes() > LONGEST_FIELD)
        for column, dtype in schema.items()
        if dtype == pl.String
    ]
    for rule, (count, first) in zip(checked, _broken_rows(log, checked), strict=True):
        if count:
            shown = ", ".join(f"{row + 1:,}" for row in first)
            where = f", column {shown_name(rule.column)}" if rule.column else ""
            complaints.append(
                f"row{'s' * (count > 1)} {shown}{', …' if count > MOST_SHOWN else ''}{where}: "
                f"{rule.reason} ({count:,} such row{'s' * (count > 1)})"
            )
    if complaints:
        raise FormatError(
            "\n  ".join([f"{name} cannot carry this log:", *complaints])
            + (f"\nWrite it as {instead} instead, or change the log first." if instead else "\nChange the log first.")
        )


def _broken_rows(log: QueryLog, rules: Sequence[Rule]) -> list[tuple[int, list[int]]]:
    """For each rule how many rows break it, and the first of them."""
    found: list[tuple[int, list[int]]] = [(0, []) for _ in rules]
    before = 0
    for part in log.lazy_parts():  # one at a time: all of them may outgrow the memory
        wanted = [rule.broken.arg_true().implode().alias(f"{i}") for i, rule in enumerate(rules)]
        *broken, height = part.select(*wanted, pl.len()).collect().row(0)
        for number, rows in enumerate(broken):
            count, first = found[number]
            more = [before + row for row in rows[: MOST_SHOWN - len(first)]]
            found[number] = count + len(rows), [*first, *more]
        before += height
    return found


def no_records(columns: Sequence[str]) -> pl.DataFrame:
    """A frame of these canonical columns without rows, to which blocks are appended."""
    return pl.DataFrame(schema={column: COLUMNS[column] for column in columns})


def tab_cells(block: Block, found: Findings, names: Sequence[str]) -> pl.DataFrame:
    """The lines of a block that are not blank, cut at their tabs into so many text columns and `_more`.

    Cells that a line lacks are null, and `_more` is not where it has more.
    """
    found.lines += block.line_count
    lines = block.lines()
    blank = lines["text"] == ""
    if blank.any():
        found.note("blank lines left out", int(blank.sum()))
        lines = lines.filter(~blank)
    cut = pl.col("text").str.split_exact("\t", len(names)).struct.rename_fields([*names, "_more"])
    return lines.select(LINE, cut).unnest("text")


def keep_first_mark(log: QueryLog, out: IO[bytes], column: str = "user") -> None:
    """Put a byte order mark before a file whose first value begins with one, since a reader takes the first away."""
    if len(log) and log.frame[column][0].startswith("\ufeff"):
        out.write(codecs.BOM_UTF8)


def write_lines(out: IO[bytes], lines: Iterable[bytes]) -> None:
    """Write many short pieces in few calls; not every compressor has `writelines`."""
    remaining = iter(lines)
    while batch := list(islice(remaining, 10_000)):
        out.write(b"".join(batch))


def shown_name(column: str) -> str:
    """A column's name where it looks like one."""
    plain = column.isascii() and column.isidentifier() and len(column) <= 40
    return column if plain else "(a name not shown)"


def iso_time(column: str) -> pl.Expr:
    """ISO 8601 text as UTC, null where it is none; a time without a zone is taken for UTC, decimals past µs are cut."""
    part = pl.col(column).str.extract_groups(_ISO).struct
    whole = part["date"] + " " + part["clock"].fill_null("00:00") + ":" + part["second"].fill_null("00")
    micros = part["fraction"].fill_null("").str.pad_end(6, "0").str.slice(0, 6).cast(pl.Int64, strict=False)
    minutes = part["hours"].cast(pl.Int64, strict=False) * 60 + part["minutes"].cast(pl.Int64, strict=False)
    east = pl.when(part["sign"] == "-").then(-minutes).otherwise(minutes).fill_null(0)
    moment = whole.str.to_datetime(SECONDS, strict=False, time_unit="us") - pl.duration(minutes=east)
    return in_calendar(real_moment(moment, part["second"] == "60") + pl.duration(microseconds=micros)).alias(column)


def plain_time(column: str) -> pl.Expr:
    """Text like 2006-03-01 07:17:12, null where it is anything else."""
    well_formed = pl.when(pl.col(column).str.contains(_SECONDS_SHAPE)).then(pl.col(column))
    moment = well_formed.str.to_datetime(SECONDS, strict=False, time_unit="us")
    return in_calendar(real_moment(moment, pl.col(column).str.ends_with(":60"))).alias(column)


def real_moment(moment: pl.Expr, leap: pl.Expr) -> pl.Expr:
    """Null where a second 60 stands elsewhere than at the end of a month in UTC, where alone leap seconds are put.

    The calendar of the table has none, so that one counts as the first of the next month. Nearly no log has any, so it
    is looked at only where there are some.
    """
    both = pl.struct(moment.alias("moment"), leap.alias("leap"))
    return both.map_batches(_without_false_leaps, return_dtype=pl.Datetime("us"), is_elementwise=True)


def _without_false_leaps(both: pl.Series) -> pl.Series:
    moment, leap = both.struct.field("moment"), both.struct.field("leap").fill_null(False)
    if not leap.any():
        return moment
    is_the_first = (moment.dt.day() == 1) & (moment.dt.truncate("1d") == moment)
    return pl.select(pl.when(~leap | is_the_first).then(moment)).to_series()


def in_calendar(moment: pl.Expr) -> pl.Expr:
    """Null outside the years 1 to 9999, the only ones that Python's own dates know."""
    return pl.when(moment.is_between(dt.datetime.min, dt.datetime.max)).then(moment)


def rank(column: str) -> pl.Expr:
    """Decimal digits as a rank, null where the text is empty or no such number."""
    digits = pl.when(pl.col(column).str.contains(r"^[0-9]{1,10}$")).then(pl.col(column))
    return digits.cast(pl.UInt32, strict=False).alias(column)


def given(column: str) -> pl.Expr:
    """True where the text holds something."""
    return pl.col(column).fill_null("") != ""


def holds_any_of(columns: Iterable[str], characters: str, reason: str) -> list[Rule]:
    """Rules against characters for which a format has no escape."""
    listed = "".join(f"\\x{{{ord(character):x}}}" for character in characters)
    return [Rule(column, reason, exactly(column).str.contains(f"[{listed}]")) for column in columns]


def stray_returns(block: Block, columns: Iterable[str]) -> list[Rule]:
    """Rules against carriage returns that are not part of a line end; none where the block has no return at all."""
    return holds_any_of(columns, "\r", "a carriage return inside the line") if b"\r" in block.data else []


def has_fraction() -> Rule:
    """Against times finer than a second."""
    fine = pl.col("time").dt.microsecond() != 0
    return Rule("time", "finer than a second; round it with time.dt.truncate('1s')", fine)


def outside_years(first: int, last: int) -> Rule:
    """Against times that would not fit the digits of the year."""
    early, late = pl.lit(dt.datetime(first, 1, 1)), pl.lit(dt.datetime(last, 12, 31, 23, 59, 59, 999999))
    return Rule("time", f"outside the years {first} to {last}", ~pl.col("time").is_between(early, late))

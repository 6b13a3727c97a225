"""What a format is, and what formats share: names and values of columns, and what is refused when a log is written.

A format is a name, a suffix, what it can carry, and three functions: sniff, read, write. `read` gets a `LogFile` and a
`Findings` to report to and returns a frame with canonical column names; `write` gets a log that is known to be one and
refuses what it cannot carry, since a silent loss or an invented escape would be a lie.

Where columns have names of their own, a name counts as ours when it is canonical (`user`), AOL's (`AnonID`), or mapped
with `columns` (`user=uid`). All other columns travel along under their own names.

>>> from queryveil.log.query_log import QueryLog
>>> log = QueryLog.of([("ann", "two" + chr(9) + "words")])
>>> refuse_what_is_lost(log, "aol", columns=("user", "query"), instead="csv", rules=[
...     Rule("query", "a tab", pl.col("query").str.contains(chr(9), literal=True))])
Traceback (most recent call last):
queryveil.errors.FormatError: aol cannot carry this log:
  row 1, column query: a tab (1 such row)
Write it as csv instead, or change the log first.
>>> names = match_names(["uid", "text", "shop"], {"user": "uid", "query": "text"}, Findings(1))
>>> names.inside
{'uid': 'user', 'text': 'query', 'shop': 'extra 0'}
>>> names.outside
{'extra 0': 'shop'}
>>> frame = pl.DataFrame({"time": ["2006-03-01 07:17:12", "2006-03-01T08:17:12.5+01:00", "yesterday"]})
>>> frame.select(iso_time("time")).to_series().to_list()
[datetime.datetime(2006, 3, 1, 7, 17, 12), datetime.datetime(2006, 3, 1, 7, 17, 12, 500000), None]
"""

from __future__ import annotations

import codecs
import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO

import polars as pl

from queryveil.errors import FormatError, Remedy
from queryveil.log.problems import LINE, LONGEST_FIELD, Findings, Rule, rules_for_all
from queryveil.log.query_log import COLUMNS, QueryLog, exactly
from queryveil.log.source import Block, LogFile

MOST_COLUMNS = 4096
"""Each column is judged by rules of its own, which takes about half a millisecond however short the file."""
MOST_SHOWN = 5
MOST_NAMES_SHOWN = 20
AOL_NAMES = {"user": "AnonID", "query": "Query", "time": "QueryTime", "rank": "ItemRank", "url": "ClickURL"}
USUAL_NAMES = {*COLUMNS, *map(str.lower, AOL_NAMES.values())} | {
    *("uid", "user_id", "userid", "client_id", "id", "session_id", "user_query", "text", "q", "timestamp", "date"),
    *("datetime", "count", "freq", "frequency", "clicks", "position", "item_id"),
}
"""Names one of which nearly every header has."""

SECONDS = "%Y-%m-%d %H:%M:%S"
WRITTEN_TIME = "%Y-%m-%dT%H:%M:%S%.f"
"""How csv, jsonl and ubi write a time: UTC, with as many decimals as it has (none, 3 or 6)."""

PLAIN_ISO = "%Y-%m-%dT%H:%M:%S"
_PLAIN_ISO = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}$"
_SECONDS_SHAPE = r"^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}$"
_ISO = (
    r"^(?<date>[0-9]{4}-[0-9]{2}-[0-9]{2})(?:[T ](?<clock>[0-9]{2}:[0-9]{2})"
    r"(?::(?<second>[0-9]{2})(?:[.,](?<fraction>[0-9]{1,9}))?)?"
    r"(?: ?(?:[Zz]|UTC|(?<sign>[+-])(?<hours>[0-9]{2}):?(?<minutes>[0-9]{2})))?)?$"
)


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
    read: Callable[[LogFile, Findings, Declared], pl.DataFrame] = None  # type: ignore[assignment]  # all pieces, then
    write: Callable[[QueryLog, IO[bytes]], None] = None  # type: ignore[assignment]  # refuses, then
    """None where a file can only be read: see `read_only`."""
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
        if self.read is None:
            object.__setattr__(self, "read", self._read_pieces)
        if self.write is None:
            object.__setattr__(self, "write", self._refuse_to_write)
            object.__setattr__(self, "read_only", True)

    def _read_pieces(self, source: LogFile, found: Findings, declared: Declared) -> pl.DataFrame:
        assert self.pieces is not None
        return pl.concat(self.pieces(source, found, declared))

    def _refuse_to_write(self, log: QueryLog, out: IO[bytes]) -> None:
        raise FormatError(f"{self.name} is read and not written.", remedy=Remedy("format", "csv"))


def refuse_what_is_lost(
    log: QueryLog, name: str, *, columns: Sequence[str], instead: str | None, rules: Sequence[Rule]
) -> None:
    """Raise `FormatError` when the log uses columns the format lacks or has rows that break a rule."""
    lost = [column for column in log.used_columns if column not in columns]
    complaints = [f"it has no place for column {shown_name(column)}" for column in lost]
    rows = log.lazy()
    schema = rows.collect_schema()
    checked = [rule for rule in rules if rule.column is None or rule.column in schema]
    checked += [
        Rule(column, f"longer than {LONGEST_FIELD:,} bytes", exactly(column).str.len_bytes() > LONGEST_FIELD)
        for column, dtype in schema.items()
        if dtype == pl.String
    ]
    faults = rows.select(rule.broken.arg_true().implode().alias(f"{i}") for i, rule in enumerate(checked)).collect()
    for rule, bad in zip(checked, faults.row(0) if checked else (), strict=True):
        if bad:
            shown = ", ".join(f"{row + 1:,}" for row in bad[:MOST_SHOWN])
            where = f", column {shown_name(rule.column)}" if rule.column else ""
            complaints.append(
                f"row{'s' * (len(bad) > 1)} {shown}{', …' if len(bad) > MOST_SHOWN else ''}{where}: "
                f"{rule.reason} ({len(bad):,} such row{'s' * (len(bad) > 1)})"
            )
    if complaints:
        raise FormatError(
            "\n  ".join([f"{name} cannot carry this log:", *complaints])
            + (f"\nWrite it as {instead} instead, or change the log first." if instead else "\nChange the log first.")
        )


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


@dataclass(frozen=True)
class Names:
    """The file's columns to read, by the names used while reading, and how the extra ones are called in the end.

    Extra columns are numbered inside, so that no name in a file can meet a helper column of the reader.
    """

    inside: dict[str, str]
    outside: dict[str, str]


def match_names(names: Sequence[str], mapping: Mapping[str, str], found: Findings) -> Names:
    """Tell the file's columns apart, or raise `FormatError` when user or query is not among them."""
    if len(names) > MOST_COLUMNS:
        raise FormatError(
            f"the file has {len(names):,} columns; at most {MOST_COLUMNS:,} are read. Leave out what is not needed."
        )
    unknown = [theirs for theirs in mapping.values() if theirs not in names]
    if unknown:
        listed = ", ".join(map(shown_name, unknown))
        raise FormatError(f"columns names {listed}, which the file does not have. It has: {_listed(names)}.")
    if len(set(names)) < len(names):
        raise FormatError("two columns have the same name. Rename one of them.")
    ours = {theirs: canonical for canonical, theirs in mapping.items()}
    for canonical in COLUMNS:
        for theirs in (canonical, AOL_NAMES.get(canonical, canonical)):
            if theirs in names and theirs not in ours and canonical not in ours.values():
                ours[theirs] = canonical
    missing = [name for name in ("user", "query") if name not in ours.values()]
    if missing:
        remedy = Remedy("columns", dict.fromkeys(missing, "THEIR_NAME"))
        raise FormatError(_what_is_missing(missing, names), remedy=remedy)
    for name in names:
        if name in COLUMNS and ours.get(name) is None:
            found.note(f"column {name} of the file was left out, since columns maps {name} to another one")
    extras = [name for name in names if name not in ours and name not in COLUMNS]
    inside = ours | {name: f"extra {number}" for number, name in enumerate(extras)}
    return Names(
        inside={name: inside[name] for name in names if name in inside},
        outside={inside[name]: name for name in extras},
    )


def columns_to_write(log: QueryLog) -> list[str]:
    """The columns in use, and an empty one where an extra column has AOL's name for it and would be taken for it."""
    named_alike = {ours for ours, theirs in AOL_NAMES.items() if theirs in log.extra_columns}
    return [name for name in COLUMNS if name in log.used_columns or name in named_alike] + log.extra_columns


def _what_is_missing(missing: Sequence[str], names: Sequence[str]) -> str:
    sentence = f"there is no column for {' and '.join(missing)}. The file has: {_listed(names)}. "
    if missing == ["user"]:
        sentence += (
            "A log that is already summed up over its users (query and count) cannot be protected person by person, "
            "so it is refused. "
        )
    return f"{sentence}Where a column has another name, map it."


def _listed(names: Sequence[str]) -> str:
    """The names for an error message, unless they may be the first record of a file without a header."""
    is_header = all(shown_name(name) == name for name in names) and any(name.lower() in USUAL_NAMES for name in names)
    if not is_header:
        return f"{len(names)} columns, not shown since their names may be data"
    shown = [shown_name(name) for name in names[:MOST_NAMES_SHOWN]]
    return ", ".join(shown) + (f" and {len(names) - len(shown)} more" if len(names) > len(shown) else "")


def records_from_text(
    frame: pl.DataFrame, names: Names, found: Findings, broken: Mapping[int, str], more: Sequence[Rule] = ()
) -> pl.DataFrame:
    """Times and ranks from text columns under inside names; what cannot be read is reported."""
    columns = list(names.inside.values())
    parsed, rules = parsed_from_text(frame, columns, more)
    return found.sift(parsed, rules, broken).select(columns).rename(names.outside)


def parsed_from_text(
    frame: pl.DataFrame, columns: Sequence[str], more: Sequence[Rule] = ()
) -> tuple[pl.DataFrame, list[Rule]]:
    """Times and ranks from text columns under inside names, and the rules that every row then has to obey."""
    parsed = frame
    rules = [*more, *rules_for_all([name for name in columns if frame[name].dtype == pl.String])]
    for name, parse, reason in (
        ("time", iso_time("time"), "not an ISO 8601 time like 2006-03-01T07:17:12Z"),
        ("rank", rank("rank"), "not a whole number below 2^32"),
    ):
        if name in columns and frame[name].dtype == pl.String:
            if name == "time" and frame[name].str.contains(_PLAIN_ISO).all():  # most logs; the same times, far faster
                parse = in_calendar(pl.col(name).str.to_datetime(PLAIN_ISO, strict=False, time_unit="us")).alias(name)
            parsed = parsed.with_columns(given(name).alias(f"_{name}"), parse)
            rules.append(Rule(name, reason, pl.col(f"_{name}") & pl.col(name).is_null()))
    return parsed, rules


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

"""Parquet: the table as it is, with the types of extra columns.

Columns are told by name (see `format.py`). Times with a zone become UTC; times as text must be ISO 8601. "Line" in a
problem is the number of the row.

A file that is written is a function of its rows and of the release of Polars: row groups have a fixed number of rows.
Left to itself, Polars cuts them by the chunks of a frame, the files of a log in parts and the threads of the machine,
and the chunks and files follow the number of records that a release was made from.

>>> import io
>>> from queryveil.log.query_log import QueryLog
>>> out = io.BytesIO()
>>> write(QueryLog.of([("ann", "tulips")]), out)
>>> out.getvalue()[:4]
b'PAR1'
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import IO

import polars as pl

from queryveil.errors import FormatError
from queryveil.log.formats.column_names import Names, columns_to_write, match_names, records_from_text
from queryveil.log.formats.format import Declared, Findings, Format, Rule, refuse_what_is_lost
from queryveil.log.query_log import COLUMNS, QueryLog, exactly
from queryveil.log.source import LINE, LogFile

MAGIC = b"PAR1"
ROWS_PER_GROUP = 1 << 17
ROWS_AT_ONCE = 1 << 19
_YEARS = (dt.datetime.min, dt.datetime.max)


def sniff(head: bytes, path: Path) -> bool:
    """Its magic bytes."""
    return head.startswith(MAGIC)


def read(source: LogFile, found: Findings, declared: Declared) -> pl.DataFrame:
    """Every row with a user and a query."""
    with _whole_file():
        table = pl.read_parquet(b"".join(source.raw()) if source.compressed else source.path, glob=False)
    names = match_names(table.columns, declared.columns, found)
    return records_of_table(table, names, found)


def pieces(source: LogFile, found: Findings, declared: Declared) -> Iterator[pl.DataFrame]:
    """The same, so many rows at a time."""
    with _whole_file():
        rows = pl.scan_parquet(b"".join(source.raw()) if source.compressed else source.path, glob=False)
        names = match_names(rows.collect_schema().names(), declared.columns, found)
        height = rows.select(pl.len()).collect().item()
    for start in range(0, max(1, height), ROWS_AT_ONCE):
        with _whole_file():
            piece = rows.slice(start, ROWS_AT_ONCE).collect()
        yield records_of_table(piece, names, found)


@contextmanager
def _whole_file() -> Iterator[None]:
    """Damage is said without Polars' words, which may quote the file."""
    try:
        yield
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):  # Polars panics on some damage
        raise FormatError("not a whole Parquet file: cut off, damaged or of a kind that is not read.") from None


def records_of_table(table: pl.DataFrame, names: Names, found: Findings) -> pl.DataFrame:
    """The records among the next rows of a table whose columns have types; the others are reported."""
    first = found.lines + 1
    found.lines += table.height
    inside = table.select(exactly(theirs).alias(name) for theirs, name in names.inside.items())
    inside, rules = times_in_calendar(inside)
    casts = [_as_text(name, inside[name].dtype) for name in names.inside.values() if name in COLUMNS]
    return records_from_text(inside.with_columns(casts).with_row_index(LINE, offset=first), names, found, {}, rules)


def times_in_calendar(rows: pl.DataFrame) -> tuple[pl.DataFrame, list[Rule]]:
    """Times of a Parquet file in microseconds (those with a zone are kept in UTC), and the rule for those it cannot be.

    >>> rows, rules = times_in_calendar(pl.DataFrame({"time": pl.Series([0, 2**50], dtype=pl.Datetime("ms"))}))
    >>> rows.filter(rules[0].broken).height
    1
    """
    dtype = rows.schema.get("time")
    if not isinstance(dtype, (pl.Datetime, pl.Date)):
        return rows, []
    column, outside = pl.col("time"), _outside_calendar(dtype)
    number = pl.when(~outside).then(column.to_physical())
    if isinstance(dtype, pl.Datetime):
        times = number.cast(pl.Datetime(dtype.time_unit)).dt.cast_time_unit("us")
    else:
        times = number.cast(pl.Date).cast(COLUMNS["time"])
    rule = Rule("time", "outside the years 1 to 9999", pl.col("_outside"))
    return rows.with_columns(times.alias("time"), outside.alias("_outside")), [rule]


def _outside_calendar(dtype: pl.Datetime | pl.Date) -> pl.Expr:
    """Judged on the plain numbers: one time beyond any calendar would stop conversions of the whole column."""
    per_unit: dict[str, int | Fraction] = {"ms": 1_000, "us": 1, "ns": Fraction(1, 1_000)}
    micros = per_unit[dtype.time_unit] if isinstance(dtype, pl.Datetime) else 86_400_000_000
    first, last = ((moment - dt.datetime(1970, 1, 1)) // dt.timedelta(microseconds=1) // micros for moment in _YEARS)
    return ~pl.col("time").to_physical().cast(pl.Int64).is_between(max(first, -(2**63)), min(last, 2**63 - 1))


def _as_text(name: str, dtype: pl.DataType) -> pl.Expr:
    # Text is the common ground where the checks of all named formats are made.
    column = pl.col(name)
    if isinstance(dtype, pl.Datetime) and name == "time":
        return column
    if isinstance(dtype, (pl.String, pl.Null, pl.Categorical, pl.Enum)) or (dtype.is_integer() and name != "query"):
        return column.cast(pl.String)
    raise FormatError(f"column {name} has the type {dtype.base_type()}, which cannot be read as a {name}.")


def write(log: QueryLog, out: IO[bytes]) -> None:
    """The rows as they are; a log in parts goes from file to file and is never in memory whole."""
    typed = [name for name, dtype in log.lazy().collect_schema().items() if dtype != pl.Object]
    refuse_what_is_lost(log, "parquet", columns=typed, instead=None, rules=[])
    rows = log.lazy().select(map(exactly, columns_to_write(log)))
    rows.sink_parquet(out, row_group_size=ROWS_PER_GROUP, maintain_order=True)


FORMAT = Format(
    name="parquet",
    suffix=".parquet",
    title="Parquet; other column names by mapping",
    columns=tuple(COLUMNS),
    extras=True,
    is_text=False,
    sniff=sniff,
    read=read,
    pieces=pieces,
    write=write,
)

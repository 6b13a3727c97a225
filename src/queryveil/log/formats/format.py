"""What a format is: a name, a suffix, what it can carry, and three functions: sniff, read, write.

`read` gets a `Source` and a `Findings` to report to and returns a frame with canonical column names; `write` gets a log
that is known to be one and refuses what it cannot carry, since a silent loss or an invented escape would be a lie.

>>> from queryveil.log.query_log import QueryLog
>>> log = QueryLog.of([("ann", "two" + chr(9) + "words")])
>>> refuse_what_is_lost(log, "aol", columns=("user", "query"), instead="csv", rules=[
...     Rule("query", "a tab", pl.col("query").str.contains(chr(9), literal=True))])
Traceback (most recent call last):
queryveil.errors.FormatError: aol cannot carry this log:
  row 1, column query: a tab (1 such row)
Write it as csv instead, or change the log first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import IO

import polars as pl

from queryveil.errors import FormatError
from queryveil.log.problems import LONGEST_FIELD, Findings, Rule
from queryveil.log.query_log import COLUMNS, QueryLog, exactly
from queryveil.log.source import Source

MOST_SHOWN = 5


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
    read: Callable[[Source, Findings, Declared], pl.DataFrame]
    write: Callable[[QueryLog, IO[bytes]], None]
    header_lines: int | None = None
    """Lines before the first record, where every record is then a line of its own; None where a file is not so."""
    multiline: bool = False
    """Whether a record may go over several lines, so that a broken line may cost its neighbours: never guessed."""
    needs_time: bool = False
    """Whether a record without a time cannot be written (for UBI: one with a click)."""


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


def write_lines(out: IO[bytes], lines: Iterable[bytes]) -> None:
    """Write many short pieces in few calls; not every compressor has `writelines`."""
    remaining = iter(lines)
    while batch := list(islice(remaining, 10_000)):
        out.write(b"".join(batch))


def shown_name(column: str) -> str:
    """A column's name where it looks like one."""
    plain = column.isascii() and column.isidentifier() and len(column) <= 40
    return column if plain else "(a name not shown)"

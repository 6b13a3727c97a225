"""CSV with a header, quoted as in RFC 4180, so that values may hold separators and quotes.

`csv` takes each line for a record, so that no line can change how another is read: a quote that somebody opens and does
not close costs that line alone. `csv-multiline` takes values over several lines as RFC 4180 allows, which is right only
for files made by a writer that quotes strictly: there one unbalanced quote swallows the records after it. Which one it
is, is declared, never guessed.

Columns are told by name (see `named.py`); extra columns travel along as text. Tabs and semicolons are read too where
the header uses them. An empty value is no value. Written: commas, line feeds, UTF-8, quotes only where needed.

>>> import io
>>> from queryveil.log.query_log import QueryLog
>>> out = io.BytesIO()
>>> write(QueryLog.of([("ann", "tulips, red")]), out)
>>> out.getvalue()
b'user,query\\nann,"tulips, red"\\n'
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO

import polars as pl

from queryveil.errors import FormatError
from queryveil.log.formats._quotes import (
    STRAY_RETURN,
    TOO_LONG,
    after_open_record,
    cut_lines,
    cut_quoted,
    long_values,
    split,
)
from queryveil.log.formats.fields import WRITTEN_TIME, holds_any_of, outside_years
from queryveil.log.formats.format import Declared, Format, refuse_what_is_lost
from queryveil.log.formats.named import Names, columns_to_write, match_names, records_from_text
from queryveil.log.problems import Findings, Rule
from queryveil.log.query_log import COLUMNS, QueryLog, exactly
from queryveil.log.source import LONGEST_LINE, Block, Source

SEPARATORS = ",\t;"
_NOTHING = Block(1, b"", {})


def sniff(head: bytes, path: Path) -> bool:
    """A first line with a name for the query, or several names in a file called .csv."""
    first = head.split(b"\n", 1)[0].decode(errors="replace").rstrip("\r")
    names = [{name.strip('"') for name in first.split(separator)} for separator in SEPARATORS]
    named_csv = ".csv" in path.suffixes and any(len(found) > 1 for found in names)
    return named_csv or any({"query", "Query"} & found for found in names)


def read(source: Source, found: Findings, declared: Declared, *, multiline: bool = False) -> pl.DataFrame:
    """Every record with as many values as the header has names."""
    reader: _Reader | None = None
    blocks = source.blocks()
    block = next(blocks, None)
    while block is not None:
        found.lines += block.line_count
        following = next(blocks, None)
        if reader is None:
            reader, block = _Reader.from_header(block, declared.columns, found, multiline)
        reader.add(block, last=following is None)
        block = following
    return reader.frame() if reader else pl.DataFrame(schema={"user": pl.String, "query": pl.String})


class _Reader:
    """Knows the header, takes block after block, and keeps what a block leaves unfinished for the next."""

    def __init__(self, names: Names, header: list[str], separator: str, found: Findings, multiline: bool) -> None:
        self.names, self.separator, self.found, self.multiline = names, separator, found, multiline
        self.width = len(header)
        # Columns to read, by position, under the names used inside.
        self.cells = {str(header.index(theirs)): inside for theirs, inside in names.inside.items()}
        self.frames: list[pl.DataFrame] = []
        self.rest = _NOTHING
        self.in_long_record = False  # one that is too long to be kept, and whose end is still to come

    @classmethod
    def from_header(
        cls, block: Block, columns: Mapping[str, str], found: Findings, multiline: bool
    ) -> tuple[_Reader, Block]:
        """Try the separators on the first line; return the reader and the block after that line."""
        refusal: FormatError | None = None
        for separator in SEPARATORS:
            header, used = _first_record(block, separator)
            faults = [why for line, why in block.broken.items() if line < block.first_line + used]
            if faults:
                raise FormatError(f"line 1: {faults[0]} in the header.")
            try:
                names = match_names(header, columns, found)
            except FormatError as error:
                refusal = error if refusal is None or len(header) > 1 else refusal
                continue
            start = 0
            for _ in range(used):
                start = block.data.find(b"\n", start) + 1 or len(block.data)
            rest = Block(block.first_line + used, block.data[start:], block.broken)
            return cls(names, header, separator, found, multiline), rest
        assert refusal is not None
        raise refusal from None

    def add(self, block: Block, *, last: bool) -> None:
        """Cut one block into records."""
        if self.in_long_record:
            after = after_open_record(block)
            if after is None:
                return
            self.in_long_record, block = False, after
        if self.rest.data:
            block = Block(self.rest.first_line, self.rest.data + block.data, self.rest.broken | block.broken)
        self.rest, broken = _NOTHING, block.broken
        if b'"' not in block.data:
            cells = split(block.lines().filter(pl.col("text") != ""), self.separator, self.width)
        elif not self.multiline:
            cells = cut_lines(block, self.separator, self.width, self.found)
        else:
            cells, broken, self.rest = cut_quoted(block, self.separator, self.width, self.found, last=last)
            if len(self.rest.data) > LONGEST_LINE:
                self.found.add(self.rest.first_line, TOO_LONG)
                self.rest, self.in_long_record = _NOTHING, True
        shape = [
            Rule(None, f"not {self.width} columns, as the header has", pl.col("_count")),
            Rule(None, STRAY_RETURN, pl.col("_return")),
        ]
        self.frames.append(records_from_text(cells.rename(self.cells), self.names, self.found, broken, shape))

    def frame(self) -> pl.DataFrame:
        """All records read."""
        columns = [self.names.outside.get(name, name) for name in self.names.inside.values()]
        empty = pl.DataFrame(schema={name: COLUMNS.get(name, pl.String()) for name in columns})
        return pl.concat([empty, *self.frames])


def _first_record(block: Block, separator: str) -> tuple[list[str], int]:
    reader = csv.reader((line + "\n" for line in block.data.decode().split("\n")), delimiter=separator)
    try:
        with long_values():
            header = next(filter(None, reader), [])
    except csv.Error:
        raise FormatError("line 1: the header cannot be read as CSV.") from None
    return [name or f"column_{number}" for number, name in enumerate(header, start=1)], reader.line_num


def write(log: QueryLog, out: IO[bytes], *, multiline: bool = False) -> None:
    """Header and the columns in use, or `FormatError` for what CSV cannot hold."""
    texts = [name for name, dtype in log.frame.schema.items() if dtype == pl.String]
    typed = [name for name in log.extra_columns if name not in texts]
    banned = "\0" if multiline else "\0\n"
    reason = "a NUL, for which CSV has no escape" if multiline else "a NUL or a line end, which ends a record of csv"
    refuse_what_is_lost(
        log,
        "csv-multiline" if multiline else "csv",
        columns=[name for name in log.frame.columns if name and name not in typed and not set(banned) & set(name)],
        instead="jsonl or parquet" if multiline else "csv-multiline, jsonl or parquet",
        rules=[*holds_any_of(texts, banned, reason), outside_years(1, 9999)],
    )
    log.frame.select(map(exactly, columns_to_write(log))).write_csv(out, datetime_format=WRITTEN_TIME)


FORMAT = Format(
    name="csv",
    suffix=".csv",
    title="CSV with a header line, a record a line; other column names by mapping",
    columns=tuple(COLUMNS),
    extras=True,
    sniff=sniff,
    read=read,
    write=write,
    header_lines=1,
)

MULTILINE = replace(
    FORMAT,
    name="csv-multiline",
    suffix=".multiline.csv",
    title="CSV of a strict writer, whose values may hold line ends",
    sniff=lambda head, path: False,
    multiline=True,
    read=partial(read, multiline=True),
    write=partial(write, multiline=True),
)

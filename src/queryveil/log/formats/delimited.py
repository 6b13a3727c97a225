"""CSV with a header, quoted as in RFC 4180, so that values may hold separators and quotes.

`csv` takes each line for a record, so that no line can change how another is read: a quote that somebody opens and does
not close costs that line alone. `csv-multiline` takes values over several lines as RFC 4180 allows, which is right only
for files made by a writer that quotes strictly: there one unbalanced quote swallows the records after it. Which one it
is, is declared, never guessed.

By lines (`cut_lines`), a record is a line: whatever a line holds, the lines around it are read the same. By quotes
(`cut_quoted`), a record ends at the line ends before which the quotes are balanced, as a writer that quotes strictly
ends it, whatever its values hold. Inside a record there is no difference: quotes that stand where RFC 4180 wants them
are cut in whole columns; a record with odd ones goes to Python's csv module alone.

Cells come as columns `0`, `1`, … with `line` (where the record starts) and `_return` (true for a carriage return
outside quotes that is no part of a line end). Records with another number of cells than the header has are reported
uncut.

Columns are told by name (see `format.py`); extra columns travel along as text. Tabs and semicolons are read too where
the header uses them. An empty value is no value. Written: commas, line feeds, UTF-8, quotes only where needed.

>>> import io
>>> from queryveil.log.query_log import QueryLog
>>> out = io.BytesIO()
>>> write(QueryLog.of([("ann", "tulips, red")]), out)
>>> out.getvalue()
b'user,query\\nann,"tulips, red"\\n'
>>> cut_lines(Block(5, b'a,"b' + bytes([10]) + b'b,"c, d"' + bytes([10]), {}), ",", 2, Findings(1)).rows()
[(6, 'b', 'c, d', False)]
>>> block = Block(5, b'a,"b' + bytes([10]) + b'b"' + bytes([10]) + b'c,"d', {})
>>> cells, broken, rest = cut_quoted(block, ",", 2, Findings(1), last=False)
>>> cells.rows()
[(5, 'a', 'b\\nb', False)]
>>> rest
Block(first_line=7, data=b'c,"d', broken={})
"""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import IO

import numpy as np
import polars as pl

from queryveil.errors import FormatError
from queryveil.log.formats.column_names import Names, columns_to_write, match_names, records_from_text
from queryveil.log.formats.format import (
    WRITTEN_TIME,
    Declared,
    Findings,
    Format,
    Rule,
    holds_any_of,
    outside_years,
    refuse_what_is_lost,
)
from queryveil.log.formats.plain_lines import PlainRecords, cut_plain
from queryveil.log.query_log import COLUMNS, QueryLog, exactly
from queryveil.log.source import LINE, LONGEST_LINE, Block, LogFile, checked_block

SEPARATORS = ",\t;"
_NOTHING = Block(1, b"", {})

NEVER_CLOSED = "a quote is opened and never closed"
NOT_CLOSED_HERE = "a quote is opened and not closed on its line (csv-multiline reads values over several lines)"
ODD_QUOTES = "quotes that do not follow RFC 4180"
STRAY_RETURN = "a carriage return outside quotes"
TOO_LONG = f"a record of more than {LONGEST_LINE:,} bytes"

_QUOTE, _NEWLINE, _RETURN = 34, 10, 13
_CELL = "\0"  # a block of a source has no NUL bytes, so they can stand for the separators between values
_INNER_END = 1  # stands for a line end inside quotes; a record that holds this character itself goes to the csv module


def sniff(head: bytes, path: Path) -> bool:
    """A first line with a name for the query, or several names in a file called .csv."""
    first = head.split(b"\n", 1)[0].decode(errors="replace").rstrip("\r")
    names = [{name.strip('"') for name in first.split(separator)} for separator in SEPARATORS]
    named_csv = ".csv" in path.suffixes and any(len(found) > 1 for found in names)
    return named_csv or any({"query", "Query"} & found for found in names)


def read(source: LogFile, found: Findings, declared: Declared, *, multiline: bool = False) -> pl.DataFrame:
    """Every record with as many values as the header has names."""
    return pl.concat(pieces(source, found, declared, multiline=multiline))


def pieces(source: LogFile, found: Findings, declared: Declared, *, multiline: bool = False) -> Iterator[pl.DataFrame]:
    """The same, block by block."""
    reader: _Reader | None = None
    blocks = source.blocks()
    block = next(blocks, None)
    if block is None:
        yield pl.DataFrame(schema={"user": pl.String, "query": pl.String})
    while block is not None:
        found.lines += block.line_count
        following = next(blocks, None)
        if reader is None:
            reader, block = _Reader.from_header(block, declared.columns, found, multiline)
            yield reader.no_records()
        yield reader.records(block, last=following is None)
        block = following


class _Reader:
    """Knows the header, takes block after block, and keeps what a block leaves unfinished for the next."""

    def __init__(self, names: Names, header: list[str], separator: str, found: Findings, multiline: bool) -> None:
        self.names, self.separator, self.found, self.multiline = names, separator, found, multiline
        self.width = len(header)
        # Columns to read, by position, under the names used inside.
        places = {theirs: str(place) for place, theirs in enumerate(header)}
        self.cells = {places[theirs]: inside for theirs, inside in names.inside.items()}
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

    def records(self, block: Block, *, last: bool) -> pl.DataFrame:
        """Cut one block into records."""
        if self.in_long_record:
            after = after_open_record(block)
            if after is None:
                return self.no_records()
            self.in_long_record, block = False, after
        if self.rest.data:
            block = Block(self.rest.first_line, self.rest.data + block.data, self.rest.broken | block.broken)
        self.rest, broken = _NOTHING, block.broken
        if (plain := self.plain(block)) is not None:
            return self._named(plain)
        if b'"' not in block.data:
            lines = block.lines().filter(pl.col("text") != "")
            cells = split(lines, self.separator, self.width, self.found, broken)
        elif not self.multiline:
            cells = cut_lines(block, self.separator, self.width, self.found)
        else:
            cells, broken, self.rest = cut_quoted(block, self.separator, self.width, self.found, last=last)
            if len(self.rest.data) > LONGEST_LINE:
                self.found.add(self.rest.first_line, TOO_LONG)
                self.rest, self.in_long_record = _NOTHING, True
        shape = [Rule(None, STRAY_RETURN, pl.col("_return"))]
        return records_from_text(cells.rename(self.cells), self.names, self.found, broken, shape)

    def plain(self, block: Block) -> PlainRecords | None:
        """The records of a block in which nothing is quoted, repaired or returned; None for another block.

        Lines that break a rule are reported as `records` would, whose work they are.
        """
        data = block.data
        if self.in_long_record or self.rest.data or block.broken or not data or b'"' in data or b"\r" in data:
            return None
        lines = block.line_count
        if lines * self.width > 2 * len(data):  # most lines are too short: see `split`
            return None
        cells = {inside: int(place) for place, inside in self.cells.items()}
        found, bad = cut_plain(data if data.endswith(b"\n") else data + b"\n", lines, self.separator, self.width, cells)
        if len(bad):
            numbers = pl.Series(LINE, block.first_line + bad.numbers, dtype=pl.UInt32)
            texts = pl.DataFrame([numbers, bad.texts.series().alias("text")])
            if self._judge(texts, Findings(1)):
                return None  # a line that is a record after all: then whole columns are read
            self._judge(texts, self.found)
        return found

    def _judge(self, lines: pl.DataFrame, found: Findings) -> int:
        """Report what is wrong with lines without quotes; returns how many are records."""
        cut = split(lines, self.separator, self.width, found, {})
        return records_from_text(cut.rename(self.cells), self.names, found, {}, []).height

    def _named(self, plain: PlainRecords) -> pl.DataFrame:
        return plain.frame().select(self.names.inside.values()).rename(self.names.outside)

    def no_records(self) -> pl.DataFrame:
        """The columns that are read, without rows."""
        columns = [self.names.outside.get(name, name) for name in self.names.inside.values()]
        return pl.DataFrame(schema={name: COLUMNS.get(name, pl.String()) for name in columns})


class PlainReader:
    """Reads blocks of lines below a header that was read before, where all of them are good and nothing is quoted."""

    def __init__(self, header: bytes, columns: Mapping[str, str]) -> None:
        self._found = Findings(1)
        block = checked_block(1, header.removeprefix(codecs.BOM_UTF8) + b"\n")
        self._reader, _ = _Reader.from_header(block, columns, self._found, multiline=False)
        self._inside = {outside: inside for inside, outside in self._reader.names.outside.items()}

    def __call__(self, content: bytes) -> PlainRecords | None:
        """The records of whole lines, as many as there are lines that are not blank; None for any other content."""
        before, block = self._found.problem_count, checked_block(1, content)
        found = self._reader.plain(block)
        return found if self._found.problem_count == before else None

    def place(self, column: str) -> str:
        """The name of a column inside of the reader."""
        return self._inside.get(column, column)


def _first_record(block: Block, separator: str) -> tuple[list[str], int]:
    reader = csv.reader((line + "\n" for line in block.data.decode().split("\n")), delimiter=separator)
    try:
        with long_values():
            header = next(filter(None, reader), [])
    except csv.Error:
        raise FormatError("line 1: the header cannot be read as CSV.") from None
    return [name or f"column_{number}" for number, name in enumerate(header, start=1)], reader.line_num


def cut_lines(block: Block, separator: str, width: int, found: Findings) -> pl.DataFrame:
    """Cells of all lines, each read for itself; lines with unbalanced quotes are reported."""
    text = np.frombuffer(block.data, dtype=np.uint8)
    ends = np.append(np.flatnonzero(text == _NEWLINE), len(text))
    starts = np.append(0, ends[:-1] + 1)
    before = np.append(0, np.cumsum(text == _QUOTE))
    unbalanced = (before[ends] - before[starts]) % 2 == 1
    for line in np.flatnonzero(unbalanced):
        found.add(block.first_line + int(line), NOT_CLOSED_HERE)
    return _cut(text, starts, ends, unbalanced, separator, width, found, block.first_line, block.broken)


def cut_quoted(
    block: Block, separator: str, width: int, found: Findings, *, last: bool
) -> tuple[pl.DataFrame, dict[int, str], Block]:
    """Cells of all records that end in the block, broken lines by their record's first line, and what is unfinished."""
    text = np.frombuffer(block.data, dtype=np.uint8)
    open_quote = (np.cumsum(text == _QUOTE, dtype=np.uint8) & 1).astype(bool)  # wraps at 256, which keeps the parity
    line_ends = text == _NEWLINE
    ends = np.flatnonzero(line_ends & ~open_quote)
    stop = int(ends[-1]) + 1 if len(ends) else 0
    if last and stop < len(text):
        if open_quote[-1]:
            found.add(block.first_line + int(line_ends[:stop].sum()), NEVER_CLOSED)
        else:
            stop = len(text)
    if not len(ends) or ends[-1] + 1 < stop:
        ends = np.append(ends, stop)
    starts = np.append(0, ends[:-1] + 1)
    lines_before = np.append(0, np.cumsum(line_ends))
    first_of_rest = block.first_line + int(lines_before[stop])
    first_lines = block.first_line + lines_before[starts]
    broken = {
        int(first_lines[np.searchsorted(first_lines, line, side="right") - 1]): why
        for line, why in block.broken.items()
        if line < first_of_rest
    }
    for record in np.flatnonzero(ends - starts > LONGEST_LINE):
        broken[int(first_lines[record])] = TOO_LONG
    skipped = np.zeros(len(ends), bool)
    cells = _cut(text[:stop], starts, ends, skipped, separator, width, found, block.first_line, broken)
    later = {line: why for line, why in block.broken.items() if line >= first_of_rest}
    return cells, broken, Block(first_of_rest, b"" if last else block.data[stop:], later)


def after_open_record(block: Block) -> Block | None:
    """What follows the record that was open when the block began; None where it ends later still.

    >>> after_open_record(Block(7, b'x' + bytes([10]) + b'y",z' + bytes([10]) + b'a,b', {}))
    Block(first_line=9, data=b'a,b', broken={})
    """
    text = np.frombuffer(block.data, dtype=np.uint8)
    closed = (np.cumsum(text == _QUOTE, dtype=np.uint8) & 1).astype(bool)
    ends = np.flatnonzero((text == _NEWLINE) & closed)
    if not len(ends):
        return None
    start = int(ends[0]) + 1
    first_line = block.first_line + block.data.count(b"\n", 0, start)
    return Block(
        first_line, block.data[start:], {line: why for line, why in block.broken.items() if line >= first_line}
    )


def _cut(
    text: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    skipped: np.ndarray,
    separator: str,
    width: int,
    found: Findings,
    first_line: int,
    broken: Mapping[int, str],
) -> pl.DataFrame:
    """Cells of the records between starts and ends (line ends), each of which has balanced quotes unless skipped."""
    is_quote = text == _QUOTE
    is_quote &= ~np.repeat(skipped, ends - starts + 1)[: len(text)]
    odd = np.zeros(len(ends), dtype=bool)
    odd[np.searchsorted(ends, np.flatnonzero(is_quote)[~_in_place(text, is_quote, ord(separator))])] = True
    odd[np.searchsorted(ends, np.flatnonzero(text == _INNER_END))] = True
    odd &= ~skipped
    within = (np.cumsum(is_quote, dtype=np.uint8) & 1).astype(bool)
    marked = text.copy()
    marked[(marked == ord(separator)) & ~within] = 0
    marked[(marked == _NEWLINE) & within] = _INNER_END
    records = pl.read_lines(marked.tobytes(), name="text")
    first_lines = first_line + np.append(0, np.cumsum(text == _NEWLINE))[starts]
    records = records.with_columns(pl.Series(LINE, first_lines[: records.height], dtype=pl.UInt32))
    plain = ~pl.Series((skipped | odd)[: records.height], dtype=pl.Boolean)
    cells = _values(split(records.filter(plain & (pl.col("text") != "")), _CELL, width, found, broken))
    if not odd.any():
        return cells
    rows, lines = [], []
    for record in np.flatnonzero(odd):
        line = int(first_lines[record])
        try:
            with long_values():
                written = text[starts[record] : ends[record]].tobytes().decode()
                (row,) = csv.reader([written], delimiter=separator, strict=True)
        except csv.Error as error:
            found.add(line, STRAY_RETURN if str(error).startswith("new-line character") else ODD_QUOTES)
            continue
        if len(row) == width:
            rows.append(row)
            lines.append(line)
        else:
            found.add(line, broken.get(line, wrong_width(width)))
    return pl.concat([cells, _frame(rows, lines, width)]).sort(LINE)


def _in_place(text: np.ndarray, is_quote: np.ndarray, separator: int) -> np.ndarray:
    """For each quote: an odd one opens a value (or follows its twin), an even one closes it (or precedes it)."""
    at = np.flatnonzero(is_quote)
    padded = np.concatenate(([_NEWLINE], text, [_NEWLINE]))
    opens, closes = at[0::2], at[1::2]
    before, after = padded[opens], padded[closes + 2]
    opens_well = (before == separator) | (before == _NEWLINE) | (before == _QUOTE)
    closes_well = (after == separator) | (after == _NEWLINE) | (after == _QUOTE)
    # A return after a closing quote is part of a line end.
    closes_well |= (after == _RETURN) & (padded[np.minimum(closes + 3, len(padded) - 1)] == _NEWLINE)
    in_place = np.empty(len(at), dtype=bool)
    in_place[0::2], in_place[1::2] = opens_well, closes_well
    return in_place


def _values(cells: pl.DataFrame) -> pl.DataFrame:
    """What the cells say, without their quotes."""
    value = pl.all().exclude(LINE, "_return")
    bare = value.str.slice(1, value.str.len_chars() - 2).str.replace_all('""', '"', literal=True)
    said = bare.str.replace_all(chr(_INNER_END), "\n", literal=True)
    return cells.with_columns(pl.when(value.str.starts_with('"')).then(said).otherwise(value))


def split(lines: pl.DataFrame, separator: str, width: int, found: Findings, broken: Mapping[int, str]) -> pl.DataFrame:
    """Cells of lines that hold one record each.

    Lines with another number of cells are reported before any is cut: else a wide header and many short lines below it,
    which are few bytes, would make a table of many cells that hold nothing.
    """
    names = [str(index) for index in range(width)]
    wrong = pl.col("text").str.count_matches(separator, literal=True) != width - 1
    judged = lines.with_columns(wrong.alias("_wrong"))
    found.sift(judged.filter(pl.col("_wrong")).select(LINE), [Rule(None, wrong_width(width), pl.lit(True))], broken)
    cut = pl.col("text").str.split_exact(separator, width - 1).struct.rename_fields(names)
    cells = judged.filter(~pl.col("_wrong")).select(LINE, cut).unnest("text")
    returns = (pl.col(name).str.contains("\r", literal=True) & ~pl.col(name).str.starts_with('"') for name in names)
    return cells.select(LINE, *names, pl.any_horizontal(returns).fill_null(False).alias("_return"))


def wrong_width(width: int) -> str:
    """The reason that is told of a line with another number of cells."""
    return f"not {width} columns, as the header has"


@contextmanager
def long_values() -> Iterator[None]:
    """Let Python's csv module take values as long as a line may be; its own limit is for the whole process."""
    before = csv.field_size_limit(LONGEST_LINE)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _frame(rows: list[list[str]], lines: list[int], width: int) -> pl.DataFrame:
    columns: dict[str, list[int] | list[str] | list[bool]] = {LINE: lines}
    for index in range(width):
        columns[str(index)] = [row[index] for row in rows]
    columns["_return"] = [False] * len(rows)  # the csv module refuses these itself
    types = {LINE: pl.UInt32(), "_return": pl.Boolean()}
    return pl.DataFrame(columns, schema={name: types.get(name, pl.String()) for name in columns})


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
    pieces=pieces,
    write=write,
    header_lines=1,
    by_lines=True,
)

MULTILINE = replace(
    FORMAT,
    name="csv-multiline",
    suffix=".multiline.csv",
    title="CSV of a strict writer, whose values may hold line ends",
    sniff=lambda head, path: False,
    multiline=True,
    by_lines=False,
    read=partial(read, multiline=True),
    pieces=partial(pieces, multiline=True),
    write=partial(write, multiline=True),
)

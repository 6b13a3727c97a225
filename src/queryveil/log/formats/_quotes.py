"""Cut a block of CSV into cells, by lines or by quotes.

By lines (`cut_lines`), a record is a line: whatever a line holds, the lines around it are read the same. Quotes that
stand where RFC 4180 wants them are cut in whole columns; a line with odd ones goes to Python's csv module alone.

By quotes (`cut_fast`, `cut_patiently`), a value may hold line ends, so where a record ends depends on the quotes before
it. The fast way marks the line ends and separators that stand between quotes, by the parity of the quotes before them,
and leaves the rest to Polars. It gives up (None) at the first quote that neither opens nor closes a value. The patient
way asks Python's csv module line by line and, after a line it cannot read, goes on with the next one.

Cells come as columns `0`, `1`, … with `line` (where the record starts), `_count` (true for a wrong number of cells) and
`_return` (true for a carriage return outside quotes that is no part of a line end).

>>> cut_lines(Block(5, b'a,"b' + bytes([10]) + b'b,"c, d"' + bytes([10]), {}), ",", 2, Findings(1)).rows()
[(6, 'b', 'c, d', False, False)]
>>> cells, rest = cut_fast(Block(5, b'a,"b' + bytes([10]) + b'b"' + bytes([10]) + b'c,"d', {}), ",", 2, last=False)
>>> cells.rows()
[(5, 'a', 'b\\nb', False, False)]
>>> rest
Block(first_line=7, data=b'c,"d', broken={})
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice

import numpy as np
import polars as pl

from queryveil.log.problems import LINE, Findings
from queryveil.log.source import LONGEST_LINE, Block

NEVER_CLOSED = "a quote is opened and never closed"
NOT_CLOSED_HERE = "a quote is opened and not closed on its line (csv-multiline reads values over several lines)"
ODD_QUOTES = "quotes that do not follow RFC 4180"
STRAY_RETURN = "a carriage return outside quotes"

_QUOTE, _NEWLINE, _RETURN = 34, 10, 13
_CELL = "\0"  # a block of a source has no NUL bytes, so they can stand for the separators between values
_STAND_INS = [code for code in range(1, 32) if code not in (9, 10, 13)]


def cut_lines(block: Block, separator: str, width: int, found: Findings) -> pl.DataFrame:
    """Cells of all lines, each read for itself; lines with unbalanced quotes are reported."""
    text = np.frombuffer(block.data, dtype=np.uint8)
    is_quote = text == _QUOTE
    ends = np.append(np.flatnonzero(text == _NEWLINE), len(text))
    starts = np.append(0, ends[:-1] + 1)
    before = np.append(0, np.cumsum(is_quote))
    open_lines = (before[ends] - before[starts]) % 2 == 1
    for line in np.flatnonzero(open_lines):
        found.add(block.first_line + int(line), NOT_CLOSED_HERE)
    # From here on every line that counts has an even number of quotes, so parity starts anew with each.
    is_quote &= ~np.repeat(open_lines, ends - starts + 1)[: len(text)]
    misplaced = np.flatnonzero(is_quote)[~_in_place(text, is_quote, ord(separator))]
    odd_lines = np.zeros(len(ends), dtype=bool)
    odd_lines[np.searchsorted(ends, misplaced)] = True
    within = (np.cumsum(is_quote, dtype=np.uint8) & 1).astype(bool)
    marked = text.copy()
    marked[(marked == ord(separator)) & ~within] = 0
    lines = pl.read_lines(marked.tobytes(), name="text").with_row_index(LINE, offset=block.first_line)
    taken = (open_lines | odd_lines)[: lines.height]
    cells = _values(split(lines.filter(~pl.Series(taken) & (pl.col("text") != "")), _CELL, width))
    if not odd_lines.any():
        return cells
    rows, numbers = [], []
    for line in np.flatnonzero(odd_lines & ~open_lines):
        try:
            with long_values():
                reader = csv.reader(
                    [text[starts[line] : ends[line]].tobytes().decode()], delimiter=separator, strict=True
                )
                rows += list(reader)
            numbers.append(int(line))
        except csv.Error:
            found.add(block.first_line + int(line), ODD_QUOTES)
    return pl.concat([cells, _frame(rows, numbers, block.first_line, width)]).sort(LINE)


def cut_fast(block: Block, separator: str, width: int, *, last: bool) -> tuple[pl.DataFrame, Block] | None:
    """Cells of all whole records and the unfinished rest, or None where a quote stands in an odd place."""
    text = np.frombuffer(block.data, dtype=np.uint8)
    is_quote = text == _QUOTE
    within = (np.cumsum(is_quote, dtype=np.uint8) & 1).astype(bool)  # wraps around at 256, which keeps the parity
    line_ends = text == _NEWLINE
    ends = np.flatnonzero(line_ends & ~within)
    stop = len(text)
    if stop and within[-1]:
        if last or stop - (ends[-1] + 1 if len(ends) else 0) > LONGEST_LINE:
            return None
        stop = int(ends[-1]) + 1 if len(ends) else 0
    if not _in_place(text[:stop], is_quote[:stop], ord(separator)).all():
        return None
    unused = next((code for code in _STAND_INS if code not in block.data), None)
    if unused is None:
        return None
    marked = text[:stop].copy()
    marked[(marked == ord(separator)) & ~within[:stop]] = 0
    marked[line_ends[:stop] & within[:stop]] = unused
    first_of_rest = block.first_line + int(line_ends[:stop].sum())
    return (
        _cells(marked.tobytes(), block.first_line, width, chr(unused)),
        Block(first_of_rest, block.data[stop:], block.broken),
    )


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


def _cells(marked: bytes, first_line: int, width: int, stand_in: str) -> pl.DataFrame:
    lines = pl.read_lines(marked, name="text").with_columns(
        (pl.col("text").str.count_matches(stand_in, literal=True).cum_sum().shift(1, fill_value=0)).alias("_inner")
    )
    lines = lines.with_row_index(LINE, offset=first_line).with_columns(pl.col(LINE) + pl.col("_inner"))
    return _values(split(lines.filter(pl.col("text") != ""), _CELL, width), stand_in)


def _values(cells: pl.DataFrame, stand_in: str | None = None) -> pl.DataFrame:
    """What the cells say, without their quotes; a stand-in inside them is a line end."""
    value = pl.all().exclude(LINE, "_count", "_return")
    bare = value.str.slice(1, value.str.len_chars() - 2).str.replace_all('""', '"', literal=True)
    said = bare.str.replace_all(stand_in, "\n", literal=True) if stand_in else bare
    return cells.with_columns(pl.when(value.str.starts_with('"')).then(said).otherwise(value))


def split(lines: pl.DataFrame, separator: str, width: int) -> pl.DataFrame:
    """Cells of lines that hold one record each."""
    names = [str(index) for index in range(width)]
    cut = pl.col("text").str.split_exact(separator, width).struct.rename_fields([*names, "_more"])
    cells = lines.select(LINE, cut).unnest("text")
    count = pl.col(names[-1]).is_null() | pl.col("_more").is_not_null()
    returns = (pl.col(name).str.contains("\r", literal=True) & ~pl.col(name).str.starts_with('"') for name in names)
    return cells.select(
        LINE, *names, count.alias("_count"), pl.any_horizontal(returns).fill_null(False).alias("_return")
    )


@contextmanager
def long_values() -> Iterator[None]:
    """Let Python's csv module take values as long as a line may be; its own limit is for the whole process."""
    before = csv.field_size_limit(LONGEST_LINE)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def cut_patiently(
    block: Block, separator: str, width: int, found: Findings, *, last: bool
) -> tuple[pl.DataFrame, Block]:
    """The same for any text: lines that no record starts at are reported and left out."""
    lines = block.data.decode().split("\n")
    if lines[-1] == "":
        lines.pop()
    rows: list[list[str]] = []
    starts: list[int] = []
    at = 0
    rest = Block(block.first_line + len(lines), b"", block.broken)
    while at < len(lines):
        reader = csv.reader(_with_ends(lines, at), delimiter=separator, strict=True)
        begin = at
        try:
            with long_values():
                for row in reader:
                    rows.append(row)
                    starts.append(begin)
                    begin = at + reader.line_num
            break
        except csv.Error as error:
            unfinished = str(error) == "unexpected end of data"
            waiting = sum(map(len, islice(lines, begin, None))) if unfinished and not last else LONGEST_LINE
            if waiting < LONGEST_LINE:
                tail = "\n".join(lines[begin:]) + "\n" * block.data.endswith(b"\n")
                rest = Block(block.first_line + begin, tail.encode(), block.broken)
                break
            stray = str(error).startswith("new-line character")
            found.add(block.first_line + begin, NEVER_CLOSED if unfinished else STRAY_RETURN if stray else ODD_QUOTES)
            at = begin + 1
    return _frame(rows, starts, block.first_line, width), rest


def _with_ends(lines: list[str], start: int) -> Iterator[str]:
    return (line + "\n" for line in islice(lines, start, None))


def _frame(rows: list[list[str]], starts: list[int], first_line: int, width: int) -> pl.DataFrame:
    filled = [(start, row) for start, row in zip(starts, rows, strict=True) if row]
    columns: dict[str, list[int] | list[str | None] | list[bool]] = {LINE: [first_line + start for start, _ in filled]}
    for index in range(width):
        columns[str(index)] = [row[index] if index < len(row) else None for _, row in filled]
    columns["_count"] = [len(row) != width for _, row in filled]
    columns["_return"] = [False] * len(filled)  # the csv module refuses these itself
    types = {LINE: pl.UInt32(), "_count": pl.Boolean(), "_return": pl.Boolean()}
    return pl.DataFrame(columns, schema={name: types.get(name, pl.String()) for name in columns})

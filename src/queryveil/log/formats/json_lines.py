"""JSON Lines: one object a line, with the canonical names as keys or mapped ones.

`user` and `session` may be numbers, which become text; `time` is ISO 8601 text, without a zone taken for UTC. Extra
keys travel along: text, whole numbers, numbers and truth values as such, anything nested or mixed as its JSON text.
Written: every column in use for every row, null included.

>>> import io
>>> from queryveil.log.query_log import QueryLog
>>> out = io.BytesIO()
>>> write(QueryLog.of([("ann", "tulips")]), out)
>>> out.getvalue()
b'{"user":"ann","query":"tulips"}\\n'
"""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec
import polars as pl

from queryveil.log.formats.fields import WRITTEN_TIME, outside_years
from queryveil.log.formats.format import Declared, Format, refuse_what_is_lost, shown_name
from queryveil.log.formats.named import Names, columns_to_write, match_names, records_from_text
from queryveil.log.problems import LINE, Findings, Rule
from queryveil.log.query_log import COLUMNS, QueryLog, exactly
from queryveil.log.source import HEAD_SIZE, Block, Source

CARRIED_TYPES = {pl.String: str, pl.Int64: int, pl.Float64: float, pl.Boolean: bool}
_OBJECT = msgspec.json.Decoder(dict[str, Any])
Decoded = TypeVar("Decoded")
_ENCODER = msgspec.json.Encoder()


def sniff(head: bytes, path: Path) -> bool:
    """A first line that is an object, or at least opens one and is too long to see whole."""
    return bool(first_object(head)) or (head.startswith(b"{") and b"\n" not in head and len(head) >= HEAD_SIZE)


def first_object(head: bytes) -> dict[str, Any]:
    """The object on the first line that holds anything, empty where there is none."""
    try:
        return _OBJECT.decode(head.lstrip().split(b"\n", 1)[0])
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return {}


def decoded_lines(
    block: Block, decoder: msgspec.json.Decoder[Decoded], found: Findings
) -> tuple[list[int], list[Decoded]]:
    """Line numbers and objects of all lines that hold one; the others are reported."""
    lines = block.data.split(b"\n")
    if not block.broken:
        try:
            decoded = decoder.decode_lines(block.data)
            if len(decoded) == block.line_count:
                return list(range(block.first_line, block.first_line + len(decoded))), decoded
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            pass  # some line is bad: find out which
    numbers, decoded = [], []
    for number, line in enumerate(lines, start=block.first_line):
        if number in block.broken:
            found.add(number, block.broken[number])
        elif line.strip():
            try:
                decoded.append(decoder.decode(line))
                numbers.append(number)
            except msgspec.ValidationError:
                found.add(number, "not a JSON object")
            except (msgspec.MsgspecError, UnicodeError, RecursionError):
                found.add(number, "not valid JSON")
    return numbers, decoded


def read(source: Source, found: Findings, declared: Declared) -> pl.DataFrame:
    """Every line that is an object with a user and a query."""
    numbers: list[int] = []
    rows: list[dict[str, Any]] = []
    for block in source.blocks():
        found.lines += block.line_count
        more_numbers, more_rows = decoded_lines(block, _OBJECT, found)
        numbers += more_numbers
        rows += more_rows
    if not rows:
        return pl.DataFrame(schema={"user": pl.String, "query": pl.String})
    keys = list(dict.fromkeys(key for row in rows for key in row))
    names = match_names(keys, declared.columns, found)
    return _records(numbers, rows, names, found)


def _records(numbers: list[int], rows: list[dict[str, Any]], names: Names, found: Findings) -> pl.DataFrame:
    series = [pl.Series(LINE, numbers, dtype=pl.UInt32)]
    rules = []
    for key, inside in names.inside.items():
        values = [row.get(key) for row in rows]
        if inside in COLUMNS:
            texts = [_as_text(value, inside) for value in values]
            series.append(pl.Series(inside, texts, dtype=pl.String))
            odd = [text is None and value is not None for text, value in zip(texts, values, strict=True)]
            if any(odd):
                series.append(pl.Series(f"_odd_{inside}", odd))
                rules.append(Rule(inside, f"the {inside} is neither text nor null", pl.col(f"_odd_{inside}")))
        else:
            series.append(_extra(inside, values, names.outside[inside], found))
    return records_from_text(pl.DataFrame(series), names, found, {}, rules)


def _as_text(value: object, column: str) -> str | None:
    if type(value) is str:
        return value
    return str(value) if type(value) is int and column in ("user", "session", "rank") else None


def _extra(inside: str, values: list[Any], outside: str, found: Findings) -> pl.Series:
    kinds = {type(value) for value in values} - {type(None)}
    for dtype, kind in CARRIED_TYPES.items():
        if kinds <= {kind} or (kind is float and kinds <= {int, float}):
            try:
                return pl.Series(inside, values, dtype=dtype, strict=True)
            except (OverflowError, TypeError, pl.exceptions.PolarsError):
                break  # a whole number beyond 64 bits
    found.note(f"column {shown_name(outside)} holds nested, mixed or very large values and travels as JSON text")
    return pl.Series(inside, [None if v is None else _ENCODER.encode(v).decode() for v in values], dtype=pl.String)


def write(log: QueryLog, out: IO[bytes]) -> None:
    """One object per row, or `FormatError` for columns whose type JSON would lose."""
    rules = [outside_years(1, 9999)]
    lost = []
    for name in log.extra_columns:
        column = log.frame[name]
        if column.dtype not in CARRIED_TYPES or (column.dtype != pl.String and column.null_count() == len(log)):
            lost.append(name)
        elif column.dtype == pl.Float64:
            rules.append(Rule(name, "not a finite number", ~exactly(name).is_finite()))
    refuse_what_is_lost(
        log,
        "jsonl",
        columns=[name for name in log.frame.columns if name not in lost],
        instead="parquet",
        rules=rules,
    )
    frame = log.frame.select(map(exactly, columns_to_write(log)))
    if "time" in frame.columns:
        frame = frame.with_columns(pl.col("time").dt.to_string(WRITTEN_TIME))
    frame.write_ndjson(out)


FORMAT = Format(
    name="jsonl",
    suffix=".jsonl",
    title="JSON Lines, one object per record; other names by mapping",
    columns=tuple(COLUMNS),
    extras=True,
    sniff=sniff,
    read=read,
    write=write,
    header_lines=0,
)

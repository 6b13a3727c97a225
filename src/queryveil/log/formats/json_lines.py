"""JSON Lines: one object a line, with the canonical names as keys or mapped ones.

What a line means depends on that line and on what was declared, never on other lines. Each column is taken from the
first of its keys that holds a value there: the canonical one, then AOL's, or the mapped one alone. Other keys are left
out unless they are asked for (`extras`); they travel as text, what is no text as its JSON. The results shown are a list
of texts when they are written. An object in which a key that is read stands twice is a bad line (`json_keys`).

`user` and `session` may be numbers, which become text; `time` is ISO 8601 text, without a zone taken for UTC. Written:
every column in use for every row, null included; extra columns of text only.

>>> import io
>>> from queryveil.log.query_log import QueryLog
>>> out = io.BytesIO()
>>> write(QueryLog.of([("ann", "tulips")]), out)
>>> out.getvalue()
b'{"user":"ann","query":"tulips"}\\n'
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import IO, Any, TypeVar

import msgspec
import polars as pl

from queryveil.errors import UsageError
from queryveil.log.formats.column_names import Names, records_from_text
from queryveil.log.formats.format import (
    AOL_NAMES,
    WRITTEN_TIME,
    Declared,
    Findings,
    Format,
    Rule,
    outside_years,
    refuse_what_is_lost,
)
from queryveil.log.formats.json_keys import TWICE, lines_with_twins
from queryveil.log.query_log import COLUMNS, QueryLog, exactly
from queryveil.log.shown import SHOWN, is_no_list, results
from queryveil.log.source import HEAD_SIZE, LINE, Block, LogFile

_UNMAPPABLE = re.compile(r'["\\\x00-\x1f]')
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
    if not block.broken and _one_object_a_line(block):
        try:
            decoded = decoder.decode_lines(block.data)
            if len(decoded) == block.line_count:
                numbers = list(range(block.first_line, block.first_line + len(decoded)))
                return _without_twins(block, numbers, decoded, found)
        except (msgspec.MsgspecError, UnicodeError, RecursionError):
            pass  # some line is bad: find out which
    numbers, decoded = [], []
    for number, line in enumerate(block.data.split(b"\n"), start=block.first_line):
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
    return _without_twins(block, numbers, decoded, found)


def _without_twins(
    block: Block, numbers: list[int], decoded: list[Decoded], found: Findings
) -> tuple[list[int], list[Decoded]]:
    """Without objects in which a key that is read stands twice, which are reported."""
    if not decoded:
        return numbers, decoded

    def having(field: msgspec.structs.FieldInfo) -> Callable[[], int]:
        return lambda: len(decoded) - list(map(attrgetter(field.name), decoded)).count(field.default)

    def lines() -> list[bytes]:
        all_lines = block.data.split(b"\n")
        return [all_lines[number - block.first_line] for number in numbers]

    fields = msgspec.structs.fields(type(decoded[0]))  # type: ignore[arg-type]  # all decoders here are of structs
    twins = set(lines_with_twins(block.data, lines, {field.encode_name: having(field) for field in fields}))
    if not twins:
        return numbers, decoded
    for place in sorted(twins):
        found.add(numbers[place], TWICE)
    kept = [place for place in range(len(decoded)) if place not in twins]
    return [numbers[place] for place in kept], [decoded[place] for place in kept]


def _one_object_a_line(block: Block) -> bool:
    """Whether every line opens with a brace and closes with one.

    The decoder of many lines takes any white space for a line end, so that an object opened on one line could take in
    somebody else's line and close on a third. Where every line begins and ends so, no comma can join two of them.
    """
    text = block.data.removesuffix(b"\n").removesuffix(b"\r")
    joints = text.count(b"}\n{") + text.count(b"}\r\n{")
    return text.startswith(b"{") and text.endswith(b"}") and joints == block.line_count - 1


def read(source: LogFile, found: Findings, declared: Declared) -> pl.DataFrame:
    """Every line that is an object with a user and a query."""
    return pl.concat(pieces(source, found, declared))


def pieces(source: LogFile, found: Findings, declared: Declared) -> Iterator[pl.DataFrame]:
    """The same, block by block."""
    keys = keys_by_name(declared)
    asked = list(dict.fromkeys(key for alternatives in keys.values() for key in alternatives))
    decoder = msgspec.json.Decoder(_object_with(asked))
    yield pl.DataFrame(schema={name: COLUMNS.get(name, pl.String()) for name in keys})
    for block in source.blocks():
        found.lines += block.line_count
        if block.first_line == 1 and set(first_object(block.data[:HEAD_SIZE])) - set(asked):
            found.note(f"keys other than {', '.join(keys)} are left out, unless extras names them")
        numbers, rows = decoded_lines(block, decoder, found)
        yield _records(numbers, [msgspec.structs.astuple(row) for row in rows], asked, keys, found)


def keys_by_name(declared: Declared) -> dict[str, tuple[str, ...]]:
    """For each column of the table the keys that may hold it, in the order in which a row is asked for them.

    >>> keys = keys_by_name(Declared(columns={"user": "uid"}, extras=["topic"]))
    >>> keys["user"], keys["url"], keys["topic"]
    (('uid',), ('url', 'ClickURL'), ('topic',))
    """
    columns = {**{name: name for name in declared.extras if name not in COLUMNS}, **declared.columns}
    taken = set(columns.values())
    usual = {name: dict.fromkeys((name, AOL_NAMES.get(name, name))) for name in COLUMNS if name not in columns}
    return {name: tuple(key for key in keys if key not in taken) for name, keys in usual.items()} | {
        name: (theirs,) for name, theirs in columns.items()
    }


def _object_with(keys: list[str]) -> type[Any]:
    """The fields that are read; msgspec drops all others unseen, so that they cost little and decide nothing."""
    if any(map(_UNMAPPABLE.search, keys)):
        raise UsageError(
            "columns or extras name a key with a quote, a backslash or a control character, which is not read."
        )
    names = {f"key_{number}": key for number, key in enumerate(keys)}
    fields: list[Any] = [(name, Any, msgspec.UNSET) for name in names]
    return msgspec.defstruct("Record", fields, rename=names.__getitem__, gc=False)


def _records(
    numbers: list[int],
    rows: list[tuple[Any, ...]],
    asked: list[str],
    keys: Mapping[str, tuple[str, ...]],
    found: Findings,
) -> pl.DataFrame:
    columns = map(_with_nulls, zip(*rows, strict=True)) if rows else ([] for _ in asked)
    values_of: dict[str, Sequence[Any]] = dict(zip(asked, columns, strict=True))
    names = Names(
        inside={name: name if name in COLUMNS else f"extra {number}" for number, name in enumerate(keys)},
        outside={f"extra {number}": name for number, name in enumerate(keys) if name not in COLUMNS},
    )
    series, rules = [pl.Series(LINE, numbers, dtype=pl.UInt32)], []
    for name, alternatives in keys.items():
        values: Sequence[Any] = [None] * len(rows)
        for key in alternatives:
            values = [mine if mine is not None else other for mine, other in zip(values, values_of[key], strict=True)]
        if name not in COLUMNS:
            series.append(pl.Series(names.inside[name], list(map(_extra_text, values)), dtype=pl.String))
            continue
        texts = [_as_text(value, name) for value in values]
        series.append(pl.Series(name, texts, dtype=pl.String))
        odd = [text is None and value is not None for text, value in zip(texts, values, strict=True)]
        if any(odd):
            series.append(pl.Series(f"_odd_{name}", odd))
            rules.append(Rule(name, f"the {name} is neither text nor null", pl.col(f"_odd_{name}")))
    return records_from_text(pl.DataFrame(series), names, found, {}, rules)


def _with_nulls(values: tuple[Any, ...]) -> Sequence[Any]:
    """A key that a line lacks, which the decoder tells from null, means the same as null."""
    lacking = values.count(msgspec.UNSET)
    if lacking == len(values):
        return [None] * lacking
    return [None if value is msgspec.UNSET else value for value in values] if lacking else values


def _as_text(value: object, column: str) -> str | None:
    if type(value) is str:
        return value
    return str(value) if type(value) is int and column in ("user", "session", "rank") else None


def _extra_text(value: object) -> str | None:
    """Text as it is, anything else as its JSON: a type that fitted all rows would let one row decide for the others."""
    return value if value is None or type(value) is str else _ENCODER.encode(value).decode()


def write(log: QueryLog, out: IO[bytes]) -> None:
    """One object per row, or `FormatError` for columns whose type JSON would lose."""
    refuse_what_is_lost(
        log,
        "jsonl",
        columns=[
            name
            for name, dtype in log.frame.schema.items()
            if name in COLUMNS
            or (dtype == pl.String and name not in AOL_NAMES.values() and not _UNMAPPABLE.search(name))
        ],
        instead="parquet",
        rules=[outside_years(1, 9999), Rule(SHOWN, "not a JSON list of texts, without blanks between", is_no_list())],
    )
    frame = log.frame.select(map(exactly, log.used_columns))
    if "time" in frame.columns:
        frame = frame.with_columns(pl.col("time").dt.to_string(WRITTEN_TIME))
    if SHOWN in frame.columns:
        frame = frame.with_columns(results(frame[SHOWN]).alias(SHOWN))
    frame.write_ndjson(out)


FORMAT = Format(
    name="jsonl",
    suffix=".jsonl",
    title="JSON Lines, one object per record; other names by mapping",
    columns=tuple(COLUMNS),
    extras=True,
    sniff=sniff,
    read=read,
    pieces=pieces,
    write=write,
    header_lines=0,
    by_lines=True,
)

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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import IO, Any

import msgspec
import polars as pl

from queryveil.errors import UsageError
from queryveil.log.formats import json_rows
from queryveil.log.formats.column_names import MOST_COLUMNS, Names, parsed_from_text
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
from queryveil.log.query_log import COLUMNS, QueryLog, exactly
from queryveil.log.shown import SHOWN, is_no_list, results
from queryveil.log.source import HEAD_SIZE, LINE, Block, LogFile

_UNMAPPABLE = re.compile(r'["\\\x00-\x1f]')
_OBJECT = msgspec.json.Decoder(dict[str, Any])
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
        if block.is_long:
            plain, (numbers, rows) = _plain_lines(block, asked, keys, decoder, found)
        else:
            plain, (numbers, rows) = None, json_rows.decoded_lines(block, decoder, found)
        yield _records(plain, numbers, [msgspec.structs.astuple(row) for row in rows], asked, keys, found)


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
    if len(keys) > MOST_COLUMNS + 2 * len(COLUMNS):
        raise UsageError(f"extras names more than {MOST_COLUMNS:,} keys. Leave out what is not needed.")
    if any(map(_UNMAPPABLE.search, keys)):
        raise UsageError(
            "columns or extras name a key with a quote, a backslash or a control character, which is not read."
        )
    names = {f"key_{number}": key for number, key in enumerate(keys)}
    fields: list[Any] = [(name, Any, msgspec.UNSET) for name in names]
    return msgspec.defstruct("Record", fields, rename=names.__getitem__, gc=False)


def _plain_lines(
    block: Block,
    asked: list[str],
    keys: Mapping[str, tuple[str, ...]],
    decoder: msgspec.json.Decoder[Any],
    found: Findings,
) -> tuple[pl.DataFrame, tuple[list[int], list[Any]]]:
    """The lines whose values are as they mostly are, in columns; the others, decoded one by one."""
    from queryveil.log.formats import _json_kernel as kernel  # which takes Numba: short files need none
    from queryveil.log.formats._json_columns import plain_lines

    texts, whole = (kernel.TEXT, kernel.ESCAPED_TEXT), kernel.WHOLE
    kinds = {**dict.fromkeys(COLUMNS, texts), "user": (*texts, whole), "session": (*texts, whole)}
    kinds["rank"] = (kernel.TEXT, whole)
    of_extras = (*texts, whole, kernel.BOOLEAN, kernel.ARRAY)
    known: dict[str, tuple[int, ...]] = {}
    for name, tried in keys.items():
        for key in tried:  # of two columns with one key, each has a say
            known[key] = tuple(kind for kind in kinds.get(name, of_extras) if kind in known.get(key, (kind,)))
    inside = _inside(keys).inside
    lines = plain_lines(block, {key: (key,) for key in asked}, known)
    series = [pl.Series(LINE, lines.numbers, dtype=pl.UInt32)]
    for name, tried in keys.items():
        value = reduce(lambda mine, other: mine.or_else(other), [lines.found[key] for key in tried])
        if name in ("time", "rank"):
            given = value.is_any_of(*kinds[name]) & (value.stops > value.starts)
            read = value.times() if name == "time" else value.ranks()
            series += [read.alias(name), pl.Series(f"_{name}", given)]
        else:
            series.append(value.read(*kinds.get(name, of_extras)).column().alias(inside[name]))
    return pl.DataFrame(series), json_rows.decoded_singly(lines.others, block.broken, decoder, found)


def _records(
    plain: pl.DataFrame | None,
    numbers: list[int],
    rows: list[tuple[Any, ...]],
    asked: list[str],
    keys: Mapping[str, tuple[str, ...]],
    found: Findings,
) -> pl.DataFrame:
    """Records of plain lines in columns, and of rows with what stands under each key."""
    columns = map(_with_nulls, zip(*rows, strict=True)) if rows else ([] for _ in asked)
    values_of: dict[str, Sequence[Any]] = dict(zip(asked, columns, strict=True))
    names = _inside(keys)
    series, more = [pl.Series(LINE, numbers, dtype=pl.UInt32)], []
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
            more.append(Rule(name, f"the {name} is neither text nor null", pl.col(f"_odd_{name}")))
    inside = list(names.inside.values())
    parsed, rules = parsed_from_text(pl.DataFrame(series), inside, more)
    if plain is not None:
        parsed = pl.concat([plain, parsed], how="diagonal").sort(LINE) if rows else plain
    return found.sift(parsed, rules, {}).select(inside).rename(names.outside)


def _inside(keys: Iterable[str]) -> Names:
    """What the columns are called while they are read: extra ones by number, so that none meets a helper column."""
    return Names(
        inside={name: name if name in COLUMNS else f"extra {number}" for number, name in enumerate(keys)},
        outside={f"extra {number}": name for number, name in enumerate(keys) if name not in COLUMNS},
    )


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

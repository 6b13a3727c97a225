"""Columns that have names of their own in the file: CSV, JSON Lines, Parquet.

A name counts as ours when it is canonical (`user`), AOL's (`AnonID`), or mapped with `columns` (`user=uid`). All other
columns travel along under their own names.

>>> names = match_names(["uid", "text", "shop"], {"user": "uid", "query": "text"}, Findings(1))
>>> names.inside
{'uid': 'user', 'text': 'query', 'shop': 'extra 0'}
>>> names.outside
{'extra 0': 'shop'}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from queryveil.errors import FormatError, Remedy
from queryveil.log.formats.format import (
    AOL_NAMES,
    Findings,
    Rule,
    given,
    in_calendar,
    iso_time,
    rank,
    rules_for_all,
    shown_name,
)
from queryveil.log.query_log import COLUMNS, QueryLog

MOST_COLUMNS = 4096
"""Each column is judged by rules of its own, which takes about half a millisecond however short the file."""
MOST_NAMES_SHOWN = 20
USUAL_NAMES = {*COLUMNS, *map(str.lower, AOL_NAMES.values())} | {
    *("uid", "user_id", "userid", "client_id", "id", "session_id", "user_query", "text", "q", "timestamp", "date"),
    *("datetime", "count", "freq", "frequency", "clicks", "position", "item_id"),
}
"""Names one of which nearly every header has."""
PLAIN_ISO = "%Y-%m-%dT%H:%M:%S"
_PLAIN_ISO = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-5][0-9]$"  # a 60th second takes a closer look


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

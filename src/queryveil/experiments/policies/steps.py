"""The steps that today's rules are put together from, each a function from records to records.

Records are a frame with the columns of a log (`user` is the true one until names are given at the end). A step knows
nothing of the others; what its numbers mean is in its arguments, and where they come from is with the policy.

>>> rows = pl.DataFrame({"user": ["ann", "bob", "ann"], "query": ["tulip bulbs", "tulip", "bulbs for my rash"]})
>>> allowlist(rows, people=2)["query"].to_list()
['tulip']
>>> limit(rows, words=2)["query"].to_list()
['tulip bulbs', 'tulip']
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Final, TypeAlias

import polars as pl

from queryveil.experiments.policies.detectors import USUAL, Detector, Identifier, detect
from queryveil.log.query_log import METADATA

Step: TypeAlias = Callable[[pl.DataFrame], pl.DataFrame]

MINI_SESSION: Final = "mini-session"
"""The column that `cut_sessions` adds: the number of the mini-session of a record."""
PAUSE: Final = timedelta(minutes=30)
WORD: Final = r"[\pL\pN]+"
LADDER: Final[tuple[frozenset[str], ...]] = tuple(
    map(
        frozenset,
        (
            ("country", "region", "device", "language", "hour"),
            ("country", "region", "device", "language", "day"),
            ("country", "device", "language", "day"),
            ("country", "device", "day"),
            ("country", "day"),
            ("day",),
            (),
        ),
    )
)
"""What is kept of the metadata, from all of it to nothing; which goes first is assumed."""


# Texts


def identified(texts: pl.Series, detectors: Sequence[Detector] = USUAL) -> dict[str, list[Identifier]]:
    """The identifiers of the texts that have some (detect)."""
    hints = "|".join(f"(?:{detector.hint})" for detector in detectors)
    hinted = texts.filter(texts.str.contains(hints)).unique() if detectors else texts.clear()
    found = ((text, detect(text, detectors)) for text in hinted)
    return {text: identifiers for text, identifiers in found if identifiers}


def resolve(texts: pl.Series, detectors: Sequence[Detector] = USUAL) -> pl.DataFrame:
    """The entities of each distinct text: identifiers in their standard form, and all other words in lower case.

    Columns `query` and `entity`, a row for each time. A text without a letter or digit is its own entity.
    """
    distinct = texts.unique().alias("query")
    known = identified(distinct, detectors)
    plain = distinct.filter(~distinct.is_in(list(known))).to_frame()
    words = pl.col("query").str.to_lowercase().str.extract_all(WORD)
    words = pl.when(words.list.len() == 0).then(pl.concat_list("query")).otherwise(words)
    rest = [(text, entity) for text, found in known.items() for entity in _entities(text, found)]
    return pl.concat(
        [
            plain.with_columns(words.alias("entity")).explode("entity"),
            pl.DataFrame(rest, schema={"query": pl.String, "entity": pl.String}, orient="row"),
        ]
    )


def _entities(text: str, found: Sequence[Identifier]) -> list[str]:
    around = list(text)
    for one in found:
        around[one.start : one.end] = " " * (one.end - one.start)
    words = pl.Series(["".join(around)]).str.to_lowercase().str.extract_all(WORD)[0]
    return sorted({*words, *(f"{one.kind}:{one.standard}" for one in found)})


def without_identifiers(rows: pl.DataFrame, detectors: Sequence[Detector] = USUAL) -> pl.DataFrame:
    """The records in whose text no detector finds anything."""
    return rows.filter(~pl.col("query").is_in(list(identified(rows["query"], detectors))))


def allowlist(rows: pl.DataFrame, *, people: int, detectors: Sequence[Detector] = USUAL) -> pl.DataFrame:
    """The records each of whose entities at least so many people used."""
    # Whole numbers in place of texts: what is counted may be a hundred million pairs.
    texts = rows.select("query").unique().with_row_index("text")
    entities = resolve(texts["query"], detectors).join(texts, on="query").drop("query")
    entities = entities.select("text", _number("entity"))
    asked = rows.select("query", _number("user")).join(texts, on="query").select("text", "user").unique()
    used = asked.join(entities, on="text").select("entity", "user").unique().group_by("entity").len("people")
    rare = entities.join(used.filter(pl.col("people") < people), on="entity", how="semi")
    allowed = texts.join(rare, on="text", how="anti")
    return rows.join(allowed, on="query", how="semi", maintain_order="left")


def _number(name: str) -> pl.Expr:
    return pl.col(name).cast(pl.Categorical).to_physical()


def limit(rows: pl.DataFrame, *, words: int) -> pl.DataFrame:
    """The records whose text has at most so many words."""
    return rows.filter(pl.col("query").str.count_matches(WORD) <= words)


# Who shares what


def shared(rows: pl.DataFrame, *columns: str, users: int) -> pl.DataFrame:
    """The records whose values in these columns at least so many people have."""
    return rows.filter(pl.col("user").n_unique().over(*columns) >= users)


def shared_in_window(
    rows: pl.DataFrame, *columns: str, users: int, days: int, every: int | None = None
) -> pl.DataFrame:
    """The records of each period whose values at least so many people had in the `days` that end with the period.

    A period has `every` days, as many as the window where that is not given. Records without a time are in no period;
    a log without any is one window.
    """
    first, last = rows["time"].min(), rows["time"].max()
    if first is None or last is None:
        return shared(rows, *columns, users=users)
    period, window, told, start = timedelta(days=every or days), timedelta(days=days), [], first
    while start <= last:  # type: ignore[operator]
        end = start + period  # type: ignore[operator]
        seen = rows.filter(pl.col("time") >= end - window, pl.col("time") < end)
        enough = seen.group_by(columns).agg(pl.col("user").n_unique()).filter(pl.col("user") >= users)
        now = seen.filter(pl.col("time") >= start)
        told.append(now.join(enough, on=columns, how="semi", nulls_equal=True, maintain_order="left"))
        start = end
    return pl.concat(told)


def generalise(rows: pl.DataFrame, *, people: int, ladder: Sequence[frozenset[str]] = LADDER) -> pl.DataFrame:
    """Metadata and times coarse enough that every combination has at least so many people.

    A record goes down the ladder until its combination is shared by enough of those who came as far; one that nobody
    shares has no metadata at all in the end.
    """
    columns = [name for name in METADATA if name in rows.columns]
    left, done = rows.with_row_index("__row"), []
    tried = None
    for level in ladder:
        kept = level & {*columns, "hour", "day"}
        if kept == tried:
            continue
        tried, coarse = kept, _coarse(left, kept, columns)
        groups = coarse.group_by(*columns, "time").agg(pl.col("user").n_unique())
        combined = [pl.col(name).is_not_null() for name in (*columns, "time")]
        enough = groups.filter((pl.col("user") >= people) | ~pl.any_horizontal(combined))
        settled = coarse.join(enough, on=[*columns, "time"], how="semi", nulls_equal=True)
        done.append(settled)
        left = left.join(settled, on="__row", how="anti")
    done.append(_coarse(left, frozenset(), columns))
    return pl.concat(done).sort("__row").drop("__row")


def _coarse(rows: pl.DataFrame, kept: frozenset[str], columns: Sequence[str]) -> pl.DataFrame:
    time = pl.col("time").dt.truncate("1h" if "hour" in kept else "1d") if kept & {"hour", "day"} else _nothing("time")
    return rows.with_columns(*(_nothing(name) for name in columns if name not in kept), time)


def _nothing(name: str) -> pl.Expr:
    return pl.when(False).then(pl.col(name)).alias(name)


# When


def cut_sessions(rows: pl.DataFrame, *, records: int) -> pl.DataFrame:
    """Number mini-sessions of at most so many records: a session is cut, and never joined to another.

    A session is what the log says it is, and ends with a pause of 30 minutes.
    """
    rows = rows.sort("user", "time", maintain_order=True).with_row_index("__row")
    changed = [pl.col(name).ne_missing(pl.col(name).shift(1)) for name in ("user", "session")]
    pause = (pl.col("time") - pl.col("time").shift(1)) > PAUSE
    starts = changed[0] | changed[1] | pause.fill_null(False)
    first = pl.when(starts).then("__row").forward_fill()
    again = starts | ((pl.col("__row") - first) % records == 0)
    return rows.with_columns(again.cum_sum().alias(MINI_SESSION)).drop("__row")


def round_times(rows: pl.DataFrame, *, hours: int) -> pl.DataFrame:
    """Times cut to so many hours."""
    return rows.with_columns(pl.col("time").dt.truncate(f"{hours}h"))

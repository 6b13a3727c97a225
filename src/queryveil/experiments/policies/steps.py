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

import numpy as np
import numpy.typing as npt
import polars as pl

from queryveil.experiments.policies.detectors import USUAL, Detector, Identifier, detect
from queryveil.log.query_log import METADATA

Step: TypeAlias = Callable[[pl.DataFrame], pl.DataFrame]

MINI_SESSION: Final = "mini-session"
"""The column that `cut_sessions` adds: the number of the mini-session of a record."""
PAUSE: Final = timedelta(minutes=30)
_HOUR: Final = 3_600_000_000  # microseconds
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
    found = _resolved(distinct, detectors)
    return found.select(distinct.gather(found["text"]), "entity")


def _resolved(distinct: pl.Series, detectors: Sequence[Detector]) -> pl.DataFrame:
    """The entities of distinct texts, each with the place of its text."""
    known = identified(distinct, detectors)
    places = pl.DataFrame({"query": distinct}).with_row_index("text")
    found = pl.Series("query", list(known), dtype=pl.String)
    words = pl.col("query").str.to_lowercase().str.extract_all(WORD)
    words = pl.when(words.list.len() == 0).then(pl.concat_list("query")).otherwise(words)
    plain = places.filter(~pl.col("query").is_in(found.implode())).select("text", words.alias("entity"))
    place_of = dict(places.filter(pl.col("query").is_in(found.implode())).select("query", "text").iter_rows())
    rest = [(place_of[text], entity) for text, each in known.items() for entity in _entities(text, each)]
    schema = {"text": pl.UInt32(), "entity": pl.String()}
    return pl.concat([plain.explode("entity"), pl.DataFrame(rest, schema=schema, orient="row")])


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
    # Whole numbers in place of texts, each text looked at once: what is counted may be a hundred million pairs.
    texts = rows.select("query").unique().with_row_index("text")
    asked = (
        rows.select("query", _number("user")).join(texts, on="query", how="left", maintain_order="left").drop("query")
    )
    entities = _resolved(texts["query"], detectors).select("text", _number("entity"))
    pairs = asked.unique().join(entities, on="text").select("entity", "user").unique()
    rare = pairs.group_by("entity").len("people").filter(pl.col("people") < people)
    allowed = np.ones(texts.height, np.bool_)
    allowed[entities.join(rare, on="entity", how="semi")["text"].to_numpy()] = False
    return rows.filter(pl.Series(allowed[asked["text"].to_numpy()], dtype=pl.Boolean))


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
    # Whole numbers again; a record is remembered by its place and the step of the ladder on which it stays.
    hour = (pl.col("time").dt.epoch("us") // _HOUR).alias("hour")
    left = rows.select(_number("user"), *map(_number, columns), hour, place=pl.int_range(pl.len(), dtype=pl.UInt32))
    steps = [level & {*columns, "hour", "day"} for level in ladder]
    stays = np.full(rows.height, len(steps), np.uint8)
    for number, kept in enumerate(steps):
        if number and kept == steps[number - 1]:
            continue
        time = (pl.col("hour") // (1 if "hour" in kept else 24)).alias("time")
        combined = [pl.col(name) for name in columns if name in kept] + [time] * bool(kept & {"hour", "day"})
        if not combined:
            stays[left["place"].to_numpy()] = number
            break
        coarse = left.select("user", "place", *combined)
        names = coarse.columns[2:]
        enough = coarse.select("user", *names).unique().group_by(names).len("people")
        nothing = ~pl.any_horizontal(pl.col(names).is_not_null())
        enough = enough.filter((pl.col("people") >= people) | nothing)
        settled = coarse.join(enough, on=names, how="semi", nulls_equal=True)["place"]
        stays[settled.to_numpy()] = number
        left = left.filter(pl.Series(stays[left["place"].to_numpy()] == len(steps), dtype=pl.Boolean))
    return _coarse(rows, stays, [*steps, frozenset()], columns)


def _coarse(
    rows: pl.DataFrame, stays: npt.NDArray[np.uint8], steps: Sequence[frozenset[str]], columns: Sequence[str]
) -> pl.DataFrame:
    """Of each record what its step of the ladder keeps."""

    def keeps(name: str) -> pl.Expr:
        return pl.lit(pl.Series(np.array([name in kept for kept in steps])[stays], dtype=pl.Boolean))

    time = pl.when(keeps("hour")).then(pl.col("time").dt.truncate("1h")).when(keeps("day"))
    return rows.with_columns(
        *(pl.when(keeps(name)).then(pl.col(name)).alias(name) for name in columns),
        time.then(pl.col("time").dt.truncate("1d")).alias("time"),
    )


# When


def cut_sessions(rows: pl.DataFrame, *, records: int) -> pl.DataFrame:
    """Number mini-sessions of at most so many records: a session is cut, and never joined to another.

    A session is what the log says it is, and ends with a pause of 30 minutes. Records stay where they are.
    """
    place = pl.int_range(pl.len(), dtype=pl.UInt32).alias("place")
    ordered = rows.select(_number("user"), _number("session"), "time", place).sort("user", "time", "place")
    changed = [pl.col(name).ne_missing(pl.col(name).shift(1)) for name in ("user", "session")]
    pause = (pl.col("time") - pl.col("time").shift(1)) > PAUSE
    starts = changed[0] | changed[1] | pause.fill_null(False)
    at = pl.int_range(pl.len(), dtype=pl.UInt32)
    first = pl.when(starts).then(at).forward_fill()
    again = starts | ((at - first) % records == 0)
    numbers = np.empty(rows.height, np.uint32)
    numbers[ordered["place"].to_numpy()] = ordered.select(again.cum_sum())["user"].to_numpy()
    return rows.with_columns(pl.Series(MINI_SESSION, numbers))


def round_times(rows: pl.DataFrame, *, hours: int) -> pl.DataFrame:
    """Times cut to so many hours."""
    return rows.with_columns(pl.col("time").dt.truncate(f"{hours}h"))

"""One picture for the holder: a log and its release side by side, their words from head to tail, their days, a person.

Words are taken at ranks that double, 1, 2, 4, …, by how many of the log's users ask them: nobody chose the ones that
look well. A word's share is that of the queries it is in. The page quotes queries of one person of the log, the
busiest of those with a usual number of queries, so it is for the log's holder only.

>>> raw = QueryLog.of([("ann", "old map"), ("bob", "map of rome"), ("bob", "old road map")])
>>> shown = Beside.of(raw, QueryLog.of([("x", "map"), ("x", "old map")]))
>>> [(word.word, round(word.raw, 2), word.released) for word in shown.words]
[('map', 1.0, 1.0), ('old', 0.67, 0.5), ('road', 0.33, 0.0)]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl
from markupsafe import Markup

from queryveil.log import QueryLog
from queryveil.privacy.keys import replace_private
from queryveil.report.charts import svg, text
from queryveil.report.rendering import render

WORD = r"[\p{L}\p{N}]+"
MOST_WORDS = 12
QUERIES = 7
HOURS = 24
WIDTH, ROW, MIDDLE, BAR = 680, 22, 340, 190
DAY_HEIGHT = 110


@dataclass(frozen=True)
class Word:
    """A word, and the shares of queries that have it."""

    word: str
    raw: float
    released: float


@dataclass(frozen=True)
class Beside:
    """What is shown of a log and of its release."""

    words: tuple[Word, ...]
    hours: tuple[tuple[float, ...], tuple[float, ...]] | None
    """Shares of queries by hour of the day, where both logs have times."""
    person: tuple[str, ...]
    other_person: tuple[str, ...]

    @classmethod
    def of(cls, raw: QueryLog, released: QueryLog) -> Beside:
        """Count both logs."""
        before, after = _words(raw), _words(released)
        ranks = [2**power - 1 for power in range(MOST_WORDS)]
        shown = before.gather([rank for rank in ranks if rank < before.height]).join(
            after, on="word", how="left", maintain_order="left", suffix="_after"
        )
        words = shown.select("word", "share", pl.col("share_after").fill_null(0.0)).rows()
        timed = all(log.frame["time"].count() for log in (raw, released))
        hours = (_hours(raw), _hours(released)) if timed else None
        return cls(tuple(Word(*row) for row in words), hours, _queries(raw), _queries(released))


def write_beside(raw: QueryLog, released: QueryLog, file: Path, *, name: str, promise: str) -> Path:
    """The page about a release that `name` made under a promise, which is told in one line."""
    shown = Beside.of(raw, released)
    page = render(
        "beside.html.j2",
        edition="internal",
        name=name,
        promise=promise,
        shown=shown,
        words_plot=words_plot(shown.words, name),
        day_plots=None if shown.hours is None else [day_plot(hours) for hours in shown.hours],
    )
    replace_private(file, page)
    return file


def words_plot(words: Sequence[Word], name: str) -> Markup:
    """Each word between two bars, on a scale of its own: what counts is whether they are equally long."""
    parts = [
        text("the raw log", MIDDLE - 70, 14, "end", "axis-title"),
        text(name, MIDDLE + 70, 14, "start", "axis-title"),
    ]
    bar = Markup('<rect class="{}" x="{}" y="{}" width="{}" height="14"/>')
    for number, word in enumerate(words):
        y, most = 26 + number * ROW, max(word.raw, word.released)
        left, right = (round(BAR * share / most, 1) for share in (word.raw, word.released))
        parts += [
            bar.format("before", MIDDLE - 70 - left, y, left),
            bar.format("part", MIDDLE + 70, y, right),
            text(_shortened(word.word), MIDDLE, y + 11, "middle", "label"),
            text(_one_in(word.raw), MIDDLE - 76 - left, y + 11, "end"),
            text(_one_in(word.released), MIDDLE + 76 + right, y + 11, "start"),
        ]
    return svg("plot beside", WIDTH, 30 + len(words) * ROW, "Words of both logs, from head to tail", parts)


def day_plot(hours: Sequence[float]) -> Markup:
    """Shares of the day's queries, hour by hour."""
    most = max(*hours, 1e-9)
    bar = Markup('<rect class="{}" x="{}" y="{}" width="11" height="{}"/>')
    parts = []
    for hour, share in enumerate(hours):
        height = round((DAY_HEIGHT - 20) * share / most, 1)
        parts.append(bar.format("part", 4 + 13 * hour, DAY_HEIGHT - 16 - height, height))
        if hour % 6 == 0:
            parts.append(text(f"{hour}:00", 4 + 13 * hour, DAY_HEIGHT - 2, "start"))
    return svg("plot", 13 * HOURS + 8, DAY_HEIGHT, "Queries by hour of the day", parts)


def _words(log: QueryLog) -> pl.DataFrame:
    """`word`, `share` of queries that have it, the word that most users ask first."""
    each = log.frame.select(
        "user", pl.col("query").str.to_lowercase().str.extract_all(WORD).list.unique().alias("word")
    )
    counted = each.explode("word").drop_nulls().group_by("word").agg(pl.col("user").n_unique().alias("users"), pl.len())
    ranked = counted.sort(["users", "word"], descending=[True, False])
    return ranked.select("word", (pl.col("len") / max(1, len(log))).alias("share"))


def _hours(log: QueryLog) -> tuple[float, ...]:
    counted = dict(log.frame["time"].drop_nulls().dt.hour().value_counts().rows())
    total = max(1, sum(counted.values()))
    return tuple(counted.get(hour, 0) / total for hour in range(HOURS))


def _queries(log: QueryLog) -> tuple[str, ...]:
    """The first queries of one user who has about as many as are shown."""
    texts = log.frame.unique(["user", "query"], keep="first", maintain_order=True)
    sizes = (
        texts.group_by("user")
        .len()
        .filter(pl.col("len") <= 2 * QUERIES)
        .sort(["len", "user"], descending=[True, False])
    )
    if not sizes.height:
        return ()
    return tuple(texts.filter(pl.col("user") == sizes["user"][0])["query"].head(QUERIES))


def _one_in(share: float) -> str:
    return f"1 in {round(1 / share):,}" if share > 0 else "none"


def _shortened(word: str) -> str:
    return word if len(word) <= 18 else f"{word[:17]}…"

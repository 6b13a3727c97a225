"""Small streams for the tests of the stream mechanism, and how to read what comes out."""

import polars as pl

from queryveil.log import QueryLog
from queryveil.mechanisms.stream import Stream


def log_of(stream):
    """Records (user, text, path) as a log with a category column."""
    users, texts, paths = zip(*stream, strict=True) if stream else ((), (), ())
    return QueryLog(
        pl.DataFrame(
            {"user": users, "query": texts, "topic": [": ".join(path) for path in paths]},
            schema={"user": pl.String, "query": pl.String, "topic": pl.String},
        )
    )


def timed(stream):
    """Records a day apart."""
    days = (pl.datetime(2026, 3, 1) + pl.duration(days=pl.int_range(pl.len()))).cast(pl.Datetime("us"))
    return QueryLog(log_of(stream).frame.with_columns(days.alias("time")))


def mechanism(mode, **given):
    return Stream(**{"k": 2, "depth": 3, "mode": mode, "category_column": "topic", "time": "drop"} | given)


def outputs(batches):
    return [row for batch in batches for row in batch.frame.select("user", "query", "category").rows()]


def crowd(records=4000, people=60):
    """A stream in which everybody asks everything, in four categories."""
    return [(f"person {i * 7 % people}", f"text {i * i % 11}", ("top", f"topic {i % 4}")) for i in range(records)]

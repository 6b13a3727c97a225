"""What several mechanisms do to columns alike: coarsen times, count who shares a text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

from queryveil.checks import one_of
from queryveil.errors import RefusedError
from queryveil.release.mechanism import DROPPED, Mode

if TYPE_CHECKING:
    import polars as pl

TimeTreatment: TypeAlias = Literal["drop", "day", "hour", "keep"]
TIME_TREATMENTS: tuple[TimeTreatment, ...] = ("drop", "day", "hour", "keep")


def check_time(name: str, value: object) -> str | None:
    """A finding unless `value` is a known treatment of times."""
    return one_of(name, value, TIME_TREATMENTS, suggest="day")


def refuse_exact_times(mode: Mode, time: TimeTreatment) -> None:
    """Exact times single people out, so safe mode does not publish them."""
    if mode == "safe" and time == "keep":
        raise RefusedError(
            "time=keep publishes exact times, which single people out. Use day, hour or drop; "
            "only mode=paper, for public or synthetic data, keeps them."
        )


def coarsened(time: TimeTreatment) -> pl.Expr:
    """The `time` column after its treatment."""
    import polars as pl

    column = pl.col("time")
    if time == "drop":
        return pl.lit(None, dtype=pl.Datetime("us")).alias("time")
    return column if time == "keep" else column.dt.truncate({"day": "1d", "hour": "1h"}[time])


def time_in_words(time: TimeTreatment) -> str:
    """What the manifest says of the `time` column."""
    return {"drop": DROPPED, "day": "cut to the day", "hour": "cut to the hour", "keep": "kept as it was"}[time]


def askers(*columns: str) -> pl.Expr:
    """How many distinct users share a record's values in these columns."""
    import polars as pl

    return pl.col("user").n_unique().over(*columns)

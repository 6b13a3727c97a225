"""How much is left, and whether people look as active as before.

*Volume*: records, users and distinct texts of the release for each one of the raw log (above 1 where records are made
up). *Activity* and *sessions*: the largest distance between the distribution functions (Kolmogorov and Smirnov) of
records per user, and of records per user and day, before and after: 0 for the same shape, 1 for nothing in common.

Cost: groupings.

>>> shape_distance(np.array([1, 2, 3]), np.array([1, 2, 3])), shape_distance(np.array([1, 1]), np.array([5, 6]))
(0.0, 1.0)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import stats

from queryveil.audit.both_logs import both_logs, by_user, sizes, text_counts
from queryveil.audit.context import AuditContext
from queryveil.audit.finding import (
    Found,
    LeftOut,
    kept,
)
from queryveil.log import QueryLog


@dataclass(frozen=True)
class Volume:
    """Sizes of the release for each one of the raw log."""

    records: float
    users: float
    texts: float


def volume(original: QueryLog, released: QueryLog, texts: pl.DataFrame | None = None) -> Volume:
    """What share is left; `texts` are the counts of texts in both (`text_counts`), where somebody has them."""

    def ratio(one: int, other: int) -> float:
        return one / other if other else float("nan")

    counts = text_counts(both_logs(original, released)) if texts is None else texts
    distinct = (int(counts.filter(pl.col(side) > 0)["number"].sum()) for side in ("released", "given"))
    return Volume(
        ratio(len(released), len(original)), ratio(released.user_count(), original.user_count()), ratio(*distinct)
    )


def records_per_user(log: QueryLog) -> npt.NDArray[np.int64]:
    """How many records each user has, the fewest first."""
    return sizes(by_user(log), lambda rows: rows.group_by("user").len()["len"]).to_numpy()


def records_per_session(log: QueryLog) -> npt.NDArray[np.int64]:
    """How many records each user has on each day they have any, the fewest first; none without a time."""

    def on_days(rows: pl.DataFrame) -> pl.Series:
        return rows.drop_nulls("time").group_by("user", pl.col("time").dt.date()).len()["len"]

    return sizes(by_user(log), on_days).to_numpy()


def shape_distance(one: npt.NDArray[np.int64], other: npt.NDArray[np.int64]) -> float:
    """Kolmogorov and Smirnov's D; 1 where one side is empty."""
    return float(stats.ks_2samp(one, other, method="asymp").statistic) if len(one) and len(other) else 1.0


def all_alike(sizes: npt.NDArray[np.int64]) -> float | None:
    """The distance where all were alike, with the mean rounded: what is said of people by who knows nothing of them."""
    return shape_distance(sizes, np.full(max(2, len(sizes)), round(sizes.mean()))) if len(sizes) else None


class LogVolume:
    """Volume, activity and sessions."""

    key: ClassVar[str] = "volume"
    title: ClassVar[str] = "Sessions and volume"
    task: ClassVar[str] = "sessions and volume"
    counts_in_blocks: ClassVar[bool] = True

    def run(self, context: AuditContext) -> Found:
        """The findings, or what is missing."""
        left = volume(context.original, context.released, context.text_counts)
        told: dict[str, tuple[str, float]] = {
            "records": ("Records", left.records),
            "users": ("Users", left.users),
            "texts": ("Distinct texts", left.texts),
        }
        for key, (title, value) in told.items():
            # No floor: who knows nothing of a log can make up as many records, users and texts as they like.
            yield kept(
                f"volume-{key}", f"{title} for each one of the raw log", "sessions and volume", value,
                f"{title} in the release for each one in the raw log; above 100 % where they are made up. Counted, not "
                "sampled.", raw=1.0, trials=len(context.users),
            )  # fmt: skip
        active = [records_per_user(log) for log in (context.original, context.released)]
        yield kept(
            "activity", "How active people are", "sessions and volume", shape_distance(active[0], active[1]),
            "Largest distance between the distributions of records per user before and after: 0 unchanged, at most 1.",
            better="lower", unit="distance", raw=0.0, chance=all_alike(active[0]), trials=len(context.users),
        )  # fmt: skip
        lengths = [records_per_session(log) for log in (context.original, context.released)]
        if not len(lengths[0]) or not len(lengths[1]):
            yield LeftOut(title="Sessions", reason="one of the logs has no times")
            return
        yield kept(
            "sessions", "Sessions", "sessions and volume", shape_distance(lengths[0], lengths[1]),
            "Largest distance between the distributions of records per user and day: 0 unchanged, at most 1.",
            better="lower", unit="distance", raw=0.0, chance=all_alike(lengths[0]), trials=len(context.users),
        )  # fmt: skip

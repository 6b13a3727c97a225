"""What a released click log is still good for, by the measures of Hong et al. (2012), section 6.

Pairs are compared by their support, their share of all clicks. `compare` matches two click tables by name; the other
functions take counts of the same pairs in the same order.

Departs from the paper: supports of the output are shares of what was really released, not of the wanted |O|, because
rounding changes the size.

>>> given, released = np.array([2, 4, 39, 1, 7]), np.array([0, 3, 20, 0, 4])
>>> round(support_distance(given, released, frequent=given > 0).total, 9)
0.113207547
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from queryveil.checks import real_number, require

Counts = npt.ArrayLike
Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

EDGES = np.linspace(0.0, 1.0, 11)
"""Bins of the DiffRatio histogram: tenths up to 1, then everything above."""


@dataclass(frozen=True)
class SupportDistance:
    """Σ |support released − support given| over the frequent pairs, and its average."""

    total: float
    average: float


@dataclass(frozen=True)
class ClickUtility:
    """How like the given log the released one is."""

    size: int
    precision: float
    """Share of the released frequent pairs that were frequent; nan where none is frequent in the release."""
    recall: float
    """Share of the given frequent pairs that still are; nan where none was."""
    support_distance: SupportDistance
    diversity: float
    """Share of the given pairs that are in the release at all."""


def supports(counts: Counts) -> Floats:
    """Each count as a share of all; 0 where there are none."""
    given = np.asarray(counts, dtype=np.float64)
    shares: Floats = given / max(given.sum(), 1.0)
    return shares


def is_frequent(counts: Counts, support: float) -> Flags:
    """Which pairs have at least the given share; a pair that does not occur never has."""
    given = np.asarray(counts)
    return (supports(given) >= support) & (given > 0)


def precision(given: Counts, released: Counts, support: float) -> float:
    """|S0 ∩ S| / |S|, S0 and S the frequent pairs of the given and the released log (eq. 9)."""
    before, after = is_frequent(given, support), is_frequent(released, support)
    return float((before & after).sum() / after.sum()) if after.any() else float("nan")


def recall(given: Counts, released: Counts, support: float) -> float:
    """|S0 ∩ S| / |S0| (eq. 9)."""
    before, after = is_frequent(given, support), is_frequent(released, support)
    return float((before & after).sum() / before.sum()) if before.any() else float("nan")


def support_distance(given: Counts, released: Counts, *, frequent: Flags) -> SupportDistance:
    """Sum and average of the distances of supports over some pairs (eq. 5), the same in whichever order they come."""
    distance = np.abs(supports(released) - supports(given))[frequent]
    total = math.fsum(distance)  # a plain sum of floats depends on the order, and a grouping has none
    return SupportDistance(total, total / len(distance) if len(distance) else float("nan"))


def diversity(released: Counts) -> float:
    """Share of the pairs that occur at all (section 6.4)."""
    counts = np.asarray(released)
    return float((counts > 0).sum() / len(counts)) if len(counts) else float("nan")


def diff_ratio(given: Counts, released: Counts, *, given_size: int, released_size: int) -> Floats:
    """|x/|O| − c/|D|| / (c/|D|) for each triplet (query, url, user) of the given log (eq. 10)."""
    before = np.asarray(given, dtype=np.float64) / given_size
    after = np.asarray(released, dtype=np.float64) / max(released_size, 1)
    ratio: Floats = np.abs(after - before) / before
    return ratio


def diff_ratio_histogram(ratios: Floats) -> npt.NDArray[np.int64]:
    """How many triplets fall in each tenth up to 1, and above 1."""
    inside, _ = np.histogram(ratios[ratios <= 1.0], bins=EDGES)
    return np.append(inside, (ratios > 1.0).sum()).astype(np.int64)


def measure(given: Counts, released: Counts, *, support: float) -> ClickUtility:
    """All measures over counts of the same pairs."""
    require(real_number("support", support, above=0, at_most=1, suggest=0.002))
    return ClickUtility(
        size=int(np.asarray(released).sum()),
        precision=precision(given, released, support),
        recall=recall(given, released, support),
        support_distance=support_distance(given, released, frequent=is_frequent(given, support)),
        diversity=diversity(np.asarray(released)[np.asarray(given) > 0]),
    )


def compare(given: pl.DataFrame, released: pl.DataFrame, *, support: float) -> ClickUtility:
    """All measures over two tables with columns query, url, count, as `QueryLog.clicks()` gives them."""
    sums = [
        table.group_by("query", "url").agg(pl.col("count").sum().alias(name))
        for table, name in ((given, "given"), (released, "released"))
    ]
    both = sums[0].join(sums[1], on=["query", "url"], how="full", coalesce=True).fill_null(0)
    return measure(both["given"].to_numpy(), both["released"].to_numpy(), support=support)

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
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl

from queryveil.audit.both_logs import pair_counts
from queryveil.audit.context import AuditContext
from queryveil.audit.finding import (
    Found,
    LeftOut,
    Success,
    kept,
)
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


FREQUENT = 100


class FrequentQueries:
    """Which queries, and which clicks, are most frequent."""

    key: ClassVar[str] = "query-frequency"
    title: ClassVar[str] = "Frequent queries and clicks"
    task: ClassVar[str] = "query frequency"
    counts_in_blocks: ClassVar[bool] = True

    def run(self, context: AuditContext) -> Found:
        """The findings, or what is missing."""
        yield from _frequent("query", "queries", context.text_counts)
        pairs = pair_counts(context.both, ["query", "url"])
        for side, where in (("given", "raw log"), ("released", "release")):
            if not pairs[side].sum():
                yield from _none_frequent("clicks", f"the {where} has no clicks")
                return
        yield from _frequent("click", "clicks", pairs)


def _frequent(key: str, what: str, counts: pl.DataFrame) -> Found:
    """Of things that are in so many records of either log (`text_counts`)."""
    given, released = (
        np.repeat(counts[name].to_numpy(), counts["number"].to_numpy()) for name in ("given", "released")
    )
    wanted = min(FREQUENT, int((given > 0).sum()))
    if not wanted:
        yield from _none_frequent(what, "the raw log has none")
        return
    support = float(np.sort(supports(given))[-wanted])
    frequent, still = is_frequent(given, support), is_frequent(released, support)
    both, published = int((frequent & still).sum()), int((released > 0).sum())
    for name, of, told in (
        ("recall", int(frequent.sum()), f"Share of the raw log's most frequent {what} still as frequent"),
        ("precision", int(still.sum()), f"Share of the {what} so frequent in the release that were so in the raw log"),
    ):
        if not of:
            yield LeftOut(title=f"Frequent {what}: {name}", reason="nothing is so frequent in the release")
            continue
        yield kept(
            f"frequent-{key}-{name}", f"Frequent {what}: {name}", "query frequency", both / of,
            f"{told}.", interval=Success(both, of).interval(), raw=1.0, trials=of, published=published,
            chance=int(frequent.sum()) / len(given),
            detail=f"The {wanted} most frequent: at least {support:.3g} of all.",
        )  # fmt: skip
    yield kept(
        f"frequent-{key}-distance", f"Frequent {what}: distance of shares", "query frequency",
        support_distance(given, released, frequent=frequent).total,
        f"Sum over the raw log's most frequent {what} of how far their share moved; 0 is unchanged, at most "
        "2. Counted, not sampled.", better="lower", unit="distance", raw=0.0, trials=int(frequent.sum()),
        published=published, chance=support_distance(given, np.ones_like(given), frequent=frequent).total,
    )  # fmt: skip


def _none_frequent(what: str, reason: str) -> Found:
    """One by one, as the figures: that they are missing for this reason or another must not show in public."""
    for name in ("recall", "precision", "distance of shares"):
        yield LeftOut(title=f"Frequent {what}: {name}", reason=reason)

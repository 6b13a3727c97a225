"""The randomised part of the paper's procedure: multinomial sampling of users, and the optional Laplace step.

For every pair, x_ij times, a user is drawn with probability c_ijk / c_ij: a uniform whole number below c_ij falls on
one of the pair's clicks, so the law is exact and the sampled totals equal x.

The Laplace step as printed (section 4.2): solve with and without each user; delete every user whose absence moves some
count by more than d; solve again; add Lap(d/ε′) to each count. The paper calls this end-to-end private. It is not: d
bounds each count, not their sum; which pairs exist is not hidden; who is deleted depends on the data. The noise here is
discrete, negative counts become 0, and users whose constraint the noise breaks are reported, not repaired.

The pre-pass compares fractional optima, with some room for the solver's tolerance. D-UMP has none; there the corrected
elimination is run on every neighbour instead. `neighbours.py` has the n + 1 programs.

>>> from queryveil.mechanisms.sanitize.counts import ClickCounts
>>> counts = ClickCounts.from_matrix([[2, 0], [5, 1], [0, 3]])
>>> drawn = sample_users(counts, np.array([0, 7]), Noise.seeded(1).stream("users"))
>>> sorted(set(drawn.user.tolist())), drawn.count.sum().item()
([1, 2], 7)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import polars as pl

from queryveil.arrays import Flags, Floats, Longs
from queryveil.mechanisms.sanitize.constraints import Constraints
from queryveil.mechanisms.sanitize.counts import ClickCounts
from queryveil.mechanisms.sanitize.neighbours import NeighbourPrograms
from queryveil.privacy import Noise
from queryveil.privacy.noise import Stream
from queryveil.progress import each

Without = Callable[[int | None], Floats | None]
"""Output counts without a user, over the whole log's pairs; with everybody for None. None where no solution exists."""

TOLERANCE = 1e-6


@dataclass(frozen=True)
class Drawn:
    """Sampled clicks: user, pair, and how often."""

    user: Longs
    pair: Longs
    count: Longs

    def rows_of(self, counts: ClickCounts) -> pl.DataFrame:
        """`user, query, url` by the names of the counts drawn from; one row for each click."""
        rows = np.repeat(np.arange(len(self.count)), self.count)
        users = counts.user_names.gather(self.user[rows]).alias("user")
        return counts.pair_names[self.pair[rows]].select(users, "query", "url")


@dataclass(frozen=True)
class NoisyCounts:
    """What the Laplace step leaves: the log without deleted users, noisy counts, and whose constraint they break."""

    counts: ClickCounts
    x: Longs
    deleted: int
    broken: int


def sample_users(counts: ClickCounts, x: Longs, stream: Stream) -> Drawn:
    """x_ij multinomial trials for each pair over the users who hold it."""
    totals = counts.totals()
    if (x[totals == 0] > 0).any():
        raise ValueError("a pair without clicks cannot be sampled.")
    pair = np.repeat(np.arange(counts.pairs), x)
    upper = np.cumsum(counts.count)  # entries are sorted by pair: a pair's clicks lie together
    before = np.cumsum(totals) - totals
    click = before[pair] + stream.below(totals[pair]) if len(pair) else pair
    entry = np.searchsorted(upper, click, side="right")
    drawn, count = np.unique(entry, return_counts=True)
    return Drawn(counts.user[drawn], counts.pair[drawn], count.astype(np.int64))


def probability_of_appearing(constraints: Constraints, x: Longs) -> Floats:
    """1 − Π (1 − c_ijk/c_ij)^x_ij for each user: that they appear at all."""
    appearing: Floats = -np.expm1(-constraints.loads(x))
    return appearing


def with_laplace(
    constraints: Constraints,
    solver: Callable[[Constraints], Longs],
    without: Without,
    noise: Noise,
    *,
    d: float,
    epsilon: float,
) -> NoisyCounts:
    """The Laplace step as printed: `without` answers for the neighbours, `solver` for the log that is left."""
    far = far_neighbours(constraints, without, d=d)
    counts = constraints.counts.without_users(far)
    if not counts.pairs:
        return NoisyCounts(counts, np.zeros(0, dtype=np.int64), int(far.sum()), 0)
    left = Constraints.of(counts, constraints.limit)
    blur = noise.stream("sanitize: laplace step").discrete_laplace(Fraction(d) / Fraction(epsilon), counts.pairs)
    x = np.maximum(solver(left) + blur, 0)
    broken = len(left.breaches(x))
    return NoisyCounts(counts, x, int(far.sum()), broken)


def far_neighbours(constraints: Constraints, without: Without, *, d: float) -> Flags:
    """Which users' absence moves some output count by more than d."""
    users = constraints.counts.users
    here = without(None)
    assert here is not None
    far = np.zeros(users, dtype=np.bool_)
    for user in each("solving without each user", range(users)):
        there = without(user)
        far[user] = there is None or np.abs(here - there).max(initial=0.0) > d + TOLERANCE
    return far


def by_programs(programs: NeighbourPrograms) -> Without:
    """Answers from linear programs."""
    return lambda user: programs.whole() if user is None else programs.without(user)


def by_solver(constraints: Constraints, solver: Callable[[Constraints], Longs]) -> Without:
    """Answers from any solver, run anew on each neighbour."""
    counts = constraints.counts

    def without(user: int | None) -> Floats | None:
        if user is None:
            return solver(constraints).astype(np.float64)
        neighbour = counts.without_user(user)
        x = np.zeros(counts.pairs)
        if len(neighbour.user):
            pairs, pair = np.unique(neighbour.pair, return_inverse=True)
            names = neighbour.pair_names[pairs.tolist()]
            smaller = ClickCounts(neighbour.user, pair.astype(np.int64), neighbour.count, neighbour.user_names, names)
            x[pairs] = solver(Constraints.of(smaller, constraints.limit))
        return x

    return without

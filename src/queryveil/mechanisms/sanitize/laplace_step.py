"""The optional Laplace step of the paper (section 4.2), and the programs without one user that it solves.

As printed: solve with and without each user; delete every user whose absence moves some count by more than d; solve
again; add Lap(d/ε′) to each count. The paper calls this end-to-end private. It is not: d bounds each count, not their
sum; which pairs exist is not hidden; who is deleted depends on the data. The noise here is discrete, negative counts
become 0, and users whose constraint the noise breaks are reported, not repaired. The pre-pass compares fractional
optima, with some room for the solver's tolerance. D-UMP has none; there the corrected elimination is run on every
neighbour instead.

For the others there are n + 1 linear programs, each started from the optimum of the whole log.
Without user k only the columns of k's pairs change (a pair of total c and others' counts c_l weighs
ln(1 + c_l / (c − c_k − c_l)) for l; a pair that only one user is left with disappears), k's row becomes empty, and for
F-UMP the supports move a little. The optimal basis of the whole log is a few pivots from the neighbour's, so the
simplex takes a fraction of what a solve from nothing takes (see benchmarks/sanitize.py).

>>> counts = ClickCounts.from_matrix([[4, 1, 6], [3, 1, 6], [3, 1, 6], [2, 1, 6]])
>>> programs = NeighbourPrograms(Constraints.of(counts, 0.9), size_segments)
>>> round(float(programs.whole().sum()), 6), [round(float(programs.without(k).sum()), 3) for k in range(4)]
(3.128454, [2.22, 2.22, 2.22, 2.22])
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy import sparse

from queryveil.arrays import Flags, Floats, Longs
from queryveil.errors import DataError
from queryveil.mechanisms.sanitize.constraints import Constraints
from queryveil.mechanisms.sanitize.counts import ClickCounts
from queryveil.mechanisms.sanitize.linear import Segment, highs_program
from queryveil.privacy import Noise
from queryveil.progress import each

Segments = Callable[[ClickCounts], list[Segment]]
"""What is maximised on a log: the segments of every pair, as in `linear.py`. The last may be of any length."""

Without = Callable[[int | None], Floats | None]
"""Output counts without a user, over the whole log's pairs; with everybody for None. None where no solution exists."""

TOLERANCE = 1e-6


@dataclass(frozen=True)
class NoisyCounts:
    """What the Laplace step leaves: the log without deleted users, noisy counts, and whose constraint they break."""

    counts: ClickCounts
    x: Longs
    deleted: int
    broken: int


def size_segments(counts: ClickCounts) -> list[Segment]:
    """O-UMP."""
    return [Segment(np.full(counts.pairs, math.inf), np.ones(counts.pairs))]


def support_segments(size: int, support: float) -> Segments:
    """F-UMP for an output of `size`."""

    def segments(counts: ClickCounts) -> list[Segment]:
        supports = counts.supports()
        gain = np.where(supports >= support, 1.0 / size, 0.0)
        return [Segment(supports * size, gain), Segment(np.full(counts.pairs, math.inf), -gain)]

    return segments


class NeighbourPrograms:
    """One linear program that is changed, solved, and changed back."""

    def __init__(self, constraints: Constraints, segments: Segments, *, size: int | None = None) -> None:
        self._constraints, self._segments = constraints, segments
        counts = constraints.counts
        self._starts = np.searchsorted(counts.pair, np.arange(counts.pairs + 1))
        self._totals, self._holders = counts.totals(), counts.holders()
        self._weights = constraints.weight / constraints.limit
        self._stretches = self._now = segments(counts)
        rows = [sparse.csc_array(constraints.by_user / constraints.limit)] * len(self._stretches)
        matrix = sparse.hstack(rows)
        lower, upper = np.full(counts.users, -math.inf), np.ones(counts.users)
        if size is not None:
            matrix = sparse.vstack([matrix, sparse.csc_array(np.ones((1, matrix.shape[1])))])
            lower, upper = np.append(lower, float(size)), np.append(upper, float(size))
        gain = np.concatenate([stretch.gain for stretch in self._stretches])
        length = np.concatenate([stretch.length for stretch in self._stretches])
        # Presolve would throw away the basis that the next program starts from.
        settings = {"solver": "simplex", "presolve": "off"}
        self._solver = highs_program(sparse.csc_array(matrix), -gain, length, (lower, upper), settings)

    def whole(self) -> Floats:
        """The optimum on the whole log."""
        x = self._solve()
        if x is None:
            raise DataError("the linear program has no solution: the wanted size does not fit the constraints.")
        return x

    def without(self, user: int) -> Floats | None:
        """The optimum without a user (0 for pairs that are gone), or None where the wanted size no longer fits."""
        counts = self._constraints.counts
        changed: list[int] = []
        gone: list[int] = []
        for entry in self._constraints.entries_of(user).tolist():
            pair = int(counts.pair[entry])
            if self._holders[pair] == 2:
                gone.append(pair)
                continue
            rest = int(self._totals[pair] - counts.count[entry])
            for other in range(self._starts[pair], self._starts[pair + 1]):
                count = int(counts.count[other])
                weight = math.log1p(count / (rest - count)) / self._constraints.limit if other != entry else 0.0
                self._set_weight(other, weight)
                changed.append(other)
        self._stretch(self._stretches_without(user, gone))
        x = self._solve()
        for entry in changed:
            self._set_weight(entry, float(self._weights[entry]))
        self._stretch(self._stretches)
        return x

    def _stretches_without(self, user: int, gone: list[int]) -> list[Segment]:
        stretches = self._segments(self._constraints.counts.without_user(user))
        for stretch in stretches:
            stretch.length[gone] = 0.0
        return stretches

    def _set_weight(self, entry: int, weight: float) -> None:
        counts = self._constraints.counts
        for stretch in range(len(self._stretches)):
            column = stretch * counts.pairs + int(counts.pair[entry])
            self._solver.changeCoeff(int(counts.user[entry]), column, weight)

    def _stretch(self, wanted: list[Segment]) -> None:
        """Set lengths and gains, touching only what differs from what is set."""
        pairs = self._constraints.counts.pairs
        for place, (now, then) in enumerate(zip(self._now, wanted, strict=True)):
            for pair in _different(now.length, then.length).tolist():
                self._solver.changeColBounds(place * pairs + pair, 0.0, float(then.length[pair]))
            for pair in _different(now.gain, then.gain).tolist():
                self._solver.changeColCost(place * pairs + pair, -float(then.gain[pair]))
        self._now = wanted

    def _solve(self) -> Floats | None:
        self._solver.run()
        if self._solver.modelStatusToString(self._solver.getModelStatus()) != "Optimal":
            return None
        amounts: Floats = np.array(self._solver.getSolution().col_value).reshape(len(self._stretches), -1).sum(axis=0)
        return np.asarray(np.maximum(amounts, 0.0), np.float64)


def _different(now: Floats, then: Floats) -> Longs:
    return np.flatnonzero(now != then).astype(np.int64)


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

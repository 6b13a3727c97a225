"""The same program without one user, for every user: n + 1 solves, each started from the optimum of the whole log.

Without user k only the columns of k's pairs change (a pair of total c and others' counts c_l weighs
ln(1 + c_l / (c − c_k − c_l)) for l; a pair that only one user is left with disappears), k's row becomes empty, and for
F-UMP the supports move a little. The optimal basis of the whole log is a few pivots from the neighbour's, so OR-Tools'
GLOP takes a fiftieth of a second where a solve from nothing takes a fifth (see benchmarks/sanitize.py).

>>> counts = ClickCounts.from_matrix([[4, 1, 6], [3, 1, 6], [3, 1, 6], [2, 1, 6]])
>>> programs = NeighbourPrograms(Constraints.of(counts, 0.9), size_segments)
>>> round(float(programs.whole().sum()), 6), [round(float(programs.without(k).sum()), 3) for k in range(4)]
(3.128454, [2.22, 2.22, 2.22, 2.22])
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from queryveil.arrays import Floats, Longs
from queryveil.errors import DataError
from queryveil.mechanisms.sanitize.constraints import Constraints
from queryveil.mechanisms.sanitize.counts import ClickCounts
from queryveil.mechanisms.sanitize.linear import Segment

Segments = Callable[[ClickCounts], list[Segment]]
"""What is maximised on a log: the segments of every pair, as in `linear.py`. The last may be of any length."""


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
        from ortools.linear_solver import pywraplp

        self._constraints, self._segments = constraints, segments
        counts = constraints.counts
        self._starts = np.searchsorted(counts.pair, np.arange(counts.pairs + 1))
        self._totals, self._holders = counts.totals(), counts.holders()
        self._solver = pywraplp.Solver.CreateSolver("GLOP")
        self._solver.SetSolverSpecificParametersAsString("use_dual_simplex: true")
        self._settings = pywraplp.MPSolverParameters()
        self._settings.SetIntegerParam(self._settings.INCREMENTALITY, self._settings.INCREMENTALITY_ON)
        self._settings.SetIntegerParam(self._settings.PRESOLVE, self._settings.PRESOLVE_OFF)
        infinity = self._solver.infinity()
        self._stretches = segments(counts)
        self._columns = [[self._solver.NumVar(0, infinity, "") for _ in range(counts.pairs)] for _ in self._stretches]
        self._rows = [self._solver.Constraint(-infinity, 1.0) for _ in range(counts.users)]
        self._weights = constraints.weight / constraints.limit
        for entry in range(len(counts.pair)):
            self._set_weight(entry, float(self._weights[entry]))
        if size is not None:
            total = self._solver.Constraint(float(size), float(size))
            for column in self._columns:
                for variable in column:
                    total.SetCoefficient(variable, 1.0)
        self._objective = self._solver.Objective()
        self._objective.SetMaximization()
        self._now = [Segment(np.full(counts.pairs, math.inf), np.zeros(counts.pairs)) for _ in self._stretches]
        self._stretch(self._stretches)

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
        row, pair = self._rows[int(counts.user[entry])], int(counts.pair[entry])
        for column in self._columns:
            row.SetCoefficient(column[pair], weight)

    def _stretch(self, wanted: list[Segment]) -> None:
        """Set lengths and gains, touching only what differs from what is set."""
        for column, now, then in zip(self._columns, self._now, wanted, strict=True):
            for pair in _different(now.length, then.length).tolist():
                column[pair].SetUb(float(then.length[pair]))
            for pair in _different(now.gain, then.gain).tolist():
                self._objective.SetCoefficient(column[pair], float(then.gain[pair]))
        self._now = wanted

    def _solve(self) -> Floats | None:
        if self._solver.Solve(self._settings) != self._solver.OPTIMAL:
            return None
        amounts = np.zeros(self._constraints.counts.pairs)
        for column in self._columns:
            amounts += np.fromiter((variable.solution_value() for variable in column), np.float64, len(column))
        return np.maximum(amounts, 0.0)


def _different(now: Floats, then: Floats) -> Longs:
    return np.flatnonzero(now != then).astype(np.int64)

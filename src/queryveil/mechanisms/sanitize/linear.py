"""Linear programs over the privacy constraints, solved to a proven gap.

All programs of this mechanism have one shape: every pair's count is a sum of segments, each with a length and a gain
per unit; the gains are added up, the users' constraints hold, and the size may be fixed. With the segments

- one of gain 1: O-UMP (greatest size),
- one of length 1 and gain 1: the relaxation of D-UMP (greatest diversity),
- one of length |O|·support and gain 1/|O|, and one behind it of gain −1/|O|: F-UMP (supports kept), the size fixed,
- sums of these: the joint objective.

Small and middle programs go to HiGHS's interior point (SciPy), large ones to its PDLP (highspy), whose raw answer
breaks constraints by about 1e-3. Whatever a solver returns is made strictly feasible: a pair is divided by the worst
excess among its users. The value counted is that of the repaired solution. The bound is Lagrange's, from the solver's
prices of the constraints and true for any prices ≥ 0: Σ b·price + Σ length · max(0, gain − price of the pair).

>>> from queryveil.mechanisms.sanitize.counts import ClickCounts
>>> answer = greatest_size(Constraints.of(ClickCounts.from_matrix([[1, 2], [1, 1]]), 0.9))
>>> bool(answer.value <= answer.bound), answer.gap < 1e-9, answer.solver
(True, True, 'HiGHS interior point')
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from queryveil.arrays import Floats
from queryveil.errors import DataError
from queryveil.mechanisms.sanitize.constraints import Constraints
from queryveil.progress import tell

LARGEST_FOR_HIGHS = 100_000
"""Entries of the matrix up to which HiGHS is used; beyond, PDLP is faster (see benchmarks/sanitize.py)."""

PDLP_TOLERANCE = 5e-5
PDLP_SECONDS = 600.0


@dataclass(frozen=True)
class Segment:
    """A stretch of every pair's count: how long it is and what one unit of it gains, pair by pair."""

    length: Floats
    gain: Floats


@dataclass(frozen=True)
class LinearAnswer:
    """A strictly feasible fractional solution, its value, and a bound that no solution exceeds."""

    x: Floats
    value: float
    bound: float
    prices: Floats
    """What a unit of each user's limit is worth."""
    solver: str
    seconds: float

    @property
    def gap(self) -> float:
        """(bound − value) / |value|: how far from the optimum the solution can be at most."""
        return max(0.0, self.bound - self.value) / max(abs(self.value), 1e-300)


def greatest_size(constraints: Constraints) -> LinearAnswer:
    """O-UMP's relaxation: the greatest Σx."""
    ones = np.ones(constraints.counts.pairs)
    return solve(constraints, [Segment(longest(constraints), ones)])


def longest(constraints: Constraints) -> Floats:
    """The largest count each pair can have by itself: b / max ln t."""
    heaviest = np.zeros(constraints.counts.pairs)
    np.maximum.at(heaviest, constraints.counts.pair, constraints.weight)
    with np.errstate(divide="ignore"):
        return np.where(heaviest > 0, constraints.limit / heaviest, 0.0)


def solve(
    constraints: Constraints,
    segments: Sequence[Segment],
    *,
    size: float | None = None,
    largest_for_highs: int = LARGEST_FOR_HIGHS,
) -> LinearAnswer:
    """The greatest gain; `size` fixes the sum of all counts."""
    matrix = sparse.csc_array(constraints.by_user / constraints.limit)  # right sides become 1
    answer = pack(matrix, segments, size=size, largest_for_highs=largest_for_highs)
    return replace(answer, prices=answer.prices / constraints.limit)


def pack(
    matrix: sparse.csc_array,
    segments: Sequence[Segment],
    *,
    size: float | None = None,
    largest_for_highs: int = LARGEST_FOR_HIGHS,
) -> LinearAnswer:
    """The same over any matrix of non-negative weights, with 1 as the limit of every row."""
    started = time.perf_counter()
    stacked = sparse.csc_array(sparse.hstack([matrix] * len(segments)))
    gain = np.concatenate([segment.gain for segment in segments])
    length = np.concatenate([segment.length for segment in segments])
    tell("solving a linear program", 0)
    if stacked.nnz <= largest_for_highs:
        solver, (amounts, prices, size_price) = "HiGHS interior point", _highs(stacked, gain, length, size)
    else:
        solver, (amounts, prices, size_price) = "PDLP", _pdlp(stacked, gain, length, size)
    tell("solving a linear program", 1)
    amounts = _repaired(stacked, np.clip(amounts, 0.0, length))
    prices = np.maximum(prices, 0.0)
    if size is None and len(segments) == 1:
        prices = _cheaper_bound(matrix, gain, length, prices)
    return LinearAnswer(
        x=amounts.reshape(len(segments), -1).sum(axis=0),
        value=float(gain @ amounts),
        bound=_bound(stacked, gain, length, prices, size_price, size),
        prices=prices,
        solver=solver,
        seconds=time.perf_counter() - started,
    )


def _highs(matrix: sparse.csc_array, gain: Floats, length: Floats, size: float | None) -> tuple[Floats, Floats, float]:
    from scipy.optimize import linprog

    result = linprog(  # type: ignore[call-overload]  # its stubs know neither sparse matrices nor arrays of bounds
        -gain,
        A_ub=matrix,
        b_ub=np.ones(matrix.shape[0]),
        A_eq=None if size is None else np.ones((1, matrix.shape[1])),
        b_eq=None if size is None else [size],
        bounds=np.column_stack([np.zeros_like(length), length]),
        method="highs-ipm",
    )
    if result.status != 0:
        raise DataError("the linear program has no solution: the wanted size does not fit the privacy constraints.")
    size_price = -float(result.eqlin.marginals[0]) if size is not None else 0.0
    return result.x, -result.ineqlin.marginals, size_price


def _pdlp(matrix: sparse.csc_array, gain: Floats, length: Floats, size: float | None) -> tuple[Floats, Floats, float]:
    rows, columns = matrix.shape
    upper, lower = np.ones(rows), np.full(rows, -np.inf)
    if size is not None:  # a row of its own, scaled like the others
        matrix = sparse.csc_array(sparse.vstack([matrix, sparse.csc_array(np.full((1, columns), 1 / size))]))
        upper, lower = np.append(upper, 1.0), np.append(lower, 1.0)
    settings = {"solver": "hipdlp", "time_limit": PDLP_SECONDS, "pdlp_optimality_tolerance": PDLP_TOLERANCE}
    solver = highs_program(matrix, -gain, length, (lower, upper), settings)
    solver.run()
    result = solver.getSolution()
    prices = -np.array(result.row_dual)
    size_price = float(prices[-1]) / size if size is not None else 0.0
    return np.array(result.col_value), prices[:rows], size_price


def highs_program(
    matrix: sparse.csc_array, cost: Floats, length: Floats, rows: tuple[Floats, Floats], settings: dict[str, Any]
) -> Any:
    """HiGHS with a program to minimise: columns from 0 to their lengths, rows between two bounds."""
    import highspy

    program = highspy.HighsLp()
    program.num_row_, program.num_col_ = matrix.shape
    program.col_cost_, program.col_lower_, program.col_upper_ = cost, np.zeros(len(cost)), length
    program.row_lower_, program.row_upper_ = rows
    program.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    program.a_matrix_.start_, program.a_matrix_.index_ = matrix.indptr, matrix.indices
    program.a_matrix_.value_ = matrix.data
    solver = highspy.Highs()
    solver.silent()
    for name, value in settings.items():
        solver.setOptionValue(name, value)
    solver.passModel(program)
    return solver


def _repaired(matrix: sparse.csc_array, amounts: Floats) -> Floats:
    """Every column divided by the worst excess among its rows: strictly feasible, and little is lost."""
    excess = np.maximum(matrix @ amounts, 1.0)
    worst = np.ones(matrix.shape[1])
    entries = sparse.coo_array(matrix)
    np.maximum.at(worst, entries.col, excess[entries.row])
    return amounts / (worst * (1 + 1e-12))


def _cheaper_bound(matrix: sparse.csc_array, gain: Floats, length: Floats, prices: Floats) -> Floats:
    """Prices raised by rows until every pair is paid for, where that gives the smaller bound."""
    paid = matrix.T @ prices
    factor = np.maximum(gain / np.maximum(paid, 1e-300), 1.0)
    raise_by = np.ones(matrix.shape[0])
    entries = sparse.coo_array(matrix)
    np.maximum.at(raise_by, entries.row, np.where(length[entries.col] > 0, factor[entries.col], 1.0))
    raised = prices * raise_by
    as_it_is = _bound(matrix, gain, length, prices, 0.0, None)
    return raised if _bound(matrix, gain, length, raised, 0.0, None) < as_it_is else prices


def _bound(
    matrix: sparse.csc_array, gain: Floats, length: Floats, prices: Floats, size_price: float, size: float | None
) -> float:
    left_over = np.maximum(gain - matrix.T @ prices - size_price, 0.0)
    bound = prices.sum() + float((left_over * length).sum()) + (size_price * size if size is not None else 0.0)
    return float(bound + 1e-12 * (abs(bound) + prices.sum()))

"""Toy logs of sanitize, and slow twins."""

import itertools
import math

import numpy as np
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from queryveil.mechanisms.sanitize import linear, objectives
from queryveil.mechanisms.sanitize.counts import ClickCounts
from vectors.sanitize import EXAMPLE_E, FIGURE_1

LN2 = math.log(2)


def figure_1() -> ClickCounts:
    return ClickCounts.from_matrix(FIGURE_1).without_unique_pairs()


def example_e() -> ClickCounts:
    return ClickCounts.from_matrix(EXAMPLE_E)


@st.composite
def shared_counts(draw, users=6, pairs=6):
    """Random small logs in which every pair has at least two users."""
    rows, columns = draw(st.integers(2, users)), draw(st.integers(1, pairs))
    cells = draw(st.lists(st.integers(0, 5), min_size=rows * columns, max_size=rows * columns))
    matrix = np.array(cells).reshape(rows, columns)
    for column in range(columns):
        if (matrix[:, column] > 0).sum() < 2:
            matrix[:2, column] = 1
    return ClickCounts.from_matrix(matrix)


def weights_by_hand(matrix) -> np.ndarray:
    """ln t from the definition."""
    counts = np.array(matrix, dtype=float)
    total = counts.sum(axis=0)
    return np.where(counts > 0, np.log(total / np.where(total > counts, total - counts, np.nan)), 0.0)


def largest_whole(weights: np.ndarray, limit: float, most: int) -> int:
    """The greatest Σx over whole x by trying all."""
    best = 0
    for x in itertools.product(range(most + 1), repeat=weights.shape[1]):
        if (weights @ np.array(x) <= limit + 1e-12).all():
            best = max(best, sum(x))
    return best


def most_distinct(weights: np.ndarray, limit: float) -> int:
    """The most pairs by trying all."""
    return largest_whole(weights, limit, 1)


def exact_size(constraints):
    """O-UMP's whole-number optimum by branch and bound."""
    result = milp(
        -np.ones(constraints.counts.pairs),
        constraints=LinearConstraint(constraints.by_user, -np.inf, constraints.limit * (1 + 1e-9)),
        integrality=np.ones(constraints.counts.pairs, dtype=np.int64),
        bounds=Bounds(0, np.floor(linear.longest(constraints) + 1e-9)),
        options={"time_limit": 60.0},
    )
    return constraints.within(np.rint(result.x).astype(np.int64))


def joint_value(counts, x, *, size, support, size_weight=1.0, support_weight=1.0, diversity_weight=1.0):
    """What `objectives.joint` maximises, at any counts."""
    given = np.asarray(x, dtype=np.float64)
    frequent = objectives.frequent_pairs(counts, support)
    distance = np.abs(given / size - counts.supports())[frequent].sum()
    diversity = np.minimum(given, 1.0).sum() / counts.pairs
    return float(size_weight * given.sum() / size - support_weight * distance + diversity_weight * diversity)


def probability_of_appearing(constraints, x):
    """1 − Π (1 − c_ijk/c_ij)^x_ij for each user: that they appear at all."""
    return -np.expm1(-constraints.loads(x))

"""The randomised part of the paper's procedure: multinomial sampling of users, and the optional Laplace step.

For every pair, x_ij times, a user is drawn with probability c_ijk / c_ij: a uniform whole number below c_ij falls on one
of the pair's clicks, so the law is exact and the sampled totals equal x.

The Laplace step as printed (section 4.2): solve with and without each user; delete every user whose absence moves some
count by more than d; solve again; add Lap(d/ε′) to each count. The paper calls this end-to-end private. It is not: d
bounds each count, not their sum; which pairs exist is not hidden; who is deleted depends on the data. The noise here is
discrete, negative counts become 0, and users whose constraint the noise breaks are reported, not repaired.

The pre-pass needs n + 1 programs. `Neighbours` solves the first and then looks, user by user, whether its solution is
still optimal without the user: it is feasible (weights of a pair only grow when a holder leaves, so this is looked at),
and the old prices, none of which is the leaver's, still pay for every pair. Then nothing moves and no program is solved.
Most users are not on the optimal basis, so most programs need no solving.

>>> from queryveil.mechanisms.sanitize.counts import ClickCounts
>>> counts = ClickCounts.from_matrix([[2, 0], [5, 1], [0, 3]])
>>> drawn = sample_users(counts, np.array([0, 7]), Noise.seeded(1))
>>> sorted(set(drawn.user.tolist())), drawn.count.sum().item()
([1, 2], 7)
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from scipy import sparse

from queryveil.mechanisms.sanitize import linear
from queryveil.mechanisms.sanitize.constraints import Constraints
from queryveil.mechanisms.sanitize.counts import ClickCounts, Flags, Integers
from queryveil.mechanisms.sanitize.linear import LinearAnswer
from queryveil.privacy import Noise

log = logging.getLogger(__name__)

Solver = Callable[[Constraints], Integers]
"""From constraints to whole output counts: the objective that was picked."""

REPORT_EVERY = 200


@dataclass(frozen=True)
class Drawn:
    """Sampled clicks: user, pair, and how often."""

    user: Integers
    pair: Integers
    count: Integers


@dataclass(frozen=True)
class NoisyCounts:
    """What the Laplace step leaves: the log without deleted users, noisy counts, and whose constraint they break."""

    counts: ClickCounts
    x: Integers
    deleted: int
    broken: int
    solved: int
    """How many of the n neighbours needed a program of their own."""


def sample_users(counts: ClickCounts, x: Integers, noise: Noise) -> Drawn:
    """x_ij multinomial trials for each pair over the users who hold it."""
    totals = counts.totals()
    if (x[totals == 0] > 0).any():
        raise ValueError("a pair without clicks cannot be sampled.")
    pair = np.repeat(np.arange(counts.pairs), x)
    upper = np.cumsum(counts.count)  # entries are sorted by pair: a pair's clicks lie together
    before = np.cumsum(totals) - totals
    click = before[pair] + noise.stream("sanitize: user sampling").below(totals[pair]) if len(pair) else pair
    entry = np.searchsorted(upper, click, side="right")
    drawn, count = np.unique(entry, return_counts=True)
    return Drawn(counts.user[drawn], counts.pair[drawn], count.astype(np.int64))


def probability_of_appearing(constraints: Constraints, x: Integers) -> np.ndarray:
    """1 − Π (1 − c_ijk/c_ij)^x_ij for each user: that they appear at all."""
    return -np.expm1(-constraints.loads(x))


def with_laplace(
    constraints: Constraints, solver: Solver, noise: Noise, *, d: float, epsilon: float, relaxed: bool
) -> NoisyCounts:
    """The Laplace step as printed. `relaxed`: the solver's counts come from O-UMP's linear program, so that neighbours
    on which it does not change are recognised without solving."""
    far, solved = far_neighbours(constraints, solver, d=d, relaxed=relaxed)
    counts = constraints.counts.without_users(far)
    if not counts.pairs:
        return NoisyCounts(counts, np.zeros(0, dtype=np.int64), int(far.sum()), 0, solved)
    left = Constraints.of(counts, constraints.limit)
    scale = Fraction(d) / Fraction(epsilon)
    blur = noise.stream("sanitize: laplace step").discrete_laplace(scale, counts.pairs)
    x = np.maximum(solver(left) + blur, 0)
    broken = len(left.breaches(x))
    log.info("laplace step: %d users deleted, %d constraints broken by the noise", far.sum(), broken)
    return NoisyCounts(counts, x, int(far.sum()), broken, solved)


def far_neighbours(
    constraints: Constraints, solver: Solver, *, d: float, relaxed: bool
) -> tuple[Flags, int]:
    """Which users' absence moves some output count by more than d, and how many programs that took."""
    counts = constraints.counts
    here = solver(constraints)
    unchanged = _unchanged_without(constraints, linear.greatest_size(constraints)) if relaxed else None
    far = np.zeros(counts.users, dtype=np.bool_)
    solved = 0
    for user in range(counts.users):
        if unchanged is not None and unchanged[user]:
            continue
        neighbour = counts.without_user(user)
        there = np.zeros(counts.pairs, dtype=np.int64)
        if len(neighbour.user):
            pairs, compact = np.unique(neighbour.pair, return_inverse=True)
            smaller = ClickCounts(
                neighbour.user,
                compact.astype(np.int64),
                neighbour.count,
                neighbour.user_names,
                neighbour.pair_names[pairs.tolist()],
            )
            there[pairs] = solver(Constraints.of(smaller, constraints.limit))
        far[user] = np.abs(here - there).max(initial=0) > d
        solved += 1
        if solved % REPORT_EVERY == 0:
            log.info("laplace step: %d neighbours solved, user %d of %d", solved, user + 1, counts.users)
    return far, solved


def _unchanged_without(constraints: Constraints, answer: LinearAnswer) -> Flags:
    """Users without whom O-UMP's solution stays optimal: still feasible, and the old prices still pay for every pair.

    Without user k a pair of total c and others' counts c_l weighs ln(1 + c_l/(c − c_k − c_l)) for l. Both conditions
    are looked at on the pairs of k alone; the other columns are as they were.
    """
    counts = constraints.counts
    totals, holders = counts.totals(), counts.holders()
    x, prices = answer.x, answer.prices
    unchanged = np.ones(counts.users, dtype=np.bool_)
    starts = np.searchsorted(counts.pair, np.arange(counts.pairs + 1))
    loads = constraints.loads(x)
    by_pair = sparse.csc_array(constraints.by_user)
    paid_enough = (by_pair.T @ prices) >= 1 - 1e-9
    for user in range(counts.users):
        mine = constraints.entries_of(user)
        extra: dict[int, float] = {}
        for entry in mine.tolist():
            pair, c_k = int(counts.pair[entry]), int(counts.count[entry])
            used = x[pair] > 1e-12
            if holders[pair] == 2:  # becomes unique and disappears
                if used:
                    unchanged[user] = False
                    break
                continue
            span = slice(starts[pair], starts[pair + 1])
            others = counts.user[span] != user
            rest = int(totals[pair]) - c_k
            c_l = counts.count[span][others]
            weight = np.log1p(c_l / (rest - c_l))
            if paid_enough[pair] and float(weight @ prices[counts.user[span][others]]) < 1 - 1e-9:
                unchanged[user] = False
                break
            if used:
                grown = x[pair] * (weight - constraints.weight[span][others])
                for holder, more in zip(counts.user[span][others].tolist(), grown.tolist(), strict=True):
                    extra[holder] = extra.get(holder, 0.0) + more
        if unchanged[user]:
            unchanged[user] = all(loads[k] + more <= constraints.limit * (1 + 1e-9) for k, more in extra.items())
            # The bound must be met without the leaver: their price was part of it.
            unchanged[user] &= bool(prices[user] * constraints.limit <= 1e-9 * max(answer.value, 1.0))
    return unchanged

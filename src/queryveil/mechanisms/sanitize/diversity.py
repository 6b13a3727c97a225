"""As many distinct pairs (or queries) as the privacy constraints allow: D-UMP of Hong et al. (2012), a binary program.

- `eliminate_as_printed`: the paper's heuristic SPE. It removes pairs by falling t until every constraint holds; it
  removes one even if none is broken, and pairs of users whose constraint holds. As the order never changes, one sort
  and one pass do it: O(nnz log nnz). Ties go by user, then pair.
- `eliminate`: corrected. It looks first, and takes the largest t among users whose constraint is broken. Users only
  ever leave that set, so again one sorted pass suffices.
- `most_diverse`: rounds the linear program, improves it by forced insertions under annealing (`_greedy_kernel.search`),
  hands the result to CP-SAT as a hint, and proves a bound meanwhile: by HiGHS's branch and cut in a second thread, by
  CP-SAT, and by the linear program with cuts. For a user with weights w and any k, Σ (⌈(k+1)·w/b⌉ − 1)·y ≤ k, because
  each term is less than its share of k + 1 and the sum is whole. The best of all counts, and says who found it.

Distinct queries instead of pairs (the paper's remark in 5.3): at most one pair of a query is of use, so each query
becomes one more constraint in which every pair weighs the whole limit.

>>> from queryveil.mechanisms.sanitize.counts import ClickCounts
>>> c = Constraints.of(ClickCounts.from_matrix([[4, 1, 6], [3, 1, 6], [3, 1, 6], [2, 1, 6]]), 1.2)
>>> [int(y.sum()) for y in (eliminate_as_printed(c), eliminate(c), most_diverse(c, Noise.seeded(1), seconds=1).y)]
[2, 3, 3]
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import sparse

from queryveil.mechanisms.sanitize.constraints import WEIGHT_UNIT, Constraints, Floats
from queryveil.mechanisms.sanitize.counts import Flags, Integers
from queryveil.mechanisms.sanitize.rounding import Layout
from queryveil.privacy import Noise
from queryveil.privacy.noise import Stream

log = logging.getLogger(__name__)

WORDS_A_ROUND = 1 << 16
PAIRS_A_ROUND = 12
HOTTEST, COLDEST = 0.25, 0.1
DEEPEST_CUT = 7
SEARCH_SHARE = 0.55
SPARE_SHARE = 0.07
"""Of the time given, kept back for what solvers do after their limit."""
COARSE_UNIT = 2**24
"""CP-SAT's whole weights are coarser, so that its sums stay small; rounded to the generous side, checked after."""


@dataclass(frozen=True)
class BinaryAnswer:
    """A feasible choice, exactly checked, with a bound that no choice exceeds and who found which."""

    y: Flags
    bound: int
    found_by: str
    bound_by: str
    seconds: float
    stages: dict[str, int] = field(default_factory=dict)
    """The number chosen after each stage."""

    @property
    def value(self) -> int:
        """How many are chosen."""
        return int(self.y.sum())

    @property
    def gap(self) -> float:
        """(bound − value) / value."""
        return max(0, self.bound - self.value) / max(self.value, 1)


def eliminate_as_printed(constraints: Constraints) -> Flags:
    """SPE as printed in Algorithm 2."""
    from queryveil.mechanisms.sanitize import _greedy_kernel

    counts, layout = constraints.counts, Layout.of(constraints)
    first_entry = np.lexsort((counts.pair, counts.user, -constraints.weight))
    pairs_in_order = counts.pair[first_entry]
    _, first_seen = np.unique(pairs_in_order, return_index=True)
    order = pairs_in_order[np.sort(first_seen)]
    loads = layout.loads(np.ones(counts.pairs, dtype=np.int64))
    removed = _greedy_kernel.eliminate_printed(order, *layout.by_pair, loads, constraints.whole_limit)
    kept = np.ones(counts.pairs, dtype=np.bool_)
    kept[order[:removed]] = False
    return _checked(constraints, kept)


def eliminate(constraints: Constraints) -> Flags:
    """SPE corrected: look first, and only at users whose constraint is broken."""
    from queryveil.mechanisms.sanitize import _greedy_kernel

    counts, layout = constraints.counts, Layout.of(constraints)
    heaviest_first = np.lexsort((counts.pair, counts.user, -constraints.weight))
    kept = np.ones(counts.pairs, dtype=np.bool_)
    loads = layout.loads(np.ones(counts.pairs, dtype=np.int64))
    limit = constraints.whole_limit
    _greedy_kernel.eliminate_corrected(heaviest_first, counts.user, counts.pair, *layout.by_pair, loads, limit, kept)
    return _checked(constraints, kept)


def most_diverse(
    constraints: Constraints, noise: Noise, *, seconds: float = 60.0, distinct_queries: bool = False
) -> BinaryAnswer:
    """The most pairs found in the time given, or the most pairs of distinct queries, with a proven bound."""
    program = _Program.of(constraints, distinct_queries=distinct_queries)
    clock = _Clock((1 - SPARE_SHARE) * seconds)
    if program.size == 0:
        return BinaryAnswer(np.zeros(constraints.counts.pairs, dtype=np.bool_), 0, "nothing fits", "nothing fits", 0.0)
    relaxed, bound = program.relaxation()
    bounds = {"linear program with cuts": math.floor(bound + 1e-6)}
    log.info("linear program with cuts: at most %d", bounds["linear program with cuts"])
    prover = _Prover(program, clock)
    stream = noise.stream("sanitize: local search")
    chosen = program.rounded(relaxed)
    stages = {"rounding": int(chosen.sum())}
    search_clock = _Clock(clock.share(SEARCH_SHARE))
    chosen = program.improved(chosen, stream, search_clock.part, at_most=min(bounds.values()))
    stages["local search"] = int(chosen.sum())
    log.info("local search: %d", stages["local search"])
    found_by = "local search"
    if stages["local search"] < min(bounds.values()):
        better, proven = program.cp_sat(chosen, clock.left())
        bounds["CP-SAT"] = proven
        stages["CP-SAT"] = int(better.sum())
        log.info("CP-SAT: %d, at most %d", stages["CP-SAT"], proven)
        if better.sum() > chosen.sum():
            chosen, found_by = better, "CP-SAT from local search"
    branch_bound, branch_choice = prover.result()
    bounds["HiGHS branch and cut"] = branch_bound
    if branch_choice is not None:
        stages["HiGHS branch and cut"] = int(branch_choice.sum())
        if branch_choice.sum() > chosen.sum():
            chosen, found_by = branch_choice, "HiGHS branch and cut"
    y = np.zeros(constraints.counts.pairs, dtype=np.bool_)
    y[program.pairs[chosen]] = True
    tightest = min(bounds, key=lambda who: bounds[who])
    return BinaryAnswer(_checked(constraints, y), bounds[tightest], found_by, tightest, clock.spent(), stages)


def reproducibly_diverse(constraints: Constraints, noise: Noise) -> BinaryAnswer:
    """As `most_diverse`, but the same on every machine: no clock, only the linear program with cuts and a local search
    whose length depends on the number of pairs."""
    clock = _Clock(math.inf)
    program = _Program.of(constraints, distinct_queries=False)
    if program.size == 0:
        return BinaryAnswer(np.zeros(constraints.counts.pairs, dtype=np.bool_), 0, "nothing fits", "nothing fits", 0.0)
    relaxed, bound = program.relaxation()
    at_most = math.floor(bound + 1e-6)
    rounds = iter(np.linspace(0, 1, 1 + math.ceil(program.size / PAIRS_A_ROUND)).tolist())
    stream = noise.stream("sanitize: local search")
    chosen = program.improved(program.rounded(relaxed), stream, lambda: next(rounds), at_most=at_most)
    y = np.zeros(constraints.counts.pairs, dtype=np.bool_)
    y[program.pairs[chosen]] = True
    return BinaryAnswer(_checked(constraints, y), at_most, "local search", "linear program with cuts", clock.spent())


class _Clock:
    def __init__(self, seconds: float) -> None:
        self.started, self.seconds = time.monotonic(), seconds

    def part(self) -> float:
        return self.spent() / self.seconds

    def spent(self) -> float:
        return time.monotonic() - self.started

    def left(self) -> float:
        return max(0.1, self.seconds - self.spent())

    def share(self, part: float) -> float:
        return part * self.left()


@dataclass(frozen=True)
class _Program:
    """max Σy, weights·y ≤ limit, over the pairs that fit by themselves; rows are users, then queries."""

    pairs: Integers
    layout: Layout
    limit: int
    matrix: sparse.csr_array
    """Weights divided by the limit."""

    @classmethod
    def of(cls, constraints: Constraints, *, distinct_queries: bool) -> _Program:
        counts, limit = constraints.counts, constraints.whole_limit
        user, pair, weight = counts.user, counts.pair, constraints.whole_weight
        fits = np.ones(counts.pairs, dtype=np.bool_)
        fits[pair[weight > limit]] = False
        fits &= counts.holders() > 0
        keep = fits[pair]
        user, pair, weight = user[keep], pair[keep], weight[keep]
        rows = counts.users
        if distinct_queries:
            query = counts.pair_names["query"].rank("dense").to_numpy().astype(np.int64) - 1
            one_each = np.flatnonzero(fits)
            user = np.concatenate([user, rows + query[one_each]])
            pair = np.concatenate([pair, one_each])
            weight = np.concatenate([weight, np.full(len(one_each), limit)])
            rows += int(query.max()) + 1
        pairs, pair = np.unique(pair, return_inverse=True)
        order = np.lexsort((user, pair))
        user, pair, weight = user[order], pair[order].astype(np.int64), weight[order]
        layout = Layout.of_entries(user, pair, weight, rows, len(pairs))
        # A weight may be a rounding too large by half a unit, and the bounds must hold for the true ones.
        generous = np.maximum(weight - 1, 0) / limit
        matrix = sparse.csr_array((generous, (user, pair)), shape=(rows, len(pairs)))
        return cls(pairs.astype(np.int64), layout, limit, matrix)

    @property
    def size(self) -> int:
        return len(self.pairs)

    def relaxation(self) -> tuple[Floats, float]:
        """The linear program with cuts: its solution and a bound from its prices."""
        from scipy.optimize import linprog

        rows, right = self._with_cuts()
        result = linprog(-np.ones(self.size), A_ub=rows, b_ub=right, bounds=(0, 1), method="highs")
        prices = np.maximum(-result.ineqlin.marginals, 0.0)
        bound = float(prices @ right + np.maximum(1.0 - rows.T @ prices, 0.0).sum())
        return result.x, bound * (1 + 1e-12)

    def _with_cuts(self) -> tuple[sparse.csr_array, Floats]:
        blocks, right = [self.matrix], [np.ones(self.matrix.shape[0])]
        for k in range(1, DEEPEST_CUT + 1):
            cut = self.matrix.copy()
            cut.data = np.maximum(np.ceil(cut.data * (k + 1) - 1e-9) - 1, 0.0)
            cut.eliminate_zeros()
            can_bind = np.flatnonzero(cut.sum(axis=1) > k)
            blocks.append(cut[can_bind])
            right.append(np.full(len(can_bind), float(k)))
        return sparse.csr_array(sparse.vstack(blocks)), np.concatenate(right)

    def rounded(self, relaxed: Floats) -> Flags:
        """Pairs by falling share in the relaxed solution, each taken if it fits."""
        from queryveil.mechanisms.sanitize import _greedy_kernel

        x = np.zeros(self.size, dtype=np.int64)
        need = np.empty(self.size, dtype=np.int64)
        need[np.argsort(-relaxed, kind="stable")] = np.arange(self.size)
        loads = np.zeros(self.matrix.shape[0], dtype=np.int64)
        _greedy_kernel.fill_up(x, np.ones_like(x), self.size, need, *self.layout.by_pair, loads, self.limit)
        return x > 0

    def improved(self, chosen: Flags, stream: Stream, part: Callable[[], float], *, at_most: int) -> Flags:
        """Annealing over forced insertions until `part` of the work is 1; ends early where the bound is reached."""
        from queryveil.mechanisms.sanitize import _greedy_kernel

        now = chosen.copy()
        best = chosen.copy()
        size = (int(chosen.sum()), int(chosen.sum()))
        loads = self.layout.loads(chosen.astype(np.int64))
        while size[1] < at_most and (done := part()) < 1:
            heat = HOTTEST * (COLDEST / HOTTEST) ** done
            losses = np.arange(_greedy_kernel.MOST_LOST + 1)
            accept = (np.exp(-losses / heat) * 2.0**63).astype(np.uint64) * np.uint64(2) - np.uint64(1)
            words = stream.words(WORDS_A_ROUND)
            size = _greedy_kernel.search(
                words, now, loads, self.limit, *self.layout.by_pair, *self.layout.by_user, accept, best, size
            )
        return best

    def cp_sat(self, hint: Flags, seconds: float) -> tuple[Flags, int]:
        """CP-SAT from a hint: its choice and its bound. Rounded to the generous side, so the bound holds."""
        from ortools.sat.python import cp_model

        model = cp_model.CpModel()
        take = [model.new_bool_var("") for _ in range(self.size)]
        rows, right = self._with_cuts()
        users = self.matrix.shape[0]
        whole = rows.data.copy()
        first_cut = rows.indptr[users]
        whole[:first_cut] = np.floor(whole[:first_cut] * COARSE_UNIT)
        limits = np.concatenate([np.full(users, COARSE_UNIT), right[users:]]).astype(np.int64)
        for row in range(rows.shape[0]):
            start, end = rows.indptr[row], rows.indptr[row + 1]
            if whole[start:end].sum() > limits[row]:
                columns = [take[j] for j in rows.indices[start:end]]
                weighted = cp_model.LinearExpr.weighted_sum(columns, whole[start:end].astype(np.int64).tolist())
                model.add(weighted <= int(limits[row]))
        for j, chosen in enumerate(hint.tolist()):
            model.add_hint(take[j], chosen)
        model.maximize(sum(take))
        solver = cp_model.CpSolver()
        solver.parameters.max_time_in_seconds = seconds
        solver.parameters.num_workers = 2
        status = solver.solve(model)
        bound = math.floor(solver.best_objective_bound + 1e-6)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return hint, bound
        found = np.array([solver.boolean_value(variable) for variable in take])
        return (found if self._feasible(found) else hint), bound

    def _feasible(self, chosen: Flags) -> bool:
        return bool((self.layout.loads(chosen.astype(np.int64)) <= self.limit).all())


class _Prover:
    """HiGHS's branch and cut in a thread of its own, for its bound above all."""

    def __init__(self, program: _Program, clock: _Clock) -> None:
        self._program = program
        self._outcome: Any = None
        self._thread = threading.Thread(target=self._run, args=(clock.left(),), daemon=True)
        self._thread.start()

    def _run(self, seconds: float) -> None:
        from scipy.optimize import Bounds, LinearConstraint, milp

        self._outcome = milp(
            -np.ones(self._program.size),
            constraints=LinearConstraint(self._program.matrix, -np.inf, 1.0),
            integrality=np.ones(self._program.size),
            bounds=Bounds(0, 1),
            options={"time_limit": seconds},
        )

    def result(self) -> tuple[int, Flags | None]:
        """The bound, and the choice where it keeps the limits strictly."""
        self._thread.join()
        bound = self._program.size
        if self._outcome.mip_dual_bound is not None and math.isfinite(self._outcome.mip_dual_bound):
            bound = math.floor(-self._outcome.mip_dual_bound + 1e-4)
        if self._outcome.x is None:
            return bound, None
        chosen = self._outcome.x > 0.5
        return bound, chosen if self._program._feasible(chosen) else None


def _checked(constraints: Constraints, chosen: Flags) -> Flags:
    return constraints.within(chosen.astype(np.int64)) > 0

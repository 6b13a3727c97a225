"""max Σy over binary y with weights·y ≤ limit for every row: relaxation with cuts, rounding, search, proof.

Two kinds of cuts tighten the linear program, added only where the current solution breaks them:

- For a row with weights w and any k, Σ (⌈(k+1)·w/limit⌉ − 1)·y ≤ k: each term is less than its share of k + 1, and the
  sum is whole.
- For pairs of which any two are too heavy together for some row, not always the same one, Σ y ≤ 1 (a clique).

The bound is Lagrange's from the prices of all rows, so it holds whatever the solver's tolerance.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from queryveil.arrays import Flags, Floats, Longs
from queryveil.mechanisms.sanitize import linear
from queryveil.mechanisms.sanitize.constraints import Constraints
from queryveil.mechanisms.sanitize.linear import Segment
from queryveil.mechanisms.sanitize.rounding import Layout
from queryveil.privacy.noise import NoiseStream
from queryveil.progress import each, tell

MOST_WORDS_A_ROUND, WORDS_A_COLUMN = 1 << 16, 512
COLUMNS_A_ROUND, MOST_ROUNDS = 20, 400
HOTTEST, COLDEST = 0.25, 0.1
DEEPEST_CUT = 7
CUT_ROUNDS = 6
LEAST_PROGRESS = 1e-4
"""Cutting ends where a round lowers the bound by less than this share of it."""
MOST_CUTS, MOST_CLIQUES, LARGEST_CLIQUE = 3000, 4000, 512
LARGEST_FOR_CUTS = 100_000
"""Entries of the matrix up to which cuts, CP-SAT and branch and cut are tried; beyond, the linear program alone."""


@dataclass(frozen=True)
class PackingProgram:
    """max Σy, weights·y ≤ limit, over the pairs that fit by themselves; rows are users, then queries."""

    pairs: Longs
    """Which pair each column is; several columns may be copies of one."""
    layout: Layout
    limit: int
    matrix: sparse.csr_array
    """Weights divided by the limit."""

    @classmethod
    def of(
        cls, constraints: Constraints, *, distinct_queries: bool = False, copies: Longs | None = None
    ) -> PackingProgram:
        """A column for each pair, or as many as `copies` says; a query more as a row each where they count once."""
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
        columns_of = np.where(fits, 1 if copies is None else copies, 0)
        pairs = np.repeat(np.arange(counts.pairs), columns_of)
        times = columns_of[pair]
        entry = np.repeat(np.arange(len(pair)), times)
        which_copy = np.arange(len(entry)) - np.repeat(np.cumsum(times) - times, times)
        user, weight = user[entry], weight[entry]
        pair = (np.cumsum(columns_of) - columns_of)[pair[entry]] + which_copy
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

    def search_rounds(self) -> Callable[[], float]:
        """The part of a local search that is done, at each call: as many rounds as the size asks for, and no clock."""
        rounds = min(MOST_ROUNDS, math.ceil(self.size / COLUMNS_A_ROUND))
        parts = iter(np.linspace(0, 1, 1 + rounds).tolist())
        return lambda: next(parts)

    @property
    def is_small(self) -> bool:
        return self.matrix.nnz <= LARGEST_FOR_CUTS

    def relaxation(self) -> tuple[Floats, float]:
        """The linear program with cuts: its solution and a bound from its prices."""
        if not self.is_small:
            ones = np.ones(self.size)
            answer = linear.pack(sparse.csc_array(self.matrix), [Segment(ones, ones)])
            return answer.x, answer.bound
        share, bound = np.zeros(self.size), math.inf
        rows, right = self.matrix, np.ones(self.matrix.shape[0])
        cuts, cut_right = self._row_cuts()
        cliques = _Cliques(self)
        for _ in each("solving with cuts", range(CUT_ROUNDS)):
            share, prices = _solved(rows, right)
            before = bound
            bound = min(bound, _lagrange(rows, right, prices))
            if before - bound < LEAST_PROGRESS * bound:
                break
            broken = cuts @ share - cut_right
            worst = np.argsort(-broken, kind="stable")[:MOST_CUTS]
            worst = worst[broken[worst] > LEAST_PROGRESS]
            new = cliques.broken_by(share)
            if not len(worst) and not new.shape[0]:
                break
            binding = right - rows @ share < 1e-7
            binding[: self.matrix.shape[0]] = True
            rows = sparse.csr_array(sparse.vstack([rows[np.flatnonzero(binding)], cuts[worst], new]))
            right = np.concatenate([right[binding], cut_right[worst], np.ones(new.shape[0])])
        tell("solving with cuts", 1)
        return share, bound

    def _row_cuts(self) -> tuple[sparse.csr_array, Floats]:
        blocks, right = [], []
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

    def improved(self, chosen: Flags, stream: NoiseStream, part: Callable[[], float], *, at_most: int) -> Flags:
        """Annealing over forced insertions until `part` of the work is 1; ends early where the bound is reached."""
        from queryveil.mechanisms.sanitize import _greedy_kernel

        now = chosen.copy()
        best = chosen.copy()
        size = (int(chosen.sum()), int(chosen.sum()))
        loads = self.layout.loads(chosen.astype(np.int64))
        while size[1] < at_most and (done := part()) < 1:
            tell("searching for more pairs", done)
            heat = HOTTEST * (COLDEST / HOTTEST) ** done
            losses = np.arange(_greedy_kernel.MOST_LOST + 1)
            accept = (np.exp(-losses / heat) * 2.0**63).astype(np.uint64) * np.uint64(2) - np.uint64(1)
            words = stream.words(min(MOST_WORDS_A_ROUND, WORDS_A_COLUMN * self.size))
            size = _greedy_kernel.search(
                words, now, loads, self.limit, *self.layout.by_pair, *self.layout.by_user, accept, best, size
            )
        tell("searching for more pairs", 1)
        return best


class _Cliques:
    """Cliques of pairs that exclude each other, each handed out once."""

    def __init__(self, program: PackingProgram) -> None:
        from queryveil.mechanisms.sanitize import _clique_kernel

        self._kernel = _clique_kernel
        self._size = program.size
        self._seen: set[bytes] = set()
        self._bits = np.zeros((program.size, (program.size + 63) // 64), dtype=np.uint64)
        _clique_kernel.exclusions(*program.layout.by_user, program.limit, self._bits)

    def broken_by(self, share: Floats) -> sparse.csr_array:
        """New cliques with more than 1 in sum, as rows."""
        members = np.empty((MOST_CLIQUES, LARGEST_CLIQUE), dtype=np.int64)
        sizes = np.zeros(MOST_CLIQUES, dtype=np.int64)
        by_share = np.argsort(-share, kind="stable")
        found = self._kernel.broken_cliques(share, by_share, self._bits, 0.01, members, sizes)
        new = []
        for row, size in zip(members[:found], sizes[:found], strict=True):
            clique = np.sort(row[:size])
            if clique.tobytes() not in self._seen:
                self._seen.add(clique.tobytes())
                new.append(clique)
        columns = np.concatenate(new) if new else np.zeros(0, dtype=np.int64)
        rows = np.repeat(np.arange(len(new)), [len(clique) for clique in new])
        return sparse.csr_array((np.ones(len(columns)), (rows, columns)), shape=(len(new), self._size))


def _solved(rows: sparse.csr_array, right: Floats) -> tuple[Floats, Floats]:
    """Solution and prices of max Σy, rows·y ≤ right, 0 ≤ y ≤ 1."""
    from scipy.optimize import linprog

    costs = -np.ones(rows.shape[1])
    result = linprog(costs, A_ub=rows, b_ub=right, bounds=(0, 1), method="highs-ipm")  # type: ignore[call-overload]
    return np.clip(result.x, 0.0, 1.0), np.maximum(-result.ineqlin.marginals, 0.0)


def _lagrange(rows: sparse.csr_array, right: Floats, prices: Floats) -> float:
    return float(prices @ right + np.maximum(1.0 - rows.T @ prices, 0.0).sum()) * (1 + 1e-12)

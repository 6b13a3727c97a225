"""D-UMP of Hong et al. (2012) with a time limit and three proofs of how good the answer is.

`most_diverse` rounds the linear program, improves it by forced insertions under annealing, hands the result to CP-SAT
as a hint, and proves a bound meanwhile: by the linear program with cuts, by HiGHS's branch and cut in a second thread,
and by CP-SAT. The best of all counts, and says who found it. What the mechanism publishes comes from
`diversity.reproducibly_diverse`, which needs no clock and so is the same on every machine.

Distinct queries instead of pairs (the paper's remark in 5.3): at most one pair of a query is of use, so each query
becomes one more constraint in which every pair weighs the whole limit.

>>> from queryveil.mechanisms.sanitize.counts import ClickCounts
>>> c = Constraints.of(ClickCounts.from_matrix([[4, 1, 6], [3, 1, 6], [3, 1, 6], [2, 1, 6]]), 1.2)
>>> most_diverse(c, Noise.seeded(1), seconds=1).value
3
"""

from __future__ import annotations

import io
import json
import math
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np

from queryveil.arrays import Flags
from queryveil.mechanisms.sanitize.constraints import Constraints
from queryveil.mechanisms.sanitize.diversity import BinaryAnswer
from queryveil.mechanisms.sanitize.packing import PackingProgram
from queryveil.privacy import Noise
from queryveil.progress import tell

SEARCH_SHARE = 0.55
SPARE_SHARE = 0.1
"""Of the time given, kept back for what solvers do after their limit."""
COARSE_UNIT = 2**24
"""CP-SAT's whole weights are coarser, so that its sums stay small; rounded to the generous side, checked after."""


def most_diverse(
    constraints: Constraints, noise: Noise, *, seconds: float = 60.0, distinct_queries: bool = False
) -> BinaryAnswer:
    """The most pairs found in the time given, or the most pairs of distinct queries, with a proven bound."""
    program = PackingProgram.of(constraints, distinct_queries=distinct_queries)
    clock = Clock((1 - SPARE_SHARE) * seconds)
    if program.size == 0:
        return BinaryAnswer(np.zeros(constraints.counts.pairs, dtype=np.bool_), 0, "nothing fits", "nothing fits", 0.0)
    relaxed, bound = program.relaxation()
    bounds = {"linear program with cuts": math.floor(bound + 1e-6)}
    prover = Prover(program, clock) if program.is_small else None
    stream = noise.stream("sanitize: local search")
    chosen = program.rounded(relaxed)
    stages = {"rounding": int(chosen.sum())}
    search_clock = Clock(clock.share(SEARCH_SHARE if program.is_small else 1.0))
    chosen = program.improved(chosen, stream, search_clock.part, at_most=min(bounds.values()))
    stages["local search"] = int(chosen.sum())
    found_by = "local search"
    if program.is_small and stages["local search"] < min(bounds.values()):
        better, proven = cp_sat(program, chosen, clock.left())
        bounds["CP-SAT"] = proven
        stages["CP-SAT"] = int(better.sum())
        if better.sum() > chosen.sum():
            chosen, found_by = better, "CP-SAT from local search"
    if prover is not None:
        bounds["HiGHS branch and cut"], rival = prover.result()
        if rival is not None:
            stages["HiGHS branch and cut"] = int(rival.sum())
            if rival.sum() > chosen.sum():
                chosen, found_by = rival, "HiGHS branch and cut"
    y = np.zeros(constraints.counts.pairs, dtype=np.bool_)
    y[program.pairs[chosen]] = True
    tightest = min(bounds, key=lambda who: bounds[who])
    return BinaryAnswer(
        constraints.within(y.astype(np.int64)) > 0, bounds[tightest], found_by, tightest, clock.spent(), stages
    )


class Clock:
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


def cp_sat(program: PackingProgram, hint: Flags, seconds: float) -> tuple[Flags, int]:
    """CP-SAT from a hint: its choice and its bound. Rounded to the generous side, so the bound holds."""
    rows = program.matrix
    given = io.BytesIO()
    np.savez(
        given,
        indptr=rows.indptr,
        indices=rows.indices,
        weights=np.floor(rows.data * COARSE_UNIT).astype(np.int64),
        limit=COARSE_UNIT,
        hint=hint,
        seconds=seconds,
    )
    tell("searching with CP-SAT", 0)
    worker = [sys.executable, str(Path(__file__).with_name("cp_sat_search.py"))]
    done = subprocess.run(worker, input=given.getvalue(), stdout=subprocess.PIPE, check=True)
    chosen, bound = json.loads(done.stdout)
    tell("searching with CP-SAT", 1)
    if chosen is None:
        return hint, program.size  # out of time before its first answer: its bound is then 0 and proves nothing
    found = np.array(chosen, dtype=np.bool_)
    return (found if is_feasible(program, found) else hint), math.floor(bound + 1e-6)


def is_feasible(program: PackingProgram, chosen: Flags) -> bool:
    """Whether a choice keeps every row's limit, in whole numbers."""
    return bool((program.layout.loads(chosen.astype(np.int64)) <= program.limit).all())


class Prover:
    """HiGHS's branch and cut in a thread of its own, for its bound above all."""

    def __init__(self, program: PackingProgram, clock: Clock) -> None:
        self._program = program
        self._outcome: Any = None
        self._thread = threading.Thread(target=self._run, args=(clock.left(),), daemon=True)
        self._thread.start()

    def _run(self, seconds: float) -> None:
        from scipy.optimize import Bounds, LinearConstraint, milp

        self._outcome = milp(
            -np.ones(self._program.size),
            constraints=LinearConstraint(self._program.matrix, -np.inf, 1.0),
            integrality=np.ones(self._program.size, dtype=np.int64),
            bounds=Bounds(0, 1),
            options={"time_limit": seconds},
        )

    def result(self) -> tuple[int, Flags | None]:
        """The bound, and the choice where it keeps the limits strictly."""
        tell("proving with branch and cut", 0)
        self._thread.join()
        tell("proving with branch and cut", 1)
        bound = self._program.size
        if self._outcome.mip_dual_bound is not None and math.isfinite(self._outcome.mip_dual_bound):
            bound = math.floor(-self._outcome.mip_dual_bound + 1e-4)
        if self._outcome.x is None:
            return bound, None
        chosen = self._outcome.x > 0.5
        return bound, chosen if is_feasible(self._program, chosen) else None

"""As many distinct pairs (or queries) as the privacy constraints allow: D-UMP of Hong et al. (2012), a binary program.

- `eliminate_as_printed`: the paper's heuristic SPE. It removes pairs by falling t until every constraint holds; it
  removes one even if none is broken, and pairs of users whose constraint holds. As the order never changes, one sort
  and one pass do it: O(nnz log nnz). Ties go by user, then pair.
- `eliminate`: corrected. It looks first, and takes the largest t among users whose constraint is broken. Users only
  ever leave that set, so again one sorted pass suffices.
- `reproducibly_diverse`: rounds the linear program with cuts (`packing.py`), which also bounds what anybody can find,
  and improves it by forced insertions under annealing (`_greedy_kernel.search`). `benchmarks/reference` has a search
  with a time limit that also asks CP-SAT and branch and cut.

>>> from queryveil.mechanisms.sanitize.counts import ClickCounts
>>> c = Constraints.of(ClickCounts.from_matrix([[4, 1, 6], [3, 1, 6], [3, 1, 6], [2, 1, 6]]), 1.2)
>>> [int(y.sum()) for y in (eliminate_as_printed(c), eliminate(c), reproducibly_diverse(c, Noise.seeded(1)).y)]
[2, 3, 3]
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

import numpy as np

from queryveil.arrays import Flags
from queryveil.mechanisms.sanitize.constraints import Constraints
from queryveil.mechanisms.sanitize.packing import PackingProgram
from queryveil.mechanisms.sanitize.rounding import Layout
from queryveil.privacy import Noise


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


def reproducibly_diverse(constraints: Constraints, noise: Noise) -> BinaryAnswer:
    """The most pairs found, the same on every machine: how long it searches depends on the number of pairs alone."""
    started = time.monotonic()
    program = PackingProgram.of(constraints)
    if program.size == 0:
        return BinaryAnswer(np.zeros(constraints.counts.pairs, dtype=np.bool_), 0, "nothing fits", "nothing fits", 0.0)
    relaxed, bound = program.relaxation()
    at_most = math.floor(bound + 1e-6)
    stream = noise.stream("sanitize: local search")
    chosen = program.improved(program.rounded(relaxed), stream, program.search_rounds(), at_most=at_most)
    y = np.zeros(constraints.counts.pairs, dtype=np.bool_)
    y[program.pairs[chosen]] = True
    return BinaryAnswer(
        _checked(constraints, y), at_most, "local search", "linear program with cuts", time.monotonic() - started
    )


def _checked(constraints: Constraints, chosen: Flags) -> Flags:
    return constraints.within(chosen.astype(np.int64)) > 0

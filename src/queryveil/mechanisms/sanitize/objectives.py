"""What the released counts are best for: size, frequent pairs, a mixture; and the least privacy loss for a size.

`greatest_size` (O-UMP), `closest_supports` (F-UMP) and `joint` return an `Optimum`: whole counts that keep every user's
constraint, exactly checked, beside the fractional optimum with its bound. Diversity (D-UMP) is in `diversity.py`.

The paper's future work: `least_limit` is the smallest b with which a wanted size is reached. The relaxed program is
linear in b (scale x and b together), so b* = size / λ(1). `joint` maximises
w_size·Σx/|O| − w_support·Σ_F |x/|O| − support| + w_diversity·Σ min(x, 1)/#pairs for a reference size |O|.

Departs from the paper: "precision is always 1" (section 6.3) is false, because infrequent pairs are not in F-UMP's
objective and take up the rest of |O| (supports (.6, .4) can come out as (.1, .9)). `infrequent_penalty` puts a price on
infrequent pairs above their own support; 0, the default, is the paper's program.

>>> from queryveil.mechanisms.sanitize.counts import ClickCounts
>>> counts = ClickCounts.from_matrix([[4, 1, 6], [3, 1, 6], [3, 1, 6], [2, 1, 6]])
>>> round(greatest_size(Constraints.of(counts, math.log(2))).relaxed.value, 6), round(least_limit(counts, size=2), 6)
(2.409421, 0.575364)
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np

from queryveil.arrays import Flags, Floats, Longs
from queryveil.errors import DataError
from queryveil.mechanisms.sanitize import linear
from queryveil.mechanisms.sanitize.constraints import Constraints
from queryveil.mechanisms.sanitize.counts import ClickCounts
from queryveil.mechanisms.sanitize.linear import LinearAnswer, Segment
from queryveil.mechanisms.sanitize.packing import PackingProgram
from queryveil.mechanisms.sanitize.rounding import NEAR_ENOUGH, filled, filled_towards, floored
from queryveil.privacy import Noise

Rounding: TypeAlias = Literal["floor", "fill"]

MOST_COPIES = 50_000


@dataclass(frozen=True)
class Optimum:
    """Whole output counts and the fractional optimum they come from."""

    x: Longs
    relaxed: LinearAnswer

    @property
    def size(self) -> int:
        """Σx, the size of the output."""
        return int(self.x.sum())


def greatest_size(constraints: Constraints, *, rounding: Rounding = "fill") -> Optimum:
    """O-UMP: as many records as the constraints allow."""
    relaxed = linear.greatest_size(constraints)
    return Optimum(rounded(constraints, relaxed.x, rounding), relaxed)


def searched_size(constraints: Constraints, noise: Noise, start: Optimum) -> Optimum:
    """O-UMP's whole counts improved by local search, the same on every machine.

    Every pair becomes one column more than it has copies in the relaxed solution, as far as they fit. Where counts are
    large rounding loses little and the columns are many; then the start is handed back.
    """
    most = np.floor(linear.longest(constraints) + NEAR_ENOUGH)
    copies = np.minimum(most, np.maximum(np.floor(start.relaxed.x) + 1, start.x)).astype(np.int64)
    if not 0 < copies.sum() <= MOST_COPIES:
        return start
    program = PackingProgram.of(constraints, copies=copies)
    nth_copy = np.arange(program.size) - np.searchsorted(program.pairs, program.pairs)
    chosen = nth_copy < start.x[program.pairs]
    at_most = math.floor(start.relaxed.bound + 1e-6)
    stream = noise.stream("sanitize: local search")
    chosen = program.improved(chosen, stream, program.search_rounds(), at_most=at_most)
    x = np.bincount(program.pairs[chosen], minlength=constraints.counts.pairs).astype(np.int64)
    x = constraints.within(x)
    return replace(start, x=x) if x.sum() > start.x.sum() else start


def frequent_pairs(counts: ClickCounts, support: float) -> Flags:
    """Which pairs have at least the given share of all clicks."""
    frequent: Flags = counts.supports() >= support
    if not frequent.any():
        raise DataError("no pair has the wanted share of the clicks, so there is nothing to keep. Lower support.")
    return frequent


def closest_supports(
    constraints: Constraints,
    *,
    size: int,
    support: float,
    rounding: Rounding = "fill",
    infrequent_penalty: float = 0.0,
) -> Optimum:
    """F-UMP: frequent pairs keep their share of the output as nearly as a size of `size` allows.

    `relaxed.value` is minus the least sum of support distances, up to what the frequent pairs' supports add up to:
    distance = Σ_F support − value.
    """
    frequent = frequent_pairs(constraints.counts, support)
    target = constraints.counts.supports() * size
    longest = linear.longest(constraints)
    share, none = 1.0 / size, np.zeros(len(target))
    below = Segment(np.minimum(target, longest), np.where(frequent, share, none))
    above = Segment(np.maximum(longest - below.length, 0.0), np.where(frequent, -share, -infrequent_penalty * share))
    relaxed = _of_size(constraints, [below, above], size)
    if rounding == "floor":
        return Optimum(floored(constraints, relaxed.x), relaxed)
    x = filled_towards(constraints, relaxed.x, target=target, frequent=frequent, size=size)
    return Optimum(x, relaxed)


def joint(
    constraints: Constraints,
    *,
    size: int,
    support: float,
    size_weight: float = 1.0,
    support_weight: float = 1.0,
    diversity_weight: float = 1.0,
) -> Optimum:
    """A weighted mixture of the three objectives, as one linear program over segments; size need not be reached."""
    counts = constraints.counts
    frequent = frequent_pairs(counts, support)
    target = counts.supports() * size
    longest = linear.longest(constraints)
    first_one = np.minimum(1.0, longest)
    breaks = [np.minimum(b, longest) for b in (np.minimum(first_one, target), np.maximum(first_one, target), longest)]
    segments, start = [], np.zeros(len(target))
    for end in breaks:
        middle = (start + end) / 2
        gain = np.full(len(target), size_weight / size)
        gain += np.where(middle < first_one, diversity_weight / counts.pairs, 0.0)
        gain += np.where(frequent, np.where(middle < target, support_weight, -support_weight) / size, 0.0)
        segments.append(Segment(end - start, gain))
        start = end
    relaxed = linear.solve(constraints, segments)
    x = floored(constraints, relaxed.x)
    target = np.maximum(relaxed.x, x.astype(np.float64))
    x = filled_towards(constraints, relaxed.x, target=target, frequent=target > x, size=size)
    return Optimum(x, relaxed)


def least_limit(counts: ClickCounts, *, size: float) -> float:
    """The smallest b with which the relaxed program reaches a size: size / λ(1)."""
    return size / linear.greatest_size(Constraints.of(counts, 1.0)).value


def rounded(constraints: Constraints, x: Floats, rounding: Rounding) -> Longs:
    """Whole counts from fractional ones."""
    return floored(constraints, x) if rounding == "floor" else filled(constraints, x)


def _of_size(constraints: Constraints, segments: list[Segment], size: int) -> LinearAnswer:
    greatest = linear.greatest_size(constraints)
    if size > greatest.bound * (1 + 1e-9):
        raise DataError(
            f"size must not be above the greatest output the privacy constraints allow, {math.floor(greatest.bound)}; "
            f"got {size}. Lower size, or raise epsilon and delta."
        )
    return linear.solve(constraints, segments, size=min(float(size), greatest.value))

"""The privacy constraints of Hong et al. (2012), and the check that no solver's tolerance can pass.

For every user k: Σ x_ij · ln t_ijk ≤ b over the pairs of k, with t_ijk = c_ij / (c_ij − c_ijk) and
b = min(ε, ln 1/(1−δ)) (conditions 2 and 3 have the same left side, so the smaller right side decides).

Solvers work on floats or on weights rounded to multiples of 2^-40. What they return counts only after `breaches` found
none: each user's sum is enclosed in floats, and where the enclosure does not decide, computed to 50 digits. As b is a
float and stands for what it was rounded from (ln 2 is no float), sums up to b · (1 + 2^-52) are accepted.

Since Σ_k ln t_ijk ≥ Σ_k c_ijk / c_ij = 1 for every pair, adding up all users gives Σ x ≤ n·b: the cap.

>>> c = Constraints.of(ClickCounts.from_matrix([[1], [1]]), limit(epsilon=math.log(2), delta=0.9))
>>> c.breaches(np.array([1])).tolist(), c.breaches(np.array([2])).tolist()
([], [0, 1])
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Context, Decimal
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt
from scipy import sparse

from queryveil.arrays import Floats, Longs
from queryveil.mechanisms.sanitize.counts import ClickCounts

WEIGHT_UNIT = 2**40
ONE_ULP = 2.0**-52
DIGITS = Context(prec=50)


def limit(*, epsilon: float, delta: float) -> float:
    """b = min(ε, ln 1/(1−δ))."""
    return min(float(epsilon), -math.log1p(-float(delta)))


@dataclass(frozen=True)
class Constraints:
    """One constraint for each user over the output counts of the pairs."""

    counts: ClickCounts
    limit: float
    weight: Floats
    """ln t of each entry."""

    @classmethod
    def of(cls, counts: ClickCounts, limit: float) -> Constraints:
        """Constraints over pairs of at least two users; drop the others first."""
        others = counts.totals()[counts.pair] - counts.count
        if (others == 0).any():
            raise ValueError("a pair of one user has no finite weight: drop unique pairs first.")
        return cls(counts, limit, np.log1p(counts.count / others))

    @cached_property
    def by_user(self) -> sparse.csr_array:
        """The matrix ln t, users × pairs."""
        shape = (self.counts.users, self.counts.pairs)
        matrix = sparse.csr_array((self.weight, (self.counts.user, self.counts.pair)), shape=shape)
        matrix.sort_indices()
        return matrix

    @cached_property
    def whole_weight(self) -> Longs:
        """ln t in units of 2^-40, to the nearest."""
        return np.rint(self.weight * WEIGHT_UNIT).astype(np.int64)

    @property
    def whole_limit(self) -> int:
        """b in units of 2^-40, with room for the rounding of a hundred weights; the exact check comes after."""
        return round(self.limit * WEIGHT_UNIT) + 50

    @property
    def cap(self) -> float:
        """n·b, which no solution exceeds in size."""
        return len(np.unique(self.counts.user)) * self.limit

    def loads(self, x: npt.ArrayLike) -> Floats:
        """Σ x ln t for each user, in floats."""
        spent = np.asarray(x, dtype=np.float64)[self.counts.pair] * self.weight
        return np.bincount(self.counts.user, weights=spent, minlength=self.counts.users).astype(np.float64)

    def breaches(self, x: npt.ArrayLike) -> Longs:
        """The users whose constraint a whole-number solution breaks, decided exactly."""
        whole = np.asarray(x)
        if not np.issubdtype(whole.dtype, np.integer) or (whole < 0).any():
            raise ValueError("a solution to check is made of whole numbers >= 0.")
        loads = self.loads(whole)
        terms = np.bincount(self.counts.user, minlength=self.counts.users)
        error = loads * (terms + 8) * ONE_ULP  # each logarithm within 4 ulp, each product and sum within 1/2
        accepted = self.limit * (1 + ONE_ULP)
        surely = loads - error > accepted
        open_cases = np.flatnonzero(~surely & (loads + error > self.limit))
        broken = [k for k in open_cases.tolist() if self._exact_load(whole, k) > self._exact_limit]
        return np.sort(np.concatenate([np.flatnonzero(surely), np.array(broken, dtype=np.int64)]))

    def within(self, x: Longs) -> Longs:
        """The solution itself, or the one left after taking counts from users whose constraint is broken.

        Takes one from the pair that weighs most in a broken constraint until none is broken. Solvers leave breaches of
        their tolerance's size, so this runs as good as never.
        """
        kept = x.copy()
        while len(broken := self.breaches(kept)):
            for k in broken.tolist():
                mine = self.entries_of(k)
                mine = mine[kept[self.counts.pair[mine]] > 0]
                heaviest = self.counts.pair[mine[np.argmax(self.weight[mine])]]
                kept[heaviest] -= 1
        return kept

    def entries_of(self, user: int) -> Longs:
        """The numbers of a user's entries."""
        order, bounds = self._sorted_by_user
        return order[bounds[user] : bounds[user + 1]]

    @cached_property
    def _sorted_by_user(self) -> tuple[Longs, Longs]:
        order = np.argsort(self.counts.user, kind="stable").astype(np.int64)
        bounds = np.searchsorted(self.counts.user[order], np.arange(self.counts.users + 1)).astype(np.int64)
        return order, bounds

    @cached_property
    def _totals(self) -> Longs:
        return self.counts.totals()

    @property
    def _exact_limit(self) -> Decimal:
        return DIGITS.multiply(Decimal(self.limit), Decimal(1 + ONE_ULP))

    def _exact_load(self, x: Longs, user: int) -> Decimal:
        """To 50 digits; the error of 1e-49 a term is far below the width of one ulp that is accepted."""
        load = Decimal(0)
        for entry in self.entries_of(user).tolist():
            pair = int(self.counts.pair[entry])
            if x[pair]:
                exact = _exact_log_t(int(self._totals[pair]), int(self.counts.count[entry]))
                load = DIGITS.fma(Decimal(int(x[pair])), exact, load)
        return load


@lru_cache(maxsize=1 << 16)
def _exact_log_t(total: int, count: int) -> Decimal:
    return DIGITS.ln(DIGITS.divide(Decimal(total), Decimal(total - count)))

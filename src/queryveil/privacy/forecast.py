"""What many releases of one sort will cost the same people together, before any of them is made."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

from queryveil.privacy.accounting import DELTA_UNIT, EPSILON_UNIT
from queryveil.privacy.composition import Entry, spent
from queryveil.privacy.guarantee import Charge


def together(charge: Charge, times: int, delta: float) -> float | None:
    """The ε of so many releases at a δ for all of them, rounded up; None where that δ does not suffice.

    >>> together(Charge.dataset(epsilon=1.0), 5, 0.0)
    5.0
    """
    found = spent(Counter({Entry.of(charge): times}), int(Fraction(str(delta)) * DELTA_UNIT))
    return None if found is None else found / EPSILON_UNIT

"""What a release costs, and losses in the ledger's whole numbers.

Losses are whole numbers of 10^-9 (ε) and 10^-18 (δ), rounded up; a float counts as the decimal it prints as.

>>> Charge.people(epsilon=0.1).loss()
Loss(epsilon=100000000, delta=0)
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, Literal, TypeAlias

from queryveil.checks import one_of, real_number, require

Scope: TypeAlias = Literal["people", "dataset", "nothing"]

EPSILON_UNIT: Final = 10**9
DELTA_UNIT: Final = 10**18
LARGEST_EPSILON: Final = 10**6


@dataclass(frozen=True, kw_only=True)
class Charge:
    """What a release costs: nothing, so much from everybody, or so much from each person in it."""

    scope: Scope
    epsilon: Fraction = Fraction(0)
    delta: Fraction = Fraction(0)

    def __post_init__(self) -> None:
        require(
            one_of("scope", self.scope, ("people", "dataset", "nothing")),
            real_number("epsilon", self.epsilon, at_least=0, at_most=LARGEST_EPSILON, suggest=1.0),
            real_number("delta", self.delta, at_least=0, at_most=1, suggest=1e-6),
        )
        if self.scope == "nothing" and (self.epsilon or self.delta):
            require("a charge to nobody must cost nothing; say who pays: people or dataset.")

    @classmethod
    def nothing(cls) -> Charge:
        """A release without a loss that adds up; the ledger only takes note of it."""
        return cls(scope="nothing")

    @classmethod
    def people(cls, *, epsilon: float | Fraction, delta: float | Fraction = 0) -> Charge:
        """So much from each person in the release."""
        return cls(scope="people", epsilon=decimal(epsilon), delta=decimal(delta))

    @classmethod
    def dataset(cls, *, epsilon: float | Fraction, delta: float | Fraction = 0) -> Charge:
        """So much from everybody."""
        return cls(scope="dataset", epsilon=decimal(epsilon), delta=decimal(delta))

    def loss(self) -> Loss:
        """In the ledger's whole numbers, rounded up."""
        return Loss(math.ceil(self.epsilon * EPSILON_UNIT), math.ceil(self.delta * DELTA_UNIT))


@dataclass(frozen=True)
class Loss:
    """ε and δ in the ledger's whole numbers."""

    epsilon: int
    delta: int

    def __add__(self, other: Loss) -> Loss:
        return Loss(self.epsilon + other.epsilon, self.delta + other.delta)

    def __sub__(self, other: Loss) -> Loss:
        return Loss(self.epsilon - other.epsilon, self.delta - other.delta)

    def covers(self, other: Loss) -> bool:
        """Whether the other fits into it."""
        return self.epsilon >= other.epsilon and self.delta >= other.delta


NO_LOSS: Final = Loss(0, 0)


def when_replaced(loss: Loss) -> Loss:
    """Group privacy for two steps, a removal and an addition: (2ε, (1 + e^ε)δ), rounded up."""
    if not loss.delta:
        return Loss(2 * loss.epsilon, 0)
    grown = math.exp(min(loss.epsilon / EPSILON_UNIT, 50.0)) * (1 + 1e-12)  # e^50 δ is far above any budget
    return Loss(2 * loss.epsilon, math.ceil((1 + Fraction(grown)) * loss.delta))


def decimal(loss: float | Fraction) -> Fraction:
    """A float counts as the decimal it prints as."""
    return loss if isinstance(loss, Fraction) else Fraction(repr(float(loss)))

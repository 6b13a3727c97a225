"""What several releases promise together.

Losses add up exactly (as fractions, rounded up once at the end) and only kind with like kind: adding an ε of one model
to an ε of another is a category error, and adding k to anything means nothing.

>>> spring = PureDP(epsilon=0.1, relation="one user added or removed")
>>> summer = PureDP(epsilon=0.2, relation="one user added or removed")
>>> sequential(spring, summer).headline()
'ε-differential privacy per user with ε = 0.3'
>>> parallel(spring, summer).headline()
'ε-differential privacy per user with ε = 0.2'

The ledger counts in whole numbers of 10^-9 (ε) and 10^-18 (δ), rounded up; a float counts as the decimal it prints as.

>>> Loss.of(Charge.people(epsilon=0.1))
Loss(epsilon=100000000, delta=0)
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, TypeVar

import numpy as np

from queryveil.checks import real_number, require, whole_number
from queryveil.privacy.guarantee import ApproxDP, Charge, MetricDP, PureDP
from queryveil.privacy.noise import gaussian_fraction

Metered = TypeVar("Metered", PureDP, ApproxDP, MetricDP)

EPSILON_UNIT: Final = 10**9
DELTA_UNIT: Final = 10**18
DISJOINT_PEOPLE = "no person is in more than one of the parts, and a person's part does not depend on their queries"


def sequential(*guarantees: Metered) -> Metered:
    """The promise of several releases over the same people: losses add up."""
    first = _of_one_kind(guarantees)
    return _with_loss(
        first, guarantees, epsilon=_sum(g.epsilon for g in guarantees), delta=_sum(_delta(g) for g in guarantees)
    )


def parallel(*guarantees: Metered) -> Metered:
    """The promise of several releases over disjoint people: the worst one counts, under one more assumption."""
    first = _of_one_kind(guarantees)
    worst = {"epsilon": max(g.epsilon for g in guarantees), "delta": max(_delta(g) for g in guarantees)}
    return _with_loss(first, guarantees, **worst, also_assumed=(DISJOINT_PEOPLE,))


def repeated_pure(epsilon: float, times: int, delta: float) -> float:
    """The least ε for which `times` runs of an ε-DP mechanism together are (ε, delta)-DP, tight for any such mechanism.

    Composes the privacy losses of randomised response, which dominates every pure mechanism (Kairouz, Oh and
    Viswanath 2015), with a bound on rounding. Never above the plain sum.
    """
    require(
        real_number("epsilon", epsilon, above=0, suggest=1.0),
        whole_number("times", times, at_least=1, suggest=10),
        real_number("delta", delta, above=0, below=1, suggest=1e-6),
    )
    from queryveil.privacy.repeated_losses import Lattice, epsilon_of  # SciPy takes a while to import

    truth = 1 / (1 + math.exp(-epsilon))
    losses = Lattice(start=-epsilon, gap=2 * epsilon, chances=np.array([math.exp(-epsilon) * truth, truth]))
    return min(epsilon_of(losses, times, delta), float_up(Fraction(epsilon) * times))


def repeated_gaussian(sigma: float, sensitivity: int, times: int, delta: float) -> float:
    """The least ε for which `times` discrete Gaussian numbers, each of this sensitivity, are together (ε, delta)-DP.

    For the discrete law that `NoiseStream.discrete_gaussian` draws from, with the σ it really uses; the continuous
    formula would be too hopeful by up to several times in δ for small σ. The loss of the number x is (s² − 2xs) / 2σ².
    """
    require(
        real_number("sigma", sigma, above=0, suggest=5.0),
        whole_number("sensitivity", sensitivity, at_least=1, suggest=1),
        whole_number("times", times, at_least=1, suggest=10),
        real_number("delta", delta, above=0, below=1, suggest=1e-6),
    )
    from queryveil.privacy.repeated_losses import Lattice, epsilon_of

    top, bottom, _ = gaussian_fraction(sigma)
    variance = math.nextafter(top / bottom, 0)  # a smaller σ loses more: the side to err on
    far = math.ceil(math.sqrt(2 * variance * math.log(1e9 * times / delta)))
    numbers = np.arange(far, -far - 1, -1.0)
    law = np.exp(-(numbers**2) / (2 * variance))
    losses = Lattice(
        start=(sensitivity**2 - 2 * far * sensitivity) / (2 * variance),
        gap=sensitivity / variance,
        chances=law / law.sum(),
        infinite=2 * math.exp(-(far**2) / (2 * variance)),  # P(X ≥ x) ≤ e^(−x²/2σ²) (Canonne, Kamath, Steinke 2020)
    )
    return epsilon_of(losses, times, delta)


def float_up(exact: Fraction) -> float:
    """The smallest float that is not below a fraction: losses are rounded against ourselves."""
    nearest = float(exact)
    return nearest if Fraction(nearest) >= exact else math.nextafter(nearest, math.inf)


def _of_one_kind(guarantees: tuple[Metered, ...]) -> Metered:
    if not guarantees:
        raise ValueError("give at least one guarantee.")
    first = guarantees[0]
    if not isinstance(first, (PureDP, ApproxDP, MetricDP)):
        raise TypeError(f"{type(first).__name__} has no loss that adds up: two such releases must be judged by attack.")
    for other in guarantees[1:]:
        first.implies(other)  # raises where kind, unit, relation or distance differ
    return first


def _with_loss(
    first: Metered, guarantees: tuple[Metered, ...], *, epsilon: float, delta: float, also_assumed: tuple[str, ...] = ()
) -> Metered:
    changes: dict[str, object] = {
        "epsilon": epsilon,
        "assumptions": _union((*(a for g in guarantees for a in g.assumptions), *also_assumed)),
        "not_protected": _union(n for g in guarantees for n in g.not_protected),
        "evidence": max((g.evidence for g in guarantees), key=["proved", "measured", "paper"].index),
        "detail": "",
    }
    if not isinstance(first, PureDP):
        changes["delta"] = delta
    return dataclasses.replace(first, **changes)  # type: ignore[arg-type]


def _delta(guarantee: PureDP | ApproxDP | MetricDP) -> float:
    return 0.0 if isinstance(guarantee, PureDP) else guarantee.delta


def _sum(losses: Iterable[float]) -> float:
    return float_up(sum((Fraction(loss) for loss in losses), Fraction(0)))


def _union(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(texts))


@dataclass(frozen=True)
class Loss:
    """ε and δ in the ledger's whole numbers: of 10^-9 and 10^-18."""

    epsilon: int
    delta: int

    @classmethod
    def of(cls, charge: Charge) -> Loss:
        """What a release costs, rounded up."""
        return cls(math.ceil(charge.epsilon * EPSILON_UNIT), math.ceil(charge.delta * DELTA_UNIT))

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

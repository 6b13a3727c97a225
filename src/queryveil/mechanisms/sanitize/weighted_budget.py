"""How weighted selection spends (ε, δ): the noise of every step and what a key must exceed. All of it public.

Five steps see the log, one after the other (`weighted.py`); each adds up vectors of whole numbers of people, of length
at most `unit`, and adds discrete Gaussian noise. Together they are one Gaussian mechanism (`privacy/joint_gaussian.py`)
in which a step with share s has σ = σ(ε, δ) / √s. Two of the steps publish keys that nobody knows beforehand, queries
and clicks, which takes a part of δ; `proof.md` says why the sum is (ε, δ)-DP.

The split of δ is the one with the lowest thresholds, by search over 63 splits at the given (ε, δ): public. Shares and
caps were fixed once on synthetic logs (benchmarks/_laws_sanitize.py) and are no parameters: chosen by looking at a log,
they would cost.

>>> rule = WeightedSelection(epsilon=2.0, delta=1e-7, most_queries=64)
>>> {name: round(sigma / rule.unit, 2) for name, sigma in rule.sigmas.items()}
{'queries': 3.86, 'clicks': 3.86, 'counts': 7.9, 'lengths': 14.43, 'topics': 14.43}
>>> {name: round(threshold / rule.unit, 1) for name, threshold in rule.thresholds.items()}
{'queries': 23.9, 'clicks': 23.2}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

from queryveil.privacy import Concentrated
from queryveil.privacy.guarantee import decimal
from queryveil.privacy.joint_gaussian import joint_rho, joint_sigmas, joint_smoothed_rho, union_threshold
from queryveil.privacy.noise import LARGEST_SIGMA

FINEST_UNIT = 1 << 16
"""A vector's length in whole numbers; less where so much noise would be beyond what the sampler draws exactly."""

MOST_CLICKS = 16
"""How many clicks on published queries count of a person, at most."""
COUNTED_IN_FULL = 4
"""Who has up to so many published items counts in full for each of them."""
LENGTHS = 20
"""Users of 1, 2, … published items; the last cell counts all longer ones."""

SPLITS = 64
UNIONS = ("queries", "clicks")

SHARES: dict[str, Fraction] = {
    name: Fraction(hundredths, 100)
    for name, hundredths in {"queries": 42, "clicks": 42, "counts": 10, "lengths": 3, "topics": 3}.items()
}
KEYS_ONLY: dict[str, Fraction] = {
    name: Fraction(hundredths, 100)
    for name, hundredths in {"queries": 47, "clicks": 47, "lengths": 3, "topics": 3}.items()
}
"""Where no count is wanted, the selection has its share."""


@dataclass(frozen=True)
class WeightedSelection:
    """The noise and the thresholds of a release with these public parameters."""

    epsilon: float
    delta: float
    most_queries: int
    """How many distinct queries of a person count, at most."""
    keys_only: bool = False

    @property
    def shares(self) -> Mapping[str, Fraction]:
        """What part of the budget each step has."""
        return KEYS_ONLY if self.keys_only else SHARES

    @property
    def most_keys(self) -> dict[str, int]:
        """How many keys of a person count in each union."""
        return {"queries": self.most_queries, "clicks": min(self.most_queries, MOST_CLICKS)}

    @property
    def counted_in_full(self) -> int:
        """Up to how many published items a person counts in full for each."""
        return min(self.most_queries, COUNTED_IN_FULL)

    @cached_property
    def unit(self) -> int:
        """The length in whole numbers that no person's vector exceeds, in any step."""
        return _best(self).unit

    @cached_property
    def sigmas(self) -> Mapping[str, int]:
        """σ of each step, in units of 1/`unit`."""
        return _best(self).sigmas

    @cached_property
    def thresholds(self) -> Mapping[str, int]:
        """What a key of each union must exceed."""
        return _best(self).thresholds

    def compute(self) -> None:
        """All numbers, kept with the rule: workers are sent these, and compute none of their own."""
        _ = self.unit, self.sigmas, self.thresholds

    @property
    def union_delta(self) -> Fraction:
        """The part of δ that is for keys of one person, in both unions together."""
        return decimal(self.delta) * Fraction(_best(self).of_unions, SPLITS)

    @property
    def rho(self) -> Fraction:
        """All steps together are ρ-zero-concentrated, but for `union_delta`."""
        return joint_rho(self.sigmas.values(), unit=self.unit)

    @property
    def concentrated(self) -> Concentrated:
        """How a ledger adds it up: one Gaussian mechanism, but for `union_delta`."""
        rho = joint_smoothed_rho(self.sigmas.values(), unit=self.unit)
        return Concentrated(rho=rho, slack=self.union_delta, gaussian=True)

    def in_words(self) -> str:
        """For statements and pages."""
        noise = {name: f"σ = {self.sigmas[name] / self.unit:.4g}" for name in UNIONS}
        above = {name: f"{self.thresholds[name] / self.unit:.4g}" for name in UNIONS}
        return (
            "each user gives 1/√d to each of d distinct queries; a query is published where its sum of weights, with "
            f"discrete Gaussian noise ({noise['queries']}), is above {above['queries']}, and a click on it where its "
            f"own sum, among clicks on published queries and with noise ({noise['clicks']}), is above {above['clicks']}"
        )


@dataclass(frozen=True)
class _Split:
    """What comes of one split of δ between the noise and the unions."""

    of_unions: int
    """In parts of `SPLITS`."""
    unit: int
    sigmas: Mapping[str, int]
    thresholds: Mapping[str, int]

    @classmethod
    def of(cls, rule: WeightedSelection, of_unions: int) -> _Split:
        # The factors are larger than what rounding to floats may add.
        noise = float(Fraction(rule.delta) * Fraction(SPLITS - of_unions, SPLITS)) * (1 - 1e-12)
        each = float(Fraction(rule.delta) * Fraction(of_unions, SPLITS * len(UNIONS))) * (1 - 1e-12)
        unit = FINEST_UNIT
        sigmas = joint_sigmas(epsilon=rule.epsilon, delta=noise, shares=rule.shares, unit=unit)
        while max(sigmas.values()) > LARGEST_SIGMA:
            unit //= 2
            sigmas = joint_sigmas(epsilon=rule.epsilon, delta=noise, shares=rule.shares, unit=unit)
        thresholds = {
            name: union_threshold(sigma=sigmas[name], delta=each, most_keys=most, unit=unit)
            for name, most in rule.most_keys.items()
        }
        return cls(of_unions, unit, sigmas, thresholds)


@lru_cache(maxsize=64)
def _best(rule: WeightedSelection) -> _Split:
    """The split with the lowest thresholds in sum; more for the unions lowers them, more noise raises them."""

    def height(of_unions: int) -> Fraction:
        split = _Split.of(rule, of_unions)
        return Fraction(sum(split.thresholds.values()), split.unit)

    low, high = 1, SPLITS - 1  # the height falls, then rises
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if height(middle) <= height(middle + 1) else (middle + 1, high)
    return _Split.of(rule, low)

"""What releases of different kinds lose together; `composition.md` has the proof.

An entry of a ledger keeps what it was: pure ε, (ε, δ), or by ρ, with or without the exact curve of a Gaussian. Within a
budget (ε, δ) a set of entries *fits* where one of these ways of adding it up says so:

- *basic*: all ε and all δ add up;
- *Gaussian*: the entries that are Gaussian mechanisms are together one with the sum of their ρ, whose δ at every ε is
  known exactly; their slacks and all others add up;
- *zCDP and advanced composition*: entries by ρ, and of the others those with small ε, have losses whose moments add up
  (mean and variance proxy); their slacks, and entries with larger ε, add up. Which ε are small enough is tried out.

All are computed in whole numbers and fractions and rounded against the holder (`bounds.py`).

>>> from queryveil.privacy import Concentrated
>>> from queryveil.privacy.calibration import analytic_gaussian_sigma
>>> rho = 1 / (2 * Fraction(analytic_gaussian_sigma(epsilon=1.0, delta=1e-7, sensitivity=1.0)) ** 2)
>>> weekly = Charge.dataset(epsilon=1.0, delta=1e-7, concentrated=Concentrated(rho=rho, gaussian=True))
>>> round(spent(Counter({Entry.of(weekly): 52}), delta=10**11) / EPSILON_UNIT, 2)  # where basic composition says 52
8.77
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Final, Literal, TypeAlias

from queryveil.errors import DataError
from queryveil.privacy.accounting import DELTA_UNIT, EPSILON_UNIT, Loss, when_replaced
from queryveil.privacy.bounds import concentrated_delta, exponential, gaussian_delta
from queryveil.privacy.guarantee import Charge

Kind: TypeAlias = Literal["pure", "approx", "zcdp", "gaussian"]
Account: TypeAlias = Mapping["Entry", int]
"""How often each entry was charged."""

RHO_UNIT: Final = 10**15
SMOOTHED: Final = 2
"""What a Gaussian entry adds to ε, in 10^-9, for what smoothing changes (`joint_gaussian.py`)."""
MARGIN: Final = Fraction(1, 10**9)
"""What is kept back of δ for the same."""
CLOSE_ENOUGH: Final = 1_000_000
"""ε of many releases is told to so many parts of itself."""
MOST_TIMES: Final = 100_000
MOST_EPSILON: Final = 10**4 * EPSILON_UNIT
MOST_THRESHOLDS: Final = 12
BY_RHO: Final = ("zcdp", "gaussian")
KEPT: Final = re.compile(r"[^;]*; (zcdp|gaussian) ([0-9]{1,40}) ([0-9]{1,40}) ([0-9]{1,40})")
"""How the ledger keeps an entry by ρ."""


@dataclass(frozen=True)
class Entry:
    """What one release costs a person: its own promise (ε, δ), and by ρ how it adds up.

    In whole numbers of 10^-9 (ε, `pure`), 10^-18 (δ, `slack`) and 10^-15 (ρ), all rounded up.
    """

    epsilon: int
    delta: int
    kind: Kind
    rho: int = 0
    slack: int = 0
    pure: int = 0
    moments: bool = True
    """Whether the slack is a share of runs, as adding up by moments takes for granted."""

    @classmethod
    def of(cls, charge: Charge) -> Entry:
        """What a charge costs."""
        loss, more = Loss.of(charge), charge.concentrated
        if more is None:
            return cls.plain(loss)
        return cls(
            loss.epsilon,
            loss.delta,
            "gaussian" if more.gaussian else "zcdp",
            math.ceil(more.rho * RHO_UNIT),
            math.ceil(more.slack * DELTA_UNIT),
            math.ceil(more.pure * EPSILON_UNIT),
        )

    @classmethod
    def plain(cls, loss: Loss) -> Entry:
        """Without a ρ."""
        return cls(loss.epsilon, loss.delta, "approx" if loss.delta else "pure")

    @property
    def loss(self) -> Loss:
        """What it promises by itself."""
        return Loss(self.epsilon, self.delta)

    def as_text(self, model: str) -> str:
        """The guarantee's model with what ρ tells, as the ledger keeps it."""
        if ";" in model:
            raise ValueError("the model of a guarantee is one word.")
        return f"{model}; {self.kind} {self.rho} {self.slack} {self.pure}" if self.kind in BY_RHO else model

    @classmethod
    def read(cls, loss: Loss, model: str) -> Entry:
        """From what the ledger keeps; its database would keep anything in any column."""
        known = isinstance(model, str) and all(type(n) is int and n >= 0 for n in (loss.epsilon, loss.delta))
        if known and ";" not in model:
            return cls.plain(loss)
        found = KEPT.fullmatch(model) if known else None
        if found is None or not int(found[2]):
            raise DataError("an entry of the ledger is of a kind that this version does not know.")
        rho, slack, pure = map(int, found.groups()[1:])
        return cls(loss.epsilon, loss.delta, "gaussian" if found[1] == "gaussian" else "zcdp", rho, slack, pure)


@lru_cache(maxsize=1024)
def replaced(entry: Entry) -> Entry:
    """The same for a person's records replaced by others: a removal and an addition.

    ρ counts four times. A slack s becomes s + F(s), F(s) the most that a Gaussian test of level s finds; that is not a
    share of runs any more, so such an entry counts as Gaussian or by ε and δ, but not by moments. What is by ρ
    otherwise and has a slack, or a pure part, counts by ε and δ.
    """
    loss = when_replaced(entry.loss)
    if entry.kind not in BY_RHO or entry.pure or (entry.slack and entry.kind == "zcdp"):
        return Entry.plain(loss)
    slack = entry.slack
    if slack:
        slack += math.ceil(_most_found(Fraction(entry.rho, RHO_UNIT), Fraction(slack, DELTA_UNIT)) * DELTA_UNIT)
    return Entry(loss.epsilon, loss.delta, entry.kind, 4 * entry.rho, slack, moments=not slack)


def _most_found(rho: Fraction, level: Fraction) -> Fraction:
    """F(level) = Φ(Φ⁻¹(level) + μ), rounded up: level · e^t + δ(t) for every t, best where both laws weigh alike."""
    from scipy.special import ndtri  # SciPy takes a while to import

    mu = math.sqrt(2 * rho)
    best = Fraction(max(0.0, mu * -float(ndtri(float(level))) - mu * mu / 2))
    return level * exponential(best, up=True) + gaussian_delta(rho, best)


def fits(budget: Loss, account: Account) -> bool:
    """Whether everything in an account is within a budget, by one of the ways of adding it up."""
    if budget.covers(basic(account)):
        return True
    if not budget.delta or budget.epsilon < 0:
        return False
    return _gaussian_fits(budget, account) or any(
        _concentrated_fits(budget, account, smallest) for smallest in _thresholds(account)
    )


def basic(account: Account) -> Loss:
    """All ε and all δ, added up."""
    return Loss(
        sum(entry.epsilon * times for entry, times in account.items()),
        sum(entry.delta * times for entry, times in account.items()),
    )


def _gaussian_fits(budget: Loss, account: Account) -> bool:
    rho, rest = 0, Loss(0, 0)
    for entry, times in account.items():
        if entry.kind == "gaussian":
            rho += times * entry.rho
            rest += Loss(times * (entry.pure + SMOOTHED), times * entry.slack)
        else:
            rest += Loss(times * entry.epsilon, times * entry.delta)
    if not rho or not budget.covers(rest):
        return False
    left = budget - rest
    found = gaussian_delta(Fraction(rho, RHO_UNIT), Fraction(left.epsilon, EPSILON_UNIT))
    return found <= Fraction(left.delta, DELTA_UNIT) * (1 - MARGIN)


def _concentrated_fits(budget: Loss, account: Account, largest: int) -> bool:
    """By moments: entries by ρ, and the others whose ε is at most `largest`."""
    mean, variance, rest = Fraction(0), Fraction(0), Loss(0, 0)
    for entry, times in account.items():
        if entry.kind in BY_RHO and entry.moments:
            rho, (more, spread) = Fraction(entry.rho, RHO_UNIT), _moments(entry.pure)
            mean, variance = mean + times * (rho + more), variance + times * (2 * rho + spread)
            rest += Loss(times * SMOOTHED, times * entry.slack)
        elif entry.epsilon <= largest:
            more, spread = _moments(entry.epsilon)
            mean, variance = mean + times * more, variance + times * spread
            rest += Loss(0, times * entry.delta)
        else:
            rest += Loss(times * entry.epsilon, times * entry.delta)
    if not variance or not budget.covers(rest):
        return False
    left = budget - rest
    found = concentrated_delta(mean, variance, Fraction(left.epsilon, EPSILON_UNIT))
    return found <= Fraction(left.delta, DELTA_UNIT) * (1 - MARGIN)


def _thresholds(account: Account) -> Iterator[int]:
    """Which ε may count as small: none, or those up to one that occurs; of many, some all over."""
    distinct = sorted({entry.epsilon for entry in account if entry.kind not in BY_RHO or not entry.moments})
    step = max(1, math.ceil(len(distinct) / MOST_THRESHOLDS))
    yield 0
    yield from distinct[::-1][::step]


@lru_cache(maxsize=1024)
def _moments(epsilon: int) -> tuple[Fraction, Fraction]:
    """Mean and variance proxy of the loss of a pure ε: ε · tanh(ε/2) and ε² (see `composition.md`), rounded up."""
    loss = Fraction(epsilon, EPSILON_UNIT)
    mean = loss if loss > 50 else loss * (1 - 2 / (1 + exponential(loss, up=True)))
    return Fraction(math.ceil(mean * RHO_UNIT), RHO_UNIT), loss * loss


def spent(account: Account, delta: int) -> int | None:
    """The ε, in 10^-9, that an account costs at a δ in 10^-18, rounded up; None where that δ is spent by itself."""
    plain = basic(account)
    high = plain.epsilon if plain.delta <= delta else EPSILON_UNIT
    while not fits(Loss(high, delta), account):
        if high > MOST_EPSILON:
            return None
        high *= 2
    low = 0
    while high - low > max(1, high // CLOSE_ENOUGH):
        middle = (low + high) // 2
        low, high = (low, middle) if fits(Loss(middle, delta), account) else (middle, high)
    return high if high > 1 or not fits(Loss(0, delta), account) else 0


def left(budget: Loss, account: Account) -> Loss:
    """(ε, δ) that one more release may cost by itself, of whatever kind, rounded down: nothing is left where it is 0.

    Where the plain sums fit, δ is what no release has asked for so far, with the largest ε beside it. Where they do
    not, another way of adding up takes all of δ, and ε is what a pure release may cost.
    """
    plain = budget - basic(account)
    low, delta = (plain.epsilon, plain.delta) if min(plain.epsilon, plain.delta) >= 0 else (0, 0)
    high = budget.epsilon
    if not fits(budget, _with(account, Entry.plain(Loss(low, delta)))):
        return Loss(0, 0)
    while high - low > max(1, high // CLOSE_ENOUGH):
        middle = (low + high) // 2
        low, high = (middle, high) if fits(budget, _with(account, Entry.plain(Loss(middle, delta)))) else (low, middle)
    return Loss(low, delta)


def times_left(budget: Loss, account: Account, entry: Entry) -> int:
    """How many more releases like this one fit, counted up to `MOST_TIMES`."""
    low, high = 0, 1
    while high <= MOST_TIMES and fits(budget, _with(account, entry, high)):
        low, high = high, 2 * high
    high = min(high, MOST_TIMES + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(budget, _with(account, entry, middle)) else (low, middle)
    return low


def _with(account: Account, entry: Entry, times: int = 1) -> Account:
    return Counter(account) + Counter({entry: times})

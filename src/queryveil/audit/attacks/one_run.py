"""Audit a claim of differential privacy in one run of the mechanism.

Steinke, Nasr and Jagielski (2023), "Privacy Auditing with One (1) Training Run". Many canaries are planted, each by a
fair coin of its own; the mechanism runs once; from what it published the auditor guesses coins, and may abstain. If the
mechanism is ε-DP, the number of right guesses is no larger than that of as many coins which are each right with
probability e^ε / (1 + e^ε). So `epsilon_at_least` is a lower bound on ε that is wrong with probability at most
`miss`; δ enters by their Theorem 5.2. A bound above the claim proves the claim wrong; one below it proves nothing.

The coins decide who takes part (or what they asked); everything else in the log is public and made up, so the outcome
tells nothing about anybody's log and may be published. Canaries never get into a release.

`rehearse` tries several kinds of canaries (`canaries.py`) and levels at which to abstain in runs of their own, and
picks the best; the run that counts is independent of them, so no correction is due.

Cost: one run of the mechanism on a small synthetic log for each kind of canary, and one more.

>>> [round(epsilon_at_least(v, r), 3) for v, r in ((600, 1000), (731, 1000), (900, 1000), (1000, 1000), (90, 100))]
[0.297, 0.881, 2.021, 5.809, 1.631]
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import count
from typing import Any, ClassVar, Final, Protocol

import numpy as np
import numpy.typing as npt
from scipy import special

from queryveil.audit.context import AuditContext
from queryveil.audit.finding import (
    CANNOT_BE_MADE_AGAIN,
    Finding,
    Found,
    LeftOut,
    Question,
)
from queryveil.checks import real_number, require, whole_number
from queryveil.errors import ParameterError, QueryVeilError
from queryveil.log import QueryLog
from queryveil.privacy import Noise
from queryveil.release.mechanism import Mechanism
from queryveil.release.release import Release

Floats = npt.NDArray[np.float64]
Flags = npt.NDArray[np.bool_]

MISS: Final = 1e-4
LARGEST_EPSILON: Final = 50.0
LEVELS: Final = 12


class Canaries(Protocol):
    """One way to plant canaries in a made-up log, and to read a release for traces of them."""

    @property
    def name(self) -> str:
        """What it is called in a report."""

    @property
    def canaries(self) -> int:
        """How many there are."""

    def log(self, coins: Flags) -> QueryLog:
        """The log with each canary planted as its coin says."""

    def evidence(self, release: Release) -> Floats:
        """For each canary how much speaks for its coin being heads; below 0 for tails, 0 where nothing tells."""


@dataclass(frozen=True)
class OneRun:
    """The outcome: so many guesses of so many coins, so many right, and the ε that proves."""

    right: int
    guesses: int
    canaries: int
    epsilon: float
    detectable: float
    """The largest ε that so many guesses could have shown."""
    kind: str


def epsilon_at_least(
    right: int, guesses: int, *, miss: float = 0.05, delta: float = 0.0, canaries: int | None = None
) -> float:
    """The largest ε that `right` of `guesses` coins rule out, at most 50; wrong with probability at most `miss`."""
    planted = guesses if canaries is None else canaries
    require(
        whole_number("guesses", guesses, at_least=0),
        whole_number("right", right, at_least=0, at_most=guesses),
        whole_number("canaries", planted, at_least=guesses),
        real_number("miss", miss, above=0, below=1, suggest=0.05),
        real_number("delta", delta, at_least=0, below=1, suggest=1e-6),
    )
    low, high = 0.0, LARGEST_EPSILON
    if _chance(right, guesses, low, delta, planted) > miss:
        return 0.0
    if _chance(right, guesses, high, delta, planted) <= miss:
        return high
    while high - low > 1e-9:
        middle = (low + high) / 2
        if _chance(right, guesses, middle, delta, planted) <= miss:
            low = middle
        else:
            high = middle
    return low


def _chance(right: int, guesses: int, epsilon: float, delta: float, canaries: int) -> float:
    """How likely an (ε, δ)-DP mechanism lets at least so many guesses be right (Theorem 5.2), at most."""
    honest = 1 / (1 + math.exp(-epsilon))
    # The distribution W of right guesses is binomial; scipy.stats checks its arguments for longer than it computes.
    tail = float(special.betainc(right, guesses - right + 1, honest)) if right else 1.0
    if not delta or not right:
        return tail
    fewer = np.arange(right - 1, -1, -1)
    ways = special.gammaln(guesses + 1) - special.gammaln(fewer + 1) - special.gammaln(guesses - fewer + 1)
    chances = np.exp(ways + fewer * math.log(honest) - (guesses - fewer) * (epsilon + math.log1p(math.exp(-epsilon))))
    below = np.cumsum(chances)  # P(right − i ≤ W < right)
    return min(1.0, tail + 2 * canaries * delta * float((below / np.arange(1, right + 1)).max()))


@dataclass(frozen=True)
class Rehearsed:
    """The kind of canary and the level of evidence below which to abstain that did best in rehearsal."""

    canaries: Canaries
    level: float
    delta: float

    def run(self, mechanism: Mechanism, noise: Noise, *, miss: float = MISS) -> OneRun:
        """The run that counts."""
        coins, evidence = _observed(mechanism, self.canaries, noise)
        return _judged(coins, evidence, self.level, self.canaries, miss, self.delta)


def rehearse(
    mechanism: Mechanism, kinds: Sequence[Canaries], noises: Iterator[Noise], *, miss: float = MISS
) -> Rehearsed:
    """Try every kind of canary once and keep the one that would have shown the largest ε."""
    if not kinds:
        raise ParameterError(["there must be at least one kind of canary to rehearse."])
    delta = float(getattr(mechanism.guarantee(), "delta", 0.0))
    best, shown = Rehearsed(kinds[0], 0.0, delta), -1.0
    for kind in kinds:
        coins, evidence = _observed(mechanism, kind, next(noises))
        for level in _levels(evidence):
            epsilon = _judged(coins, evidence, level, kind, miss, delta).epsilon
            if epsilon > shown:
                best, shown = Rehearsed(kind, level, delta), epsilon
    return best


def seeded_noises(start: int) -> Iterator[Noise]:
    """Noise for one run after the other."""
    return (Noise.seeded(number) for number in count(start))


def _observed(mechanism: Mechanism, kind: Canaries, noise: Noise) -> tuple[Flags, Floats]:
    coins = noise.stream("one run: coins").bernoulli(Fraction(1, 2), kind.canaries)
    return coins, kind.evidence(mechanism.protect(kind.log(coins), noise))


def _judged(coins: Flags, evidence: Floats, level: float, kind: Canaries, miss: float, delta: float) -> OneRun:
    told = (np.abs(evidence) >= level) & (evidence != 0)
    guesses = int(told.sum())
    right = int(((evidence > 0) == coins)[told].sum())
    found = epsilon_at_least(right, guesses, miss=miss, delta=delta, canaries=len(coins))
    best = epsilon_at_least(guesses, guesses, miss=miss, delta=delta, canaries=len(coins))
    return OneRun(right, guesses, len(coins), found, best, kind.name)


def _levels(evidence: Floats) -> Iterable[float]:
    strength = np.abs(evidence[evidence != 0])
    if not len(strength):
        return [0.0]
    return [0.0, *np.unique(np.quantile(strength, np.linspace(0, 1, LEVELS)[1:-1])).tolist()]


def run_once(mechanism: Mechanism) -> OneRun | None:
    """The best of its kinds of canary in a run of this mechanism, with seeded noise; None where it has none.

    It follows from the mechanism, so it is found once: an audit and the twin of its public edition ask for the same.
    """
    try:
        hash(mechanism)
    except TypeError:  # a third party's that is not frozen
        return _run_once(mechanism)
    remembered: OneRun | None = _remembered(mechanism)
    return remembered


def _run_once(mechanism: Mechanism) -> OneRun | None:
    noises = seeded_noises(FIRST_SEED)
    make_canaries = getattr(mechanism, "canaries", None)
    kinds = make_canaries(noises) if make_canaries else []
    return rehearse(mechanism, kinds, noises).run(mechanism, next(noises)) if kinds else None


_remembered: Any = lru_cache(maxsize=16)(_run_once)
forget = _remembered.cache_clear
FIRST_SEED = 1_000
DP = ("pure-dp", "approx-dp")


class OneRunAudit:
    """A lower bound on ε by canaries in a re-run of the mechanism; the log at hand is not touched."""

    key: ClassVar[str] = "one-run"
    title: ClassVar[str] = "Loss proved by canaries in one run"
    question: ClassVar[Question] = "inference"
    counts_toward_risk: ClassVar[bool] = False

    def run(self, context: AuditContext) -> Found:
        """The findings, or what is missing."""
        title = self.title
        if context.promise.get("model") not in DP:
            return
        try:
            found = run_once(context.made_again())
        except QueryVeilError:
            yield LeftOut(title=title, reason=CANNOT_BE_MADE_AGAIN, required=True, by_settings=True)
            return
        if found is None:
            yield LeftOut(title=title, reason="no kind of canary is known that tests this claim", by_settings=True)
            return
        yield Finding(
            key="one-run", title=title, kind="risk", topic="one-run audit", question="inference", value=found.epsilon,
            low=found.epsilon, chance=0.0, bound=float(context.promise["epsilon"]),
            trials=found.guesses, better="lower", unit="epsilon",
            explanation=f"A lower bound of ε (wrong with probability {MISS:g}) from {found.right:,} right of "
            f"{found.guesses:,} guesses about {found.canaries:,} canaries ({found.kind}) in a run of the same "
            "mechanism on "
            f"a made-up log, so no figure of the private one. Nothing above {found.detectable:.3g} could have shown. "
            "It "
            "proves a claim wrong, never right.",
        )  # fmt: skip

"""What an audit found, as plain values that the report, the page and the command line all show alike.

A `Finding` is one number with everything needed to judge it: its interval, the same measure on the raw log, what
chance alone would give and what the promise allows. An `Audit` is all findings about one release, and what is missing.

>>> found = Finding(key="uniqueness-2", title="Singled out by 2 known queries", kind="risk", topic="uniqueness",
...                 question="singling out", value=0.02, low=0.01, high=0.04, raw=0.9, chance=0.001, bound=None,
...                 trials=500, better="lower", unit="share", explanation="Share of users whom 2 queries single out.")
>>> found.keeps_its_bound() is None
True
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from html import escape
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from scipy import stats

from queryveil.display import table
from queryveil.privacy import Noise

Kind = Literal["risk", "utility"]
Question = Literal["singling out", "linkability", "inference"]
Unit = Literal["share", "epsilon", "count", "distance"]

HEADER: Final = ("", "figure", "95 % interval", "raw log", "chance or floor", "promise")
ENOUGH_TRIALS: Final = 100
"""With fewer an interval says little, and its upper end decides nothing."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One measured figure. `topic` is the attack's name for a risk and the task's name for a utility.

    `raw` is the same figure on the raw log and `chance` what needs no release at all: for a risk the attacker who
    guesses, for a utility the release that knows nothing. So a utility lies between its floor and its ceiling.
    """

    key: str
    title: str
    kind: Kind
    topic: str
    value: float
    better: Literal["lower", "higher"]
    unit: Unit
    explanation: str
    question: Question | None = None
    low: float | None = None
    high: float | None = None
    raw: float | None = None
    chance: float | None = None
    bound: float | None = None
    trials: int | None = None
    successes: int | None = None
    """How many of the trials went as the attacker wishes, where the figure is a share of trials."""
    population: str = ""
    """Of whom or what the figure speaks, in words: "released people", "released records"."""
    scenario: str = ""
    """What has to be true beside the release itself, where that is more than a recipient has: in words."""
    counts_toward_risk: bool = True
    """False for figures that are shown and left out of the one number for "how risky" (`worst_case.py`)."""
    published: int | None = None
    """How many things of the kind that is tried the published log has, where the trials count the raw log's."""
    detail: str = ""
    """Exact counts behind the figure, in words: for the holder. `explanation` holds public settings only."""

    def keeps_its_bound(self) -> bool | None:
        """Whether the figure is compatible with what was promised: None where nothing was promised about it.

        The promise is broken only where even the favourable end of the interval lies beyond the bound.
        """
        if self.bound is None:
            return None
        favourable = self.low if self.better == "lower" else self.high
        least = self.value if favourable is None else favourable
        return least <= self.bound if self.better == "lower" else least >= self.bound

    @property
    def too_few(self) -> bool:
        """Whether the figure comes from too few trials to decide anything by its upper end; a count has no trials."""
        sampled = self.kind == "risk" and self.unit == "share" and self.low is not None
        return sampled and self.trials is not None and self.trials < ENOUGH_TRIALS

    @property
    def smallest_shown(self) -> float | None:
        """The smallest risk that so many trials can show: none in n speaks for less than 3/n (at 95 %)."""
        return min(1.0, 3 / self.trials) if self.low is not None and self.trials else None

    def _repr_html_(self) -> str:
        """In a notebook: the figure with its interval, the raw log and chance beside it, and what it means."""
        return f"{table([_row(self)], header=HEADER)}<p>{escape(self.explanation)}</p>"

    def share_kept(self) -> float | None:
        """Where a utility lies between its floor (0) and its ceiling (1); None where it has not both."""
        if self.kind != "utility" or self.raw is None or self.chance is None or self.raw == self.chance:
            return None
        return min(1.0, max(0.0, (self.value - self.chance) / (self.raw - self.chance)))


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """A measure that could not be made, and what it would need; `required` where no answer is sound without it."""

    title: str
    reason: str
    required: bool = False
    by_settings: bool = False
    """Whether the reason follows from the settings and from what was given, not from what the logs hold."""


@dataclass(frozen=True, kw_only=True)
class Audit:
    """All findings about one release. `released` describes it (its manifest, or what is known of a foreign log)."""

    released: dict[str, Any]
    findings: tuple[Finding, ...]
    left_out: tuple[LeftOut, ...] = ()
    context: dict[str, Any] = field(default_factory=dict)
    fingerprint: str = ""
    """Of the released log's users and texts, so that a report is not written into another release."""

    def risks(self) -> tuple[Finding, ...]:
        """The findings about what an attacker gets."""
        return tuple(found for found in self.findings if found.kind == "risk")

    def utilities(self) -> tuple[Finding, ...]:
        """The findings about what is kept."""
        return tuple(found for found in self.findings if found.kind == "utility")

    def broken(self) -> tuple[Finding, ...]:
        """The findings that contradict the promise."""
        return tuple(found for found in self.findings if found.keeps_its_bound() is False)

    def _repr_html_(self) -> str:
        """In a notebook: every figure with its interval, the raw log and chance beside it."""
        missing = [(item.title, "left out", item.reason, "", "", "") for item in self.left_out]
        return table([*map(_row, self.findings), *missing], title="Audit", header=HEADER)

    def as_json(self) -> dict[str, Any]:
        """Plain values for JSON and for the page."""
        return asdict(self)


def _row(found: Finding) -> tuple[str, ...]:
    """A figure in a notebook's table, written as in reports."""
    from queryveil.audit.formatting import TOO_FEW, between, format_figure  # it is made of findings

    beside = (
        "" if value is None else format_figure(value, found.unit) for value in (found.raw, found.chance, found.bound)
    )
    figure = TOO_FEW if found.too_few else format_figure(found.value, found.unit)
    return found.title, figure, between(found) or "", *beside


@dataclass(frozen=True)
class Success:
    """How often an attack was right, with the exact (Clopper–Pearson) upper bound of its chance at 95 %."""

    right: int
    tried: int

    @property
    def measured(self) -> bool:
        """Whether there was anything to try; without, nothing is shown, and no bound below 1 is claimed."""
        return self.tried > 0

    @property
    def share(self) -> float:
        """Right guesses of all; not a number where nothing was tried."""
        return self.right / self.tried if self.tried else float("nan")

    def interval(self, confidence: float = 0.95) -> tuple[float, float]:
        """The exact (Clopper–Pearson) two-sided interval."""
        miss = (1 - confidence) / 2
        low = stats.beta.ppf(miss, self.right, self.tried - self.right + 1) if self.right else 0.0
        high = stats.beta.ppf(1 - miss, self.right + 1, self.tried - self.right) if self.right < self.tried else 1.0
        return float(low), float(high)

    @property
    def at_most(self) -> float:
        """With 95 % confidence the chance of a right guess is not above this."""
        if self.right >= self.tried:
            return 1.0
        return float(stats.beta.ppf(0.95, self.right + 1, self.tried - self.right))

    @property
    def at_least(self) -> float:
        """With 95 % confidence the chance of a right guess is not below this."""
        return float(stats.beta.ppf(0.05, self.right, self.tried - self.right + 1)) if self.right else 0.0


Found: TypeAlias = Iterator[Finding | LeftOut]

RESAMPLED: Final = 200
NEEDS_OWNERS: Final = "needs the true owners: give the secrets file of the release"
NOBODY_BEHIND: Final = "the released users are made up, so nobody is behind a pseudonym"
CANNOT_BE_MADE_AGAIN: Final = "the mechanism cannot be made again here from the manifest's parameters"


def risk(
    key: str,
    title: str,
    topic: str,
    question: Question,
    success: Success,
    explanation: str,
    *,
    raw: float | None = None,
    chance: float | None = None,
    bound: float | None = None,
    confidence: float = 0.95,
    population: str = "",
    scenario: str = "",
    detail: str = "",
) -> Finding:
    """An attack's success as a finding, with its exact interval; the best of n attacks is given 1 − 0.05/n."""
    low, high = success.interval(confidence)
    return Finding(
        key=key, title=title, kind="risk", topic=topic, question=question, value=success.share, low=low, high=high,
        raw=raw, chance=chance, bound=bound, trials=success.tried, successes=success.right, better="lower",
        unit="share", explanation=explanation, population=population, scenario=scenario, detail=detail,
        counts_toward_risk=not scenario,
    )  # fmt: skip


def kept(
    key: str,
    title: str,
    topic: str,
    value: float,
    explanation: str,
    *,
    better: Literal["lower", "higher"] = "higher",
    unit: Unit = "share",
    interval: tuple[float, float] | None = None,
    raw: float | None = None,
    chance: float | None = None,
    trials: int | None = None,
    published: int | None = None,
    population: str = "",
    detail: str = "",
) -> Finding:
    """A measure of utility as a finding; `chance` is its floor, what a release that knows nothing would give."""
    low, high = interval or (None, None)
    return Finding(
        key=key, title=title, kind="utility", topic=topic, value=value, low=low, high=high, raw=raw, chance=chance,
        trials=trials, published=published, better=better, unit=unit, explanation=explanation, detail=detail,
        population=population,
    )  # fmt: skip


def resampled(values: npt.NDArray[np.float64]) -> tuple[float, float]:
    """A 95 % interval of the mean by resampling (bootstrap, percentiles), from a fixed seed."""
    picks = Noise.seeded(RESAMPLED).stream("bootstrap").below(len(values), RESAMPLED * len(values))
    means = values[picks].reshape(RESAMPLED, len(values)).mean(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(low), float(high)

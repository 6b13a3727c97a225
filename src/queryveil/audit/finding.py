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

from dataclasses import asdict, dataclass, field
from typing import Any, Literal

Kind = Literal["risk", "utility"]
Question = Literal["singling out", "linkability", "inference"]
Unit = Literal["share", "epsilon", "count", "distance"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One measured figure. `topic` is the attack's name for a risk and the task's name for a utility."""

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

    def as_json(self) -> dict[str, Any]:
        """Plain values for `--json` and for the page."""
        return asdict(self)

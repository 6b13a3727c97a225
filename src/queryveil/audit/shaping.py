"""How figures become findings: what risks and utilities share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, Literal, TypeAlias

from queryveil.audit.attacks.released_stream import Success
from queryveil.audit.context import Material
from queryveil.audit.finding import Finding, LeftOut, Question, Unit

Found: TypeAlias = Iterator[Finding | LeftOut]
Step: TypeAlias = Callable[[Material], Iterable[Finding | LeftOut]]

REPLACES_TEXTS: Final = ("semantic", "obfuscate")
"""Mechanisms after which a record no longer holds the text that was asked."""
NEEDS_OWNERS: Final = "needs the true owners: give the secrets file of the release (--secrets)"
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
    detail: str = "",
) -> Finding:
    """An attack's success as a finding, with its exact interval; the best of n attacks is given 1 − 0.05/n."""
    low, high = success.interval(confidence)
    return Finding(
        key=key, title=title, kind="risk", topic=topic, question=question, value=success.share, low=low, high=high,
        raw=raw, chance=chance, bound=bound, trials=success.tried, better="lower", unit="share",
        explanation=explanation, detail=detail,
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
    detail: str = "",
) -> Finding:
    """A measure of utility as a finding."""
    low, high = interval or (None, None)
    return Finding(
        key=key, title=title, kind="utility", topic=topic, value=value, low=low, high=high, raw=raw, chance=chance,
        trials=trials, published=published, better=better, unit=unit, explanation=explanation, detail=detail,
    )  # fmt: skip


def not_attacked(material: Material, title: str) -> LeftOut:
    """An attack that could not be judged because nobody is known behind the pseudonyms."""
    reason = why_no_owners(material)
    return LeftOut(title=title, reason=reason, required=reason == NEEDS_OWNERS, by_settings=True)


def why_no_owners(material: Material) -> str:
    """Why nobody is known behind the pseudonyms."""
    if material.secrets is not None or (material.mechanism == "sanitize" and material.safe):
        return NOBODY_BEHIND
    return NEEDS_OWNERS

"""The decision sheet: what a person needs to decide on a release, on one page, alike in terminal, report and page.

The question, the holder's limit against what was measured, what a recipient really receives, five queries before and
after, the promise for a person and for a query, one verdict, and the decision with name, reason and date once it was
made (`report.approval`). Figures are told in natural frequencies, which people judge better than percentages: of so
many tried, so many were found, and how many more could be.

A sheet follows from the audit, the manifest and the limit alone: the same release gives the same sheet.

>>> found = Finding(key="k", title="Found by two queries", kind="risk", topic="a", question="singling out", value=0.0,
...                 low=0.0, high=0.049, trials=71, successes=0, better="lower", unit="share", explanation="")
>>> in_natural_frequencies(found)
'of 71 tried, none; with so few, up to 5 in 100 could be'
>>> in_natural_frequencies(replace(found, value=0.031, high=0.038, trials=2000, successes=62))
'of 2,000 tried, 62; at most 4 in 100'
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from html import escape
from typing import Any, Final

from queryveil import mechanisms
from queryveil.audit.before_after import Pair
from queryveil.audit.finding import Audit, Finding
from queryveil.audit.formatting import format_figure
from queryveil.audit.verdict import ACCEPTED_RISK, Verdict, above_limit, verdict
from queryveil.audit.worst_case import QUESTIONS, bad_end, comparable, nobody_behind
from queryveil.errors import QueryVeilError
from queryveil.privacy import Charge
from queryveil.release.mechanism import promise_in_short

QUESTION: Final = "May this be published?"
RECEIVED: Final = {
    "contents-typed": "texts as typed",
    "contents-label": "labels",
    "contents-replaced": "other texts",
    "contents-synthetic": "made up",
}


@dataclass(frozen=True)
class Measured:
    """One of the regulator's three questions: the attack that gets furthest, held against the limit."""

    question: str
    attack: str
    sentence: str
    above: bool
    tried: bool = True

    @property
    def standing(self) -> str:
        """How it stands to the limit."""
        return "above the limit" if self.above else "within the limit" if self.tried else "not to be tried"


@dataclass(frozen=True)
class DecisionSheet:
    """All that is on the sheet; plain values."""

    verdict: Verdict
    max_risk: float
    measured: tuple[Measured, ...]
    received: tuple[tuple[str, float], ...]
    """What the released records hold, in shares: only what there is, the most first."""
    for_a_person: str
    for_a_query: str
    kept: tuple[tuple[str, float], ...]
    """What is at least kept for each task, between knowing nothing (0) and the raw log (1), the most first."""
    pairs: tuple[Pair, ...] = ()
    told: bool = True
    """Whether figures may be told: in the public edition of few people none is, measured or not."""
    purpose: str = ""
    """What the release is for, as its manifest says."""
    also_asked: float | None = None
    """The share of made-up records whose text is in the log all the same; for the holder alone."""

    @property
    def above(self) -> bool:
        """Whether an attack gets more than is accepted."""
        return any(line.above for line in self.measured)

    @property
    def limit(self) -> str:
        """The holder's limit against what was measured, in one sentence."""
        accepted = f"The limit is {per_hundred(self.max_risk)} for any attack"
        if not self.measured:
            return f"{accepted}; {'none was measured' if self.told else 'no figure is told in this edition'}."
        over = " and ".join(line.question for line in self.measured if line.above)
        return f"{accepted}; above it: {over}." if over else f"{accepted}; nothing measured is above it."

    @property
    def received_in_words(self) -> str:
        """What the released records hold, in shares."""
        return ", ".join(f"{format_figure(share, 'share')} {name}" for name, share in self.received)

    @property
    def coincidences(self) -> str:
        """What it means that a made-up release holds texts of the log; nothing where it holds none."""
        if not self.also_asked:
            return ""
        share = format_figure(self.also_asked, "share")
        return (
            f"Of the made-up records, {share} hold a text that is in the log too. They are "
            "nobody's records: texts are drawn from figures that the promise covers, and what many ask comes out again"
        )

    def lines(self) -> list[str]:
        """The sheet for a terminal: ten lines or fewer, without the five pairs."""
        asked = f"{QUESTION} {self.verdict.answer}. {self.verdict.line}"
        lines = [f"{asked} Its purpose: {self.purpose}" if self.purpose else asked]
        lines += self.verdict.reasons[:2] if self.verdict.answer == "No" else ()
        lines.append(self.limit)
        lines += [f"{line.question.capitalize()}: {line.attack}: {line.sentence}." for line in self.measured]
        if self.received:
            more = f" {self.coincidences}." if self.coincidences else ""
            lines.append(f"A recipient gets: {self.received_in_words}.{more}")
        lines += [f"For a person: {self.for_a_person}.", f"For a query: {self.for_a_query}."]
        if self.kept:
            most = [f"{name} {format_figure(value, 'share')}" for name, value in self.kept[:4]]
            lines.append(f"Kept at least, from knowing nothing (0 %) to the raw log: {', '.join(most)}.")
        return lines

    def _repr_html_(self) -> str:
        """In a notebook: the lines of the terminal, the answer first."""
        first, *lines = self.lines()
        rest = "".join(f"<li>{escape(line)}</li>" for line in lines)
        return f"<p><strong>{escape(first)}</strong></p><ul>{rest}</ul>"

    def as_json(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def decision_sheet(
    audit: Audit,
    *,
    max_risk: float = ACCEPTED_RISK,
    answer: Verdict | None = None,
    pairs: tuple[Pair, ...] = (),
    also_asked: float | None = None,
) -> DecisionSheet:
    """The sheet on an audited release; `answer` where figures that are not shown weigh in."""
    manifest = audit.released
    person, query = promises(manifest)
    return DecisionSheet(
        verdict=answer or verdict(manifest, audit, max_risk=max_risk),
        max_risk=max_risk,
        measured=tuple(_measured(audit, max_risk)),
        received=_received(audit),
        for_a_person=person,
        for_a_query=query,
        kept=_kept(audit),
        pairs=pairs,
        purpose=str(manifest.get("purpose", "")),
        also_asked=also_asked,
    )


def _measured(audit: Audit, max_risk: float) -> list[Measured]:
    lines = []
    for question in QUESTIONS:
        over = above_limit(audit, max_risk, question)
        found = over or next((one for one in comparable(audit) if one.question == question), None)
        if found is not None:
            lines.append(Measured(question, found.title, in_natural_frequencies(found), over is not None))
        elif nobody_behind(audit):
            lines.append(
                Measured(question, "Nothing to try", "nobody is behind the made-up people", above=False, tried=False)
            )
    return lines


def in_natural_frequencies(found: Finding) -> str:
    """How often an attack succeeded, as people count: of so many tried so many, and how many more it could be."""
    most = per_hundred(bad_end(replace(found, trials=None)))
    at_most = most if most.startswith("less") else f"at most {most}"
    if found.trials and found.successes is not None:
        counted = f"{found.successes:,}" if found.successes else "none"
        could = f"with so few, up to {most} could be" if found.too_few else at_most
        return f"of {found.trials:,} tried, {counted}; {could}"
    return most if found.high is None else f"{per_hundred(found.value)}; {at_most}"


def per_hundred(share: float) -> str:
    """A share as so many of a round number of cases, rounded up.

    >>> [per_hundred(share) for share in (0.0, 0.0004, 0.0031, 0.041, 0.5, 1.0)]
    ['none', 'less than 1 in 1,000', '4 in 1,000', '5 in 100', '50 in 100', '100 in 100']
    """
    if share <= 0:
        return "none"
    if share < 0.001:
        return "less than 1 in 1,000"
    whole = 1000 if share < 0.01 else 100
    return f"{math.ceil(round(share * whole, 9)):,} in {whole:,}"


def promises(manifest: Mapping[str, Any]) -> tuple[str, str]:
    """The promise for a person and for a single query, in a line each; see `promise_in_short`."""

    def charge() -> Charge | None:
        try:
            recreated: Charge = mechanisms.recreate(dict(manifest)).charge()
        except QueryVeilError:
            return None
        return recreated

    return promise_in_short(manifest.get("guarantee") or {}, charge)


def _received(audit: Audit) -> tuple[tuple[str, float], ...]:
    shares = [(RECEIVED[found.key], found.value) for found in audit.findings if found.key in RECEIVED]
    return tuple(sorted(((name, value) for name, value in shares if value > 0), key=lambda pair: -pair[1]))


def _kept(audit: Audit) -> tuple[tuple[str, float], ...]:
    """The least figure of each task that has a floor and a ceiling: a task is served as well as its worst part."""
    least: dict[str, float] = {}
    for found in audit.utilities():
        share = found.share_kept()
        if share is not None and found.topic != "contents":
            least[found.topic] = min(least.get(found.topic, 1.0), share)
    return tuple(sorted(least.items(), key=lambda pair: (-pair[1], pair[0])))

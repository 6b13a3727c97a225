"""One number for "how risky": what the most successful attack gets, at the bad end of its interval.

Attacks answer different questions, so their figures are never averaged: a release is as risky as its worst figure. Only
figures that are shares (of users, of records, of guesses) and answer one of the regulator's three questions count; a
lower bound on ε has its own promise to be held against.

>>> found = Finding(key="k", title="t", kind="risk", topic="a", question="linkability", value=0.1, high=0.2,
...                 better="lower", unit="share", explanation="")
>>> bad_end(found)
0.2
"""

from __future__ import annotations

from collections.abc import Iterable

from queryveil.report.findings import Audit, Finding, Question

QUESTIONS: tuple[Question, ...] = ("singling out", "linkability", "inference")


def bad_end(found: Finding) -> float:
    """The less favourable end of a figure's interval, or the figure itself."""
    end = found.high if found.better == "lower" else found.low
    return found.value if end is None else end


def comparable(findings: Iterable[Finding]) -> list[Finding]:
    """The risks that are shares and answer one of the three questions, the worst first."""
    shares = [f for f in findings if f.kind == "risk" and f.unit == "share" and f.better == "lower" and f.question]
    return sorted(shares, key=lambda found: (-bad_end(found), -found.value, found.key))


def worst(audit: Audit, question: Question | None = None) -> Finding | None:
    """The most successful attack, of all or of one question; None where none was measured."""
    found = [f for f in comparable(audit.findings) if question in (None, f.question)]
    return found[0] if found else None

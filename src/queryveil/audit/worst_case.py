"""One number for "how risky": what the most successful attack gets, at the bad end of its interval.

A figure from fewer than 100 trials counts with the good end of its interval only: that much is certain, while the
bad end of a few trials would say "nearly everybody" of any release.

Attacks answer different questions, so their figures are never averaged: a release is as risky as its worst figure. Only
figures that are shares and answer one of the regulator's three questions count; a lower bound on ε has its own promise
to be held against. Four kinds of figures are shown in a report and left out of this number:

- who wrote a record, for an attacker who already knows whom its pseudonym, or the group behind its log, stands for
  (`author-by-name`, `author-by-activity`): the second half of an attack, whose first half is counted;
- singled out, where it is known how often the one singled out is the right one (`found-…`): false alarms;
- singled out, or two halves linked, where the released users are made up: nobody is there to be found;
- scenarios, which need more than a recipient has (accounts planted in the log, somebody who watches arrivals).

>>> found = Finding(key="k", title="t", kind="risk", topic="a", question="linkability", value=0.1, high=0.2,
...                 better="lower", unit="share", explanation="")
>>> bad_end(found)
0.2
"""

from __future__ import annotations

from queryveil.audit.finding import NOBODY_BEHIND, Audit, Finding, Question

QUESTIONS: tuple[Question, ...] = ("singling out", "linkability", "inference")
SINGLED_OUT, FOUND, LINKED = "uniqueness-", "found-", "profiles-linked"


def bad_end(found: Finding) -> float:
    """The less favourable end of a figure's interval, or the figure itself; what is certain of one of few trials."""
    if found.too_few:
        return found.low or 0.0
    end = found.high if found.better == "lower" else found.low
    return found.value if end is None else end


def nobody_behind(audit: Audit) -> bool:
    """Whether the released users are made up."""
    return any(item.reason == NOBODY_BEHIND for item in audit.left_out)


def about_nobody(audit: Audit) -> list[Finding]:
    """The risks that pick out, or link, made-up users: whoever is found by them is nobody."""
    if not nobody_behind(audit):
        return []
    return [found for found in audit.risks() if found.key == LINKED or found.key.startswith(SINGLED_OUT)]


def comparable(audit: Audit) -> list[Finding]:
    """The risks that count, the worst first."""
    keys = {found.key for found in audit.findings}
    nobody = {found.key for found in about_nobody(audit)}

    def counts(found: Finding) -> bool:
        if found.key in nobody:
            return False
        if found.key.startswith(SINGLED_OUT):
            return found.key.replace(SINGLED_OUT, FOUND) not in keys
        return found.counts_toward_risk

    return _worst_first([found for found in _shares(audit) if counts(found)])


def worst(audit: Audit, question: Question | None = None) -> Finding | None:
    """The most successful attack, of all or of one question; None where none was measured.

    Where no figure of a question counts, the worst of those that do not is told, unless it is about nobody.
    """
    counted = [found for found in comparable(audit) if question in (None, found.question)]
    nobody = about_nobody(audit)
    others = _worst_first([found for found in _shares(audit) if question == found.question and found not in nobody])
    return next(iter(counted or others), None)


def _shares(audit: Audit) -> list[Finding]:
    return [f for f in audit.risks() if f.unit == "share" and f.better == "lower" and f.question]


def _worst_first(findings: list[Finding]) -> list[Finding]:
    return sorted(findings, key=lambda found: (-bad_end(found), -found.value, found.key))

"""What the figures amount to, in words: the answer at the top of a report, and the regulator's three questions.

The three questions (can somebody be singled out, can records about somebody be linked, can something be inferred about
somebody) are those of the Article 29 Working Party's Opinion 05/2014 on anonymisation techniques.

The answer follows fixed rules, so that two people with the same figures read the same answer: *no* where the release is
not meant for publication or a figure contradicts its promise; *with care* where nothing formal is promised, the promise
is weak, or an attack succeeds on more than `NOTABLE` of its targets and clearly beyond chance; *yes* otherwise. The
decision itself stays with the holder.

>>> verdict({}, Audit(released={}, findings=())).answer
'Not decided'
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from queryveil.privacy.guarantee import rounded_up
from queryveil.report.findings import Audit, Finding, Question
from queryveil.report.numbers import between, told
from queryveil.report.risk import QUESTIONS, comparable, worst

NOTABLE = 0.05
LARGE_EPSILON = 4.0
DP = ("pure-dp", "approx-dp", "metric-dp")
"""Promises about the output's probabilities: exact figures of the private log beside it would void them."""

UNIT_IN_WORDS = {
    "user": "one user: everything that one person has in the log counts together.",
    "query": "one query: each query counts by itself, so the loss of a person grows with their number in the log.",
    "word": "one word: each word counts by itself, so the loss grows with the words of a query and the queries of a "
    "person.",
}
ASKED: dict[Question, str] = {
    "singling out": "Can one person be picked out of the release?",
    "linkability": "Can records of one person be tied together, or to their author?",
    "inference": "Can something new about a person be concluded?",
}


@dataclass(frozen=True)
class Verdict:
    """The answer to "may this be published?", and why."""

    answer: Literal["Yes", "With care", "No", "Not decided"]
    line: str
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Answer:
    """One of the three questions, answered in a sentence, with the figures behind it."""

    question: Question
    asked: str
    sentence: str
    findings: tuple[Finding, ...]


def verdict(manifest: dict[str, Any], audit: Audit) -> Verdict:
    """May this be published? `audit` holds the figures that the reader is shown."""
    promise = manifest.get("guarantee")
    against = [f"{found.title}: {in_words(found)}. The promise does not allow this." for found in audit.broken()]
    if isinstance(promise, dict):
        if manifest.get("noise", {}).get("publishable") is False:
            against.append("It was made with a known seed, which undoes the noise.")
        if manifest.get("mode") == "paper":
            against.append("It reproduces a publication (paper mode), for public or synthetic data only.")
    if against:
        return Verdict("No", "Do not publish this release.", tuple(against))
    if not isinstance(promise, dict):
        line = "Nothing is known of what this release promises; only the figures speak."
        return Verdict("Not decided", line, tuple(_notable(audit)))
    doubts = [*_weak_promise(promise), *_notable(audit)]
    if doubts:
        return Verdict("With care", "Publish only where the points below are acceptable.", tuple(doubts))
    line = "The release keeps what it promises, and no attack that was tried gets far."
    return Verdict("Yes", line, ("Every figure measured is compatible with the promise below.",))


def three_answers(audit: Audit) -> list[Answer]:
    """Singling out, linkability, inference: each answered with the numbers."""
    answers = []
    for question in QUESTIONS:
        found = tuple(f for f in audit.risks() if f.question == question)
        most = worst(audit, question)
        if most is not None:
            sentence = f"{_how_far(most)} The attack that gets furthest is “{most.title}”: {in_words(most)}."
        elif found:
            sentence = f"{found[0].title}: {in_words(found[0])}."
        else:
            sentence = "Not measured for this release; see what was left out, below."
        answers.append(Answer(question, ASKED[question], sentence, found))
    return answers


def in_words(found: Finding) -> str:
    """A figure with what it must be compared with."""
    interval = between(found)
    parts = [told(found.value, found.unit) + (f" ({interval})" if interval else "")]
    if found.raw is not None:
        parts.append(f"raw log {told(found.raw, found.unit)}")
    if found.chance is not None:
        parts.append(f"by chance {told(found.chance, found.unit)}")
    if found.bound is not None:
        limit = "at most" if found.better == "lower" else "at least"
        parts.append(f"promised {limit} {told(found.bound, found.unit)}")
    return ", ".join(parts)


def _how_far(found: Finding) -> str:
    least = found.value if found.low is None else found.low
    if found.value == 0:
        return "Not in any case that was tried."
    if found.chance is not None and least <= found.chance:
        return "No better than by chance."
    return "Rarely." if found.value <= NOTABLE else "In some cases." if found.value <= 0.5 else "Mostly."


def _weak_promise(promise: dict[str, Any]) -> list[str]:
    model, unit = promise.get("model"), promise.get("unit")
    doubts = []
    if model == "none":
        doubts.append("No formal guarantee: the protection rests on measurement, against the attacks that were tried.")
    if model == "metric-dp":
        doubts.append("The promise weakens with distance: unlike queries may still be told apart.")
    if model in ("pure-dp", "approx-dp"):
        epsilon = float(promise.get("epsilon", 0.0))
        if epsilon > LARGE_EPSILON:
            factor = f"up to {math.ceil(math.exp(epsilon)):,}" if epsilon < 14 else "more than a million"
            loss = f"ε = {rounded_up(epsilon)} per {unit}"
            doubts.append(f"{loss} is large: it lets an attacker's odds change by a factor of {factor}.")
        if unit != "user":
            doubts.append(f"The promise is for one {unit}; a person with many of them has no promise of that strength.")
    return doubts


def _notable(audit: Audit) -> list[str]:
    """The worst attack of each question, where it succeeds often, beyond chance and no promise bounds it."""
    doubts = []
    for question in QUESTIONS:
        for found in comparable(audit):
            least = found.value if found.low is None else found.low
            beyond_chance = found.chance is None or least > found.chance
            if found.question == question and found.bound is None and found.value > NOTABLE and beyond_chance:
                doubts.append(f"{question.capitalize()}: {found.title}: {in_words(found)}.")
                break
    return doubts

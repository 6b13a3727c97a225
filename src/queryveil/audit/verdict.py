"""What the figures amount to, in words: the answer at the top of a report, and the regulator's three questions.

The three questions (can somebody be singled out, can records about somebody be linked, can something be inferred about
somebody) are those of the Article 29 Working Party's Opinion 05/2014 on anonymisation techniques.

The answer follows fixed rules, so that two people with the same figures read the same answer, in the terminal, in the
report, on the page and in an advice: *no* where the release is empty or not meant for publication, or a figure
contradicts its promise; *not decided* where nothing is promised, no attack was measured, one that is required was left
out, or one of the three questions rests on fewer than 100 trials; *with care* where nothing formal is promised, the
promise is weak, or an attack may succeed (upper end of its interval) on more of its targets than the holder accepts
(`ACCEPTED_RISK` if nothing is said) and does so clearly beyond chance, within its promise or not; *yes* otherwise. The
decision itself stays with the holder.

Where the reader is shown coarser figures than were measured, the answer is the graver one of the two. Where the figures
are a synthetic twin's, the answer is about the mechanism, and says so.

>>> verdict({}, Audit(released={}, findings=())).answer
'Not decided'
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from queryveil.audit.finding import Audit, Finding, Question
from queryveil.audit.formatting import between, format_figure
from queryveil.audit.worst_case import QUESTIONS, about_nobody, bad_end, comparable, worst
from queryveil.checks import real_number, require
from queryveil.privacy.guarantee import rounded_up

ACCEPTED_RISK = 0.05
"""What is accepted of an attack where the holder said nothing: 5 of 100."""
LARGE_EPSILON = 4.0
SMALL_K = 5
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


GRAVITY = ("Yes", "With care", "Not decided", "No")


def verdict(
    manifest: dict[str, Any],
    audit: Audit,
    *,
    exact: Audit | None = None,
    made_up: bool = False,
    max_risk: float = ACCEPTED_RISK,
) -> Verdict:
    """May this be published? `audit` holds the figures that the reader is shown.

    `exact` holds those behind them, where the shown ones are coarse; `made_up` tells that they are a synthetic twin's;
    `max_risk` is what the holder accepts of any attack.
    """
    require(real_number("max_risk", max_risk, at_least=0, at_most=1, suggest=ACCEPTED_RISK))
    shown = _verdict(manifest, audit, made_up=made_up, max_risk=max_risk)
    full = shown if exact is None else _verdict(manifest, exact, made_up=made_up, max_risk=max_risk)
    if exact is not None and shown.answer == "Not decided" and not audit.risks() and exact.risks():
        line = "The attacks were tried on too few people to tell figures in this edition; only the promise speaks."
        return Verdict(shown.answer, line, shown.reasons)
    if GRAVITY.index(full.answer) <= GRAVITY.index(shown.answer):
        return shown
    withheld = "The answer rests on figures that are too exact, or of too few trials, to be shown in this edition."
    return Verdict(full.answer, full.line, (withheld, *(shown.reasons if shown.answer != "Yes" else ())))


def _verdict(manifest: dict[str, Any], audit: Audit, *, made_up: bool, max_risk: float) -> Verdict:
    promise = manifest.get("guarantee")
    against = [f"{found.title}: {in_words(found)}. The promise does not allow this." for found in audit.broken()]
    if isinstance(promise, dict):
        if manifest.get("noise", {}).get("publishable") is False:
            against.append("It was made with a known seed, which undoes the noise.")
        if manifest.get("mode") == "paper":
            against.append("It reproduces a publication (paper mode), for public or synthetic data only.")
    if not _records(audit):
        against.append("It is empty: there is nothing to publish.")
    if against:
        return Verdict("No", "Do not publish this release.", tuple(against))
    if not isinstance(promise, dict):
        line = "Nothing is known of what this release promises; only the figures speak."
        return Verdict("Not decided", line, tuple(_notable(audit, max_risk)))
    doubts = [*_weak_promise(promise), *_notable(audit, max_risk)]
    missing = [f"{item.title} was not measured: {item.reason}." for item in audit.left_out if item.required]
    if missing:
        return Verdict("Not decided", "An attack that the answer needs was not tried.", (*missing, *doubts))
    if not any(found.trials != 0 for found in audit.risks()):
        return Verdict("Not decided", "No attack was measured; only the promise speaks.", tuple(doubts))
    few = _too_few(audit)
    if few:
        return Verdict("Not decided", "The attacks were tried on too few to say.", (*few, *doubts))
    if doubts:
        return Verdict("With care", "Publish only where the points below are acceptable.", tuple(doubts))
    if made_up:
        line = "On made-up data the mechanism keeps what it promises, and no attack that was tried there gets far."
        return Verdict("Yes", line, ("Every figure of the synthetic twin is compatible with the promise below.",))
    line = "The release keeps what it promises, and no attack that was tried gets far."
    return Verdict("Yes", line, ("Every figure measured is compatible with the promise below.",))


def three_answers(audit: Audit) -> list[Answer]:
    """Singling out, linkability, inference: each answered with the numbers."""
    answers, nobody = [], about_nobody(audit)
    for question in QUESTIONS:
        found = tuple(f for f in audit.risks() if f.question == question and f not in nobody)
        most = worst(audit, question)
        if most is not None:
            sentence = f"{_how_far(most)} The attack that gets furthest is “{most.title}”: {in_words(most)}."
        elif found:
            sentence = f"{found[0].title}: {in_words(found[0])}."
        elif any(f.question == question for f in nobody):
            sentence = "There is nothing to find: the released users are made up, and nobody is behind them."
        else:
            sentence = "Not measured for this release; see what was left out, below."
        answers.append(Answer(question, ASKED[question], sentence, found))
    return answers


def in_words(found: Finding) -> str:
    """A figure with what it must be compared with."""
    interval = between(found)
    parts = [format_figure(found.value, found.unit) + (f" ({interval})" if interval else "")]
    if found.too_few:
        parts = [f"too few to say: {found.successes} of {found.trials} trials, and so few show no risk below "
                 f"{format_figure(found.smallest_shown, 'share')}"]  # fmt: skip
    if found.raw is not None:
        parts.append(f"raw log {format_figure(found.raw, found.unit)}")
    if found.chance is not None:
        parts.append(f"by chance {format_figure(found.chance, found.unit)}")
    if found.bound is not None:
        limit = "at most" if found.better == "lower" else "at least"
        parts.append(f"promised {limit} {format_figure(found.bound, found.unit)}")
    return ", ".join(parts)


def _how_far(found: Finding) -> str:
    least = found.value if found.low is None else found.low
    if found.value == 0:
        return "Not in any case that was tried."
    if found.chance is not None and least <= found.chance:
        return "No better than by chance."
    return "Rarely." if found.value <= ACCEPTED_RISK else "In some cases." if found.value <= 0.5 else "Mostly."


def _weak_promise(promise: dict[str, Any]) -> list[str]:
    model, unit = promise.get("model"), promise.get("unit")
    doubts = []
    if model == "none":
        doubts.append("No formal guarantee: the protection rests on measurement, against the attacks that were tried.")
    if model in ("k-anonymity", "probabilistic-k-anonymity") and int(promise.get("k", 0)) < SMALL_K:
        doubts.append(f"k = {promise.get('k')} is small: one guess in {promise.get('k')} may be right.")
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


def _records(audit: Audit) -> int:
    """How many records were released, where it is told."""
    told = audit.context.get("released") or audit.released.get("output") or {}
    return int(told.get("records", 1))


def _too_few(audit: Audit) -> list[str]:
    """The questions that only figures from too few trials answer."""
    doubts = []
    for question in QUESTIONS:
        answering = [found for found in comparable(audit) if found.question == question]
        if answering and all(found.too_few for found in answering):
            most = max(answering, key=lambda found: found.trials or 0)
            doubts.append(f"{question.capitalize()}: {most.title}: {in_words(most)}.")
    return doubts


def above_limit(audit: Audit, max_risk: float, question: Question) -> Finding | None:
    """The worst attack of a question that succeeds more often than is accepted, and beyond chance; None without one."""
    for found in comparable(audit):
        least = found.value if found.low is None else found.low
        beyond_chance = found.chance is None or least > found.chance
        if found.question == question and bad_end(found) > max_risk and beyond_chance:
            return found
    return None


def _notable(audit: Audit, max_risk: float) -> list[str]:
    """The worst attack of each question, where it succeeds often and beyond chance, within a promise or not."""
    over = [(question, above_limit(audit, max_risk, question)) for question in QUESTIONS]
    return [f"{question.capitalize()}: {found.title}: {in_words(found)}." for question, found in over if found]

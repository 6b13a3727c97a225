"""Which setting to take: the one that meets a stated risk and keeps most for a task, and why, in words.

The rule is plain: of the settings that may be published and whose worst attack, at the bad end of its interval, gets no
more than the stated risk, take the one with the best utility for the task; of equals the less risky. Both come from the
audit: the risk (`queryveil.audit.worst_case`) and whether a setting may be published (`queryveil.audit.verdict`). One
whose answer is *no* is never advised. One for which that is *not decided* is advised only where no other meets the
risk, and the advice says so and why. Rules that others use are compared with, and never advised: they are no mechanisms
of ours.

The choice looks at the log, and nobody pays for that. Differential privacy is promised for parameters that were fixed
beforehand, so advice of such a setting says it.

The interval is that of each attack by itself, at 95 %: it is not widened for the number of attacks and settings that
are compared, so of many settings at the limit one may lie above it by luck.

>>> known_task("freq", ["topic profiles", "query frequency"])
'query frequency'
>>> advise(Comparison(()), task="volume", max_risk=0.05)
Traceback (most recent call last):
...
queryveil.errors.UsageError: nothing was measured for any task.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from queryveil.audit.formatting import format_figure
from queryveil.audit.measure import tasks as measured_tasks
from queryveil.audit.verdict import in_words
from queryveil.checks import no_such, real_number, require
from queryveil.errors import UsageError
from queryveil.experiments.compare import compare
from queryveil.experiments.comparison import Comparison, Outcome
from queryveil.log import QueryLog
from queryveil.release.mechanism import DP

DECIDED = ("Yes", "With care")
ALSO_CALLED = {"profiling": "topic profiles"}
CHOSEN_BY_LOOKING = (
    "That promise is for settings fixed beforehand: this comparison looked at the log, and no budget paid for it. "
    "To keep the promise exact, compare on an earlier or a synthetic log."
)


@dataclass(frozen=True)
class Advice:
    """The setting to take, or None where none meets the risk; and the reasons, in sentences."""

    chosen: Outcome | None
    reasons: tuple[str, ...]

    def _repr_html_(self) -> str:
        """In a notebook: the setting in words, and the reasons."""
        taken = "Nothing that was tried" if self.chosen is None else self.chosen.setting.in_words()
        reasons = "".join(f"<li>{escape(reason)}</li>" for reason in self.reasons)
        return f"<p><strong>{escape(taken)}</strong></p><ul>{reasons}</ul>"


def advise(found: Comparison | QueryLog, *, task: str, max_risk: float) -> Advice:
    """Pick a mechanism's setting for a task, from a comparison or for a log that is compared first."""
    if isinstance(found, QueryLog):
        task = checked_request(task, max_risk)
        found = compare(found)
    require(real_number("max_risk", max_risk, at_least=0, at_most=1, suggest=0.05))
    if task in measured_tasks() and found.tasks() and task not in found.tasks():
        return Advice(None, (f"Nothing could be measured for {task} on this log.", *_problems(found)))
    task = known_task(task, found.tasks())
    measured = [o for o in found.outcomes if o.setting.kind == "mechanism" and o.risk is not None]
    tried = [outcome for outcome in measured if _answer(outcome) != "No"]
    if not tried:
        why = "No setting that was tried may be published."
        return Advice(None, (why, *_ruled_out(measured), *_problems(found)))
    kept = {id(outcome): found.utility(outcome)[task] for outcome in tried}
    by_use = sorted(tried, key=lambda outcome: (-kept[id(outcome)], outcome.risk or 0.0))
    within = [outcome for outcome in by_use if (outcome.risk or 0.0) <= max_risk and kept[id(outcome)] > 0]
    decided = [outcome for outcome in within if _answer(outcome) in DECIDED]
    limit, count = format_figure(max_risk, "share"), _settings(measured)
    if not within:
        safest = min(tried, key=lambda outcome: (outcome.risk or 0.0, -kept[id(outcome)]))
        return Advice(
            None,
            (
                f"Of {count} tried, none that may be published keeps every attack at {limit} or below and anything "
                f"for {task}.",
                f"The least risky is {safest.setting.label}: {_risk(safest)}.",
                "Try stronger settings in a sweep of your own, or a log of more people.",
                *_ruled_out(measured),
                *_undecided(tried),
                *_problems(found),
            ),
        )
    allowed = decided or within
    chosen = allowed[0]
    keep = "keeps" if len(allowed) == 1 else "keep"
    published = "may be published and " if decided else ""
    unsure = "" if decided else ", though for none of them it is decided whether it may be published"
    reasons = [
        f"Of {count} tried, {len(allowed)} {published}{keep} every attack at {limit} or below{unsure}; of those, "
        f"{chosen.setting.label} keeps most for {task}: {_use(kept[id(chosen)])}.",
        f"Its risk: {_risk(chosen)}.",
        *_may_be_published(chosen),
        *_promise(chosen),
    ]
    if len(allowed) > 1:
        reasons.append(
            f"Next would be {allowed[1].setting.label}, with {_use(kept[id(allowed[1])])} and {_risk(allowed[1])}."
        )
    better = next((o for o in by_use if kept[id(o)] > kept[id(chosen)] and (o.risk or 0.0) > max_risk), None)
    if better:
        reasons.append(f"{better.setting.label} would keep more ({_use(kept[id(better)])}), but {_risk(better)}.")
    others = [outcome for outcome in tried if outcome is not chosen]
    return Advice(chosen, (*reasons, *_ruled_out(measured), *_undecided(others), *_problems(found)))


def checked_request(task: str, max_risk: float) -> str:
    """The task's full name, before a log is read; all that is wrong with a request is told at once."""
    tasks = measured_tasks()
    found = _find_task(task, tasks)
    require(
        None if found else no_such("task", task, tasks),
        real_number("max_risk", max_risk, at_least=0, at_most=1, suggest=0.05),
    )
    return found or task


def known_task(task: str, tasks: Sequence[str]) -> str:
    """The task of that name, or the only one whose name holds it."""
    if not tasks:
        raise UsageError("nothing was measured for any task.")
    found = _find_task(task, tasks)
    if found is None:
        raise UsageError(no_such("task", task, tasks))
    return found


def _find_task(task: str, tasks: Sequence[str]) -> str | None:
    wanted = ALSO_CALLED.get(task, task)
    fitting = [name for name in tasks if wanted.casefold() in name.casefold()]
    return wanted if wanted in tasks else fitting[0] if len(fitting) == 1 else None


def _answer(outcome: Outcome) -> str:
    return "" if outcome.verdict is None else outcome.verdict.answer


def _ruled_out(outcomes: list[Outcome]) -> list[str]:
    """Which may not be published, those with the same reasons together."""
    labels: dict[str, list[str]] = {}
    for outcome in outcomes:
        if outcome.verdict is not None and outcome.verdict.answer == "No":
            labels.setdefault(" ".join(outcome.verdict.reasons), []).append(outcome.setting.label)
    return [f"Never to be published: {', '.join(same)}. {reasons}" for reasons, same in labels.items()]


def _undecided(outcomes: list[Outcome]) -> list[str]:
    """For which it is not decided whether they may be published, and why, with one of them as an example."""
    same: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        if outcome.verdict is not None and outcome.verdict.answer not in ("No", *DECIDED):
            same.setdefault(outcome.verdict.line, []).append(outcome)
    lines = []
    for line, several in same.items():
        labels = ", ".join(outcome.setting.label for outcome in several)
        first = several[0].verdict.reasons[:1] if several[0].verdict else ()
        example = "".join(f" {several[0].setting.label}: {reason}" for reason in first)
        lines.append(f"Not decided whether to be published: {labels}. {line}{example}")
    return lines


def _settings(outcomes: list[Outcome]) -> str:
    return f"{len(outcomes)} {'setting' if len(outcomes) == 1 else 'settings'}"


def _may_be_published(outcome: Outcome) -> list[str]:
    verdict = outcome.verdict
    return [] if verdict is None else [f"May it be published? {verdict.answer}. {verdict.line}", *verdict.reasons]


def _use(kept: float) -> str:
    return f"{format_figure(kept, 'share')} of what the raw log gives"


def _risk(outcome: Outcome) -> str:
    worst = outcome.worst
    if worst is None:
        return "no attack was measured"
    if worst.too_few:
        return f"“{worst.title}”: {in_words(worst)}"
    found, most = format_figure(worst.value, "share"), format_figure(outcome.risk, "share")
    return f"“{worst.title}” gets {found}, at most {most} with its interval"


def _promise(outcome: Outcome) -> list[str]:
    guarantee = outcome.setting.made().guarantee()
    told = [f"What it promises: {guarantee.headline()}."]
    return [*told, CHOSEN_BY_LOOKING] if guarantee.model in DP else told


def _problems(found: Comparison) -> list[str]:
    return [f"{o.setting.label} could not be tried: {o.problem}" for o in found.outcomes if o.problem]

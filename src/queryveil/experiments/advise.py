"""Which setting to take: the one that meets a stated risk and keeps most for a task, and why, in words.

The rule is plain: of the settings that may be published and whose worst attack, at the bad end of its interval, gets no
more than the stated risk, take the one with the best utility for the task; of equals the less risky. Which may be
published is the audit's verdict (`queryveil.audit.verdict`) on each: a setting whose answer is *no* is never advised,
nor one that is *not decided*, since what too few trials show meets no risk; the advice says which those are and why.
Rules that others use are compared with, and never advised: they are no mechanisms of ours.

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

from queryveil.audit.formatting import told
from queryveil.audit.measure import tasks as measured_tasks
from queryveil.audit.verdict import DP
from queryveil.checks import real_number, require
from queryveil.errors import UsageError
from queryveil.experiments.compare import compare
from queryveil.experiments.comparison import Comparison, Outcome
from queryveil.log import QueryLog

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
    tried = [outcome for outcome in measured if _answer(outcome) in ("Yes", "With care")]
    others = (*_not_advised(measured), *_problems(found))
    if not tried:
        return Advice(None, ("No setting that was tried may be published by its figures.", *others))
    kept = {id(outcome): found.utility(outcome)[task] for outcome in tried}
    by_use = sorted(tried, key=lambda outcome: (-kept[id(outcome)], outcome.risk or 0.0))
    allowed = [outcome for outcome in by_use if (outcome.risk or 0.0) <= max_risk and kept[id(outcome)] > 0]
    limit = told(max_risk, "share")
    if not allowed:
        safest = min(tried, key=lambda outcome: (outcome.risk or 0.0, -kept[id(outcome)]))
        return Advice(
            None,
            (
                f"Of {_settings(tried)} that may be published, none keeps every attack at {limit} or below and "
                f"anything for {task}.",
                f"The least risky is {safest.setting.label}: {_risk(safest)}.",
                "Try stronger settings in a sweep of your own, or a log of more people.",
                *others,
            ),
        )
    chosen = allowed[0]
    reasons = [
        f"Of {_settings(tried)} that may be published, {len(allowed)} {'keeps' if len(allowed) == 1 else 'keep'} "
        f"every attack at {limit} or below; of those, {chosen.setting.label} keeps most for {task}: "
        f"{_use(kept[id(chosen)])}.",
        f"Its risk: {_risk(chosen)}.",
        *_may_be_published(chosen),
        *_promise(chosen),
    ]
    if len(allowed) > 1:
        reasons.append(
            f"Next would be {allowed[1].setting.label}, with {_use(kept[id(allowed[1])])} and {_risk(allowed[1])}."
        )
    better = [outcome for outcome in by_use if kept[id(outcome)] > kept[id(chosen)]]
    if better:
        reasons.append(
            f"{better[0].setting.label} would keep more ({_use(kept[id(better[0])])}), but {_risk(better[0])}."
        )
    return Advice(chosen, (*reasons, *others))


def checked_request(task: str, max_risk: float) -> str:
    """The task's full name, before a log is read; all that is wrong with a request is told at once."""
    tasks = measured_tasks()
    found = _find_task(task, tasks)
    require(
        None if found else _no_such_task(tasks),
        real_number("max_risk", max_risk, at_least=0, at_most=1, suggest=0.05),
    )
    return found or task


def known_task(task: str, tasks: Sequence[str]) -> str:
    """The task of that name, or the only one whose name holds it."""
    if not tasks:
        raise UsageError("nothing was measured for any task.")
    found = _find_task(task, tasks)
    if found is None:
        raise UsageError(_no_such_task(tasks))
    return found


def _find_task(task: str, tasks: Sequence[str]) -> str | None:
    wanted = ALSO_CALLED.get(task, task)
    fitting = [name for name in tasks if wanted.casefold() in name.casefold()]
    return wanted if wanted in tasks else fitting[0] if len(fitting) == 1 else None


def _no_such_task(tasks: Sequence[str]) -> str:
    return f"there is no task of that name. Choose one of {', '.join(tasks)}."


def _answer(outcome: Outcome) -> str:
    return "" if outcome.verdict is None else outcome.verdict.answer


def _not_advised(outcomes: list[Outcome]) -> list[str]:
    """Which may not be published and which nobody can tell of, those with the same reason together."""
    against: dict[str, list[str]] = {}
    for outcome in outcomes:
        verdict = outcome.verdict
        if verdict is not None and verdict.answer == "No":
            against.setdefault(" ".join(verdict.reasons), []).append(outcome.setting.label)
    undecided: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        if outcome.verdict is not None and outcome.verdict.answer == "Not decided":
            undecided.setdefault(outcome.verdict.line, []).append(outcome)
    lines = [f"Not advised: {', '.join(labels)}. {reason}" for reason, labels in against.items()]
    for line, same in undecided.items():
        first = same[0].verdict.reasons[:1] if same[0].verdict else ()
        labels = ", ".join(outcome.setting.label for outcome in same)
        example = f" {same[0].setting.label}: {first[0]}" if first else ""
        lines.append(f"Not advised, since it is not decided whether it may be published: {labels}. {line}{example}")
    return lines


def _settings(outcomes: list[Outcome]) -> str:
    return f"{len(outcomes)} {'setting' if len(outcomes) == 1 else 'settings'} tried"


def _may_be_published(outcome: Outcome) -> list[str]:
    verdict = outcome.verdict
    return [] if verdict is None else [f"May it be published? {verdict.answer}. {verdict.line}", *verdict.reasons]


def _use(kept: float) -> str:
    return f"{told(kept, 'share')} of what the raw log gives"


def _risk(outcome: Outcome) -> str:
    worst = outcome.worst
    if worst is None:
        return "no attack was measured"
    return f"“{worst.title}” gets {told(worst.value, 'share')}, at most {told(outcome.risk, 'share')} with its interval"


def _promise(outcome: Outcome) -> list[str]:
    guarantee = outcome.setting.made().guarantee()
    told = [f"What it promises: {guarantee.headline()}."]
    return [*told, CHOSEN_BY_LOOKING] if guarantee.model in DP else told


def _problems(found: Comparison) -> list[str]:
    return [f"{o.setting.label} could not be tried: {o.problem}" for o in found.outcomes if o.problem]

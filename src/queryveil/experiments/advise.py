"""Which setting to take: the one that meets a stated risk and keeps most for a task, and why, in words.

The rule is plain: of the settings whose worst attack, at the bad end of its interval, gets no more than the stated
risk, take the one with the best utility for the task; of equals the less risky. Rules that others use are
compared with, and never advised: they are no mechanisms of ours. Nor is paper mode, nor a setting with a figure that
contradicts its promise.

The choice looks at the log, and nobody pays for that. Differential privacy is promised for parameters that were fixed
beforehand, so advice of such a setting says it.

The interval is that of each attack by itself, at 95 %: it is not widened for the number of attacks and settings that
are compared, so of many settings at the limit one may lie above it by luck.

>>> advise(Comparison(()), task="volume", max_risk=0.05)
Traceback (most recent call last):
...
queryveil.errors.UsageError: nothing was measured for any task.
"""

from __future__ import annotations

from dataclasses import dataclass

from queryveil.audit.formatting import told
from queryveil.audit.verdict import DP
from queryveil.checks import real_number, require
from queryveil.errors import UsageError
from queryveil.experiments.compare import Comparison, Outcome, compare
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
    require(real_number("max_risk", max_risk, at_least=0, at_most=1, suggest=0.05))
    found = found if isinstance(found, Comparison) else compare(found)
    task = known_task(found, task)
    tried = [outcome for outcome in found.outcomes if outcome.setting.kind == "mechanism" and outcome.risk is not None]
    unfit = [outcome for outcome in tried if not _fit_to_publish(outcome)]
    tried = [outcome for outcome in tried if _fit_to_publish(outcome)]
    if not tried:
        return Advice(None, ("No setting that may be published could be measured.", *_unfit(unfit), *_problems(found)))
    kept = {id(outcome): found.utility(outcome)[task] for outcome in tried}
    by_use = sorted(tried, key=lambda outcome: (-kept[id(outcome)], outcome.risk or 0.0))
    allowed = [
        outcome for outcome in by_use if (outcome.risk or 0.0) <= max_risk and outcome.records and kept[id(outcome)] > 0
    ]
    limit = told(max_risk, "share")
    if not allowed:
        safest = min(tried, key=lambda outcome: (outcome.risk or 0.0, -kept[id(outcome)]))
        return Advice(
            None,
            (
                f"Of {len(tried)} settings tried, none keeps every attack at {limit} or below and anything for {task}.",
                f"The least risky is {safest.setting.label}: {_risk(safest)}.",
                "Try stronger settings in a sweep of your own, or a log of more people.",
                *_unfit(unfit),
                *_problems(found),
            ),
        )
    chosen = allowed[0]
    reasons = [
        f"Of {len(tried)} settings tried, {len(allowed)} {'keeps' if len(allowed) == 1 else 'keep'} every attack at "
        f"{limit} or below; of those, {chosen.setting.label} keeps most for {task}: {_use(kept[id(chosen)])}.",
        f"Its risk: {_risk(chosen)}.",
        *_promise(chosen),
    ]
    if len(allowed) > 1:
        reasons.append(
            f"Next would be {allowed[1].setting.label}, with {_use(kept[id(allowed[1])])} and {_risk(allowed[1])}."
        )
    better = [outcome for outcome in by_use if kept[id(outcome)] > kept[id(chosen)] and outcome.records]
    if better:
        reasons.append(
            f"{better[0].setting.label} would keep more ({_use(kept[id(better[0])])}), but {_risk(better[0])}."
        )
    return Advice(chosen, (*reasons, *_unfit(unfit), *_problems(found)))


def known_task(found: Comparison, task: str) -> str:
    """The task of that name, or the only one whose name holds it."""
    tasks = found.tasks()
    task = ALSO_CALLED.get(task, task)
    if not tasks:
        raise UsageError("nothing was measured for any task.")
    fitting = [name for name in tasks if task.casefold() in name.casefold()]
    if task in tasks or len(fitting) == 1:
        return task if task in tasks else fitting[0]
    raise UsageError(f"there is no task of that name. Choose one of {', '.join(tasks)}.")


def _fit_to_publish(outcome: Outcome) -> bool:
    """Safe mode, and no figure that contradicts the promise."""
    audit = outcome.audit
    return audit is not None and audit.released.get("mode") == "safe" and not audit.broken()


def _unfit(outcomes: list[Outcome]) -> list[str]:
    return [f"{o.setting.label} is not advised: {_why_unfit(o)}." for o in outcomes]


def _why_unfit(outcome: Outcome) -> str:
    broken = outcome.audit is not None and outcome.audit.broken()
    return "a figure contradicts its promise" if broken else "paper mode is for public or synthetic data only"


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

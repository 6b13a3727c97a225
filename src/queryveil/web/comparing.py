"""The comparison of a log's protections, as the page shows it while it grows.

Quick mechanisms come first, and as soon as the first of them was tried at all its settings there is advice, which says
how many settings it rests on and is renewed with every outcome. What is still to come is told mechanism by mechanism:
how many of its settings are done, and about how long the rest will take. That is guessed from what other settings took,
by the effort that their mechanisms declare, until the mechanism itself has been tried once.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import polars as pl

from queryveil import mechanisms
from queryveil.errors import QueryVeilError
from queryveil.experiments.advise import advise, checked_request
from queryveil.experiments.compare import compare, effort, quick_first
from queryveil.experiments.comparison import Comparison, Outcome
from queryveil.experiments.sweep import Setting, Sweep
from queryveil.log import QueryLog
from queryveil.privacy import Noise
from queryveil.progress import in_words
from queryveil.report.page import promise_in_short
from queryveil.web.formatting import measured_task
from queryveil.web.parameters import title_of
from queryveil.web.store import Row

if TYPE_CHECKING:
    from queryveil.web.jobs import Task

MOST_COMPARED: Final = 100_000
"""Records: of a larger log, people are drawn for a comparison."""
SECONDS_BETWEEN_DETAILS: Final = 1.0
RULES: Final = "What others do today"


def compare_settings(task: Task, log: QueryLog) -> Row:
    """Try many settings, the quickest first; each is shown and kept as soon as it is there and never done twice."""
    wanted, max_risk = task.request["task"], task.request["max_risk"]
    checked_request(wanted, max_risk)
    people, drawn = some_people(log)
    usual = Sweep.usual()
    sweep = Sweep(settings=tuple(s for s in usual.settings if _can_be_made(s)), seed=usual.seed)
    places = {setting.label: place for place, setting in enumerate(sweep.settings)}
    course = Course(sweep.settings)
    told: tuple[str, int] | None = None

    def result(whole: Comparison) -> Row:
        advice = advise(whole, task=measured_task(wanted, whole.tasks()), max_risk=max_risk)
        return {
            "of": len(sweep.settings),
            "people_drawn": people.user_count() if drawn else None,
            "advised": None if advice.chosen is None else advice.chosen.setting.label,
            "reasons": list(advice.reasons),
        }

    def on_progress(setting: Setting, what: str, share: float) -> None:
        nonlocal told
        if (now := (setting.label, int(time.monotonic() / SECONDS_BETWEEN_DETAILS))) != told:
            told = now
            trying = f"trying “{title_of(named(setting))}”: {in_words(what, share)}"
            task.step(trying, len(course.done) / len(sweep.settings))

    def on_outcome(outcome: Outcome) -> None:
        course.done.append(outcome)
        so_far = Comparison(tuple(course.done))
        for one in course.done:  # what a setting is worth depends on the others
            task.store.add_point(task.job["id"], places[one.setting.label], point(one, so_far))
        early = result(so_far) if course.may_advise() and so_far.tasks() else {}
        task.store.set_job(task.job["id"], result={**early, **course.as_row()})

    task.store.set_job(task.job["id"], result=course.as_row())
    return result(compare(people, task.folder / "comparison", sweep, on_progress=on_progress, on_outcome=on_outcome))


@dataclass
class Course:
    """Which settings of a comparison are done, and how long the others may take."""

    settings: tuple[Setting, ...]
    done: list[Outcome] = field(default_factory=list)

    def may_advise(self) -> bool:
        """Whether a mechanism was tried at all its settings: before, there is nothing to choose among."""
        done = {outcome.setting.label for outcome in self.done}
        own = [setting for setting in self.settings if setting.kind == "mechanism"]
        return any(all(s.label in done for s in own if s.name == name) for name in {s.name for s in own})

    def to_come(self) -> list[Row]:
        """Mechanisms with settings still to be tried, in the order of their turn: how far, and seconds still needed."""
        groups: dict[str, list[Setting]] = {}
        for setting in quick_first(iter(self.settings)):
            groups.setdefault(_group(setting), []).append(setting)
        taken = {outcome.setting.label: outcome for outcome in self.done}
        rows = []
        for title, group in groups.items():
            left = [setting for setting in group if setting.label not in taken]
            if left:
                guesses = [self._seconds(setting) for setting in left]
                whole = sum(guess for guess in guesses if guess is not None)
                seconds = None if None in guesses else whole
                rows.append({"title": title, "done": len(group) - len(left), "of": len(group), "seconds": seconds})
        return rows

    def as_row(self) -> Row:
        """How far it is, as the page keeps it."""
        return {"of": len(self.settings), "to_come": self.to_come()}

    def _seconds(self, setting: Setting) -> float | None:
        """About how long a setting takes; None before anything was tried."""
        own = [outcome.seconds for outcome in self.done if _group(outcome.setting) == _group(setting)]
        if own:
            return min(own)  # the first of them may have had something to compile
        rates = [outcome.seconds / effort(outcome.setting) for outcome in self.done]
        return statistics.median(rates) * effort(setting) if rates else None


def _group(setting: Setting) -> str:
    if setting.kind == "rule":
        return RULES
    return str(getattr(mechanisms.load(setting.name), "title", setting.name))


def some_people(log: QueryLog) -> tuple[QueryLog, bool]:
    """The log, or of a large one as many people, drawn at random, as can be compared while somebody waits."""
    if len(log) <= MOST_COMPARED:
        return log, False
    users = log.users()
    wanted = max(1, len(users) * MOST_COMPARED // len(log))
    order = Noise.secure().stream("page: people to compare").permutation(len(users))
    drawn = users.gather(order[:wanted])
    return QueryLog(log.frame.filter(pl.col("user").is_in(drawn.implode()))), True


def point(outcome: Outcome, whole: Comparison) -> Row:
    """What the page shows of one setting among those tried so far."""
    audit, survived = outcome.audit, outcome.survival
    return named(outcome.setting) | {
        "records": outcome.records,
        "risk": outcome.risk,
        "attack": outcome.worst.title if outcome.worst else None,
        "utility": whole.utility(outcome),
        "frontier": [name for name in whole.tasks() if any(one is outcome for one in whole.frontier(name))],
        "kept": survived.volume if survived else None,
        "promise": promise_in_short(audit.released.get("guarantee")) if audit else "",
        "problem": outcome.problem,
        "seconds": outcome.seconds,
    }


def named(setting: Setting) -> Row:
    """A setting as the page keeps it."""
    return {
        "label": setting.label,
        "kind": setting.kind,
        "mechanism": setting.name,
        "parameters": setting.parameters,
    }


def _can_be_made(setting: Setting) -> bool:
    """Whether a setting is complete: a mechanism that must be told a value has no place in a comparison without one."""
    try:
        setting.made()
    except QueryVeilError:
        return False
    return True

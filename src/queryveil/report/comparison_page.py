"""The page on a comparison: which settings are worth having, and what today's rules would keep of the same log."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from queryveil.experiments.advise import advise, known_task
from queryveil.experiments.command import release_command
from queryveil.experiments.comparison import Comparison, Outcome
from queryveil.experiments.sweep import Sweep
from queryveil.privacy.keys import replace_private
from queryveil.report.charts import SHAPES, NotebookPlot, Point, frontier_plot, legend_mark
from queryveil.report.citations import bibtex
from queryveil.report.formatting import percent
from queryveil.report.page import PAGE, promise_in_short
from queryveil.report.rendering import render

RISK = "risk of the worst attack"
ON_ITS_OWN = """
.queryveil svg { background: #fff; color: #1b1d22; max-width: 46rem; height: auto; }
.queryveil .grid { stroke: #d9dce2; }
.queryveil .lead { stroke: #b9bec5; }
.queryveil .frontier { fill: none; stroke: #123a6b; stroke-width: 1.5; stroke-dasharray: 6 3; }
.queryveil g > * { fill: #8b93a1; stroke: #8b93a1; }
.queryveil g.best > * { fill: #123a6b; stroke: #123a6b; }
.queryveil g > .ring { fill: #fff; stroke-width: 2; }
.queryveil g > :is(.cross, .plus, .bar) { fill: none; stroke-width: 2.4; }
"""
"""The colours of a plot where no style sheet of ours is, for that plot alone."""


def write_comparison(
    found: Comparison,
    folder: Path,
    *,
    subject: str,
    sweep: Sweep,
    releases: dict[str, str] | None = None,
    commands: dict[str, str] | None = None,
) -> Path:
    """Write the page into the comparison's folder.

    `releases` leads from labels to reports beside it, `commands` from tasks to what makes the release that is best.
    """
    page = comparison_page(found, subject=subject, sweep=sweep, releases=releases, commands=commands)
    replace_private(folder / PAGE, page)
    replace_private(folder / "references.bib", bibtex(*(outcome.setting.name for outcome in found.outcomes)))
    replace_private(folder / "configuration.json", _configuration(sweep))
    return folder / PAGE


def comparison_page(
    found: Comparison,
    *,
    subject: str,
    sweep: Sweep,
    releases: dict[str, str] | None = None,
    commands: dict[str, str] | None = None,
) -> str:
    """All settings beside each other, the frontier of each task, and today's rules."""
    groups = list(dict.fromkeys(_group(outcome) for outcome in found.outcomes))
    tasks = found.tasks()
    return render(
        "comparison.html.j2",
        edition="internal",
        subject=subject,
        tasks=tasks,
        rows=[_row(outcome, groups, found) for outcome in found.outcomes if outcome.setting.kind == "mechanism"],
        rules=[_row(outcome, groups, found) for outcome in found.outcomes if outcome.setting.kind == "rule"],
        plots={task: _plot(found, task, groups) for task in tasks},
        frontiers={task: [outcome.setting.label for outcome in found.frontier(task)] for task in tasks},
        groups=[(legend_mark(number), group) for number, group in enumerate(groups)],
        problems=[(outcome.setting.label, outcome.problem) for outcome in found.outcomes if outcome.problem],
        releases=releases or {},
        judges=_judges(found),
        answers=best_settings(found),
        commands=commands or {},
        bibtex=bibtex(*(outcome.setting.name for outcome in found.outcomes)),
        configuration=_configuration(sweep),
    )


def _judges(found: Comparison) -> int:
    """How many people were kept aside, the same for every setting."""
    audits = (outcome.audit for outcome in found.outcomes if outcome.audit is not None)
    return next((int(audit.context.get("held_out", {}).get("users", 0)) for audit in audits), 0)


def _group(outcome: Outcome) -> str:
    return outcome.setting.name if outcome.setting.kind == "mechanism" else "today's rules"


def _row(outcome: Outcome, groups: list[str], found: Comparison) -> dict[str, Any]:
    promise = None if outcome.audit is None else outcome.audit.released.get("guarantee")
    kept = found.utility(outcome)
    return {
        "mark": legend_mark(groups.index(_group(outcome))),
        "label": outcome.setting.label,
        "words": outcome.setting.in_words(),
        "promise": promise_in_short(promise),
        "publish": None if outcome.verdict is None else outcome.verdict.answer,
        "broken": outcome.audit is not None and bool(outcome.audit.broken()),
        "worst": outcome.worst,
        "risk": outcome.risk,
        "records": outcome.records,
        "survival": outcome.survival,
        "kept": {task: kept.get(task) for task in found.tasks()},
    }


def _plot(found: Comparison, task: str, groups: list[str]) -> Markup:
    best = {outcome.setting.label for outcome in found.frontier(task)}
    points = []
    for outcome in found.outcomes:
        label = outcome.setting.label
        if outcome.risk is not None and outcome.records:
            named = {"label": label, "style": "best"} if label in best else {"style": "other"}
            shape = SHAPES[groups.index(_group(outcome)) % len(SHAPES)]
            kept = found.utility(outcome)[task]
            title = f"{label} ({outcome.setting.in_words()})"
            points.append(Point(title, outcome.risk, kept, on_frontier=label in best, shape=shape, **named))
    return frontier_plot(points, risk=RISK, utility=f"kept for {task}")


def comparison_plot(found: Comparison, task: str) -> NotebookPlot:
    """Risk and what is kept for a task, setting by setting: shows itself in a notebook, offline."""
    groups = list(dict.fromkeys(_group(outcome) for outcome in found.outcomes))
    task = known_task(task, found.tasks())
    plot = _plot(found, task, groups)
    styled = Markup('<div class="queryveil"><style>{}</style>{}</div>').format(Markup(ON_ITS_OWN), plot)
    shown = [outcome for outcome in found.outcomes if outcome.risk is not None and outcome.records]
    return NotebookPlot(tuple((outcome.risk or 0.0, found.utility(outcome)[task]) for outcome in shown), styled)


def best_outcomes(found: Comparison, *, max_risk: float = 0.05) -> dict[str, Outcome | None]:
    """For each task the mechanism's setting that keeps most with no attack above the risk, if there is any."""
    return {task: advise(found, task=task, max_risk=max_risk).chosen for task in found.tasks()}


def commands_for_best(found: Comparison, arguments: Sequence[str]) -> dict[str, str]:
    """For each task that has such a setting the command that makes the release; see `release_command`."""
    return {
        task: release_command(chosen.setting, arguments, chosen_by="compare")
        for task, chosen in best_outcomes(found).items()
        if chosen is not None
    }


def best_settings(found: Comparison) -> dict[str, str]:
    """The same in words."""
    best = {}
    for task, chosen in best_outcomes(found).items():
        best[task] = "none of the settings tried"
        if chosen is not None and chosen.worst is not None:
            kept = percent(found.utility(chosen)[task])
            attack = f"worst attack: {chosen.worst.title}, {percent(chosen.worst.value)}"
            reached = attack if chosen.worst.value else "no attack got anything"
            if chosen.verdict is not None and chosen.verdict.answer == "Not decided":
                reached += "; not decided whether it may be published"
            best[task] = f"{chosen.setting.label}, which keeps {kept} ({reached})"
    return best


def _configuration(sweep: Sweep) -> str:
    settings = [
        {"kind": setting.kind, "name": setting.name, "parameters": setting.parameters, "label": setting.label}
        for setting in sweep.settings
    ]
    return json.dumps({"seed": sweep.seed, "settings": settings}, indent=2, ensure_ascii=False, default=str)

"""The page on today's rules: what each keeps of a log and whom it gives away, in one table and three pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from queryveil.experiments.comparison import Comparison
from queryveil.experiments.rule_bench import VALUES, Measured, measured
from queryveil.privacy.keys import replace_private
from queryveil.report.bar_chart import Bars, bar_chart
from queryveil.report.charts import SHAPES, Point, frontier_plot
from queryveil.report.formatting import percent
from queryveil.report.page import PAGE, promise_in_short
from queryveil.report.rendering import render

LANGUAGE = "language"
EXPOSED = "people found or tied again"


def write_rules(found: Comparison, folder: Path, *, subject: str) -> Path:
    """Write the page into the folder of the comparison."""
    replace_private(folder / PAGE, rules_page(found, subject=subject))
    return folder / PAGE


def rules_page(found: Comparison, *, subject: str) -> str:
    """The rules and what stands beside them."""
    rows = measured(found)
    return render(
        "rules.html.j2",
        edition="internal",
        subject=subject,
        answers=answers(rows),
        values=list(VALUES.values()),
        rules=[_row(row) for row in rows if row.outcome.setting.kind == "rule"],
        beside=[_row(row) for row in rows if row.outcome.setting.kind == "mechanism"],
        pictures=_pictures(rows),
        problems=[(outcome.setting.label, outcome.problem) for outcome in found.outcomes if outcome.problem],
    )


def answers(rows: Sequence[Measured]) -> list[str]:
    """Which keeps and which protects, each in a sentence."""
    if not rows:
        return ["Nothing could be tried."]
    keeps = max(rows, key=lambda row: _kept(row, "tail"))
    said = [
        f"Keeps most of the rare queries: {keeps.label} ({percent(_kept(keeps, 'tail'))} of the tail). "
        f"Under it {_exposure(keeps)}."
    ]
    quiet = [row for row in rows if row.exposed == 0.0 and row.outcome.records]
    if quiet:
        best = max(quiet, key=_language)
        names = _listed([row.label for row in quiet])
        said.append(
            f"Under {names} these attacks name nobody: they found none, or only counts or made-up users are published. "
            f"Of these {best.label} teaches most about other people's language ({percent(_language(best))} of what the "
            f"raw log teaches) and keeps {percent(_kept(best, 'tail'))} of the tail as typed."
        )
    return said


def _pictures(rows: Sequence[Measured]) -> list[dict[str, Any]]:
    kept = [Bars(row.label, (_kept(row, "head"), _kept(row, "tail"))) for row in rows]
    exposed = [Bars(row.label, (_or_none(row, row.found_share), _or_none(row, row.tied_share))) for row in rows]
    points = [
        Point(row.label, row.exposed, _language(row), label=row.label, style="best" if _promises(row) else "other",
              shape=SHAPES[int(_promises(row))])
        for row in rows
        if row.outcome.records
    ]  # fmt: skip
    least, most = min(rows, key=lambda row: _kept(row, "tail")), max(rows, key=lambda row: _kept(row, "tail"))
    worst = max(rows, key=lambda row: row.exposed)
    top = max(rows, key=_language)
    private = [row for row in rows if _promises(row)]
    told = f"{top.label} teaches most ({percent(_language(top))}), and under it {_exposure(top)}."
    if private:
        best = max(private, key=_language)
        told += f" Of what promises something to each person, {best.label} teaches most ({percent(_language(best))})."
    return [
        {
            "title": "What is kept of frequent and of rare queries",
            "plot": bar_chart(kept, ("head", "tail"), title="Shares of records kept as typed"),
            "sentence": f"Of the records with rare texts (the tail) {most.label} keeps {percent(_kept(most, 'tail'))} "
            f"and {least.label} {percent(_kept(least, 'tail'))}.",
        },
        {
            "title": "Who is found, and whose names are tied together again",
            "plot": bar_chart(exposed, ("found", "tied again"), title="Shares of released people"),
            "sentence": f"Most are given away by {worst.label}: {_exposure(worst)}. “None” says that nobody is behind "
            "a name: only counts or made-up users are published.",
        },
        {
            "title": "What a recipient learns, against who is given away",
            "plot": frontier_plot(points, risk=EXPOSED, utility="language learned"),
            "sentence": told,
        },
    ]


def _row(row: Measured) -> dict[str, Any]:
    outcome = row.outcome
    promise = None if outcome.audit is None else outcome.audit.released.get("guarantee")
    made = outcome.setting.made()
    return {
        "label": row.label,
        "words": made.in_words() if outcome.setting.kind == "rule" else getattr(made, "summary", ""),
        "promise": promise_in_short(promise),
        "survival": outcome.survival,
        "values": {name: row.values.get(key) for key, name in VALUES.items()},
        "found": row.found,
        "tied": row.tied,
        "one_name_lasts": row.one_name_lasts,
    }


def _kept(row: Measured, stratum: str) -> float:
    share: float = getattr(row.outcome.survival, stratum)
    return share


def _language(row: Measured) -> float:
    return row.values.get(LANGUAGE, 0.0)


def _promises(row: Measured) -> bool:
    audit = row.outcome.audit
    return audit is not None and (audit.released.get("guarantee") or {}).get("model") != "none"


def _or_none(row: Measured, share: float) -> float | None:
    return None if row.found is None else share


def _exposure(row: Measured) -> str:
    """Who is given away, in words."""
    if row.found is None:
        return "nobody is behind a name"
    found = f"{percent(row.found.value)} of released people are found by somebody who knows a few of their queries"
    if row.tied is None:
        return f"{found}, and one name ties together all that a person asked"
    return f"{found}, and names of {percent(row.tied.value)} are tied together again"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

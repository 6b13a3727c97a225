"""The page on today's rules: what each keeps of a log and whom it gives away, in one table and three pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

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


Edition = Literal["internal", "synthetic"]


def write_rules(found: Comparison, folder: Path, *, subject: str, edition: Edition = "internal") -> Path:
    """Write the page into the folder of the comparison."""
    replace_private(folder / PAGE, rules_page(found, subject=subject, edition=edition))
    return folder / PAGE


def rules_page(found: Comparison, *, subject: str, edition: Edition = "internal") -> str:
    """The rules and what stands beside them; everybody may see that on a synthetic log, which is about nobody."""
    rows = measured(found)
    return render(
        "rules.html.j2",
        edition=edition,
        subject=subject,
        answers=answers(rows),
        values=list(VALUES.values()),
        rules=[_row(row) for row in rows if row.outcome.setting.kind == "rule"],
        beside=[_row(row) for row in rows if row.outcome.setting.kind == "mechanism"],
        pictures=_pictures(rows),
        problems=[(outcome.setting.label, outcome.problem) for outcome in found.outcomes if outcome.problem],
    )


def answers(rows: Sequence[Measured]) -> list[tuple[str, str]]:
    """Which rule keeps, which protects, what lies between, and what a promise would give: a word, and a sentence."""
    rules = [row for row in rows if row.outcome.setting.kind == "rule" and row.outcome.records]
    if not rules:
        return [("Nothing", "no rule could be tried.")]
    keeps = max(rules, key=lambda row: _kept(row, "tail"))
    quiet = [row for row in rules if row.exposed == 0.0]
    ill = "It gives nobody away" if keeps in quiet else f"It gives away {_worst_of(keeps)}"
    said = [("Keeps most", f"{keeps.label}: {percent(_kept(keeps, 'tail'))} of rare queries. {ill}.")]
    protect = [row for row in quiet if row is not keeps]
    if protect:
        most = max(_kept(row, "tail") for row in protect)
        much = "None" if most == 0 else f"At most {percent(most)}"
        names = _listed([row.label for row in protect])
        said.append(("Protect", f"{names}: these attacks name nobody. {much} of the rare queries is kept."))
    for row in rules:
        if row not in quiet and row is not keeps:
            kept = percent(_kept(row, "tail"))
            said.append(("Between", f"{row.label} keeps {kept} of rare queries and gives away {_worst_of(row)}."))
    beside = [row for row in rows if _promises(row) and row.exposed == 0.0 and row.outcome.records]
    if beside:
        best = max(beside, key=_language)
        said.append(
            (
                "Beside the rules",
                f"{best.label}, which promises something to each person: these attacks name nobody. It teaches "
                f"{percent(_language(best))} of what the raw log teaches about other people's language, and keeps "
                f"{percent(_kept(best, 'tail'))} of rare queries as typed.",
            )
        )
    return said


def _worst_of(row: Measured) -> str:
    """The greatest share of people that one attack finds, in words, and how much of theirs is found with them."""
    ways = {
        "released people to somebody who knows a few of their queries": row.found_share,
        "people to somebody who knows two queries that they asked in a row": 0.0
        if row.pair is None
        else row.pair.value,
        "people to somebody who knows a family name": 0.0 if row.name is None else row.name.value,
    }
    way = max(ways, key=lambda each: ways[each])
    return f"{percent(ways[way])} of {way}, {'with all' if row.one_name_lasts else 'with a part of what'} they asked"


def _pictures(rows: Sequence[Measured]) -> list[dict[str, Any]]:
    kept = [Bars(row.label, (_kept(row, "head"), _kept(row, "tail"))) for row in rows]
    exposed = [
        Bars(row.label, (_or_none(row, row.found_share), None if row.pair is None else row.pair.value)) for row in rows
    ]
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
            "title": "Who is found",
            "plot": bar_chart(exposed, ("by a few queries", "by two in a row"), title="Shares of people"),
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
        "known": {"pair": row.pair, "name": row.name},
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

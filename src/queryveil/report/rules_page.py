"""The page on today's rules: what each keeps of a log and whom it gives away, in one table and three pictures."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from queryveil.experiments.comparison import Comparison
from queryveil.experiments.rule_bench import VALUES, MeasuredRule, measured
from queryveil.privacy.keys import replace_private
from queryveil.report.bar_chart import Bars, bar_chart
from queryveil.report.charts import SHAPES, Point, frontier_plot
from queryveil.report.decision_sheet import promises
from queryveil.report.formatting import percent
from queryveil.report.page import PAGE, promise_in_short
from queryveil.report.rendering import render

LANGUAGE = "language"
EXPOSED = "people found or tied again"
HARDLY = 0.05
"""A rule that keeps less of the rare queries keeps hardly any."""


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
        measured_on=measured_on(rows),
        values=list(VALUES.values()),
        rules=[_row(row) for row in rows if row.outcome.setting.kind == "rule"],
        beside=[_row(row) for row in rows if row.outcome.setting.kind == "mechanism"],
        pictures=_pictures(rows),
        problems=[(outcome.setting.label, outcome.problem) for outcome in found.outcomes if outcome.problem],
    )


def answers(rows: Sequence[MeasuredRule]) -> list[tuple[str, str]]:
    """Which rule keeps, which protects, which does neither, and what a promise would give: a word, and a sentence."""
    rules = [row for row in rows if row.outcome.setting.kind == "rule" and row.outcome.records]
    if not rules:
        return [("Nothing", "no rule could be tried.")]
    keeps = max(rules, key=lambda row: _kept(row, "tail"))
    quiet = [row for row in rules if row.exposed == 0.0]
    ill = "No attack tried here finds anybody" if keeps in quiet else f"It exposes {_worst_of(keeps)}"
    said = [("Keeps most", f"{keeps.label}: {percent(_kept(keeps, 'tail'))} of rare queries. {ill}.")]
    protect = [row for row in quiet if row is not keeps]
    if protect:
        most = max(_kept(row, "tail") for row in protect)
        much = "none" if most == 0 else f"at most {percent(most)}"
        names = _listed([row.label for row in protect])
        learned = percent(max(map(_language, protect)))
        said.append(
            (
                "Protects",
                f"{names}: no attack tried here finds anybody; {much} of the rare queries is kept, and at most "
                f"{learned} is learned of how other people word theirs.",
            )
        )
    for row in rules:
        if row not in quiet and row is not keeps:
            kept = _kept(row, "tail")
            word = "Neither" if kept < HARDLY else "Between"
            said.append((word, f"{row.label} keeps {percent(kept)} of rare queries and exposes {_worst_of(row)}."))
    beside = [row for row in rows if _promises(row) and row.exposed == 0.0 and row.outcome.records]
    if beside:
        best = max(beside, key=_language)
        what = "made-up queries of made-up people, with" if best.found is None else "a mechanism with"
        said.append(
            (
                "Beside the rules",
                f"{best.label}, {what} a promise to each real person ({_promise(best)}): no attack tried here finds "
                f"anybody; {percent(_language(best))} is learned of how other people word their queries; as typed, "
                f"{percent(_kept(best, 'tail'))} of rare and {percent(_kept(best, 'head'))} of frequent ones are kept.",
            )
        )
    return said


def measured_on(rows: Sequence[MeasuredRule]) -> str:
    """What the figures hold for, in two sentences."""
    audit = next((row.outcome.audit for row in rows if row.outcome.audit), None)
    counts = {} if audit is None else audit.context
    log = "one log"
    if "original" in counts:
        log += f", {counts['original']['records']:,} records of {counts['original']['users']:,} people"
    if "held_out" in counts:
        log += f" ({counts['held_out']['users']:,} more were kept aside to judge)"
    return (
        f"Measured on {log}. Rules that ask for a number of people keep more of a larger log, and what they expose may "
        "differ there. No rule promises anything: better attacks may find more."
    )


def _promise(row: MeasuredRule) -> str:
    audit = row.outcome.audit
    return "" if audit is None else promises(audit.released)[0]


def _worst_of(row: MeasuredRule) -> str:
    """The greatest share of people that one attack finds, in words, and how much of theirs is found with them."""
    ways = {
        "the people in it to somebody who knows one to five of their queries": row.found_share,
        "all people to somebody who knows two queries that they asked in a row": 0.0
        if row.pair is None
        else row.pair.value,
        "all people to somebody who knows a family name that they searched for": 0.0
        if row.name is None
        else row.name.value,
    }
    way = max(ways, key=lambda each: ways[each])
    return f"{percent(ways[way])} of {way}, {'with all' if row.one_name_lasts else 'with a part of what'} they asked"


def _pictures(rows: Sequence[MeasuredRule]) -> list[dict[str, Any]]:
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
            "title": "What a recipient learns, against who is exposed",
            "plot": frontier_plot(points, risk=EXPOSED, utility="language learned"),
            "sentence": f"{told} The axis below is drawn out where risks are small.",
        },
        {
            "title": "What is kept of frequent and of rare queries",
            "plot": bar_chart(kept, ("head", "tail"), title="Shares of records kept as typed"),
            "sentence": f"Of the records with rare texts (the tail) {most.label} keeps {percent(_kept(most, 'tail'))} "
            f"and {least.label} {percent(_kept(least, 'tail'))}.",
        },
        {
            "title": "Who is found",
            "plot": bar_chart(exposed, ("by one to five queries", "by two in a row"), title="Shares of people"),
            "sentence": f"Most are exposed by {worst.label}: {_exposure(worst)}. “None” says that nobody is behind "
            "a name: only counts or made-up users are published.",
        },
    ]


def _row(row: MeasuredRule) -> dict[str, Any]:
    outcome = row.outcome
    promise = None if outcome.audit is None else outcome.audit.released.get("guarantee")
    made = outcome.setting.made()
    return {
        "label": row.label,
        "words": made.in_words() if outcome.setting.kind == "rule" else getattr(made, "summary", ""),
        "origin": getattr(made, "origin", ""),
        "promise": promise_in_short(promise),
        "survival": outcome.survival,
        "values": {name: row.values.get(key) for key, name in VALUES.items()},
        "found": row.found,
        "known": {"pair": row.pair, "name": row.name},
        "tied": row.tied,
        "one_name_lasts": row.one_name_lasts,
    }


def _kept(row: MeasuredRule, stratum: str) -> float:
    share: float = getattr(row.outcome.survival, stratum)
    return share


def _language(row: MeasuredRule) -> float:
    return row.values.get(LANGUAGE, 0.0)


def _promises(row: MeasuredRule) -> bool:
    audit = row.outcome.audit
    return audit is not None and (audit.released.get("guarantee") or {}).get("model") != "none"


def _or_none(row: MeasuredRule, share: float) -> float | None:
    return None if row.found is None else share


def _exposure(row: MeasuredRule) -> str:
    """Who is given away, in words."""
    if row.found is None:
        return "nobody is behind a name"
    found = (
        f"{percent(row.found.value)} of the people in it are found by somebody who knows one to five of their queries"
    )
    if row.tied is None:
        return f"{found}, and one name ties together all that a person asked"
    return f"{found}, and names of {percent(row.tied.value)} are tied together again"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"

"""The report: one self-contained HTML file that a privacy officer can read, print and sign.

Two editions of the same page. The public one lies inside the release (`report.html`, covered by its signature) and
shows only what `editions` allows. The internal one goes to a folder of its own beside the release (`DIR-internal`, for
its owner alone), with exact figures, queries, the findings as JSON, the whole configuration and BibTeX.

See `rendering` for how pages are kept inert.

>>> promise_in_short({"model": "approx-dp", "unit": "user", "epsilon": 2.0, "delta": 1e-6})
'ε = 2, δ = 1e-06 per user'
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

import polars as pl

from queryveil.audit import survival
from queryveil.audit.auditing import fingerprint, read_release
from queryveil.audit.before_after import pairs
from queryveil.audit.finding import Audit
from queryveil.audit.verdict import ACCEPTED_RISK, UNIT_IN_WORDS, Answer, three_answers, verdict
from queryveil.audit.worst_case import about_nobody
from queryveil.errors import RefusedError, UsageError
from queryveil.log import QueryLog
from queryveil.log.identifying import merged
from queryveil.privacy import Ledger
from queryveil.privacy.guarantee import headline_of, in_short, rounded_up
from queryveil.privacy.keys import private_folder, replace_private
from queryveil.release.manifest import add_report, verify
from queryveil.report import facts
from queryveil.report.approval import keep_sheet
from queryveil.report.citations import bibtex
from queryveil.report.decision_sheet import DecisionSheet, decision_sheet
from queryveil.report.editions import (
    FEWEST_PEOPLE,
    NOT_SHOWN,
    UNCERTAIN,
    Twin,
    coarsen,
    needs_twin,
    people_of,
    steps_for,
    synthetic_twin,
)
from queryveil.report.rendering import render
from queryveil.version import __version__

Edition: TypeAlias = Literal["public", "internal"]
EDITIONS: tuple[Edition, ...] = ("public", "internal")
PAGE = "report.html"


@dataclass(frozen=True)
class Written:
    """Where each edition went; None where it was not asked for or, for a log of another tool, there is none."""

    public: Path | None
    internal: Path | None


def write_report(
    audit: Audit,
    release: str | Path,
    *,
    original: QueryLog,
    released: QueryLog,
    editions: Iterable[Edition] = EDITIONS,
    owners: pl.Series | None = None,
    max_risk: float = ACCEPTED_RISK,
    reason: str = "",
    purpose: str = "",
    ledger: Ledger | None = None,
    on_step: Callable[[str], None] = lambda step: None,
) -> Written:
    """Write the report on `release`, a release folder or the file of a log that another tool protected.

    The public edition of such a foreign log is not made: nobody here knows what exact figures would do to its promise.
    Of a release folder the report tells what its verified manifest says, and an audit of another release is refused.
    `owners` are who is behind each released record, for queries before and after; `max_risk` is what the holder accepts
    of any attack, and `reason` why a setting above that was chosen.
    """
    release = Path(release)
    if audit.context.get("in_blocks"):
        raise RefusedError("no report is made of an audit in blocks: attacks that the answer needs were not tried.")
    if release.is_dir():
        audit = _of_this_release(audit, release)
    wanted = set(editions)
    unknown = wanted - set(EDITIONS)
    if unknown:
        raise UsageError(f"editions are {' and '.join(EDITIONS)}.")
    internal = public = None
    if "internal" in wanted:
        sheet = internal_sheet(audit, original=original, released=released, owners=owners, max_risk=max_risk)
        page = internal_page(
            audit, original=original, released=released, sheet=sheet, purpose=purpose, reason=reason, ledger=ledger
        )
        internal = _write_internal(internal_folder(release), page, audit)
        keep_sheet(internal.parent, sheet, audit.released)
        on_step("internal edition written")
    if "public" in wanted and release.is_dir():
        twin = synthetic_twin(audit.released) if needs_twin(audit.released) and not audit.broken() else None
        if twin is not None:
            on_step("synthetic twin audited")
        public = add_report(release, public_page(audit, twin=twin, purpose=purpose, max_risk=max_risk))
        on_step("public edition signed")
    return Written(public, internal)


def _of_this_release(audit: Audit, folder: Path) -> Audit:
    """The audit with the folder's own manifest, after that was verified and found to be about what was audited."""
    manifest = verify(folder).manifest
    output = audit.released.get("output") or {}
    if "sha256" in output:
        same = output["sha256"] == manifest["output"]["sha256"]
    else:  # audited before it was written: there was no file yet
        same = audit.fingerprint == fingerprint(read_release(folder)[0]) and all(
            audit.released.get(name) == manifest.get(name) for name in ("mechanism", "mode", "noise")
        )
    if not same:
        raise RefusedError("the audit is about another release than the one in this folder. Audit this one first.")
    return replace(audit, released=manifest)


def internal_folder(release: Path) -> Path:
    """Where the internal edition on a release goes: beside it, never inside it."""
    release = release.resolve()
    return release.with_name(f"{release.name if release.is_dir() else release.name.split('.')[0]}-internal")


def internal_sheet(
    audit: Audit,
    *,
    original: QueryLog,
    released: QueryLog,
    owners: pl.Series | None = None,
    max_risk: float = ACCEPTED_RISK,
) -> DecisionSheet:
    """The decision sheet for the holder, with queries of the log before and after."""
    if audit.context.get("similar_ids") == "same":
        original = merged(original)
    also_asked = made_up_but_asked(audit, original, released)
    shown = () if also_asked is not None else pairs(original, released, owners=owners)
    return decision_sheet(audit, max_risk=max_risk, pairs=shown, also_asked=also_asked)


def made_up_but_asked(audit: Audit, original: QueryLog, released: QueryLog) -> float | None:
    """The share of made-up records whose text is in the log all the same; None where nothing is made up."""
    if not any(found.key == "contents-synthetic" and found.value > 0 for found in audit.findings):
        return None
    asked = released.frame["query"].is_in(original.frame["query"].unique().implode())
    return float(asked.sum()) / len(released)


def public_page(audit: Audit, *, twin: Twin | None = None, purpose: str = "", max_risk: float = ACCEPTED_RISK) -> str:
    """The edition for everybody: no query, nobody's name, and only figures that may be told."""
    manifest = audit.released
    if audit.broken():
        raise RefusedError(
            "a figure contradicts the promise of this release, so no public edition is made of it. The internal "
            "edition tells which. Do not publish the release."
        )
    if needs_twin(manifest):
        if twin is None:
            raise RefusedError(
                "exact figures would void the promise; the public edition needs a synthetic twin's audit."
            )
        shown = twin.audit
        size = f"{shown.context.get('users', 0):,} users and {shown.context.get('records', 0):,} records"
        note = (
            "The figures on this page come from a synthetic twin: the same mechanism with the same settings on a made-"
            f"up log of {size}, attacked and measured in the same way. Exact figures of the private log are withheld: "
            "they would be one more release of it that the promise does not cover. So the answer above is about the "
            "mechanism on made-up data; that no exact figure contradicts the promise was checked before it was signed."
        )
    else:
        shown = coarsen(audit)
        note = (
            f"The figures on this page are coarse on purpose: {_steps_in_words(audit)} What counts the private log "
            "itself (its records, people and texts, trials, chance) is left out, so that no single figure tells how "
            f"many people it has to within {UNCERTAIN}. Exact figures stay with its holder."
        )
    exact = None if twin else audit
    answer = verdict(dict(manifest), shown, exact=exact, made_up=twin is not None, max_risk=max_risk)
    known = replace(shown, released=dict(manifest))
    sheet = decision_sheet(known, max_risk=max_risk, answer=answer, pairs=twin.pairs if twin else ())
    sheet = replace(sheet, told=not any(item.reason == NOT_SHOWN for item in shown.left_out))
    figures_of = "the synthetic twin" if twin else "this release"
    return _release_page(
        "public", manifest, shown, sheet=sheet, purpose=purpose, figures_note=note, figures_of=figures_of
    )


def _steps_in_words(audit: Audit) -> str:
    percent = steps_for(people_of(audit))
    if percent is None:
        return f"with fewer than {FEWEST_PEOPLE} published people none is shown."
    return f"risks are rounded up and utilities down in steps of {percent} %, intervals outwards."


def internal_page(
    audit: Audit,
    *,
    original: QueryLog,
    released: QueryLog,
    sheet: DecisionSheet | None = None,
    purpose: str = "",
    reason: str = "",
    ledger: Ledger | None = None,
) -> str:
    """The edition for the holder: exact figures, examples and the worst residual queries."""
    entries, left = [], None
    sheet = sheet or internal_sheet(audit, original=original, released=released)
    if audit.context.get("similar_ids") == "same":
        original = merged(original)
    if ledger is not None:
        entries, left = ledger.entries().to_dicts(), ledger.remaining()
    return _release_page(
        "internal",
        audit.released,
        audit,
        sheet=sheet,
        purpose=purpose,
        reason=reason,
        left=left,
        ledger_entries=entries,
        survival=survival.survival(original, released),
        examples=survival.examples(original, released),
        published=survival.published_examples(original, released),
        rarest=survival.rarest(original, released),
        few=survival.FEW,
    )


def _release_page(
    edition: Edition,
    manifest: Mapping[str, Any],
    audit: Audit,
    *,
    sheet: DecisionSheet,
    purpose: str,
    reason: str = "",
    figures_note: str = "",
    figures_of: str = "this release",
    left: tuple[float, float] | None = None,
    **internal_only: Any,
) -> str:
    guarantee = manifest.get("guarantee")
    mechanism = str(manifest.get("mechanism", ""))
    utilities = audit.utilities()
    return render(
        "release.html.j2",
        edition=edition,
        subject=f"Release made with {facts.named(mechanism)}" if mechanism else "Release made by another tool",
        sheet=sheet,
        reason=reason,
        headline=_headline(guarantee),
        guarantee=guarantee,
        in_short=in_short(guarantee) if guarantee else [],
        unit_in_words=UNIT_IN_WORDS.get(str((guarantee or {}).get("unit")), ""),
        figures_note=figures_note,
        purpose=purpose or sheet.purpose,
        context=facts.context(manifest, audit if edition == "internal" else None),
        columns=manifest.get("columns", {}),
        answers=_answers(audit, sheet),
        risks=[found for found in audit.risks() if found not in about_nobody(audit)],
        about_nobody=about_nobody(audit),
        figures_of=figures_of,
        utilities=utilities,
        left_out=[item for item in audit.left_out if item.reason != NOT_SHOWN],
        withheld=sum(item.reason == NOT_SHOWN for item in audit.left_out),
        budget=facts.budget(manifest, left),
        provenance=facts.provenance(manifest),
        bibtex=bibtex(mechanism),
        configuration=json.dumps(configuration(manifest), indent=2, ensure_ascii=False, default=str),
        **({"ledger_entries": []} | internal_only),
    )


def _answers(audit: Audit, sheet: DecisionSheet) -> list[Answer]:
    """The regulator's questions; a figure that is not told is not said to be missing."""
    answers = three_answers(audit)
    if sheet.told:
        return answers
    return [one if one.findings else replace(one, sentence="No figure is told in this edition.") for one in answers]


def configuration(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Everything that would be needed to do it again, but for the data and the noise."""
    return {
        "queryveil": __version__,
        "python": platform.python_version(),
        "mechanism": manifest.get("mechanism"),
        "mode": manifest.get("mode"),
        "parameters": dict(manifest.get("parameters", {})),
        "noise": dict(manifest.get("noise", {})),
    }


def promise_in_short(guarantee: Mapping[str, Any] | None) -> str:
    """The promise in a few signs, for the head of a page and for tables."""
    if not guarantee:
        return "unknown"
    model, unit = guarantee.get("model"), guarantee.get("unit")
    if model == "none":
        return "nothing formal"
    if model in ("k-anonymity", "probabilistic-k-anonymity"):
        return f"k = {guarantee.get('k')}"
    delta = guarantee.get("delta")
    slack = f", δ = {rounded_up(float(delta))}" if delta else ""
    return f"ε = {rounded_up(float(guarantee.get('epsilon', 0)))}{slack} per {unit}"


def _headline(guarantee: Mapping[str, Any] | None) -> str:
    return headline_of(guarantee) if guarantee else "Unknown: the release was made by another tool"


def _write_internal(folder: Path, page: str, audit: Audit) -> Path:
    """Write the internal edition, for its owner alone, in place of an earlier one."""
    private_folder(folder)
    settings = configuration(audit.released)
    replace_private(folder / "findings.json", json.dumps(audit.as_json(), indent=2, ensure_ascii=False, default=str))
    replace_private(folder / "configuration.json", json.dumps(settings, indent=2, ensure_ascii=False, default=str))
    replace_private(folder / "references.bib", bibtex(str(audit.released.get("mechanism", ""))))
    replace_private(folder / PAGE, page)
    return folder / PAGE

"""The decision of the person who may decide: approve, approve with conditions, or refuse; signed into the release.

A decision follows an audit: the sheet that was looked at lies in the internal folder (`sheet.json`), and it must be of
this very release. What cannot be published (a broken promise, paper mode, a known seed, an empty release) cannot be
approved. Where an attack gets more than the stated limit, or the answer is not decided, approving takes a written
reason.

The decision with name, reason, conditions and date goes into the public manifest, which is signed anew: a changed word
in it no longer verifies. It is what the recipient is told, so it quotes no figure of the private log by itself. What
the decision rested on, the sheet with its exact figures and its SHA-256, stays in the internal folder
(`decision.json`), and the sheet there is printed anew with the decision on it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from queryveil.errors import RefusedError, Remedy, UsageError
from queryveil.privacy.keys import replace_private
from queryveil.release.decision import CHOICES, Choice, Decision
from queryveil.release.manifest import add_decision, verify
from queryveil.report.decision_sheet import DecisionSheet
from queryveil.report.rendering import render

SHEET, SHEET_PAGE, DECIDED = "sheet.json", "sheet.html", "decision.json"
LONGEST: Final = 2000


def keep_sheet(folder: Path, sheet: DecisionSheet, manifest: dict[str, Any]) -> None:
    """Keep a sheet in the internal folder, for the decision that may follow, and as a page to print and sign."""
    content = sheet.as_json() | {"release": _identity(manifest)}
    replace_private(folder / SHEET, json.dumps(content, indent=2, ensure_ascii=False))
    replace_private(folder / SHEET_PAGE, sheet_page(sheet, manifest))


def sheet_page(sheet: DecisionSheet, manifest: dict[str, Any], decided: Decision | None = None) -> str:
    """One page that can be signed."""
    subject = manifest.get("mechanism") or "another tool"
    return render("sheet.html.j2", edition="internal", sheet=sheet, subject=subject, decided=decided, manifest=manifest)


def decide(
    release: str | Path,
    decision: Choice,
    *,
    internal: Path,
    name: str,
    reason: str = "",
    conditions: str = "",
) -> Decision:
    """Sign a decision into a release folder; `internal` is where its audit's internal edition lies."""
    if decision not in CHOICES:
        raise UsageError(f"a decision is one of {', '.join(CHOICES)}.", remedy=Remedy("decision", CHOICES[0]))
    if (decision == "approve with conditions") != bool(conditions.strip()):
        raise UsageError("conditions belong to an approval with conditions, and it needs some.")
    if not name.strip():
        raise UsageError("say who decides.", remedy=Remedy("name", "NAME"))
    if max(map(len, (name, reason, conditions))) > LONGEST:
        raise UsageError(f"name, reason and conditions have at most {LONGEST:,} characters each.")
    manifest = verify(release).manifest
    sheet = read_sheet(internal, manifest)
    if decision != "refuse":
        _refuse_unfit(sheet, reason)
    elif not reason.strip():
        raise UsageError("say why it is refused.", remedy=Remedy("reason", "WHY"))
    today = datetime.now(UTC).date().isoformat()
    made = Decision(decision, name.strip(), reason.strip(), today, conditions.strip())
    add_decision(release, asdict(made))
    if sheet is not None:
        digest = hashlib.sha256((internal / SHEET).read_bytes()).hexdigest()
        rested_on = {"sheet_sha256": digest, "release": _identity(manifest)}
        replace_private(internal / DECIDED, json.dumps(asdict(made) | rested_on, indent=2, ensure_ascii=False))
        replace_private(internal / SHEET_PAGE, sheet_page(sheet, manifest, made))
    return made


def _refuse_unfit(sheet: DecisionSheet | None, reason: str) -> None:
    if sheet is None:
        raise RefusedError("nobody has audited this release yet, so there is nothing to decide by. Audit it first.")
    if sheet.verdict.answer == "No":
        raise RefusedError(f"this release cannot be approved. {' '.join(sheet.verdict.reasons)}")
    if (sheet.above or sheet.verdict.answer == "Not decided") and not reason.strip():
        what = sheet.limit if sheet.above else f"{sheet.verdict.answer}: {sheet.verdict.line}"
        raise RefusedError(f"{what} To approve it all the same, write down why.", remedy=Remedy("reason", "WHY"))


def _identity(manifest: dict[str, Any]) -> str:
    return str((manifest.get("output") or {}).get("sha256", ""))


def read_sheet(internal: Path, manifest: dict[str, Any]) -> DecisionSheet | None:
    """The sheet that was kept in an internal folder, if there is one; refused if it is of another release."""
    if not (internal / SHEET).is_file():
        return None
    kept: dict[str, Any] = json.loads((internal / SHEET).read_bytes())
    if kept.pop("release", "") != _identity(manifest):
        raise RefusedError("the audit beside it is of another release. Audit this one first.")
    return msgspec.convert(kept, DecisionSheet)

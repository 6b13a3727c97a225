"""`queryveil audit`: read what is needed, run the audit, show its figures."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from queryveil.audit.auditing import audit, parts, read_release
from queryveil.audit.finding import Audit, Finding
from queryveil.checks import require
from queryveil.cli import console
from queryveil.cli.log_options import read_log, tell_reading
from queryveil.errors import UsageError
from queryveil.knowledge.collections import Collection
from queryveil.log import QueryLog, read_with_report
from queryveil.release.pipeline import Source, known_format
from queryveil.release.secrets import read as read_secrets
from queryveil.report.page import write_report


@dataclass(frozen=True, kw_only=True)
class Logs:
    """What an audit reads."""

    original: Source
    released: Path
    secrets: Path | None = None
    other: Path | None = None
    other_secrets: Path | None = None
    collection: Path | None = None
    released_format: str | None = None


def run(logs: Logs, *, edition: Literal["public", "internal"], json: bool) -> None:
    """Audit, write the edition of the report, and show: exact figures only where the edition is internal."""
    if edition == "public" and not logs.released.is_dir():
        raise UsageError("a public edition lies inside a release; give the release folder, or use --edition internal.")
    require(known_format("released_format", logs.released_format))
    secrets = read_secrets(logs.secrets) if logs.secrets else None
    other_secrets = read_secrets(logs.other_secrets) if logs.other_secrets else None
    with console.steps("audit", len(parts()) + 2) as step:
        released, manifest = _released(logs.released, logs.released_format)
        column = (manifest or {}).get("parameters", {}).get("category_column")
        original, _ = read_log(replace(logs.original, extras=(column,)) if column else logs.original)
        other = _released(logs.other, logs.released_format)[0] if logs.other else None
        step("read")
        found = audit(
            original, released, manifest=manifest, secrets=secrets, other=other, other_secrets=other_secrets,
            collection=Collection.read(logs.collection) if logs.collection else None, on_step=step,
        )  # fmt: skip
        written = write_report(found, logs.released, original=original, released=released, editions=[edition])
        step("report written")
    report = written.public or written.internal
    if json:
        console.show_json((found.as_json() if edition == "internal" else {}) | {"report": report})
        return
    if edition == "internal":
        show(found)
    console.show(f"Report written to {report}")


def _released(path: Path, format: str | None) -> tuple[QueryLog, dict[str, Any] | None]:  # noqa: A002
    if path.is_dir():
        return read_release(path)
    log, report = read_with_report(path, format=format)
    tell_reading(path.name, report)
    return log, None


def show(found: Audit) -> None:
    """The figures as two tables, then what breaks a promise and what was left out."""
    for title, findings in (("what an attacker gets", found.risks()), ("what is kept", found.utilities())):
        console.show_grid(title, ["", "figure", "95 % interval", "raw log", "chance", "promise"], map(_row, findings))
    for finding in found.broken():
        console.say(f"The promise is broken: {finding.title}. {finding.explanation}", "red")
    for missing in found.left_out:
        console.say(f"Left out: {missing.title}: {missing.reason}.", "yellow")


def _row(found: Finding) -> list[str]:
    ends = [_told(found, end) for end in (found.low, found.high) if end is not None]
    figures = [_told(found, value) for value in (found.raw, found.chance, found.bound)]
    return [found.title, _told(found, found.value), " … ".join(ends), *figures]


def _told(found: Finding, value: float | None) -> str:
    if value is None:
        return ""
    if found.unit == "share":
        return f"{value:.1%}" if value >= 0.01 or value == 0 else f"{value:.2%}" if value >= 0.0001 else "<0.01%"
    return f"{value:,.0f}" if found.unit == "count" else f"{value:.3f}"

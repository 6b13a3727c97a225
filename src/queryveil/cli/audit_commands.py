"""`queryveil audit`: read what is needed, run the audit, show its figures."""

from __future__ import annotations

import math
import shlex
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from queryveil.checks import parse_size, require
from queryveil.cli import console
from queryveil.cli.log_options import AsJson, HeldOut, read_log, reads_log, tell_reading
from queryveil.errors import Remedy, UsageError

if TYPE_CHECKING:
    from queryveil.audit.finding import Audit, Finding
    from queryveil.log import QueryLog
    from queryveil.release.pipeline import Source
    from queryveil.report.decision_sheet import DecisionSheet


@reads_log("input_format")
def audit(
    source: Source,
    released: Annotated[
        Path, typer.Argument(help="a release folder, or the log that another tool made of it", show_default=False)
    ],
    secrets: Annotated[
        Path | None, typer.Option(help="the release's secrets file; without it attacks on owners are left out")
    ] = None,
    other: Annotated[
        Path | None, typer.Option(help="a second release of the same people, to compare the two as an attacker would")
    ] = None,
    other_secrets: Annotated[Path | None, typer.Option(help="the second release's secrets file")] = None,
    known: Annotated[
        Path | None,
        typer.Option(
            help="a log of earlier queries under the same users that the attacker has; read like the original"
        ),
    ] = None,
    known_before: Annotated[
        str | None,
        typer.Option(
            help="the attacker knows what the original holds before this time; without it, its first half",
            metavar="TIME",
        ),
    ] = None,
    held_out: HeldOut = None,
    max_risk: Annotated[
        float, typer.Option(help="what you accept of any attack, as a share; more needs a reason to be approved")
    ] = 0.05,
    edition: Annotated[
        Literal["public", "internal"],
        typer.Option(
            help="internal: every exact figure, in DIR-internal beside the release; public: what may leave, in DIR"
        ),
    ] = "internal",
    collection: Annotated[
        Path | None, typer.Option(help="folder of a test collection in BEIR layout, to measure retrieval on")
    ] = None,
    released_format: Annotated[str | None, typer.Option(help="format of a released log without a folder")] = None,
    memory: Annotated[
        str | None,
        typer.Option(
            help="about how much memory the audit may take, such as 4GiB; logs that need more wait in a private folder "
            "on disk (TMPDIR says where), and only what can be counted in blocks is told, without a report: every "
            "other attack is named as left out, and the answer is no or not decided. Without it: as much as it takes",
            show_default=False,
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Attack a release in every way that fits, and measure what it is still good for.

    How to read (--input-format, --columns, --encoding, --user-field, --on-error) is said of the original log.
    """
    from queryveil.audit.auditing import audit as run_audit
    from queryveil.audit.auditing import parts, read_tables
    from queryveil.audit.out_of_core import LogsToAudit
    from queryveil.knowledge.collections import Collection
    from queryveil.release.pipeline import known_format
    from queryveil.release.secrets import read as read_secrets
    from queryveil.report.decision_sheet import decision_sheet
    from queryveil.report.page import made_up_but_asked, write_report

    if edition == "public" and not released.is_dir():
        raise UsageError(
            "a public edition lies inside a release; give the release folder.", remedy=Remedy("edition", "internal")
        )
    require(known_format("released_format", released_format))
    if known is not None and known_before is not None:
        raise UsageError("the attacker knows a log, or what lies before a time: give one of known, known_before.")
    moment = None if known_before is None else parse_time("known_before", known_before)
    room = math.inf if memory is None else parse_size("memory", memory)
    beside = other, known, known_before, held_out, collection
    logs = LogsToAudit(source, released, secrets=secrets, memory=room, format=released_format)
    if logs.in_blocks and (edition == "public" or any(value is not None for value in beside)):
        raise UsageError(
            "in so little memory only figures are counted that need neither another release, nor what attackers know, "
            "nor held-out people, nor documents, and no public edition is made.",
            remedy=Remedy("memory", "a larger size"),
        )
    other_owners = read_secrets(other_secrets) if other_secrets else None
    with console.steps("audit", len(parts()) + 2) as step, logs:
        for name, read_report in logs.reports:
            tell_reading(name, read_report)
        original, protected, manifest = (logs.given[name] for name in ("original", "released", "manifest"))
        tables = None if manifest is None or logs.in_blocks else read_tables(released, manifest)
        second = _read_released(other, released_format)[0] if other else None
        past, judges = (read_log(source.beside(path))[0] if path else None for path in (known, held_out))
        step("read")
        found = run_audit(
            **logs.given, other=second, other_secrets=other_owners, known=past, known_before=moment, held_out=judges,
            tables=tables, collection=Collection.read(collection) if collection else None, on_step=step,
        )  # fmt: skip
        if logs.in_blocks:
            _tell_counted(found, max_risk, as_json=json)
            return
        owners = logs.given["secrets"]
        written = write_report(
            found, released, original=original, released=protected, editions=[edition], max_risk=max_risk,
            owners=None if owners is None else owners.owners,
        )  # fmt: skip
        step("report written")
    report = written.public or written.internal
    also_asked = made_up_but_asked(found, original, protected)
    sheet = decision_sheet(found, max_risk=max_risk, also_asked=also_asked)
    if json:
        figures = found.as_json() | {"verdict": asdict(sheet.verdict), "sheet": sheet.as_json()}
        console.show_json((figures if edition == "internal" else {}) | {"report": report})
        return
    if edition == "internal":
        show(found)
    show_sheet(sheet)
    console.show(f"Report written to {report}")
    if edition == "public":
        console.show("The figures above are exact and for you alone; the report tells only what may leave.")
        console.show_command(
            f"To decide on it: queryveil audit {shlex.quote(source.place)} {released}, then queryveil approve"
        )
    elif released.is_dir():
        console.show_command(f"Decide: queryveil approve {released} --name NAME")


def _tell_counted(found: Audit, max_risk: float, *, as_json: bool) -> None:
    """The figures of an audit in blocks, and that it is not a whole one."""
    from queryveil.audit.verdict import verdict

    answer = verdict(found.released, found, max_risk=max_risk)
    if as_json:
        console.show_json(found.as_json() | {"verdict": asdict(answer), "report": None})
        return
    show(found)
    console.show(f"May this be published? {answer.answer}. {answer.line}")
    console.show(
        "This is not a whole audit: it counted in blocks, and what is named above as left out was not tried. There is "
        "no report of it. A whole one needs the logs in memory."
    )


def _read_released(path: Path, format: str | None) -> tuple[QueryLog, dict[str, Any] | None]:  # noqa: A002
    from queryveil.audit.auditing import read_release
    from queryveil.log import read_with_report

    if path.is_dir():
        return read_release(path)
    log, report = read_with_report(path, format=format)
    tell_reading(path.name, report)
    return log, None


def parse_time(name: str, given: str) -> datetime:
    """A day, or a day and a time, as ISO 8601 writes them; in UTC, as logs are, where it names a zone.

    >>> parse_time("known_before", "2006-04-01"), parse_time("known_before", "2006-04-01T02:00+02:00").hour
    (datetime.datetime(2006, 4, 1, 0, 0), 0)
    """
    try:
        moment = datetime.fromisoformat(given)
    except ValueError:
        raise UsageError(
            f"{name} must be a day or a time, such as 2006-04-01 or 2006-04-01T12:00.",
            remedy=Remedy(name, "2006-04-01"),
        ) from None
    return moment if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)


def show_sheet(sheet: DecisionSheet) -> None:
    """May this be published, and by which figures: what a report says first, and what stays on the screen."""
    for line in sheet.lines():
        console.show(line)


def show(found: Audit) -> None:
    """The figures as two tables, then what breaks a promise and what was left out."""
    from queryveil.audit.worst_case import about_nobody

    nobody = about_nobody(found)
    risks = [risk for risk in found.risks() if risk not in nobody]
    sides = ("what an attacker gets", "chance", risks), ("what is kept", "floor", found.utilities())
    for title, least, findings in sides:
        console.show_grid(title, ["", "figure", "95 % interval", "raw log", least, "promise"], map(_row, findings))
    if nobody:
        console.show(f"Not shown: {len(nobody)} attacks that pick out or link made-up users; nobody is behind them.")
    for finding in found.broken():
        console.say(f"The promise is broken: {finding.title}. {finding.explanation}", "red")
    for missing in found.left_out:
        console.say(f"Left out: {missing.title}: {missing.reason}.", "yellow")


def _row(found: Finding) -> list[str]:
    from queryveil.audit.formatting import TOO_FEW, between, format_figure

    figures = [
        format_figure(value, found.unit) if value is not None else ""
        for value in (found.raw, found.chance, found.bound)
    ]
    if found.too_few:
        return [found.title, TOO_FEW, f"{found.successes} of {found.trials} trials", *figures]
    return [found.title, format_figure(found.value, found.unit), between(found), *figures]

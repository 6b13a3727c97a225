"""What jobs do, in a worker process: read and count a log, compare and try mechanisms on it, release it, report on it.

Each kind of work is a function from a task to the result that the page shows. The library does everything; this module
says in which order, tells how far it is, and keeps what only the holder may have beside the log, where it is deleted
with it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import polars as pl

from queryveil import mechanisms
from queryveil.log import COLUMNS, QueryLog, read, read_with_report, write
from queryveil.log.statistics import describe
from queryveil.privacy import Noise
from queryveil.progress import in_words, listening
from queryveil.release import pipeline
from queryveil.release.mechanism import Mechanism, texts_in_words
from queryveil.web.formatting import purpose_in_words
from queryveil.web.store import RELEASED, Row, Store
from queryveil.web.uploads import refuse_bombs

SAMPLE_ROWS: Final = 6
LONGEST_CELL: Final = 60
SECONDS_BETWEEN_DETAILS: Final = 1.0
PREPARED: Final = "prepared.parquet"
RELEASE_STEPS: Final = ("checked", "log read", "ledger debited", "protected", "secrets written", "log written")


@dataclass(kw_only=True)
class Task:
    """A job, and what it may touch."""

    store: Store
    job: Row
    ledger: Path
    largest_unpacked: int
    _doing: str = ""

    @property
    def request(self) -> Row:
        """What was asked for."""
        request: Row = self.job["request"]
        return request

    @property
    def folder(self) -> Path:
        """Where everything about the log lies."""
        return self.store.log_folder(self.job["log"])

    def step(self, name: str, share: float) -> None:
        """Tell the page what is being done and which share of the whole is behind us."""
        self._doing = name
        self.store.set_job(self.job["id"], step=name, share=share)

    def detail(self, what: str, share: float) -> None:
        """Tell the page how far that is."""
        self.store.set_job(self.job["id"], step=f"{self._doing}: {in_words(what, share)}")


def do(task: Task) -> Row:
    """Do the work of the job's kind."""
    with listening(task.detail, every=SECONDS_BETWEEN_DETAILS):
        return WORK[task.job["kind"]](task)


def profile(task: Task) -> Row:
    """Read the log as the holder confirmed it, count what is in it, and keep it prepared for what comes next."""
    log_row = task.store.log(task.job["log"])
    original = task.store.original(log_row)
    task.step("looking at the file", 0.05)
    refuse_bombs(original, at_most=task.largest_unpacked)
    task.step("reading", 0.15)
    log, report = read_with_report(original, **task.request | {"columns": task.request["columns"] or None})
    task.step("counting", 0.5)
    statistics = describe(log)
    task.step("keeping it ready", 0.9)
    write(log, task.folder / PREPARED, format="parquet")
    found = {
        "format": report.format,
        "lines": report.lines,
        "bad_lines": report.problem_count,
        "problems": [str(problem) for problem in report.problems],
        "notes": list(report.notes),
        "statistics": statistics.as_dict(),
        "sample": _sample(QueryLog(log.frame.head(SAMPLE_ROWS))),
        "columns": [
            {"name": name, "filled": 1 - log.frame[name].null_count() / max(len(log), 1)} for name in log.used_columns
        ],
    }
    task.store.set_log(task.job["log"], profile=found)
    return found


def preview(task: Task) -> Row:
    """What a release would look like, without spending or writing anything; for the holder's eyes."""
    task.step("reading", 0.1)
    source = _source(task)
    mechanism = _mechanism(task)
    task.step("protecting a trial copy", 0.3)
    outcome = pipeline.dry_run(mechanism, source, Noise.secure())
    task.step("comparing", 0.9)
    before = read(source.path)
    return {
        "records": len(outcome.release.log),
        "users": outcome.release.log.user_count(),
        "kept": outcome.kept,
        "texts": texts_in_words(mechanism),
        "columns": dict(outcome.release.columns),
        "before": _sample(before),
        "after": _sample(outcome.release.log),
    }


def release(task: Task) -> Row:
    """Make the signed release. One that is in place already, from before a restart, is only taken note of."""
    identity = task.request["release"]
    place = task.store.release_folder(identity)
    place.mkdir(mode=0o700, exist_ok=True)
    kept: Row = {}
    if not (place / RELEASED).exists():
        kept = _make_release(task, place)
    from queryveil.release.manifest import verify

    manifest = verify(place / RELEASED).manifest
    log = task.store.log(task.job["log"])
    content = {name: manifest[name] for name in ("mechanism", "parameters", "guarantee", "columns", "ledger")}
    content |= {name: manifest["output"][name] for name in ("records", "users", "file")}
    content["chosen_by"] = manifest.get("parameters_chosen_by", "holder")
    content["recipient"] = (log["purpose"] or {}).get("recipient")
    task.store.add_release(identity, log=task.job["log"], title=log["title"], content=content)
    task.store.add_job(task.job["log"], "report", {"release": identity, "reason": task.request.get("reason", "")})
    return {"release": identity, **kept}


def compare(task: Task) -> Row:
    """Try many settings on the log."""
    from queryveil.web.comparing import compare_settings

    task.step("reading", 0.0)
    return compare_settings(task, pipeline.read_source(_source(task))[0])


def report(task: Task) -> Row:
    """Attack and measure a finished release, and put the report's public edition into it, signed with it."""
    from queryveil.audit.auditing import audit, parts, read_release
    from queryveil.audit.verdict import ACCEPTED_RISK, verdict
    from queryveil.privacy import Ledger
    from queryveil.release.secrets import read as read_secrets
    from queryveil.report.page import write_report

    identity = task.request["release"]
    folder = task.store.release_folder(identity) / RELEASED
    task.step("reading", 0.0)
    original = read(task.folder / PREPARED)
    released, manifest = read_release(folder)
    count, done = len(parts()) + 3, 0

    def on_step(name: str) -> None:
        nonlocal done
        done += 1
        task.step(name, min(done / count, 1.0))

    secrets = read_secrets(task.folder / f"secrets-{identity}.parquet")
    found = audit(original, released, manifest=manifest, secrets=secrets, on_step=on_step)
    purpose = task.store.log(task.job["log"])["purpose"] or {}
    served = purpose_in_words(purpose) if purpose else ""
    ledger = Ledger(task.ledger) if task.ledger.exists() else None
    max_risk = float(purpose.get("max_risk", ACCEPTED_RISK))
    write_report(
        found, folder, original=original, released=released, owners=secrets.owners, max_risk=max_risk,
        reason=str(task.request.get("reason") or ""), purpose=served, ledger=ledger, on_step=on_step,
    )  # fmt: skip
    return {"release": identity, "verdict": asdict(verdict(found.released, found, max_risk=max_risk))}


def _make_release(task: Task, place: Path) -> Row:
    source = _source(task)
    target = pipeline.Target(
        folder=place / RELEASED,
        format=task.request["format"],
        ledger=task.ledger if task.ledger.exists() else None,
        secrets=task.folder / f"secrets-{task.request['release']}.parquet",
    )
    if target.secrets:
        target.secrets.unlink(missing_ok=True)  # of a run that was stopped before it released anything

    def on_step(name: str) -> None:
        if name == "log read":  # the debit comes next: from here on a restart must not start over by itself
            task.store.set_job(task.job["id"], request={**task.request, "paying": True})
        elif name == "ledger debited":
            task.store.set_job(task.job["id"], request={**task.request, "paying": True, "paid": True})
        done = RELEASE_STEPS.index(name) + 1 if name in RELEASE_STEPS else len(RELEASE_STEPS)
        task.step(name, done / (len(RELEASE_STEPS) + 1))

    chosen_by = task.request.get("chosen_by", "holder")
    purpose = task.store.log(task.job["log"])["purpose"]
    outcome = pipeline.release(
        _mechanism(task), source, target, Noise.secure(), on_step=on_step, chosen_by=chosen_by,
        purpose=purpose_in_words(purpose) if purpose else "",
    )  # fmt: skip
    return {"kept": outcome.kept, "left_out": outcome.left_out}


def _mechanism(task: Task) -> Mechanism:
    made: Mechanism = mechanisms.make(task.request["mechanism"], **task.request["parameters"])
    return made


def _source(task: Task) -> pipeline.Source:
    """The prepared log with the columns and without the topics that the holder decided on."""
    purpose = task.store.log(task.job["log"])["purpose"] or {}
    path = task.folder / PREPARED
    left_out = set(purpose.get("leave_out", []))
    if left_out:
        log = read(path)
        path = task.folder / f"{task.job['id']}.parquet"
        write(log.keeping([name for name in log.frame.columns if name not in left_out]), path, format="parquet")
    blocklist = None
    if purpose.get("blocked"):
        blocklist = task.folder / f"{task.job['id']}.blocklist"
        blocklist.write_text("\n".join(purpose["blocked"]) + "\n", encoding="utf-8")
    return pipeline.Source(path=path, format="parquet", on_error="fail", block_categories=blocklist)


def _sample(log: QueryLog) -> Row:
    """A few records spread over the log, cells cut to a length that fits a page."""
    columns = [name for name in log.used_columns if name in COLUMNS]
    step = max(1, len(log) // SAMPLE_ROWS)
    rows = log.frame.select(columns).gather_every(step).head(SAMPLE_ROWS)
    shown = rows.select(
        pl.all().cast(pl.String).str.replace(r"( 00:00:00)?\.0+$", "").fill_null("").str.slice(0, LONGEST_CELL)
    )
    return {"columns": columns, "rows": [list(row) for row in shown.iter_rows()]}


WORK: Final[dict[str, Callable[[Task], Row]]] = {
    "profile": profile,
    "compare": compare,
    "preview": preview,
    "release": release,
    "report": report,
}

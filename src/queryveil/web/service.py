"""Everything the page can do, once: the API and the HTML pages are two skins over these functions.

A function takes and returns the values of `models`, so whatever a page shows can be had from the API as well.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from queryveil import mechanisms
from queryveil.errors import DataError, QueryVeilError, RefusedError, Remedy, UsageError, VerificationError
from queryveil.log.formats import FORMATS
from queryveil.privacy import Ledger
from queryveil.privacy.accounting import DELTA_UNIT, EPSILON_UNIT
from queryveil.privacy.guarantee import ChosenBy, in_short
from queryveil.privacy.keys import MANIFEST
from queryveil.release import manifest
from queryveil.release.decision import decision_in_words
from queryveil.release.mechanism import Mechanism
from queryveil.report.approval import decide, read_sheet
from queryveil.report.decision_sheet import DecisionSheet
from queryveil.web import models, parameters, topics, uploads
from queryveil.web.formatting import TASKS, as_page_field, cost_of_stopping, measured_task
from queryveil.web.settings import WebSettings
from queryveil.web.store import INTERNAL, RELEASED, Row, Store, new_identity, pack

SAMPLE_USERS, SAMPLE_RECORDS, SAMPLE_SEED = 3_000, 60_000, 1
Part: TypeAlias = Literal["log", "manifest", "signature", "report", "internal", "all"]


class Service:
    """The work behind the page, over one store."""

    def __init__(self, settings: WebSettings) -> None:
        self.settings = settings
        self.store = Store(settings.folder)

    # Logs

    def logs(self) -> list[models.LogView]:
        """The uploaded logs, newest first."""
        return [_log_view(row) for row in self.store.logs()]

    def log(self, log: models.Identity) -> models.LogView:
        """One log."""
        return _log_view(self.store.log(log))

    async def receive(self, name: str, chunks: AsyncIterator[bytes]) -> models.LogView:
        """Take an upload in, piece by piece, and say what it seems to be."""
        from starlette.concurrency import run_in_threadpool

        identity = new_identity()
        path = self._new_file(identity, uploads.file_name_of(name))
        try:
            await uploads.save(chunks, path, at_most=self.settings.largest_upload)
            return await run_in_threadpool(self._take_in, identity, path, uploads.title_of(name), False)
        except BaseException:
            shutil.rmtree(path.parent, ignore_errors=True)
            raise

    def add_sample(self) -> models.LogView:
        """A synthetic log to try the page on: about nobody, the same for everybody."""
        from queryveil.log import write
        from queryveil.log.synthetic import synth

        log = synth(users=SAMPLE_USERS, records=SAMPLE_RECORDS, seed=SAMPLE_SEED)
        identity = new_identity()
        path = self._new_file(identity, "log.tsv")
        write(log.keeping(FORMATS["aol"].columns), path, format="aol")
        path.chmod(0o600)
        return self._take_in(identity, path, "Sample log (synthetic)", True)

    def _new_file(self, identity: str, name: str) -> Path:
        folder = self.store.log_folder(identity)
        folder.mkdir(mode=0o700)
        return folder / name

    def _take_in(self, identity: str, path: Path, title: str, sample: bool) -> models.LogView:
        size = path.stat().st_size
        if not size:
            raise UsageError("the file is empty. Choose another one.")
        self.store.add_log(
            identity,
            title=title,
            file=path.name,
            size=size,
            sample=sample,
            guess=uploads.guess(path),
            hours=self.settings.keep_hours,
        )
        return self.log(identity)

    def confirm(self, log: models.Identity, reading: models.Reading) -> models.JobView:
        """Confirm format and columns; starts reading and counting."""
        self.log(log)
        if len(set(reading.columns.values())) < len(reading.columns):
            raise UsageError("one column of the file was chosen twice. Choose another, or none, for one of them.")
        content = reading.model_dump()
        self.store.set_log(log, reading=content, profile=None)
        return self.job(self.store.add_job(log, "profile", content))

    def delete_log(self, log: models.Identity) -> None:
        """Delete the original and everything exact about it, now; releases stay."""
        self.log(log)
        self._stop_jobs([job["id"] for job in self.store.jobs(log=log)])
        self.store.delete_log(log)

    def _stop_jobs(self, jobs: list[str]) -> None:
        """Cancel jobs and wait for their workers, which would write again what is deleted next."""
        for job in jobs:
            self.cancel(job)
        deadline = time.monotonic() + 10
        while any(row["id"] in jobs for row in self.store.jobs(state="running")) and time.monotonic() < deadline:
            time.sleep(0.05)

    def set_purpose(self, log: models.Identity, purpose: models.Purpose) -> models.LogView:
        """Say who receives the release, for what, at which risk, and what is left out of it."""
        self._ready(log)
        if purpose.task not in TASKS:
            raise UsageError(f"task must be one of {', '.join(TASKS)}.")
        if purpose.blocked:
            from queryveil.knowledge.categories import NO_CATEGORY, WordNetClassifier
            from queryveil.knowledge.wordnet import WordNet

            tree = WordNetClassifier(WordNet.load()).tree
            if any(tree.find([part.strip() for part in path.split("/")]) == NO_CATEGORY for path in purpose.blocked):
                raise UsageError("one of the blocked categories does not exist. Choose from the list of topics.")
        self.store.set_log(log, purpose=purpose.model_dump())
        return self.log(log)

    def topics(self) -> list[models.TopicView]:
        """The topics that can be kept out of a release; the sensitive ones first."""
        return [
            models.TopicView(name=name, title=title, paths=list(paths), sensitive=sensitive)
            for known, sensitive in ((topics.SENSITIVE, True), (topics.COARSE, False))
            for name, (title, paths) in known.items()
        ]

    def _ready(self, log: str) -> models.LogView:
        found = self.log(log)
        if found.profile is None:
            raise DataError("the log has not been read yet. Confirm its format and columns first.")
        return found

    # Jobs

    def job(self, job: models.Identity) -> models.JobView:
        """One job: how far it is, with its finished parts."""
        row = self.store.job(job)
        points = list(self.store.points(job).values())
        return models.JobView(**{name: row[name] for name in models.JobView.model_fields if name in row}, points=points)

    def latest_job(self, log: str, kind: str) -> models.JobView | None:
        """The newest job of a kind on a log."""
        rows = self.store.jobs(log=log, kind=kind)
        return self.job(rows[0]["id"]) if rows else None

    def cancel(self, job: models.Identity) -> models.JobView:
        """Stop a job; one that has ended stays as it is."""
        self.store.job(job)
        self.store.set_job(job, wanted=0)
        row = self.store.job(job)
        if row["state"] == "waiting":
            self.store.finish_job(job, "cancelled", error=cost_of_stopping(row["request"]))
        return self.job(job)

    def resume(self, job: models.Identity) -> models.JobView:
        """Go on with a job that was cancelled or failed; finished parts are not done again."""
        row = self.store.job(job)
        if row["state"] not in ("cancelled", "failed"):
            raise UsageError("only a job that was cancelled or failed can go on.")
        if row["kind"] == "release" and row["request"].get("paying"):
            raise RefusedError("this release may have been debited already. Make a new one; it will be debited again.")
        self.store.set_job(job, state="waiting", wanted=1, step="waiting to go on", error=None, ended=None)
        return self.job(job)

    # Mechanisms

    def mechanisms(self) -> list[models.MechanismView]:
        """The mechanisms there are, and what can be set."""
        return [parameters.describe(name) for name in mechanisms.names()]

    def plan(self, setting: models.Setting) -> models.Plan:
        """What a mechanism would promise, in words, and what it costs."""
        mechanism = parameters.make(setting.mechanism, setting.parameters)
        guarantee, charge = mechanism.guarantee(), mechanism.charge()
        described = guarantee.as_dict()
        return models.Plan(
            mechanism=setting.mechanism,
            parameters=setting.parameters,
            headline=guarantee.headline(),
            in_short=in_short(described),
            statement=guarantee.statement(),
            model=described["model"],
            assumptions=described["assumptions"],
            not_protected=described["not_protected"],
            evidence=described["evidence"],
            pays=charge.scope,
            epsilon=float(charge.epsilon),
            delta=float(charge.delta),
            affordable=self._affordable(mechanism),
        )

    def _affordable(self, mechanism: Mechanism) -> bool | None:
        charge = mechanism.charge()
        if charge.scope == "nothing" or not self.settings.ledger_file.exists():
            return None
        return Ledger(self.settings.ledger_file).affords(charge)

    def compare(self, log: models.Identity) -> models.JobView:
        """Try many settings on the log, for the purpose that was stated; what was tried before is not tried again."""
        found = self._ready(log)
        if found.purpose is None:
            raise DataError("say first who receives the release, for which task, and how much risk is acceptable.")
        for job in self.store.jobs(log=log, kind="compare"):
            if job["request"] != found.purpose:
                self.cancel(job["id"])
        return self.job(self.store.add_job(log, "compare", found.purpose))

    def comparison(self, log: models.Identity) -> models.Comparison | None:
        """What the newest comparison for the stated purpose has found so far; None where there is none."""
        purpose = self._ready(log).purpose
        job = self.latest_job(log, "compare")
        if purpose is None or job is None or job.request != purpose:
            return None
        tasks = list(dict.fromkeys(task for point in job.points for task in point["utility"]))
        task = measured_task(purpose["task"], tasks)
        points = [
            models.Point(
                **point,
                title=parameters.title_of(point),
                kept_for_task=point["utility"].get(task),
                best=task in point["frontier"],
            )
            for point in job.points
        ]
        result = job.result or {}
        for point in points:
            point.advised = point.label == result.get("advised")
        return models.Comparison(
            job=job,
            task=task,
            asked_task=purpose["task"],
            max_risk=purpose["max_risk"],
            points=sorted(
                points, key=lambda point: (point.kind, not point.records, 2 if point.risk is None else point.risk)
            ),
            reasons=[_with_titles(reason, points) for reason in result.get("reasons", [])],
            people_drawn=result.get("people_drawn"),
            settings=result.get("of", 0),
            to_come=[] if job.state == "done" else result.get("to_come", []),
        )

    def preview(self, log: models.Identity, setting: models.Setting) -> models.JobView:
        """Try a setting on a copy: what would be left, before and after side by side; nothing is spent or written."""
        self._ready(log)
        parameters.make(setting.mechanism, setting.parameters)
        for job in self.store.jobs(log=log, kind="preview"):
            self.cancel(job["id"])
        return self.job(self.store.add_job(log, "preview", setting.model_dump()))

    # Releases

    def release_log(self, log: models.Identity, wanted: models.ReleaseRequest) -> models.JobView:
        """Make a signed release; its budget is debited first."""
        found = self._ready(log)
        mechanism = parameters.make(wanted.mechanism, wanted.parameters)
        if self._affordable(mechanism) is False:
            raise RefusedError("the budget left in the ledger does not suffice for this release. Spend less.")
        if self.above_limit(log, mechanism) and not wanted.reason.strip():
            raise RefusedError(
                "an attack gets more out of this setting than you said is acceptable. To take it all the same, write "
                "down why; the reason goes into your own report.",
                remedy=Remedy("reason", "WHY"),
            )
        chosen = wanted.format or self.release_format(found, mechanism)
        chosen_by = self._chosen_by(log, mechanism)
        request = {**wanted.model_dump(), "format": chosen, "release": new_identity(), "chosen_by": chosen_by}
        return self.job(self.store.add_job(log, "release", request))

    def above_limit(self, log: models.Identity, mechanism: Mechanism) -> bool:
        """Whether the comparison found that an attack gets more out of this setting than was said to be acceptable."""
        found = self.comparison(log)
        if found is None:
            return False
        risky = [point for point in found.points if point.risk is not None and point.risk > found.max_risk]
        return any(_is_of(mechanism, point.model_dump()) for point in risky if point.kind == "mechanism")

    def _chosen_by(self, log: str, mechanism: Mechanism) -> ChosenBy:
        """Who chose a release's parameters: the page's advice, or whoever saw here what other settings do."""
        compared = [(job, self.store.points(job["id"]).values()) for job in self.store.jobs(log=log, kind="compare")]
        previews = [job["request"] for job in self.store.jobs(log=log, kind="preview")]
        advised = [
            point
            for job, points in compared
            for point in points
            if point["kind"] == "mechanism" and point["label"] == (job["result"] or {}).get("advised")
        ]
        if any(_is_of(mechanism, point) for point in advised):
            return "advise"
        looked = any(points for _, points in compared) or not all(_is_of(mechanism, tried) for tried in previews)
        return "compare" if looked else "holder"

    def release_format(self, log: models.LogView, mechanism: Mechanism) -> str:
        """The log's own format, or CSV where that one cannot be written, or needs times and there will be none."""
        own = str(log.profile["format"]) if log.profile else "csv"
        left_out = (log.purpose or {}).get("leave_out", [])
        without_times = "time" in left_out or getattr(mechanism, "time", "drop") == "drop"
        return "csv" if FORMATS[own].read_only or (FORMATS[own].needs_time and without_times) else own

    def releases(self) -> list[models.ReleaseView]:
        """The finished releases, newest first."""
        return [self._release_view(row) for row in self.store.releases()]

    def release(self, release: models.Identity) -> models.ReleaseView:
        """One release."""
        return self._release_view(self.store.release(release))

    def _release_view(self, row: Row) -> models.ReleaseView:
        folder = self.store.release_folder(row["id"])
        log_is_here = any(log["id"] == row["log"] for log in self.store.logs())
        own = {name: row[name] for name in ("id", "title", "created", "log")}
        return models.ReleaseView(
            **own,
            **row["content"],
            decision=_decision_in(folder / RELEASED),
            has_report=(folder / RELEASED / manifest.REPORT).exists(),
            has_internal_report=log_is_here and (folder / INTERNAL / manifest.REPORT).exists(),
        )

    def report_job(self, release: str) -> models.JobView | None:
        """The job that writes a release's report."""
        log = self.release(release).log
        jobs = self.store.jobs(log=log, kind="report") if log else []
        found = [job["id"] for job in jobs if job["request"]["release"] == release]
        return self.job(found[0]) if found else None

    def verify_release(self, release: models.Identity) -> models.Verdict:
        """Check a release's files, hash and signature, as `queryveil verify` does."""
        self.release(release)
        try:
            manifest.verify(self.store.release_folder(release) / RELEASED)
        except (VerificationError, UsageError) as error:
            return models.Verdict(sound=False, problems=[error.describe(as_page_field)])
        return models.Verdict(sound=True, problems=[])

    def sheet(self, release: models.Identity) -> DecisionSheet | None:
        """The decision sheet of a release, for the holder, as long as the log is here."""
        if not self.release(release).has_internal_report:
            return None
        folder = self.store.release_folder(release)
        return read_sheet(folder / INTERNAL, manifest.verify(folder / RELEASED).manifest)

    def decide(self, release: models.Identity, wanted: models.DecisionRequest) -> models.ReleaseView:
        """Approve a release, with conditions or without, or refuse it; signed into its manifest."""
        self.release(release)
        folder = self.store.release_folder(release)
        decide(
            folder / RELEASED, wanted.decision, internal=folder / INTERNAL, name=wanted.name, reason=wanted.reason,
            conditions=wanted.conditions,
        )  # fmt: skip
        return self.release(release)

    def delete_release(self, release: models.Identity) -> None:
        """Delete a release from the server; the ledger keeps its entry."""
        self.release(release)
        jobs = self.store.jobs(kind="report")
        self._stop_jobs([job["id"] for job in jobs if job["request"]["release"] == release])
        self.store.delete_release(release)

    def download(self, release: models.Identity, part: Part) -> Download:
        """A file of a release, or all of them as one archive that `queryveil verify` accepts once unpacked."""
        found = self.release(release)
        folder = self.store.release_folder(release) / RELEASED
        short = f"release-{release[:8]}"
        if part == "all":
            archive = folder.parent / "release.zip"
            pack(folder, archive, short)
            return Download(archive, f"{short}.zip", "application/zip")
        names = {"log": found.file, "manifest": MANIFEST, "signature": manifest.SIGNATURE}
        path = folder / names.get(part, manifest.REPORT)
        if part == "internal":
            path = folder.parent / INTERNAL / manifest.REPORT
        if not path.is_file() or (part == "internal" and not found.has_internal_report):
            raise UsageError("this release has no such file, or not yet.")
        return Download(path, f"{short}-{path.name}", "application/octet-stream")

    # The ledger

    def ledger(self) -> models.LedgerView:
        """Budgets, what was spent, release by release, and what everybody has left."""
        if not self.settings.ledger_file.exists():
            return models.LedgerView(exists=False)
        ledger = Ledger(self.settings.ledger_file)
        left_epsilon, left_delta = ledger.remaining()
        return models.LedgerView(
            exists=True,
            id=ledger.id,
            epsilon=ledger.epsilon_budget / EPSILON_UNIT,
            delta=ledger.delta_budget / DELTA_UNIT,
            left_epsilon=left_epsilon,
            left_delta=left_delta,
            spent=ledger.spent(),
            more=[one.in_words() for one in ledger.next_costs()],
            entries=[
                models.LedgerEntry(**{name: row[name] for name in models.LedgerEntry.model_fields})
                for row in ledger.entries().to_dicts()
            ],
        )

    def make_ledger(self, budget: models.Budget) -> models.LedgerView:
        """Make the ledger that pays for every release from now on."""
        if self.settings.ledger_file.exists():
            raise UsageError("there is a ledger already; a ledger is never overwritten.")
        if budget.epsilon * EPSILON_UNIT < 1 or 0 < budget.delta * DELTA_UNIT < 1:
            raise UsageError("that budget is so small that the ledger would keep it as 0. Choose a larger one.")
        Ledger.create(self.settings.ledger_file, epsilon=budget.epsilon, delta=budget.delta)
        return self.ledger()

    def verify_ledger(self) -> models.Verdict:
        """Check that no entry was changed, nobody's budget is overspent, and every release made here is in it."""
        if not self.settings.ledger_file.exists():
            raise UsageError("there is no ledger yet. Make one first.")
        published = [release.ledger for release in self.releases() if release.ledger]
        try:
            problems = Ledger(self.settings.ledger_file).verify(published)
        except QueryVeilError as error:
            problems = [error.describe(as_page_field)]
        return models.Verdict(sound=not problems, problems=problems)


@dataclass(frozen=True)
class Download:
    """A file to hand out, and under which name."""

    path: Path
    name: str
    media_type: str


def _decision_in(folder: Path) -> str:
    """What the manifest says was decided; the page verifies the folder by itself."""
    try:
        return decision_in_words(json.loads((folder / MANIFEST).read_bytes()))
    except (OSError, ValueError):
        return ""


def _is_of(mechanism: Mechanism, tried: Row) -> bool:
    """Whether a setting that was tried makes this very mechanism."""
    return bool(mechanisms.make(tried["mechanism"], **tried["parameters"]) == mechanism)


def _with_titles(reason: str, points: list[models.Point]) -> str:
    """A reason with the settings' names for people; longer labels first, since one may begin another."""
    for point in sorted(points, key=lambda point: -len(point.label)):
        reason = reason.replace(point.label, f"“{point.title}”")
    return reason


def _log_view(row: Row) -> models.LogView:
    return models.LogView(
        **{name: row[name] for name in models.LogView.model_fields if name != "sample"}, sample=bool(row["sample"])
    )

"""Many settings on one log: what each promises, what an attacker gets, what is kept, and which are worth having.

Settings are tried side by side where several processes are allowed. Each result is kept in the folder as soon as it is
there, so that a comparison that was stopped goes on where it was. Everything in the folder is an exact function of the
private log: it is for its holder, and readable by its owner only.

The risk of a setting is that of its worst attack (`risk`). Utility is told by task, from 0 (nothing is left) to 1 (as
good as the raw log): the mean of the task's measures, where a distance d counts as 1 − d, and a measure that a setting
leaves no ground for (topics of each person in a release without people) as 0. A setting is on a task's frontier if no
other is at least as good in both risk and utility and better in one. Noise is seeded: the same log, the same table.

>>> from queryveil.log.synthetic import synth
>>> import tempfile
>>> sweep = Sweep.of({"mechanism": [{"name": "suppress", "k_text": [2, 5]}], "rule": [{"name": "frequency"}]})
>>> found = compare(synth(users=50, records=1000), Path(tempfile.mkdtemp()) / "comparison", sweep)
>>> found.settings["label"].to_list()
['suppress k_text=2', 'suppress k_text=5', 'frequency']
"""

from __future__ import annotations

import hashlib
import io
import json
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import polars as pl

from queryveil.audit.finding import Audit, Finding, LeftOut
from queryveil.audit.survival import Survival, survival
from queryveil.audit.worst_case import bad_end, worst
from queryveil.checks import require, whole_number
from queryveil.display import table
from queryveil.errors import DataError, QueryVeilError, UsageError
from queryveil.experiments.experiment import tried, tried_rule
from queryveil.experiments.parallel import side_by_side
from queryveil.experiments.sweep import Setting, Sweep
from queryveil.log import QueryLog
from queryveil.privacy import Noise
from queryveil.privacy.keys import private_folder, replace_private
from queryveil.version import __version__

RUNS = "runs"
NOT_A_SHARE_OF_WHAT_IS_KEPT = (
    *(f"frequent-{what}-distance" for what in ("query", "click")),
    *(f"frequent-{what}-precision" for what in ("query", "click")),
)
"""Distances of small shares are near 0 for pure noise as well; precision is 1 for a release of one right text."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of one setting. `problem` says why nothing did."""

    setting: Setting
    seconds: float
    records: int = 0
    audit: Audit | None = None
    survival: Survival | None = None
    problem: str = ""

    @property
    def worst(self) -> Finding | None:
        """The most successful attack."""
        return None if self.audit is None else worst(self.audit)

    @property
    def risk(self) -> float | None:
        """What the most successful attack gets, at the bad end of its interval."""
        return None if self.worst is None else bad_end(self.worst)


@dataclass(frozen=True)
class Comparison:
    """All outcomes of a sweep on one log."""

    outcomes: tuple[Outcome, ...]

    @cached_property
    def _measures(self) -> dict[str, list[str]]:
        """The measures of each task, as far as any setting has them."""
        measures: dict[str, dict[str, None]] = {}
        for outcome in self.outcomes:
            for found in () if outcome.audit is None else outcome.audit.utilities():
                if found.unit in ("share", "distance") and found.key not in NOT_A_SHARE_OF_WHAT_IS_KEPT:
                    measures.setdefault(found.topic, {})[found.key] = None
        return {task: list(keys) for task, keys in measures.items()}

    def tasks(self) -> list[str]:
        """The tasks that utility was measured for."""
        return list(self._measures)

    def utility(self, outcome: Outcome) -> dict[str, float]:
        """How much a setting keeps for each task, from 0 to 1; nothing where it could not be tried."""
        if outcome.audit is None:
            return {}
        if not outcome.records:  # an empty release is good for nothing, whatever its distances are
            return dict.fromkeys(self.tasks(), 0.0)
        found = {finding.key: _goodness(finding) for finding in outcome.audit.utilities()}
        return {
            task: sum(found.get(key, 0.0) for key in measures) / len(measures)
            for task, measures in self._measures.items()
        }

    def frontier(self, task: str) -> list[Outcome]:
        """The settings that no other beats in both risk and utility, the least risky first."""
        places = [(o, o.risk, self.utility(o)[task]) for o in self.outcomes if o.risk is not None and o.records]
        best = [
            one
            for one, risk, kept in places
            if not any(r <= risk and k >= kept and (r, k) != (risk, kept) for _, r, k in places)
        ]
        return sorted(best, key=lambda outcome: (outcome.risk or 0.0, outcome.setting.label))

    @property
    def settings(self) -> pl.DataFrame:
        """One row for each setting."""
        tasks = self.tasks()
        on_frontier = {task: {id(outcome) for outcome in self.frontier(task)} for task in tasks}
        rows = []
        for outcome in self.outcomes:
            kept = self.utility(outcome)
            survived = {} if outcome.survival is None else asdict(outcome.survival)
            rows.append(
                {
                    "label": outcome.setting.label,
                    "kind": outcome.setting.kind,
                    "name": outcome.setting.name,
                    "parameters": outcome.setting.as_text(),
                    "records": outcome.records,
                    "risk": outcome.risk,
                    "worst_attack": None if outcome.worst is None else outcome.worst.title,
                    **{f"kept_{name}": survived.get(name) for name in Survival.__dataclass_fields__},
                    **{f"utility: {task}": kept.get(task) for task in tasks},
                    **{f"frontier: {task}": id(outcome) in on_frontier[task] for task in tasks},
                    "seconds": outcome.seconds,
                    "problem": outcome.problem or None,
                }
            )
        return pl.DataFrame(rows, infer_schema_length=None)

    def _repr_html_(self) -> str:
        """In a notebook: risk and what is kept for each task, setting by setting."""
        tasks = self.tasks()
        rows = []
        for outcome in self.outcomes:
            kept = self.utility(outcome)
            risk = outcome.problem or "" if outcome.risk is None else f"{outcome.risk:.1%}"
            rows.append((outcome.setting.label, risk, *(f"{kept[task]:.1%}" if kept else "" for task in tasks)))
        return table(rows, title="Comparison", header=("setting", "risk", *tasks))

    @property
    def findings(self) -> pl.DataFrame:
        """One row for each figure of each setting."""
        rows = [
            {"label": outcome.setting.label, **asdict(found)}
            for outcome in self.outcomes
            if outcome.audit is not None
            for found in outcome.audit.findings
        ]
        numbers = dict.fromkeys(("value", "low", "high", "raw", "chance", "bound"), pl.Float64)
        return pl.DataFrame(rows, schema_overrides=numbers | {"trials": pl.Int64}, infer_schema_length=None)


def _goodness(found: Finding) -> float:
    kept = found.value / (found.raw or 1.0) if found.better == "higher" else 1.0 - found.value
    return min(max(kept, 0.0), 1.0)


def compare(
    log: QueryLog,
    folder: str | Path | None = None,
    sweep: Sweep | None = None,
    *,
    workers: int = 1,
    on_step: Callable[[str], None] = lambda step: None,
) -> Comparison:
    """Try every setting on the log and keep tables in `folder`, which may hold an unfinished comparison.

    Without a folder nothing is kept but what is returned.
    More than one worker starts new processes, so a script of one's own must guard its start with
    `if __name__ == "__main__":`.
    """
    require(whole_number("workers", workers, at_least=1, at_most=256, suggest=2))
    if not len(log):
        raise DataError("the log is empty, so there is nothing to compare.")
    if folder is None:
        with tempfile.TemporaryDirectory() as passing:
            return compare(log, Path(passing) / "comparison", sweep, workers=workers, on_step=on_step)
    sweep = sweep or Sweep.usual()
    folder = folder_for_comparison(folder)
    fingerprint = _fingerprint(log, sweep.seed)
    places = {setting.label: folder / RUNS / f"{_digest(setting, fingerprint)}.json" for setting in sweep.settings}
    done = {setting.label: _read(places[setting.label], setting) for setting in sweep.settings}
    for setting in sweep.settings:
        if done[setting.label] is not None:
            on_step(f"{setting.label} (kept from before)")
    missing = [setting for setting in sweep.settings if done[setting.label] is None]
    for outcome in _run(missing, log, sweep.seed, workers):
        label = outcome.setting.label
        replace_private(places[label], _as_json(outcome))
        done[label] = outcome
        on_step(label)
    found = Comparison(tuple(outcome for outcome in (done[s.label] for s in sweep.settings) if outcome is not None))
    write_tables(found, folder)
    return found


def folder_for_comparison(folder: str | Path) -> Path:
    """A folder that is new, empty or holds an earlier comparison."""
    folder = Path(folder)
    if folder.is_dir() and any(folder.iterdir()) and not (folder / RUNS).is_dir():
        raise UsageError(f"{folder} holds something else than a comparison. Choose another folder.")
    private_folder(folder / RUNS)
    return private_folder(folder)


def write_tables(found: Comparison, folder: Path) -> None:
    """The settings and the findings as Parquet and CSV."""
    for name, rows in (("settings", found.settings), ("findings", found.findings)):
        parquet = io.BytesIO()
        rows.write_parquet(parquet)
        replace_private(folder / f"{name}.parquet", parquet.getvalue())
        replace_private(folder / f"{name}.csv", rows.write_csv())


def measured(setting: Setting, log: QueryLog, seed: int) -> Outcome:
    """Try one setting; a setting that this log does not allow is an outcome too."""
    start = time.perf_counter()
    work = tried if setting.kind == "mechanism" else tried_rule
    try:
        released, audit = work(setting.made(), log, Noise.seeded(seed))
    except QueryVeilError as error:
        return Outcome(setting=setting, seconds=time.perf_counter() - start, problem=str(error))
    return Outcome(
        setting=setting,
        seconds=time.perf_counter() - start,
        records=len(released),
        audit=audit,
        survival=survival(log, released),
    )


_LOG_OF_WORKER: list[QueryLog] = []


def _hand_over(frame: pl.DataFrame) -> None:
    _LOG_OF_WORKER[:] = [QueryLog(frame)]


def _in_worker(setting: Setting, seed: int) -> Outcome:
    return measured(setting, _LOG_OF_WORKER[0], seed)


def _run(settings: list[Setting], log: QueryLog, seed: int, workers: int) -> Iterator[Outcome]:
    if workers == 1 or len(settings) < 2:
        yield from (measured(setting, log, seed) for setting in settings)
        return
    jobs = [(setting, seed) for setting in settings]
    yield from side_by_side(_in_worker, jobs, min(workers, len(settings)), _hand_over, (log.frame,))


def _fingerprint(log: QueryLog, seed: int) -> str:
    rows = log.frame.hash_rows(seed=0).to_numpy().tobytes()
    return hashlib.sha256(f"{__version__} {seed} ".encode() + rows).hexdigest()


def _digest(setting: Setting, fingerprint: str) -> str:
    told = json.dumps([fingerprint, setting.kind, setting.name, setting.parameters], sort_keys=True)
    return hashlib.sha256(told.encode()).hexdigest()[:24]


def _as_json(outcome: Outcome) -> str:
    return json.dumps(asdict(replace(outcome, audit=None)) | {"audit": outcome.audit and outcome.audit.as_json()})


def _read(path: Path, setting: Setting) -> Outcome | None:
    """An outcome that was kept, under the label it has now; None where there is none that can be read."""
    try:
        kept: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        told = kept["audit"]
        audit = told and Audit(
            released=told["released"],
            findings=tuple(Finding(**found) for found in told["findings"]),
            left_out=tuple(LeftOut(**item) for item in told["left_out"]),
            context=told["context"],
        )
        survived = kept["survival"] and Survival(**kept["survival"])
        return Outcome(
            setting=setting,
            seconds=kept["seconds"],
            records=kept["records"],
            audit=audit,
            survival=survived,
            problem=kept["problem"],
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None

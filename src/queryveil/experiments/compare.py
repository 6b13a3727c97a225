"""Many settings on one log: what each promises, what an attacker gets, what is kept, and which are worth having.

Settings are tried side by side where several processes are allowed, those of quick mechanisms first (`quick_first`), so
that the first rows of a table are there soon; the outcomes stand in the order of the sweep all the same. Each result is
kept in the folder as soon as it is there, so that a comparison that was stopped goes on where it was. Everything in the
folder is an exact function of the private log: it is for its holder, and readable by its owner only.

Before anything is tried, some people are kept aside by a public hash of their ids (`hold_out`): no setting sees them,
and they judge what each teaches about others, the same people for every setting. A log of other people may judge
instead; of a log with fewer than `FEWEST_PEOPLE` nobody is kept aside.

What depends on the log alone is made once in each process (`queryveil.audit.raw_side`). Noise is seeded: the same log,
the same table, in whatever order and in however many processes.

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
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

import polars as pl

from queryveil import mechanisms
from queryveil.audit.auditing import parts
from queryveil.audit.finding import Audit, Finding, LeftOut
from queryveil.audit.held_out import splitting
from queryveil.audit.held_out.splitting import check_apart
from queryveil.audit.raw_side import RawSide
from queryveil.audit.survival import Survival, survival
from queryveil.checks import require, whole_number
from queryveil.errors import DataError, QueryVeilError, UsageError
from queryveil.experiments.comparison import Comparison, Outcome
from queryveil.experiments.experiment import tried
from queryveil.experiments.parallel import side_by_side
from queryveil.experiments.sweep import Setting, Sweep
from queryveil.log import QueryLog
from queryveil.log.query_log import SimilarIds
from queryveil.privacy import Noise
from queryveil.privacy.keys import private_folder, replace_private
from queryveil.progress import listening, tell
from queryveil.version import __version__

RUNS = "runs"
USUAL_EFFORT: Final = 10.0
QUICK: Final = 2.5
"""Mechanisms up to this effort are tried before today's rules."""
HOLD_OUT: Final = 0.1
"""Share of the people who are kept aside to judge."""
FEWEST_PEOPLE: Final = 200
"""In a smaller log everybody is needed, and a tenth would be too few to judge."""
OnProgress = Callable[[Setting, str, float], None]
OnOutcome = Callable[[Outcome], None]


def compare(
    log: QueryLog,
    folder: str | Path | None = None,
    sweep: Sweep | None = None,
    *,
    held_out: QueryLog | None = None,
    hold_out: float = HOLD_OUT,
    workers: int = 1,
    on_progress: OnProgress | None = None,
    on_outcome: OnOutcome = lambda outcome: None,
) -> Comparison:
    """Try every setting on the log and keep tables in `folder`, which may hold an unfinished comparison.

    Without a folder nothing is kept but what is returned. `held_out` is a log of other people who judge; without
    it, `hold_out` is the share of this log's people who are kept aside for that, 0 for nobody.
    `on_progress` is told what is being done with a setting and how much of that is done, `on_outcome` each outcome as
    it comes: those kept from before, then quick ones first.
    More than one worker starts new processes, so a script of one's own must guard its start with
    `if __name__ == "__main__":`.
    """
    require_workers(workers)
    if not len(log):
        raise DataError("the log is empty, so there is nothing to compare.")
    sweep = sweep or Sweep.usual()
    if folder is None:
        with tempfile.TemporaryDirectory() as passing:
            place = Path(passing) / "comparison"
            return compare(
                log, place, sweep, held_out=held_out, hold_out=hold_out, workers=workers, on_progress=on_progress,
                on_outcome=on_outcome,
            )  # fmt: skip
    seen, judges = _kept_aside(log, held_out, hold_out)
    folder = folder_for_comparison(folder)
    fingerprint = _fingerprint(seen, judges, sweep.seed)
    places = {setting.label: folder / RUNS / f"{_digest(setting, fingerprint)}.json" for setting in sweep.settings}
    done = {setting.label: _read(places[setting.label], setting) for setting in sweep.settings}
    for kept in done.values():
        if kept is not None:
            on_outcome(kept)
    missing = quick_first(setting for setting in sweep.settings if done[setting.label] is None)
    for outcome in _run(missing, RawSide(seen, judges), sweep.seed, workers, on_progress):
        label = outcome.setting.label
        replace_private(places[label], _as_json(outcome))
        done[label] = outcome
        on_outcome(outcome)
    found = Comparison(tuple(outcome for outcome in (done[s.label] for s in sweep.settings) if outcome is not None))
    write_tables(found, folder)
    return found


def _kept_aside(log: QueryLog, held_out: QueryLog | None, share: float) -> tuple[QueryLog, QueryLog | None]:
    """Whom the settings see, and who judges them."""
    if held_out is not None:
        check_apart(log, held_out)
        return log, held_out
    seen, judges = splitting.hold_out(log, share)
    return (log, None) if log.user_count() < FEWEST_PEOPLE or not len(judges) else (seen, judges)


def require_workers(workers: int) -> None:
    """How many processes there may be: checked by whoever reads a log before it can be handed over."""
    require(whole_number("workers", workers, at_least=1, at_most=256, suggest=2))


def quick_first(settings: Iterator[Setting]) -> list[Setting]:
    """The settings by the effort that their mechanism declares; equals stay in their order.

    Rules take little, and yet come after the quick mechanisms: nobody is advised to take one.
    """
    return sorted(settings, key=turn)


def turn(setting: Setting) -> float:
    """The smaller, the earlier."""
    return max(effort(setting), QUICK) if setting.kind == "rule" else effort(setting)


def effort(setting: Setting) -> float:
    """How long a setting takes beside withholding rare texts (1), as its mechanism declares."""
    if setting.kind == "rule":
        return 1.0
    return float(getattr(mechanisms.load(setting.name), "effort", USUAL_EFFORT))


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


def measured(setting: Setting, raw: RawSide, seed: int) -> Outcome:
    """Try one setting; a setting that this log does not allow is an outcome too."""
    start, done = time.perf_counter(), 0
    count = sum(not getattr(part, "is_scenario", False) for part in parts())  # those are left out here

    def on_step(name: str) -> None:
        nonlocal done
        done += 1
        tell("attacking and measuring", done, count)

    tell("protecting", 0)
    try:
        released, audit = tried(setting.made(), raw.log, Noise.seeded(seed), on_step, raw)
    except QueryVeilError as error:
        return Outcome(setting=setting, seconds=time.perf_counter() - start, problem=str(error))
    kept = survival(raw.log, released)
    return Outcome(
        setting=setting, seconds=time.perf_counter() - start, records=len(released), audit=audit, survival=kept
    )


_RAW_OF_WORKER: list[RawSide] = []


def _hand_over(frame: pl.DataFrame, similar_ids: SimilarIds, judges: pl.DataFrame | None) -> None:
    held_out = None if judges is None else QueryLog(judges, similar_ids=similar_ids)
    _RAW_OF_WORKER[:] = [RawSide(QueryLog(frame, similar_ids=similar_ids), held_out)]


def _in_worker(setting: Setting, seed: int) -> Outcome:
    return measured(setting, _RAW_OF_WORKER[0], seed)


def _run(
    settings: list[Setting], raw: RawSide, seed: int, workers: int, on_progress: OnProgress | None
) -> Iterator[Outcome]:
    if workers == 1 or len(settings) < 2:
        for setting in settings:
            with nullcontext() if on_progress is None else listening(_of(setting, on_progress)):
                outcome = measured(setting, raw, seed)
            yield outcome
        return
    jobs = [(setting, seed) for setting in settings]
    given = (raw.log.frame, raw.log.similar_ids, None if raw.held_out is None else raw.held_out.frame)
    heard = {} if on_progress is None else {"on_progress": lambda job, *told: on_progress(settings[job], *told)}
    yield from side_by_side(_in_worker, jobs, min(workers, len(settings)), _hand_over, given, **heard)


def _of(setting: Setting, on_progress: OnProgress) -> Callable[[str, float], None]:
    return lambda what, share: on_progress(setting, what, share)


def _fingerprint(log: QueryLog, judges: QueryLog | None, seed: int) -> str:
    rows = [part.frame.hash_rows(seed=0).to_numpy().tobytes() for part in (log, judges) if part is not None]
    return hashlib.sha256(f"{__version__} {seed} {len(log)} ".encode() + b"".join(rows)).hexdigest()


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
            fingerprint=told["fingerprint"],
        )
        survived = kept["survival"] and Survival(**kept["survival"])
        return Outcome(
            setting=setting,
            seconds=kept["seconds"],
            records=kept["records"],
            audit=audit,
            survival=survived,
            problem=kept["problem"],
            from_before=True,
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None

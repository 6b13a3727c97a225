"""`queryveil demo`: what QueryVeil does, on a synthetic log, in under two minutes.

Every mechanism protects the same log; each release is signed, verified, attacked and measured, and gets a report in two
editions; one page compares them all with each other and with today's rules.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from queryveil import mechanisms
from queryveil.audit.auditing import audit, read_release
from queryveil.audit.raw_side import RawSide
from queryveil.audit.survival import survival
from queryveil.cli import console
from queryveil.cli.compare_commands import show
from queryveil.errors import UsageError
from queryveil.experiments.compare import folder_for_comparison, measured, write_tables
from queryveil.experiments.comparison import Comparison, Outcome
from queryveil.experiments.parallel import side_by_side
from queryveil.experiments.sweep import Setting, Sweep
from queryveil.log import read, write
from queryveil.log.statistics import describe
from queryveil.log.synthetic import synth
from queryveil.privacy import Noise
from queryveil.release import pipeline
from queryveil.release.manifest import verify
from queryveil.release.secrets import read as read_secrets
from queryveil.report.comparison_page import write_comparison
from queryveil.report.page import internal_folder, write_report

USERS, RECORDS = 4_000, 60_000
WORKERS = 2
PURPOSE = "A tour of QueryVeil on a made-up log: nobody is behind these queries."


def tour(output: Path | None) -> None:
    """Make a log, look at it, protect it with every mechanism, attack and measure each release, and compare."""
    folder = _new_folder(output)
    raw = folder / "raw.csv"
    console.show("1. A synthetic log, as a search engine might keep it")
    write(synth(users=USERS, records=RECORDS), raw)
    before = describe(read(raw))
    console.show_table(
        "the raw log",
        {
            "records": f"{before.records:,}",
            "users": f"{before.users:,}",
            "users unique here by 3 of their queries": f"{before.singled_out_by_3 or 0:.0%}",
            "texts that only one user has": f"{before.texts_of_one_user or 0:.0%}",
        },
    )
    console.show("2. Every mechanism at a usual setting, and today's rules: protected, signed, attacked, measured")
    sweep = Sweep.usual().at_a_glance()
    with console.steps("tour", len(sweep.settings)) as step:
        outcomes = {}
        for outcome in _tried(sweep, raw, folder):
            outcomes[outcome.setting.label] = outcome
            step(outcome.setting.label)
    found = Comparison(tuple(outcomes[setting.label] for setting in sweep.settings))
    show(found)
    place = folder_for_comparison(folder / "comparison")
    write_tables(found, place)
    reports = {s.label: f"../{internal_folder(folder / s.name).name}/report.html" for s in sweep.only("mechanism")}
    page = write_comparison(found, place, subject="A tour on a synthetic log", sweep=sweep, releases=reports)
    console.show("3. A searcher, who sends other queries to an engine that keeps such a log")
    _one_query("throat cancer")
    console.show(f"4. One page compares the releases: open {page.resolve()}")
    console.show(f"Everything is in {folder}. Next: queryveil plan suppress --help")


def _tried(sweep: Sweep, raw: Path, folder: Path) -> Iterator[Outcome]:
    longest_first = [*reversed(sweep.only("mechanism")), *sweep.only("rule")]
    return side_by_side(_one, [(setting, sweep.seed, raw, folder) for setting in longest_first], WORKERS)


def _one(setting: Setting, seed: int, raw: Path, folder: Path) -> Outcome:
    """One mechanism from log to signed report, or one rule."""
    if setting.kind == "rule":
        return measured(setting, RawSide(read(raw)), seed)
    start = time.perf_counter()
    place, secrets = folder / setting.name, folder / f"{setting.name}.secrets"
    pipeline.release(
        setting.made(), pipeline.Source(path=raw), pipeline.Target(folder=place, secrets=secrets), Noise.secure()
    )
    original = read(raw)
    released, manifest = read_release(place)
    found = audit(original, released, manifest=manifest, secrets=read_secrets(secrets))
    write_report(found, place, original=original, released=released, purpose=PURPOSE)
    verify(place)
    return Outcome(
        setting=setting,
        seconds=time.perf_counter() - start,
        records=len(released),
        audit=found,
        survival=survival(original, released),
    )


def _one_query(query: str) -> None:
    """With each mechanism that is made for one query at a time, by the person who asks it."""
    for name in mechanisms.names():
        parameters = getattr(mechanisms.load(name), "demo_parameters", None)
        if parameters is not None:
            mechanism = mechanisms.make(name, **parameters)
            sent = mechanism.obfuscate(query, mechanism.n, Noise.secure())
            rows = {f"sent instead, {number}": text for number, text in enumerate(sent, 1)}
            console.show_table(name, {"promise": mechanism.guarantee().headline(), "typed": query, **rows})


def _new_folder(output: Path | None) -> Path:
    if output is None:
        return Path(tempfile.mkdtemp(prefix="queryveil-demo-"))
    if output.exists():
        raise UsageError(f"{output} is there already. Choose another folder.")
    output.mkdir(parents=True)
    return output

"""`queryveil demo`: what QueryVeil does, on a synthetic log, in under two minutes."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from queryveil import mechanisms
from queryveil.cli import screen
from queryveil.errors import UsageError
from queryveil.log import read, write
from queryveil.log.statistics import describe
from queryveil.log.synthetic import synth
from queryveil.mechanisms.certificate import verify
from queryveil.privacy import Noise
from queryveil.run import files

SEARCHER = "obfuscate"
"""Looks up every word among 300,000: made for single queries, and minutes for this log."""
USERS, RECORDS = 5_000, 200_000
SETTINGS: dict[str, dict[str, Any]] = {
    "semantic": {"epsilon": 10.0, "per": "query", "criterion": "nsqc"},
    "sanitize": {"contribution": 2, "epsilon": 4.0},
}
"""What a mechanism without defaults is given: parameters that nobody but the holder should choose."""


def tour(output: Path | None) -> None:
    """Make a log, look at it, protect it with every mechanism, verify each release, and compare."""
    folder = _new_folder(output)
    raw = folder / "raw.csv"
    screen.show("1. A synthetic log, as a search engine might keep it")
    write(synth(users=USERS, records=RECORDS), raw)
    before = describe(read(raw))
    screen.show_table(
        "the raw log",
        {
            "records": f"{before.records:,}",
            "users": f"{before.users:,}",
            "users unique here by 3 of their queries": f"{before.singled_out_by_3 or 0:.0%}",
            "texts that only one user has": f"{before.texts_of_one_user or 0:.0%}",
        },
    )
    screen.show("2. Every mechanism, at its defaults or a usual setting")
    for name in mechanisms.names():
        if name == SEARCHER:
            continue
        mechanism = mechanisms.load(name)(**SETTINGS.get(name, {}))
        source, target = files.Source(path=raw), files.Target(folder=folder / name)
        with screen.steps(name, 7) as step:
            outcome = files.release(mechanism, source, target, Noise.secure(), on_step=step)
        verify(target.folder)
        after = describe(outcome.release.log)
        screen.show_table(
            name,
            {
                "promise": outcome.release.guarantee.headline(),
                "records, as a share of the raw log": f"{outcome.kept:.1%}",
                "users unique here by 3 of their queries": f"{after.singled_out_by_3 or 0:.0%}",
                "texts that only one user has": f"{after.texts_of_one_user or 0:.0%}",
                "release": f"{target.folder} (signed, verified)",
            },
        )
    screen.show("3. A searcher, who sends other queries to an engine that keeps such a log")
    _one_query("throat cancer")
    screen.show(f"Everything is in {folder}. Next: queryveil plan suppress --help")


def _one_query(query: str) -> None:
    mechanism = mechanisms.make(SEARCHER, mechanism="vkr-mhl", epsilon=12.0, n=3, mode="paper")
    sent = mechanism.obfuscate(query, 3, Noise.secure())
    rows = {f"sent instead, {number}": text for number, text in enumerate(sent, 1)}
    screen.show_table(SEARCHER, {"promise": mechanism.guarantee().headline(), "typed": query, **rows})


def _new_folder(output: Path | None) -> Path:
    if output is None:
        return Path(tempfile.mkdtemp(prefix="queryveil-demo-"))
    if output.exists():
        raise UsageError(f"{output} is there already. Choose another folder.")
    output.mkdir(parents=True)
    return output

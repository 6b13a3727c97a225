"""How soon `queryveil compare` shows its first rows and all of them, on 20,000 records and with the usual sweep.

    python benchmarks/compare.py                          writes the section of RESULTS.md
    python benchmarks/compare.py --records 2000 --dry     to try it out, writes nothing
    python benchmarks/compare.py --compiled               without the run that compiles, which takes longest

The log is the first records of the real AOL sample where it is at hand (QUERYVEIL_DATA), else a synthetic one of that
size. The command runs with two workers, once with nothing compiled, as after an installation, and once with what
this installation has compiled before. A machine that others use as well makes wall seconds long; CPU seconds of all
processes, of which two quiet cores have two a second, hold there too. Nothing of the log is shown: labels of settings
and seconds.
"""

from __future__ import annotations

import argparse
import gzip
import os
import platform
import resource
import subprocess
import sys
import tempfile
from datetime import date
from pathlib import Path
from time import perf_counter
from typing import Any

import polars as pl

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = Path(os.environ.get("QUERYVEIL_DATA") or ROOT.parent / "shared" / "data") / "aol" / "aol-1017-users.tsv.gz"
FIRST_ROW, ALL_ROWS, CPU = 15.0, 120.0, 220.0
WORKERS = 2
SLOWEST = 3


def log_of(records: int, folder: Path) -> tuple[Path, str]:
    """A log of so many records, and what it is."""
    if SAMPLE.exists():
        path = folder / "log.txt"
        with gzip.open(SAMPLE, "rb") as sample, path.open("wb") as log:
            log.writelines(line for line, _ in zip(sample, range(records + 1), strict=False))  # and the header
        return path, "the first records of the AOL sample"
    from queryveil.log import write
    from queryveil.log.synthetic import synth

    write(synth(users=max(records // 80, 20), records=records, seed=1), folder / "log.csv")
    return folder / "log.csv", "a synthetic log"


def timed(log: Path, folder: Path, caches: dict[str, str]) -> dict[str, Any]:
    """One comparison: seconds to the first row, to the last and to the end, and CPU seconds of all its processes."""
    command = [sys.executable, "-m", "queryveil", "compare", str(log), "-o", str(folder), "--workers", str(WORKERS)]
    before, start = _cpu(), perf_counter()
    rows: list[float] = []
    at_first_row = 0.0
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=os.environ | caches, text=True
    ) as running:
        assert running.stderr is not None
        for line in running.stderr:
            if not line.startswith("Note:"):
                rows.append(perf_counter() - start)
                if len(rows) == 2:
                    at_first_row = _cpu_of_tree(running.pid)
    if running.returncode:
        raise SystemExit(f"the comparison ended with {running.returncode}")
    tried = pl.read_csv(folder / "settings.csv").sort("seconds", descending=True)
    slowest = [f"{label} {seconds:.0f} s" for label, seconds in tried.select("label", "seconds").head(SLOWEST).rows()]
    return {
        "settings": tried.height,
        "first": rows[1],  # after the line of heads, which comes with it
        "first_cpu": at_first_row,
        "last": rows[-1],
        "end": perf_counter() - start,
        "cpu": _cpu() - before,
        "slowest": ", ".join(slowest),
    }


def _cpu() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _cpu_of_tree(process: int) -> float:
    """CPU seconds of a running process and of those that it started."""
    try:
        used = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
        below = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    except OSError:
        return 0.0
    own = (int(used[11]) + int(used[12])) / os.sysconf("SC_CLK_TCK")
    return own + sum(_cpu_of_tree(int(child)) for child in below)


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--records", type=int, default=20_000)
    arguments.add_argument("--dry", action="store_true")
    arguments.add_argument("--compiled", action="store_true")
    given = arguments.parse_args()
    rows = []
    with tempfile.TemporaryDirectory(prefix="queryveil-compare-") as temporary:
        place = Path(temporary)
        log, what = log_of(given.records, place)
        runs: dict[str, dict[str, str]] = {"nothing compiled yet": {"NUMBA_CACHE_DIR": str(place / "compiled")}}
        for name, caches in (({} if given.compiled else runs) | {"compiled before": {}}).items():
            found = timed(log, place / name, caches)
            rows.append(
                f"| {name} | {found['settings']} | {found['first']:.0f} s ({found['first'] / FIRST_ROW:.0%}) | "
                f"{found['first_cpu']:.0f} s | "
                f"{found['last']:.0f} s ({found['last'] / ALL_ROWS:.0%}) | {found['end']:.0f} s | "
                f"{found['cpu']:.0f} s ({found['cpu'] / CPU:.0%}) | {found['slowest']} |"
            )
            print(rows[-1], flush=True)
    if not given.dry:
        from _results import write_section

        load = os.getloadavg()[0] / (os.cpu_count() or 1)
        head = HEAD.format(date.today(), platform.machine(), os.cpu_count(), load, given.records, what, WORKERS)
        write_section("compare", "\n".join([head, *rows]))


HEAD = """## Comparing settings

{}, {}, {} cores shared with other work ({:.1f} processes waited for each core); `python benchmarks/compare.py`:
`queryveil compare` with the usual sweep on {:,} records ({}), {} workers. In brackets the share of what is allowed: the
first row in 15 s and all in 120 s on two quiet cores, which have 220 to 240 CPU seconds in that time.

| caches | settings | first row | CPU until then | all rows | report | CPU of all processes | slowest settings (wall) |
|---|---|---|---|---|---|---|---|"""


if __name__ == "__main__":
    main()

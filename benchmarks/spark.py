"""The same release from one machine and from Spark on the same machine: time, memory, growth.

    python benchmarks/spark.py                    100,000 to 20,000,000 synthetic records, about half an hour
    python benchmarks/spark.py --largest 1000000  a shorter run
    python benchmarks/spark.py --mechanisms sanitize --sizes 20000000    a section of its own

Semantic release and sanitize (safe) from a Parquet file to a signed folder, by `queryveil release` in a process of its
own, with `--engine local` (the baseline) and with `--engine spark` on `local-cluster[2,1,2048]`: a driver and two
executors as processes, one core each. CPU is the sum over all processes below the command (Java, executors, Python
workers), each as it was last seen, so a fifth of a second of each may be missing. Memory is the largest sum of
proportional set sizes (PSS) over a group of processes, looked at five times a second. What is the same for any log (the
calibrated law, compiled kernels) is made before the clock starts. Writes its section of RESULTS.md and, of a whole run,
a plot to benchmarks/out/.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from time import perf_counter, sleep

import altair as alt
import polars as pl

from _results import write_section
from queryveil.log import synthetic, write

OUT = Path(__file__).with_name("out")
SIZES = (100_000, 1_000_000, 5_000_000, 20_000_000)
RECORDS_PER_USER = 20
MASTER = "local-cluster[2,1,2048]"
MECHANISMS = {
    "semantic": ["semantic", "--epsilon", "10", "--per", "query"],
    "sanitize": ["sanitize", "--epsilon", "2"],
}
GOAL = 2.0


@dataclass(frozen=True)
class Run:
    """One release."""

    mechanism: str
    engine: str
    records: int
    seconds: float
    released: int
    driver_mib: float
    executors_mib: float
    cpu: float

    @property
    def records_per_second(self) -> float:
        return self.records / self.seconds


class Watch(threading.Thread):
    """Memory and CPU of the processes below one: the driver with its Java, the executors with their Python workers."""

    def __init__(self, root: int) -> None:
        super().__init__(daemon=True)
        self._root, self._over = root, threading.Event()
        self.driver = self.executors = 0.0
        self._cpu: dict[int, float] = {}

    @property
    def cpu(self) -> float:
        """Seconds of CPU of all processes that were seen."""
        return sum(self._cpu.values())

    def run(self) -> None:
        while not self._over.wait(0.2):
            parents, commands = _processes()
            driver = executors = 0.0
            for process in parents:
                line = _ancestors(process, parents)
                if self._root in line:
                    behind = any(b"CoarseGrainedExecutorBackend" in commands.get(p, b"") for p in line)
                    size = _pss(process)
                    self._cpu[process] = max(self._cpu.get(process, 0.0), _cpu(process))
                    driver, executors = driver + size * (not behind), executors + size * behind
            self.driver, self.executors = max(self.driver, driver), max(self.executors, executors)

    def stop(self) -> None:
        self._over.set()
        self.join()


def _processes() -> tuple[dict[int, int], dict[int, bytes]]:
    parents, commands = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                commands[int(entry.name)] = (entry / "cmdline").read_bytes()
            except (OSError, IndexError):
                continue
    return parents, commands


def _ancestors(process: int, parents: dict[int, int]) -> list[int]:
    line = [process]
    while line[-1] in parents and parents[line[-1]] > 1:
        line.append(parents[line[-1]])
    return line


def _pss(process: int) -> float:
    try:
        for row in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
            if row.startswith("Pss:"):
                return int(row.split()[1]) / 1024
    except OSError:
        pass
    return 0.0


def _cpu(process: int) -> float:
    try:
        user, system = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    except OSError:
        return 0.0
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def released(mechanism: str, engine: str, log: Path, records: int) -> Run:
    """One release by the command line, timed and watched."""
    folder = Path(tempfile.mkdtemp(prefix="queryveil-bench-"))
    command = [sys.executable, "-m", "queryveil", "release", *MECHANISMS[mechanism], str(log)]
    command += ["-o", str(folder / "release"), "--engine", engine, "--format", "parquet", "--json"]
    environment = os.environ | {"PYSPARK_SUBMIT_ARGS": f"--master {MASTER} pyspark-shell"}
    started = perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    watch = Watch(process.pid)
    watch.start()
    told, said = process.communicate()
    seconds = perf_counter() - started
    watch.stop()
    shutil.rmtree(folder)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{said}")
    made = json.loads(told)["records"]
    run = Run(mechanism, engine, records, seconds, made, watch.driver, watch.executors, watch.cpu)
    print(run, flush=True)
    return run


def table(runs: list[Run]) -> str:
    rows = [
        "| mechanism | records | local, s | Spark, s | local, s CPU | Spark, s CPU | Spark / local, CPU "
        "| local, records/s | Spark, records/s | local, MiB | Spark driver, MiB | Spark executors, MiB |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    by_key = {(run.mechanism, run.records, run.engine): run for run in runs}
    for mechanism in dict.fromkeys(run.mechanism for run in runs):
        for records in sorted({run.records for run in runs}):
            local, spark = by_key[mechanism, records, "local"], by_key[mechanism, records, "spark"]
            rows.append(
                f"| {mechanism} | {records:,} | {local.seconds:.1f} | {spark.seconds:.1f} "
                f"| {local.cpu:.1f} | {spark.cpu:.1f} | {spark.cpu / local.cpu:.2f} | {local.records_per_second:,.0f} "
                f"| {spark.records_per_second:,.0f} | {local.driver_mib:,.0f} | {spark.driver_mib:,.0f} "
                f"| {spark.executors_mib:,.0f} |"
            )
    return "\n".join(rows)


def plot(runs: list[Run], path: Path) -> None:
    frame = pl.DataFrame([asdict(run) for run in runs])
    across = alt.Scale(type="log", domain=[SIZES[0], SIZES[-1]], nice=False)
    base = alt.Chart(frame).encode(
        x=alt.X("records:Q", scale=across, axis=alt.Axis(values=list(SIZES), format=","), title="records"),
        y=alt.Y("seconds:Q", scale=alt.Scale(type="log"), title="seconds, start to signed folder"),
        color=alt.Color("mechanism:N", title=None),
    )
    lines = base.mark_line().encode(strokeDash=alt.StrokeDash("engine:N", title=None))
    chart = (lines + base.mark_point(filled=True, size=50)).properties(
        width=520, height=340, title="The same release on one machine and on Spark (2 cores)"
    )
    path.parent.mkdir(exist_ok=True)
    chart.save(path, scale_factor=2)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--largest", type=int, default=SIZES[-1], help="the largest number of records")
    parser.add_argument("--sizes", type=int, nargs="*", default=SIZES, help="these numbers of records only")
    parser.add_argument("--mechanisms", nargs="*", default=list(MECHANISMS), choices=list(MECHANISMS))
    given = parser.parse_args()
    runs: list[Run] = []
    with tempfile.TemporaryDirectory(prefix="queryveil-bench-log-") as folder:
        for records in [size for size in given.sizes if size <= given.largest]:
            log = Path(folder) / f"{records}.parquet"
            write(synthetic.synth(users=records // RECORDS_PER_USER, records=records, seed=3), log)
            if not runs:
                few = Path(folder) / "few.parquet"
                write(synthetic.synth(users=1_000, records=20_000, seed=3), few)
                for mechanism in given.mechanisms:  # what is made once for any log
                    released(mechanism, "local", few, 20_000)
            for mechanism in given.mechanisms:
                for engine in ("local", "spark"):
                    runs.append(released(mechanism, engine, log, records))
                    sleep(2)
            log.unlink()
    load = os.getloadavg()[2]
    last = {(r.mechanism, r.engine): r.cpu for r in runs if r.records == max(run.records for run in runs)}
    ratios = ", ".join(f"{m} {last[m, 'spark'] / last[m, 'local']:.2f}" for m in given.mechanisms)
    whole = given.mechanisms == list(MECHANISMS) and given.sizes == SIZES
    chosen = "" if whole else f" --mechanisms {' '.join(given.mechanisms)} --sizes {' '.join(map(str, given.sizes))}"
    text = (
        f"## Spark beside one machine{'' if whole else ': ' + ' and '.join(given.mechanisms)}\n\n"
        f"`python benchmarks/spark.py{chosen}`, {date.today()}, {platform.machine()}, "
        f"{os.cpu_count()} cores, load over 15 minutes at the end {load:.1f}. From a Parquet file to a signed folder, "
        f"process start included; Spark on `{MASTER}`. Spark's CPU over local's at the largest size: {ratios} (goal: "
        f"at most {GOAL:g}).\n\n{table(runs)}"
    )
    if whole:
        plot(runs, OUT / "spark_growth.png")
        text += "\n\nThe plot is benchmarks/out/spark_growth.png."
    write_section("spark" if whole else f"spark-{'-'.join(given.mechanisms)}", text)


if __name__ == "__main__":
    main()

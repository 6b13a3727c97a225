"""How fast logs are read and written with all checks on, how much memory that takes, beside readers that check nothing.

    python benchmarks/io.py                       5,000,000 lines of AOL, a million records in the other formats
    python benchmarks/io.py --lines 500000        a quick look, which writes no results
    python benchmarks/io.py --file LOG.tsv        AOL's format on a file of yours; writes no results

The log is synthetic, half of its records with a click. Every measure is the best of three, each in a process of its
own, so that its peak memory (imports included) belongs to that measure alone. Lines per second are told by wall time,
which other work on the machine makes worse, and by CPU time of all threads, which an idle machine with more than one
core beats.
"""
# ruff: noqa: A005 -- run as a script, never imported

from __future__ import annotations

import argparse
import csv
import os
import platform
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import polars as pl

from _results import write_section
from queryveil.log import QueryLog, read, write
from queryveil.log.formats import FORMATS
from queryveil.log.synthetic import synth

REPEATS = 3
TARGET_LINES_PER_SECOND = 1_000_000
TARGET_GIB = 3.0


def read_polars(path: Path) -> pl.DataFrame:
    return pl.read_csv(path, separator="\t", quote_char=None)


def read_csv_module(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as lines:
        return list(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))


def write_polars(frame: pl.DataFrame, path: Path) -> None:
    frame.write_csv(path, separator="\t", quote_style="never")


def write_csv_module(rows: list[tuple[Any, ...]], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as out:
        csv.writer(out, delimiter="\t", quoting=csv.QUOTE_NONE, quotechar=None).writerows(rows)


READERS: dict[str, Callable[[Path], Any]] = {
    "read": read,
    "read, Polars without checks": read_polars,
    "read, Python's csv module": read_csv_module,
}
# For each writer what it starts from, which is not timed.
WRITERS: dict[str, tuple[Callable[[Path], Any], Callable[[Any, Path], None]]] = {
    "write": (read, write),
    "write, Polars without checks": (lambda path: read(path).frame, write_polars),
    "write, Python's csv module": (lambda path: read(path).frame.rows(), write_csv_module),
}


def peak_gib() -> float:
    """The most memory this program had. `getrusage` would also count what the process that started it had."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20


def measure(name: str, path: Path) -> None:
    """Run in a process of its own: print wall seconds, CPU seconds and peak memory."""
    if name in READERS:
        wall, cpu = perf_counter(), process_time()
        READERS[name](path)
    else:
        prepare, work = WRITERS[name]
        kept = prepare(path)
        target = path.with_name(f"written-{path.name}")
        wall, cpu = perf_counter(), process_time()
        work(kept, target)
    print(perf_counter() - wall, process_time() - cpu, peak_gib())


@dataclass(frozen=True)
class Cost:
    """The best times and the highest peak of some processes."""

    wall: float
    cpu: float
    peak: float


def measured(name: str, path: Path) -> Cost:
    command = [sys.executable, __file__, "--measure", name, "--file", str(path)]
    runs = [
        tuple(map(float, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()))
        for _ in range(REPEATS)
    ]
    walls, cpus, peaks = zip(*runs, strict=True)
    return Cost(min(walls), min(cpus), max(peaks))


def aol_table(path: Path, lines: int) -> str:
    rows = [
        "| AOL | wall s | lines/s | CPU s | lines per CPU s | peak GiB | CPU beside ours |",
        "|---|---|---|---|---|---|---|",
    ]
    ours = 0.0
    for name in (*READERS, *WRITERS):
        cost = measured(name, path)
        told = name
        if name in ("read", "write"):
            ours, told = cost.cpu, f"**{name}, all checks**"
            kept = lines / cost.cpu >= TARGET_LINES_PER_SECOND and cost.peak < TARGET_GIB
            print(
                f"{name}: {lines / cost.cpu:,.0f} lines per CPU s, {cost.peak:.2f} GiB: {'kept' if kept else 'MISSED'}"
            )
        rows.append(
            f"| {told} | {cost.wall:.2f} | {lines / cost.wall:,.0f} | {cost.cpu:.2f} | {lines / cost.cpu:,.0f} "
            f"| {cost.peak:.2f} | {cost.cpu / ours:.2f}× |"
        )
    return "\n".join(rows)


def formats_table(log: QueryLog, folder: Path) -> str:
    rows = [
        "| format | file | read, records per CPU s | write, records per CPU s | read CPU beside plain AOL |",
        "|---|---|---|---|---|",
    ]
    plain = 0.0
    for name, known in FORMATS.items():
        frame = log.frame.select(pl.col(column) for column in known.columns)
        for packed in ("", ".gz", ".zst") if name == "aol" else ("",):
            path = folder / f"million{known.suffix}{packed}"
            write(QueryLog(frame), path)
            size = path.stat().st_size / 2**20
            reading, writing = measured("read", path).cpu, measured("write", path).cpu
            plain = plain or reading
            rows.append(
                f"| {name}{packed} | {size:.0f} MiB | {len(log) / reading:,.0f} | {len(log) / writing:,.0f} "
                f"| {reading / plain:.1f}× |"
            )
    return "\n".join(rows)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--lines", type=int, default=5_000_000)
    options.add_argument("--file", type=Path)
    options.add_argument("--measure", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.measure:
        measure(chosen.measure, chosen.file)
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.tsv"
        if chosen.file:
            path.symlink_to(chosen.file.resolve())
        else:
            users = max(10, chosen.lines // 50)
            write(QueryLog(synth(users=users, records=chosen.lines, seed=1).frame.drop("session")), path)
        aol = aol_table(path, len(read(path)))
        if chosen.file or chosen.lines != options.get_default("lines"):
            print(aol)
            return
        others = formats_table(synth(users=20_000, records=1_000_000, seed=1), Path(folder))
    heading = (
        f"{date.today()}, Python {platform.python_version()}, Polars {pl.__version__}, {os.cpu_count()} cores, "
        f"`python benchmarks/io.py`; best of {REPEATS} processes"
    )
    note = (
        f"{chosen.lines:,} lines, half with a click. Goal: {TARGET_LINES_PER_SECOND:,} lines/s each way and less than "
        f"{TARGET_GIB:g} GiB. Peak memory is that of the whole process; a writer's includes reading what it writes."
    )
    write_section(
        "io",
        "\n\n".join(
            ["## Reading and writing", heading, note, aol, "The same million records in every format:", others]
        ),
    )


if __name__ == "__main__":
    main()

"""How fast logs are read and written with all checks on, how much memory that takes, beside readers that check nothing.

    python benchmarks/io.py                       5,000,000 lines of AOL, a million records in the other formats
    python benchmarks/io.py --lines 500000        a quick look, which writes no results
    python benchmarks/io.py --file LOG.tsv        AOL's format on a file of yours; writes no results
    python benchmarks/io.py --formats solr,orcas  500,000 records read in these formats (all: in its section)

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
TARGET_RECORDS = 500_000
FIRST = 10_000  # records of a file that loads what is compiled
TARGETS = {"jsonl": 1_000_000, "ubi": 400_000, "access": 800_000, "trec-session": 50_000}
"""Records read per CPU second, where it is not `TARGET_RECORDS`."""
IN_FIRST_TABLE = ("aol", "csv", "jsonl", "parquet", "ubi", "access", "excite")


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


def measure(name: str, path: Path, first: Path | None) -> None:
    """Run in a process of its own: print wall seconds, CPU seconds and peak memory.

    With a small file to read first, compiled kernels are loaded when the time begins; what that took comes last.
    """
    loading = process_time()
    if first:
        read(first)
    loading = process_time() - loading
    if name in READERS:
        wall, cpu = perf_counter(), process_time()
        READERS[name](path)
    else:
        prepare, work = WRITERS[name]
        kept = prepare(path)
        target = path.with_name(f"written-{path.name}")
        wall, cpu = perf_counter(), process_time()
        work(kept, target)
    print(perf_counter() - wall, process_time() - cpu, peak_gib(), loading)


@dataclass(frozen=True)
class Cost:
    """The best times and the highest peak of some processes."""

    wall: float
    cpu: float
    peak: float
    loading: float


def measured(name: str, path: Path, first: Path | None = None) -> Cost:
    command = [sys.executable, __file__, "--measure", name, "--file", str(path)]
    command += ["--first", str(first)] if first else []
    runs = [
        tuple(map(float, subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()))
        for _ in range(REPEATS)
    ]
    walls, cpus, peaks, loadings = zip(*runs, strict=True)
    return Cost(min(walls), min(cpus), max(peaks), min(loadings))


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
        if name not in IN_FIRST_TABLE:
            continue
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


def yandex_lines(frame: pl.DataFrame, *, personal: bool) -> pl.DataFrame:
    """A query with ten results for each record, and a click where there is one, on a line of their own each."""
    number = pl.int_range(pl.len()).cast(pl.String)
    others = [pl.col("query").hash(place).mod(10**8).cast(pl.String) for place in range(1, 11)]
    url = pl.col("url").hash().mod(10**8).cast(pl.String)
    shown = [pl.when(pl.col("rank") == place).then(url).otherwise(other) for place, other in enumerate(others, 1)]
    query = pl.col("query").hash().mod(10**7).cast(pl.String)
    if personal:
        pairs = [each + ",7" for each in shown]
        lines = [
            pl.concat_str(number, pl.lit("M\t3"), "user", separator="\t"),
            pl.concat_str(number, pl.lit("0\tQ\t0"), query, pl.lit("4,5"), *pairs, separator="\t"),
        ]
        click = pl.concat_str(number, pl.lit("7\tC\t0"), url, separator="\t")
    else:
        lines = [pl.concat_str(number, pl.lit("0\tQ"), query, pl.lit("1"), *shown, separator="\t")]
        click = pl.concat_str(number, pl.lit("7\tC"), url, separator="\t")
    clicked = pl.when(pl.col("rank").is_between(1, 10)).then(click)
    return frame.select(pl.concat_list(*lines, clicked).list.drop_nulls().alias("line")).explode("line")


def reached_table(names: list[str], folder: Path, records: int) -> str:
    rows = [
        "| format | bytes a record | read, records per CPU s | goal | first file, CPU s |",
        "|---|---|---|---|---|",
    ]
    log = synth(users=max(10, records // 50), records=records, seed=1)
    for name in names:
        known, paths = FORMATS[name], {}
        for lines in (FIRST, records):
            paths[lines] = path = folder / f"{lines}{known.suffix}"
            part = QueryLog(log.frame.head(lines)).keeping(known.columns)
            if known.read_only:
                made = yandex_lines(log.frame.head(lines), personal=name == "yandex-personal")
                made.write_csv(path, include_header=False, quote_style="never")
            else:
                write(part, path)
        reading = measured("read", paths[records], paths[FIRST])
        size, goal = paths[records].stat().st_size / records, TARGETS.get(name, TARGET_RECORDS)
        print(f"{name}: {records / reading.cpu:,.0f}: {'kept' if records / reading.cpu >= goal else 'MISSED'}")
        rows.append(f"| {name} | {size:.0f} | {records / reading.cpu:,.0f} | {goal:,} | {reading.loading:.2f} |")
    return "\n".join(rows)


def measure_reached(names: list[str], records: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = reached_table(names, Path(folder), records)
    print(table)
    if names != list(FORMATS) or records != TARGET_RECORDS:
        return
    heading = (
        f"{date.today()}, Python {platform.python_version()}, Polars {pl.__version__}, {os.cpu_count()} cores at load "
        f"{os.getloadavg()[0]:.0f}, `python benchmarks/io.py --formats all`; best of {REPEATS} processes"
    )
    note = (
        f"{records:,} records, half with a click where the format has any; all checks on. Before the time begins, a "
        f"file of {FIRST:,} records loads the kernels, which takes the time in the last column with its reading."
    )
    write_section("io-formats", "\n\n".join(["## Reading logs of every format", heading, note, table]))


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--lines", type=int, default=5_000_000)
    options.add_argument("--file", type=Path)
    options.add_argument("--formats", help="names of formats, or all, to read 500,000 records in")
    options.add_argument("--measure", help=argparse.SUPPRESS)
    options.add_argument("--first", type=Path, help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.measure:
        measure(chosen.measure, chosen.file, chosen.first)
        return
    if chosen.formats:
        names = list(FORMATS) if chosen.formats == "all" else chosen.formats.split(",")
        measure_reached(names, TARGET_RECORDS)
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

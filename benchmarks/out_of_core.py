"""Logs of AOL's size and larger on one machine: `queryveil release` from file to folder, in bounded memory.

The log is synthetic, made in pieces by processes of their own, each with people of its own, and lies in one Parquet
file. Each release is a process of its own: what is told is the whole road, from the bytes of the file to those of the
release.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path

import polars as pl
import pyarrow.parquet as pq

from _results import section, write_section
from queryveil.log.query_log import cores

PIECE = 9_000_000
RECORDS_PER_PERSON = 55
MADE_APART = """
import sys
import polars as pl
from queryveil.log.synthetic import synth
records, number, path = int(sys.argv[1]), sys.argv[2], sys.argv[3]
frame = synth(users=records // 55, records=records, seed=int(number)).frame.drop("session")
frame.with_columns(user=number + pl.lit("-") + pl.col("user")).write_parquet(path)
"""
MECHANISMS = {
    "suppress": ("--k-text", "5"),
    "sanitize": ("--epsilon", "4", "--delta", "1e-7"),
    "semantic": ("--epsilon", "8", "--per", "query", "--domain", "disease"),
    "distill": ("--epsilon", "4"),
    "microaggregate": ("--k", "3"),
}


def make_log(records: int, path: Path) -> None:
    """A log of so many records in one file."""
    with tempfile.TemporaryDirectory(dir=path.parent) as folder:
        writer: pq.ParquetWriter | None = None
        for number, first in enumerate(range(0, records, PIECE)):
            piece = Path(folder) / "piece.parquet"
            wanted = str(min(PIECE, records - first))
            subprocess.run([sys.executable, "-c", MADE_APART, wanted, str(number), str(piece)], check=True)
            for part in pq.ParquetFile(piece).iter_batches(1 << 18):
                if writer is None:
                    writer = pq.ParquetWriter(path, part.schema, compression="zstd")
                writer.write_batch(part)
        assert writer is not None
        writer.close()


def used(folder: Path, *arguments: str) -> str:
    """Run a command; seconds by the clock, of CPU, and GiB at most, as cells of a table."""
    command = [sys.executable, "-m", "queryveil", *arguments]
    home = {"QUERYVEIL_KEYS": str(folder / "keys")}
    start = time.perf_counter()
    process = subprocess.Popen(command, env=os.environ | home, stdout=subprocess.DEVNULL)
    _, status, cost = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - start
    if status:
        raise SystemExit(f"{arguments[:2]} ended with {os.waitstatus_to_exitcode(status)}")
    return f"{seconds:,.0f} s | {cost.ru_utime + cost.ru_stime:,.0f} s | {cost.ru_maxrss / 2**20:.1f} GiB"


def released(mechanism: str, log: Path, memory: str, folder: Path) -> str:
    """The cost of a release, and the records that came out."""
    out = folder / mechanism
    told = used(
        folder, "release", mechanism, str(log), *MECHANISMS[mechanism], "-o", str(out), "--format", "parquet",
        "--memory", memory,
    )  # fmt: skip
    parts = [path for path in out.rglob("*.parquet") if "tables" not in path.parts]
    rows = sum(pl.scan_parquet(path).select(pl.len()).collect().item() for path in parts)
    return f"{told} | {rows:,}"


def audit_of(mechanism: str) -> str:
    """The name of the row of an audit."""
    return f"audit of {mechanism}"


def write_row(records: int, mechanism: str, told: str) -> None:
    """Write a mechanism's row of the section of that number of records; the rows of others stay."""
    name = f"out-of-core-{records}"
    rows = {row.split("`")[1]: row for row in section(name).splitlines() if row.startswith("| `")}
    rows[mechanism] = f"| `{mechanism}` | {told} |"
    lines = [
        f"## Out of core, {records:,} records",
        "",
        f"`python benchmarks/out_of_core.py --records {records} --memory MEMORY --mechanisms MECHANISM`, {cores()} "
        f"cores. File to folder, Parquet, about {records // RECORDS_PER_PERSON:,} people.",
        "",
        "| | --memory | by the clock | of CPU | most memory | records out | load at the end | day |",
        "|---|---|---|---|---|---|---|---|",
        *(rows[name] for name in (*MECHANISMS, *map(audit_of, MECHANISMS)) if name in rows),
    ]
    write_section(name, "\n".join(lines))


def tell(records: int, name: str, memory: str, told: str) -> None:
    """Write a row, and print it."""
    told = f"{told} | {os.getloadavg()[0]:.1f}"
    write_row(records, name, f"{memory} | {told} | {date.today()}")
    print(f"{name}: {told}", flush=True)


def main() -> None:
    """Measure, and write a row for each mechanism."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, default=36_000_000)
    parser.add_argument("--memory", default="4GiB")
    parser.add_argument("--mechanisms", nargs="*", default=list(MECHANISMS), choices=list(MECHANISMS))
    parser.add_argument("--audit", action="store_true", help="count in blocks what an audit of each release can")
    parser.add_argument("--log", type=Path, help="keep the log there, and use it if it is there already")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        log = given.log or Path(place) / "log.parquet"
        if not log.exists():
            make_log(given.records, log)
        for mechanism in given.mechanisms:
            with tempfile.TemporaryDirectory(dir=place) as folder:
                tell(given.records, mechanism, given.memory, released(mechanism, log, given.memory, Path(folder)))
                if given.audit:
                    release = str(Path(folder) / mechanism)
                    told = used(Path(folder), "audit", str(log), release, "--memory", given.memory)
                    tell(given.records, audit_of(mechanism), given.memory, f"{told} | –")


if __name__ == "__main__":
    main()

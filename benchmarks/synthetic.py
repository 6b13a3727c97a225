"""How fast synthetic logs are made and described, and how near they come to a real log.

    python benchmarks/synthetic.py            a million records, and the comparison in docs/synthetic.md
    python benchmarks/synthetic.py --large    also twenty million records and their peak memory

The comparison needs the AOL sample (QUERYVEIL_DATA) and is left as it is where the sample is absent. Times are CPU
seconds of one process, the best of three. Only counts and shares of the sample are written.
"""

from __future__ import annotations

import argparse
import os
import platform
import random
import subprocess
import sys
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import polars as pl

from _results import write_section
from queryveil.log import QueryLog
from queryveil.log.statistics import describe
from queryveil.log.synthetic import PAUSE, START, synth

ROOT = Path(__file__).resolve().parents[1]
SAMPLE = Path(os.environ.get("QUERYVEIL_DATA", ROOT.parent / "shared/data")) / "aol/aol-1017-users.tsv.gz"
SEEDS = range(1, 6)


def cpu_seconds(work: Callable[[], Any], repeats: int = 3) -> float:
    times = []
    for _ in range(repeats):
        before = process_time()
        work()
        times.append(process_time() - before)
    return min(times)


def record_by_record(users: int, records: int) -> QueryLog:
    """The baseline: a loop that draws a user, a text of two words and a time for each record."""
    dice = random.Random(1)
    names, words = [f"u{i}" for i in range(users)], [f"word{i}" for i in range(800)]
    rows = []
    for _ in range(records):
        user = names[dice.randrange(users)]
        text = f"{dice.choice(words)} {dice.choice(words)}"
        rows.append((user, text, START + timedelta(seconds=dice.randrange(92 * 86_400))))
    return QueryLog.of(rows)


def speed(large: bool) -> str:
    users, records = 20_000, 1_000_000
    made = cpu_seconds(lambda: synth(users=users, records=records))
    log = synth(users=users, records=records)
    described = cpu_seconds(lambda: describe(log))
    loop = cpu_seconds(lambda: record_by_record(2000, 100_000), repeats=1) * 10
    grouping = cpu_seconds(lambda: log.frame.group_by("user", "query").len())
    lines = [
        "| what | records | CPU s | records/s | against the baseline |",
        "|---|---|---|---|---|",
        f"| `synth` | {records:,} | {made:.2f} | {records / made:,.0f} | {loop / made:.1f}× as fast as a plain loop |",
        f"| `describe` | {records:,} | {described:.2f} | {records / described:,.0f} "
        f"| {described / grouping:.1f}× the time of one grouping by user and text |",
    ]
    if large:
        lines += ["", large_log()]
    return "\n".join(
        [
            "## Synthetic logs",
            "",
            f"{date.today()}, Python {platform.python_version()}, {os.cpu_count()} cores, "
            f"`python benchmarks/synthetic.py{' --large' if large else ''}`",
            "",
            *lines,
            "",
            "The plain loop does less: it draws a user, two words and a time for each record; no sessions, clicks or "
            "repeats (measured on 100,000 records, multiplied by ten).",
        ]
    )


def large_log() -> str:
    """Twenty million records in a process of their own, so that the peak memory is theirs."""
    script = (
        "from queryveil.log.synthetic import synth; import resource, time; t = time.perf_counter();"
        "log = synth(users=360_000, records=20_000_000);"
        "print(time.perf_counter() - t, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20)"
    )
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    seconds, peak = map(float, done.stdout.split())
    return f"20,000,000 records of 360,000 users: {seconds:.0f} s wall, peak memory {peak:.1f} GiB."


def read_sample() -> QueryLog:
    raw = pl.read_csv(SAMPLE, separator="\t", quote_char=None, infer_schema=False)
    time = pl.col("QueryTime").str.to_datetime("%Y-%m-%d %H:%M:%S")
    return QueryLog(raw.select(user="AnonID", query="Query", time=time, rank=pl.col("ItemRank").cast(pl.UInt32)))


def measures(log: QueryLog) -> dict[str, float]:
    seen = describe(log)
    frame = log.frame.sort("user", "time", maintain_order=True)
    same_user = pl.col("user") == pl.col("user").shift()
    gap = frame.select(pl.col("time").diff().dt.total_seconds().filter(same_user)).to_series()
    same = frame.select(((pl.col("query") == pl.col("query").shift()) & same_user).mean()).item()
    words = frame["query"].str.count_matches(r"\S+").to_numpy()
    per_user = frame.group_by("user").len()["len"].to_numpy()
    askers = np.sort(frame.group_by("query").agg(pl.col("user").n_unique())["user"].to_numpy())[::-1]
    return {
        **{f"records per user, {q} % quantile": float(np.quantile(per_user, q / 100)) for q in (5, 25, 50, 75, 95, 99)},
        "records per user, most": float(per_user.max()),
        "distinct texts": seen.texts,
        "distinct texts asked by one user only": seen.texts_of_one_user,
        "records with such a text": seen.records_with_text_of_one_user,
        "users with such a text": seen.users_with_text_of_their_own,
        **{f"users who asked the text of rank {rank}": float(askers[rank - 1]) for rank in (1, 3, 10, 100)},
        "repeat rate within users": seen.repeat_rate,
        "record repeats the text of the one before": same,
        "words per query, mean": seen.words_per_query,
        **{f"queries of {n} word{'s' * (n > 1)}": float((words == n).mean()) for n in (1, 2, 3, 4)},
        "gap to the user's next record over 30 minutes": (gap > PAUSE).mean(),
        "gap of 0 seconds (several clicks)": (gap == 0).mean(),
        "gap, median in seconds": gap.median(),
        "gap, 90 % quantile in hours": gap.quantile(0.9) / 3600,
        "singled out by one known text": seen.singled_out_by_1,
        "singled out by two": seen.singled_out_by_2,
        "singled out by three": seen.singled_out_by_3,
        "records with a click": seen.records_with_click,
    }


def shown(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or (value == int(value) and value > 1) else f"{value:.3g}"


def comparison() -> str:
    real = measures(read_sample())
    logs = [synth(users=1017, records=92_856, seed=seed) for seed in SEEDS]
    ours = [measures(log) for log in logs]
    clicks = [measures(QueryLog(log.frame.drop_nulls("rank"))) for log in logs]
    lines = ["| | AOL sample | synthetic | synthetic, clicks only |", "|---|---|---|---|"]
    for name, value in real.items():
        mean, of_clicks = (float(np.mean([one[name] for one in many])) for many in (ours, clicks))
        lines.append(f"| {name} | {shown(value)} | {shown(mean)} | {shown(of_clicks)} |")
    return "\n".join(lines)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--large", action="store_true", help="also make twenty million records")
    chosen = options.parse_args()
    write_section("synthetic", speed(chosen.large))
    if SAMPLE.exists():
        write_section("comparison", comparison(), ROOT / "docs/synthetic.md")


if __name__ == "__main__":
    main()

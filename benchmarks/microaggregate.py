"""How the search for groups grows with the number of users, exact and in blocks, and what the blocks cost in SRP.

    python benchmarks/microaggregate.py            1,000 to 20,000 synthetic users
    python benchmarks/microaggregate.py --large    650,000 users with 36,000,000 records, the size of AOL's log

Times are CPU seconds and wall seconds after classification, one run each; the baseline is the paper's way, the whole
n × n matrix, where it fits. Writes its section of RESULTS.md and a plot to benchmarks/out/.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, cast

import altair as alt
import numpy as np
import polars as pl

from _results import write_section
from queryveil.audit.measures.srp import SemanticRemain, srp
from queryveil.knowledge.categories import load_classifier
from queryveil.log.query_log import LocalTable
from queryveil.log.synthetic import synth
from queryveil.mechanisms.microaggregate import Microaggregate, partition
from queryveil.mechanisms.microaggregate.profiles import CountedLog, Profiles, Vocabulary
from queryveil.privacy import Noise
from reference.group_baselines import greedy_in_blocks, paper_logs, random_groups

OUT = Path(__file__).with_name("out")
SIZES = (1_000, 2_000, 5_000, 10_000, 20_000)
RECORDS_PER_USER = 55
K, LEVELS, CATEGORIES = 3, 5, 5
LARGE_USERS, LARGE_RECORDS = 650_000, 36_000_000


def timed(work: Callable[[], Any]) -> tuple[Any, float, float]:
    wall, cpu = perf_counter(), process_time()
    done = work()
    return done, perf_counter() - wall, process_time() - cpu


def dense_matrix_groups(profiles: Profiles) -> Any:
    """The paper's way for pairs: fill the n × n matrix, then look for its largest cell again and again."""
    matrix = partition.incidence(profiles)
    np.fill_diagonal(matrix, -1)
    groups = []
    for _ in range(len(profiles) // 2):
        pair = np.unravel_index(np.argmax(matrix), matrix.shape)
        groups.append(pair)
        for user in pair:
            matrix[user, :] = matrix[:, user] = -1
    return groups


def remain(log: CountedLog, vocabulary: Vocabulary, profiles: Profiles, groups: Any) -> SemanticRemain:
    """SRP of the paper's logs for a partition."""
    shared = paper_logs(log, groups, Noise.seeded(2).stream("records"))
    # A group's log stands for each member: one row for each group, taken once for each member.
    texts = CountedLog(
        pl.Series([str(g) for g in range(int(groups.max()) + 1)]), log.texts, shared.groups, shared.texts, shared.copies
    )
    published = vocabulary.profiles(texts).take(groups[groups >= 0])
    return srp(profiles.take(np.flatnonzero(groups >= 0)), published, depths=vocabulary.tree.depths, levels=LEVELS)


def growth() -> tuple[str, pl.DataFrame]:
    lines = [
        "| users | exact, s wall (CPU) | in blocks, s wall (CPU) | k = 2, n × n matrix, s CPU | k = 2, exact, s CPU |",
        "|---|---|---|---|---|",
    ]
    rows: list[dict[str, Any]] = []
    srps: list[str] = []
    classifier = load_classifier("wordnet")
    for users in SIZES:
        log = CountedLog.of(synth(users=users, records=RECORDS_PER_USER * users).frame)
        vocabulary = Vocabulary.of(log.texts, classifier, categories=CATEGORIES, levels=LEVELS)
        profiles = vocabulary.profiles(log)
        if users == SIZES[0]:  # compile first
            partition.greedy(profiles.take(np.arange(50)), K)
            partition.greedy(profiles.take(np.arange(50)), K, all_cores=False)
        exact, exact_wall, exact_cpu = timed(lambda p=profiles: partition.greedy(p, K))
        size = min(users // 5, partition.USERS_PER_BLOCK)
        blocks, block_wall, block_cpu = timed(lambda p=profiles, s=size: greedy_in_blocks(p, K, users_per_block=s))
        dense = pairs = None
        if users <= 5_000:
            _, _, dense = timed(lambda p=profiles: dense_matrix_groups(p))
            _, _, pairs = timed(lambda p=profiles: partition.greedy(p, 2))
        times = [f"{exact_wall:.1f} ({exact_cpu:.1f})", f"{block_wall:.1f} ({block_cpu:.1f}), blocks of {size:,}"]
        times += ["–" if seconds is None else f"{seconds:.1f}" for seconds in (dense, pairs)]
        lines.append(f"| {users:,} | {' | '.join(times)} |")
        rows += [
            {"users": users, "seconds": exact_cpu, "search": "exact"},
            {"users": users, "seconds": block_cpu, "search": f"blocks of up to {partition.USERS_PER_BLOCK:,}"},
        ]
        if users == SIZES[-1]:
            chosen = {"exact": exact, f"blocks of {size:,}": blocks}
            chosen["blocks of 1,000"] = greedy_in_blocks(profiles, K, users_per_block=1_000)
            chosen["random"] = random_groups(users, K, Noise.seeded(3))
            for name, groups in chosen.items():
                kept = remain(log, vocabulary, profiles, groups).by_level
                srps.append(f"| {name} | " + " | ".join(f"{100 * share:.1f}" for share in kept) + " |")
    table = [
        "",
        f"SRP in % at {SIZES[-1]:,} users, k = {K}, by level:",
        "",
        "| search | 1 | 2 | 3 | 4 | 5 |",
        "|---|---|---|---|---|---|",
    ]
    return "\n".join([*lines, *table, *srps]), pl.DataFrame(rows)


def large_run() -> None:
    """In a process of its own: every stage of a safe release of a log of AOL's size, with times and memory."""

    def told(stage: str, wall: float, cpu: float) -> None:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        now = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**30
        print(f"| {stage} | {wall:.0f} | {cpu:.0f} | {now:.1f} | {peak:.1f} |", flush=True)

    log, *spent = timed(lambda: synth(users=LARGE_USERS, records=LARGE_RECORDS).keeping(["user", "query"]))
    told("make the log", *spent)
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak of making the log
    load_classifier("wordnet")
    mechanism = Microaggregate(k=K, levels=LEVELS, categories=str(CATEGORIES))
    with each_step_told(told):
        release, *spent = timed(lambda: mechanism.protect(log, Noise.secure()))
    told("the whole release", *spent)
    sizes = release.members["group"].value_counts()["count"]
    print(
        f"{len(release.members):,} users in {len(sizes):,} groups of {sizes.min()} to {sizes.max()}, "
        f"{len(release.log):,} records"
    )


@contextmanager
def each_step_told(told: Callable[[str, float, float], None]) -> Iterator[None]:
    """Tell time and memory after every step over blocks, by what the step does."""
    right = LocalTable.map_blocks

    def map_blocks(self: LocalTable, key: str, work: Any, schema: Any) -> LocalTable:
        done, *spent = timed(lambda: right(self, key, work, schema))
        told(getattr(work, "__self__", work).__class__.__name__.lower(), *spent)
        return cast(LocalTable, done)

    LocalTable.map_blocks = map_blocks  # type: ignore[method-assign]
    try:
        yield
    finally:
        LocalTable.map_blocks = right  # type: ignore[method-assign]


def heading(title: str, command: str) -> list[str]:
    return [
        f"## {title}",
        "",
        f"{date.today()}, Python {platform.python_version()}, {os.cpu_count()} cores shared with other work, "
        f"`{command}`; k = {K}, {LEVELS} levels, {CATEGORIES} categories, WordNet.",
        "",
    ]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--large", action="store_true", help="650,000 users")
    options.add_argument("--large-only", action="store_true", help=argparse.SUPPRESS)
    chosen = options.parse_args()
    if chosen.large_only:
        large_run()
        return
    if chosen.large:
        done = subprocess.run([sys.executable, __file__, "--large-only"], check=True, capture_output=True, text=True)
        *stages, outcome = done.stdout.strip().splitlines()
        told = heading("Microaggregation of a log of AOL's size", "python benchmarks/microaggregate.py --large")
        told += [f"{LARGE_USERS:,} users, {LARGE_RECORDS:,} records, safe mode, in blocks:", ""]
        told += ["| stage | s wall | s CPU | memory now, GiB | peak, GiB |", "|---|---|---|---|---|"]
        write_section("microaggregate-large", "\n".join([*told, *stages, "", outcome]))
        return
    lines, rows = growth()
    OUT.mkdir(exist_ok=True)
    sides = [
        alt.X("users", scale=alt.Scale(type="log", domain=[SIZES[0], SIZES[-1]]), axis=alt.Axis(values=SIZES)),
        alt.Y("seconds", scale=alt.Scale(type="log"), title="CPU seconds"),
    ]
    chart = alt.Chart(rows).mark_line(point=True).encode(*sides, color="search")
    chart = chart.properties(width=480, height=320, title="Time to find groups, k = 3")
    chart.save(OUT / "microaggregate-growth.png", scale_factor=2)
    told = heading("Microaggregation", "python benchmarks/microaggregate.py")
    write_section("microaggregate", "\n".join([*told, f"{RECORDS_PER_USER} records per user.", "", lines]))


if __name__ == "__main__":
    main()

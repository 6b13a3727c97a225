"""Weighted selection beside fixed caps: how many pairs and queries come out at equal (ε, δ).

    python benchmarks/_laws_sanitize.py              the table, into benchmarks/RESULTS.md
    python benchmarks/_laws_sanitize.py --records N  time and memory of the selection over N synthetic records

Figures are expected numbers by the law of the discrete noise, not one draw: for every pair P(noisy sum > threshold),
with the contributions as drawn. In the two steps of weighted selection the clicks are given drawn queries, averaged
over `DRAWS` draws. Only counts of the AOL sample are written.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import date
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from _click_logs import aol_sample
from _results import write_section
from queryveil.arrays import Longs
from queryveil.log import QueryLog
from queryveil.log.query_log import LocalTable
from queryveil.log.synthetic import synth
from queryveil.mechanisms.sanitize import Sanitize, weighted
from queryveil.mechanisms.sanitize.selection import Selection, contributed, expected_kept
from queryveil.mechanisms.sanitize.weighted_budget import WeightedSelection
from queryveil.privacy import Noise
from queryveil.privacy.calibration import discrete_gaussian_tail
from queryveil.privacy.joint_gaussian import joint_sigmas, union_threshold
from queryveil.privacy.set_union import weights_of

EPSILON, DELTA = 2.0, 1e-7
RECORDS_EACH = 13
"""Of 13, 15 and 17 the one with one-step columns nearest to the specification's; weights win by as much at each."""
CAPS = (1, 2, 3, 5, 10, 20)
ONE_STEP_KEYS = 20
DRAWS = 5
UNIT = 1 << 16


def distinct_pairs(log: QueryLog) -> tuple[Longs, Longs]:
    """User and number of each distinct (query, url), sorted by user."""
    pairs = log.frame.filter(pl.col("url").is_not_null()).select("user", "query", "url").unique()
    numbered = pairs.select(
        pl.col("user").rank("dense").cast(pl.Int64) - 1,
        pl.struct("query", "url").rank("dense").cast(pl.Int64).alias("pair") - 1,
    ).sort("user", "pair")
    return numbered["user"].to_numpy(), numbered["pair"].to_numpy()


def expected(weight: Longs, sigma: int, threshold: int) -> float:
    """How many of these keys are published on average, by the discrete law."""
    weights, how_often = np.unique(weight[weight > threshold - 12 * sigma], return_counts=True)
    chances = [discrete_gaussian_tail(Fraction(sigma), int(threshold - w)) for w in weights]
    return float(np.dot(chances, how_often))


def capped(user: Longs, pair: Longs, cap: int, epsilon: float) -> float:
    """Pairs in one step with a fixed cap: 80 % of ε, all of δ."""
    rule = Selection.best(epsilon=0.8 * epsilon, delta=DELTA, contribution=cap, keys_only=False)
    mine = contributed(user, Noise.seeded(cap).stream("contributions"), cap)
    people = np.bincount(pair[mine])
    return expected_kept(rule, people[people > 0])[0]


def one_step(user: Longs, pair: Longs, share: Fraction, epsilon: float) -> float:
    """Pairs in one step by weights, with a share of the budget: the specification's columns."""
    rest = {"pairs": share, "rest": 1 - share}
    sigma = joint_sigmas(epsilon=epsilon, delta=DELTA / 2, shares=rest, unit=UNIT)["pairs"]
    threshold = union_threshold(sigma=sigma, delta=DELTA / 2, most_keys=ONE_STEP_KEYS, unit=UNIT)
    weight = weights_of(user, Noise.seeded(1).stream("weights"), most_keys=ONE_STEP_KEYS, unit=UNIT)
    sums = np.zeros(int(pair.max()) + 1, np.int64)
    np.add.at(sums, pair, weight)
    return expected(sums, sigma, threshold)


def two_steps(log: QueryLog, epsilon: float) -> tuple[float, float]:
    """Clicks and queries of weighted selection as it is released."""
    rule = Sanitize(epsilon=epsilon, delta=DELTA).weighted_rule
    table, found = log.table(), []
    for draw in range(DRAWS):
        noise = Noise.seeded(draw)
        queries = weighted.select_queries(table, noise, rule)
        entries = weighted._of_queries(queries, table.collect())
        weighed = weighted._weigh_clicks(noise.streams("clicks", 1), rule, 0, entries)
        sums = weighed["weight"].to_numpy()
        found.append((expected(sums, rule.sigmas["clicks"], rule.thresholds["clicks"]), queries.height))
    clicks, asked = np.mean(found, axis=0)
    return float(clicks), float(asked)


def compare(name: str, log: QueryLog, epsilon: float = EPSILON) -> dict[str, Any]:
    """One row of the table."""
    user, pair = distinct_pairs(log)
    caps = {cap: capped(user, pair, cap, epsilon) for cap in CAPS}
    clicks, queries = two_steps(log, epsilon)
    return {
        "log": name,
        "epsilon": epsilon,
        "capped": caps[20],
        "best": max(caps.values()),
        "best cap": max(caps, key=lambda cap: caps[cap]),
        "one step 90": one_step(user, pair, Fraction(9, 10), epsilon),
        "one step 70": one_step(user, pair, Fraction(7, 10), epsilon),
        "clicks": clicks,
        "queries": queries,
    }


def rows() -> list[dict[str, Any]]:
    """All logs of the table; the sample where it is."""
    found = [
        compare(f"synthetic, {users:,} people", synth(users=users, records=RECORDS_EACH * users, seed=1))
        for users in (30_000, 100_000)
    ]
    sample = aol_sample()
    if sample is not None:
        found += [compare("AOL sample, 1,017 people", sample, epsilon) for epsilon in (EPSILON, 8.0)]
    return found


def markdown(found: list[dict[str, Any]]) -> str:
    """The section of the results."""
    lines = [
        "## sanitize: weighted selection beside fixed caps",
        "",
        f"`python benchmarks/_laws_sanitize.py`, {date.today()}; δ = 1e-7, expected numbers by the law of the discrete "
        f"noise; synthetic logs have {RECORDS_EACH} records a person.",
        "",
        "| log | ε | pairs, cap 20 | pairs, best cap | pairs by weights in one step, 90 % of the budget | 70 % "
        "| **released: pairs** | **queries** | pairs, times cap 20 | times best cap |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in found:
        times = [f"{row['clicks'] / row[base]:.1f}" if row[base] >= 0.05 else "–" for base in ("capped", "best")]
        lines.append(
            f"| {row['log']} | {row['epsilon']:g} | {row['capped']:.1f} | {row['best']:.1f} (d = {row['best cap']}) "
            f"| {row['one step 90']:.1f} | {row['one step 70']:.1f} | {row['clicks']:.1f} | {row['queries']:.1f} "
            f"| {times[0]} | {times[1]} |"
        )
    lines += [
        "",
        "Released: queries first (42 % of the budget), then clicks on published queries (42 %); counts, lengths and "
        "topics have the rest. Queries come out beside the pairs, with or without a click; the other columns publish "
        "pairs only.",
    ]
    return "\n".join(lines)


def measure(records: int) -> None:
    """Time and memory of the selection over a log that lies in a file, in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        made = (
            "import sys; from queryveil.log.synthetic import synth; "
            "synth(users=int(sys.argv[1]) * 65 // 3600, records=int(sys.argv[1]), seed=5)"
            ".frame.select('user', 'query', 'url').write_parquet(sys.argv[2])"
        )
        subprocess.run([sys.executable, "-c", made, str(records), str(path)], check=True)
        subprocess.run([sys.executable, __file__, "--child", str(path)], check=True)


def select(path: Path) -> None:
    """All steps that see records, over a file."""
    rule = WeightedSelection(EPSILON, DELTA, 64)
    small = pl.DataFrame({"user": ["a", "b"], "query": ["q", "r"], "url": ["u", None]})
    weighted.publish(LocalTable(small, 2), Noise.seeded(1), rule)  # compiled before the clock starts
    log = pl.read_parquet(path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    wall, cpu = time.perf_counter(), time.process_time()
    published = weighted.publish(LocalTable(log), Noise.seeded(1), rule)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{log.height:,} records: {wall:.1f} s wall, {cpu:.1f} s CPU, {peak:.2f} GiB at most, {before:.2f} GiB of it "
        f"before the selection began; {published.pairs.height:,} items"
    )


def main(arguments: Sequence[str] = ()) -> None:
    """The table; `laws.py` calls it without arguments."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int)
    parser.add_argument("--child", type=Path)
    asked = parser.parse_args(arguments)
    if asked.child:
        select(asked.child)
    elif asked.records:
        measure(asked.records)
    else:
        write_section("laws-sanitize", markdown(rows()))


if __name__ == "__main__":
    main(sys.argv[1:])

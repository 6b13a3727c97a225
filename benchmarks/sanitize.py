"""How fast and how good sanitize's solvers and its safe mode are. Writes its section of RESULTS.md.

python benchmarks/sanitize.py            every part, each in a process of its own (memory is measured)
python benchmarks/sanitize.py --part P   one part again; the others keep their last figures
"""

from __future__ import annotations

import argparse
import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from _click_logs import paper_sized, zipf
from _results import write_section
from queryveil.log.synthetic import synth
from queryveil.mechanisms.sanitize import Sanitize, diversity, linear, safe
from queryveil.mechanisms.sanitize.constraints import Constraints
from queryveil.mechanisms.sanitize.counts import ClickCounts
from queryveil.mechanisms.sanitize.laplace_step import (
    NeighbourPrograms,
    by_programs,
    by_solver,
    far_neighbours,
    size_segments,
)
from queryveil.mechanisms.sanitize.packing import PackingProgram
from queryveil.mechanisms.sanitize.selection import Selection, contributed, expected_kept
from queryveil.privacy import Noise
from reference import exact_diversity

KEPT = Path(__file__).with_name("out") / "sanitize.json"
LN2 = math.log(2)


def timed(work: Callable[[], Any]) -> tuple[Any, float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    outcome = work()
    return outcome, time.perf_counter() - wall, time.process_time() - cpu


def size_program(users: int, clicks: int, vocabulary: int, baseline: bool) -> dict[str, Any]:
    constraints = Constraints.of(zipf(users=users, clicks=clicks, vocabulary=vocabulary), LN2)
    counts = constraints.counts
    answer, wall, cpu = timed(lambda: linear.greatest_size(constraints))
    told = {
        "users": counts.users,
        "pairs": counts.pairs,
        "entries": len(counts.user),
        "solver": answer.solver,
        "wall": wall,
        "cpu": cpu,
        "gap": answer.gap,
        "GiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
    }
    if baseline:
        segments = [linear.Segment(linear.longest(constraints), np.ones(counts.pairs))]
        other, wall, cpu = timed(lambda: linear.solve(constraints, segments, largest_for_highs=10**9))
        told |= {
            "baseline": other.solver,
            "baseline_wall": wall,
            "baseline_cpu": cpu,
            "value_ratio": answer.value / other.value,
        }
    return told


def elimination() -> dict[str, Any]:
    counts = zipf(users=500_000, clicks=9_000_000, vocabulary=1_500_000)
    constraints = Constraints.of(counts, LN2)
    small = Constraints.of(zipf(users=200, clicks=2000, vocabulary=500), LN2)
    diversity.eliminate(small), diversity.eliminate_as_printed(small)  # compiled before the clock starts
    printed, printed_wall, printed_cpu = timed(lambda: diversity.eliminate_as_printed(constraints))
    corrected, wall, cpu = timed(lambda: diversity.eliminate(constraints))
    return {
        "pairs": counts.pairs,
        "entries": len(counts.user),
        "printed_wall": printed_wall,
        "printed_cpu": printed_cpu,
        "wall": wall,
        "cpu": cpu,
        "printed": int(printed.sum()),
        "corrected": int(corrected.sum()),
    }


def binary_program(name: str, seconds: float = 60.0) -> dict[str, Any]:
    logs = {
        "synthetic log": paper_sized,
        "Zipf log": lambda: zipf(users=2000, clicks=50_000, vocabulary=12_000, exponent=0.9),
    }
    counts = logs[name]()
    constraints = Constraints.of(counts, LN2)
    program = PackingProgram.of(constraints, distinct_queries=False)
    whole = linear.Segment(np.ones(program.size), np.ones(program.size))
    rounded = program.rounded(linear.pack(program.matrix.tocsc(), [whole]).x)
    cp_sat, cp_bound = exact_diversity.cp_sat(program, rounded, seconds)
    highs_bound, highs = exact_diversity.Prover(program, exact_diversity.Clock(seconds)).result()
    ours, wall, _ = timed(lambda: exact_diversity.most_diverse(constraints, Noise.seeded(1), seconds=seconds))
    queries = exact_diversity.most_diverse(constraints, Noise.seeded(1), seconds=seconds / 2, distinct_queries=True)
    assert len(constraints.breaches(ours.y.astype(np.int64))) == 0
    return {
        "users": counts.users,
        "pairs": counts.pairs,
        "as printed": int(diversity.eliminate_as_printed(constraints).sum()),
        "corrected": int(diversity.eliminate(constraints).sum()),
        "linear program rounded": int(rounded.sum()),
        "CP-SAT from the rounded program": [int(cp_sat.sum()), cp_bound],
        "HiGHS alone": [0 if highs is None else int(highs.sum()), highs_bound],
        "ours": [ours.value, ours.bound],
        "gap": ours.gap,
        "found_by": ours.found_by,
        "bound_by": ours.bound_by,
        "wall": wall,
        "queries": [queries.value, queries.bound],
    }


def neighbours() -> dict[str, Any]:
    constraints = Constraints.of(paper_sized(), LN2)
    users = constraints.counts.users
    programs = NeighbourPrograms(constraints, size_segments)
    far, wall, cpu = timed(lambda: far_neighbours(constraints, by_programs(programs), d=1.0))
    anew = by_solver(constraints, lambda c: linear.greatest_size(c).x)
    sample = range(0, users, users // 40)
    _, _, cold_cpu = timed(lambda: [anew(k) for k in sample])
    return {"users": users, "wall": wall, "cpu": cpu, "far": int(far.sum()), "cold": cold_cpu / len(sample) * users}


def safe_mode() -> dict[str, Any]:
    log = synth(users=40_000, records=1_900_000, seed=3)
    Sanitize(selection="capped").protect(synth(users=50, records=500, seed=1), Noise.seeded(1))
    release, wall, cpu = timed(lambda: Sanitize(selection="capped").protect(log, Noise.seeded(1)))
    counts = ClickCounts.of(log.clicks())
    kept: dict[str, Any] = {}
    for d in (1, 5, 20):
        mine = contributed(counts.user, Noise.seeded(d).stream("contributions"), d)
        people = np.bincount(counts.pair[mine])
        people = people[people > 0]
        kept[str(d)] = {
            make.__name__: [round(expected_kept(rule, people)[0], 1), rule.half_kept]
            for make in (Selection.gaussian, Selection.laplace, Selection.truncated_geometric)
            for rule in [make(epsilon=1.6, delta=1e-7, contribution=d)]
        }
    return {
        "clicks": counts.total,
        "users": counts.users,
        "wall": wall,
        "cpu": cpu,
        "pairs": release.log.frame.select("query", "url").n_unique(),
        "records": len(release.log),
        "GiB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20,
        "kept": kept,
        "paper_cap": counts.users * -math.log1p(-1e-7),
        "rule": safe.rule(epsilon=2.0, delta=1e-7, contribution=20, objective="size").in_words(),
    }


PARTS: dict[str, Callable[[], dict[str, Any]]] = {
    "size-50k": lambda: size_program(50_000, 1_000_000, 125_000, True),
    "size-300k": lambda: size_program(310_000, 4_600_000, 680_000, False),
    "elimination": elimination,
    "binary-synthetic": lambda: binary_program("synthetic log"),
    "binary-zipf": lambda: binary_program("Zipf log"),
    "neighbours": neighbours,
    "safe": safe_mode,
}


def markdown(told: dict[str, dict[str, Any]]) -> str:
    lines = [
        "## sanitize: solvers and safe mode",
        "",
        f"`python benchmarks/sanitize.py`, last part {max(part['date'] for part in told.values())}; 2 cores shared "
        "with other work, so CPU seconds stand beside wall seconds.",
        "",
    ]
    if "size-50k" in told:
        lines += [
            "### Greatest size (O-UMP), b = ln 2",
            "",
            "| users × pairs (entries) | solver | wall | CPU | proven gap | memory |",
            "|---|---|---|---|---|---|",
        ]
        for key in ("size-50k", "size-300k"):
            if key in told:
                p = told[key]
                lines.append(
                    f"| {p['users']:,} × {p['pairs']:,} ({p['entries']:,}) | {p['solver']} and repair | "
                    f"{p['wall']:.1f} s | {p['cpu']:.1f} s | {100 * p['gap']:.3f} % | {p['GiB']:.2f} GiB |"
                )
        p = told["size-50k"]
        lines += [
            "",
            f"Baseline on the first: {p['baseline']} takes {p['baseline_wall']:.1f} s ({p['baseline_cpu']:.1f} s CPU), "
            f"{p['baseline_cpu'] / p['cpu']:.1f} times the CPU; our repaired value is "
            f"{p['value_ratio']:.6f} of its optimum.",
            "",
        ]
    if "elimination" in told:
        p = told["elimination"]
        lines += [
            "### Elimination (SPE)",
            "",
            f"{p['pairs']:,} pairs, {p['entries']:,} entries: as printed {p['printed_wall']:.1f} s "
            f"({p['printed_cpu']:.1f} s CPU), corrected {p['wall']:.1f} s ({p['cpu']:.1f} s CPU); "
            f"they keep {p['printed']:,} and {p['corrected']:,} pairs.",
            "",
        ]
    binary = [key for key in ("binary-synthetic", "binary-zipf") if key in told]
    if binary:
        lines += ["### Greatest diversity (D-UMP) at the paper's size, b = ln 2, 60 s each", ""]
        lines += [
            "| | "
            + " | ".join(
                f"{key.removeprefix('binary-')}: {told[key]['users']:,} × {told[key]['pairs']:,}" for key in binary
            )
            + " |"
        ]
        lines += ["|---" * (len(binary) + 1) + "|"]
        for row in ("as printed", "corrected", "linear program rounded"):
            lines.append(f"| {row} | " + " | ".join(str(told[key][row]) for key in binary) + " |")
        for row in ("CP-SAT from the rounded program", "HiGHS alone", "ours", "queries"):
            label = {"queries": "ours, distinct queries (30 s)"}.get(row, row)
            lines.append(
                f"| {label} | " + " | ".join("{} (at most {})".format(*told[key][row]) for key in binary) + " |"
            )
        lines.append("| proven gap | " + " | ".join(f"{100 * told[key]['gap']:.1f} %" for key in binary) + " |")
        lines.append("| bound by | " + " | ".join(told[key]["bound_by"] for key in binary) + " |")
        lines.append("| wall | " + " | ".join(f"{told[key]['wall']:.0f} s" for key in binary) + " |")
        lines.append("")
    if "neighbours" in told:
        p = told["neighbours"]
        lines += [
            "### Laplace pre-pass: the program without each user",
            "",
            f"{p['users']:,} neighbours from the whole log's optimum: {p['wall']:.0f} s wall, {p['cpu']:.0f} s CPU; "
            f"solved anew they would take {p['cold']:.0f} s CPU (from a sample of 40), "
            f"{p['cold'] / p['cpu']:.1f} times as much. With d = 1, {p['far']:,} users would be deleted.",
            "",
        ]
    if "safe" in told:
        p = told["safe"]
        lines += [
            '### Safe mode with a fixed cap (`selection="capped"`)',
            "",
            f"{p['clicks']:,} clicks of {p['users']:,} users, ε = 2, δ = 1e-7, d = 20: {p['wall']:.1f} s wall, "
            f"{p['cpu']:.1f} s CPU, {p['GiB']:.2f} GiB; {p['pairs']:,} pairs, {p['records']:,} records "
            f"({p['rule']}). The paper's constraints allow {p['paper_cap']:.4f} records at the same δ.",
            "",
            "Pairs kept on average, by noise (people at which a pair is kept half of the time):",
            "",
            "| d | Gaussian | Laplace | truncated geometric, keys only |",
            "|---|---|---|---|",
        ]
        for d, kinds in p["kept"].items():
            cells = [
                f"{kinds[kind][0]:g} ({kinds[kind][1]})" for kind in ("gaussian", "laplace", "truncated_geometric")
            ]
            lines.append(f"| {d} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", choices=PARTS, action="append")
    parser.add_argument("--child", choices=PARTS)
    asked = parser.parse_args()
    if asked.child:
        print(json.dumps(PARTS[asked.child]()))
        return
    KEPT.parent.mkdir(exist_ok=True)
    told = json.loads(KEPT.read_text()) if KEPT.exists() and asked.part else {}
    for part in asked.part or PARTS:
        print(part, file=sys.stderr)
        child = subprocess.run([sys.executable, __file__, "--child", part], capture_output=True, text=True, check=True)
        told[part] = json.loads(child.stdout.splitlines()[-1]) | {"date": datetime.now(UTC).date().isoformat()}
        KEPT.write_text(json.dumps(told, indent=1))
        write_section("sanitize", markdown(told))


if __name__ == "__main__":
    main()

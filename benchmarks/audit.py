"""How long an audit of a million released records takes, and how much memory.

    python benchmarks/audit.py                 writes the section of RESULTS.md
    python benchmarks/audit.py --records 100000 --dry    to try it out, writes nothing

The log is synthetic, in a few categories by a public column, with enough shared texts that a million records come out.
Each mechanism's release is made and audited in a process of its own, with its true owners; timed are the audit's wall
and CPU seconds alone, and the peak memory of the whole process (log and release included).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
from datetime import date
from pathlib import Path
from time import perf_counter, process_time

MECHANISMS: dict[str, dict[str, object]] = {
    "suppress": {"k_text": 3},
    "stream": {"k": 3, "k_text": 3, "depth": 2, "window": 1_000_000},
}
MOST_SECONDS, MOST_GIB = 180.0, 4.0


def many_shared(records: int):  # type: ignore[no-untyped-def]
    """A synthetic log of which about `records` records survive: most texts are asked by several users."""
    import polars as pl

    from queryveil.log import QueryLog
    from queryveil.log.synthetic import synth

    base = synth(users=max(records // 25, 50), records=records * 6 // 5, seed=1).frame
    texts = base["query"].unique(maintain_order=True)
    few = texts.head(max(len(texts) // 4, 1))
    place = pl.Series(range(len(texts))) % len(few)
    renamed = base["query"].replace_strict(texts, few.gather(place), return_dtype=pl.String)
    return QueryLog(base.with_columns(renamed.alias("query")))


def child(name: str, records: int) -> None:
    from queryveil.audit.auditing import audit
    from queryveil.mechanisms import make
    from queryveil.privacy import Noise

    log = many_shared(records)
    release = make(name, **MECHANISMS[name]).protect(log, Noise.seeded(1))
    slowest: list[tuple[float, str]] = []
    last = [perf_counter()]

    def on_step(step: str) -> None:
        now = perf_counter()
        slowest.append((now - last[0], step))
        last[0] = now

    wall, cpu = perf_counter(), process_time()
    last[0] = wall
    found = audit(log, release, on_step=on_step)
    status = Path("/proc/self/status").read_text()
    told = {
        "records": len(log),
        "released": len(release.log),
        "users": log.user_count(),
        "findings": len(found.findings),
        "broken": len(found.broken()),
        "wall": perf_counter() - wall,
        "cpu": process_time() - cpu,
        "gib": int(status.split("VmHWM:")[1].split()[0]) / 1024**2,
        "slowest": sorted(slowest, reverse=True)[:3],
    }
    print(json.dumps(told))


def main() -> None:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--records", type=int, default=1_000_000)
    arguments.add_argument("--dry", action="store_true")
    arguments.add_argument("--child")
    given = arguments.parse_args()
    if given.child:
        child(given.child, given.records)
        return
    rows = []
    for name in MECHANISMS:
        command = [sys.executable, __file__, "--child", name, "--records", str(given.records)]
        told = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
        slowest = ", ".join(f"{step} {seconds:.0f} s" for seconds, step in told["slowest"])
        rows.append(
            f"| {name} | {told['records']:,} | {told['released']:,} | {told['users']:,} | {told['findings']} | "
            f"{told['wall']:.0f} s ({told['wall'] / MOST_SECONDS:.0%}) | {told['cpu']:.0f} s | "
            f"{told['gib']:.1f} GiB ({told['gib'] / MOST_GIB:.0%}) | {slowest} |"
        )
        print(rows[-1], flush=True)
    if not given.dry:
        from _results import write_section

        write_section("audit", "\n".join([HEAD.format(date.today(), platform.machine(), os.getloadavg()[0]), *rows]))


HEAD = """## Audit

{}, {}, 2 cores, load {:.1f}; `python benchmarks/audit.py`. All attacks and measures, with true owners, on a
synthetic log; the release is made before the clock starts. In brackets the share of what is allowed: 180 s and 4 GiB.

| mechanism | raw records | released | users | findings | wall | CPU | peak memory | slowest |
|---|---|---|---|---|---|---|---|---|"""


if __name__ == "__main__":
    main()

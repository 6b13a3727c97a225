"""How long people wait on the page: from a log's upload to the first advice, to a release with its report.

    python benchmarks/page_path.py [--records 20000] [--log FILE] [--whole]

Starts the server as users do (`queryveil serve`) and goes the whole way over loopback: upload, read, purpose, compare
until there is advice, release of what is advised, report, approval. `--whole` waits for the slow mechanisms too and
prints what each setting took. `--log` takes a log of one's own, and writes nothing into RESULTS.md. Otherwise it is
synthetic, and the section of RESULTS.md is written.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from _page_client import Browser, serving
from _results import write_section
from queryveil.log import write
from queryveil.log.formats import FORMATS
from queryveil.log.synthetic import synth

ADVICE_LIMIT, RELEASE_LIMIT = 60.0, 30.0
RECORDS_A_PERSON = 20
PURPOSE = {"recipient": "partner", "task": "query frequency", "max_risk": 0.2, "blocked": [], "leave_out": ["session"]}
IF_NONE = {"mechanism": "suppress", "parameters": {"k_text": 5}, "reason": "to measure how long it takes"}
"""What is released where no setting is advised."""


def go(browser: Browser, log: Path, whole: bool) -> tuple[dict[str, float], Any]:
    """The way through the page: what was reached after how many seconds of its part, and the comparison."""
    times: dict[str, float] = {}
    began = time.perf_counter()

    def reached(name: str) -> None:
        times.setdefault(name, time.perf_counter() - began)

    identity = browser.upload(log)
    reached("uploaded")
    browser.wait(browser.ask("PUT", f"/api/logs/{identity}/reading", {}))
    reached("read and counted")
    browser.ask("PUT", f"/api/logs/{identity}/purpose", PURPOSE)

    def look() -> None:
        found = browser.ask("GET", f"/api/logs/{identity}/comparison")
        if found["points"]:
            reached("first setting shown")
        if any(point["advised"] for point in found["points"]):
            reached("first advice")
            if not whole:
                raise StopIteration

    job = browser.ask("POST", f"/api/logs/{identity}/comparison")
    try:
        browser.wait(job, look, every=0.3)
        look()
        reached("all settings tried")
    except StopIteration:
        pass
    found = browser.ask("GET", f"/api/logs/{identity}/comparison")
    browser.ask("POST", f"/api/jobs/{job['id']}/cancel")
    advised = next((point for point in found["points"] if point["advised"]), None)
    wanted = {name: advised[name] for name in ("mechanism", "parameters")} if advised else IF_NONE
    began = time.perf_counter()
    made = browser.wait(browser.ask("POST", f"/api/logs/{identity}/release", wanted))
    reached("released and signed")
    release = made["result"]["release"]
    while not (view := browser.ask("GET", f"/api/releases/{release}"))["has_report"]:
        time.sleep(0.1)
    reached("with report and decision sheet")
    began = time.perf_counter()
    decision = {"decision": "refuse", "name": "a benchmark", "reason": "nobody reads it"}
    browser.ask("POST", f"/api/releases/{release}/decision", decision)
    reached("decided and signed")
    assert view["records"]
    return times, found | {"wanted": wanted}


def main() -> None:
    """Measure, write and hold against what is asked."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--records", type=int, default=20_000)
    options.add_argument("--log", type=Path, help="a log of one's own; nothing of it is shown")
    options.add_argument("--whole", action="store_true", help="wait for the slow mechanisms too")
    given = options.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        path = given.log or folder / "log.tsv"
        if given.log is None:
            log = synth(users=max(1, given.records // RECORDS_A_PERSON), records=given.records, seed=1)
            write(log.keeping(FORMATS["aol"].columns), path, format="aol")
        with serving(folder) as (browser, _):
            times, found = go(browser, path, given.whole)
    asked = {"first advice": f"≤ {ADVICE_LIMIT:.0f} s", "with report and decision sheet": f"≤ {RELEASE_LIMIT:.0f} s"}
    since = {
        "released and signed": "release",
        "with report and decision sheet": "release",
        "decided and signed": "form",
    }
    rows = [
        f"| {name} | {since.get(name, 'upload')} | {seconds:.1f} s | {asked.get(name, '')} |"
        for name, seconds in times.items()
    ]
    if given.whole:
        for point in sorted(found["points"], key=lambda point: -point["seconds"]):
            sys.stdout.write(f"{point['seconds']:7.1f} s  {point['label']}\n")
    sys.stdout.write("\n".join(rows) + f"\nreleased: {found['wanted']['mechanism']}\n")
    if given.log is None:
        write_section(
            "page_path",
            "## The way through the page\n\n"
            f"`python benchmarks/page_path.py`, {datetime.now(UTC):%Y-%m-%d}, {given.records:,} synthetic records, "
            f"{os.cpu_count()} cores, load average {load:.1f} at the start (wall-clock figures grow with it). Released "
            f"is what the first advice names: `{found['wanted']['mechanism']}`.\n\n"
            "| reached | since | measured | asked |\n|---|---|---:|---:|\n" + "\n".join(rows),
        )


if __name__ == "__main__":
    main()

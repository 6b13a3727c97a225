"""How quick the page is: its first page, and a large log from upload to figures.

    python benchmarks/web.py [--records 1000000]

Starts the server as users do (`queryveil serve`), sends it a synthetic log in AOL's format over loopback, and waits for
the profile. The baseline is the library doing the same on the file without a server. Writes its section of RESULTS.md.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from _page_client import serving
from _results import write_section
from queryveil.log import read, write
from queryveil.log.formats import FORMATS
from queryveil.log.statistics import describe
from queryveil.log.synthetic import synth

FIRST_PAGE_LIMIT, PROFILE_LIMIT = 0.2, 30.0


def cpu_of_children() -> float:
    """Seconds of processor time of the processes that ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main() -> None:
    """Measure and write."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--records", type=int, default=1_000_000)
    records = options.parse_args().records
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        path = folder / "log.tsv"
        log = synth(users=max(1, records // 55), records=records, seed=1)
        write(log.keeping(FORMATS["aol"].columns), path, format="aol")
        began = time.perf_counter()
        describe(read(path))
        alone = time.perf_counter() - began
        before = cpu_of_children()
        with serving(folder) as (browser, start):
            pages = []
            for _ in range(20):
                began = time.perf_counter()
                browser.request("GET", "/")
                pages.append(time.perf_counter() - began)
            began = time.perf_counter()
            identity = browser.upload(path)
            uploaded = time.perf_counter() - began
            browser.wait(browser.ask("PUT", f"/api/logs/{identity}/reading", {}))
            profiled = time.perf_counter() - began
        cpu = cpu_of_children() - before
        size = path.stat().st_size / (1 << 20)
    middle, slowest = statistics.median(pages), max(pages)
    rows = [
        f"| first page, median (slowest) of 20 | {middle * 1000:.0f} ms ({slowest * 1000:.0f} ms) | < 200 ms |",
        f"| {records:,} lines of AOL's format ({size:.0f} MiB) uploaded | {uploaded:.1f} s | |",
        f"| … uploaded, read and profiled | {profiled:.1f} s | < 30 s |",
        f"| the same by the library alone, without the upload | {alone:.1f} s | ratio {profiled / alone:.1f} |",
        f"| processor time of server and worker together, start included | {cpu:.1f} s | |",
        f"| from starting the server to its first answer | {start:.1f} s | |",
    ]
    load = os.getloadavg()[0]
    write_section(
        "web",
        "## The page\n\n"
        f"`python benchmarks/web.py`, {datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} cores, load average {load:.1f} "
        "at the end (wall-clock figures grow with it).\n\n"
        "| what | measured | wanted |\n|---|---:|---:|\n" + "\n".join(rows),
    )
    sys.stdout.write("\n".join(rows) + "\n")
    assert middle < FIRST_PAGE_LIMIT
    assert profiled < PROFILE_LIMIT


if __name__ == "__main__":
    main()

"""How quick the page is: its first page, and a large log from upload to figures.

    python benchmarks/web.py [--records 1000000]

Starts the server as users do (`queryveil serve`), sends it a synthetic log in AOL's format over loopback, and waits for
the profile. The baseline is the library doing the same on the file without a server. Writes its section of RESULTS.md.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

from _results import write_section
from queryveil.log import read, write
from queryveil.log.formats import FORMATS
from queryveil.log.statistics import describe
from queryveil.log.synthetic import synth

FIRST_PAGE_LIMIT, PROFILE_LIMIT = 0.2, 30.0


class Browser:
    """As much of a browser as is needed: a cookie, a token, one connection a request."""

    def __init__(self, entrance: str) -> None:
        self.host = urlsplit(entrance).netloc
        token = urlsplit(entrance).query.removeprefix("token=")
        self.headers = {"content-type": "application/json"}
        answer, body = self.request("POST", "/api/session", json.dumps({"secret": token}))
        self.headers |= {
            "cookie": answer.headers["set-cookie"].split(";")[0],
            "x-csrf-token": json.loads(body)["csrf"],
        }

    def request(self, method: str, path: str, body: object = None) -> tuple[http.client.HTTPResponse, bytes]:
        """The answer to one request."""
        connection = http.client.HTTPConnection(self.host, timeout=600)
        connection.request(method, path, body=body, headers=self.headers)  # type: ignore[arg-type]
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        assert answer.status < 400, content
        return answer, content


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
        environment = {**os.environ, "QUERYVEIL_KEYS": str(folder / "keys")}
        command = [sys.executable, "-c", "from queryveil.cli.main import main; main()", "serve", "--port", "0"]
        command += ["--folder", str(folder / "page")]
        before = cpu_of_children()
        server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
        try:
            assert server.stderr is not None
            started = time.perf_counter()
            browser = Browser(server.stderr.readline().split("Open ")[1].strip())
            start = time.perf_counter() - started
            pages = []
            for _ in range(20):
                began = time.perf_counter()
                browser.request("GET", "/")
                pages.append(time.perf_counter() - began)
            began = time.perf_counter()
            with path.open("rb") as file:
                browser.headers["content-length"] = str(path.stat().st_size)
                _, content = browser.request("POST", "/api/logs?name=log.tsv", file)
                del browser.headers["content-length"]
            identity = json.loads(content)["id"]
            uploaded = time.perf_counter() - began
            job = json.loads(browser.request("PUT", f"/api/logs/{identity}/reading", "{}")[1])
            while job["state"] in ("waiting", "running"):
                time.sleep(0.05)
                job = json.loads(browser.request("GET", f"/api/jobs/{job['id']}")[1])
            assert job["state"] == "done", job["error"]
            profiled = time.perf_counter() - began
        finally:
            server.terminate()
            server.wait()
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

"""A server as users start it, on loopback, and as much of a browser as a benchmark needs."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit


class Browser:
    """A cookie, a token, one connection a request."""

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

    def ask(self, method: str, path: str, values: Any = None) -> Any:
        """The JSON that answers JSON."""
        return json.loads(self.request(method, path, None if values is None else json.dumps(values))[1])

    def upload(self, path: Path) -> str:
        """Send a log; its identity."""
        with path.open("rb") as file:
            self.headers["content-length"] = str(path.stat().st_size)
            _, content = self.request("POST", f"/api/logs?name={path.name}", file)
            del self.headers["content-length"]
        return str(json.loads(content)["id"])

    def wait(self, job: Any, look: Callable[[], None] = lambda: None, every: float = 0.05) -> Any:
        """The job once it has ended; `look` is called as long as it runs."""
        while job["state"] in ("waiting", "running"):
            look()
            time.sleep(every)
            job = self.ask("GET", f"/api/jobs/{job['id']}")
        assert job["state"] == "done", job["error"]
        return job


@contextmanager
def opened(folder: Path, *arguments: str) -> Iterator[str]:
    """The address that a command of `queryveil` prints when it is ready; the command is stopped at the end."""
    environment = {**os.environ, "QUERYVEIL_KEYS": str(folder / "keys")}
    command = [sys.executable, "-c", "from queryveil.cli.main import main; main()", *arguments, "--port", "0"]
    server = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        assert server.stderr is not None
        yield next(line for line in server.stderr if "Open " in line).split("Open ")[1].strip()
    finally:
        server.terminate()
        server.wait()


@contextmanager
def serving(folder: Path) -> Iterator[tuple[Browser, float]]:
    """A browser that was let in by `queryveil serve`, and the seconds from its start to its first answer."""
    started = time.perf_counter()
    with opened(folder, "serve", "--folder", str(folder / "page")) as entrance:
        browser = Browser(entrance)
        yield browser, time.perf_counter() - started

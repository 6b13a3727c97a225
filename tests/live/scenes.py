"""What the kill tests need of each connector: settings, a way to feed it, and what an outside reader sees.

A new connector adds a class like `FileScene` and its name to the kill tests' list.
"""

from __future__ import annotations

import json
import shutil
import threading
import time
from contextlib import contextmanager
from pathlib import Path

from live.verifier import Rules, file_state
from queryveil.testing.harness.records import (  # noqa: F401 -- the tests know them from here
    HALF_PUBLISHED,
    LABELS,
    MECHANISM,
    TOPICS,
    identifying_records,
    mixed_input,
    small_run,
    some_records,
)
from queryveil.testing.harness.workers import Zygote  # noqa: F401

RULES = Rules(**{name: MECHANISM[name] for name in ("k", "k_text", "mix", "depth", "cap")})


class FileScene:
    """From a file to a file."""

    between_looks = 0.002
    labels = (*LABELS, HALF_PUBLISHED)

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.output = folder / "out.jsonl"

    def settings(self, **more: object) -> dict[str, object]:
        return small_run(str(self.folder / "in.jsonl"), str(self.output), more)

    def feed(self, lines: list[bytes]) -> None:
        with (self.folder / "in.jsonl").open("ab") as file:
            file.write(b"".join(line + b"\n" for line in lines))

    def visible(self) -> list[bytes]:
        """What anybody can read; a last line that is not complete counts as seen too."""
        content = self.output.read_bytes() if self.output.exists() else b""
        return [line for line in content.split(b"\n") if line]

    def torn(self) -> bool:
        """Whether the output ends in the middle of a line."""
        content = self.output.read_bytes() if self.output.exists() else b""
        return bool(content) and not content.endswith(b"\n")

    def state(self, shard: int = 0) -> bytes:
        return file_state(self.output.with_name(f"{self.output.name}.checkpoint"))

    def lag(self) -> int:
        """Nothing is on its way: what is in a file can be read."""
        return 0

    def dead(self) -> list[dict[str, str]]:
        path = self.output.with_name(f"{self.output.name}.dead.jsonl")
        return [json.loads(line) for line in path.read_text().splitlines()]


def copy_anew(source: Path, target: Path) -> None:
    """A folder in place of what may have been there."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)


@contextmanager
def outside_reader(scene):
    """Somebody who looks at the output all the time. What was seen once must never change."""
    seen: list[bytes] = []
    complaints: list[str] = []
    stop = threading.Event()

    def look() -> None:
        nonlocal seen
        while not stop.is_set():
            now = scene.visible()
            if now[: max(0, len(seen) - 1)] != seen[:-1]:
                complaints.append(f"something of the first {len(seen)} lines seen changed or is gone")
            elif seen and len(now) >= len(seen) and not now[len(seen) - 1].startswith(seen[-1]):
                complaints.append(f"line {len(seen)} changed after it was seen")
            seen = max(now, seen, key=len)
            time.sleep(scene.between_looks)

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield complaints
    finally:
        stop.set()
        thread.join()

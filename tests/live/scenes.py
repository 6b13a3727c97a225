"""What the kill tests need of each connector: settings, a way to feed it, and what an outside reader sees.

A new connector adds a class like `FileScene` and its name to the kill tests' list.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

from live.verifier import Rules, file_state
from queryveil.live.connector import STEPS
from waiting import LONG

RULES = Rules(k=3, k_text=3, mix=40, depth=2)
MECHANISM = {
    "k": RULES.k,
    "k_text": RULES.k_text,
    "mix": RULES.mix,
    "depth": RULES.depth,
    "cap": RULES.cap,
    "pseudonym": "record",
    "time": "drop",
    "category_column": "topic",
}
TOPICS = ["animal: cat", "animal: dog: puppy", "food", "food: bread", "sport: chess"]
HALF_PUBLISHED = "half published"
"""Where outputs follow the state: some are out, some are not; with files the last line is torn."""
LABELS = tuple(label for label in STEPS if label != HALF_PUBLISHED)


def some_records(count: int, seed: int = 1, users: int = 30, texts: int = 40) -> list[dict[str, str]]:
    """Records that can be mixed: everybody asks a few texts, each text has its category."""
    drawn = random.Random(seed)
    return [
        {"user": f"user {drawn.randrange(users)}", "query": f"text {text}", "topic": TOPICS[text % len(TOPICS)]}
        for text in (drawn.randrange(texts) for _ in range(count))
    ]


def identifying_records(count: int) -> list[dict[str, str]]:
    """Records that are suppressed at once."""
    return [{"user": f"user {i}", "query": f"mail somebody{i}@example.org", "topic": "food"} for i in range(count)]


def mixed_input(count: int, seed: int = 1) -> tuple[list[bytes], list[dict[str, str]], list[dict[str, str]], int]:
    """Lines in their order; the records to mix, those to suppress, and how many lines are no records."""
    good, suppressed = some_records(count, seed), identifying_records(count // 50)
    bad = [b"{", b"\xff\xfe", b'{"user": "x"}', b'{"user": "x", "query": ""}', b"[1, 2]"] * (count // 250)
    others = [json.dumps(row).encode() for row in suppressed] + bad
    lines = [json.dumps(row).encode() for row in good]
    drawn = random.Random(seed + 1)
    for line in others:
        lines.insert(drawn.randrange(len(lines) + 1), line)
    return lines, good, suppressed, len(bad)


def small_run(source: str, sink: str, more: dict[str, object], run: str = "kills") -> dict[str, object]:
    """Settings of a run in small steps, from one URL to another."""
    return {"from": source, "to": sink, "run": run, "batch": 60, "wait": 0.05, "mechanism": MECHANISM} | more


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


class Zygote:
    """Workers in processes of their own, with the keys of the test that asks."""

    def __init__(self) -> None:
        script = Path(__file__).with_name("zygote.py")
        self.process = subprocess.Popen([sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    @property
    def keys(self) -> Path:
        return Path(os.environ["QUERYVEIL_KEYS"])

    def run(
        self, settings: dict[str, object], kill: tuple[str, int] | None = None, **more: object
    ) -> dict[str, object]:
        assert self.process.stdin and self.process.stdout
        told = {"keys": str(self.keys), "settings": settings, "kill": kill, **more}
        self.process.stdin.write(json.dumps(told).encode() + b"\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self) -> None:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        self.process.wait(timeout=LONG)
        self.process.stdout.close()


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

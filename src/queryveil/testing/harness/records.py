"""Records to try a live stream with: some that can be mixed, some that are left out, some that are none."""

from __future__ import annotations

import json

from queryveil.live.connector import STEPS
from queryveil.privacy.noise import Noise

TOPICS = ["animal: cat", "animal: dog: puppy", "food", "food: bread", "sport: chess"]
MECHANISM: dict[str, object] = {
    "k": 3,
    "k_text": 3,
    "mix": 40,
    "depth": 2,
    "cap": 3,
    "pseudonym": "record",
    "time": "drop",
    "category_column": "topic",
}
HALF_PUBLISHED = "half published"
"""Where outputs follow the state: some are out, some are not; with files the last line is torn."""
LABELS = tuple(label for label in STEPS if label != HALF_PUBLISHED)


def some_records(count: int, seed: int = 1, users: int = 30, texts: int = 40) -> list[dict[str, str]]:
    """Records that can be mixed: everybody asks a few texts, each text has its category."""
    drawn = Noise.seeded(seed).stream("harness: records")
    return [
        {"user": f"user {user}", "query": f"text {text}", "topic": TOPICS[text % len(TOPICS)]}
        for user, text in zip(drawn.below(users, count), drawn.below(texts, count), strict=True)
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
    places = Noise.seeded(seed).stream("harness: places").below(len(lines) + 1, len(others))
    for place, line in zip(places, others, strict=True):
        lines.insert(place, line)
    return lines, good, suppressed, len(bad)


def small_run(source: str, sink: str, more: dict[str, object], run: str = "kills") -> dict[str, object]:
    """Settings of a run in small steps, from one URL to another."""
    return {"from": source, "to": sink, "run": run, "batch": 60, "wait": 0.05, "mechanism": MECHANISM} | more

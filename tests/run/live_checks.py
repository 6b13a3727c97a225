"""Short words for what the tests of all brokers do."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

from queryveil.run.live.config import settings_from
from queryveil.run.live.journal import Journal
from queryveil.run.live.worker import Worker
from run.live_scenes import RULES
from run.live_verifier import verify


def lines_of(records: list[dict[str, str]]) -> list[bytes]:
    return [json.dumps(record).encode() for record in records]


def worker_of(scene, **more: object) -> Worker:
    return Worker(settings_from(scene.settings(**more)), Journal())


def worked(scene, **more: object) -> None:
    """Run until nothing comes any more."""
    worker_of(scene, **more).run(idle_rounds=3)


def key_of(run: str) -> bytes:
    return (Path(os.environ["QUERYVEIL_KEYS"]) / f"stream-{run}.key").read_bytes()


def checked(
    scene, good, suppressed=(), dead=0, *, visible=None, shard=0, rules=RULES, run=None, finished=False
) -> list[str]:
    """What the independent verifier finds wrong."""
    return verify(
        arrivals=good,
        suppressed=list(suppressed),
        dead=dead,
        visible=scene.visible() if visible is None else visible,
        state=scene.state(shard),
        key=key_of(run or scene.settings()["run"]),
        rules=rules,
        shard=shard,
        finished=finished,
    )


def wait_until(holds: Callable[[], bool], what: str, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.05)


def content_of(folder: Path) -> dict[str, bytes]:
    """All files but locks, which are empty."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith(".lock")}

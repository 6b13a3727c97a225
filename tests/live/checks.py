"""Short words for what the tests of all brokers do."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

from live.scenes import RULES
from live.verifier import verify
from queryveil.live.config import LiveSettings, settings_from
from queryveil.live.connector import AwayError, OnStep, no_step
from queryveil.live.shard import Round, ShardLoop
from queryveil.live.worker import Worker
from waiting import LONG, wait_until


def lines_of(records: list[dict[str, str]]) -> list[bytes]:
    return [json.dumps(record).encode() for record in records]


def worker_of(scene, **more: object) -> Worker:
    return Worker(settings_from(scene.settings(**more)))


class PatientWorker(Worker):
    """Takes a round without records for idle only where the broker has nothing left: a busy one may be slow to send."""

    def __init__(self, settings: LiveSettings, behind: Callable[[list[Round]], bool]) -> None:
        super().__init__(settings)
        self._behind, self._deadline = behind, time.monotonic() + LONG

    def _rounds(self, wanted: frozenset[int]) -> list[Round]:
        rounds = super()._rounds(wanted)
        if not rounds or any(done.read for done in rounds) or not self._behind(rounds):
            return rounds
        assert time.monotonic() < self._deadline, "the broker keeps records back"
        return []


def worked(scene, takes: int | None = None, **more: object) -> None:
    """Run until nothing comes any more, or until the run took so many records in all.

    A scene tells what is left of its own input for its own run; of another input or run only the test knows it.
    """
    known = not {"from", "run"} & more.keys()

    def behind(rounds: list[Round]) -> bool:
        if takes is not None:
            return sum(done.header.taken for done in rounds) < takes
        return known and scene.lag() > 0

    PatientWorker(settings_from(scene.settings(**more)), behind).run(idle_rounds=3)


def took_over(engine: ShardLoop) -> bool:
    """Whether the shard was free, and is open now."""
    try:
        engine.open()
    except AwayError:
        return False
    return True


def engine_at_work(scene, on_step: OnStep = no_step, **more: object) -> ShardLoop:
    """An engine that is open, once the lease of the one before ran out."""
    engine = ShardLoop(settings_from(scene.settings(**more)), on_step=on_step)
    wait_until(lambda: took_over(engine), "the shard is free")
    return engine


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


def content_of(folder: Path) -> dict[str, bytes]:
    """All files but locks, which are empty."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if not path.name.endswith(".lock")}

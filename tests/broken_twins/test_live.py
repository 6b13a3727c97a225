"""Live streams that go wrong after a crash, each in one way: the verifier of the kill tests must find every one.

The twins share the engine; what is broken is a sink or where the random words come from. A crash is an exception
between two steps, after which a new engine is opened from what was committed.
"""

import json
import os
from pathlib import Path

import pytest

from live.scenes import RULES, FileScene, some_records
from live.verifier import verify
from queryveil.live import checkpoint as cp
from queryveil.live.config import settings_from
from queryveil.live.file_sink import FileSink
from queryveil.live.shard import ShardLoop
from queryveil.privacy import Noise


class CrashError(Exception):
    """Stands for SIGKILL."""


class PublishesFirst(FileSink):
    """Appends outputs before the checkpoint, and does not cut them off again."""

    crash_at = 4

    def load(self, accept):
        state = self._unpack(self._checkpoint.read_bytes())[1] if self._checkpoint.exists() else None
        self._lengths = [path.stat().st_size if path.exists() else 0 for path in self._paths]
        accept(state, None)
        return state

    def commit(self, step, source):
        parts = [*self._outputs(step), b""]
        self._publish(self._lengths, parts)
        type(self).crash_at -= 1
        if type(self).crash_at == 0:
            raise CrashError
        super().commit(type(step)([], step.dead, step.state, step.positions), source)


class AcknowledgesFirst(FileSink):
    """Commits the state and loses the outputs when it dies."""

    crash_at = 4

    def commit(self, step, source):
        type(self).crash_at -= 1
        if type(self).crash_at == 0:
            super().commit(type(step)([], step.dead, step.state, step.positions), source)
            raise CrashError
        super().commit(step, source)


class AppendsToTheTornHalf(FileSink):
    """Dies in the middle of a line, and writes the outbox behind it instead of cutting it off."""

    crash_at = 4

    def _publish(self, lengths, parts):
        type(self).crash_at -= 1
        for path, part in zip(self._paths, parts, strict=True):
            with path.open("ab") as file:
                file.write(part[: len(part) // 2] if type(self).crash_at == 0 else part)
        if type(self).crash_at == 0:
            raise CrashError
        self._lengths = [path.stat().st_size for path in self._paths]


class DrawsAnew(cp.RunKeys):
    """Forgets the run's key whenever it is opened, for the draws alone."""

    def noise(self):
        return Noise.secure()


def worked(scene):
    """Run to the end of the input, through one crash."""
    for _ in range(2):
        engine = ShardLoop(settings_from(scene.settings()))
        try:
            engine.open()
            while not engine.round().ended:
                pass
        except CrashError:
            continue
        finally:
            engine.close()
        return
    raise AssertionError("it crashed twice")


def problems(scene, records):
    key = (Path(os.environ["QUERYVEIL_KEYS"]) / "stream-kills.key").read_bytes()
    return verify(
        arrivals=records,
        suppressed=[],
        dead=0,
        visible=scene.visible(),
        state=scene.state(),
        key=key,
        rules=RULES,
    )


@pytest.fixture
def fed(tmp_path):
    records = some_records(600)
    scene = FileScene(tmp_path)
    scene.feed([json.dumps(record).encode() for record in records])
    return scene, records


def test_the_real_one_passes(fed):
    scene, records = fed
    worked(scene)
    assert not problems(scene, records)


@pytest.mark.parametrize(
    ("twin", "finding"),
    [
        (PublishesFirst, "released twice"),
        (AcknowledgesFirst, "counts other releases than are visible"),
        (AppendsToTheTornHalf, ""),  # what is found depends on where the line was torn
    ],
    ids=[
        "publishes before it commits",
        "commits before it publishes, without an outbox",
        "appends to the half of a line",
    ],
)
def test_a_sink_that_is_not_atomic_is_found(fed, monkeypatch, twin, finding):
    scene, records = fed
    monkeypatch.setattr(twin, "crash_at", 4)
    monkeypatch.setattr("queryveil.live.files.FileSink", twin)
    worked(scene)
    assert any(finding in problem for problem in problems(scene, records))


def test_draws_that_do_not_come_from_the_kept_key_are_found(fed, monkeypatch):
    scene, records = fed
    monkeypatch.setattr(cp, "RunKeys", DrawsAnew)
    worked(scene)
    assert any("other draws than the key gives" in problem for problem in problems(scene, records))

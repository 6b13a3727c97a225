"""A full disk, a clock that is set back, two workers at once."""

import ast
import dataclasses
import resource
import signal
import time
from pathlib import Path

import pytest

from live.checks import checked, lines_of, worked
from live.scenes import MECHANISM, RULES, mixed_input, some_records
from queryveil import live
from queryveil.live import event_log
from queryveil.live import worker as worker_module
from queryveil.live.config import settings_from
from queryveil.live.connector import AwayError, FencedError
from queryveil.live.file_sink import FileSink
from queryveil.live.shard import ShardLoop
from queryveil.live.worker import Worker
from queryveil.mechanisms import stream


def test_a_second_worker_on_the_same_files_is_refused(file_scene):
    file_scene.feed(lines_of(some_records(100)))
    first = ShardLoop(settings_from(file_scene.settings()))
    first.open()
    second = ShardLoop(settings_from(file_scene.settings()))
    with pytest.raises(FencedError, match="another worker writes"):
        second.open()
    first.close()
    second.open()
    second.close()


def test_a_full_disk_is_waited_for_and_loses_nothing(file_scene, tmp_path):
    """RLIMIT_FSIZE refuses to let a file grow, as a full disk does."""
    lines, good, suppressed, dead = mixed_input(1000)
    file_scene.feed(lines)
    engine = ShardLoop(settings_from(file_scene.settings(batch=200)))
    engine.open()
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    previous = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    failed = 0
    try:
        for room in (100, 3000, 9000, 12_000):
            resource.setrlimit(resource.RLIMIT_FSIZE, (room, before[1]))
            try:
                while not engine.round().ended:
                    pass
            except AwayError:
                failed += 1
                engine.close()
            resource.setrlimit(resource.RLIMIT_FSIZE, before)
            engine = ShardLoop(settings_from(file_scene.settings(batch=200)))
            engine.open()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, previous)
        engine.close()
    assert failed >= 2
    worked(file_scene)
    assert not checked(file_scene, good, suppressed, dead)


def test_the_worker_waits_for_the_disk(file_scene, monkeypatch):
    file_scene.feed(lines_of(some_records(400)))
    calls = []
    plain = FileSink.commit

    def sometimes(self, step, source):
        calls.append(1)
        if len(calls) % 2:
            raise AwayError("out.jsonl cannot be written (no space left on device).")
        plain(self, step, source)

    monkeypatch.setattr(FileSink, "commit", sometimes)
    monkeypatch.setattr(worker_module, "FIRST_PAUSE", 0.01)
    worked(file_scene)
    assert not checked(file_scene, some_records(400))


def test_a_worker_never_asks_what_time_it_is(file_scene, monkeypatch):
    """So a clock that jumps changes nothing; only the log of events has the time, and only for people."""

    def asked(*_):
        raise AssertionError("somebody asked for the time of day")

    for name in ("time", "time_ns", "localtime", "gmtime", "strftime", "ctime"):
        monkeypatch.setattr(time, name, asked)
    monkeypatch.setattr(event_log.logger, "disabled", True)  # the standard library puts the time on every event
    records = [record | {"time": "2026-03-01T10:00:00"} for record in some_records(400)]
    file_scene.feed(lines_of(records))
    settings = file_scene.settings(mechanism={**MECHANISM, "time": "day"})
    Worker(settings_from(settings)).run()
    assert not checked(file_scene, records, rules=dataclasses.replace(RULES, time="day"))


def parsed(path):
    return ast.parse(path.read_text())


def test_no_module_of_a_live_stream_can_ask_what_time_it_is():
    """Brokers' own clocks are another matter: leases are theirs."""
    folders = (Path(live.__file__).parent, Path(stream.__file__).parent)
    nodes = [(path.name, node) for folder in folders for path in folder.glob("*.py") for node in ast.walk(parsed(path))]
    calls = {(name, node.attr) for name, node in nodes if isinstance(node, ast.Attribute)}
    imported = {
        name for name, node in nodes if isinstance(node, ast.ImportFrom) and node.module in ("time", "datetime")
    }
    whole = {name for name, node in nodes if isinstance(node, ast.Attribute) and ast.unparse(node) == "time.time"}
    of_the_day = {"time_ns", "now", "utcnow", "today", "localtime", "gmtime", "strftime"}
    asking = imported | whole | {name for name, attribute in calls if attribute in of_the_day}
    assert not asking

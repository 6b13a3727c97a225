"""A full disk, a clock that is set back, a broker on a bad day, two workers at once."""

import resource
import signal
import time

import pytest

from queryveil.run.live import worker as worker_module
from queryveil.run.live.config import settings_from
from queryveil.run.live.connector import AwayError, Batch, FencedError, Promise
from queryveil.run.live.engine import Engine
from queryveil.run.live.file_sink import FileSink
from queryveil.run.live.once import Once
from queryveil.run.live.records import Decoder, Encoder
from queryveil.run.live.work import Mixing
from run.live_checks import checked, lines_of, worked
from run.live_scenes import mixed_input, some_records


def test_a_second_worker_on_the_same_files_is_refused(file_scene):
    file_scene.feed(lines_of(some_records(100)))
    first = settings_from(file_scene.settings()).engine()
    first.open()
    second = settings_from(file_scene.settings()).engine()
    with pytest.raises(FencedError, match="another worker writes"):
        second.open()
    first.close()
    second.open()
    second.close()


def test_a_full_disk_is_waited_for_and_loses_nothing(file_scene, tmp_path):
    """RLIMIT_FSIZE refuses to let a file grow, as a full disk does."""
    lines, good, suppressed, dead = mixed_input(1000)
    file_scene.feed(lines)
    engine = settings_from(file_scene.settings(batch=200)).engine()
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
            engine = settings_from(file_scene.settings(batch=200)).engine()
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


def test_a_clock_that_is_set_back_changes_nothing(file_scene, monkeypatch):
    file_scene.feed(lines_of(some_records(400)))
    clock = iter(range(10**9, 0, -1000))
    monkeypatch.setattr(time, "time", lambda: next(clock))
    worked(file_scene)
    assert not checked(file_scene, some_records(400))


class UnrulySource:
    """Delivers in bits, some twice, some late: a broker on a bad day."""

    promise = Promise("exactly once", "numbers tell what was taken")
    name = "unruly"

    def __init__(self, lines, order):
        self._lines, self._order = lines, order
        self._at, self._once = 0, Once()

    def seek(self, positions):
        self._once = Once.read(str(positions.get("taken", "")))

    def read(self, most, wait):
        numbers = []
        while self._at < len(self._order) and len(numbers) < most:
            number = self._order[self._at]
            self._at += 1
            if self._once.take(number):
                numbers.append(number)
        after = {"taken": self._once.written()} if numbers else {}
        ended = self._at == len(self._order)
        return Batch([self._lines[n] for n in numbers], [str(n) for n in numbers], after, ended)

    def acknowledge(self, positions):
        pass

    def close(self):
        pass


def test_duplicate_and_reordered_delivery_takes_each_record_once(file_scene):
    records = some_records(600)
    order = [n + (1 if n % 2 == 0 else -1) for n in range(600)]  # neighbours swapped
    order = [n for start in range(0, 600, 30) for n in (order[start : start + 30] + order[start : start + 30 : 3])]
    order += order[:50]
    settings = settings_from(file_scene.settings())

    def engine():
        return Engine(
            run="kills",
            work=Mixing(settings.mechanism, Encoder("jsonl", with_time=False)),
            decoder=Decoder("jsonl", {}, category_column="topic"),
            source=UnrulySource(lines_of(records), order),
            sink=FileSink([file_scene.output]),
            limits=settings.limits(),
        )

    first = engine()
    first.open()
    for _ in range(4):
        first.round()
    first.close()
    second = engine()  # everything is delivered once more
    second.open()
    while not second.round().ended:
        pass
    second.close()
    assert not checked(file_scene, [records[n] for n in dict.fromkeys(order)])

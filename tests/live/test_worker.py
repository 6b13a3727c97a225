"""A worker with several shards: what befalls one of them does not touch the others, and is told."""

import io
import os
import stat
from concurrent.futures import ThreadPoolExecutor

import pytest

from live.checks import checked, key_of, lines_of
from live.scenes import MECHANISM, RULES, small_run, some_records
from live.verifier import file_state, verify
from queryveil.errors import DataError, RefusedError, UsageError
from queryveil.live import worker as worker_module
from queryveil.live.config import settings_from
from queryveil.live.connector import AwayError, FencedError, shard_of
from queryveil.live.event_log import EventWriter
from queryveil.live.shard import ShardLoop
from queryveil.live.worker import Worker
from waiting import LONG, wait_until


def sharded(folder, shards=2, **more):
    """Settings for files of records, cut into shards; and the records of each."""
    records = some_records(600)
    parts = [[r for r in records if shard_of(r["topic"], ": ", shards) == shard] for shard in range(shards)]
    for shard, part in enumerate(parts):
        (folder / f"in-{shard}.jsonl").write_bytes(b"".join(line + b"\n" for line in lines_of(part)))
    ends = str(folder / "in-{shard}.jsonl"), str(folder / "out-{shard}.jsonl")
    return small_run(*ends, {"shards": shards, **more}), parts


def found_wrong(folder, shard, part):
    return verify(
        arrivals=part,
        suppressed=[],
        dead=0,
        visible=(folder / f"out-{shard}.jsonl").read_bytes().splitlines(),
        state=file_state(folder / f"out-{shard}.jsonl.checkpoint"),
        key=key_of("kills"),
        rules=RULES,
        shard=shard,
    )


def test_a_shard_that_was_let_go_for_want_of_memory_is_not_gone_on_with(tmp_path, monkeypatch):
    """Its epoch was marked to end, its files are closed and its lock is gone: it must be opened anew."""
    settings, parts = sharded(tmp_path, most_memory=256)
    memory, plain = iter([100, 100, 300]), ShardLoop.stop

    def away(self, *, suppress):
        if suppress:
            if self.header.shard == 1:
                self._stage.mark_end()
                raise AwayError("out-1.jsonl cannot be written (no space left on device).")
            return
        plain(self, suppress=suppress)

    monkeypatch.setattr(ShardLoop, "stop", away)
    monkeypatch.setattr(worker_module, "resident_mebibytes", lambda: next(memory, 100))
    told = io.StringIO()
    with EventWriter(told):
        Worker(settings_from(settings)).run()
    assert told.getvalue().count("shard_opened") == 3
    for shard, part in enumerate(parts):
        assert not found_wrong(tmp_path, shard, part)


def test_a_sink_that_was_let_go_commits_nothing(file_scene):
    file_scene.feed(lines_of(some_records(200)))
    engine = ShardLoop(settings_from(file_scene.settings()))
    engine.open()
    engine.round()
    before = file_scene.state()
    engine._sink.close()
    with pytest.raises(FencedError, match="was let go"):
        engine.round()
    assert file_scene.state() == before
    engine.close()


class Moving:
    """Says that shard 1 belongs to somebody else, once the worker has been seen to miss it."""

    def __init__(self, healths):
        self._healths = healths
        self.moved = False

    def wanted(self):
        self.moved = False in self._healths
        return frozenset({0} if self.moved else {0, 1})

    def close(self):
        pass


def test_a_shard_that_was_handed_over_is_neither_away_nor_counted_any_more(tmp_path, monkeypatch):
    settings, parts = sharded(tmp_path, follow=True)
    worker = Worker(settings_from(settings))
    plain, healths = ShardLoop.round, []
    members = Moving(healths)

    def fenced(self, wait=None):
        healths.append(worker.meters.reading().healthy)
        if self.header.shard == 1 and self.header.taken:
            raise FencedError("another worker took shard 1 over.")
        if members.moved and self.header.taken == len(parts[0]):
            worker.stop()
        return plain(self, wait)

    monkeypatch.setattr(worker_module, "BETWEEN_LOOKS", 0.0)
    monkeypatch.setattr(worker, "_members", lambda: members)
    monkeypatch.setattr(ShardLoop, "round", fenced)
    worker.run()
    reading = worker.meters.reading()
    assert (reading.away, reading.healthy) == (0, True)
    assert list(reading.by_shard) == [0]
    assert reading.read == len(parts[0]) // 100 * 100


def test_file_shards_with_a_checkpoint_of_their_own_go_on_from_it(tmp_path):
    settings, parts = sharded(tmp_path, checkpoint=str(tmp_path / "state-{shard}"))
    Worker(settings_from(settings)).run()
    Worker(settings_from(settings)).run()
    for shard in range(2):
        assert (tmp_path / f"state-{shard}").stat().st_size
        (tmp_path / f"state-{shard}").rename(tmp_path / f"out-{shard}.jsonl.checkpoint")
        assert not found_wrong(tmp_path, shard, parts[shard])


@pytest.mark.service("valkey")
def test_a_copy_of_the_state_that_cannot_be_written_is_told_after_all_shards_have_stopped(redis_scene, tmp_path):
    records = lines_of(some_records(200))
    for shard in range(2):
        redis_scene.feed(records, f"in:{shard}")
        (tmp_path / f"copy-{shard}").mkdir()
    told = io.StringIO()
    settings = settings_from(redis_scene.settings(shards=2, checkpoint=str(tmp_path / "copy-{shard}")))
    told_of_both = r"copy-0 could not be written .is a directory.*copy-1 could not"
    with EventWriter(told), pytest.raises(DataError, match=told_of_both):
        Worker(settings).run(idle_rounds=3)
    assert told.getvalue().count("shard_stopped") == 2


def test_a_folder_that_does_not_exist_is_told_before_anything_is_read(file_scene, tmp_path):
    file_scene.feed(lines_of(some_records(100)))
    with pytest.raises(UsageError, match="copy cannot be written: the folder given for checkpoint"):
        Worker(settings_from(file_scene.settings(checkpoint=str(tmp_path / "none" / "copy")))).run()
    with pytest.raises(UsageError, match=r"o\.jsonl\.checkpoint: cannot be written in its folder .no such file"):
        Worker(settings_from(file_scene.settings(to=str(tmp_path / "none" / "o.jsonl")))).run()


@pytest.mark.service("valkey")
def test_a_saved_copy_of_the_state_is_for_its_owner_alone(redis_scene, tmp_path):
    redis_scene.feed(lines_of(some_records(100)))
    place = tmp_path / "copy"
    place.touch()
    place.chmod(0o644)
    Worker(settings_from(redis_scene.settings(checkpoint=str(place)))).run(idle_rounds=3)
    assert place.stat().st_size
    assert stat.S_IMODE(place.stat().st_mode) == 0o600


def test_what_a_router_writes_is_for_its_owner_alone_and_what_is_released_is_not(tmp_path):
    settings, _ = sharded(tmp_path, shards=1)
    route = {**settings, "to": str(tmp_path / "part-{shard}.jsonl"), "route": True, "shards": 3}
    before = os.umask(0o022)
    try:
        Worker(settings_from({**route, "from": str(tmp_path / "in-0.jsonl")})).run()
        Worker(settings_from(settings)).run()
    finally:
        os.umask(before)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    assert {name: mode for name, mode in modes.items() if name.startswith("part")} == {
        name: 0o600 for name in modes if name.startswith("part")
    }
    assert len([name for name in modes if name.startswith("part")]) == 6
    assert modes["out-0.jsonl"] == 0o644


@pytest.mark.parametrize("how", ["renamed", "cut", "written to"])
def test_an_output_that_somebody_touches_while_the_worker_runs_is_refused(file_scene, how):
    """Else the next lines would stand behind a hole of NUL bytes, or in the middle of somebody else's."""
    file_scene.feed(lines_of(some_records(300)))
    engine = ShardLoop(settings_from(file_scene.settings(follow=True)))
    engine.open()
    while engine.round().read:
        pass
    output, state = file_scene.output, file_scene.state()
    assert output.stat().st_size
    if how == "renamed":
        output.rename(output.with_name("out.1"))
    elif how == "cut":
        output.write_bytes(b"")
    else:
        output.write_bytes(output.read_bytes() + b"mine\n")
    before = output.read_bytes() if output.exists() else None
    file_scene.feed(lines_of(some_records(300, seed=3)))
    with pytest.raises(RefusedError, match=r"out\.jsonl was renamed, cut or written to by somebody else"):
        engine.round()
    engine.close()
    assert file_scene.state() == state
    assert (output.read_bytes() if output.exists() else None) == before


def test_a_stream_of_which_every_record_is_left_out_says_so_once(file_scene):
    """As with the name of a column that no record has."""
    file_scene.feed(lines_of(some_records(300)))
    told = io.StringIO()
    mistyped = {**MECHANISM, "category_column": "tpoic"}
    worker = Worker(settings_from(file_scene.settings(mechanism=mistyped)))
    with EventWriter(told):
        worker.run()
    assert told.getvalue().count("all_records_left_out") == 1
    assert "check the category column" in told.getvalue()
    assert worker.meters.reading().suppressed == 300


def test_a_worker_that_is_overtaken_while_it_opens_opens_anew(file_scene, monkeypatch):
    file_scene.feed(lines_of(some_records(200)))
    plain, opened = ShardLoop.open, []

    def overtaken(self):
        opened.append(1)
        if len(opened) < 3:
            raise FencedError("another worker took the shard over.")
        plain(self)

    monkeypatch.setattr(ShardLoop, "open", overtaken)
    monkeypatch.setattr(worker_module, "FIRST_PAUSE", 0.01)
    told = io.StringIO()
    with EventWriter(told):
        Worker(settings_from(file_scene.settings())).run()
    assert told.getvalue().count("shard_waiting") == 2
    assert not checked(file_scene, some_records(200))


def test_a_second_worker_on_a_file_waits_until_the_first_is_gone(file_scene):
    file_scene.feed(lines_of(some_records(200)))
    first = ShardLoop(settings_from(file_scene.settings()))
    first.open()
    told = io.StringIO()
    with EventWriter(told), ThreadPoolExecutor(1) as pool:
        second = pool.submit(Worker(settings_from(file_scene.settings())).run)
        wait_until(lambda: "another worker writes out.jsonl" in told.getvalue() or second.done(), "the second waits")
        assert not second.done()
        first.close()
        second.result(LONG)
    assert not checked(file_scene, some_records(200))

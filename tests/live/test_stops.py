"""Stops, and epochs that end early: decided at one place, committed, and the same after a crash."""

import io
import json
import signal
import subprocess
import sys

import pytest

from live.checks import checked, lines_of, worked
from live.scenes import MECHANISM, RULES, some_records
from live.verifier import opened
from queryveil.errors import DataError, RefusedError, UsageError
from queryveil.live import worker as worker_module
from queryveil.live.config import settings_from
from queryveil.live.connector import AwayError
from queryveil.live.event_log import EventWriter
from queryveil.live.file_sink import FileSink
from queryveil.live.shard import ShardLoop
from queryveil.live.worker import Worker
from waiting import LONG, wait_until


@pytest.mark.parametrize("on_stop", ["keep", "suppress"])
def test_sigterm_stops_with_everything_committed(file_scene, on_stop):
    records = some_records(500)
    file_scene.feed(lines_of(records))
    script = "import sys, json; from queryveil.cli.main import main; main()"
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in MECHANISM.items()]
    settings = file_scene.settings()
    ends = ["--from", settings["from"], "--to", settings["to"], "--run", "kills"]
    process = subprocess.Popen(
        [sys.executable, "-c", script, "stream", *ends, "--follow", "--wait=0.1", "--on-stop", on_stop, *flags],
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_until(lambda: file_scene.output.exists() and opened_taken(file_scene) == 500, "everything is taken")
    process.send_signal(signal.SIGTERM)
    _, told = process.communicate(timeout=LONG)
    assert process.returncode == 0, told
    assert not checked(file_scene, records, finished=on_stop == "suppress")
    events = [json.loads(line)["event"] for line in told.splitlines() if line.startswith("{")]
    assert events == ["shard_opened", "shard_stopped"]
    assert "text" not in told


def test_the_end_of_the_input_is_no_stop_and_suppresses_nothing(file_scene):
    records = some_records(500)
    file_scene.feed(lines_of(records))
    worked(file_scene, on_stop="suppress")
    assert opened(file_scene.state())[1]["epoch"] == 0
    assert not checked(file_scene, records)


def test_a_forced_end_suppresses_a_window_of_the_mix_that_is_not_over(file_scene):
    """Else a text would come out alone, in a window of one arrival: that of the person who asked it last."""
    file_scene.feed(lines_of(some_records(1000)))
    engine = ShardLoop(settings_from(file_scene.settings(batch=1)))
    engine.open()
    while engine.report().header.taken < 200 or not engine._stage._live.mixing:
        engine.round()
    before, books = file_scene.visible(), engine.report().counts
    assert 0 < engine.header.taken % RULES.mix < RULES.mix
    engine.stop(suppress=True)
    after = engine.report().counts
    engine.close()
    assert file_scene.visible() == before
    assert (after.released, after.pending) == (books.released, 0)
    assert after.suppressed == books.suppressed + books.pending
    with pytest.raises(UsageError, match="epoch must be at least mix, which is 40: given 39"):
        ShardLoop(settings_from(file_scene.settings(mechanism={**MECHANISM, "epoch": 39})))


@pytest.mark.parametrize("when", ["at the stop", "before the stop"])
def test_a_stop_that_cannot_suppress_says_so_and_fails(file_scene, when, monkeypatch):
    records = some_records(500)
    file_scene.feed(lines_of(records))
    told = io.StringIO()
    worker = Worker(settings_from(file_scene.settings(on_stop="suppress", batch=100)))
    plain = FileSink.commit
    commits = []

    def away_after_the_third(self, step, source):
        commits.append(step)
        if len(commits) == 3 and when == "at the stop":
            worker.stop()
        if len(commits) > 3:
            worker.stop()
            raise AwayError("out.jsonl cannot be written (no space left on device).")
        plain(self, step, source)

    with monkeypatch.context() as patch:
        patch.setattr(FileSink, "commit", away_after_the_third)
        with EventWriter(told), pytest.raises(DataError, match="could not be suppressed"):
            worker.run()
    assert '"waiting_records_not_suppressed"' in told.getvalue()
    worked(file_scene)
    assert opened(file_scene.state())[1]["epoch"] == 0
    assert not checked(file_scene, records)


def opened_taken(scene):
    return opened(scene.state())[0]["taken"]


def test_too_many_waiting_records_end_the_epoch_early(file_scene):
    records = [{"user": f"user {i}", "query": f"own {i}", "topic": "food"} for i in range(500)]
    file_scene.feed(lines_of(records))
    engine = ShardLoop(settings_from(file_scene.settings(batch=50, most_pending=120)))
    engine.open()
    rounds = []
    while not rounds or not rounds[-1].ended:
        rounds.append(engine.round())
    engine.close()
    assert max(done.counts.pending for done in rounds) <= 120
    assert any(done.result.overflowed for done in rounds)
    assert rounds[-1].counts.pending + rounds[-1].counts.suppressed == 500


@pytest.mark.parametrize("batch", [23, 170, 10_000])
def test_where_batches_are_cut_changes_nothing_when_epochs_end_early(file_scene, batch, tmp_path):
    """Set back to a checkpoint in the middle, and cut otherwise from there on."""
    records = some_records(1200, users=400, texts=400)
    file_scene.feed(lines_of(records[:300]))
    worked(file_scene, batch=100, most_pending=200)
    older = [(path, path.read_bytes()) for path in (file_scene.output, tmp_path / "out.jsonl.checkpoint")]
    file_scene.feed(lines_of(records[300:]))
    worked(file_scene, batch=100, most_pending=200)
    first, ended = file_scene.visible(), opened(file_scene.state())[1]["epoch"]
    for path, content in older:
        path.write_bytes(content)
    worked(file_scene, batch=batch, most_pending=200)
    assert ended > 2
    assert file_scene.visible() == first
    assert opened(file_scene.state())[1]["epoch"] == ended


def test_another_most_pending_is_refused_since_epochs_would_end_elsewhere(file_scene):
    file_scene.feed(lines_of(some_records(100)))
    worked(file_scene, most_pending=200)
    with pytest.raises(RefusedError, match="other settings: most_pending"):
        worked(file_scene, most_pending=300)
    with pytest.raises(UsageError, match="most_pending must be at least mix"):
        ShardLoop(settings_from(file_scene.settings(most_pending=RULES.mix - 1)))


@pytest.mark.parametrize("dies", range(1, 5))
def test_a_forced_end_of_an_epoch_is_carried_out_after_a_crash_in_the_middle_of_it(file_scene, dies, monkeypatch):
    """Whatever of it was seen, the next worker shows the same: it ends the epoch where the first one decided to."""
    records = some_records(330)
    file_scene.feed(lines_of(records))
    engine = ShardLoop(settings_from(file_scene.settings(batch=1000)))
    engine.open()
    engine.round()
    seen, steps = [], []
    plain = FileSink.commit

    def told(self, step, source):
        seen.append(step.outputs)
        plain(self, step, source)

    def die(label):
        steps.append(label)
        if len(steps) == dies:
            raise InterruptedError

    engine._on_step = die
    with monkeypatch.context() as patch, pytest.raises(InterruptedError):
        patch.setattr(FileSink, "commit", told)
        engine.stop(suppress=True)
    engine.close()
    decided = len(seen) > 0
    worked(file_scene)
    state = opened(file_scene.state())[1]
    assert (state["epoch"], state["ending"]) == (int(decided), False)
    assert not checked(file_scene, records, finished=decided)


def test_the_memory_ceiling_is_enforced(file_scene, monkeypatch, capsys):
    file_scene.feed(lines_of(some_records(300)))
    monkeypatch.setattr(worker_module, "resident_mebibytes", lambda: 300.0)
    with pytest.raises(DataError, match="more than 256 MiB"):
        worked(file_scene, most_memory=256)
    monkeypatch.undo()
    assert 10 < worker_module.resident_mebibytes() < 100_000


def test_the_memory_ceiling_holds_in_the_last_round_too(file_scene, monkeypatch):
    file_scene.feed(lines_of(some_records(300)))
    monkeypatch.setattr(worker_module, "resident_mebibytes", lambda: 300.0)
    with pytest.raises(DataError, match="more than 256 MiB"):
        worked(file_scene, most_memory=256, batch=1000)


def test_a_sink_that_is_away_when_memory_runs_out_is_waited_for(file_scene, monkeypatch):
    file_scene.feed(lines_of(some_records(300)))
    held, plain = iter([100.0, 300.0, 100.0]), ShardLoop.stop

    def away(self, *, suppress):
        if suppress:
            raise AwayError("out.jsonl cannot be written.")
        plain(self, suppress=suppress)

    monkeypatch.setattr(ShardLoop, "stop", away)
    monkeypatch.setattr(worker_module, "resident_mebibytes", lambda: next(held, 100.0))
    worked(file_scene, most_memory=256)
    assert not checked(file_scene, some_records(300))

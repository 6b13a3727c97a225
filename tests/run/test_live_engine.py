"""Rounds, checkpoints, stops, limits and shards, on files."""

import dataclasses
import io
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from queryveil.errors import DataError, QueryVeilError, RefusedError, UsageError
from queryveil.privacy.seal import Seal
from queryveil.run.live import checkpoint as cp
from queryveil.run.live import worker as worker_module
from queryveil.run.live.config import read_config, settings_from
from queryveil.run.live.connector import AwayError, Batch, FencedError, Promise, shard_of
from queryveil.run.live.engine import Engine
from queryveil.run.live.files import FileSink, FileSource, StdinSource
from queryveil.run.live.journal import Journal
from queryveil.run.live.lines import Lines
from queryveil.run.live.once import Once
from queryveil.run.live.records import Decoder, Encoder
from queryveil.run.live.work import Mixing
from queryveil.run.live.worker import Worker
from run.live_scenes import MECHANISM, RULES, mixed_input, some_records
from run.live_verifier import file_state, opened, verify


def lines_of(records):
    return [json.dumps(record).encode() for record in records]


def worked(scene, **more):
    """Run to the end of the input."""
    Worker(settings_from(scene.settings(**more)), Journal()).run()


def key_of(run="kills"):
    return (Path(os.environ["QUERYVEIL_KEYS"]) / f"stream-{run}.key").read_bytes()


def checked(scene, good, suppressed=(), dead=0, rules=RULES, **more):
    return verify(
        arrivals=good,
        suppressed=list(suppressed),
        dead=dead,
        visible=scene.visible(),
        state=scene.state(),
        key=key_of(),
        rules=rules,
        **more,
    )


def test_a_run_is_what_the_verifier_expects(file_scene):
    lines, good, suppressed, dead = mixed_input(1000)
    file_scene.feed(lines)
    worked(file_scene)
    assert not checked(file_scene, good, suppressed, dead)
    assert {letter["reason"] for letter in file_scene.dead()} >= {"not valid JSON", "not valid UTF-8"}


def test_a_run_with_a_pseudonym_for_each_person_is_what_the_verifier_expects(file_scene):
    records = some_records(800)
    rules = dataclasses.replace(RULES, pseudonym="epoch")
    file_scene.feed(lines_of(records))
    worked(file_scene, mechanism={**MECHANISM, "pseudonym": "epoch"})
    assert not checked(file_scene, records, rules=rules)
    visible = [json.loads(line) for line in file_scene.visible()]
    assert len({row["user"] for row in visible}) <= 30 < len(visible)
    assert checked(file_scene, records) == [
        "a record was released twice",
        "pseudonyms stand for other receivers than the key gives",
    ]
    other = next(row for row in visible if row["user"] != visible[0]["user"])
    visible[0]["user"] = other["user"]
    file_scene.output.write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in visible))
    found = checked(file_scene, records, rules=rules)
    assert found == ["pseudonyms stand for other receivers than the key gives"]


@pytest.mark.parametrize("batch", [13, 10_000])
def test_where_batches_are_cut_changes_nothing(file_scene, batch, tmp_path):
    file_scene.feed(lines_of(some_records(600)))
    worked(file_scene, batch=100)
    first = file_scene.visible()
    for name in ("out.jsonl", "out.jsonl.checkpoint", "out.jsonl.dead.jsonl"):
        (tmp_path / name).unlink(missing_ok=True)
    (Path(os.environ["QUERYVEIL_KEYS"]) / "stream-kills-shard-0.begun").unlink()  # as if it had never begun
    worked(file_scene, batch=batch)
    assert file_scene.visible() == first


def test_a_finished_run_started_again_does_nothing_and_goes_on_when_there_is_more(file_scene):
    records = some_records(800)
    file_scene.feed(lines_of(records[:500]))
    worked(file_scene)
    before = file_scene.visible()
    worked(file_scene)
    assert file_scene.visible() == before
    file_scene.feed(lines_of(records[500:]))
    worked(file_scene)
    assert file_scene.visible()[: len(before)] == before
    assert not checked(file_scene, records)


# The verifier itself must be able to find fault.


@pytest.mark.parametrize("tamper", ["lost", "twice", "other text", "other category", "swapped windows", "rare"])
def test_the_verifier_finds(file_scene, tamper):
    records = [*some_records(800), {"user": "user 1", "query": "rare", "topic": "food"}]
    file_scene.feed(lines_of(records))
    worked(file_scene)
    visible = [json.loads(line) for line in file_scene.visible()]
    assert not checked(file_scene, records)
    if tamper == "lost":
        del visible[10]
    elif tamper == "twice":
        visible.insert(11, visible[10])
    elif tamper == "other text":
        visible[10]["query"] = visible[11]["query"] if visible[11]["query"] != visible[10]["query"] else "text 0"
    elif tamper == "other category":
        visible[10]["category"] = "sport: chess" if visible[10]["category"] != "sport: chess" else "food"
    elif tamper == "swapped windows":
        visible = visible[::-1]
    else:
        visible[10]["query"] = "rare"
    file_scene.output.write_bytes(b"".join(json.dumps(row).encode() + b"\n" for row in visible))
    assert checked(file_scene, records)


def test_the_verifier_finds_a_second_draw(file_scene, tmp_path):
    """A run that draws anew after its state was lost, as it would without the marker of begun shards."""
    records = some_records(800)
    file_scene.feed(lines_of(records))
    worked(file_scene)
    for name in ("out.jsonl", "out.jsonl.checkpoint", "out.jsonl.dead.jsonl"):
        (tmp_path / name).unlink(missing_ok=True)
    worked(file_scene, run="other")
    assert checked(file_scene, records)  # against the first run's key


# Checkpoints


def test_a_torn_checkpoint_is_refused_at_every_byte(file_scene, tmp_path):
    file_scene.feed(lines_of(some_records(100)))
    worked(file_scene)
    path = tmp_path / "out.jsonl.checkpoint"
    whole = path.read_bytes()
    for cut in (0, 1, 7, 8, 40, 50, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:cut])
        with pytest.raises(DataError, match=r"torn|not a checkpoint"):
            worked(file_scene)
    for place in (3, 20, 60, 200, len(whole) - 5):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(QueryVeilError, match=r"torn|altered|not a checkpoint"):
            worked(file_scene)
    path.write_bytes(whole)
    worked(file_scene)


def test_a_checkpoint_says_what_is_wrong_with_it():
    seal, other = Seal(cp.KIND, b"1" * 32), Seal(cp.KIND, b"2" * 32)
    header = cp.Header(run="web", shard=0, shards=1, source="file a")
    content = cp.pack(header, b"snapshot", seal)
    assert cp.unpack(content, seal) == (header, b"snapshot")
    with pytest.raises(DataError, match="belongs to another key"):
        cp.unpack(content, other)
    with pytest.raises(DataError, match="another format"):
        cp.unpack(content[:8] + b"\0\0\0\x09" + content[12:], seal)
    with pytest.raises(DataError, match="torn or was altered"):
        cp.unpack(content[:-1] + b"x", seal)
    with pytest.raises(DataError, match="not a checkpoint"):
        cp.unpack(b"nonsense", seal)
    for what, value in (("run", "mail"), ("shard", 1), ("shards", 2), ("source", "file b")):
        with pytest.raises(RefusedError, match=f"is of {what}"):
            cp.refuse_foreign(header, cp.Header(**{**header.__dict__, what: value}))


def test_a_checkpoint_of_another_input_is_refused(file_scene, tmp_path):
    file_scene.feed(lines_of(some_records(100)))
    worked(file_scene)
    shutil.copy(tmp_path / "in.jsonl", tmp_path / "in2.jsonl")
    with pytest.raises(RefusedError, match=r"is of source file in\.jsonl"):
        worked(file_scene, **{"from": str(tmp_path / "in2.jsonl")})


def test_an_input_that_was_changed_is_refused(file_scene, tmp_path):
    file_scene.feed(lines_of(some_records(100)))
    worked(file_scene)
    content = (tmp_path / "in.jsonl").read_bytes()
    (tmp_path / "in.jsonl").write_bytes(content[:-5] + b"x" + content[-4:])
    with pytest.raises(RefusedError, match="replaced or changed"):
        worked(file_scene)
    (tmp_path / "in.jsonl").write_bytes(content[:100])
    with pytest.raises(RefusedError, match="replaced or changed"):
        worked(file_scene)


def test_a_lost_checkpoint_is_refused_and_not_drawn_again(file_scene, tmp_path):
    file_scene.feed(lines_of(some_records(100)))
    worked(file_scene)
    (tmp_path / "out.jsonl.checkpoint").unlink()
    with pytest.raises(RefusedError, match="no checkpoint tells"):
        worked(file_scene)
    file_scene.output.unlink()
    with pytest.raises(RefusedError, match="has begun, but its state is gone"):
        worked(file_scene)


def test_an_output_that_does_not_fit_its_checkpoint_is_refused(file_scene, tmp_path):
    file_scene.feed(lines_of(some_records(300)))
    worked(file_scene, batch=1000)
    older = (tmp_path / "out.jsonl.checkpoint").read_bytes()
    content = file_scene.output.read_bytes()
    file_scene.output.write_bytes(content + b"more\n")
    with pytest.raises(RefusedError, match="longer than its checkpoint says"):
        worked(file_scene)
    file_scene.output.write_bytes(content)
    file_scene.feed(lines_of(some_records(300, seed=2)))
    worked(file_scene, batch=1000)
    (tmp_path / "out.jsonl.checkpoint").write_bytes(older)
    with pytest.raises(RefusedError, match="the checkpoint is an older one"):
        worked(file_scene)


def test_going_back_to_an_older_checkpoint_gives_the_same_again(file_scene, tmp_path):
    file_scene.feed(lines_of(some_records(300)))
    worked(file_scene)
    shutil.copy(tmp_path / "out.jsonl.checkpoint", tmp_path / "older")
    file_scene.feed(lines_of(some_records(300, seed=2)))
    worked(file_scene)
    after = file_scene.visible()
    worked(file_scene, from_checkpoint=str(tmp_path / "older"))
    assert file_scene.visible() == after
    assert not checked(file_scene, some_records(300) + some_records(300, seed=2))


def test_other_settings_are_refused(file_scene):
    file_scene.feed(lines_of(some_records(100)))
    worked(file_scene)
    with pytest.raises(RefusedError, match=r"other settings: k\."):
        worked(file_scene, mechanism={**MECHANISM, "k": 4})


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


# Trouble


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


# Stops and limits


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
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and (not file_scene.output.exists() or opened_taken(file_scene) < 500):
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, told = process.communicate(timeout=30)
    assert process.returncode == 0, told
    assert not checked(file_scene, records, finished=on_stop == "suppress")
    events = [json.loads(line)["event"] for line in told.splitlines() if line.startswith("{")]
    assert events == ["shard opened", "shard stopped"]
    assert "text" not in told


def test_the_end_of_the_input_is_no_stop_and_suppresses_nothing(file_scene):
    records = some_records(500)
    file_scene.feed(lines_of(records))
    worked(file_scene, on_stop="suppress")
    assert opened(file_scene.state())[1]["epoch"] == 0
    assert not checked(file_scene, records)


@pytest.mark.parametrize("when", ["at the stop", "before the stop"])
def test_a_stop_that_cannot_suppress_says_so_and_fails(file_scene, when, monkeypatch):
    records = some_records(500)
    file_scene.feed(lines_of(records))
    told = io.StringIO()
    worker = Worker(settings_from(file_scene.settings(on_stop="suppress", batch=100)), Journal(told))
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
        with pytest.raises(DataError, match="could not be suppressed"):
            worker.run()
    assert "stopped without suppressing what waits" in told.getvalue()
    worked(file_scene)
    assert opened(file_scene.state())[1]["epoch"] == 0
    assert not checked(file_scene, records)


def opened_taken(scene):
    return opened(scene.state())[0]["taken"]


def test_too_many_waiting_records_end_the_epoch_early(file_scene):
    records = [{"user": f"user {i}", "query": f"own {i}", "topic": "food"} for i in range(500)]
    file_scene.feed(lines_of(records))
    engine = settings_from(file_scene.settings(batch=50, most_pending=120)).engine()
    engine.open()
    rounds = []
    while not rounds or not rounds[-1].ended:
        rounds.append(engine.round())
    engine.close()
    assert max(done.books.pending for done in rounds) <= 120
    assert any(done.outcome.overflowed for done in rounds)
    assert rounds[-1].books.pending + rounds[-1].books.suppressed == 500


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
        settings_from(file_scene.settings(most_pending=RULES.mix - 1)).engine()


@pytest.mark.parametrize("dies", range(1, 5))
def test_a_forced_end_of_an_epoch_is_carried_out_after_a_crash_in_the_middle_of_it(file_scene, dies, monkeypatch):
    """Whatever of it was seen, the next worker shows the same: it ends the epoch where the first one decided to."""
    records = some_records(330)
    file_scene.feed(lines_of(records))
    engine = settings_from(file_scene.settings(batch=1000)).engine()
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
    held, plain = iter([100.0, 300.0, 100.0]), Engine.stop

    def away(self, *, suppress):
        if suppress:
            raise AwayError("out.jsonl cannot be written.")
        plain(self, suppress=suppress)

    monkeypatch.setattr(Engine, "stop", away)
    monkeypatch.setattr(worker_module, "resident_mebibytes", lambda: next(held, 100.0))
    worked(file_scene, most_memory=256)
    assert not checked(file_scene, some_records(300))


@pytest.mark.parametrize("kind", ["file", "stdin"])
def test_a_batch_is_over_after_so_many_bytes_however_few_records_that_are(tmp_path, kind, monkeypatch):
    monkeypatch.setattr("queryveil.run.live.lines.READ_BYTES", 1 << 21)
    path = tmp_path / "log"
    path.write_bytes((b"x" * 100_000 + b"\n") * 80)
    with path.open("rb") as file:
        monkeypatch.setattr(sys, "stdin", file)
        source = FileSource(path, follow=False, longest=1 << 20) if kind == "file" else StdinSource(longest=1 << 20)
        source.seek({})
        batches = [source.read(20_000, 1)]
        while not batches[-1].ended:
            batches.append(source.read(20_000, 1))
        source.close()
    assert sum(map(len, batches)) == 80
    assert max(sum(map(len, batch.lines)) for batch in batches) <= (1 << 21) + (1 << 20)


def test_lines_are_counted_in_bytes_however_they_are_cut():
    content = b"one\r\n" + b"x" * 50 + b"\n\nlast"
    for size in (1, 2, 7, 100):
        lines = Lines(longest=20)
        for start in range(0, len(content), size):
            lines.add(content[start : start + size])
        lines.end()
        batch = lines.batch(10, ended=True)
        assert batch.lines == [b"one", None, b"", b"last"]
        assert batch.after == {"byte": len(content), "line": 4}


def test_a_followed_file_hands_out_whole_lines_only(tmp_path):
    path = tmp_path / "log"
    path.write_bytes(b"one\ntw")
    source = FileSource(path, follow=True, longest=100)
    source.seek({})
    assert source.read(10, 0.01).lines == [b"one"]
    assert not len(source.read(10, 0.01))
    with path.open("ab") as file:
        file.write(b"o\n")
    assert source.read(10, 0.01).lines == [b"two"]
    source.close()


@pytest.mark.parametrize("how", ["cut", "cut and grown again", "changed", "another file of the name"])
def test_a_followed_file_that_is_rotated_or_changed_is_refused(tmp_path, how):
    path = tmp_path / "log"
    path.write_bytes(b"one\ntwo\nth")
    source = FileSource(path, follow=True, longest=100)
    source.seek({})
    assert source.read(10, 0.01).lines == [b"one", b"two"]
    if how == "another file of the name":
        path.rename(tmp_path / "log.1")
        with (tmp_path / "log.1").open("ab") as file:
            file.write(b"ree\n")
        path.write_bytes(b"new one\n")
        assert source.read(10, 0.01).lines == [b"three"]  # what is left of the old one
    else:
        path.write_bytes({"cut": b"", "cut and grown again": b"new one\nnew two\n", "changed": b"one\nTwo\nth"}[how])
    with pytest.raises(RefusedError, match="replaced or changed"):
        source.read(10, 0.2)
    source.close()


# Shards


def test_routed_shards_release_what_one_process_would_per_category(tmp_path):
    records = some_records(900)
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in lines_of(records)))
    common = {"shards": 3, "batch": 100, "run": "kills"}
    route = {"from": str(path), "to": str(tmp_path / "part-{shard}.jsonl"), "route": True, "mechanism": MECHANISM}
    Worker(settings_from({**common, **route}), Journal()).run()
    of_shard = {n: [r for r in records if shard_of(r["topic"], ": ", 3) == n] for n in range(3)}
    assert sum(bool(part) for part in of_shard.values()) > 1
    mixed = {
        "from": str(tmp_path / "part-{shard}.jsonl"),
        "to": str(tmp_path / "out-{shard}.jsonl"),
        "mechanism": {**MECHANISM, "category_column": "category"},
    }
    Worker(settings_from({**common, **mixed}), Journal()).run()
    for shard, part in of_shard.items():
        visible = (tmp_path / f"out-{shard}.jsonl").read_bytes().splitlines()
        assert bool(visible) == bool(part)
        state = file_state(tmp_path / f"out-{shard}.jsonl.checkpoint")
        found = verify(
            arrivals=part, suppressed=[], dead=0, visible=visible, state=state, key=key_of(), rules=RULES, shard=shard
        )
        assert not found


def test_a_record_of_another_shard_is_a_dead_letter_and_no_category_is_split(tmp_path):
    records = some_records(200)
    path = tmp_path / "in-0.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in lines_of(records)))
    ends = {"from": str(tmp_path / "in-{shard}.jsonl"), "to": str(tmp_path / "out-{shard}.jsonl")}
    Worker(settings_from({**ends, "run": "kills", "shards": 3, "shard": 0, "mechanism": MECHANISM}), Journal()).run()
    strays = [n for n, r in enumerate(records, 1) if shard_of(r["topic"], ": ", 3) != 0]
    dead = [json.loads(line) for line in (tmp_path / "out-0.jsonl.dead.jsonl").read_text().splitlines()]
    assert [letter["place"] for letter in dead] == [f"line {n}" for n in strays]
    assert all("its category belongs to shard" in letter["reason"] for letter in dead)


def test_another_number_of_shards_is_refused(tmp_path):
    path = tmp_path / "in-0.jsonl"
    path.write_bytes(b"".join(line + b"\n" for line in lines_of(some_records(50))))
    ends = {"from": str(tmp_path / "in-{shard}.jsonl"), "to": str(tmp_path / "out-{shard}.jsonl")}
    told = {**ends, "run": "kills", "shard": 0, "mechanism": MECHANISM}
    Worker(settings_from({**told, "shards": 3}), Journal()).run()
    with pytest.raises(RefusedError, match="is of shards 3, this is shards 4"):
        Worker(settings_from({**told, "shards": 4}), Journal()).run()


# Settings


def test_settings_come_from_a_file_and_are_checked(tmp_path):
    path = tmp_path / "live.toml"
    path.write_text('from = "a.tsv"\nto = "b.jsonl"\nrun = "web"\n[mechanism]\nk = 7\n')
    found = settings_from(read_config(path))
    assert (found.mechanism.k, found.input_format(), found.written_format()) == (7, "aol", "jsonl")
    path.write_text("from = ")
    with pytest.raises(UsageError, match="not a TOML file"):
        read_config(path)
    with pytest.raises(UsageError, match="say --from and --run"):
        settings_from({"to": "b"})
    with pytest.raises(UsageError, match="unknown setting: shrads"):
        settings_from({"from": "a", "to": "b", "run": "c", "shrads": 3})
    for name, value in (("batch", True), ("wait", float("nan")), ("run", "a/b"), ("on_stop", "flush"), ("shards", 0)):
        with pytest.raises(UsageError, match=f"{name} must be"):
            settings_from({"from": "a", "to": "b", "run": "c", name: value})
    with pytest.raises(UsageError, match=r"\[mechanism\] takes"):
        settings_from({"from": "a", "to": "b", "run": "c", "mechanism": {"kk": 1}})


def test_paper_mode_is_refused(file_scene):
    file_scene.feed([b"{}"])
    with pytest.raises(RefusedError, match="only mode=safe"):
        settings_from(file_scene.settings(mechanism={"mode": "paper"})).engine()

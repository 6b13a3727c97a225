"""stdin and stdout: a pipe loses nothing while its worker lives, and never takes half a line for a whole one."""

import errno
import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from live.checks import checked, lines_of
from live.scenes import MECHANISM, small_run, some_records
from live.verifier import opened
from queryveil.errors import DataError, RefusedError, UsageError
from queryveil.live import worker
from queryveil.live.config import settings_from
from queryveil.live.connector import AwayError
from queryveil.live.file_sink import FileSink
from queryveil.live.file_source import FileSource
from queryveil.live.files import UNREAD, StdinSource
from queryveil.live.shard import CUT, ShardLoop
from queryveil.live.worker import Worker
from waiting import LONG, wait_until


def content_of(records):
    return b"".join(line + b"\n" for line in lines_of(records))


class Pipe:
    """A pipe whose reading end is stdin for a while."""

    def __init__(self, monkeypatch):
        self.read, self.write = os.pipe()
        monkeypatch.setattr(sys, "stdin", self)

    def fileno(self):
        return self.read

    def put(self, content, *, end=False):
        os.write(self.write, content)
        if end:
            self.end()

    def end(self):
        os.close(self.write)
        self.write = None

    def close(self):
        for handle in (self.read, self.write):
            if handle is not None:
                os.close(handle)


@pytest.fixture
def pipe(monkeypatch):
    made = Pipe(monkeypatch)
    yield made
    made.close()


def from_stdin(scene, **more):
    return small_run("-", str(scene.output), more)


def test_a_sink_that_is_away_loses_nothing_of_a_pipe(file_scene, pipe, monkeypatch):
    """Whether the commit was made before the trouble or not: what was read comes again exactly if it was not."""
    records = some_records(500)
    pipe.put(content_of(records), end=True)
    plain, commits = FileSink.commit_and_publish, []

    def sometimes_away(self, step):
        commits.append(step)
        if len(commits) == 7:
            plain(self, step)
        if len(commits) in (4, 5, 7):
            raise AwayError("out.jsonl cannot be written (no space left on device).")
        plain(self, step)

    monkeypatch.setattr(FileSink, "commit_and_publish", sometimes_away)
    Worker(settings_from(from_stdin(file_scene))).run()
    assert len(commits) > 10
    assert not checked(file_scene, records)


def test_sigterm_takes_what_was_read_of_a_pipe_and_leaves_the_rest_to_the_next_worker(file_scene):
    """The first worker stops in the middle of a line, with more read than it took in; its rest comes a moment later."""
    records = some_records(600)
    content = content_of(records)
    half = content.index(b"\n", len(content) // 2) - 20
    read, write = os.pipe()
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in MECHANISM.items()]
    command = [sys.executable, "-c", "from queryveil.cli.main import main; main()", "stream", "--from=-", "--batch=10"]
    command += ["--to", str(file_scene.output), "--run=kills", *flags]
    first = subprocess.Popen(command, stdin=read, stderr=subprocess.PIPE)
    os.write(write, content[:half])
    wait_until(lambda: file_scene.output.exists() and taken(file_scene) >= 20, "something is taken")
    first.send_signal(signal.SIGTERM)
    os.write(write, content[half:])
    assert first.wait(timeout=LONG) == 0, first.stderr.read()
    first.stderr.close()
    whole = content[:half].count(b"\n") + 1
    assert taken(file_scene) >= whole
    second = subprocess.Popen(command, stdin=read, stderr=subprocess.PIPE)
    os.close(write)
    os.close(read)
    _, told = second.communicate(timeout=LONG)
    assert second.returncode == 0, told
    assert not checked(file_scene, records)


def taken(scene):
    return opened(scene.state())[0]["taken"]


def test_a_worker_that_ends_for_want_of_memory_takes_what_it_read_of_a_pipe(file_scene, pipe, monkeypatch):
    pipe.put(content_of(some_records(500)))
    monkeypatch.setattr("queryveil.live.worker.resident_mebibytes", lambda: 300.0)
    with pytest.raises(DataError, match="more than 256 MiB"):
        Worker(settings_from(from_stdin(file_scene, most_memory=256))).run()
    assert taken(file_scene) == 500
    assert opened(file_scene.state())[0]["positions"]["whole"] == 1


@pytest.mark.parametrize("why", ["the sink is away", "the sink has no room", "the sink was away before"])
def test_what_was_read_of_a_pipe_and_cannot_be_committed_at_a_stop_is_told_and_fails(
    file_scene, pipe, monkeypatch, why
):
    pipe.put(content_of(some_records(500)))
    monkeypatch.setattr("queryveil.live.shard.WAIT_FOR_ROOM", 0.05)
    worker = Worker(settings_from(from_stdin(file_scene)))
    plain, commits = FileSink.commit_and_publish, []

    def away(self, step):
        commits.append(step)
        if len(commits) > 3:
            worker.stop()
        if len(commits) > (3 if why == "the sink was away before" else 4) and why != "the sink has no room":
            raise AwayError("out.jsonl cannot be written (no space left on device).")
        plain(self, step)

    monkeypatch.setattr(FileSink, "commit_and_publish", away)
    if why == "the sink has no room":
        monkeypatch.setattr(FileSink, "ready", lambda self: len(commits) < 4)
    with pytest.raises(DataError, match="read from stdin could not be committed"):
        worker.run()
    assert 0 < taken(file_scene) < 500


def test_the_rest_of_a_line_that_never_comes_is_told_and_fails(file_scene, pipe, monkeypatch):
    monkeypatch.setattr("queryveil.live.files.WAIT_FOR_THE_REST", 0.05)
    pipe.put(content_of(some_records(100)) + b'{"user": "half')
    worker = Worker(settings_from(from_stdin(file_scene)))
    plain = Worker._report

    def stop_when_all_is_taken(self, shard, done):
        plain(self, shard, done)
        if done.header.taken == 100:
            self.stop()

    monkeypatch.setattr(Worker, "_report", stop_when_all_is_taken)
    with pytest.raises(DataError, match="in the middle of a line, which is lost") as told:
        worker.run()
    assert "half" not in str(told.value)
    assert not checked(file_scene, some_records(100))


def test_a_pipe_that_ends_in_the_middle_of_a_line_is_told_and_fails(file_scene, pipe):
    """The line could be whole: but "100, 123" cut after "100, 12" would be another person's."""
    pipe.put(content_of(some_records(100)) + lines_of(some_records(1))[0], end=True)
    worker = Worker(settings_from(from_stdin(file_scene)))
    with pytest.raises(DataError, match="in the middle of a line, which is lost"):
        worker.run()
    assert worker.unread == [UNREAD]
    assert not checked(file_scene, some_records(100))


def test_after_a_crash_the_first_line_of_a_pipe_is_no_record(file_scene, pipe):
    """It may be the end of a line whose beginning the dead worker read: of "100|123 how to", the user 123."""
    log = file_scene.output.with_name("out.jsonl")
    settings = {**from_stdin(file_scene), "format": "aol", "mechanism": {"mix": 10}}
    pipe.put(b"100\thow to\t2006-03-01 10:00:00\t\t\n10")
    engine = ShardLoop(settings_from(settings))
    engine.open()
    assert engine.round().read == 1
    engine.close()  # dies
    pipe.put(b"0123\thow to\t2006-03-01 10:00:00\t\t\n101\tmore\t2006-03-01 10:00:01\t\t\n", end=True)
    Worker(settings_from(settings)).run()
    dead = [json.loads(line) for line in Path(f"{log}.dead.jsonl").read_text().splitlines()]
    assert dead == [{"place": "line 2", "reason": CUT}]
    assert taken(file_scene) == 3


def test_after_an_end_the_first_line_of_the_next_pipe_is_a_record(file_scene, monkeypatch):
    records = some_records(300)
    for part in (records[:100], records[100:200], records[200:]):
        pipe = Pipe(monkeypatch)
        pipe.put(content_of(part), end=True)
        Worker(settings_from(from_stdin(file_scene))).run()
        pipe.close()
    assert not checked(file_scene, records)


def test_two_workers_with_pipes_of_their_own_are_told_apart(pipe):
    pipe.put(b"one\ntwo\nthree\n", end=True)
    source = StdinSource(longest=100)
    source.seek({})
    assert source.read(2, 1).lines == [b"one", b"two"]
    source.seek({})
    assert source.read(2, 1).lines == [b"one", b"two"]
    source.seek({"byte": 8, "line": 2})
    assert source.read(2, 1).lines == [b"three"]
    with pytest.raises(RefusedError, match="another worker went on"):
        source.seek({"byte": 4000, "line": 77})


def test_a_compressed_pipe_is_refused(pipe):
    pipe.put(b"\x1f\x8b\x08\x00", end=True)
    source = StdinSource(longest=100)
    source.seek({})
    with pytest.raises(UsageError, match="stdin: compressed with gzip"):
        source.read(10, 1)


class Out(io.TextIOWrapper):
    """Somebody's stdout."""

    def __init__(self):
        self.bytes = io.BytesIO()
        super().__init__(self.bytes)

    def lines(self):
        return self.bytes.getvalue().splitlines()


def test_an_acknowledgement_that_fails_loses_no_output_of_stdout(file_scene, tmp_path, monkeypatch):
    records = some_records(600)
    file_scene.feed(lines_of(records))
    calls = []

    def sometimes_away(self, positions):
        calls.append(positions)
        if len(calls) % 3 == 2:
            raise AwayError("the server cannot be reached.")

    monkeypatch.setattr(FileSource, "acknowledge", sometimes_away)
    monkeypatch.setattr(sys, "stdout", Out())
    settings = file_scene.settings(to="-", checkpoint=str(tmp_path / "out.jsonl.checkpoint"))
    worker = Worker(settings_from(settings))
    worker.run()
    assert not checked(file_scene, records, visible=sys.stdout.lines())


class FullNowAndThen(io.RawIOBase):
    """The file behind stdout: every third time there is room for a few bytes only, and then for none."""

    def __init__(self):
        self.content, self.calls = b"", 0

    def writable(self):
        return True

    def write(self, content):
        self.calls += 1
        if self.calls % 3 == 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = bytes(content)[: 7 if self.calls % 3 == 2 else None]
        self.content += taken
        return len(taken)


def test_a_full_disk_behind_stdout_is_waited_for_and_loses_nothing(file_scene, tmp_path, monkeypatch):
    behind, records = FullNowAndThen(), some_records(600)
    monkeypatch.setattr(worker, "LONGEST_PAUSE", 0.1)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BufferedWriter(behind)))
    file_scene.feed(lines_of(records))
    Worker(settings_from(file_scene.settings(to="-", checkpoint=str(tmp_path / "out.jsonl.checkpoint")))).run()
    assert behind.calls > 3
    assert not checked(file_scene, records, visible=behind.content.splitlines())


def test_a_full_disk_under_the_dead_letters_loses_no_line_of_stdout(file_scene, tmp_path, monkeypatch):
    """The state is committed by then: what it released must still come out."""
    records = some_records(600)
    monkeypatch.setattr(worker, "LONGEST_PAUSE", 0.1)
    file_scene.feed(lines_of(records))
    failed, publish = [], FileSink._publish

    def sometimes_full(self, lengths, parts):
        if len(failed) < 20 and not failed.append(parts) and len(failed) % 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        publish(self, lengths, parts)

    monkeypatch.setattr(FileSink, "_publish", sometimes_full)
    monkeypatch.setattr(sys, "stdout", Out())
    Worker(settings_from(file_scene.settings(to="-", checkpoint=str(tmp_path / "out.jsonl.checkpoint")))).run()
    assert len(failed) > 3
    assert not checked(file_scene, records, visible=sys.stdout.lines())


def test_a_stop_while_the_disk_behind_stdout_is_full_tells_what_is_lost(file_scene, tmp_path, monkeypatch):
    file_scene.feed(lines_of(some_records(600)))
    settings = file_scene.settings(to="-", checkpoint=str(tmp_path / "out.jsonl.checkpoint"))
    worker = Worker(settings_from(settings))
    behind = FullNowAndThen()

    def full_from_now_on(content):
        worker.stop()
        raise OSError(errno.ENOSPC, "No space left on device")

    behind.write = full_from_now_on
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BufferedWriter(behind)))
    with pytest.raises(DataError, match="The last outputs that were committed are lost"):
        worker.run()


def test_a_reader_of_stdout_who_goes_away_ends_the_worker_with_a_word(file_scene, tmp_path):
    file_scene.feed(lines_of(some_records(600)))
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in MECHANISM.items()]
    command = [sys.executable, "-c", "from queryveil.cli.main import main; main()", "stream", "--to=-", "--run=kills"]
    command += ["--from", file_scene.settings()["from"], "--checkpoint", str(tmp_path / "state"), *flags]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, timeout=LONG, check=False)
    os.close(write)
    assert done.returncode == 1
    assert "nobody reads stdout any more" in done.stderr
    assert "Traceback" not in done.stderr


def test_only_a_pipe_takes_in_what_it_read_before_it_is_left(file_scene):
    file_scene.feed(lines_of(some_records(300)))
    engine: ShardLoop = ShardLoop(settings_from(file_scene.settings()))
    engine.open()
    engine.round()
    assert engine.leave().header.taken == 60
    engine.close()

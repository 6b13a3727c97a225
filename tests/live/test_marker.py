"""Going back, beginning twice, foreign checkpoints and keys: refused before anything is touched."""

import dataclasses
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from live.checks import content_of, lines_of, worked
from live.scenes import MECHANISM, FileScene, some_records
from queryveil.errors import DataError, QueryVeilError, RefusedError
from queryveil.live import worker as worker_module
from queryveil.live.checkpoint import Header, Mark, Marker
from queryveil.live.config import settings_from
from queryveil.live.connector import AwayError
from queryveil.live.file_sink import FileSink
from queryveil.live.shard import ShardLoop

CHECKPOINT = "out.jsonl.checkpoint"


def two_halves(scene, folder):
    """A run with 300 records, a copy of its checkpoint as `older`, then 300 records more."""
    scene.feed(lines_of(some_records(300)))
    worked(scene)
    shutil.copy(folder / CHECKPOINT, folder / "older")
    scene.feed(lines_of(some_records(300, seed=2)))
    worked(scene)


# Foreign checkpoints


@pytest.mark.parametrize("other", ["another key", "another input"])
def test_a_foreign_checkpoint_is_refused_before_any_file_is_touched(tmp_path, other):
    scenes = []
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
        scenes.append(FileScene(tmp_path / name))
        scenes[-1].feed(lines_of(some_records(200, seed=len(scenes))))
    x, y = scenes
    if other == "another key":
        worked(x, run="x")
        worked(y, run="y")
    else:
        (y.folder / "in.jsonl").rename(y.folder / "other.jsonl")
        worked(y, run="x", **{"from": str(y.folder / "other.jsonl")})
        (Path(os.environ["QUERYVEIL_KEYS"]) / "stream-x-shard-0.begun").unlink()
        worked(x, run="x")
    before = content_of(x.folder)
    with pytest.raises(QueryVeilError, match=r"belongs to another key|is of source"):
        worked(x, run="x", from_checkpoint=str(y.folder / CHECKPOINT))
    assert content_of(x.folder) == before
    worked(x, run="x")
    assert x.output.read_bytes() == before["out.jsonl"]


def test_a_checkpoint_that_gives_way_is_kept(file_scene, tmp_path):
    two_halves(file_scene, tmp_path)
    newest = (tmp_path / CHECKPOINT).read_bytes()
    worked(file_scene, from_checkpoint=str(tmp_path / "older"))
    assert (tmp_path / f"{CHECKPOINT}.replaced").read_bytes() == newest


def test_a_torn_checkpoint_is_replaced_by_a_whole_one(file_scene, tmp_path):
    two_halves(file_scene, tmp_path)
    before = file_scene.visible()
    shutil.copy(tmp_path / CHECKPOINT, tmp_path / "whole")
    (tmp_path / CHECKPOINT).write_bytes(b"torn")
    worked(file_scene, from_checkpoint=str(tmp_path / "whole"))
    worked(file_scene)
    assert file_scene.visible() == before


# Going back


def test_going_back_is_refused_where_the_input_since_then_changed(file_scene, tmp_path):
    two_halves(file_scene, tmp_path)
    path = tmp_path / "in.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:300] + lines[300:][::-1]))
    before = content_of(tmp_path)
    with pytest.raises(RefusedError, match="the input since then is not the same"):
        worked(file_scene, from_checkpoint=str(tmp_path / "older"))
    assert content_of(tmp_path) == before
    path.write_bytes(b"".join(lines[:500]))
    with pytest.raises(RefusedError, match="the input since then is not the same"):
        worked(file_scene, from_checkpoint=str(tmp_path / "older"))
    path.write_bytes(b"".join(lines))
    worked(file_scene, from_checkpoint=str(tmp_path / "older"))
    assert file_scene.output.read_bytes() == before["out.jsonl"]


def test_a_replay_that_was_broken_off_is_checked_again(file_scene, tmp_path):
    two_halves(file_scene, tmp_path)
    engine = ShardLoop(settings_from(file_scene.settings(from_checkpoint=str(tmp_path / "older"))))
    engine.open()
    engine.round()
    engine.close()
    path = tmp_path / "in.jsonl"
    whole = path.read_bytes()
    lines = whole.splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:400] + lines[400:][::-1]))
    with pytest.raises(RefusedError, match="the input since then is not the same"):
        worked(file_scene)
    path.write_bytes(whole)
    worked(file_scene, batch=1000)
    mark = Marker("stream-kills-shard-0.begun").read()
    assert (mark.taken, mark.replaying) == (600, False)


def test_a_backup_of_all_files_is_going_back_too(file_scene, tmp_path):
    file_scene.feed(lines_of(some_records(300)))
    worked(file_scene)
    backup = content_of(tmp_path)
    file_scene.feed(lines_of(some_records(300, seed=2)))
    worked(file_scene)
    for name, content in backup.items():
        (tmp_path / name).write_bytes(content)
    file_scene.feed(lines_of(some_records(300, seed=3)))
    with pytest.raises(RefusedError, match="the input since then is not the same"):
        worked(file_scene)
    assert file_scene.output.read_bytes() == backup["out.jsonl"]


def test_going_back_over_an_epoch_that_was_ended_early_is_refused(file_scene, tmp_path):
    file_scene.feed(lines_of(some_records(300)))
    worked(file_scene)
    shutil.copy(tmp_path / CHECKPOINT, tmp_path / "older")
    engine = ShardLoop(settings_from(file_scene.settings()))
    engine.open()
    engine.stop(suppress=True)
    engine.close()
    with pytest.raises(RefusedError, match="an epoch was ended by a stop"):
        worked(file_scene, from_checkpoint=str(tmp_path / "older"))


def piped(folder, lines, *more):
    """A worker from stdin to stdout."""
    script = "from queryveil.cli.main import main; main()"
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in MECHANISM.items()]
    ends = ["stream", "--from", "-", "--to", "-", "--run", "pipe", "--checkpoint", str(folder / "state"), *more]
    content = b"".join(line + b"\n" for line in lines)
    return subprocess.run(
        [sys.executable, "-c", script, *ends, *flags], input=content, capture_output=True, check=False
    )


def test_a_pipe_never_goes_back(tmp_path):
    assert piped(tmp_path, lines_of(some_records(300))).returncode == 0
    shutil.copy(tmp_path / "state", tmp_path / "older")
    assert piped(tmp_path, lines_of(some_records(300, seed=2))).returncode == 0
    before = content_of(tmp_path)
    done = piped(tmp_path, lines_of(some_records(300, seed=3)), "--from-checkpoint", str(tmp_path / "older"))
    assert (done.returncode, done.stdout) == (3, b"")
    assert content_of(tmp_path) == before
    shutil.copy(tmp_path / "older", tmp_path / "state")
    done = piped(tmp_path, lines_of(some_records(300, seed=3)))
    assert (done.returncode, done.stdout) == (3, b"")


# Used once


def test_a_checkpoint_to_begin_from_is_used_once(file_scene, tmp_path, monkeypatch):
    two_halves(file_scene, tmp_path)
    before = file_scene.visible()
    calls, sizes = [], []
    plain = FileSink.commit

    def sometimes(self, step, source):
        calls.append(1)
        if len(calls) == 4:
            raise AwayError("out.jsonl cannot be written (no space left on device).")
        plain(self, step, source)
        sizes.append(file_scene.output.stat().st_size)

    monkeypatch.setattr(FileSink, "commit", sometimes)
    monkeypatch.setattr(worker_module, "FIRST_PAUSE", 0.01)
    worked(file_scene, from_checkpoint=str(tmp_path / "older"))
    assert len(calls) > 5
    assert sizes == sorted(sizes)
    assert file_scene.visible() == before


@pytest.mark.service("valkey")
def test_a_checkpoint_to_begin_from_is_used_once_with_a_broker(redis_scene, tmp_path, monkeypatch):
    records = some_records(600)
    redis_scene.feed(lines_of(records[:300]))
    worked(redis_scene, checkpoint=str(tmp_path / "saved"))
    redis_scene.client.delete("queryveil:kills:0:state")
    redis_scene.feed(lines_of(records[300:]))
    redis_scene.wait_for_lease()
    calls = []
    plain = worker_module.ShardLoop.round

    def sometimes(self, wait=None):
        calls.append(1)
        if len(calls) in (1, 3):
            raise AwayError("the redis server is away.")
        return plain(self, wait)

    monkeypatch.setattr(worker_module.ShardLoop, "round", sometimes)
    monkeypatch.setattr(worker_module, "FIRST_PAUSE", 0.01)
    worked(redis_scene, from_checkpoint=str(tmp_path / "saved"))
    assert Marker("stream-kills-shard-0.begun").read().taken == 600


@pytest.mark.service("valkey")
def test_an_older_save_is_refused_after_the_state_is_lost(redis_scene, tmp_path):
    redis_scene.feed(lines_of(some_records(300)))
    worked(redis_scene, checkpoint=str(tmp_path / "older"))
    redis_scene.wait_for_lease()
    redis_scene.feed(lines_of(some_records(300, seed=2)))
    worked(redis_scene)
    redis_scene.client.delete("queryveil:kills:0:state")
    before = redis_scene.visible()
    redis_scene.wait_for_lease()
    with pytest.raises(RefusedError, match="its outputs are out"):
        worked(redis_scene, from_checkpoint=str(tmp_path / "older"))
    assert redis_scene.visible() == before


@pytest.mark.service("valkey")
@pytest.mark.parametrize("same", [True, False])
def test_a_server_that_was_set_back_goes_on_only_with_the_same_input(redis_scene, same):
    client = redis_scene.client
    redis_scene.feed(lines_of(some_records(120)))
    worked(redis_scene)
    redis_scene.wait_for_lease()
    state, outputs = client.get("queryveil:kills:0:state"), client.xlen("out")
    redis_scene.feed(lines_of(some_records(240, seed=2)))
    worked(redis_scene)
    redis_scene.wait_for_lease()
    seen = redis_scene.visible()
    client.set("queryveil:kills:0:state", state)
    late = [entry for entry, _ in client.xrange("out")][outputs:]
    if late:
        client.xdel("out", *late)
    if same:
        worked(redis_scene)
        assert redis_scene.visible() == seen
        return
    client.xdel("in", client.xrange("in")[-1][0])
    with pytest.raises(RefusedError, match=r"the input since then is not the same|were removed before they were read"):
        worked(redis_scene)


# Beginning twice


def test_a_key_that_was_copied_begins_nothing(file_scene, tmp_path, monkeypatch):
    file_scene.feed(lines_of(some_records(200)))
    worked(file_scene)
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "keys").mkdir(parents=True)
    shutil.copy(Path(os.environ["QUERYVEIL_KEYS"]) / "stream-kills.key", elsewhere / "keys")
    monkeypatch.setenv("QUERYVEIL_KEYS", str(elsewhere / "keys"))
    there = FileScene(elsewhere)
    there.feed(lines_of(some_records(200, seed=2)))
    with pytest.raises(RefusedError, match="was not made in this key folder"):
        worked(there)
    with pytest.raises(RefusedError, match="its key was made elsewhere"):
        worked(there, join=True)
    with pytest.raises(RefusedError, match="its key was made elsewhere"):
        worked(there)
    assert not there.output.exists()
    file_scene.feed(lines_of(some_records(200, seed=3)))
    with pytest.raises(RefusedError, match="was not made"):
        (elsewhere / "keys" / "stream-kills.home").unlink()
        worked(file_scene)
    worked(file_scene, join=True)
    worked(file_scene)
    assert Marker("stream-kills-shard-0.begun").read().taken == 400


def test_two_first_starts_of_one_name_cannot_both_go_ahead(tmp_path):
    engines = []
    for name in ("x", "y"):
        (tmp_path / name).mkdir()
        scene = FileScene(tmp_path / name)
        scene.feed(lines_of(some_records(100, seed=len(engines))))
        engines.append(ShardLoop(settings_from(scene.settings())))
    first, second = engines
    first.open()
    with pytest.raises(RefusedError, match="has begun here and writes"):
        second.open()
    first.close()
    second.close()
    assert not (tmp_path / "y" / CHECKPOINT).exists()


def test_the_first_mark_is_made_before_the_first_commit_and_exclusively(file_scene, monkeypatch):
    file_scene.feed(lines_of(some_records(100)))
    marks = []
    plain = FileSink.commit

    def watched(self, step, source):
        marks.append(Marker("stream-kills-shard-0.begun").read().generation)
        plain(self, step, source)

    monkeypatch.setattr(FileSink, "commit", watched)
    worked(file_scene)
    assert marks == list(range(1, len(marks) + 1))
    mine = Mark(source="file a", place="/a")
    Marker("one").replace(None, mine)
    Marker("one").replace(None, mine)
    with pytest.raises(RefusedError, match="writes /a, not /b"):
        Marker("one").replace(None, dataclasses.replace(mine, place="/b"))


def test_a_fenced_worker_does_not_set_the_mark_back(file_scene):
    header = Header(run="a", shard=0, shards=1, source="file a", generation=9, taken=5, digest="aa")
    marker = Marker("one")
    marker.replace(None, Mark(source="file a", place="/a"))
    marker.note(header, made=True)
    marker.note(dataclasses.replace(header, generation=4, taken=2), made=False)
    assert (marker.read().generation, marker.read().taken) == (9, 5)


def test_a_mark_that_is_no_mark_is_told():
    marker = Marker("one")
    marker.replace(None, Mark(source="file a", place="/a"))
    (Path(os.environ["QUERYVEIL_KEYS"]) / "one").write_text("[]")
    with pytest.raises(DataError, match="is not the mark"):
        marker.read()


def test_an_output_that_was_moved_needs_join(file_scene, tmp_path):
    file_scene.feed(lines_of(some_records(100)))
    worked(file_scene)
    moved = tmp_path / "moved"
    moved.mkdir()
    for path in [*tmp_path.glob("out.jsonl*"), tmp_path / "in.jsonl"]:
        shutil.move(path, moved)
    there = FileScene(moved)
    with pytest.raises(RefusedError, match=r"join it once.*Try run=NEW_NAME"):
        worked(there)
    worked(there, join=True)
    worked(there)


# Settings


@pytest.mark.parametrize(
    ("name", "changed"),
    [
        ("category_column", {"mechanism": {**MECHANISM, "category_column": "subject"}}),
        ("classifier", {"mechanism": {**MECHANISM, "classifier": "odp"}}),
        ("columns", {"columns": {"query": "text"}}),
        ("format", {"format": "aol"}),
        ("output_format", {"output_format": "aol"}),
        ("longest", {"longest": 200}),
    ],
)
def test_other_settings_that_decide_what_becomes_of_a_record_are_refused(file_scene, tmp_path, name, changed):
    file_scene.feed(lines_of(some_records(100)))
    worked(file_scene)
    file_scene.feed(lines_of(some_records(100, seed=2)))
    before = content_of(tmp_path)
    with pytest.raises(RefusedError, match=rf"other settings: {name}\."):
        worked(file_scene, **changed)
    assert content_of(tmp_path) == before

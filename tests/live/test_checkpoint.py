"""Checkpoints: torn, foreign, lost or older ones are refused, or give the same again."""

import shutil

import pytest

from live.checks import checked, lines_of, worked
from live.scenes import MECHANISM, some_records
from queryveil.errors import DataError, QueryVeilError, RefusedError
from queryveil.live import checkpoint as cp
from queryveil.privacy.keys import Seal


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

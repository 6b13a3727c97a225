"""The checkpoint file of a file sink: nobody without the run's key can put a line into its outbox, or move it."""

import hashlib
import hmac
import shutil

import pytest

from live.checks import content_of, lines_of, worked
from live.scenes import FileScene, some_records
from queryveil.errors import DataError, RefusedError
from queryveil.live.file_sink import FileCheckpoint

CHECKPOINT = "out.jsonl.checkpoint"
START, CODE = 20, 52
"""Where the code of a sealed string begins, and where it ends."""


@pytest.mark.parametrize(
    "how", ["unkeyed checksum", "checksum with the mark", "another key's code", "code left as it was"]
)
@pytest.mark.parametrize("what", ["a line in the outbox", "the place of the outbox"])
def test_an_altered_outbox_is_refused_and_nothing_of_it_is_written(file_scene, tmp_path, how, what):
    file_scene.feed(lines_of(some_records(300)))
    worked(file_scene, batch=1000)
    path = tmp_path / CHECKPOINT
    content = path.read_bytes()
    body = bytearray(content[CODE:])
    if what == "a line in the outbox":
        body[-10] ^= 1
    else:
        body[15] ^= 1  # the last byte of the output's length
    code = {
        "unkeyed checksum": hashlib.sha256(body).digest(),
        "checksum with the mark": hashlib.sha256(content[:START] + body).digest(),
        "another key's code": hmac.digest(bytes(32), content[:START] + body, "sha256"),
        "code left as it was": content[START:CODE],
    }[how]
    path.write_bytes(content[:START] + code + body)
    before = content_of(tmp_path)
    with pytest.raises(DataError, match=r"^out\.jsonl\.checkpoint is torn or was altered"):
        worked(file_scene)
    assert content_of(tmp_path) == before
    path.write_bytes(content)
    worked(file_scene)


def test_the_outbox_that_the_tests_alter_is_the_one_that_is_written(file_scene, tmp_path):
    file_scene.feed(lines_of(some_records(300)))
    worked(file_scene, batch=1000)
    content, output = (tmp_path / CHECKPOINT).read_bytes(), file_scene.output.read_bytes()
    assert len(output) > 1000
    assert content.endswith(output)
    file_scene.output.write_bytes(output[:50])  # as if it had died in the middle of publishing
    worked(file_scene)
    assert file_scene.output.read_bytes() == output


@pytest.mark.parametrize("offered", [False, True])
def test_a_checkpoint_file_of_another_run_is_refused_even_where_a_good_one_is_offered(tmp_path, offered):
    scenes = {}
    for name in ("ours", "theirs"):
        (tmp_path / name).mkdir()
        scenes[name] = FileScene(tmp_path / name)
        scenes[name].feed(lines_of(some_records(200)))
        worked(scenes[name], run=name)
    folder = scenes["ours"].folder
    shutil.copy(folder / CHECKPOINT, tmp_path / "good")
    shutil.copy(scenes["theirs"].folder / CHECKPOINT, folder / CHECKPOINT)
    before = content_of(folder)
    more = {"from_checkpoint": str(tmp_path / "good")} if offered else {}
    with pytest.raises(DataError, match=r"^out\.jsonl\.checkpoint belongs to another key\. Point QUERYVEIL_KEYS"):
        worked(scenes["ours"], run="ours", **more)
    assert content_of(folder) == before


def test_a_file_for_more_outputs_than_there_are_is_refused():
    file = FileCheckpoint(bytes(32))
    content = file.pack([0, 0, 0], b"state", [b"", b"", b""])
    with pytest.raises(RefusedError, match="made for 2 output files, here are 1"):
        file.unpack(content, "out.checkpoint", 2)

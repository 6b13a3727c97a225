"""Settings come from a file or from flags, and are checked at once."""

import pytest

from queryveil.errors import RefusedError, UsageError
from queryveil.live.config import read_config, settings_from
from queryveil.live.shard import ShardLoop


def test_settings_come_from_a_file_and_are_checked(tmp_path):
    path = tmp_path / "live.toml"
    path.write_text('from = "a.tsv"\nto = "b.jsonl"\nrun = "web"\n[mechanism]\nk = 7\n')
    found = settings_from(read_config(path))
    assert (found.mechanism.k, found.input_format(), found.written_format()) == (7, "aol", "jsonl")
    path.write_text("from = ")
    with pytest.raises(UsageError, match="not a TOML file"):
        read_config(path)
    with pytest.raises(UsageError, match=r"needs from and run\. Try from=URL"):
        settings_from({"to": "b"})
    with pytest.raises(UsageError, match="unknown setting: shrads"):
        settings_from({"from": "a", "to": "b", "run": "c", "shrads": 3})
    for name, value in (("batch", True), ("wait", float("nan")), ("run", "a/b"), ("on_stop", "flush"), ("shards", 0)):
        with pytest.raises(UsageError, match=f"{name} must be"):
            settings_from({"from": "a", "to": "b", "run": "c", name: value})
    with pytest.raises(UsageError, match=r"\[mechanism\] takes"):
        settings_from({"from": "a", "to": "b", "run": "c", "mechanism": {"kk": 1}})


def test_no_state_lies_in_a_folder_that_was_released(tmp_path):
    (tmp_path / "manifest.json").write_text("{}")
    (tmp_path / "log.jsonl").write_text("")
    with pytest.raises(RefusedError, match="inside a release folder"):
        settings_from({"from": "-", "to": "-", "run": "c", "checkpoint": str(tmp_path / "state")})
    beside = settings_from({"from": str(tmp_path / "log.jsonl"), "to": str(tmp_path / "out.jsonl"), "run": "c"})
    with pytest.raises(RefusedError, match="inside a release folder"):
        ShardLoop(beside).open()


TOLD = {"from": "a.jsonl", "to": "b-{shard}.jsonl", "run": "c"}


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"route": True, "shards": 2, "to": "b-{shard}.tsv"}, "a router writes jsonl"),
        ({"route": True, "shards": 2, "output_format": "aol"}, "a router writes jsonl"),
        ({"route": True, "shards": 2, "to": "-"}, "a router needs a place for each shard"),
        ({"shards": 2, "from": "-"}, "from - is one pipe for all shards"),
        ({"shards": 2, "to": "-", "checkpoint": "c-{shard}"}, "to - is one pipe for all shards"),
        ({"shards": 2, "checkpoint": "c"}, "checkpoint needs {shard} in its name"),
        ({"shards": 2, "from_checkpoint": "c"}, "from_checkpoint needs {shard} in its name"),
    ],
)
def test_what_shards_cannot_share_is_refused_before_anything_opens(more, told):
    with pytest.raises(UsageError, match=told):
        settings_from({**TOLD, **more})


def test_each_shard_has_its_own_checkpoint_however_many_a_worker_holds():
    found = settings_from({**TOLD, "shards": 3, "checkpoint": "x/c-{shard}", "from_checkpoint": "y/d-{shard}"})
    ends = [found.sink_end(shard) for shard in range(3)]
    assert [str(end.checkpoint) for end in ends] == ["x/c-0", "x/c-1", "x/c-2"]
    assert [str(end.from_checkpoint) for end in ends] == ["y/d-0", "y/d-1", "y/d-2"]
    by_hand = settings_from({**TOLD, "shards": 3, "shard": 1, "checkpoint": "c", "from": "-", "to": "-"})
    assert str(by_hand.sink_end(1).checkpoint) == "c"


def test_paper_mode_is_refused(file_scene):
    file_scene.feed([b"{}"])
    with pytest.raises(RefusedError, match="only mode=safe"):
        ShardLoop(settings_from(file_scene.settings(mechanism={"mode": "paper"})))

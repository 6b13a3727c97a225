"""Settings come from a file or from flags, and are checked at once."""

import pytest

from queryveil.errors import RefusedError, UsageError
from queryveil.run.live.config import read_config, settings_from


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

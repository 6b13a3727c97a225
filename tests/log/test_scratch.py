"""Private folders: a run's own is let alone while it lives, and deleted by the next when it was killed."""

import os
import signal
import subprocess
import sys

import polars as pl
import pytest

from queryveil.log import spill
from queryveil.log.scratch import LOCK, Scratch, abandoned
from queryveil.log.spill import Spill
from waiting import LONG

ROWS = pl.DataFrame({"user": ["ann"], "query": ["who asked what"]})

KILLED = """
import os, signal
import polars as pl
from queryveil.log.spill import Spill
with Spill() as spill:
    spill.write(pl.DataFrame({"user": ["ann"]}))
    os.kill(os.getpid(), signal.SIGKILL)
"""

ASKED_TO_END = """
import os, shutil, signal
import polars as pl
from queryveil.log.spill import Spill
rmtree = shutil.rmtree
def interrupted(folder, **given):
    os.kill(os.getpid(), signal.SIGTERM)
    rmtree(folder, **given)
with Spill() as spill:
    spill.write(pl.DataFrame({"user": ["ann"]}))
    shutil.rmtree = interrupted
"""


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def run(code):
    return subprocess.run([sys.executable, "-c", code], timeout=LONG).returncode


def test_what_a_killed_run_left_is_deleted_by_the_next_and_that_of_a_living_one_is_not(place):
    with Spill() as living:
        living.write(ROWS)
        assert run(KILLED) == -signal.SIGKILL
        assert len([*place.glob("queryveil-spill-*/*.parquet")]) == 2
        with Spill():
            assert [*place.glob("queryveil-spill-*/*.parquet")] == [*living._folder.glob("*.parquet")]
    assert [*place.iterdir()] == []


def test_who_is_asked_to_end_while_it_sweeps_ends_when_all_is_swept(place):
    assert run(ASKED_TO_END) == 0
    assert [*place.iterdir()] == []


def test_only_folders_with_a_lock_that_nobody_holds_are_abandoned(place):
    being_made, linked = place / "queryveil-toy-1", place / "queryveil-toy-2"
    being_made.mkdir()
    left = Scratch("toy")
    linked.symlink_to(left.path)
    (place / "queryveil-toy-3").write_text("a file")
    assert [*abandoned("toy")] == []
    assert [*abandoned("other")] == []
    left.release()
    left.release()  # twice does no harm
    assert [*abandoned("toy")] == [left.path]
    lock = left.path / LOCK
    assert (left.path.stat().st_mode & 0o777, lock.stat().st_mode & 0o777) == (0o700, 0o600)


def test_two_that_sweep_at_once_do_not_take_the_same_folder():
    left = Scratch("toy")
    left.release()
    for folder in abandoned("toy"):
        assert folder == left.path
        assert [*abandoned("toy")] == []


def test_folders_of_others_are_let_alone(monkeypatch):
    left = Scratch("toy")
    left.release()
    monkeypatch.setattr("os.getuid", lambda: os.geteuid() + 1)
    assert [*abandoned("toy")] == []


def test_a_table_of_a_spill_knows_nothing_of_the_lock():
    """What is counted and read is what was written."""
    with Spill() as made:
        path = made.write(ROWS)
        assert spill.read_files([path], ROWS.schema).equals(ROWS)

"""A full disk, a read-only one, a missing folder, a pipe: the same words and the same exit code whoever meets them."""

import errno
import os
import re
import resource
import sqlite3
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

import queryveil as qv
from queryveil.cli import main as main_module
from queryveil.errors import DiskError, UsageError, as_system_error, file_error
from queryveil.privacy import Charge, Ledger, keys
from queryveil.release import secrets

FULL = r"cannot be written \((no room left on the disk|larger than files may be here)\)\. Make room and try again\."


@contextmanager
def files_may_grow_to(size):
    """RLIMIT_FSIZE refuses to let a file grow, as a full disk does; Python ignores the signal that comes with it."""
    before, bytecode = resource.getrlimit(resource.RLIMIT_FSIZE), sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # a module that is first imported now would leave half of its bytecode
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = bytecode


@pytest.fixture
def full_disk(tmp_path):
    """A disk of 64 KiB with no room left."""
    folder = tmp_path / "disk"
    folder.mkdir()
    options = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(options, capture_output=True, check=False).returncode:
        pytest.skip("no small disk can be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def fill(folder):
    handle = os.open(folder / "filler", os.O_WRONLY | os.O_CREAT)
    try:
        while True:
            os.write(handle, bytes(512))
    except OSError as error:
        assert error.errno == errno.ENOSPC
    finally:
        os.close(handle)


def remount_read_only(folder):
    subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)


def outcome(monkeypatch, capsys, *words):
    """Exit code and what is said of it."""
    monkeypatch.setattr("sys.argv", ["queryveil", *map(str, words)])
    with pytest.raises(SystemExit) as stopped:
        main_module.main()
    return stopped.value.code, capsys.readouterr().err


LOG = qv.synth(users=30, records=2000, seed=1)


@pytest.mark.parametrize("chosen", ["csv", "jsonl", "parquet"])
def test_a_log_that_does_not_fit_is_told_and_leaves_nothing(tmp_path, chosen):
    with files_may_grow_to(1000), pytest.raises(DiskError, match=rf"log: {FULL}"):
        qv.write(LOG, tmp_path / "log", format=chosen)
    assert not list(tmp_path.iterdir())


def test_a_release_that_does_not_fit_is_told_and_leaves_nothing(tmp_path):
    release = qv.mechanism("suppress", k_text=2).protect(LOG, qv.Noise.seeded(1))
    keys.signing_key()
    for room in (100, 2000):
        with files_may_grow_to(room), pytest.raises(DiskError, match=FULL):
            release.write(tmp_path / "release")
    with files_may_grow_to(100), pytest.raises(DiskError, match=f"kept: {FULL}"):
        secrets.write(release, tmp_path / "kept", original={})
    assert not list(tmp_path.iterdir())


def test_a_full_disk_under_the_ledger_is_told_and_nothing_is_spent(full_disk):
    ledger = Ledger.create(full_disk / "ledger.db", epsilon=9.0)
    ledger.debit(Charge.dataset(epsilon=1.0), mechanism="any")
    fill(full_disk)
    people = [f"user {number}" for number in range(3000)]
    with pytest.raises(DiskError, match=rf"ledger\.db: {FULL}"):
        ledger.debit(Charge.people(epsilon=1.0), mechanism="any", people=people)
    with pytest.raises(DiskError, match=rf"other\.db: {FULL}"):
        Ledger.create(full_disk / "other.db", epsilon=1.0)
    (full_disk / "filler").unlink()
    assert sorted(path.name for path in full_disk.iterdir()) == ["ledger.db"]
    again = Ledger(full_disk / "ledger.db")
    assert again.entries().height == 1
    assert not again.verify([])


@pytest.mark.parametrize("room", [0, 5000])
def test_a_ledger_whose_file_may_not_grow_is_told_and_nothing_is_spent(tmp_path, room):
    """SQLite tells a file that may not grow, unlike a full disk, as an error of input and output."""
    ledger = Ledger.create(tmp_path / "ledger.db", epsilon=9.0)
    people = [f"user {number}" for number in range(3000)]
    with files_may_grow_to(room), pytest.raises(DiskError, match=r"ledger\.db: cannot be written"):
        ledger.debit(Charge.people(epsilon=1.0), mechanism="any", people=people)
    assert Ledger(tmp_path / "ledger.db").entries().height == 0


def test_a_read_only_disk_is_wrong_usage(full_disk, monkeypatch, capsys):
    ledger = Ledger.create(full_disk / "ledger.db", epsilon=9.0)
    remount_read_only(full_disk)
    with pytest.raises(UsageError, match=r"ledger\.db: cannot be written \(the disk is read-only\)"):
        ledger.debit(Charge.dataset(epsilon=1.0), mechanism="any")
    code, told = outcome(monkeypatch, capsys, "synth", "-o", full_disk / "log.tsv", "--users", 5, "--records", 50)
    assert code == 2
    assert "log.tsv: cannot be written (the disk is read-only)." in told


def test_a_missing_folder_is_wrong_usage(tmp_path, monkeypatch, capsys):
    code, told = outcome(monkeypatch, capsys, "synth", "-o", tmp_path / "none" / "log.tsv", "--users", 5)
    assert code == 2
    assert "log.tsv: cannot be written (no such file or directory)." in told
    code, told = outcome(monkeypatch, capsys, "ledger", "init", tmp_path / "none" / "ledger.db", "--epsilon", 1)
    assert code == 2


def test_a_ledger_that_another_process_keeps_is_told(tmp_path, monkeypatch):
    ledger = Ledger.create(tmp_path / "ledger.db", epsilon=9.0)
    monkeypatch.setattr("queryveil.privacy.ledger.SECONDS_TO_WAIT", 0.05)
    other = sqlite3.connect(ledger.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(qv.errors.DataError, match="is in use by another process"):
        ledger.debit(Charge.dataset(epsilon=1.0), mechanism="any")
    other.close()


def test_keys_that_cannot_be_kept_are_told(full_disk, monkeypatch):
    fill(full_disk)
    monkeypatch.setenv("QUERYVEIL_KEYS", str(full_disk))
    for make in (keys.signing_key, lambda: keys.own("one.key")):
        with pytest.raises(DiskError, match=r"cannot keep a key in .*no room left on the disk\. Make room"):
            make()


def test_an_error_that_nobody_expected_names_its_file_and_its_code(tmp_path, monkeypatch, capsys):
    """What the command line makes of an `OSError` from anywhere, also in the words of a library."""
    for number, code in ((errno.ENOSPC, 1), (errno.EIO, 1), (errno.EROFS, 2), (errno.EACCES, 2)):

        def fail(number=number):
            raise OSError(number, os.strerror(number), str(tmp_path / "page.html"))

        monkeypatch.setattr(main_module, "app", fail)
        found, told = outcome(monkeypatch, capsys)
        assert (found, "page.html: cannot be used" in told) == (code, True)
        assert str(tmp_path) not in told
    assert re.fullmatch(f"a: {FULL}", str(file_error(ValueError("user 17 asked for it (os error 28)"), "a")))
    assert as_system_error(ValueError("user 17")) is None


def test_a_private_file_that_cannot_be_written_is_told_by_its_own_name(tmp_path):
    with files_may_grow_to(10), pytest.raises(OSError) as caught:
        keys.replace_private(tmp_path / "report.html", "x" * 100)
    assert Path(caught.value.filename).name == "report.html"


def test_a_stream_from_a_pipe_with_a_name_is_told_to_use_stdin(tmp_path, monkeypatch, capsys):
    os.mkfifo(tmp_path / "pipe")
    ends = ("--from", tmp_path / "pipe", "--to", tmp_path / "out.jsonl", "--run", "web")
    code, told = outcome(monkeypatch, capsys, "stream", *ends, "--format", "aol")
    assert code == 2
    assert "pipe: not a file but a pipe, which cannot be read again after a crash." in told
    assert "Try --from -." in told


def test_the_table_of_exit_codes_is_the_one_of_the_code():
    table = (Path(__file__).parents[2] / "docs" / "exit-codes.md").read_text()
    codes = {int(line.split("|")[1]) for line in table.splitlines() if line.startswith("| ") and line[2].isdigit()}
    kinds = [qv.errors.DataError, UsageError, qv.errors.RefusedError]
    ours = {kind.exit_code for kind in kinds} | {main_module.INTERNAL_ERROR, main_module.STOPPED_BY_KEYBOARD, 0}
    assert codes == ours

"""Owner-only files: their mode, that they appear whole or not at all, and the order in which things reach the disk."""

from __future__ import annotations

import os
import stat
import threading
from pathlib import Path

import pytest

from queryveil.errors import RefusedError
from queryveil.mechanisms.obfuscate.session import SearchSession
from queryveil.privacy import Ledger, keys
from queryveil.privacy.keys import (
    alone_with,
    open_new,
    placing,
    refuse_release_folders,
    remove_drafts,
    replace_private,
    replacing,
    sync_folder,
)


class StoppedError(Exception):
    """The writer fails half-way."""


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """What is done towards the disk, in its order, with what a sync finds there."""
    seen: list[str] = []
    sync, rename, link = os.fsync, Path.replace, os.link

    def synced(opened: int) -> None:
        found = os.fstat(opened)
        names = sorted(path.name for path in tmp_path.iterdir())
        seen.append(f"sync folder with {names}" if stat.S_ISDIR(found.st_mode) else f"sync {found.st_size} bytes")
        sync(opened)

    def renamed(path: Path, to: Path) -> Path:
        seen.append(f"rename to {to.name}")
        return rename(path, to)

    def linked(path: Path, to: Path) -> None:
        seen.append(f"link to {to.name}")
        link(path, to)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", renamed)
    monkeypatch.setattr(os, "link", linked)
    return seen


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_replaced_file_is_synced_then_renamed_then_its_folder_is_synced(tmp_path: Path, steps: list[str]) -> None:
    replace_private(tmp_path / "state", b"12345")
    assert steps == ["sync 5 bytes", "rename to state", "sync folder with ['state']"]


def test_a_replacement_that_may_be_lost_is_renamed_without_a_sync(tmp_path: Path, steps: list[str]) -> None:
    replace_private(tmp_path / "state", b"12345", durable=False)
    assert steps == ["rename to state"]
    assert (tmp_path / "state").read_bytes() == b"12345"


def test_a_placed_file_is_synced_then_linked_then_its_folder_is_synced(tmp_path: Path, steps: list[str]) -> None:
    with placing(tmp_path / "key") as file:
        file.write(b"123")
    assert steps == ["sync 3 bytes", "link to key", "sync folder with ['key']"]


def test_no_draft_and_no_file_is_ever_readable_by_others(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        open_new(tmp_path / "upload").close()
        for write, name in ((replacing, "state"), (placing, "key")):
            with write(tmp_path / name) as file:
                drafts = [path for path in tmp_path.iterdir() if path.name.endswith(".draft")]
                assert [_mode(draft) for draft in drafts] == [0o600]
                file.write(b"secret")
    finally:
        os.umask(before)
    assert {path.name: _mode(path) for path in tmp_path.iterdir()} == dict.fromkeys(("upload", "state", "key"), 0o600)


def test_replacing_closes_a_file_that_others_could_read(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_bytes(b"old")
    path.chmod(0o644)
    replace_private(path, b"new")
    assert (path.read_bytes(), _mode(path)) == (b"new", 0o600)


def test_the_earlier_file_stays_whole_until_the_new_one_is_and_after_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "state"
    replace_private(path, b"old")
    with pytest.raises(StoppedError), replacing(path) as file:
        file.write(b"half of the new")
        file.flush()
        assert path.read_bytes() == b"old"
        raise StoppedError
    assert [found.name for found in tmp_path.iterdir()] == ["state"]
    assert path.read_bytes() == b"old"


def test_a_failed_sync_leaves_the_earlier_file_and_no_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "state"
    replace_private(path, b"old")

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for write in (replacing, placing):
        with pytest.raises(OSError, match="No space"), write(path) as file:
            file.write(b"new")
    assert [found.name for found in tmp_path.iterdir()] == ["state"]
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize("there", ["file", "dangling link"])
def test_placing_and_opening_anew_never_overwrite(tmp_path: Path, there: str) -> None:
    path = tmp_path / "key"
    if there == "file":
        path.write_bytes(b"first")
    else:
        path.symlink_to(tmp_path / "nowhere")
    with pytest.raises(FileExistsError), placing(path) as file:
        file.write(b"second")
    with pytest.raises(FileExistsError):
        open_new(path)
    assert [found.name for found in tmp_path.iterdir()] == ["key"]
    assert path.is_symlink() or path.read_bytes() == b"first"


def test_replacing_a_link_leaves_what_it_points_to_alone(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_bytes(b"theirs")
    (tmp_path / "state").symlink_to(tmp_path / "elsewhere")
    replace_private(tmp_path / "state", b"ours")
    assert (tmp_path / "elsewhere").read_bytes() == b"theirs"
    assert not (tmp_path / "state").is_symlink()


def test_two_writers_of_one_file_do_not_share_a_draft(tmp_path: Path) -> None:
    path = tmp_path / "state"
    with replacing(path) as one:
        with replacing(path) as other:
            other.write(b"other, whole")
        assert path.read_bytes() == b"other, whole"
        one.write(b"one, whole")
    assert path.read_bytes() == b"one, whole"


def test_text_that_cannot_be_encoded_is_written_with_question_marks(tmp_path: Path) -> None:
    replace_private(tmp_path / "page", "a\ud800é")
    assert (tmp_path / "page").read_bytes() == "a?é".encode()


def test_drafts_of_killed_writers_are_removed_and_nothing_else(tmp_path: Path) -> None:
    left = tmp_path / f".state.{'0f' * 8}.draft"
    others = {f".state.x.{'0f' * 8}.draft", ".state.draft", "state", f".mate.{'0f' * 8}.draft", ".state.lock"}
    for name in (left.name, *others):
        (tmp_path / name).touch()
    remove_drafts(tmp_path / "state")
    assert {path.name for path in tmp_path.iterdir()} == others


def test_a_draft_is_named_as_the_removal_expects(tmp_path: Path) -> None:
    name = "sta[t]e*"
    with pytest.raises(FileNotFoundError), replacing(tmp_path / name):
        remove_drafts(tmp_path / name)
        assert not list(tmp_path.iterdir())


def test_syncing_a_folder_syncs_the_folder(tmp_path: Path, steps: list[str]) -> None:
    (tmp_path / "a").touch()
    sync_folder(tmp_path)
    assert steps == ["sync folder with ['a']"]


def test_only_one_at_a_time_is_alone_with_a_folder(tmp_path: Path) -> None:
    came_in = threading.Event()

    def second() -> None:
        with alone_with(tmp_path):
            came_in.set()

    waiting = threading.Thread(target=second)
    with alone_with(tmp_path):
        waiting.start()
        assert not came_in.wait(0.2)
    waiting.join(300)
    assert came_in.is_set()


def put_ledger(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Ledger.create(folder / "ledger.db", epsilon=1.0)


def open_ledger(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Ledger.create(folder.parent / "ledger.db", epsilon=1.0).path
    made.rename(folder / "ledger.db")
    try:
        Ledger(folder / "ledger.db")
    finally:
        (folder / "ledger.db").unlink()


def put_session(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    SearchSession(folder / "session.json")


def put_keys(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUERYVEIL_KEYS", str(folder / "keys"))
    keys.signing_key()


@pytest.mark.parametrize("put", [put_ledger, open_ledger, put_session, put_keys])
def test_nothing_private_is_put_into_a_release(put, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "release"
    folder.mkdir()
    (folder / "manifest.json").write_text("{}")
    with pytest.raises(RefusedError, match="inside a release folder"):
        put(folder, monkeypatch)
    assert [path.name for path in folder.iterdir()] == ["manifest.json"]
    refuse_release_folders(tmp_path / "beside")

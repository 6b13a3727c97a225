"""The array file: what goes in comes out, and nothing half-written or foreign is ever read."""

from __future__ import annotations

import hashlib
import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queryveil.errors import KnowledgeError
from queryveil.knowledge import _store
from queryveil.knowledge._arrays import Lists, Strings
from queryveil.knowledge._store import compiled_once, file_digest, read_arrays, write_arrays


def test_arrays_come_back_memory_mapped_and_read_only(tmp_path: Path) -> None:
    arrays = {"a": np.arange(5, dtype=np.int16), "b": np.zeros((2, 3), np.float32), "none": np.zeros(0, np.int64)}
    write_arrays(tmp_path / "deep" / "x", {"name": "toy"}, arrays)
    header, found = read_arrays(tmp_path / "deep" / "x")
    assert header == {"name": "toy"}
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        assert np.array_equal(found[name], array)
    with pytest.raises(ValueError, match="read-only"):
        found["a"][0] = 1
    assert [path.name for path in (tmp_path / "deep").iterdir()] == ["x"]


@pytest.mark.parametrize("damage", [lambda b: b[:-1], lambda b: b[:20], lambda b: b"", lambda b: b"x" * 200])
def test_a_damaged_file_is_refused(tmp_path: Path, damage) -> None:
    path = tmp_path / "x"
    write_arrays(path, {}, {"a": np.arange(100)})
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(KnowledgeError):
        read_arrays(path)


def test_building_happens_once(tmp_path: Path) -> None:
    calls = []

    def build():
        calls.append(1)
        return {}, {"a": np.arange(3)}

    for _ in range(2):
        assert compiled_once(tmp_path / "x", build)[1]["a"].tolist() == [0, 1, 2]
    assert len(calls) == 1


def test_a_cache_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(KnowledgeError, match="QUERYVEIL_CACHE"):
        write_arrays(tmp_path / "file" / "x", {}, {})


@given(st.lists(st.text(st.characters(codec="utf-8"), max_size=8), max_size=12), st.data())
def test_strings_come_back_as_they_were(strings: list[str], data: st.DataObject) -> None:
    packed = Strings.of(strings)
    assert [packed[i] for i in range(len(packed))] == strings
    assert packed.to_list() == strings
    chosen = data.draw(st.lists(st.integers(0, len(strings) - 1), max_size=5)) if strings else []
    assert packed.take(np.array(chosen, np.int64)).to_list() == [strings[i] for i in chosen]


@given(st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=8))
def test_lists_come_back_as_they_were(lists: list[list[int]]) -> None:
    packed = Lists.of(lists)
    assert [packed[i].tolist() for i in range(len(packed))] == lists
    assert packed.lengths.tolist() == [len(one) for one in lists]
    again = Lists.of_pairs(packed.owners(), packed.values, len(packed))
    assert [again[i].tolist() for i in range(len(again))] == lists
    renumber = np.array([v // 2 if v % 2 == 0 else -1 for v in range(10)], np.int32)
    kept = packed.restrict(np.arange(len(lists))[::-1], renumber)
    assert [kept[i].tolist() for i in range(len(kept))] == [[v // 2 for v in one if v % 2 == 0] for one in lists[::-1]]


# Digests of files


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many bytes each reading of a file for its digest found; files count as settled at once."""
    seen: list[int] = []
    digest = hashlib.file_digest

    def counted(file, kind):
        seen.append(os.fstat(file.fileno()).st_size)
        return digest(file, kind)

    monkeypatch.setattr(hashlib, "file_digest", counted)
    monkeypatch.setattr(_store, "SETTLED_NS", 0)
    return seen


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _after_a_tick(path: Path, change) -> None:
    """Change a file when the clock of its file system has gone on: its times tell then."""
    before = path.stat()
    while True:
        change()
        after = path.stat()
        if (before.st_ino, before.st_ctime_ns) != (after.st_ino, after.st_ctime_ns):
            return
        time.sleep(0.001)


def test_an_unchanged_file_is_read_once_for_its_digest_whoever_asks(tmp_path: Path, readings: list[int]) -> None:
    path, link = tmp_path / "a", tmp_path / "b"
    path.write_bytes(b"12345")
    link.symlink_to(path)
    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(file_digest, [path, link] * 20)) == {_sha256(path)}
    assert readings == [5]


def test_a_change_is_seen_although_size_and_time_of_change_look_the_same(tmp_path: Path, readings: list[int]) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    first, before = file_digest(path), path.stat()

    def forged() -> None:
        path.write_bytes(b"54321")
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))

    _after_a_tick(path, forged)
    after = path.stat()
    assert (after.st_ino, after.st_size, after.st_mtime_ns) == (before.st_ino, before.st_size, before.st_mtime_ns)
    assert file_digest(path) == _sha256(path) != first


def test_a_file_in_the_place_of_another_is_seen(tmp_path: Path, readings: list[int]) -> None:
    path, other = tmp_path / "a", tmp_path / "b"
    path.write_bytes(b"12345")
    other.write_bytes(b"54321")
    times = path.stat()
    os.utime(other, ns=(times.st_atime_ns, times.st_mtime_ns))
    first = file_digest(path)
    other.replace(path)
    assert file_digest(path) == _sha256(path) != first


def test_what_changed_only_just_now_is_read_again_each_time(
    tmp_path: Path, readings: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_store, "SETTLED_NS", 3600 * 10**9)
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    assert file_digest(path) == file_digest(path) == _sha256(path)
    assert readings == [5, 5]


def test_a_file_that_changes_while_it_is_read_is_not_remembered(
    tmp_path: Path, readings: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"12345")
    digest = hashlib.file_digest

    def growing(file, kind):
        found = digest(file, kind)
        with path.open("ab") as more:
            more.write(b"6")
        return found

    monkeypatch.setattr(hashlib, "file_digest", growing)
    file_digest(path)
    monkeypatch.setattr(hashlib, "file_digest", digest)
    assert file_digest(path) == _sha256(path)
    assert readings == [5, 6]


def test_who_comes_while_another_builds_waits_for_it(tmp_path: Path) -> None:
    """Four processes' worth of builders at once: one builds, the others read what it wrote."""
    calls = []

    def build():
        calls.append(1)
        time.sleep(0.2)  # long enough for the others to come
        return {}, {"a": np.arange(3)}

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: compiled_once(tmp_path / "x", build)[1]["a"].tolist(), range(4)))
    assert found == [[0, 1, 2]] * 4
    assert len(calls) == 1

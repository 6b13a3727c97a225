"""The array file: what goes in comes out, and nothing half-written or foreign is ever read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queryveil.errors import KnowledgeError
from queryveil.knowledge._arrays import Lists, Strings
from queryveil.knowledge._store import compiled_once, read_arrays, write_arrays


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

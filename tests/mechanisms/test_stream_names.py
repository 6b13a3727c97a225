"""Names as numbers, and the rows that are held: as plain dictionaries and lists would."""

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from properties import examples
from queryveil.log.spans import Spans
from queryveil.mechanisms.stream._held_rows import HeldRows
from queryveil.mechanisms.stream._names import CategoryNumbers, Key, Numbers, fingerprints, pseudonyms

KEY = Key(np.uint64(0x0706050403020100), np.uint64(0x0F0E0D0C0B0A0908))


def test_fingerprints_are_sip_hash():
    """Vectors of the reference implementation: key 00…0f, messages of 0, 1, 8 and 15 bytes 00, 01, 02, …"""
    messages = [bytes(range(n)).decode() for n in (0, 1, 8, 15)]
    assert [hex(x) for x in fingerprints(pl.Series(messages), KEY).tolist()] == [
        "0x726fdb47dd0e0e31", "0x74f839c593dc67fd", "0x93f5f5799a932462", "0xa129ca6149be45e5",
    ]  # fmt: skip


@settings(max_examples=examples(60), deadline=None)
@given(
    paths=st.lists(st.lists(st.sampled_from(["a", "b", "", "é:"]), min_size=1, max_size=5), max_size=40),
    depth=st.integers(1, 4),
)
def test_paths_are_numbered_as_a_dictionary_would(paths, depth):
    numbers = CategoryNumbers("/", depth, KEY)
    texts = ["/".join(path) for path in paths]
    found, parents, depths = numbers.of_paths(Spans.of(pl.Series(texts, dtype=pl.String)))
    known = {(): 0}
    expected_parents, expected = [], []
    for text in texts:
        path = tuple(text.split("/"))[:depth]
        for length in range(1, len(path) + 1):
            if path[:length] not in known:
                expected_parents.append((known[path[: length - 1]], length))
                known[path[:length]] = len(known)
        expected.append(known[path])
    assert found.tolist() == expected
    assert list(zip(parents.tolist(), depths.tolist(), strict=True)) == expected_parents
    paths = pl.Series("path", texts, dtype=pl.String)
    levels = np.array([min(len(t.split("/")), 2) for t in texts], np.int32)
    cut = paths.to_frame().select(numbers.cut(paths, levels)).to_series()
    assert cut.to_list() == ["/".join(text.split("/")[:2]) for text in texts]


def test_numbers_grow_and_forget():
    numbers = Numbers()
    wanted = np.arange(1, 5001, dtype=np.uint64) * np.uint64(2654435761)
    assert numbers.of(wanted).tolist() == list(range(5000))
    assert numbers.of(wanted[::-1]).tolist() == list(range(4999, -1, -1))
    used = np.zeros(5000, bool)
    used[[3, 77]] = True
    new = numbers.keep_only(used)
    assert (new[3], new[77], new[4]) == (0, 1, -1)
    assert numbers.of(wanted[[77, 5, 3]]).tolist() == [1, 2, 0]


def test_pseudonyms_are_written_like_all_others():
    assert pseudonyms(np.array([0, 2**64 - 1, 255], np.uint64)).to_list() == [
        "u0000000000000000", "uffffffffffffffff", "u00000000000000ff",
    ]  # fmt: skip


@settings(max_examples=examples(40), deadline=None)
@given(sizes=st.lists(st.integers(0, 9), max_size=12), data=st.data())
def test_held_rows_come_back_by_handle_in_the_order_asked(sizes, data):
    held, rows = HeldRows(), []
    for size in sizes:
        frame = pl.DataFrame({"query": [f"q{len(rows) + i}" for i in range(size)]}, schema={"query": pl.String})
        held.add(frame, len(rows))
        rows += frame["query"].to_list()
    if rows:
        wanted = data.draw(st.lists(st.integers(0, len(rows) - 1), max_size=20))
        assert held.take(np.array(wanted, np.int32)).to_series().to_list() == [rows[i] for i in wanted]
        kept = sorted(set(wanted))
        numbers = held.keep_only(np.array(kept, np.int32))
        assert held.take(numbers[np.array(kept, np.int32)]).rows() == [(rows[i],) for i in kept]

"""What a snapshot leaves out of the window over texts is found again: its tables, and the pairs in its ring."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from properties import examples
from queryveil.mechanisms.stream import _layout as at
from queryveil.mechanisms.stream._gate import Gate

USERS = np.arange(1, 6, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
arrivals = st.lists(st.tuples(st.integers(1, 9), st.integers(0, 4)), max_size=120)


def pushed(gate, records, first=0):
    texts = np.array([text for text, _ in records], np.uint64) * np.uint64(0xC2B2AE3D27D4EB4F)
    users = np.array([user for _, user in records], np.int32)
    handles = np.arange(first, first + len(records), dtype=np.int32)
    entered, expired = gate.push(texts, USERS, users, np.zeros(len(records), np.int32), handles)
    return entered.tolist(), expired.tolist()


def table(keys, values):
    return dict(zip(keys[keys != 0].tolist(), values[keys != 0].tolist(), strict=True))


@settings(max_examples=examples(100), deadline=None)
@given(before=arrivals, after=arrivals, window=st.integers(1, 60), k_text=st.integers(2, 4))
def test_a_window_goes_on_from_its_arrays_as_if_it_had_never_stopped(before, after, window, k_text):
    gate = Gate(k_text, window)
    pushed(gate, before)
    again = Gate.from_arrays(k_text, window, {name: array.copy() for name, array in gate.to_arrays().items()}, USERS)
    assert table(again.text_keys, again.text_rows) == table(gate.text_keys, gate.text_rows)
    assert table(again.pair_keys, again.pair_counts) == table(gate.pair_keys, gate.pair_counts)
    count = int(gate.counters[at.P_COUNT])
    assert again.ring_pairs.tolist() == gate.ring_pairs[:count].tolist()
    assert pushed(again, after, len(before)) == pushed(gate, after, len(before))
    assert again.waiting == gate.waiting


def test_a_window_can_be_saved_whatever_the_sizes_its_tables_grew_to():
    """Tables grow by half: half of an odd number of rows must not leave part of a row behind."""
    gate, first = Gate(2, 50), 0
    for more in (*range(1, 60), 1, 1, 1):
        pushed(gate, [(first + n + 1, n % 5) for n in range(more)], first)
        first += more
        again = Gate.from_arrays(2, 50, {name: array.copy() for name, array in gate.to_arrays().items()}, USERS)
        assert again.waiting == gate.waiting

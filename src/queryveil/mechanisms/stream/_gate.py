"""The arrays of the window over texts; see `_gate_kernel.py`."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from queryveil.arrays import Array, Flags, Ints, Longs, Words
from queryveil.mechanisms.stream import _layout as at

FIRST_ROWS = 1 << 10


class Gate:
    """Holds records back until `k_text` distinct users issued their text among the last `window` records."""

    ARRAYS = (
        "ring",
        "ring_pairs",
        "texts",
        "text_names",
        "text_keys",
        "text_rows",
        "pair_keys",
        "pair_counts",
        "counters",
    )

    def __init__(self, k_text: int, window: int) -> None:
        self.k_text, self.window = k_text, window
        self.ring: Ints = np.zeros(0, np.int32)
        self.ring_pairs: Words = np.zeros(0, np.uint64)
        self.texts: Ints = np.zeros(0, np.int32)
        self.text_names: Words = np.zeros(0, np.uint64)
        self.text_keys: Words = np.zeros(FIRST_ROWS, np.uint64)
        self.text_rows: Ints = np.zeros(FIRST_ROWS, np.int32)
        self.pair_keys: Words = np.zeros(FIRST_ROWS, np.uint64)
        self.pair_counts: Ints = np.zeros(FIRST_ROWS, np.int32)
        self.counters: Longs = np.zeros(at.GATE_COUNTERS, np.int64)
        self.counters[at.P_TEXT_FREE] = at.NONE

    @property
    def waiting(self) -> int:
        """How many records wait for their text."""
        return int(self.counters[at.P_WAITING])

    def push(self, texts: Words, user_names: Words, users: Ints, categories: Ints, handles: Ints) -> tuple[Ints, Ints]:
        """Take records in: rows (handle, user, category, arrival) that may enter the tree, and handles withheld."""
        from queryveil.mechanisms.stream import _gate_kernel

        self._make_room(len(users))
        entered = np.empty((self.waiting + len(users)) * at.IN_COLUMNS, np.int32)
        expired = np.empty(self.waiting + len(users), np.int32)
        self.counters[at.P_ENTERED] = self.counters[at.P_EXPIRED] = 0
        arrays = (getattr(self, name) for name in self.ARRAYS)
        _gate_kernel.pass_gate(
            *arrays, self.window, self.k_text, texts, user_names, users, categories, handles, entered, expired
        )
        count = int(self.counters[at.P_ENTERED])
        return entered[: count * at.IN_COLUMNS].reshape(count, at.IN_COLUMNS), expired[
            : int(self.counters[at.P_EXPIRED])
        ]

    def _make_room(self, more: int) -> None:
        from queryveil.mechanisms.stream import _gate_kernel

        capacity, held = len(self.ring_pairs), int(self.counters[at.P_COUNT])
        needed = min(self.window, held + more)
        if needed > capacity:
            wider = min(self.window, max(needed, 2 * capacity, FIRST_ROWS))
            self._unroll()
            self.ring = np.concatenate([self.ring, np.zeros((wider - capacity) << at.RING_ROW, np.int32)])
            self.ring_pairs = np.concatenate([self.ring_pairs, np.zeros(wider - capacity, np.uint64)])
        rows = int(self.counters[at.P_TEXT_TOP]) + more
        self.texts = _extended(self.texts, rows, at.TEXT_ROW)
        self.text_names = _extended(self.text_names, rows, 0)
        for keys, values, used in (("text_keys", "text_rows", at.P_TEXTS), ("pair_keys", "pair_counts", at.P_PAIRS)):
            wanted = 2 * min(self.window + 1, int(self.counters[used]) + more)
            if wanted > len(getattr(self, keys)):
                slots = 1 << wanted.bit_length()
                new_keys, new_values = np.zeros(slots, np.uint64), np.zeros(slots, np.int32)
                _gate_kernel.move_table(getattr(self, keys), getattr(self, values), new_keys, new_values)
                setattr(self, keys, new_keys)
                setattr(self, values, new_values)

    def _unroll(self) -> None:
        """Turn the ring so that it starts at 0, with the links between waiting records."""
        start, capacity = int(self.counters[at.P_START]), len(self.ring_pairs)
        if start == 0:
            return
        rows = np.roll(self.ring.reshape(capacity, 1 << at.RING_ROW), -start, axis=0)
        links = rows[:, at.W_NEXT]
        rows[:, at.W_NEXT] = np.where(links == at.NONE, at.NONE, (links - start) % capacity)
        self.ring = rows.reshape(-1)
        self.ring_pairs = np.roll(self.ring_pairs, -start)
        texts = self.texts.reshape(-1, 1 << at.TEXT_ROW)
        in_use = np.zeros(len(texts), bool)
        in_use[self.text_rows[self.text_keys != 0]] = True
        for field in (at.X_HEAD, at.X_TAIL):
            places = texts[in_use, field]
            texts[in_use, field] = np.where(places == at.NONE, at.NONE, (places - start) % capacity)
        self.counters[at.P_START] = 0

    def _window_parts(self) -> list[Ints]:
        """The ring's rows in the window, in order of arrival and in one or two parts; they can be written to."""
        rows = self.ring.reshape(-1, 1 << at.RING_ROW)
        start, count = int(self.counters[at.P_START]), int(self.counters[at.P_COUNT])
        return [rows[start : start + count], rows[: max(0, start + count - len(rows))]]

    def waiting_handles(self) -> Ints:
        """The handles of the records that wait."""
        handles = np.concatenate([rows[:, at.W_HANDLE] for rows in self._window_parts()])
        waiting: Ints = handles[handles != at.NONE]
        return waiting

    def mark_used(self, categories: Flags, users: Flags) -> None:
        """Mark the numbers of users and categories that the window still needs."""
        for rows in self._window_parts():
            users[rows[:, at.W_USER]] = True
            categories[rows[rows[:, at.W_HANDLE] != at.NONE, at.W_CATEGORY]] = True

    def renumber(self, categories: Ints, users: Ints) -> None:
        """Follow new numbers of categories and users."""
        for rows in self._window_parts():
            rows[:, at.W_USER] = users[rows[:, at.W_USER]]
            rows[:, at.W_CATEGORY] = categories[rows[:, at.W_CATEGORY]]

    def renumber_handles(self, handles: Ints) -> None:
        """Follow new numbers of the records held."""
        for rows in self._window_parts():
            waiting = np.flatnonzero(rows[:, at.W_HANDLE] != at.NONE)
            rows[waiting, at.W_HANDLE] = handles[rows[waiting, at.W_HANDLE]]

    def to_arrays(self) -> dict[str, Array]:
        """All there is to know, but for what follows from it: the tables, and the pairs of the records."""
        self._unroll()
        records = self._window_parts()[0][:, : at.RING_FIELDS]
        top = int(self.counters[at.P_TEXT_TOP])
        return {
            "records": np.ascontiguousarray(records.T).reshape(-1),  # field by field, which compresses better
            "texts": self.texts[: top << at.TEXT_ROW],
            "text_names": self.text_names[:top],
            "counters": self.counters,
        }

    @classmethod
    def from_arrays(cls, k_text: int, window: int, arrays: dict[str, Array], user_names: Words) -> Gate:
        """The gate that `to_arrays` described, with the fingerprints of the users that it knows by number."""
        from queryveil.mechanisms.stream import _gate_kernel

        gate = cls(k_text, window)
        records = np.array(arrays["records"], np.int32).reshape(at.RING_FIELDS, -1)
        ring = np.zeros((records.shape[1], 1 << at.RING_ROW), np.int32)
        ring[:, : at.RING_FIELDS] = records.T
        gate.ring, gate.ring_pairs = ring.reshape(-1), np.zeros(len(ring), np.uint64)
        gate.texts, gate.text_names = np.array(arrays["texts"], np.int32), np.array(arrays["text_names"], np.uint64)
        gate.counters = np.array(arrays["counters"], np.int64)
        gate._make_room(0)
        _gate_kernel.fill_tables(
            gate.ring, gate.ring_pairs, gate.text_names, user_names, len(ring), gate.text_keys, gate.text_rows,
            gate.pair_keys, gate.pair_counts,
        )  # fmt: skip
        return gate


Number = TypeVar("Number", np.int32, np.uint64)


def _extended(array: npt.NDArray[Number], rows: int, row_bits: int) -> npt.NDArray[Number]:
    """The array with room for that many rows of 2^row_bits numbers, always whole ones."""
    held = len(array) >> row_bits
    if rows <= held:
        return array
    wider = np.zeros(max(rows, held + held // 2) << row_bits, array.dtype)
    wider[: len(array)] = array
    return wider

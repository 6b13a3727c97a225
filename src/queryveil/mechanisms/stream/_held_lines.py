"""The bytes of records that wait, one behind the other, and of no others for long.

A record is named by its place among all that are kept, its *handle*. When more than half of them are gone, the caller
has the rest copied and renumbered, so memory follows what waits and each record is copied a bounded number of times.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from queryveil.arrays import Array, Ints, Longs
from queryveil.log.spans import NO_TIME, Bytes, Spans
from queryveil.mechanisms.stream.records import StreamRecords

FIRST_BYTES, FIRST_ROWS = 1 << 16, 1 << 10
SPARE = 1 << 14


class HeldLines:
    """Records by handle, with the number of each arrival; with their own times where these are published."""

    def __init__(self, *, own_times: bool) -> None:
        from queryveil.mechanisms.stream import _lines_kernel

        self.own_times = own_times
        self.arena: Bytes = np.empty(FIRST_BYTES, np.uint8)
        self.fields: Longs = np.empty((FIRST_ROWS, _lines_kernel.HELD_FIELDS), np.int64)
        self.times: Longs = np.empty(FIRST_ROWS if own_times else 0, np.int64)
        self._arrivals: Longs = np.empty(FIRST_ROWS, np.int64)
        self.top = self.count = 0

    @classmethod
    def of(cls, frame: pl.DataFrame, arrivals: Longs, *, own_times: bool) -> HeldLines:
        """Records as a snapshot tells them, their handles 0, 1, 2, …"""
        held = cls(own_times=own_times)
        if frame.height:
            held.add(StreamRecords.of(frame if own_times else frame.with_columns(time=None)), 0)
            held._arrivals[: frame.height] = arrivals
        return held

    def __len__(self) -> int:
        return self.count

    def add(self, records: StreamRecords, first_arrival: int) -> Ints:
        """Keep a batch; returns the handles of its records."""
        from queryveil.mechanisms.stream import _lines_kernel

        start, after = self.count, self.count + len(records)
        parts = (records.users, records.texts, records.paths)
        self._make_room(after, self.top + sum(int(part.lengths.sum()) for part in parts))
        users, texts, paths = parts
        self.top = _lines_kernel.hold(
            users.data, users.starts, users.stops, texts.data, texts.starts, texts.stops, paths.data, paths.starts,
            paths.stops, self.top, self.arena, self.fields[start:after],
        )  # fmt: skip
        if self.own_times:
            self.times[start:after] = records.times
        self._arrivals[start:after] = np.arange(first_arrival, first_arrival + len(records))
        self.count = after
        return np.arange(start, after, dtype=np.int32)

    def _make_room(self, rows: int, size: int) -> None:
        if size > len(self.arena):
            self.arena = _extended(self.arena, size)
        if rows > len(self.fields):
            self.fields, self._arrivals = _extended(self.fields, rows), _extended(self._arrivals, rows)
            if self.own_times:
                self.times = _extended(self.times, rows)

    def take(self, handles: Ints) -> pl.DataFrame:
        """The rows of these handles, in this order."""
        data = self.arena.view()
        data.flags.writeable = False  # as bytes of a file are: one compiled kernel serves both
        begins = [np.ascontiguousarray(self.fields[handles, field]) for field in range(4)]
        columns = {
            name: Spans(data, begins[field], begins[field + 1]).series()
            for field, name in enumerate(("user", "query", "category"))
        }
        if self.own_times:
            moments = pl.DataFrame({"time": self.times[handles]})
            known = pl.when(pl.col("time") != NO_TIME).then(pl.col("time").cast(pl.Datetime("us")))
            no_click = pl.lit(None, pl.UInt32).alias("rank"), pl.lit(None, pl.String).alias("url")
            return pl.DataFrame(columns).with_columns(moments.select(known).to_series(), *no_click)
        return pl.DataFrame(columns)

    def arrivals(self, handles: Ints) -> Longs:
        """The numbers under which these records arrived."""
        return self._arrivals[handles]

    def wasteful(self, live: int) -> bool:
        """Whether it is time to let go of records that left."""
        return self.count > 2 * live + SPARE

    def keep_only(self, live: npt.NDArray[np.integer]) -> Ints:
        """Let go of all records but these (ascending); returns the new handle of each old one."""
        from queryveil.mechanisms.stream import _lines_kernel

        kept = live.astype(np.int64)
        size = int((self.fields[kept, -1] - self.fields[kept, 0]).sum())
        # Room for as many as come before the next time (`wasteful`), so that nothing is copied in between.
        arena = np.empty(max(FIRST_BYTES, min(len(self.arena), 3 * size)), np.uint8)
        rows = max(FIRST_ROWS, min(len(self.fields), 3 * len(kept)))
        fields = np.empty((rows, self.fields.shape[1]), np.int64)
        self.top = _lines_kernel.keep_only(self.arena, self.fields, kept, arena, fields)
        numbers = np.full(self.count, -1, np.int32)
        numbers[kept] = np.arange(len(kept), dtype=np.int32)
        self._arrivals = _extended(self._arrivals[kept], len(fields))
        if self.own_times:
            self.times = _extended(self.times[kept], len(fields))
        self.arena, self.fields, self.count = arena, fields, len(kept)
        return numbers


def _extended(array: Array, rows: int) -> Array:
    """The array with room for that many rows, and for half as many more as it had."""
    wider = np.empty((max(rows, len(array) + len(array) // 2), *array.shape[1:]), array.dtype)
    wider[: len(array)] = array
    return wider

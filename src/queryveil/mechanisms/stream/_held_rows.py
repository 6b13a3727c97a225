"""The texts of records that wait, and of no others for long.

Batches are kept as they came, small ones merged. A row is named by its place in all of them together, its *handle*.
When more than half of the rows are gone, the caller has the rest copied and renumbered, so memory follows what waits
and each record is copied a bounded number of times.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import polars as pl

from queryveil.arrays import Ints, Longs

SMALL = 1 << 14
SPARE = 1 << 14


class HeldRows:
    """Rows by handle, with the number of each arrival."""

    def __init__(self) -> None:
        self.frames: list[pl.DataFrame] = []
        self.starts: Longs = np.zeros(1, np.int64)
        self._arrivals: Longs = np.zeros(0, np.int64)

    @classmethod
    def of(cls, frame: pl.DataFrame, arrivals: Longs) -> HeldRows:
        """Rows as a snapshot tells them, their handles 0, 1, 2, …"""
        held = cls()
        held.frames = [frame] if frame.height else []
        held.starts = np.cumsum([0, *(kept.height for kept in held.frames)], dtype=np.int64)
        held._arrivals = arrivals
        return held

    def __len__(self) -> int:
        return int(self.starts[-1])

    def add(self, frame: pl.DataFrame, first_arrival: int) -> Ints:
        """Keep a batch; returns the handles of its rows."""
        start, after = len(self), len(self) + frame.height
        if after > len(self._arrivals):
            room = max(after, 2 * len(self._arrivals))
            self._arrivals = np.concatenate([self._arrivals[:start], np.zeros(room - start, np.int64)])
        self._arrivals[start:after] = np.arange(first_arrival, first_arrival + frame.height)
        self.frames.append(frame)
        while len(self.frames) > 1 and self.frames[-2].height <= min(2 * self.frames[-1].height, SMALL):
            self.frames[-2:] = [pl.concat(self.frames[-2:], rechunk=True)]
        self.starts = np.cumsum([0, *(held.height for held in self.frames)], dtype=np.int64)
        return np.arange(start, after, dtype=np.int32)

    def take(self, handles: Ints) -> pl.DataFrame:
        """The rows of these handles, in this order."""
        if not self.frames:
            return pl.DataFrame()
        rows: pl.DataFrame = pl.concat(self.frames)[handles]
        return rows

    def arrivals(self, handles: Ints) -> Longs:
        """The numbers under which these rows arrived."""
        return self._arrivals[handles]

    def wasteful(self, live: int) -> bool:
        """Whether it is time to let go of rows that left."""
        return len(self) > 2 * live + SPARE

    def keep_only(self, live: npt.NDArray[np.integer]) -> Ints:
        """Let go of all rows but these (ascending); returns the new handle of each old one."""
        kept = self.take(live.astype(np.int32)).rechunk()
        numbers = np.full(len(self), -1, np.int32)
        numbers[live] = np.arange(len(live), dtype=np.int32)
        self._arrivals = self._arrivals[live]
        self.frames = [kept] if len(live) else []
        self.starts = np.cumsum([0, *(held.height for held in self.frames)], dtype=np.int64)
        return numbers

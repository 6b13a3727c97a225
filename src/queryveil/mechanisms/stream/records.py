"""Records of a stream as bytes: users, texts, times and category paths, without an object for any of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from queryveil.arrays import Flags, Longs
from queryveil.log.formats.plain_lines import PlainRecords
from queryveil.log.spans import NO_TIME, Spans


@dataclass(frozen=True)
class StreamRecords:
    """Records in the order they came; `times` are microseconds since 1970 or `NO_TIME`. An empty path is none."""

    users: Spans
    texts: Spans
    times: Longs
    paths: Spans

    @classmethod
    def of(cls, frame: pl.DataFrame, category: str = "category") -> StreamRecords:
        """The rows of a table."""
        times = frame["time"].cast(pl.Datetime("us")).to_physical().fill_null(NO_TIME).to_numpy()
        paths = frame[category].cast(pl.String).fill_null("")
        return cls(Spans.of(frame["user"]), Spans.of(frame["query"]), times, Spans.of(paths))

    @classmethod
    def from_plain(cls, found: PlainRecords, category: str) -> StreamRecords:
        """Records of a file of separated values, by the reader's name for the column of categories."""
        times = np.full(len(found), NO_TIME) if found.times is None else found.times
        return cls(found.texts["user"], found.texts["query"], times, found.texts[category])

    def __len__(self) -> int:
        return len(self.users)

    def __getitem__(self, chosen: slice) -> StreamRecords:
        return StreamRecords(self.users[chosen], self.texts[chosen], self.times[chosen], self.paths[chosen])

    def gather(self, chosen: Flags) -> StreamRecords:
        """Some of the records."""
        return StreamRecords(
            self.users.gather(chosen), self.texts.gather(chosen), self.times[chosen], self.paths.gather(chosen)
        )

    def usable(self, *, safe: bool) -> StreamRecords:
        """Those that have a category, in safe mode only those whose texts identify nobody."""
        chosen = self.paths.starts != self.paths.stops
        if safe:
            chosen &= ~identifying(self.texts)
        return self if chosen.all() else self.gather(chosen)


def identifying(texts: Spans) -> Flags:
    """Which texts name a person by themselves, as `queryveil.log.identifying` says; few have to be looked at."""
    from queryveil.log.identifying import is_identifying
    from queryveil.mechanisms.stream import _lines_kernel

    found = np.empty(len(texts), np.bool_)
    _lines_kernel.worth_a_look(texts.data, texts.starts, texts.stops, found)
    doubtful = np.flatnonzero(found)
    if len(doubtful):
        looked_at = texts.gather(doubtful).series().alias("query").to_frame()
        found[doubtful] = looked_at.select(is_identifying("query")).to_series().to_numpy()
    return found

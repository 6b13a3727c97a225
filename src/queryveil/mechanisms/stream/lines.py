"""The stream mechanism from bytes to bytes: records in as places in a file's bytes, out as lines of JSON, CSV or AOL.

What comes out for the same records and the same noise is what `LiveStream` hands out, record by record in the same
order; only that no text becomes an object on its way. Clicks (rank and URL), which paper mode publishes, and the owners
of records do not travel here.

>>> from queryveil.mechanisms.stream import Stream
>>> from queryveil.privacy import Noise
>>> log = pl.DataFrame({"user": [f"user {i % 6}" for i in range(40)], "query": "weather", "category": "nature"})
>>> running = LineStream.of(Stream(k=2, mode="paper", time="drop"), Noise.seeded(1), JSON_LINES, for_science=True)
>>> parts = running.push(StreamRecords.of(log.with_columns(time=None)))
>>> 20 < sum(len(part.lines) for part in parts) < 40, parts[0].lines[0].partition(b",")[2]
(True, b'"query":"weather","category":"nature"}')
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from queryveil.arrays import Ints, Longs, Words
from queryveil.log.spans import NO_TIME, Bytes, Spans
from queryveil.mechanisms.stream._held_lines import HeldLines
from queryveil.mechanisms.stream.emissions import Departures
from queryveil.mechanisms.stream.records import StreamRecords
from queryveil.mechanisms.stream.running import RunningStream, StreamSettings, TakenIn
from queryveil.privacy import Noise
from queryveil.release.mechanism import TimeTreatment

if TYPE_CHECKING:
    from queryveil.mechanisms.stream.mixing import Stream

MICROSECONDS = {"day": 86_400_000_000, "hour": 3_600_000_000}
_PIECES = (b'{"user":"', b'","query":', b',"time":', b',"category":', b"null", b"}")


@dataclass(frozen=True)
class LineFormat:
    """How released records are written: `kind` is json, csv or aol."""

    kind: int
    separator: bytes = b"\t"
    with_time: bool = True


JSON_LINES = LineFormat(0, with_time=False)
TIMED_JSON_LINES = LineFormat(0)
TABBED = LineFormat(1)
AOL_LINES = LineFormat(2)


@dataclass(frozen=True, kw_only=True)
class ReleasedLines(Departures):
    """What came out: lines without their ends, in bytes that have them."""

    lines: Spans

    @property
    def content(self) -> memoryview:
        """The lines with their ends."""
        return self.lines.data.data


class LineStream(RunningStream[StreamRecords, ReleasedLines]):
    """A stream of records as bytes."""

    _held: HeldLines

    def __init__(
        self,
        settings: StreamSettings,
        noise: Noise,
        written: LineFormat,
        *,
        for_science: bool = False,
        all_at_once: bool = False,
    ) -> None:
        self._written = written
        self._out: Bytes = np.empty(1 << 16, np.uint8)
        super().__init__(settings, noise, for_science=for_science, all_at_once=all_at_once)

    @classmethod
    def of(cls, mechanism: Stream, noise: Noise, written: LineFormat, *, for_science: bool = False) -> LineStream:
        """The stream of a mechanism."""
        return cls(mechanism.settings(), noise, written, for_science=for_science)

    def push(self, batch: StreamRecords) -> list[ReleasedLines]:
        """Take a batch in and hand out what may leave now, in parts of a bounded size."""
        self._check_publishable()
        kept = batch.usable(safe=self.settings.safe)
        self.suppressed += len(batch) - len(kept)
        return list(self._in_slices(kept))

    def finish(self) -> list[ReleasedLines]:
        """End the epoch: what waits is suppressed, never flushed; `all_at_once` what is in the mix comes out."""
        self._check_publishable()
        return self.finish_with_owners()

    def _hold_rows(self, rows: pl.DataFrame | None, arrivals: Longs) -> HeldLines:
        own_times = not self.settings.safe
        return HeldLines(own_times=own_times) if rows is None else HeldLines.of(rows, arrivals, own_times=own_times)

    def _hold(self, kept: StreamRecords) -> TakenIn:
        handles = self._held.add(kept, self.arrived)
        return TakenIn(kept.users, kept.paths, kept.texts, handles)

    def _cut_times(self, kept: StreamRecords, triggers: Ints) -> Longs:
        return cut_times(kept.times[triggers], self.settings.time)

    def _made(self, left: Departures) -> ReleasedLines:
        times, buckets = left.times if self.settings.safe else self._held.times[left.handles], None
        if self.settings.time == "drop":
            times = np.full(len(left), NO_TIME)
        if self.settings.pseudonym == "session":
            cut = cut_times(times, self.settings.time)
            buckets = np.where(cut == NO_TIME, -1, cut)
        numbers = self._name_numbers(left, buckets)
        if not len(left):
            return ReleasedLines(**vars(left), lines=Spans.nothing())
        return ReleasedLines(**vars(left), lines=self._lines(left, numbers, times))

    def _lines(self, left: Departures, numbers: Words, times: Longs) -> Spans:
        from queryveil.mechanisms.stream import _lines_kernel

        held, ends, done, pieces = self._held, np.empty(len(left), np.int64), 0, []
        names, name_ends = np.frombuffer(b"".join(_PIECES), np.uint8), np.cumsum([len(piece) for piece in _PIECES])
        while done < len(left):
            count = _lines_kernel.write(
                held.arena, held.fields, left.handles[done:], numbers[done:], times[done:], NO_TIME,
                MICROSECONDS.get(self.settings.time, 0), left.depths[done:], self._categories.separator,
                self._written.kind, self._written.separator[0], self._written.with_time, names, name_ends, self._out,
                ends[done:],
            )  # fmt: skip
            if count:
                pieces.append(self._out[: ends[done + count - 1]].tobytes())
                ends[done : done + count] += sum(map(len, pieces[:-1]))
                done += count
            if done < len(left):
                self._out = np.empty(2 * len(self._out), np.uint8)
        data = np.frombuffer(b"".join(pieces), np.uint8)
        return Spans(data, np.append(0, ends[:-1])[: len(ends)], ends - 1)


def cut_times(times: Longs, treatment: TimeTreatment) -> Longs:
    """Times as `coarsened` cuts them."""
    if treatment == "drop":
        return np.full(len(times), NO_TIME)
    if treatment == "keep":
        return times
    cut: Longs = np.where(times == NO_TIME, NO_TIME, times - times % MICROSECONDS[treatment])
    return cut

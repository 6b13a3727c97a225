"""Records of lines in which nothing is quoted: their cells as places in the bytes of the block.

Most files of separated values hold hardly anything else. Such lines are cut in one compiled pass, and only what is
asked for becomes a column. What a line says, and whether it is a record at all, is the same as with the readers of
whole columns (`delimited`), which also put into words what is wrong with a line.

>>> places = {"user": 0, "query": 1, "time": 2}
>>> found, bad = cut_plain(b"ann,tulips,2006-03-01T10:00:00" + bytes([10]), 1, ",", 3, places)
>>> found.frame().rows()
[('ann', 'tulips', datetime.datetime(2006, 3, 1, 10, 0))]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from queryveil.arrays import Flags, Longs
from queryveil.log.formats.format import LONGEST_FIELD, iso_time, rank
from queryveil.log.query_log import COLUMNS
from queryveil.log.spans import NO_TIME, Spans

NEEDED = ("user", "query")


@dataclass(frozen=True)
class PlainRecords:
    """Records by column, under the names used inside a reader; `times` are microseconds or `NO_TIME`."""

    texts: Mapping[str, Spans]
    times: Longs | None
    ranks: pl.Series | None

    def __len__(self) -> int:
        return len(self.texts["user"])

    def gather(self, chosen: Flags) -> PlainRecords:
        """Some of the records."""
        return PlainRecords(
            {name: spans.gather(chosen) for name, spans in self.texts.items()},
            None if self.times is None else self.times[chosen],
            None if self.ranks is None else self.ranks.filter(pl.Series(chosen)),
        )

    def frame(self) -> pl.DataFrame:
        """All of it as columns."""
        columns = {name: spans.series() for name, spans in self.texts.items()}
        if self.times is not None:
            moment = pl.when(pl.col("time") != NO_TIME).then(pl.col("time").cast(pl.Datetime("us")))
            columns["time"] = pl.DataFrame({"time": self.times}).select(moment).to_series()
        if self.ranks is not None:
            columns["rank"] = self.ranks
        return pl.DataFrame(columns)


@dataclass(frozen=True)
class BadLines:
    """Lines that are no records, and how many lines stand before each."""

    numbers: Longs
    texts: Spans

    def __len__(self) -> int:
        return len(self.numbers)


def cut_plain(
    content: bytes, lines: int, separator: str, width: int, columns: Mapping[str, int]
) -> tuple[PlainRecords, BadLines]:
    """The records of so many lines, each ended by a line feed, and the lines that are none; blank ones are neither.

    `columns` says in which cell each column stands.
    """
    from queryveil.log.formats import _delimited_kernel

    data = np.frombuffer(content, np.uint8)
    starts, ends, cells = np.empty(lines, np.int64), np.empty((width, lines), np.int64), np.empty(lines, np.int64)
    needed, is_read = np.zeros(width, np.bool_), np.zeros(width, np.bool_)
    needed[[columns[name] for name in NEEDED]] = True
    is_read[list(columns.values())] = True
    _delimited_kernel.cut(data, ord(separator), needed, is_read, LONGEST_FIELD, starts, ends, cells)
    whole: Flags = cells == width
    good = slice(None) if whole.all() else whole

    def column(name: str) -> Spans:
        place = columns[name]
        begins = starts[good] if place == 0 else ends[place - 1][good] + 1
        return Spans(data, begins, ends[place][good])

    texts = {name: column(name) for name in columns if COLUMNS.get(name, pl.String()) == pl.String()}
    times, ranks, kept = None, None, np.ones(len(texts["user"]), np.bool_)
    if "time" in columns:
        times, kept = moments(column("time"))
    if "rank" in columns:
        written = column("rank").series().alias("rank").to_frame()
        ranks = written.select(rank("rank")).to_series()
        kept = kept & ~((written["rank"] != "") & ranks.is_null()).to_numpy()
    records = PlainRecords(texts, times, ranks)
    if not kept.all():
        records = records.gather(kept)
    is_record = np.zeros(lines, np.bool_)
    is_record[good] = kept
    wrong = np.flatnonzero(~is_record & (cells != 0))
    return records, BadLines(wrong, Spans(data, starts[wrong], np.append(starts[1:], len(data))[wrong] - 1))


def moments(texts: Spans) -> tuple[Longs, Flags]:
    """Microseconds since 1970 of times in ISO 8601, `NO_TIME` for an empty text, and which texts are neither."""
    from queryveil.log.formats import _bytes_kernel

    times, known = np.full(len(texts), NO_TIME), np.empty(len(texts), np.bool_)
    kinds = np.full(len(texts), _bytes_kernel.TEXT, np.uint8)
    _bytes_kernel.moments(texts.data, texts.starts, texts.stops, kinds, times, known)
    known |= texts.starts == texts.stops
    rest = np.flatnonzero(~known)
    if len(rest):
        others = texts.gather(rest).series().alias("time").to_frame().select(iso_time("time")).to_series()
        times[rest] = others.to_physical().fill_null(NO_TIME).to_numpy()
        known[rest] = others.is_not_null().to_numpy()
    return times, known

"""Texts as places in shared bytes, so that millions of them need no object each and are copied only where they stay.

>>> spans = Spans.of(pl.Series(["tulips", "", "roses"]))
>>> len(spans), spans[1:].series().to_list(), spans[2]
(3, ['', 'roses'], b'roses')
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, overload

import numpy as np
import numpy.typing as npt
import polars as pl

if TYPE_CHECKING:
    from queryveil.arrays import Flags, Longs

Bytes: TypeAlias = npt.NDArray[np.uint8]
NEWLINE = 10
NO_TIME = int(np.iinfo(np.int64).min)
"""Stands for no time where times are microseconds since 1970."""


@dataclass(frozen=True, eq=False)
class Spans(Sequence[bytes]):
    """Text i is `data[starts[i]:stops[i]]`. The bytes are never written to."""

    data: Bytes
    starts: Longs
    stops: Longs

    @classmethod
    def of(cls, texts: pl.Series) -> Spans:
        """The bytes of texts, none of them null, one behind the other."""
        if not len(texts):
            return cls.nothing()
        text = pl.lit(texts)
        found = pl.select(lengths=text.str.len_bytes().implode(), joined=text.str.join("").cast(pl.Binary))
        return cls.of_lengths(found["joined"].item(), found["lengths"].item().to_numpy())

    @classmethod
    def of_lines(cls, content: bytes) -> Spans:
        """The lines of some bytes that end with a line feed, without it."""
        data = np.frombuffer(content, np.uint8)
        stops = np.flatnonzero(data == NEWLINE)
        return cls(data, np.append(0, stops[:-1] + 1)[: len(stops)], stops)

    @classmethod
    def of_lengths(cls, content: bytes, lengths: npt.ArrayLike) -> Spans:
        """Texts of these lengths that lie one behind the other."""
        stops = np.cumsum(lengths, dtype=np.int64)
        return cls(np.frombuffer(content, np.uint8), np.append(0, stops[:-1])[: len(stops)], stops)

    @classmethod
    def nothing(cls) -> Spans:
        """No texts."""
        return cls(np.frombuffer(b"", np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int64))

    @classmethod
    def concat(cls, parts: Sequence[Spans]) -> Spans:
        """The texts of all parts."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls.nothing()
        before = np.cumsum([0, *(len(part.data) for part in parts[:-1])])
        starts, stops = (
            np.concatenate([getattr(part, name) + shift for part, shift in zip(parts, before, strict=True)])
            for name in ("starts", "stops")
        )
        return cls(np.frombuffer(b"".join(part.data.data for part in parts), np.uint8), starts, stops)

    def __len__(self) -> int:
        return len(self.starts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]  # as of any sequence that is compared by what it holds

    @overload
    def __getitem__(self, chosen: int) -> bytes: ...

    @overload
    def __getitem__(self, chosen: slice) -> Spans: ...

    def __getitem__(self, chosen: int | slice) -> bytes | Spans:
        if isinstance(chosen, slice):
            return Spans(self.data, self.starts[chosen], self.stops[chosen])
        return self.data[self.starts[chosen] : self.stops[chosen]].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        content = self.data.data
        for start, stop in zip(self.starts.tolist(), self.stops.tolist(), strict=True):
            yield bytes(content[start:stop])

    def gather(self, chosen: Flags | Longs) -> Spans:
        """Some of the texts."""
        return Spans(self.data, self.starts[chosen], self.stops[chosen])

    def trimmed(self) -> Spans:
        """The same texts without the bytes before the first of them and behind the last; they lie in order."""
        if not len(self):
            return Spans.nothing()
        begin, end = int(self.starts[0]), int(self.stops[-1])
        return Spans(self.data[begin:end], self.starts - begin, self.stops - begin)

    @property
    def lengths(self) -> Longs:
        """How many bytes each text has."""
        lengths: Longs = self.stops - self.starts
        return lengths

    def joined(self, between: bytes = b"") -> bytes:
        """All texts one behind the other, each followed by the same bytes."""
        from queryveil.log import _spans_kernel

        out = np.empty(int(self.lengths.sum()) + len(between) * len(self), np.uint8)
        _spans_kernel.join(self.data, self.starts, self.stops, np.frombuffer(between, np.uint8), out)
        return out.tobytes()

    def series(self) -> pl.Series:
        """The texts as a column; they are UTF-8."""
        if not len(self):
            return pl.Series(dtype=pl.String)
        joined = self.joined(b"\n")
        if joined.count(b"\n") > len(self) or b"\r" in joined:  # a reader of lines would cut or shorten them
            return pl.Series([text.decode() for text in self], dtype=pl.String)
        return pl.read_lines(joined, name="text")["text"].alias("")

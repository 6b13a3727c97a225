"""JSON in whole columns: values under given keys of many objects at once, without an object in Python for any of them.

`Pieces` are parts of some bytes, such as the lines of a block or the elements of arrays; `find` says for each which
values stand at which paths, and each of those is pieces again: their texts, their times, what is inside of them. A
piece is judged by itself, so that no line changes how another is read.

Cost: one compiled pass over the bytes, some 400 MB a second; `_json_kernel` holds it.

>>> pieces, numbers = Pieces.lines_of(Block(7, b'{"a":{"b":"x"},"c":1}' + bytes([10]) + b'{"c":', {}))
>>> found = find(pieces, {"b": ("a", "b"), "c": ("c",)})
>>> found.states.tolist(), found["b"].texts().to_list(), found["c"].texts(numbers=True).to_list()
([0, 1], ['x', None], ['1', None])
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from queryveil.errors import FormatError
from queryveil.log.formats import _json_kernel as kernel
from queryveil.log.formats.format import iso_time
from queryveil.log.source import Block

TEXT = "text"
_NEWLINE, _RETURN = 10, 13


@dataclass(frozen=True)
class Pieces:
    """Parts of some bytes, each with its kind; one of the kind ABSENT is nowhere."""

    data: npt.NDArray[np.uint8]
    starts: npt.NDArray[np.int64]
    stops: npt.NDArray[np.int64]
    kinds: npt.NDArray[np.uint8]  # of `_json_kernel`

    def __len__(self) -> int:
        return len(self.starts)

    @classmethod
    def of(cls, data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64]) -> Pieces:
        """Texts without escapes."""
        return cls(data, starts, stops, np.full(len(starts), kernel.TEXT, np.uint8))

    @classmethod
    def lines_of(cls, block: Block) -> tuple[Pieces, npt.NDArray[np.int64]]:
        """The lines of a block that are not blank, without their line feeds, and their numbers in the file."""
        data = np.frombuffer(block.data, np.uint8)
        ends = np.flatnonzero(data == _NEWLINE)
        stops = ends if block.data.endswith(b"\n") or not block.data else np.append(ends, len(data))
        starts = np.append(0, stops[:-1] + 1)[: len(stops)]
        written = np.flatnonzero(stops - starts > (data[starts] == _RETURN))
        return cls.of(data, starts[written], stops[written]), written + block.first_line

    def __getitem__(self, chosen: npt.NDArray[np.bool_] | npt.NDArray[np.int64]) -> Pieces:
        return Pieces(self.data, self.starts[chosen], self.stops[chosen], self.kinds[chosen])

    def or_else(self, other: Pieces) -> Pieces:
        """These, and where there is none, or a null, the other ones."""
        mine = ~self._is_one_of(kernel.ABSENT, kernel.NULL)
        starts, stops = np.where(mine, self.starts, other.starts), np.where(mine, self.stops, other.stops)
        return Pieces(self.data, starts, stops, np.where(mine, self.kinds, other.kinds))

    def has_text(self) -> npt.NDArray[np.bool_]:
        """Which pieces are texts."""
        return self._is_one_of(kernel.TEXT, kernel.ESCAPED_TEXT)

    def _is_one_of(self, *kinds: int) -> npt.NDArray[np.bool_]:
        chosen = np.zeros(kernel.ARRAY + 1, np.bool_)
        chosen[list(kinds)] = True
        return np.asarray(chosen[self.kinds])

    def read(self, *, numbers: bool = False, objects: bool = False) -> Pieces:
        """The texts with their escapes read, each on a line of new bytes; what is not wanted is absent there."""
        more = [kernel.WHOLE] * numbers + [kernel.OBJECT] * objects
        taken = self._is_one_of(kernel.TEXT, kernel.ESCAPED_TEXT, *more)
        starts, stops = np.where(taken, self.starts, 0), np.where(taken, self.stops, 0)
        out = np.empty(int((stops - starts).sum()) + len(self) + 1, np.uint8)
        ends, odd = np.empty(len(self), np.int64), np.zeros(len(self), np.bool_)
        size = kernel.copy_texts(self.data, starts, stops, self.kinds == kernel.ESCAPED_TEXT, out, ends, odd)
        return Pieces.on_lines(out[:size], ends, odd, taken)

    @classmethod
    def on_lines(
        cls,
        made: npt.NDArray[np.uint8],
        ends: npt.NDArray[np.int64],
        odd: npt.NDArray[np.bool_],
        present: npt.NDArray[np.bool_],
    ) -> Pieces:
        """Texts that a kernel wrote one after the other, a line feed after each; odd ones have line ends inside."""
        made.flags.writeable = False  # as bytes of a file are: one compiled kernel serves both
        kinds = np.where(present, np.where(odd, kernel.ESCAPED_TEXT, kernel.TEXT), kernel.ABSENT)
        return cls(made, np.append(0, ends[:-1] + 1)[: len(ends)], ends, kinds.astype(np.uint8))

    def column(self) -> pl.Series:
        """The texts of pieces that lie on lines, null where there is none."""
        if not len(self):
            return pl.Series(dtype=pl.String)
        odd = np.flatnonzero(self.kinds == kernel.ESCAPED_TEXT).tolist()  # with line ends inside
        content = self.data.copy() if odd else self.data
        for row in odd:
            content[self.starts[row] : self.stops[row]] = ord("?")
        said = pl.read_lines(content.tobytes(), name="text")["text"]
        if odd:
            texts = [self.data[self.starts[row] : self.stops[row]].tobytes().decode() for row in odd]
            said = said.scatter(odd, texts)
        present = pl.Series(self.kinds != kernel.ABSENT)
        return said if present.all() else pl.select(pl.when(present).then(said)).to_series()

    def texts(self, *, numbers: bool = False) -> pl.Series:
        """What the texts say, null where there is none; whole numbers as text where they are wanted."""
        return self.read(numbers=numbers).column()

    def times(self) -> pl.Series:
        """ISO 8601 texts as UTC, as `iso_time` reads them; null where a text is none."""
        micros, known = np.zeros(len(self), np.int64), np.zeros(len(self), np.bool_)
        plain = self.kinds == kernel.TEXT
        kernel.moments(self.data, self.starts, np.where(plain, self.stops, self.starts), micros, known)
        made = pl.select(pl.when(pl.Series(known)).then(pl.Series(micros).cast(pl.Datetime("us")))).to_series()
        rest = np.flatnonzero(~known & self.has_text())
        if len(rest):
            others = self[rest].texts().alias("time").to_frame().select(iso_time("time"))["time"]
            made = made.scatter(rest, others)
        return made


@dataclass(frozen=True)
class Found:
    """What stands where, for each piece that was looked into."""

    pieces: Pieces
    states: npt.NDArray[np.uint8]
    """GOOD, NO_OBJECT or KEY_TWICE (`_json_kernel`)."""
    values: Mapping[str, Pieces]

    def __getitem__(self, name: str) -> Pieces:
        return self.values[name]


def find(
    pieces: Pieces,
    paths: Mapping[str, Sequence[str]],
    *,
    below: str | None = None,
    outside: Sequence[str] = (),
) -> Found:
    """For each piece, an object, the values at these paths; `""` stands for any key.

    A path goes from the outermost object to the value. With `below`, it is instead the end of a way that begins with
    that key and has none of the keys `outside`, and all that is found is `TEXT`: the first text at the first such path.
    """
    keys = list(dict.fromkeys([*(key for path in paths.values() for key in path if key), below or "", *outside]))
    encoded = [key.encode() for key in keys]
    codes = {key: code for code, key in enumerate(keys)} | {"": kernel.ANY}
    table = np.full((len(paths), max(map(len, paths.values()))), kernel.UNKNOWN, np.int64)
    for row, path in enumerate(paths.values()):
        table[row, : len(path)] = [codes[key] for key in path]
    names = [TEXT] if below else list(paths)
    shape = (len(pieces), len(names))
    kinds, froms, tos = np.zeros(shape, np.uint8), np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    states = np.empty(len(pieces), np.uint8)
    kernel.locate(
        pieces.data,
        pieces.starts,
        pieces.stops,
        np.frombuffer(b"".join(encoded), np.uint8),
        np.cumsum([len(key) for key in encoded]),
        table,
        np.array([len(path) for path in paths.values()]),
        np.full(len(paths), below is None),
        codes.get(below or "", kernel.UNKNOWN),
        np.array([key in outside for key in keys]),
        kinds,
        froms,
        tos,
        states,
    )
    kinds[states != kernel.GOOD] = kernel.ABSENT
    columns = (np.ascontiguousarray(part.T) for part in (froms, tos, kinds))
    values = zip(*columns, strict=True)
    return Found(pieces, states, {name: Pieces(pieces.data, *each) for name, each in zip(names, values, strict=True)})


def elements_of(arrays: Pieces) -> tuple[Pieces, npt.NDArray[np.int64]]:
    """The elements of all arrays, and the number of the array that each is of; what is no array has none."""
    is_array = arrays.kinds == kernel.ARRAY
    starts, stops = np.where(is_array, arrays.starts, 0), np.where(is_array, arrays.stops, 1)
    starts, stops, places = starts[is_array], stops[is_array], np.flatnonzero(is_array)
    nothing = np.empty(0, np.int64)
    size = kernel.elements(arrays.data, starts, stops, True, nothing, nothing, nothing)
    if size < 0:
        raise FormatError("quotes or brackets are not balanced, so that it is no JSON. Fetch it again.")
    froms, tos, owners = (np.empty(size, np.int64) for _ in range(3))
    kernel.elements(arrays.data, starts, stops, False, froms, tos, owners)
    made = Pieces(arrays.data, froms, tos, np.full(size, kernel.TEXT, np.uint8))
    return made, places[owners]

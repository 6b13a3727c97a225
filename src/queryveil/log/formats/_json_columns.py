"""JSON in whole columns: values under given keys of many objects at once, without an object in Python for any of them.

`Pieces` are parts of some bytes, such as the lines of a block or the elements of arrays; `find` says for each which
values stand at which paths, and each of those is pieces again: their texts, their times, what is inside of them. A
piece is judged by itself, so that no line changes how another is read.

Cost: one compiled pass over the bytes, whatever the number of keys; `_json_kernel` holds it.

>>> pieces, numbers = Pieces.lines_of(Block(7, b'{"a":{"b":"x"},"c":1}' + bytes([10]) + b'{"c":', {}))
>>> found = find(pieces, {"b": ("a", "b"), "c": ("c",)})
>>> found.states.tolist(), found["b"].texts().to_list(), found["c"].texts(numbers=True).to_list()
([0, 1], ['x', None], ['1', None])
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt
import polars as pl

from queryveil.errors import FormatError
from queryveil.log.formats import _bytes_kernel as of_bytes
from queryveil.log.formats import _json_kernel as kernel
from queryveil.log.formats import _line_kernel as of_lines
from queryveil.log.formats.format import iso_time
from queryveil.log.source import Block, is_utf8

TEXT = "text"
_NEWLINE, _RETURN = 10, 13
_MOST_DIGITS = 18  # of a number of 64 bits, whatever its sign
_MOST_DIGITS_OF_A_RANK = 10
_Progress = frozenset[tuple[int, int]]


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
        if not other.kinds.any():
            return self
        mine = ~self.is_any_of(kernel.ABSENT, kernel.NULL)
        starts, stops = np.where(mine, self.starts, other.starts), np.where(mine, self.stops, other.stops)
        return Pieces(self.data, starts, stops, np.where(mine, self.kinds, other.kinds))

    def has_text(self) -> npt.NDArray[np.bool_]:
        """Which pieces are texts."""
        return self.is_any_of(kernel.TEXT, kernel.ESCAPED_TEXT)

    def is_any_of(self, *kinds: int) -> npt.NDArray[np.bool_]:
        """Which pieces are of one of these kinds."""
        return np.asarray(_chosen(kinds)[self.kinds])

    def read(self, *more: int) -> Pieces:
        """The texts, and pieces of more kinds as they are, each on a line of new bytes; the others are absent there."""
        wanted = _chosen((kernel.TEXT, kernel.ESCAPED_TEXT, *more))
        room = int(np.dot(self.stops - self.starts, wanted[self.kinds])) + len(self) + of_bytes.ROOM
        out, ends, made = np.empty(room, np.uint8), np.empty(len(self), np.int64), np.empty(len(self), np.uint8)
        size = of_bytes.copy_texts(self.data, self.starts, self.stops, self.kinds, wanted, out, ends, made)
        return Pieces.on_lines(out[:size], ends, made)

    @classmethod
    def on_lines(cls, made: npt.NDArray[np.uint8], ends: npt.NDArray[np.int64], kinds: npt.NDArray[np.uint8]) -> Pieces:
        """Texts that a kernel wrote one after the other, a line feed after each; escaped are those with line ends."""
        made.flags.writeable = False  # as bytes of a file are: one compiled kernel serves both
        return cls(made, np.append(0, ends[:-1] + 1)[: len(ends)], ends, kinds)

    def column(self) -> pl.Series:
        """The texts of pieces that lie on lines, null where there is none."""
        if not self.kinds.any():
            return pl.Series([None], dtype=pl.String).new_from_index(0, len(self))
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
        return self.read(*[kernel.WHOLE] * numbers).column() if self.kinds.any() else self.column()

    def without_empty(self) -> Pieces:
        """These, and those of no length absent."""
        kinds = np.where(self.stops > self.starts, self.kinds, kernel.ABSENT).astype(np.uint8)
        return Pieces(self.data, self.starts, self.stops, kinds)

    def hold(self, word: bytes) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Which pieces hold a word of small letters, in whatever case, and which are of ASCII alone."""
        held, is_ascii = np.empty(len(self), np.bool_), np.empty(len(self), np.bool_)
        of_lines.hold_word(self.data, self.starts, self.stops, np.frombuffer(word, np.uint8), held, is_ascii)
        return held, is_ascii

    def times(self, *, milliseconds: bool = False) -> pl.Series:
        """ISO 8601 texts as UTC, as `iso_time` reads them, null where a text is none; numbers of 1970, where wanted."""
        made = self.moments(of_bytes.moments, iso_time)
        if milliseconds and (whole := np.flatnonzero(self.kinds == kernel.WHOLE)).size:
            values, _ = self[whole].whole_numbers(kernel.WHOLE)
            made = made.scatter(whole, pl.Series(values * 1000).cast(pl.Datetime("us")))
        return made

    def moments(self, read: Callable[..., None], read_others: Callable[[str], pl.Expr]) -> pl.Series:
        """The times that a kernel reads, and those of all texts that it does not know as an expression reads them."""
        micros, known = np.zeros(len(self), np.int64), np.zeros(len(self), np.bool_)
        if self.kinds.any():
            read(self.data, self.starts, self.stops, self.kinds, micros, known)
        made, is_known = pl.Series(micros).cast(pl.Datetime("us")), pl.Series(known)
        made = made if is_known.all() else pl.select(pl.when(is_known).then(made)).to_series()
        rest = np.flatnonzero(~known & self.has_text())
        if len(rest):
            others = self[rest].texts().alias("time").to_frame().select(read_others("time").alias("time"))["time"]
            made = made.scatter(rest, others)
        return made

    def whole_numbers(self, *kinds: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_]]:
        """The numbers that up to eighteen digits of these kinds say, and where there are such."""
        values, known = np.zeros(len(self), np.int64), np.zeros(len(self), np.bool_)
        of_bytes.whole_numbers(self.data, self.starts, self.stops, self.kinds, _chosen(kinds), values, known)
        return values, known

    def ranks(self) -> pl.Series:
        """Whole numbers, or texts of digits, as ranks, as `rank` reads them; null where there is none."""
        places, is_one = self.whole_numbers(kernel.TEXT, kernel.WHOLE)
        is_one &= (self.stops - self.starts <= _MOST_DIGITS_OF_A_RANK) & (places < 1 << 32)
        made = pl.Series(places.astype(np.uint32))
        return pl.select(pl.when(pl.Series(is_one)).then(made)).to_series()


def _chosen(kinds: Sequence[int]) -> npt.NDArray[np.bool_]:
    chosen = np.zeros(kernel.ARRAY + 1, np.bool_)
    chosen[list(kinds)] = True
    return chosen


@dataclass(frozen=True)
class Found:
    """What stands where, for each piece that was looked into."""

    pieces: Pieces
    states: npt.NDArray[np.uint8]
    """GOOD, NO_OBJECT or KEY_TWICE (`_json_kernel`)."""
    values: Mapping[str, Pieces]

    def __getitem__(self, name: str) -> Pieces:
        return self.values[name]

    def only(self, chosen: npt.NDArray[np.bool_]) -> Found:
        """What was found in some of the pieces."""
        values = {name: value[chosen] for name, value in self.values.items()}
        return Found(self.pieces[chosen], self.states[chosen], values)


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
    of_paths = (key for path in paths.values() for key in path if key)
    keys = list(dict.fromkeys([*of_paths, *([] if below is None else [below]), *outside]))
    encoded = [key.encode() for key in keys]
    steps, finds = _scopes(tuple(keys), tuple(map(tuple, paths.values())), below, tuple(outside))
    joined, ends = np.frombuffer(b"".join(encoded), np.uint8), np.cumsum([len(key) for key in encoded])
    places = np.full(1 << (2 * len(keys)).bit_length(), -1)
    kernel.fill_places(joined, ends, places)
    names = [TEXT] if below else list(paths)
    shape = (len(names), len(pieces))
    kinds, froms, tos = np.zeros(shape, np.uint8), np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    states = np.empty(len(pieces), np.uint8)
    kernel.locate(
        *(pieces.data, pieces.starts, pieces.stops),
        *(joined, ends, places, steps, finds, below is not None),
        *(kinds, froms, tos, states),
    )
    if states.any():
        kinds[:, states != kernel.GOOD] = kernel.ABSENT
    values = zip(froms, tos, kinds, strict=True)
    return Found(pieces, states, {name: Pieces(pieces.data, *each) for name, each in zip(names, values, strict=True)})


@lru_cache(maxsize=16)
def _scopes(
    keys: tuple[str, ...], paths: tuple[tuple[str, ...], ...], below: str | None, outside: tuple[str, ...]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """For each scope and each key, then any other key and a place in an array: the scope it leads to, the value found.

    A scope is how far the paths have come that can still be gone on with.
    """
    codes = {key: code for code, key in enumerate(keys)}
    begun: _Progress = frozenset((path, 0) for path in range(len(paths)))
    order: list[_Progress | None] = [begun if below is None else None]  # None: not below the key yet
    numbers = {order[0]: kernel.START}

    def step(moved: Sequence[tuple[int, int]]) -> tuple[int, int]:
        ended = [path for path, at in moved if at + 1 == len(paths[path])]
        scope = frozenset((path, at + 1) for path, at in moved if at + 1 < len(paths[path]))
        if below is None and not scope:
            number = kernel.DEAD
        elif (number := numbers.setdefault(scope, len(order) + 1)) == len(order) + 1:
            order.append(scope)
        return number, min(ended, default=kernel.NOTHING)

    rows = []
    for scope in order:  # which grows
        by_key: dict[str, list[tuple[int, int]]] = {}
        for path, at in sorted(begun if scope is None else scope if below is None else scope | begun):
            by_key.setdefault(paths[path][at], []).append((path, at))
        to, found = np.full((2, len(keys) + 2), [[kernel.DEAD], [kernel.NOTHING]])
        if scope is None:
            to[codes[below or ""]], found[codes[below or ""]] = step(by_key.get(below or "", []))
        else:
            of_any = by_key.pop("", [])
            if of_any or below is not None:
                to[:], found[:] = step(of_any)
                to[-1], found[-1] = (kernel.DEAD if below is None else step([])[0]), kernel.NOTHING
            for key, moved in by_key.items():
                to[codes[key]], found[codes[key]] = step([*moved, *of_any])
            for key in outside:
                to[codes[key]], found[codes[key]] = kernel.DEAD, kernel.NOTHING
        rows.append((to, found))
    cells = len(keys) + 2
    rows.insert(kernel.DEAD, (np.full(cells, kernel.DEAD), np.full(cells, kernel.NOTHING)))
    return np.array([to for to, _ in rows]), np.array([found for _, found in rows])


@dataclass(frozen=True)
class PlainLines:
    """Lines of a block whose values are of the kinds that were expected, and the others as they are."""

    numbers: npt.NDArray[np.int64]
    found: Found
    others: list[tuple[int, bytes]]


def plain_lines(
    block: Block,
    paths: Mapping[str, Sequence[str]],
    kinds: Mapping[str, Sequence[int]],
    *,
    below: Mapping[str, int] | None = None,
    ascii_only: Sequence[str] = (),
) -> PlainLines:
    """Look into each line of a block, and set apart those for a slower reader that can tell what is wrong with them.

    Plain is an object in which no value is twice and those of `kinds` are of the given kinds, null or absent: a whole
    number of at most eighteen digits, an array that is a list of texts as we would write it. Their text is then what
    stands there. Numbers may have to be at least 0 and `below` a limit, texts `ascii_only`.
    """
    pieces, numbers = Pieces.lines_of(block)
    found = find(pieces, paths)
    odd = found.states != kernel.GOOD
    if block.broken:
        odd |= np.isin(numbers, list(block.broken))
    for name, known in kinds.items():
        value = found[name]
        if not value.kinds.any():
            continue
        odd |= ~value.is_any_of(kernel.ABSENT, kernel.NULL, *known)
        if kernel.WHOLE in known and (whole := np.flatnonzero(value.kinds == kernel.WHOLE)).size:
            begin, end = value.starts[whole], value.stops[whole]
            minus_zero = (end - begin == 2) & (value.data[begin] == ord("-")) & (value.data[end - 1] == ord("0"))
            odd[whole] |= (end - begin > _MOST_DIGITS) | minus_zero
            if name in (below or {}):
                values, good = value[whole].whole_numbers(kernel.WHOLE)
                odd[whole] |= ~good | (values >= (below or {})[name])
        if name in ascii_only:
            odd |= ~value.hold(b"x")[1]
        if kernel.ARRAY in known and (value.kinds == kernel.ARRAY).any():
            good = np.empty(len(value), np.bool_)
            kernel.compact_lists(value.data, value.starts, value.stops, value.kinds, good)
            odd |= (value.kinds == kernel.ARRAY) & ~good
    if not odd.any():
        return PlainLines(numbers, found, [])
    others = np.flatnonzero(odd).tolist()
    lines = [block.data[pieces.starts[each] : pieces.stops[each]] for each in others]
    return PlainLines(numbers[~odd], found.only(~odd), list(zip(numbers[others].tolist(), lines, strict=True)))


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


def percent_decoded(
    data: npt.NDArray[np.uint8], starts: npt.NDArray[np.int64], stops: npt.NDArray[np.int64], *, strict: bool = True
) -> tuple[pl.Series, npt.NDArray[np.bool_]]:
    """Percent-encoded values as text, null where one begins at 0, and which of them are UTF-8."""
    out = np.empty(int((stops - starts).sum()) + len(starts) + 1, np.uint8)
    ends, made, good = np.empty(len(starts), np.int64), np.empty(len(starts), np.uint8), np.empty(len(starts), np.bool_)
    size = of_lines.decode_percent(data, starts, stops, starts > 0, strict, out, ends, made, good)
    if not is_utf8(out[:size].tobytes()):
        begin = 0
        for row, end in enumerate(ends.tolist()):
            if not is_utf8(out[begin:end].tobytes()):
                good[row], out[begin:end] = False, ord("?")
            begin = end + 1
    return Pieces.on_lines(out[:size], ends, made).column(), good

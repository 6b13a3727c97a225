"""Users, texts and category paths as numbers, through keyed fingerprints; see `_names_kernel.py`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import polars as pl

from queryveil.arrays import Flags, Ints, Words
from queryveil.log.spans import Spans

FIRST_ROWS = 1 << 10


@dataclass(frozen=True)
class Key:
    """A secret key for fingerprints: 128 bits."""

    low: np.uint64
    high: np.uint64


def fingerprints(texts: pl.Series | Spans, key: Key) -> Words:
    """One fingerprint for each text."""
    from queryveil.mechanisms.stream import _names_kernel

    spans = texts if isinstance(texts, Spans) else Spans.of(texts)
    out = np.empty(len(spans), np.uint64)
    _names_kernel.fingerprints(spans.data, spans.starts, spans.stops, key.low, key.high, out)
    return out


def fingerprints_of_pairs(first: Words, second: Words, key: Key) -> Words:
    """One fingerprint for each pair."""
    from queryveil.mechanisms.stream import _names_kernel

    out = np.empty(len(first), np.uint64)
    _names_kernel.fingerprints_of_pairs(first, second, key.low, key.high, out)
    return out


def pseudonyms(numbers: Words) -> pl.Series:
    """`u` and sixteen hexadecimal digits for each number."""
    from queryveil.mechanisms.stream import _names_kernel

    if not len(numbers):
        return pl.Series("user", [], dtype=pl.String)
    text = np.empty(18 * len(numbers), np.uint8)
    _names_kernel.write_pseudonyms(numbers, text)
    return pl.select(user=pl.lit(text[:-1].tobytes().decode()).str.split("\n").explode()).to_series()


class Numbers:
    """A dense number for each fingerprint, in order of appearance."""

    def __init__(self, known: Words | None = None) -> None:
        self.known: Words = np.zeros(0, np.uint64)
        self.count = 0
        self.keys: Words = np.zeros(FIRST_ROWS, np.uint64)
        self.numbers: Ints = np.zeros(FIRST_ROWS, np.int32)
        if known is not None:
            self.known, self.count = known, len(known)
            self.make_room(0)

    def make_room(self, more: int) -> None:
        """Room for `more` new numbers."""
        from queryveil.mechanisms.stream import _names_kernel

        needed = self.count + more
        if needed > len(self.known):
            room = max(needed, 2 * len(self.known), FIRST_ROWS)
            self.known = np.concatenate([self.known[: self.count], np.zeros(room - self.count, np.uint64)])
        if 2 * needed > len(self.keys) or not self.keys.any():
            slots = max(1 << (2 * needed).bit_length(), FIRST_ROWS)
            self.keys, self.numbers = np.zeros(slots, np.uint64), np.zeros(slots, np.int32)
            _names_kernel.fill_table(self.keys, self.numbers, self.known[: self.count])

    def of(self, wanted: Words) -> Ints:
        """The numbers of these fingerprints, new ones included."""
        from queryveil.mechanisms.stream import _names_kernel

        out, done = np.empty(len(wanted), np.int32), 0
        while done < len(wanted):
            done, self.count = _names_kernel.number(self.keys, self.numbers, self.known, self.count, wanted, done, out)
            if done < len(wanted):
                self.make_room(max(self.count, FIRST_ROWS))
        return out

    def keep_only(self, used: Flags) -> Ints:
        """Forget the others; returns the new number of each old one, −1 for forgotten."""
        new = np.where(used, np.cumsum(used) - 1, -1).astype(np.int32)
        self.known = self.known[: self.count][used]
        self.count = len(self.known)
        self.keys = np.zeros(0, np.uint64)
        self.make_room(0)
        return new


class CategoryNumbers(Numbers):
    """Numbers for category paths cut to a depth; 0 is the root."""

    def __init__(self, separator: str, depth: int, key: Key, known: Words | None = None) -> None:
        super().__init__(np.ones(1, np.uint64) if known is None else known)
        self.separator = np.frombuffer(separator.encode(), np.uint8)
        self.depth, self.key = depth, key

    def of_paths(self, paths: Spans) -> tuple[Ints, Ints, Ints]:
        """The number of each path, and parent and depth of every category that is new, in the order of its number."""
        from queryveil.mechanisms.stream import _names_kernel

        out, done = np.empty(len(paths), np.int32), 0
        before = self.count
        parents, depths = np.zeros(len(self.known), np.int32), np.zeros(len(self.known), np.int32)
        levels = np.empty(self.depth, np.uint64)
        while done < len(paths):
            done, self.count = _names_kernel.number_paths(
                paths.data, paths.starts, paths.stops, self.separator, self.depth, self.key.low, self.key.high,
                self.keys, self.numbers, self.known, parents, depths, self.count, done, levels, out,
            )  # fmt: skip
            if done < len(paths):
                self.make_room(max(self.count, FIRST_ROWS) + self.depth)
                parents, depths = np.resize(parents, len(self.known)), np.resize(depths, len(self.known))
        return out, parents[before : self.count], depths[before : self.count]

    def cut(self, paths: pl.Series, levels: Ints) -> pl.Expr:
        """The column of these paths with each cut to its number of levels."""
        from queryveil.mechanisms.stream import _names_kernel

        spans = Spans.of(paths)
        characters = np.empty(len(spans), np.int64)
        _names_kernel.kept_characters(spans.data, spans.starts, spans.stops, self.separator, levels, characters)
        return pl.col(paths.name).str.head(pl.lit(pl.Series(characters)))

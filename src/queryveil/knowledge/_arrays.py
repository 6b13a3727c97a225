"""Lists of strings and lists of lists of integers, each as flat arrays that can be memory-mapped.

>>> Strings.of(["tea", "café"])[1], Lists.of([[1, 2], [], [3]])[2].tolist()
('café', [3])
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Ints = npt.NDArray[np.int32]
Floats = npt.NDArray[np.float64]


class Strings(Sequence[str]):
    """An immutable list of strings kept as one UTF-8 array, decoded when asked for."""

    __slots__ = ("_list", "offsets", "text")

    def __init__(self, text: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> None:
        self.text, self.offsets = text, offsets
        self._list: list[str] | None = None

    @classmethod
    def of(cls, strings: Iterable[str]) -> Strings:
        """Pack strings."""
        pieces = list(strings)
        whole = "".join(pieces)
        if whole.isascii():  # then characters and bytes are counted alike
            lengths = np.fromiter(map(len, pieces), np.int64, len(pieces))
        else:
            lengths = np.array([len(piece.encode("utf-8", "replace")) for piece in pieces], np.int64)
        offsets = np.zeros(len(pieces) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        return cls(np.frombuffer(whole.encode("utf-8", "replace"), np.uint8), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self.to_list()[index]
        if self._list is not None:
            return self._list[index]
        place = range(len(self))[index]
        return self.text[self.offsets[place] : self.offsets[place + 1]].tobytes().decode()

    def to_list(self) -> list[str]:
        """All strings, decoded once."""
        if self._list is None:
            whole = self.text.tobytes()
            ends = self.offsets.tolist()
            if whole.isascii():  # then characters and bytes are counted alike, and one decoding does
                decoded = whole.decode("ascii")
                self._list = [decoded[a:b] for a, b in pairwise(ends)]
            else:
                self._list = [whole[a:b].decode() for a, b in pairwise(ends)]
        return self._list

    def take(self, chosen: npt.NDArray[np.int64]) -> Strings:
        """The chosen strings, in the given order."""
        lengths = np.diff(self.offsets)[chosen]
        offsets = np.zeros(len(chosen) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        spots = np.arange(offsets[-1]) + np.repeat(self.offsets[:-1][chosen] - offsets[:-1], lengths)
        return Strings(self.text[spots], offsets)


@dataclass(frozen=True, slots=True)
class Lists:
    """A list of int32 lists, as one array of values and the offsets where each list starts."""

    offsets: npt.NDArray[np.int64]
    values: Ints

    @classmethod
    def of(cls, lists: Iterable[Iterable[int]]) -> Lists:
        """Pack lists."""
        kept = [list(one) for one in lists]
        offsets = np.zeros(len(kept) + 1, np.int64)
        np.cumsum([len(one) for one in kept], out=offsets[1:])
        return cls(offsets, np.fromiter((v for one in kept for v in one), np.int32, int(offsets[-1])))

    @classmethod
    def of_pairs(cls, owners: Ints, values: Ints, count: int) -> Lists:
        """Group values by owner (0 … count−1), keeping their order within an owner."""
        offsets = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(owners, minlength=count), out=offsets[1:])
        return cls(offsets, values[np.argsort(owners, kind="stable")])

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> Ints:
        return self.values[self.offsets[index] : self.offsets[index + 1]]

    @property
    def lengths(self) -> Ints:
        """How long each list is."""
        return np.diff(self.offsets).astype(np.int32)

    def owners(self) -> Ints:
        """For each value the number of its list."""
        return np.repeat(np.arange(len(self), dtype=np.int32), np.diff(self.offsets))

    def gather(self, chosen: Array) -> Lists:
        """The chosen lists, in the given order."""
        lengths = np.diff(self.offsets)[chosen]
        offsets = np.zeros(len(chosen) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        spots = np.arange(offsets[-1]) + np.repeat(self.offsets[:-1][chosen] - offsets[:-1], lengths)
        return Lists(offsets, self.values[spots])

    def restrict(self, chosen: Array, new_numbers: Ints) -> Lists:
        """The chosen lists with values renumbered; values whose new number is −1 are left out."""
        picked = self.gather(chosen)
        values = new_numbers[picked.values]
        keep = values >= 0
        return Lists.of_pairs(picked.owners()[keep], values[keep], len(chosen))

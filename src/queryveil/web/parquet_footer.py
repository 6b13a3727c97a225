"""The footer of a Parquet file, read by ourselves: which columns there are, and how large they get once unpacked.

A server does not hand bytes of a stranger to a decoder that may panic or unpack without limit. The footer is plain
(never packed), written in Thrift's compact protocol, and small; this reads the few fields that matter and nothing else.
Its figures are claims of whoever made the file: `unpacked` refuses honest bombs before anything is unpacked,
and the worker's limit on memory stops those that lie. See https://parquet.apache.org/docs/file-format/metadata/.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from queryveil.errors import FormatError

MAGIC: Final = b"PAR1"
LARGEST_FOOTER: Final = 16 << 20
DEEPEST: Final = 16
TRUE, FALSE, BYTE, DOUBLE, BINARY, LIST, SET, STRUCT = 1, 2, 3, 7, 8, 9, 10, 12
WHOLE: Final = (4, 5, 6)
# Fields by number, as parquet.thrift numbers them.
SCHEMA, ROWS, ROW_GROUPS = 2, 3, 4
NAME, CHILDREN = 4, 5
COLUMNS, META_DATA, UNPACKED = 1, 3, 6


@dataclass(frozen=True)
class Footer:
    """What the file says about itself."""

    rows: int
    names: tuple[str, ...]
    unpacked: int
    """Bytes of all pages once unpacked; values that a dictionary repeats count once."""


def read_footer(path: Path) -> Footer:
    """The footer of a file, or `FormatError`, which tells nothing of its content."""
    try:
        return _understood(_Reader(_footer_bytes(path)).struct())
    except (IndexError, KeyError, TypeError, AttributeError, ValueError, OSError):
        raise FormatError("the file begins like Parquet but cannot be read as such.") from None


def _footer_bytes(path: Path) -> bytes:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(max(0, size - 8))
        tail = file.read(8)
        length = int.from_bytes(tail[:4], "little")
        if tail[4:] != MAGIC or not 0 < length <= min(LARGEST_FOOTER, size - 12):
            raise ValueError
        file.seek(size - 8 - length)
        return file.read(length)


def _understood(found: dict[int, Any]) -> Footer:
    names, left = [], 0
    for element in found[SCHEMA][1:]:  # the first is the root; the rest is the tree, depth first
        if left == 0:
            names.append(element[NAME].decode("utf-8", errors="replace"))
        left = max(0, left - 1) + (element.get(CHILDREN) or 0)
    sizes = [column[META_DATA][UNPACKED] for group in found[ROW_GROUPS] for column in group[COLUMNS]]
    if found[ROWS] < 0 or any(size < 0 for size in sizes):
        raise ValueError
    return Footer(rows=found[ROWS], names=tuple(names), unpacked=sum(sizes))


class _Reader:
    """Thrift's compact protocol: structs as dictionaries by field number. Reads forward only, so it always ends."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        if depth > DEEPEST:
            raise ValueError
        found: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else _zigzag(self._varint())
            kind = head & 15
            found[number] = kind == TRUE if kind in (TRUE, FALSE) else self._value(kind, depth)
        return found

    def _value(self, kind: int, depth: int) -> Any:
        if kind in WHOLE:
            return _zigzag(self._varint())
        if kind == BINARY:
            return self._bytes(self._varint())
        if kind == STRUCT:
            return self.struct(depth + 1)
        if kind in (LIST, SET):
            head = self._byte()
            count, inner = head >> 4, head & 15
            count = self._varint() if count == 15 else count
            if depth > DEEPEST or count > len(self._data) - self._at:  # an element takes a byte or more
                raise ValueError
            return [self._value(inner, depth + 1) for _ in range(count)]
        return self._bytes({TRUE: 1, FALSE: 1, BYTE: 1, DOUBLE: 8}[kind])

    def _bytes(self, count: int) -> bytes:
        if count > len(self._data) - self._at:
            raise ValueError
        self._at += count
        return self._data[self._at - count : self._at]

    def _byte(self) -> int:
        return self._bytes(1)[0]

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 70, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise ValueError


def _zigzag(value: int) -> int:
    return (value >> 1) ^ -(value & 1)

"""Bytes as lines, and a file of lines that may grow, as a source.

The position in a file is a number of bytes and a digest of the last bytes before it, so that a file that was replaced
or changed is refused instead of continued; also while it is being read.
"""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

import numpy as np

from queryveil.arrays import Longs
from queryveil.errors import RefusedError, Remedy, UsageError, reason_of
from queryveil.live.connector import READ_BYTES, Batch, Positions, RecordSource, new_run_needed
from queryveil.log.source import MAGIC_SIZE, compression_of
from queryveil.log.spans import Spans

REMEMBERED = 4096
POLL = 0.05
READ_AT_ONCE = 1 << 20
"""Bytes that a file or a pipe is asked for."""


def refuse_compressed(start: bytes, name: str) -> None:
    """Compressed bytes have no lines: nothing in them would be a record. They cannot be read on from a place either."""
    how = compression_of(start)
    if how is not None:
        raise UsageError(
            f"{name}: compressed with {how}, which is not read live. Unpack it to a file, or pipe in: zcat FILE.",
            remedy=Remedy("from", "-"),
        )


class Lines:
    """Chunks of bytes cut into lines, none of them kept beyond a limit. Counts bytes and lines.

    >>> lines = Lines(longest=3)
    >>> lines.add(b"ab\\nlong line\\nc")
    >>> list(lines.batch(10, ended=False).lines)
    [b'ab', None]
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self.start(0, 0)

    def start(self, offset: int, line: int) -> None:
        """Forget everything and go on counting here."""
        self.offset, self.line = offset, line
        self._blocks: list[_LineBlock] = []
        self._rest, self._skipped = b"", 0
        self._size = self._count = 0

    @property
    def full(self) -> bool:
        """Whether these are bytes enough for one batch."""
        return self._size >= READ_BYTES

    def __len__(self) -> int:
        return self._count

    def add(self, chunk: bytes) -> None:
        """More bytes."""
        end = chunk.rfind(b"\n") + 1
        if not end:
            self._keep(chunk)
            return
        first = chunk.find(b"\n") + 1 if self._skipped else 0
        if first:  # the end of a line that is too long
            self._append(_LineBlock([None], np.array([self._skipped + first]), 0))
            self._skipped = 0
        content = self._rest + chunk[first:end]
        self._rest = b""
        if content:
            self._append(_LineBlock.of(content, self._longest))
        self._keep(chunk[end:])

    def _append(self, block: _LineBlock) -> None:
        self._blocks.append(block)
        self._count += len(block.lines)
        self._size += block.size

    def _keep(self, part: bytes) -> None:
        self._rest += part
        if len(self._rest) > self._longest or self._skipped:  # of a longer line only its being too long matters
            self._skipped += len(self._rest)
            self._rest = b""

    @property
    def unfinished(self) -> bool:
        """Whether there are bytes of a line whose end did not come yet."""
        return bool(self._rest or self._skipped)

    def batch(self, most: int, ended: bool) -> Batch:
        """The first lines, and where they end. A line without its end is never among them: it may not be whole."""
        taken: list[_LineBlock] = []
        while self._blocks and most:
            block = self._blocks.pop(0)
            if len(block.lines) > most:
                block, rest = block.split(most)
                self._blocks.insert(0, rest)
            taken.append(block)
            most -= len(block.lines)
        count, first = sum(len(block.lines) for block in taken), self.line + 1
        self._count -= count
        self._size -= sum(block.size for block in taken)
        self.offset += sum(int(block.lengths.sum()) for block in taken)
        self.line += count
        after: Positions = {"byte": self.offset, "line": self.line} if count else {}
        return Batch(_joined(taken), lambda number: f"line {first + number}", after, ended and not self._count)


@dataclass(frozen=True)
class _LineBlock:
    """Lines without their ends, None for one that is too long; their lengths with their ends; the bytes kept."""

    lines: Spans | list[bytes | None]
    lengths: Longs
    size: int

    @classmethod
    def of(cls, content: bytes, longest: int) -> _LineBlock:
        """The lines of bytes that end with one."""
        spans = Spans.of_lines(content)
        lengths = spans.lengths
        if b"\r" not in content and lengths.max() <= longest:
            return cls(spans, lengths + 1, int(lengths.sum()))
        lines = [line.removesuffix(b"\r") if len(line) <= longest else None for line in spans]
        return cls(lines, lengths + 1, sum(len(line) for line in lines if line is not None))

    def split(self, count: int) -> tuple[_LineBlock, _LineBlock]:
        """The first so many lines, and the others."""
        parts = (slice(0, count), slice(count, None))
        first, rest = (_LineBlock(self.lines[part], self.lengths[part], _kept(self.lines[part])) for part in parts)
        return first, rest


def _kept(lines: Spans | list[bytes | None]) -> int:
    return int(lines.lengths.sum()) if isinstance(lines, Spans) else sum(len(line) for line in lines if line)


def _joined(blocks: list[_LineBlock]) -> Spans | list[bytes | None]:
    """All lines, as places in one piece of bytes where every one of them was kept."""
    if all(isinstance(block.lines, Spans) for block in blocks):
        whole = [block.lines.trimmed() for block in blocks if isinstance(block.lines, Spans)]
        return Spans.concat(whole) if whole else []
    return [line for block in blocks for line in block.lines]


class FileSource(RecordSource):
    """Lines of a file; with `follow` also those that are still to come."""

    def __init__(self, path: Path, *, follow: bool, longest: int) -> None:
        self.name = f"file {path.name}"
        self._path, self._follow = path, follow
        self._lines = Lines(longest)
        self._at, self._tail = 0, b""
        try:
            if path.is_fifo() or path.is_char_device() or path.is_socket():
                raise UsageError(
                    f"{path.name}: not a file but a pipe, which cannot be read again after a crash. Let it be stdin "
                    f"(`… < {path.name}`), which says so.",
                    remedy=Remedy("from", "-"),
                )
            self._file: IO[bytes] = path.open("rb")
        except OSError as error:
            raise UsageError(f"{path.name}: cannot be opened ({reason_of(error)}).") from None
        refuse_compressed(os.pread(self._file.fileno(), MAGIC_SIZE, 0), path.name)

    def header(self) -> bytes:
        """The first line, for formats that name their columns there."""
        with self._path.open("rb") as file:
            return file.readline(READ_AT_ONCE).rstrip(b"\r\n")

    def seek(self, positions: Positions) -> None:
        """Go on at a byte, if the bytes before it are still the same."""
        offset = int(positions.get("byte", 0))
        if offset and self._before(offset) != positions.get("before"):
            raise self._refused(offset)
        self._file.seek(offset)
        self._at, self._tail = offset, self._bytes_before(offset)
        self._lines.start(offset, int(positions.get("line", 0)))

    def _refused(self, offset: int) -> RefusedError:
        return new_run_needed(
            f"{self._path.name} is not the file that was read up to byte {offset:,}: it was replaced or changed.",
            "Bring the old one back",
        )

    def read(self, most: int, wait: float) -> Batch:
        """Whole lines. A last line without its end stays unread, since more of it may come: the batch says so.

        Only bytes of a file that was not touched behind the place it was read up to are handed out: that is looked at
        after every reading, since a file may be cut and written anew in between (`copytruncate`).
        """
        deadline, ended = time.monotonic() + wait, False
        while len(self._lines) < most and not self._lines.full:
            chunk = self._file.read(READ_AT_ONCE)
            self._refuse_changed()
            if chunk:
                self._at, self._tail = self._at + len(chunk), (self._tail + chunk)[-REMEMBERED:]
                self._lines.add(chunk)
            elif not self._follow:
                ended = True
                break
            elif len(self._lines) or time.monotonic() >= deadline:
                break
            elif self._rotated_away():
                raise self._refused(self._at)
            else:
                time.sleep(POLL)
        batch = self._lines.batch(most, ended)
        if batch.ended and self._lines.unfinished:
            batch = replace(
                batch,
                unread=f"the last line of {self._path.name} has no line end, so it may not be whole "
                "and was left unread. End it with a newline and start again: then it is taken.",
            )
        if not batch.after:
            return batch
        before = self._before(self._lines.offset)
        self._refuse_changed()
        return replace(batch, after=batch.after | {"before": before})

    def _refuse_changed(self) -> None:
        if self._bytes_before(self._at) != self._tail:
            raise self._refused(self._at)

    def _rotated_away(self) -> bool:
        """Whether another file has the name now: the old one was read to its end, and will not grow."""
        try:
            return not os.path.samestat(self._path.stat(), os.fstat(self._file.fileno()))
        except FileNotFoundError:  # in the middle of it
            return False

    def _before(self, offset: int) -> str:
        """What tells the file from another one: a digest of the last bytes before a place in it."""
        return hashlib.sha256(self._bytes_before(offset)).hexdigest()

    def _bytes_before(self, offset: int) -> bytes:
        start = max(0, offset - REMEMBERED)
        return os.pread(self._file.fileno(), offset - start, start)

    def close(self) -> None:
        """Close the file."""
        self._file.close()

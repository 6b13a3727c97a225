"""What sources read on its way into batches: bytes as lines, messages as they come; none kept beyond a limit."""

from __future__ import annotations

from dataclasses import dataclass

from queryveil.errors import UsageError
from queryveil.live.connector import READ_BYTES, Batch, Positions
from queryveil.log.source import compression_of

READ_AT_ONCE = 1 << 20
"""Bytes that a file or a pipe is asked for."""


def refuse_compressed(start: bytes, name: str) -> None:
    """Compressed bytes have no lines: nothing in them would be a record. They cannot be read on from a place either."""
    how = compression_of(start)
    if how is not None:
        raise UsageError(
            f"{name}: compressed with {how}, which is not read live. Unpack it to a file, or pipe it in: "
            "zcat FILE | queryveil stream --from -"
        )


class Lines:
    """Chunks of bytes cut into lines, none of them kept beyond a limit. Counts bytes and lines.

    >>> lines = Lines(longest=3)
    >>> lines.add(b"ab\\nlong line\\nc")
    >>> lines.batch(10, ended=False).lines
    [b'ab', None]
    """

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self.start(0, 0)

    def start(self, offset: int, line: int) -> None:
        """Forget everything and go on counting here."""
        self.offset, self.line = offset, line
        self._whole: list[bytes | None] = []
        self._lengths: list[int] = []
        self._rest, self._skipped = b"", 0
        self._size = 0

    @property
    def full(self) -> bool:
        """Whether these are bytes enough for one batch."""
        return self._size >= READ_BYTES

    def __len__(self) -> int:
        return len(self._whole)

    def add(self, chunk: bytes) -> None:
        """More bytes."""
        first, *others = chunk.split(b"\n")
        self._keep(first)
        if others:
            self._close_line()
            *lines, last = others
            lengths = list(map(len, lines))
            self._lengths += [length + 1 for length in lengths]
            if b"\r" in chunk or max(lengths, default=0) > self._longest:
                longest = self._longest
                self._whole += [line.removesuffix(b"\r") if len(line) <= longest else None for line in lines]
                self._size += sum(length for length in lengths if length <= longest)
            else:
                self._whole += lines
                self._size += sum(lengths)
            self._keep(last)

    def _keep(self, part: bytes) -> None:
        self._rest += part
        if len(self._rest) > self._longest or self._skipped:  # of a longer line only its being too long matters
            self._skipped += len(self._rest)
            self._rest = b""

    def _close_line(self) -> None:
        self._whole.append(None if self._skipped else self._rest.removesuffix(b"\r"))
        self._lengths.append(self._skipped + len(self._rest) + 1)
        self._size += len(self._rest)
        self._rest, self._skipped = b"", 0

    @property
    def unfinished(self) -> bool:
        """Whether there are bytes of a line whose end did not come yet."""
        return bool(self._rest or self._skipped)

    def batch(self, most: int, ended: bool) -> Batch:
        """The first lines, and where they end. A line without its end is never among them: it may not be whole."""
        lines, lengths = self._whole[:most], self._lengths[:most]
        self._whole, self._lengths = self._whole[most:], self._lengths[most:]
        places = LineNames(self.line + 1)
        self.offset += sum(lengths)
        self._size = sum(len(line) for line in self._whole if line)
        self.line += len(lines)
        after: Positions = {"byte": self.offset, "line": self.line} if lines else {}
        return Batch(lines, places, after, ended and not self._whole)


@dataclass(frozen=True)
class LineNames:
    """Names of lines, made when one is asked for."""

    first: int

    def __getitem__(self, number: int) -> str:
        return f"line {self.first + number}"


class Messages:
    """Messages of a broker with their places; of one that is too long only its place is kept."""

    def __init__(self, longest: int) -> None:
        self._longest = longest
        self._lines: list[bytes | None] = []
        self._places: list[str] = []
        self.size = 0

    def __len__(self) -> int:
        return len(self._lines)

    def add(self, content: bytes, place: str) -> None:
        """One more."""
        self.size += len(content)
        self._lines.append(content if len(content) <= self._longest else None)
        self._places.append(place)

    def batch(self, after: Positions) -> Batch:
        """All of them, and where they end."""
        return Batch(self._lines, self._places, after if self._lines else {})

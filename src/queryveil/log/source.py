"""A file as blocks of whole, decompressed, well-formed UTF-8 lines.

Compression is told by the name (.gz, .zst), the encoding by a byte order mark; Latin-1 only where asked for,
since any bytes at all are valid Latin-1. A block is some 4 MiB, so memory beyond the table itself stays small.
Lines with NUL bytes, with bytes that are not UTF-8, or of more than `LONGEST_LINE` bytes come out repaired and are
named in `Block.broken`, so that a format reports them by number.

>>> import tempfile
>>> from pathlib import Path
>>> with tempfile.TemporaryDirectory() as folder:
...     path = Path(folder) / "log.txt"
...     _ = path.write_bytes(b"one" + bytes([10]) + b"tw" + bytes([0]) + b"o")
...     [(block.data, list(block.broken)) for block in LogFile(path).blocks()]
[(b'one\\n', []), (b'tw?o', [2])]
"""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import IO, cast

import numpy as np
import polars as pl

from queryveil.errors import FormatError, UsageError
from queryveil.log._zstd import ZstdDecompressor, ZstdError

LINE = "line"
"""Name of the helper column that holds a record's first line in the file; no format lets it out of the reader."""
ENCODINGS = ("utf-8", "utf-16", "utf-16-le", "utf-16-be", "latin-1", "gb18030")
LONGEST_LINE = 32 << 20  # room for a record of the longest values, each character escaped
BLOCK_SIZE = 4 << 20
"""About what a processor's cache holds: a block is gone over several times, and lines are looked at here and there."""
HEAD_SIZE = 64 << 10
COMPILED_FROM = 1 << 19
"""Bytes of a block from which on compiled kernels read it, where there is another way: loading them takes as long as
some megabytes take without."""

MAGIC_SIZE = 10
"""First bytes that tell a compressed file."""

NUL_BYTE = (
    "a NUL byte, or bytes that its encoding does not have (a UTF-16 file without a mark needs encoding utf-16-le, or "
    "utf-16-be where each character's high byte comes first)"
)

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_COMPRESSED = {
    b"\xfd7zXZ": "xz",
    b"PK\x03\x04": "zip",
    b"7z\xbc\xaf": "7z",
    b"\x04\x22\x4d\x18": "lz4",
    **{b"BZh%d1AY&SY" % level: "bzip2" for level in range(1, 10)},  # its first letters alone may be text
}
_UTF32 = (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE)
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


# Bytes that an encoding does not have become a NUL, so that their line is bad and no other.
_AS_NUL = "queryveil-nul"
codecs.register_error(_AS_NUL, lambda error: ("\0", getattr(error, "end", 0)))


def compression_of(start: bytes) -> str | None:
    """How a file that starts with these bytes is compressed; None where it is not, as far as one can tell.

    >>> compression_of(bytes([0x1F, 0x8B, 8])), compression_of(b"BZh is a user")
    ('gzip', None)
    """
    known = {_GZIP: "gzip", _ZSTD: "zstd", **_COMPRESSED}
    return next((name for magic, name in known.items() if start.startswith(magic)), None)


@dataclass(frozen=True)
class Block:
    """Whole lines of a file, the number of the first, and which of them are broken and why."""

    first_line: int
    data: bytes
    broken: dict[int, str]

    @cached_property
    def line_count(self) -> int:
        """How many lines the block has; a last line without a line end counts."""
        # Counting in an array takes an eighth of the time of `bytes.count`, which stops at each line end.
        ends = int(np.count_nonzero(np.frombuffer(self.data, np.uint8) == 10))
        return ends + (not self.data.endswith(b"\n") and bool(self.data))

    @property
    def is_long(self) -> bool:
        """Whether compiled kernels are worth their loading; what a line means does not depend on it."""
        return len(self.data) >= COMPILED_FROM

    def lines(self) -> pl.DataFrame:
        """Columns `line` (number in the file) and `text`, without line ends."""
        texts = pl.read_lines(self.data, name="text")
        return texts.with_row_index(LINE, offset=self.first_line)


class LogFile:
    """One existing, readable, regular file, and the files that belong to it where a log is spread over several."""

    mark_counts: bool = True
    """Whether a mark of UTF-16 or UTF-32 at the start is the file's own: before a header it is, before a record it may
    be somebody's bytes, and then only a declared encoding counts."""

    def __init__(self, path: Path, encoding: str | None = None, *, companions: Iterable[Path] = ()) -> None:
        self.path = path
        self.encoding = encoding
        self.companions = [LogFile(companion, encoding) for companion in companions]
        try:
            if not path.exists():
                raise UsageError(f"{path.name}: there is no such file.")
            if path.is_dir():
                raise UsageError(f"{path.name}: this is a folder; name a file in it (only ubi is read from a folder).")
            if not path.is_file():
                raise UsageError(f"{path.name}: not a regular file; save the log to a file first.")
            with path.open("rb") as handle:
                self._magic = handle.read(MAGIC_SIZE)
        except (OSError, ValueError) as error:
            raise UsageError(f"{path.name}: cannot be opened ({_reason(error)}).") from None
        for suffix, magic in ((".gz", _GZIP), (".zst", _ZSTD)):
            if path.suffix == suffix and self._magic and not self._magic.startswith(magic):
                raise FormatError(f"{path.name}: named {suffix} but not compressed so. Rename it or fetch it again.")

    @property
    def compressed(self) -> bool:
        """Whether the bytes on disk are gzip or zstd: by the name alone, since the first bytes may be somebody's."""
        return self.path.suffix in (".gz", ".zst") and bool(self._magic)

    @property
    def hint(self) -> str:
        """What to do about a file that could not be read and starts like a packed one; empty for others."""
        kind = None if self.compressed else compression_of(self._magic)
        if kind is None:
            return ""
        name = {"gzip": ".gz", "zstd": ".zst"}.get(kind)
        return f" It looks like {kind}: " + (f"a name that ends in {name} says so." if name else "unpack it first.")

    def raw(self) -> Iterator[bytes]:
        """The decompressed bytes in chunks."""
        try:
            with self.path.open("rb") as handle:
                if self.compressed and self.path.suffix == ".gz":
                    with gzip.open(handle) as unpacked:
                        yield from _chunks(cast("IO[bytes]", unpacked))
                elif self.compressed:
                    yield from self._zstd_chunks(handle)
                else:
                    yield from _chunks(handle)
        except (EOFError, zlib.error, gzip.BadGzipFile, ZstdError):
            raise self._cut_off() from None
        except OSError as error:
            raise UsageError(f"{self.path.name}: cannot be read ({_reason(error)}).") from None

    def head(self) -> bytes:
        """The first bytes as UTF-8, repaired where broken, for guessing the format."""
        for chunk in self.utf8():
            return chunk[:HEAD_SIZE].decode("utf-8", errors="replace").encode()
        return b""

    def utf8(self) -> Iterator[bytes]:
        """The text as UTF-8 bytes without a byte order mark, in chunks; may still hold invalid bytes."""
        chunks = self.raw()
        first = next(chunks, b"")
        if self.mark_counts and first.startswith(_UTF32):
            raise FormatError(f"{self.path.name}: UTF-32 is not read. Convert it to UTF-8 first.")
        encoding = self.encoding or ("utf-16" if self.mark_counts and first.startswith(_UTF16) else "utf-8")
        if encoding == "utf-8":
            yield first.removeprefix(codecs.BOM_UTF8)
            yield from chunks
            return
        if encoding == "gb18030":
            yield from _line_by_line(first, chunks, encoding)
            return
        decoder = codecs.getincrementaldecoder(encoding)(errors=_AS_NUL)
        try:
            start = decoder.decode(first)
        except UnicodeError:  # what was declared as UTF-16 has no mark
            raise FormatError(f"{self.path.name}: not {encoding}. Convert it to UTF-8 first.") from None
        yield (start.removeprefix("\ufeff") if encoding.endswith("e") else start).encode()
        for chunk in chunks:
            yield decoder.decode(chunk).encode()
        yield decoder.decode(b"", final=True).encode()

    def blocks(self, first_line: int = 1) -> Iterator[Block]:
        """The text as blocks of whole lines, numbered from `first_line` on."""
        rest = b""
        for chunk in self.utf8():
            end = chunk.rfind(b"\n") + 1
            if end:
                block = checked_block(first_line, b"".join((rest, memoryview(chunk)[:end])))
                yield block
                first_line += block.line_count
                rest = chunk[end:]
            else:
                rest = _shortened(rest + chunk)
        if rest:
            yield checked_block(first_line, rest)

    def _zstd_chunks(self, handle: IO[bytes]) -> Iterator[bytes]:
        decoder = ZstdDecompressor()
        waiting: list[bytes] = []
        size = 0
        while packed := handle.read(1 << 12):  # small, since a few bytes may unpack to megabytes
            while packed:
                if decoder.eof:
                    decoder = ZstdDecompressor()
                waiting.append(decoder.decompress(packed))
                size += len(waiting[-1])
                packed = decoder.unused_data if decoder.eof else b""
            if size >= BLOCK_SIZE:
                yield b"".join(waiting)
                waiting, size = [], 0
        if not decoder.eof:
            raise self._cut_off()
        yield b"".join(waiting)

    def _cut_off(self) -> FormatError:
        kind = "gzip" if self.path.suffix == ".gz" else "zstd"
        return FormatError(f"{self.path.name}: the {kind} data is cut off or damaged. Fetch or make the file again.")


def _line_by_line(first: bytes, chunks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    """The text as UTF-8, where no character but a line feed has its byte: a broken character ends with its line.

    A decoder that is given everything takes a line feed along with the character before it.
    """
    rest = first
    while True:
        following = next(chunks, None)
        end = rest.rfind(b"\n") + 1 if following is not None else len(rest)
        whole, rest = rest[:end], _shortened(rest[end:])
        try:
            yield whole.decode(encoding).encode()
        except UnicodeDecodeError:
            yield b"\n".join(line.decode(encoding, errors=_AS_NUL).encode() for line in whole.split(b"\n"))
        if following is None:
            return
        rest += following


def _chunks(handle: IO[bytes]) -> Iterator[bytes]:
    while chunk := handle.read(BLOCK_SIZE):
        yield chunk


def _reason(error: Exception) -> str:
    return (error.strerror or "failed").lower() if isinstance(error, OSError) else "not a path"


def checked_block(first_line: int, data: bytes) -> Block:
    """Lines from this number on, repaired where they are broken."""
    if b"\0" not in data and is_utf8(data) and not _has_long_line(data):
        return Block(first_line, data, {})
    broken: dict[int, str] = {}
    lines = data.split(b"\n")
    for index, line in enumerate(lines):
        reason = _fault_of(line)
        if reason is not None:
            broken[first_line + index] = reason
            lines[index] = _shortened(line).replace(b"\0", b"?").decode("utf-8", errors="replace").encode()
    return Block(first_line, b"\n".join(lines), broken)


def _shortened(line: bytes) -> bytes:
    """Of a line that is too long only that matters, and whether its quotes are balanced: a record may go over lines."""
    if len(line) <= LONGEST_LINE + 1:
        return line
    kept = line[: LONGEST_LINE + 1]
    return kept[:-1] + (b"x" if line.count(b'"') % 2 == kept[:-1].count(b'"') % 2 else b'"')


def _fault_of(line: bytes) -> str | None:
    if len(line) > LONGEST_LINE:
        return f"longer than {LONGEST_LINE:,} bytes"
    if b"\0" in line:
        return NUL_BYTE
    return None if is_utf8(line) else "not valid UTF-8"


def is_utf8(data: bytes) -> bool:
    """Whether the bytes are well-formed UTF-8."""
    if data.isascii():
        return True
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _has_long_line(data: bytes) -> bool:
    start = 0
    while len(data) - start > LONGEST_LINE:
        # The last line end within reach: when there is none, the line from `start` on is too long.
        end = data.rfind(b"\n", start, start + LONGEST_LINE + 1)
        if end < 0:
            return True
        start = end + 1
    return False

"""Write a query log to a file: whole or not at all, compressed when the name ends in .gz or .zst.

The bytes are a function of the rows, not of how they came: a release made in parts, whose number follows the number of
records of the original, is the file that one made whole would be. So compressors are fed blocks of one size and are
never asked to flush, since they put a mark wherever they are.

>>> import tempfile
>>> from pathlib import Path
>>> from queryveil.log.reading import read
>>> log = QueryLog.of([("ann", "tulips"), ("bob", "roses")])
>>> with tempfile.TemporaryDirectory() as folder:
...     write(log, Path(folder) / "log.csv.gz")
...     read(Path(folder) / "log.csv.gz") == log
True
"""

from __future__ import annotations

import gzip
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Final, cast

from queryveil.checks import one_of, require
from queryveil.errors import Remedy, UsageError, file_error
from queryveil.log._zstd import CompressionParameter, ZstdFile
from queryveil.log.formats import FORMATS, Format
from queryveil.log.query_log import QueryLog
from queryveil.log.reading import format_of_name

BYTES_PER_BLOCK: Final = 1 << 20


def write(log: QueryLog, path: str | Path, *, format: str | None = None) -> None:  # noqa: A002 -- as on the command line
    """Write the log, in the format of the suffix where none is given.

    The file appears under its name only when it is complete; an older one is replaced then. What the format cannot
    carry raises `FormatError` and leaves everything as it was.
    """
    require(one_of("format", format, FORMATS, optional=True))
    path = Path(path)
    chosen = format or format_of_name(path)
    if chosen is None:
        known = ", ".join(f"{known.suffix} ({known.name})" for known in FORMATS.values())
        raise UsageError(
            f"{path.name}: this suffix stands for no format. The suffixes are: {known}.",
            remedy=Remedy("format", "NAME"),
        )
    with _replacing(path) as handle, _packed(handle, path.suffix) as packed, _in_blocks(packed) as out:
        _write_parts(log, FORMATS[chosen], out)


def _write_parts(log: QueryLog, chosen: Format, out: IO[bytes]) -> None:
    """One part after the other where the format can be put together from such; else the log whole."""
    if chosen.header_lines is None:
        chosen.write(log, out)
        return
    for number, part in enumerate(log.parts()):
        chosen.write(part, cast("IO[bytes]", _WithoutFirstLines(out, chosen.header_lines)) if number else out)


class _WithoutFirstLines:
    """A file that leaves out the header of what is written to it."""

    def __init__(self, out: IO[bytes], lines: int) -> None:
        self._out, self._lines = out, lines

    def write(self, content: bytes) -> int:
        """Take in bytes, less the lines still to be left out."""
        rest = bytes(content)
        while self._lines and rest:
            _, found, rest = rest.partition(b"\n")
            self._lines -= bool(found)
        self._out.write(rest)
        return len(content)

    def flush(self) -> None:
        """Nothing is held back here."""


@contextmanager
def _replacing(path: Path) -> Iterator[IO[bytes]]:
    # The name is random and the file must be new, so that nobody can place a link there beforehand.
    waiting = path.with_name(f".{path.name[:100]}.{secrets.token_hex(8)}.partial")
    if "\0" in path.name:
        raise UsageError("a file name cannot hold a NUL.")
    try:
        if path.is_dir():
            raise UsageError(f"{path.name}: this is a folder; name a file in it.")
        with waiting.open("xb") as handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        waiting.replace(path)
    except Exception as error:
        if found := file_error(error, path.name):
            raise found from None
        raise
    finally:
        with suppress(OSError):
            waiting.unlink()


class _Blocks:
    """A file that is written to in blocks of one size, whatever the sizes that it is handed."""

    def __init__(self, out: IO[bytes]) -> None:
        self._out, self._waiting = out, bytearray()

    def write(self, content: bytes) -> int:
        """Take in bytes, and hand on the blocks that are full."""
        self._waiting += content
        full = len(self._waiting) - len(self._waiting) % BYTES_PER_BLOCK
        for start in range(0, full, BYTES_PER_BLOCK):
            self._out.write(bytes(self._waiting[start : start + BYTES_PER_BLOCK]))
        del self._waiting[:full]
        return len(content)

    def flush(self) -> None:
        """Nothing: what waits is handed on when its block is full, or at the end."""

    def close(self) -> None:
        """Hand on the last block, which may be shorter."""
        self._out.write(bytes(self._waiting))


@contextmanager
def _in_blocks(out: IO[bytes]) -> Iterator[IO[bytes]]:
    blocks = _Blocks(out)
    yield cast("IO[bytes]", blocks)
    blocks.close()


@contextmanager
def _packed(handle: IO[bytes], suffix: str) -> Iterator[IO[bytes]]:
    if suffix == ".gz":
        # No name and no time inside: both would tell about the writer, and equal logs should give equal files.
        with gzip.GzipFile(filename="", fileobj=handle, mode="wb", compresslevel=6, mtime=0) as packed:
            yield cast("IO[bytes]", packed)
    elif suffix == ".zst":
        options: dict[int, int] = {CompressionParameter.compression_level: 3, CompressionParameter.checksum_flag: 1}
        with ZstdFile(handle, "wb", options=options) as packed:
            yield cast("IO[bytes]", packed)
    else:
        yield handle

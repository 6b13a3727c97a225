"""A file of lines that may grow, as a source.

Its position is a number of bytes and a digest of the last bytes before it, so that a file that was replaced or changed
is refused instead of continued; also while it is being read.
"""

from __future__ import annotations

import hashlib
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import IO

from queryveil.errors import RefusedError, UsageError
from queryveil.live.connector import Batch, Positions, Promise
from queryveil.live.lines import READ_AT_ONCE, Lines, refuse_compressed
from queryveil.log.source import MAGIC_SIZE

REMEMBERED = 4096
POLL = 0.05


class FileSource:
    """Lines of a file; with `follow` also those that are still to come."""

    promise = Promise("exactly once", "a file can be read again from any byte")

    def __init__(self, path: Path, *, follow: bool, longest: int) -> None:
        self.name = f"file {path.name}"
        self._path, self._follow = path, follow
        self._lines = Lines(longest)
        self._at, self._tail = 0, b""
        try:
            self._file: IO[bytes] = path.open("rb")
        except OSError as error:
            raise UsageError(f"{path.name}: cannot be opened ({(error.strerror or 'failed').lower()}).") from None
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
        return RefusedError(
            f"{self._path.name} is not the file that was read up to byte {offset:,}: it was replaced or changed. "
            "Bring the old one back, or begin a new run under a new --run name."
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

    def acknowledge(self, positions: Positions) -> None:
        """A file needs no telling."""

    def close(self) -> None:
        """Close the file."""
        self._file.close()

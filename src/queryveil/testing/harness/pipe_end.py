"""Pipes for a trial: each worker gets on stdin what was fed since the last one, and adds to one file on stdout.

What a worker read and did not commit is gone with it, and what it committed last may not have been written: at most
once. So the lines that were taken in are those that the checkpoint counts, and what came out must be the replay's
output with gaps, and in its order.
"""

from __future__ import annotations

import itertools
import shutil
import tempfile
from pathlib import Path
from typing import Any

from queryveil.live.checkpoint import Header, RunKeys, unpack
from queryveil.live.file_sink import FileCheckpoint
from queryveil.live.files import WHOLE
from queryveil.testing.harness.ends import End
from queryveil.testing.harness.records import LABELS, small_run

NO_RECORD = b"{"
"""Stands in the replay for a line that became a dead letter, since its beginning may have been lost."""


class PipeEnd(End):
    """From stdin to stdout."""

    labels = LABELS
    takes_over = sets_back = False
    exactly_once = False

    def __init__(self, folder: str, name: str) -> None:
        self.run = name
        self._folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=folder or None))
        self._checkpoint, self._output = self._folder / "state", self._folder / "out"
        self._output.touch()
        self._chunks = itertools.count()
        self._waiting: list[bytes] = []
        self._given: list[bytes] = []
        self._taken: list[bytes] = []
        self._header: Header | None = None

    def settings(self) -> dict[str, object]:
        """Of a worker."""
        return small_run("-", "-", {"checkpoint": str(self._checkpoint)}, self.run)

    def streams(self) -> dict[str, Any]:
        """What the next worker finds on stdin, and where its stdout goes."""
        path = self._folder / f"in-{next(self._chunks)}"
        self._given, self._waiting = self._waiting, []
        path.write_bytes(b"".join(line + b"\n" for line in self._given))
        return {"stdin": str(path), "stdout": str(self._output)}

    def worker_ended(self) -> None:
        """Find out how many of the lines it took in; the others are lost."""
        if not self._checkpoint.exists():
            return
        keys = RunKeys(self.run, 0)
        header = unpack(FileCheckpoint(keys.sealing_key).state_in(self._checkpoint), keys.seal)[0]
        before = self._header
        taken = self._given[: header.taken - (before.taken if before else 0)]
        if taken and before is not None and before.positions.get("byte") and WHOLE not in before.positions:
            taken[0] = NO_RECORD
        self._taken += taken
        self._header, self._given = header, []

    def feed(self, lines: list[bytes]) -> None:
        """More for the next worker."""
        self._waiting += lines

    def visible(self) -> list[bytes]:
        """All that was written."""
        return self._output.read_bytes().splitlines()

    def taken(self, fed: list[bytes]) -> list[bytes]:
        """The lines that were taken in."""
        return self._taken

    def left(self) -> int:
        """A worker reads to the end."""
        return len(self._waiting)

    def save(self) -> None:
        """What was in a pipe cannot be had again."""

    def lose(self) -> None:
        """Nor lost for a second time."""

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self._folder, ignore_errors=True)

"""One folder, one server: two of them over the same jobs would pay for one release twice.

The lock belongs to the open file and not to a process that can be mistaken for another: the system drops it when the
last holder ends, however it ends. Workers hold it with their server, so a server started right after another was killed
waits until that one's worker is gone too.
"""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from typing import Final

from queryveil.errors import Remedy, UsageError

SECONDS_FOR_AN_OLD_WORKER: Final = 3.0
PAUSE: Final = 0.05


class FolderLock:
    """The right to work in a folder."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "page.lock"
        self._file: int | None = None

    def acquire(self) -> int:
        """The open file that holds the lock, to be handed to workers; refuses where another server has it."""
        if self._file is None:
            file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
            if not _locked(file):
                os.close(file)
                raise UsageError(
                    "another server works in this folder, and two would pay for one release twice. Stop it first.",
                    remedy=Remedy("folder", "ANOTHER"),
                )
            self._file = file
        return self._file

    def release(self) -> None:
        """Let the next server in."""
        if self._file is not None:
            os.close(self._file)
            self._file = None


def _locked(file: int) -> bool:
    deadline = time.monotonic() + SECONDS_FOR_AN_OLD_WORKER
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > deadline:
                return False
            time.sleep(PAUSE)
        else:
            return True

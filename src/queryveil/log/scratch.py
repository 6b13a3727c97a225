"""Private folders for parts of a log while a run works, and the end of those whose run was killed.

Who asked what lies in such a folder, so only its owner may open it, and a run deletes its own when it ends. A run that
is killed cannot. So every folder holds a file that its run has locked; the system gives the lock back when the process
is gone, however it went, and the next run of the same user finds the folder without an owner and deletes it.

>>> with tempfile.TemporaryDirectory() as place:
...     ours = Scratch("doctest", place)
...     found = [path for path in abandoned("doctest", place)]
...     ours.release()
...     found, [path == ours.path for path in abandoned("doctest", place)]
([], [True])
"""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import Iterator
from pathlib import Path

LOCK = "owner"


class Scratch:
    """A new folder that only its owner may open, locked by this process."""

    def __init__(self, kind: str, place: str | None = None) -> None:
        """`kind` is part of its name; `place` where it lies, else where `TMPDIR` says."""
        self.path = Path(tempfile.mkdtemp(prefix=_prefix(kind), dir=place))
        draft = self.path / f"{LOCK}.new"
        self._lock = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        draft.rename(self.path / LOCK)  # nobody finds it without its lock

    def release(self) -> None:
        """The folder is nobody's from now on."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


def abandoned(kind: str, place: str | None = None) -> Iterator[Path]:
    """The folders of this kind whose run is gone, each locked while the caller deals with it."""
    for folder in sorted(Path(place or tempfile.gettempdir()).glob(f"{_prefix(kind)}*")):
        try:
            about = folder.lstat()
            if not stat.S_ISDIR(about.st_mode) or about.st_uid != os.getuid():
                continue
            lock = os.open(folder / LOCK, os.O_WRONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:  # gone, or just being made
            continue
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(lock).st_nlink:  # else somebody else has just deleted it
                yield folder
        except BlockingIOError:
            continue
        finally:
            os.close(lock)


def _prefix(kind: str) -> str:
    return f"queryveil-{kind}-"

"""What a trial does to the two ends of a stream: feed it, look at what readers see, set it back. Here: files."""

from __future__ import annotations

import importlib
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from queryveil.errors import UsageError
from queryveil.testing.harness.records import HALF_PUBLISHED, LABELS, small_run

PATIENCE = 300.0
"""Seconds, longer than anything may take that comes at all."""
ENDS = {
    "files": ("ends", "FileEnd", ""),
    "pipes": ("pipe_end", "PipeEnd", ""),
    "redis": ("redis_end", "RedisEnd", "redis://127.0.0.1:6379/0"),
    "nats": ("nats_end", "NatsEnd", "nats://127.0.0.1:4222"),
    "kafka": ("kafka_end", "KafkaEnd", "kafka://127.0.0.1:9092"),
}
"""Name of a connector: the module and class here, and where it is looked for."""


class OwnServer(Protocol):
    """A broker with nothing on it that is not the trial's, so that all of it can be set back."""

    def save(self) -> None:
        """Remember everything on its disk as it is now."""

    def lose(self) -> None:
        """Die, and come back with the disk as it was then."""


class End(Protocol):
    """Input and output of one run, which belong to the trial alone; a base class of all that are."""

    run: str
    labels: tuple[str, ...]
    takes_over: bool
    """Whether another worker goes on while one is frozen; a file's lock stays with the frozen one."""
    sets_back: bool
    """Whether it can be made to lose its last commits without harm to anything else."""
    exactly_once: bool = True
    """Else some of the output may be missing."""

    def streams(self) -> dict[str, Any]:
        """What a worker finds at its standard streams, where it needs them."""
        return {}

    def worker_ended(self) -> None:
        """Called after each worker."""
        return

    def taken(self, fed: list[bytes]) -> list[bytes]:
        """The lines that were taken in of those that were fed."""
        return fed

    def settings(self) -> dict[str, object]:
        """Of a worker."""

    def feed(self, lines: list[bytes]) -> None:
        """More input."""

    def visible(self) -> list[bytes]:
        """What anybody can read of the output."""

    def left(self) -> int:
        """How much of the input no committed state has behind it."""

    def save(self) -> None:
        """Remember how everything is now."""

    def lose(self) -> None:
        """Be again as it was when it was saved, input and all."""

    def close(self) -> None:
        """Remove what was made for the trial."""


class BrokerEnd(End):
    """Of a broker on which nothing of one run can be set back without the rest, so only one's own server is."""

    takes_over = True

    def __init__(self, server: OwnServer | None) -> None:
        self._server, self.sets_back = server, server is not None

    def again(self) -> None:
        """Connect to a server that was away, and forget what was read from it."""

    def save(self) -> None:
        """Remember the whole server."""
        if self._server is not None:
            self._server.save()
            self.again()

    def lose(self) -> None:
        """The whole server is as it was then."""
        if self._server is not None:
            self._server.lose()
            self.again()


def open_end(kind: str, url: str | None, name: str, server: OwnServer | None = None) -> End:
    """The ends of a trial of that name; a server is given where all of it is the trial's."""
    if kind not in ENDS:
        raise UsageError(f"{kind} is none of {', '.join(ENDS)}.")
    module, found, usual = ENDS[kind]
    try:
        make: Callable[..., End] = getattr(importlib.import_module(f"{__package__}.{module}"), found)
    except ModuleNotFoundError:
        raise UsageError(f"{kind} needs another package: pip install 'queryveil[{kind}]'.") from None
    return make(url or usual, name, *([] if server is None else [server]))


def wait_until(holds: Callable[[], bool], what: str) -> None:
    """Return as soon as this holds."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        if time.monotonic() > deadline:
            raise UsageError(f"waited in vain until {what}.")
        time.sleep(0.02)


class FileEnd(End):
    """From a file to a file, in a folder that is given or in one of its own."""

    labels = (*LABELS, HALF_PUBLISHED)
    takes_over, sets_back = False, True

    def __init__(self, folder: str, name: str) -> None:
        self.run = name
        self._folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=folder or None))
        self._input, self.output = self._folder / "in.jsonl", self._folder / "out.jsonl"
        self._input.touch()

    def settings(self) -> dict[str, object]:
        """Of a worker."""
        return small_run(str(self._input), str(self.output), {}, self.run)

    def feed(self, lines: list[bytes]) -> None:
        """More input."""
        with self._input.open("ab") as file:
            file.write(b"".join(line + b"\n" for line in lines))

    def visible(self) -> list[bytes]:
        """What anybody can read; a last line that is not complete counts too."""
        content = self.output.read_bytes() if self.output.exists() else b""
        return [line for line in content.split(b"\n") if line]

    def left(self) -> int:
        """A worker reads a file to its end."""
        return 0

    def save(self) -> None:
        """A backup of everything."""
        self._saved = {path.name: path.read_bytes() for path in self._folder.iterdir()}

    def lose(self) -> None:
        """The backup is brought back."""
        for path in self._folder.iterdir():
            path.unlink()
        for name, content in self._saved.items():
            (self._folder / name).write_bytes(content)

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self._folder, ignore_errors=True)

"""stdin and stdout. Pipes cannot be asked again, nor cut.

stdin loses what was read and not committed, stdout may miss the last outputs that were committed. Neither ever repeats
one.
"""

from __future__ import annotations

import os
import select
import sys
import time
from dataclasses import replace
from pathlib import Path

from queryveil.run.live.connector import (
    LARGE_BATCH,
    Accept,
    Batch,
    OnStep,
    Positions,
    Promise,
    Source,
    Step,
    accept_any,
    no_step,
)
from queryveil.run.live.file_sink import FileSink
from queryveil.run.live.lines import READ_AT_ONCE, Lines


class StdinSource:
    """Lines of a pipe, which cannot be asked again."""

    promise = Promise("at most once", "what was read from a pipe and not committed before a crash is gone")
    name = "stdin"

    def __init__(self, *, longest: int) -> None:
        self._lines = Lines(longest)
        self._handle = sys.stdin.fileno()
        self._ended = False

    def seek(self, positions: Positions) -> None:
        """Only the count goes on."""
        self._lines.start(int(positions.get("byte", 0)), int(positions.get("line", 0)))

    def read(self, most: int, wait: float) -> Batch:
        """What is in the pipe."""
        deadline = time.monotonic() + wait
        while len(self._lines) < most and not self._ended and not self._lines.full:
            left = max(0.0, deadline - time.monotonic())
            if not select.select([self._handle], [], [], left)[0]:
                break
            chunk = os.read(self._handle, READ_AT_ONCE)
            if chunk:
                self._lines.add(chunk)
            else:
                self._lines.end()
                self._ended = True
        return self._lines.batch(most, self._ended)

    def acknowledge(self, positions: Positions) -> None:
        """Nobody to tell."""

    def close(self) -> None:
        """The pipe is not ours to close."""


class StdoutSink:
    """Lines on stdout; the checkpoint is a file, the dead letters lie beside it."""

    promise = Promise("at most once", "whether the last lines in a pipe were read before a crash cannot be known")
    takes_back = False
    batch = LARGE_BATCH

    def __init__(self, checkpoint: Path, *, from_checkpoint: Path | None = None, on_step: OnStep = no_step) -> None:
        no_output = checkpoint.with_name(f"{checkpoint.name}.out")
        self._kept = FileSink([no_output], checkpoint, from_checkpoint=from_checkpoint, on_step=on_step)
        self.place = f"stdout, {self._kept.place}"

    def claim(self, sealing_key: bytes) -> None:
        """As with a file."""
        self._kept.claim(sealing_key)

    def load(self, accept: Accept = accept_any) -> bytes | None:
        """As with a file; outputs that were committed and perhaps not written are not repeated."""
        return self._kept.load(accept)

    def ready(self) -> bool:
        """A pipe that is full makes the writing wait."""
        return True

    def commit(self, step: Step, source: Source) -> None:
        """First the checkpoint, then the lines."""
        self._kept.commit(replace(step, outputs=[]), source)
        sys.stdout.buffer.write(b"".join(line + b"\n" for line in step.outputs))
        sys.stdout.buffer.flush()

    def close(self) -> None:
        """Let the next one in."""
        self._kept.close()

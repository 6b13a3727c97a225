"""Files and pipes: a path or `file:log.tsv`, `-` for stdin and stdout.

Files are in `file_source` and `file_sink`. Pipes cannot be asked again, nor cut. When a worker dies, stdin loses what
was read and not committed, and stdout may miss the last outputs that were committed. Neither ever repeats one. While it
lives, and when it is asked to stop, nothing is lost.
"""

from __future__ import annotations

import os
import select
import sys
import time
from dataclasses import replace
from pathlib import Path

from queryveil.errors import DataError, RefusedError, Remedy, UsageError
from queryveil.live.connector import Batch, Endpoint, FixedMembers, Positions, RecordSource, Step, wait_for_disk
from queryveil.live.file_sink import FileSink, with_ends
from queryveil.live.file_source import READ_AT_ONCE, FileSource, Lines, refuse_compressed

WHOLE = "whole"
"""Noted in the positions when a worker ends and the pipe is left between two lines."""
WAIT_FOR_THE_REST = 5.0
"""Seconds for the rest of a line, when a worker stops in the middle of one."""
UNREAD = "stdin was left in the middle of a line, which is lost. Let whoever writes it end every line with a newline."


class StdinSource(RecordSource):
    """Lines of a pipe, which cannot be asked again; one for the whole life of a worker.

    What was handed out last is kept until the next reading, and handed out again after a `seek` to where it began: a
    commit that failed loses nothing. What was read and not committed is lost only with the process. Then the pipe may
    have been left in the middle of a line, whose end could pass for a record of somebody else. So, unless the last
    worker noted that it left `whole` lines behind, the first line that the next one reads is a dead letter.
    """

    delivery = "at most once"
    name = "stdin"

    def __init__(self, *, longest: int) -> None:
        self._lines = Lines(longest)
        self._handle = sys.stdin.fileno()
        self._begun = self._ended = self._stopped = self._cut = False
        self._first = True
        self._last, self._again = Batch(), Batch()
        self._last_from = 0

    def seek(self, positions: Positions) -> None:
        """In a new process only the count goes on; later, what was not committed is to come again."""
        byte = int(positions.get("byte", 0))
        if not self._begun:
            self._begun, self._cut = True, byte > 0 and WHOLE not in positions
            self._lines.start(byte, int(positions.get("line", 0)))
        elif byte == self._lines.offset:
            self._again = Batch()
        elif byte == self._last_from:
            self._again = self._last
        else:
            raise RefusedError(
                "another worker went on with this run from a pipe of its own; what each of them took in cannot be "
                "told apart. Run one at a time."
            )

    def read(self, most: int, wait: float) -> Batch:
        """What is in the pipe."""
        if len(self._again):
            self._again, again = Batch(), self._again
            return again
        deadline = time.monotonic() + wait
        while len(self._lines) < most and not self._over and not self._lines.full:
            left = max(0.0, deadline - time.monotonic())
            if not select.select([self._handle], [], [], left)[0]:
                break
            chunk = os.read(self._handle, READ_AT_ONCE)
            if self._first:
                refuse_compressed(chunk, self.name)
            self._first = False
            self._lines.add(chunk)
            self._ended = not chunk
        self._last_from = self._lines.offset
        batch = self._lines.batch(most, self._over)
        if self._cut and len(batch):
            batch, self._cut = replace(batch, lines=[None, *batch.lines[1:]], cut=True), False
        if batch.ended and self._lines.unfinished:
            batch = replace(batch, unread=UNREAD)
        self._last = batch
        return batch

    @property
    def _over(self) -> bool:
        return self._ended or self._stopped

    def stop(self) -> None:
        """Take nothing more from the pipe but the rest of a line that was begun, if it comes soon."""
        rest, deadline = bytearray(), time.monotonic() + WAIT_FOR_THE_REST
        while self._lines.unfinished and not self._over and not rest.endswith(b"\n"):
            left = max(0.0, deadline - time.monotonic())
            if not left or not select.select([self._handle], [], [], left)[0]:
                break
            byte = os.read(self._handle, 1)  # what follows the line is not ours any more
            rest += byte
            self._ended = not byte
        self._lines.add(bytes(rest))
        self._stopped = True

    @property
    def left(self) -> bool:
        """Whether something was read that was not handed out, or handed out and perhaps not committed."""
        return bool(len(self._again) or len(self._lines) or self._lines.unfinished)

    def close(self) -> None:
        """The pipe is not ours to close. Whether what was handed out last was committed, the next `seek` will tell."""
        self._again = self._last


class Stdout:
    """What is committed and still to be written to stdout, of which a process has one, whoever opens it anew."""

    def __init__(self) -> None:
        self.rest = b""

    def write(self) -> None:
        """All of it; where the disk behind it is full, what was not written stays here."""
        buffer = sys.stdout.buffer
        raw = getattr(buffer, "raw", buffer)  # which tells how much it wrote
        with wait_for_disk("stdout"):
            try:
                buffer.flush()
                while self.rest:
                    self.rest = self.rest[raw.write(self.rest) or 0 :]
            except BrokenPipeError:
                self.rest = b""
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the interpreter flushes it once more
                lost = "nobody reads stdout any more: the last outputs that were committed are lost."
                raise DataError(lost) from None


STDOUT = Stdout()


class StdoutSink(FileSink):
    """Lines on stdout; the checkpoint is a file, the dead letters lie beside it."""

    delivery = "at most once"
    takes_back = False

    def __init__(self, end: Endpoint) -> None:
        if end.checkpoint is None:
            raise UsageError("stdout keeps no state: name a file for it.", remedy=Remedy("checkpoint", "FILE"))
        super().__init__([end.checkpoint.with_name(f"{end.checkpoint.name}.out")], end)
        self.place = f"stdout, {self.place}"
        self._coming = b""

    def commit(self, step: Step, source: RecordSource) -> None:
        """First the checkpoint, then the lines, which are not repeated, and then the hint to the source."""
        self._coming = with_ends(step.outputs)
        self.commit_and_publish(replace(step, outputs=[]))
        source.acknowledge(step.positions)

    def _publish(self, lengths: list[int], parts: list[bytes]) -> None:
        """The state is safe, so its lines are to come out, however long a disk is full."""
        STDOUT.rest, self._coming = STDOUT.rest + self._coming, b""
        super()._publish(lengths, parts)
        STDOUT.write()


def open_source(end: Endpoint) -> FileSource | StdinSource:
    """`-` or a path, in which `{shard}` stands for the number of the shard."""
    if end.scheme == "-":
        return StdinSource(longest=end.longest)
    return FileSource(_path(end, end.shard), follow=end.follow, longest=end.longest)


def open_sink(end: Endpoint) -> FileSink:
    """`-` or a path, in which `{shard}` stands for the number of the shard."""
    if end.scheme == "-":
        return StdoutSink(end)
    shards = range(end.shards) if end.spread == "all" else [end.shard]
    return FileSink([_path(end, shard) for shard in shards], end)


def open_members(end: Endpoint) -> FixedMembers:
    """A file knows no other workers: this one holds all shards."""
    return FixedMembers(frozenset(range(end.shards)))


def _path(end: Endpoint, shard: int) -> Path:
    text = end.url.removeprefix("file:").removeprefix("//")
    if end.spread != "none" and end.shards > 1 and "{shard}" not in text:
        raise UsageError("a file for each shard needs {shard} in its name, for example log-{shard}.jsonl.")
    return Path(text.replace("{shard}", str(shard)))

"""Files and pipes: `file:log.tsv`, `-` for stdin and stdout.

A file source is a file of lines that may grow; its position is a number of bytes and a digest of the last bytes before
it, so that a file that was replaced or changed is refused instead of continued; also while it is being read.

A file sink keeps three files: the output, `OUTPUT.dead.jsonl` with the dead letters, and the checkpoint. A commit is
the renaming of a new checkpoint over the old one. The new one holds the outputs (an *outbox*) and the length that the
output file had before; the outputs are appended afterwards. So nobody sees a record before the state that released it
is safe, and after a crash the output is cut to the length in the checkpoint and the outbox is written again, the same
bytes. The output is made durable before the checkpoint that no longer holds its last lines.

Pipes cannot be asked again, nor cut: stdin loses what was read and not committed, stdout may miss the last outputs that
were committed. Neither ever repeats one.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import IO

from queryveil.errors import DataError, RefusedError, UsageError
from queryveil.privacy.seal import OtherKeyError
from queryveil.run.live.connector import (
    LARGE_BATCH,
    Accept,
    AwayError,
    Batch,
    End,
    FencedError,
    OnStep,
    Positions,
    Promise,
    Source,
    Step,
    accept_any,
    no_step,
)
from queryveil.run.live.file_checkpoint import FileCheckpoint
from queryveil.run.live.lines import Lines

REMEMBERED = 4096
READ_AT_ONCE = 1 << 20
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
        """Whole lines; the last one of a file that does not grow may lack its end.

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
                self._lines.end()
                ended = True
                break
            elif len(self._lines) or time.monotonic() >= deadline:
                break
            elif self._rotated_away():
                raise self._refused(self._at)
            else:
                time.sleep(POLL)
        batch = self._lines.batch(most, ended)
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


class FileSink:
    """A file that grows (a router has one for each shard), with its dead letters and its checkpoint beside it."""

    promise = Promise(
        "exactly once", "a checkpoint holds the outputs until they are in the file, and is replaced whole"
    )
    takes_back = True
    batch = LARGE_BATCH

    def __init__(
        self,
        paths: list[Path],
        checkpoint: Path | None = None,
        *,
        from_checkpoint: Path | None = None,
        on_step: OnStep = no_step,
    ) -> None:
        first = paths[0]
        self._name, self.place = first.name, str(first.resolve())
        self._from_checkpoint = from_checkpoint
        self._paths = [*paths, first.with_name(f"{first.name}.dead.jsonl")]
        self._checkpoint = checkpoint or first.with_name(f"{first.name}.checkpoint")
        self._on_step = on_step
        self._lengths = [0] * len(self._paths)
        self._lock: int | None = None
        self._format: FileCheckpoint

    def claim(self, sealing_key: bytes) -> None:
        """One worker at a time: the lock goes with the process, however it ends."""
        lock = os.open(self._checkpoint.with_name(f"{self._checkpoint.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise FencedError(f"another worker writes {self._name}; stop it first.") from None
        self._lock, self._format = lock, FileCheckpoint(sealing_key)

    def load(self, accept: Accept = accept_any) -> bytes | None:
        """The state in the checkpoint file; the output is cut and completed as it says.

        Everything is checked before any file is touched; a checkpoint that gives way to another is kept beside it.
        """
        committed, offered = self._committed(), self._offered()
        chosen = committed if offered is None else offered
        if chosen is None and any(map(_length, self._paths)):
            raise RefusedError(
                f"{self._name} has content, but no checkpoint tells where it comes from. Write to a new file, "
                "or bring the checkpoint back."
            )
        cut = accept(committed and self._unpacked(committed)[1], offered and self._unpacked(offered)[1])
        if chosen is None:
            return None
        lengths, state, parts = self._unpacked(chosen)
        self._check_lengths(lengths, parts, cut=cut and offered is not None)
        with _waiting_for_the_disk(self._name):
            if offered is not None and offered != committed:
                if self._checkpoint.exists():
                    replaced = self._checkpoint.with_name(f"{self._checkpoint.name}.replaced")
                    _write_durably(replaced, self._checkpoint.read_bytes())
                self._replace_checkpoint(offered)
            self._publish(lengths, parts)
        return state

    def _unpacked(self, content: bytes) -> tuple[list[int], bytes, list[bytes]]:
        return self._format.unpacked(content, self._checkpoint.name, len(self._paths))

    def _committed(self) -> bytes | None:
        """The checkpoint in its place. A torn one is no obstacle where a whole one is offered; another run's is."""
        try:
            content = self._checkpoint.read_bytes()
            self._unpacked(content)
        except FileNotFoundError:
            return None
        except DataError as error:
            if self._from_checkpoint is None or isinstance(error, OtherKeyError):
                raise
            return None
        return content

    def _offered(self) -> bytes | None:
        return None if self._from_checkpoint is None else self._format.whole_file(self._from_checkpoint)

    def _check_lengths(self, lengths: list[int], parts: list[bytes], *, cut: bool) -> None:
        for path, length, part in zip(self._paths, lengths, parts, strict=True):
            found = _length(path)
            if found < length:
                raise RefusedError(f"{path.name} is shorter than its checkpoint says: bring the missing part back.")
            if found > length + len(part) and not cut:
                raise RefusedError(
                    f"{path.name} is longer than its checkpoint says: the checkpoint is an older one. Bring the newest "
                    "back, or go back on purpose with --from-checkpoint."
                )

    def ready(self) -> bool:
        """A file always takes more, as long as the disk does."""
        return True

    def commit(self, step: Step, source: Source) -> None:
        """Rename the new checkpoint into its place, then publish what it holds."""
        parts = [*self._outputs(step), b"".join(json.dumps(asdict(letter)).encode() + b"\n" for letter in step.dead)]
        with _waiting_for_the_disk(self._name):
            self._replace_checkpoint(self._format.packed(self._lengths, step.state, parts))
            self._on_step("state safe")
            self._publish(self._lengths, parts)
        source.acknowledge(step.positions)

    def _outputs(self, step: Step) -> list[bytes]:
        lines: list[list[bytes]] = [[] for _ in self._paths[:-1]]
        if step.routes is None:
            lines[0] = step.outputs
        else:
            for line, shard in zip(step.outputs, step.routes, strict=True):
                lines[shard].append(line)
        return [b"\n".join([*part, b""]) for part in lines]

    def _replace_checkpoint(self, content: bytes) -> None:
        draft = self._checkpoint.with_name(f".{self._checkpoint.name}.draft")
        _write_durably(draft, content)
        self._on_step("mid publish")
        draft.replace(self._checkpoint)
        _sync_folder(self._checkpoint.parent)

    def _publish(self, lengths: list[int], parts: list[bytes]) -> None:
        for path, length, part in zip(self._paths, lengths, parts, strict=True):
            if not part and path.exists() and _length(path) == length:
                continue
            mode = 0o600 if path is self._paths[-1] else 0o666  # outputs are for others to read, as the umask allows
            with os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, mode), "r+b") as file:
                file.seek(length)
                half = len(part) // 2
                file.write(part[:half])
                file.flush()
                self._on_step("half published")
                file.write(part[half:])
                file.truncate()
                file.flush()
                os.fsync(file.fileno())
        self._lengths = [length + len(part) for length, part in zip(lengths, parts, strict=True)]

    def close(self) -> None:
        """Let the next one in."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


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


class OneMember:
    """A worker by itself holds the shards it was told to."""

    def __init__(self, shards: frozenset[int]) -> None:
        self._shards = shards

    def wanted(self) -> frozenset[int]:
        """Always the same."""
        return self._shards

    def close(self) -> None:
        """Nobody to tell."""


def open_source(end: End) -> FileSource | StdinSource:
    """`-` or a path, in which `{shard}` stands for the number of the shard."""
    if end.scheme == "-":
        return StdinSource(longest=end.longest)
    return FileSource(_path(end, end.shard), follow=end.follow, longest=end.longest)


def open_sink(end: End) -> FileSink | StdoutSink:
    """`-` or a path, in which `{shard}` stands for the number of the shard."""
    if end.scheme == "-":
        if end.checkpoint is None:
            raise UsageError("stdout keeps no state: say where it goes with --checkpoint FILE.")
        return StdoutSink(end.checkpoint, from_checkpoint=end.from_checkpoint, on_step=end.on_step)
    shards = range(end.shards) if end.spread == "all" else [end.shard]
    paths = [_path(end, shard) for shard in shards]
    return FileSink(paths, end.checkpoint, from_checkpoint=end.from_checkpoint, on_step=end.on_step)


def open_members(end: End) -> OneMember:
    """A file knows no other workers: this one holds all shards."""
    return OneMember(frozenset(range(end.shards)))


def _path(end: End, shard: int) -> Path:
    text = end.url.removeprefix("file:").removeprefix("//")
    if end.spread != "none" and end.shards > 1 and "{shard}" not in text:
        raise UsageError("a file for each shard needs {shard} in its name, for example log-{shard}.jsonl.")
    return Path(text.replace("{shard}", str(shard)))


def _length(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _write_durably(path: Path, content: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _waiting_for_the_disk(name: str) -> Iterator[None]:
    """A full or failing disk is worth waiting for: nothing was lost, and nothing is out that is not committed."""
    try:
        yield
    except OSError as error:
        raise AwayError(f"{name} cannot be written ({(error.strerror or 'failed').lower()}).") from None

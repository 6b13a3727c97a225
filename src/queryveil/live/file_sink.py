"""A file that grows, as a sink: with its dead letters and its checkpoint beside it.

A file sink keeps three files: the output, `OUTPUT.dead.jsonl` with the dead letters, and the checkpoint. A commit is
the renaming of a new checkpoint over the old one. The new one holds the outputs (an *outbox*) and the length that the
output file had before; the outputs are appended afterwards. So nobody sees a record before the state that released it
is safe, and after a crash the output is cut to the length in the checkpoint and the outbox is written again, the same
bytes. The output is made durable before the checkpoint that no longer holds its last lines.
"""

from __future__ import annotations

import fcntl
import itertools
import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from queryveil.errors import FAULTS_OF_THE_CALL, DataError, RefusedError, Remedy, UsageError, reason_of
from queryveil.live.connector import (
    LARGE_BATCH,
    Accept,
    AwayError,
    Endpoint,
    FencedError,
    RecordSource,
    Sink,
    Step,
    wait_for_disk,
)
from queryveil.log.spans import Spans
from queryveil.privacy.keys import (
    Kind,
    OtherKeyError,
    Seal,
    refuse_release_folders,
    remove_drafts,
    replace_private,
    replacing,
)

KIND = Kind(
    b"QVFILECP",
    2,
    "the checkpoint file",
    "a checkpoint of a file sink",
    "Point QUERYVEIL_KEYS to the folder with the run's key, or choose another place for the checkpoint.",
)


class FileCheckpoint:
    """The checkpoint file of a file sink: the state, and an outbox with what is to be appended to each file.

    It is sealed as a whole (`privacy.keys`) with the key that seals the state: who has not that key can neither put a
    line into the outbox nor move the place where it goes. The body: numbers of 8 bytes (how many files, the length of
    each before the outbox, the length of the state, of each part of the outbox), the state, the parts.

    >>> file = FileCheckpoint(bytes(32))
    >>> content = file.pack([10, 0], b"state", [b"a released line\\n", b""])
    >>> file.unpack(content, "out.checkpoint")
    ([10, 0], b'state', [b'a released line\\n', b''])
    >>> file.unpack(content.replace(b"released", b"invented"), "out.checkpoint")
    Traceback (most recent call last):
    queryveil.errors.DataError: out.checkpoint is torn or was altered: its authentication code does not hold.
    """

    def __init__(self, key: bytes) -> None:
        self._seal = Seal(KIND, key)

    def pack(self, lengths: list[int], state: bytes, parts: list[bytes]) -> bytes:
        """A checkpoint file: the lengths of the files before their parts are appended, the state, the parts."""
        numbers = [len(lengths), *lengths, len(state), *map(len, parts)]
        return self._seal.closed(b"".join(number.to_bytes(8, "big") for number in numbers), state, *parts)

    def unpack(self, content: bytes, name: str, files: int | None = None) -> tuple[list[int], bytes, list[bytes]]:
        """What `pack` was given, or an error with what is wrong."""
        body = self._seal.open(content, name)
        count = int.from_bytes(body[:8], "big")
        if files not in (None, count):
            raise RefusedError(f"{name} was made for {count - 1} output files, here are {(files or 1) - 1}.")
        numbers = [int.from_bytes(body[at : at + 8], "big") for at in range(8, 8 * (2 * count + 2), 8)]
        ends = list(itertools.accumulate(numbers[count:], initial=8 * (2 * count + 2)))
        state, *parts = (bytes(body[start:end]) for start, end in itertools.pairwise(ends))
        return numbers[:count], state, parts

    def state_in(self, path: Path) -> bytes:
        """The state in a checkpoint file: one of a file sink's, or one that was saved by itself."""
        content = _bytes_of(path)
        return self.unpack(content, path.name)[1] if content.startswith(KIND.mark) else content


class FileSink(Sink):
    """A file that grows (a router has one for each shard), with its dead letters and its checkpoint beside it."""

    takes_back = True
    batch = LARGE_BATCH

    def __init__(self, paths: list[Path], end: Endpoint) -> None:
        """A router's outputs are for their owner alone, as the dead letters and the checkpoint always are."""
        first = paths[0]
        self._private = end.spread == "all"
        self._name, self.place = first.name, str(first.resolve())
        self._from_checkpoint = end.from_checkpoint
        self._paths = [*paths, first.with_name(f"{first.name}.dead.jsonl")]
        self._checkpoint = end.checkpoint or first.with_name(f"{first.name}.checkpoint")
        self._on_step = end.on_step
        self._lengths = [0] * len(self._paths)
        self._lock: int | None = None
        self._format: FileCheckpoint

    def claim(self, sealing_key: bytes) -> None:
        """One worker at a time: the lock goes with the process, however it ends."""
        refuse_release_folders(self._checkpoint)
        place = self._checkpoint.with_name(f"{self._checkpoint.name}.lock")
        try:
            lock = os.open(place, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            if error.errno in FAULTS_OF_THE_CALL:
                told = f"{self._checkpoint.name}: cannot be written in its folder ({reason_of(error)})."
                raise UsageError(told) from None
            raise AwayError(f"{place.name} cannot be written ({reason_of(error)}).") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(lock)
            raise FencedError(f"another worker writes {self._name}.") from None
        self._lock, self._format = lock, FileCheckpoint(sealing_key)
        remove_drafts(self._checkpoint)

    def load(self, accept: Accept) -> bytes | None:
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
        cut = accept(committed and self._unpack(committed)[1], offered and self._unpack(offered)[1])
        if chosen is None:
            return None
        lengths, state, parts = self._unpack(chosen)
        self._check_lengths(lengths, parts, cut=cut and offered is not None)
        with wait_for_disk(self._name):
            if offered is not None and offered != committed:
                if self._checkpoint.exists():
                    replaced = self._checkpoint.with_name(f"{self._checkpoint.name}.replaced")
                    replace_private(replaced, self._checkpoint.read_bytes())
                self._replace_checkpoint(offered)
            self._publish(lengths, parts)
        return state

    def _unpack(self, content: bytes) -> tuple[list[int], bytes, list[bytes]]:
        return self._format.unpack(content, self._checkpoint.name, len(self._paths))

    def _committed(self) -> bytes | None:
        """The checkpoint in its place. A torn one is no obstacle where a whole one is offered; another run's is."""
        try:
            content = self._checkpoint.read_bytes()
            self._unpack(content)
        except FileNotFoundError:
            return None
        except DataError as error:
            if self._from_checkpoint is None or isinstance(error, OtherKeyError):
                raise
            return None
        return content

    def _offered(self) -> bytes | None:
        """The checkpoint file that is to replace it, checked before it does."""
        if self._from_checkpoint is None:
            return None
        content = _bytes_of(self._from_checkpoint)
        self._format.unpack(content, self._from_checkpoint.name)
        return content

    def _check_lengths(self, lengths: list[int], parts: list[bytes], *, cut: bool) -> None:
        for path, length, part in zip(self._paths, lengths, parts, strict=True):
            found = _length(path)
            if found < length:
                raise RefusedError(f"{path.name} is shorter than its checkpoint says: bring the missing part back.")
            if found > length + len(part) and not cut:
                raise RefusedError(
                    f"{path.name} is longer than its checkpoint says: the checkpoint is an older one. Bring the newest "
                    "back, or go back on purpose.",
                    remedy=Remedy("from_checkpoint", "FILE"),
                )

    def commit(self, step: Step, source: RecordSource) -> None:
        """Rename the new checkpoint into its place, then publish what it holds."""
        self.commit_and_publish(step)
        source.acknowledge(step.positions)

    def commit_and_publish(self, step: Step) -> None:
        """As `commit`, for a sink that has more to do before the source may know."""
        self._check_hold()
        parts = [*self._outputs(step), b"".join(json.dumps(asdict(letter)).encode() + b"\n" for letter in step.dead)]
        with wait_for_disk(self._name):
            self._replace_checkpoint(self._format.pack(self._lengths, step.state, parts))
            self._on_step("state safe")
            self._publish(self._lengths, parts)

    def _check_hold(self) -> None:
        """Refuse to write where others may write too, or behind a file that is not as it was left."""
        if self._lock is None:
            raise FencedError(f"{self._name} was let go; it must be opened anew before anything is written.")
        for path, length in zip(self._paths, self._lengths, strict=True):
            if _length(path) != length:
                raise RefusedError(
                    f"{path.name} was renamed, cut or written to by somebody else while the worker ran. Bring it back "
                    "as it was and start again; what is released from now on can go to a new file only in a new run.",
                    remedy=Remedy("run", "NEW_NAME"),
                )

    def _outputs(self, step: Step) -> list[bytes]:
        lines = step.by_shard()
        return [with_ends(lines.get(shard, [])) for shard in range(len(self._paths) - 1)]

    def _replace_checkpoint(self, content: bytes) -> None:
        with replacing(self._checkpoint) as draft:
            draft.write(content)
            draft.flush()
            self._on_step("mid publish")

    def _publish(self, lengths: list[int], parts: list[bytes]) -> None:
        for path, length, part in zip(self._paths, lengths, parts, strict=True):
            if not part and path.exists() and _length(path) == length:
                continue
            # Released outputs are for others to read, as the umask allows; what a router writes is the log itself.
            mode = 0o600 if self._private or path is self._paths[-1] else 0o666
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


def with_ends(lines: Sequence[bytes]) -> bytes:
    """The lines, each with a line feed behind it."""
    return lines.joined(b"\n") if isinstance(lines, Spans) else b"".join(line + b"\n" for line in lines)


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path.name}: cannot be read ({reason_of(error)}).") from None


def _length(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0

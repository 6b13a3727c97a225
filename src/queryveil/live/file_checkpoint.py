"""The checkpoint file of a file sink: the state, and an outbox with what is to be appended to each file.

It is sealed as a whole (`privacy.keys`) with the key that seals the state: who has not that key can neither put a line
into the outbox nor move the place where it goes. The body: numbers of 8 bytes (how many files, the length of each
before the outbox, the length of the state, of each part of the outbox), the state, the parts.

>>> file = FileCheckpoint(bytes(32))
>>> content = file.packed([10, 0], b"state", [b"a released line\\n", b""])
>>> file.unpacked(content, "out.checkpoint")
([10, 0], b'state', [b'a released line\\n', b''])
>>> file.unpacked(content.replace(b"released", b"invented"), "out.checkpoint")
Traceback (most recent call last):
queryveil.errors.DataError: out.checkpoint is torn or was altered: its authentication code does not hold.
"""

from __future__ import annotations

import itertools
from pathlib import Path

from queryveil.errors import RefusedError, UsageError
from queryveil.privacy.keys import Kind, Seal

KIND = Kind(
    b"QVFILECP",
    2,
    "the checkpoint file",
    "a checkpoint of a file sink",
    "Point QUERYVEIL_KEYS to the folder with the run's key, or name another place with --checkpoint.",
)


class FileCheckpoint:
    """Checkpoint files under a run's key."""

    def __init__(self, key: bytes) -> None:
        self._seal = Seal(KIND, key)

    def packed(self, lengths: list[int], state: bytes, parts: list[bytes]) -> bytes:
        """A checkpoint file: the lengths of the files before their parts are appended, the state, the parts."""
        numbers = [len(lengths), *lengths, len(state), *map(len, parts)]
        return self._seal.closed(b"".join(number.to_bytes(8, "big") for number in numbers), state, *parts)

    def unpacked(self, content: bytes, name: str, files: int | None = None) -> tuple[list[int], bytes, list[bytes]]:
        """What `packed` was given, or an error with what is wrong."""
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
        return self.unpacked(content, path.name)[1] if content.startswith(KIND.mark) else content

    def whole_file(self, path: Path) -> bytes:
        """A checkpoint file of a file sink, checked before it replaces another."""
        content = _bytes_of(path)
        self.unpacked(content, path.name)
        return content


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path.name}: cannot be read ({(error.strerror or 'failed').lower()}).") from None

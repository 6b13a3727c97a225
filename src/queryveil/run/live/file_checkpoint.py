"""The checkpoint file of a file sink: the state, and an outbox with what is to be appended to each file.

Layout: eight bytes that name the kind, the SHA-256 of all the rest, then numbers of 8 bytes (how many files, the
length of each before the outbox, the length of the state, of each part of the outbox), the state, the parts.
"""

from __future__ import annotations

import hashlib
import itertools
from pathlib import Path

from queryveil.errors import DataError, RefusedError, UsageError

KIND = b"QVFILECP"
DIGEST_BYTES = 32


def state_in_file(path: Path) -> bytes:
    """The state in a checkpoint file: one of a file sink's, or one that was saved by itself."""
    content = _bytes_of(path)
    return unpacked(content, path.name)[1] if content.startswith(KIND) else content


def whole_file(path: Path) -> bytes:
    """A checkpoint file of a file sink, checked before it replaces another."""
    content = _bytes_of(path)
    unpacked(content, path.name)
    return content


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path.name}: cannot be read ({(error.strerror or 'failed').lower()}).") from None


def packed(lengths: list[int], state: bytes, parts: list[bytes]) -> bytes:
    """A checkpoint file: lengths of the files before the parts that belong to them were written, state and parts."""
    numbers = [len(lengths), *lengths, len(state), *map(len, parts)]
    body = b"".join([*(number.to_bytes(8, "big") for number in numbers), state, *parts])
    return KIND + hashlib.sha256(body).digest() + body


def unpacked(content: bytes, name: str, files: int | None = None) -> tuple[list[int], bytes, list[bytes]]:
    """What `packed` was given, or an error with what is wrong."""
    digest, body = content[len(KIND) : len(KIND) + DIGEST_BYTES], content[len(KIND) + DIGEST_BYTES :]
    if content[: len(KIND)] != KIND:
        raise DataError(f"{name} is not a checkpoint of a file sink. Name another place with --checkpoint.")
    if hashlib.sha256(body).digest() != digest:
        raise DataError(f"{name} is torn or was altered: its checksum does not hold. Bring a whole one back.")
    count = int.from_bytes(body[:8], "big")
    if files not in (None, count):
        raise RefusedError(f"{name} was made for {count - 1} output files, here are {(files or 1) - 1}.")
    numbers = [int.from_bytes(body[at : at + 8], "big") for at in range(8, 8 * (2 * count + 2), 8)]
    ends = list(itertools.accumulate(numbers[count:], initial=8 * (2 * count + 2)))
    state, *parts = (body[start:end] for start, end in itertools.pairwise(ends))
    return numbers[:count], state, parts

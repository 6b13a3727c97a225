"""Bytes that only the holder of a key can have written: a torn, altered or foreign string is refused unread.

Layout: eight bytes that name the kind, the version of its format (4 bytes), a check value of the key (8 bytes), the
HMAC-SHA-256 under the key of all the rest (32 bytes), and the body. The check value only tells a foreign key from
damage; what is trusted is the code. One key can seal several kinds: the code covers the kind's name.

>>> letters = Kind(b"QVLETTER", 1, "the letter", "a letter", "Use the key that sealed it.")
>>> seal = Seal(letters, bytes(32))
>>> bytes(seal.open(seal.closed(b"dear ", b"all")))
b'dear all'
>>> seal.open(seal.closed(b"dear all")[:-1])
Traceback (most recent call last):
queryveil.errors.DataError: the letter is torn or was altered: its authentication code does not hold.
>>> Seal(letters, bytes(range(32))).open(seal.closed(b"dear all"))
Traceback (most recent call last):
queryveil.privacy.seal.OtherKeyError: the letter belongs to another key. Use the key that sealed it.
"""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import dataclass

from queryveil.errors import DataError

VERSION_BYTES, CHECK_BYTES, CODE_BYTES = 4, 8, 32


class OtherKeyError(DataError):
    """Whole, as far as can be told, but sealed with another key."""


@dataclass(frozen=True)
class Kind:
    """What is sealed: its eight bytes, the version of its format, and words for people who meet a wrong one."""

    mark: bytes
    version: int
    called: str
    what: str
    with_another_key: str


class Seal:
    """A key for one kind of bytes."""

    def __init__(self, kind: Kind, key: bytes) -> None:
        self._kind, self._key = kind, key
        check = hashlib.blake2b(kind.mark, key=key, digest_size=CHECK_BYTES).digest()
        self._start = kind.mark + kind.version.to_bytes(VERSION_BYTES, "big") + check

    def closed(self, *parts: bytes) -> bytes:
        """The parts one behind the other, sealed."""
        return b"".join([self._start, self._code(*parts), *parts])

    def open(self, content: bytes, name: str = "") -> memoryview:
        """The body, or `DataError` with what is wrong; `name` says which one it is, if there are several."""
        kind, start, called = self._kind, self._start, name or self._kind.called
        checked = len(kind.mark) + VERSION_BYTES
        if not content.startswith(kind.mark):
            raise DataError(f"{name or 'this'} is not {kind.what}.")
        torn = DataError(f"{called} is torn or was altered: its authentication code does not hold.")
        if len(content) < len(start) + CODE_BYTES:
            raise torn
        if content[:checked] != start[:checked]:
            raise DataError(f"{called} has another format than {kind.version}; use it with the version that made it.")
        if content[: len(start)] != start:
            raise OtherKeyError(f"{called} belongs to another key. {kind.with_another_key}")
        body = memoryview(content)[len(start) + CODE_BYTES :]
        if not hmac.compare_digest(content[len(start) : len(start) + CODE_BYTES], self._code(body)):
            raise torn
        return body

    def _code(self, *parts: bytes | memoryview) -> bytes:
        code = hmac.new(self._key, self._start, "sha256")
        for part in parts:
            code.update(part)
        return code.digest()

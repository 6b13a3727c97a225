"""A snapshot as bytes: versioned, authenticated, compressed; a torn, altered or foreign one is refused unread.

Layout: eight bytes that name the kind, the format's version (4 bytes), a check value of the run's key (8 bytes), the
HMAC-SHA-256 under that key of all the rest (32 bytes), then a Zstandard frame that holds a JSON header (its length in 8
bytes first), the arrays, and the held rows as Arrow IPC.

A snapshot holds the texts and users that wait, so it is as sensitive as the log. It holds no key: whoever restores it
brings the run's. Who has not that key cannot make or change a snapshot that would be taken.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import json
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import zstandard

from queryveil.errors import DataError

KIND = b"QVSTREAM"
VERSION = 4
CHECK_BYTES = 8
MAC_BYTES = 32
LARGEST = 1 << 40


class Seal:
    """The run's key for snapshots."""

    def __init__(self, key: bytes) -> None:
        self._key = key
        self.check = hashlib.blake2b(key=key, digest_size=CHECK_BYTES, person=b"stream snapshot").digest()

    def of(self, content: bytes) -> bytes:
        """The code that only the key can make."""
        return hmac.digest(self._key, content, "sha256")


def pack(header: dict[str, Any], arrays: dict[str, npt.NDArray[np.generic]], rows: pl.DataFrame, seal: Seal) -> bytes:
    """All of it as one string of bytes."""
    listed = [(name, array.dtype.str, len(array)) for name, array in arrays.items()]
    told = json.dumps({**header, "arrays": listed}).encode()
    table = io.BytesIO()
    rows.write_ipc(table)
    body = b"".join(
        [len(told).to_bytes(8, "big"), told, *(array.tobytes() for array in arrays.values()), table.getvalue()]
    )
    packed = zstandard.ZstdCompressor(level=1, write_content_size=True).compress(body)
    start = KIND + VERSION.to_bytes(4, "big") + seal.check
    return start + seal.of(start + packed) + packed


def unpack(content: bytes, seal: Seal) -> tuple[dict[str, Any], dict[str, npt.NDArray[np.generic]], pl.DataFrame]:
    """What `pack` was given, or `DataError` with what is wrong."""
    start = len(KIND) + 4
    if content[: len(KIND)] != KIND:
        raise DataError("this is not a snapshot of the stream mechanism.")
    if int.from_bytes(content[len(KIND) : start], "big") != VERSION:
        raise DataError(f"the snapshot has another format than {VERSION}; restore it with the version that made it.")
    sealed = start + CHECK_BYTES
    if content[start:sealed] != seal.check:
        raise DataError("the snapshot belongs to another key. Restore it with the key of the run that made it.")
    code, packed = content[sealed : sealed + MAC_BYTES], content[sealed + MAC_BYTES :]
    if not hmac.compare_digest(code, seal.of(content[:sealed] + packed)):
        raise DataError("the snapshot is torn or was altered: its authentication code does not hold.")
    body = zstandard.ZstdDecompressor().decompress(packed, max_output_size=LARGEST)
    at = 8 + int.from_bytes(body[:8], "big")
    header = json.loads(body[8:at])
    arrays: dict[str, npt.NDArray[np.generic]] = {}
    for name, dtype, count in header.pop("arrays"):
        array = np.frombuffer(body, dtype=np.dtype(dtype), count=count, offset=at)
        arrays[name] = array
        at += array.nbytes
    return header, arrays, pl.read_ipc(io.BytesIO(body[at:]))

"""A snapshot as bytes: versioned, checksummed, compressed; a torn or foreign one is refused.

Layout: eight bytes that name the kind, the format's version (4 bytes), a BLAKE2b digest of the rest (32 bytes), then a
Zstandard frame that holds a JSON header (its length in 8 bytes first), the arrays, and the held rows as Arrow IPC.

A snapshot holds the texts and users that wait, so it is as sensitive as the log. It holds no key: whoever restores it
brings the `Noise` it was made with, and a check value tells whether that is the right one.
"""

from __future__ import annotations

import hashlib
import io
import json
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl
import zstandard

from queryveil.errors import DataError

KIND = b"QVSTREAM"
VERSION = 1
DIGEST_BYTES = 32
LARGEST = 1 << 40


def pack(header: dict[str, Any], arrays: dict[str, npt.NDArray[np.generic]], rows: pl.DataFrame) -> bytes:
    """All of it as one string of bytes."""
    listed = [(name, array.dtype.str, len(array)) for name, array in arrays.items()]
    told = json.dumps({**header, "arrays": listed}).encode()
    table = io.BytesIO()
    rows.write_ipc(table)
    body = b"".join(
        [len(told).to_bytes(8, "big"), told, *(array.tobytes() for array in arrays.values()), table.getvalue()]
    )
    packed = zstandard.ZstdCompressor(level=1, write_content_size=True).compress(body)
    return KIND + VERSION.to_bytes(4, "big") + _digest(packed) + packed


def unpack(content: bytes) -> tuple[dict[str, Any], dict[str, npt.NDArray[np.generic]], pl.DataFrame]:
    """What `pack` was given, or `DataError` with what is wrong."""
    start = len(KIND) + 4
    if content[: len(KIND)] != KIND:
        raise DataError("this is not a snapshot of the stream mechanism.")
    if int.from_bytes(content[len(KIND) : start], "big") != VERSION:
        raise DataError(f"the snapshot has another format than {VERSION}; restore it with the version that made it.")
    packed = content[start + DIGEST_BYTES :]
    if content[start : start + DIGEST_BYTES] != _digest(packed):
        raise DataError("the snapshot is torn or was altered: its checksum does not hold.")
    body = zstandard.ZstdDecompressor().decompress(packed, max_output_size=LARGEST)
    at = 8 + int.from_bytes(body[:8], "big")
    header = json.loads(body[8:at])
    arrays: dict[str, npt.NDArray[np.generic]] = {}
    for name, dtype, count in header.pop("arrays"):
        array = np.frombuffer(body, dtype=np.dtype(dtype), count=count, offset=at)
        arrays[name] = array
        at += array.nbytes
    return header, arrays, pl.read_ipc(io.BytesIO(body[at:]))


def _digest(packed: bytes) -> bytes:
    return hashlib.blake2b(packed, digest_size=DIGEST_BYTES, person=b"stream snapshot").digest()

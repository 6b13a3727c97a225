"""A snapshot as bytes: versioned, authenticated, compressed; a torn, altered or foreign one is refused unread.

Sealed with the run's key (`privacy.keys`), a Zstandard frame that holds a JSON header (its length in 8 bytes first),
the arrays, and the held rows as Arrow IPC.

A snapshot holds the texts and users that wait, so it is as sensitive as the log. It holds no key: whoever restores it
brings the run's. Who has not that key cannot make or change a snapshot that would be taken.
"""

from __future__ import annotations

import io
import json
from typing import Any

import numpy as np
import polars as pl

from queryveil.arrays import Array
from queryveil.log._zstd import compress, decompress
from queryveil.privacy.keys import Kind, Seal

KIND = Kind(
    b"QVSTREAM",
    4,
    "the snapshot",
    "a snapshot of the stream mechanism",
    "Restore it with the key of the run that made it.",
)


def pack(header: dict[str, Any], arrays: dict[str, Array], rows: pl.DataFrame, seal: Seal) -> bytes:
    """All of it as one string of bytes."""
    listed = [(name, array.dtype.str, len(array)) for name, array in arrays.items()]
    described = json.dumps({**header, "arrays": listed}).encode()
    table = io.BytesIO()
    rows.write_ipc(table)
    body = b"".join(
        [
            len(described).to_bytes(8, "big"),
            described,
            *(array.tobytes() for array in arrays.values()),
            table.getvalue(),
        ]
    )
    return seal.closed(compress(body, 1))


def unpack(content: bytes, seal: Seal) -> tuple[dict[str, Any], dict[str, Array], pl.DataFrame]:
    """What `pack` was given, or `DataError` with what is wrong."""
    body = decompress(seal.open(content))
    at = 8 + int.from_bytes(body[:8], "big")
    header = json.loads(body[8:at])
    arrays: dict[str, Array] = {}
    for name, dtype, count in header.pop("arrays"):
        array = np.frombuffer(body, dtype=np.dtype(dtype), count=count, offset=at)
        arrays[name] = array
        at += array.nbytes
    return header, arrays, pl.read_ipc(io.BytesIO(body[at:]))

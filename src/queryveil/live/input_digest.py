"""A keyed digest of all records that were ever taken in, which does not depend on where batches are cut.

Each record is fingerprinted (SipHash-2-4, 64 bits), the fingerprint again together with the number of the record, under
two secret keys, and the results are added up modulo 2^64. A sum goes on from a batch to the next, and the kernels of
the stream mechanism make it over a whole batch at once. If one record is another, or stands at another place, the sum
changes by a number that nobody can foresee without the keys: two different inputs of the same length have the same
digest with a probability of about 2^-64. Whoever could see digests and choose inputs might do better; they are kept
beside the key and in the state alone.

>>> digest = InputDigest(bytes(range(32)))
>>> whole = digest.after("", 0, [b"a", None, b"b"])
>>> digest.after(digest.after("", 0, [b"a"]), 1, [None, b"b"]) == whole
True
>>> digest.after("", 0, [b"b", None, b"a"]) == whole or digest.after("", 0, [b"a", b"", b"b"]) == whole
False
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from queryveil.mechanisms.stream._names import Key, fingerprints_of_bytes, fingerprints_of_pairs

MODULUS = 1 << 64


class InputDigest:
    """The digest under one run's key of 32 bytes."""

    def __init__(self, key: bytes) -> None:
        words = np.frombuffer(key, "<u8", count=4).astype(np.uint64)
        self._line_key, self._place_key = Key(words[0], words[1]), Key(words[2], words[3])

    def after(self, digest: str, taken: int, lines: Sequence[bytes | None]) -> str:
        """The digest of `taken` records (empty at the beginning) with more; None is a record too long to be kept."""
        places = 2 * np.arange(taken, taken + len(lines), dtype=np.uint64)
        if None in lines:
            places[[number for number, line in enumerate(lines) if line is None]] += np.uint64(1)
            lines = [line or b"" for line in lines]
        kept: Sequence[bytes] = lines  # type: ignore[assignment]  # there is no None in it any more
        data, ends = np.frombuffer(b"".join(kept), np.uint8), np.cumsum(list(map(len, kept)), dtype=np.int64)
        marks = fingerprints_of_pairs(fingerprints_of_bytes(data, ends, self._line_key), places, self._place_key)
        return f"{(int(digest or '0', 16) + int(marks.sum())) % MODULUS:016x}"

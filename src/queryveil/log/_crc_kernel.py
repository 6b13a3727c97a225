"""CRC-32 of many texts at once (Numba), as `zlib.crc32` computes it for each. No strings: bytes and lengths."""

from __future__ import annotations

import numpy as np
from numba import njit

POLYNOMIAL = 0xEDB88320


def _remainders():
    table = np.empty(256, np.uint32)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (POLYNOMIAL if value & 1 else 0)
        table[byte] = value
    return table


REMAINDERS = _remainders()


@njit(cache=True, nogil=True)
def checksums(data, lengths, table, out):
    """The CRC-32 of consecutive pieces of `data`."""
    place = 0
    for text in range(len(lengths)):
        value = np.uint32(0xFFFFFFFF)
        for _ in range(lengths[text]):
            value = table[(value ^ np.uint32(data[place])) & np.uint32(0xFF)] ^ (value >> np.uint32(8))
            place += 1
        out[text] = value ^ np.uint32(0xFFFFFFFF)

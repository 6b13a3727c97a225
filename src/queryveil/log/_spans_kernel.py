"""Texts that lie in shared bytes (Numba): bytes, begins and ends, no strings."""

from __future__ import annotations

import numpy as np
from numba import njit

from queryveil.log._pointers import copy_bytes, pointer


@njit(cache=True, nogil=True)
def join(data, starts, stops, between, out):
    """Texts one behind the other, the same bytes after each."""
    texts, made = pointer(data), pointer(out)
    at = np.int64(0)
    for i in range(len(starts)):
        count = stops[i] - starts[i]
        copy_bytes(made, at, texts, starts[i], count)
        at += count
        for j in range(len(between)):
            made[at + j] = between[j]
        at += len(between)

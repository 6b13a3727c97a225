"""The two words nearest to a point, found exactly among hundreds of thousands.

A first look scores every word, x·q − ‖x‖²/2, in few bits, with a bound of the score's error. Every word whose score is
within these bounds of the second best is compared again in double precision, and nothing else can be among the two
nearest. Equal distances go to the word that comes first in the vocabulary. There are three ways, each for the points
that the one before leaves undecided:

1. products of bytes, where the processor has the instruction, with a bound that is measured (`byte_codes`);
2. blocked matrix products in single precision, with a bound that follows from the norms (Higham 2002, section 3.1);
3. where too many words are alike, or numbers are out of the reach of single precision, every word in double precision.

`_torch_search.py` is another road to the same answer, on a GPU.

Cost for N words, n dimensions and Q points: 2·Q·N·n operations; the matrix itself, a quarter of it as bytes, a few MB.

>>> points = np.array([[0.9, 0.0], [2.2, 0.1]])
>>> nearest, distances = NearestWords(np.array([[0, 0], [1, 0], [3, 0]], np.float32)).two(points)
>>> nearest.tolist(), distances[0].round(6).tolist()
([[1, 0], [2, 1]], [0.1, 0.9])
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import numpy.typing as npt

from queryveil.arrays import Flags, Floats, Longs
from queryveil.log.query_log import cores
from queryveil.mechanisms.obfuscate import byte_codes

Vectors = npt.NDArray[np.float32]

POINTS_AT_ONCE = 1024
SCORES_AT_ONCE = 1 << 18
"""A megabyte: scores are read while they are still in the core's own cache."""
WORDS_AT_ONCE = 1 << 13
CANDIDATES = 64
LEAST_POINTS_AT_ONCE = 24
"""Fewer, and a thread would wait for the words to come from memory."""
SINGLE = 2.0**-24
SMALLEST_SIZE, LARGEST_SIZE = 1e-15, 1e15
"""Of scores: beyond, single precision would leave out more than its units."""
THREADS = "OPENBLAS_NUM_THREADS"


class NearestWords:
    """Exact search among the rows of a matrix."""

    def __init__(self, matrix: Vectors) -> None:
        self.matrix = matrix
        squared = np.empty(len(matrix))
        for start in range(0, len(matrix), WORDS_AT_ONCE):  # never a second copy of the matrix
            part = matrix[start : start + WORDS_AT_ONCE].astype(np.float64)
            squared[start : start + len(part)] = np.einsum("ij,ij->i", part, part)
        self._half_norms = (squared / 2).astype(np.float32)
        self.longest = float(np.sqrt(squared.max()))
        """The length of the longest vector."""
        self._codes = byte_codes.ByteCodes(matrix) if byte_codes.available(matrix.shape[1]) else None

    def two(self, points: Floats) -> tuple[Longs, Floats]:
        """Numbers of the nearest and second nearest word of each point, and both distances."""
        points = np.ascontiguousarray(points, np.float64)
        nearest = np.empty((len(points), 2), np.int64)
        squared = np.empty((len(points), 2))
        left = np.arange(len(points))
        if self._codes is not None:
            left = np.flatnonzero(~self._by_bytes(points, nearest, squared))
        for start in range(0, len(left), POINTS_AT_ONCE):
            block = left[start : start + POINTS_AT_ONCE]
            nearest[block], squared[block] = self._by_single_precision(points[block])
        return nearest, np.sqrt(squared)

    def _by_bytes(self, points: Floats, nearest: Longs, squared: Floats) -> Flags:
        """Fill in what the first look decides, by as many threads as NumPy is given, and say which points these are."""
        asked = os.environ.get(THREADS, "")
        threads = int(asked) if asked.isdecimal() and int(asked) else cores()
        at_once = min(POINTS_AT_ONCE, max(LEAST_POINTS_AT_ONCE, -(-len(points) // threads)))
        blocks = [slice(start, start + at_once) for start in range(0, len(points), at_once)]
        if threads == 1 or len(blocks) == 1:
            decided = [self._first_look(points[block], nearest[block], squared[block]) for block in blocks]
        else:
            with ThreadPoolExecutor(threads) as pool:  # the kernels let go of Python's lock
                look = [pool.submit(self._first_look, points[b], nearest[b], squared[b]) for b in blocks]
                decided = [block.result() for block in look]
        return np.concatenate([np.zeros(0, np.bool_), *decided])

    def _first_look(self, points: Floats, nearest: Longs, squared: Floats) -> Flags:
        from queryveil.mechanisms.obfuscate import _nearest_kernel as kernel  # compiles on first use

        assert self._codes is not None
        size = self._sizes(np.linalg.norm(points, axis=1))
        kept = self._codes.candidates(points, (size > SMALLEST_SIZE) & (size < LARGEST_SIZE))
        no_margins = np.zeros(len(points), np.float32)
        kernel.judge(
            self.matrix, points, no_margins, kept.floors, kept.found, kept.upper, kept.counts, nearest, squared
        )
        return np.not_equal(kept.counts, kernel.OVERFULL)

    def _by_single_precision(self, points: Floats) -> tuple[Longs, Floats]:
        from queryveil.mechanisms.obfuscate import _nearest_kernel as kernel  # compiles on first use

        single = np.clip(points, -LARGEST_SIZE, LARGEST_SIZE).astype(np.float32)
        margins = self._margins(points, single)
        nearest = np.empty((len(points), 2), np.int64)
        squared = np.empty((len(points), 2))
        best = np.full((len(points), 2), -np.inf, np.float32)
        found = np.empty((len(points), CANDIDATES), np.int64)
        scores_found = np.empty((len(points), CANDIDATES), np.float32)
        counts = np.where(np.isfinite(margins), 0, kernel.OVERFULL)
        width = min(WORDS_AT_ONCE, max(kernel.CHUNK, SCORES_AT_ONCE // len(points)))
        room = np.empty((len(points), width), np.float32)
        for first in range(0, len(self.matrix), width):
            rows = self.matrix[first : first + width]
            scores = np.matmul(single, rows.T, out=room[:, : len(rows)])  # by all the threads that NumPy is given
            kernel.scan(scores, self._half_norms, first, margins, best, found, scores_found, counts)
        kernel.judge(self.matrix, points, margins, best, found, scores_found, counts, nearest, squared)
        for q in np.flatnonzero(counts == kernel.OVERFULL):
            nearest[q], squared[q] = self._by_comparing_all(points[q])
        return nearest, squared

    def _margins(self, points: Floats, single: Vectors) -> Vectors:
        """Twice the largest error of a score, for each point; infinite where single precision does not reach.

        A product of n terms in any order is off by at most γ‖x‖‖q‖, γ = nu / (1 − nu); rounding q adds ‖x‖‖q − q̃‖, and
        rounding ‖x‖²/2 and the difference a unit each. Two more terms and one per cent cover the bound's own rounding.
        """
        terms = (self.matrix.shape[1] + 2) * SINGLE
        length = np.linalg.norm(single.astype(np.float64), axis=1)
        rounded = np.linalg.norm(points - single, axis=1)
        product = self.longest * (terms / (1 - terms) * length + rounded)
        size = self._sizes(length)
        margins = 2.02 * (product + 2 * SINGLE * size)
        return np.where((size > SMALLEST_SIZE) & (size < LARGEST_SIZE), margins, np.inf).astype(np.float32)

    def _sizes(self, lengths: Floats) -> Floats:
        """The largest score that points of such lengths can have, without its sign."""
        return self.longest * lengths + self.longest**2

    def _by_comparing_all(self, point: Floats) -> tuple[Longs, Floats]:
        squared = np.empty(len(self.matrix))
        for start in range(0, len(squared), 1 << 14):
            squared[start : start + (1 << 14)] = ((self.matrix[start : start + (1 << 14)] - point) ** 2).sum(axis=1)
        two = np.argsort(squared, kind="stable")[:2]
        return two, squared[two]

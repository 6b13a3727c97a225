"""The two words nearest to a point, found exactly among hundreds of thousands.

Scores x·q − ‖x‖²/2 come from blocked matrix products in single precision. A single-precision score is off by at most a
bound that follows from the norms (Higham 2002, section 3.1), so every word whose score is within twice that bound of
the second best is measured again in double precision, and nothing else can be among the two nearest. Equal distances
go to the word that comes first in the vocabulary. Where too many words are alike, or numbers are too large for single
precision, the point is compared with every word in double precision.

`_torch_search.py` is another road to the same answer, on a GPU.

Cost for N words, n dimensions and Q points: 2·Q·N·n operations; the matrix itself and a few MB.

>>> points = np.array([[0.9, 0.0], [2.2, 0.1]])
>>> nearest, distances = NearestWords(np.array([[0, 0], [1, 0], [3, 0]], np.float32)).two(points)
>>> nearest.tolist(), distances[0].round(6).tolist()
([[1, 0], [2, 1]], [0.1, 0.9])
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from queryveil.arrays import Floats, Longs

Vectors = npt.NDArray[np.float32]

POINTS_AT_ONCE = 1024
SCORES_AT_ONCE = 1 << 18
"""A megabyte: scores are read while they are still in the core's own cache."""
WORDS_AT_ONCE = 1 << 13
CANDIDATES = 64
SINGLE = 2.0**-24
LARGEST_NORM = 1e15


class NearestWords:
    """Exact search among the rows of a matrix."""

    def __init__(self, matrix: Vectors) -> None:
        self.matrix = matrix
        squared = np.empty(len(matrix))
        for start in range(0, len(matrix), 1 << 16):  # never a second copy of the matrix
            part = matrix[start : start + (1 << 16)].astype(np.float64)
            squared[start : start + len(part)] = np.einsum("ij,ij->i", part, part)
        self._half_norms = (squared / 2).astype(np.float32)
        self.longest = float(np.sqrt(squared.max()))
        """The length of the longest vector."""

    def two(self, points: Floats) -> tuple[Longs, Floats]:
        """Numbers of the nearest and second nearest word of each point, and both distances."""
        nearest = np.empty((len(points), 2), np.int64)
        squared = np.empty((len(points), 2))
        for start in range(0, len(points), POINTS_AT_ONCE):
            block = slice(start, start + POINTS_AT_ONCE)
            self._search(np.ascontiguousarray(points[block], np.float64), nearest[block], squared[block])
        return nearest, np.sqrt(squared)

    def _search(self, points: Floats, nearest: Longs, squared: Floats) -> None:
        from queryveil.mechanisms.obfuscate import _nearest_kernel as kernel  # compiles on first use

        single = np.clip(points, -LARGEST_NORM, LARGEST_NORM).astype(np.float32)
        margins = self._margins(points, single)
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

    def _margins(self, points: Floats, single: Vectors) -> Vectors:
        """Twice the largest error of a score, for each point; infinite where single precision does not reach.

        A product of n terms in any order is off by at most γ‖x‖‖q‖, γ = nu / (1 − nu); rounding q adds ‖x‖‖q − q̃‖, and
        rounding ‖x‖²/2 and the difference a unit each. Two more terms and one per cent cover the bound's own rounding.
        """
        terms = (self.matrix.shape[1] + 2) * SINGLE
        length = np.linalg.norm(single.astype(np.float64), axis=1)
        rounded = np.linalg.norm(points - single, axis=1)
        product = self.longest * (terms / (1 - terms) * length + rounded)
        size = self.longest * length + self.longest**2
        margins = 2.02 * (product + 2 * SINGLE * size)
        return np.where(size < LARGEST_NORM, margins, np.inf).astype(np.float32)

    def _by_comparing_all(self, point: Floats) -> tuple[Longs, Floats]:
        squared = np.empty(len(self.matrix))
        for start in range(0, len(squared), 1 << 14):
            squared[start : start + (1 << 14)] = ((self.matrix[start : start + (1 << 14)] - point) ** 2).sum(axis=1)
        two = np.argsort(squared, kind="stable")[:2]
        return two, squared[two]

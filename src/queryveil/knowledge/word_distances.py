"""Distances from words to the whole vocabulary: in double precision for laws that are drawn from, fast for attackers.

>>> matrix = np.array([[0.0, 0.0], [3.0, 4.0]], np.float32)
>>> exact_distances(matrix, 0).tolist()
[0.0, 5.0]
>>> WordDistances(matrix).exponential_sums(np.array([0]), 1.0, 2.0).round(4).tolist()  # 1 + e^-2
[1.1353]
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from numba import njit

from queryveil.knowledge._arrays import Array, Floats

DISTANCES_AT_ONCE = 1 << 19
"""Two megabytes: distances are used while they are still in the core's own cache."""
CELLS = 256


def exact_distances(matrix: Array, index: int) -> Floats:
    """From one word to all, in double precision."""
    away = np.empty(len(matrix))
    _from_point(matrix, matrix[index].astype(np.float64), away)
    return away


@njit(cache=True, nogil=True, fastmath={"reassoc"})  # type: ignore[untyped-decorator]
def _from_point(matrix: Array, point: Array, away: Array) -> None:
    """Squares may be added in any order, which is quicker: the bound on the rounding of a sum holds for all orders."""
    for row in range(len(matrix)):
        squared = 0.0
        for i in range(len(point)):
            difference = np.float64(matrix[row, i]) - point[i]
            squared += difference * difference
        away[row] = np.sqrt(squared)


class WordDistances:
    """In single precision: off by about 1e-6 of the vectors' lengths, and 0 from a word to itself."""

    def __init__(self, matrix: npt.NDArray[np.float32]) -> None:
        self._matrix = matrix
        self._squares = np.einsum("ij,ij->i", matrix, matrix, dtype=np.float64).astype(np.float32)

    def blocks(self, words: npt.NDArray[np.int64]) -> Iterator[tuple[slice, npt.NDArray[np.float32]]]:
        """From words to the vocabulary, some columns of it at a time; who keeps them makes a copy."""
        width = max(256, DISTANCES_AT_ONCE // max(1, len(words)))
        room = np.empty((len(words), min(width, len(self._matrix))), np.float32)
        for start in range(0, len(self._matrix), width):
            columns = slice(start, min(start + width, len(self._matrix)))
            away = self._between(self._matrix[words], self._squares[words], columns, room[:, : columns.stop - start])
            own = np.flatnonzero((words >= start) & (words < columns.stop))
            away[own, words[own] - start] = 0.0
            yield columns, away

    def sums(self, words: npt.NDArray[np.int64], times: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """Σ times · distance to the words, for every word of the vocabulary."""
        found = np.empty(len(self._matrix), np.float32)
        for columns, away in self.blocks(words):
            np.matmul(times.astype(np.float32), away, out=found[columns])
        return found

    def _between(
        self, rows: Array, squares: Array, columns: slice, room: npt.NDArray[np.float32]
    ) -> npt.NDArray[np.float32]:
        away = np.matmul(rows, self._matrix[columns].T, out=room)
        away *= -2
        away += squares[:, None]
        away += self._squares[columns]
        return np.sqrt(np.maximum(away, 0.0, out=away), out=away)

    def exponential_sums(self, words: npt.NDArray[np.int64], scale: float, cut: float) -> Floats:
        """Σ_u e^(−scale · min(d(w, u), cut)) of words."""
        totals = np.zeros(len(words))
        for _, away in self.blocks(words):
            np.minimum(away, np.float32(cut), out=away)
            away *= np.float32(-scale)
            totals += np.exp(away, out=away).sum(axis=1, dtype=np.float64)
        return totals

    def least_exponential_sums(self, scale: float, cut: float) -> Floats:
        """For every word a number that `exponential_sums` is not below, from words taken together in cells.

        e^(−x) is convex, so (Jensen) n words of a cell give at least n·e^(−scale · mean distance); that mean is at
        most the root of the mean square, √(‖w − m‖² + s²) with m the cell's mean and s² its variance. A word
        counts 1 for itself, and the n − 1 others of its own cell have n / (n − 1) times that mean square.
        """
        size = len(self._matrix)
        centres = np.linspace(0, size - 1, min(CELLS, size)).astype(np.int64)
        cells = np.concatenate([away.argmin(axis=0) for _, away in self.blocks(centres)])
        _, cells, counts = np.unique(cells, return_inverse=True, return_counts=True)
        means = np.stack([np.bincount(cells, column) for column in self._matrix.T], axis=1) / counts[:, None]
        mean_squares = (np.bincount(cells, self._squares) / counts).astype(np.float32)
        others = np.sqrt(counts / np.maximum(counts - 1, 1))
        totals = np.empty(size)
        width = max(256, DISTANCES_AT_ONCE // len(means))
        for start in range(0, size, width):
            columns = slice(start, min(start + width, size))
            room = np.empty((len(means), columns.stop - start), np.float32)
            away = self._between(means.astype(np.float32), mean_squares, columns, room)  # ‖m‖² + s² is the mean square
            places, own = np.arange(columns.stop - start), cells[columns]
            near = np.minimum(away[own, places] * others[own], cut)
            sums = counts @ np.exp(np.float32(-scale) * np.minimum(away, np.float32(cut)))
            sums -= counts[own] * np.exp(-scale * np.minimum(away[own, places], cut))
            totals[columns] = np.maximum(1.0, 1.0 + (counts[own] - 1) * np.exp(-scale * near) + sums)
        return totals

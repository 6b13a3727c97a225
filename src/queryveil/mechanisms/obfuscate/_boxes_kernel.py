"""The nearest words of every word, from distances that come in columns (Numba)."""

from __future__ import annotations

from numba import njit


@njit(cache=True, nogil=True)
def take_in(away, first, nearest, distances):
    """Merge the distances to the words `first` … into each row's list, nearest first; of equal ones the first word."""
    last = nearest.shape[1] - 1
    for row in range(len(away)):
        for column in range(away.shape[1]):
            distance = away[row, column]
            if distance >= distances[row, last]:
                continue
            place = last
            while place > 0 and distances[row, place - 1] > distance:
                distances[row, place] = distances[row, place - 1]
                nearest[row, place] = nearest[row, place - 1]
                place -= 1
            distances[row, place] = distance
            nearest[row, place] = first + column

"""Read scores once, keep what may still be among the two nearest, and judge that in double precision (Numba).

A score is x·q − ‖x‖²/2 in single precision: the larger, the nearer. A word is a candidate while its score is at least
the second best seen minus the margin (twice the largest error a score can have), so the two nearest are never lost.
"""

from __future__ import annotations

import numpy as np
from numba import njit

CHUNK = 256
OVERFULL = -1


@njit(cache=True, nogil=True)
def _any_reaches(scores, half_norms, floor):
    """Whether a score is at least the floor: one bit is quicker to find than the largest score."""
    reached = False
    if len(scores) == CHUNK:  # a known length compiles to vector instructions without a loop
        for j in range(CHUNK):
            reached |= scores[j] - half_norms[j] >= floor
        return reached
    for j in range(len(scores)):
        reached |= scores[j] - half_norms[j] >= floor
    return reached


@njit(cache=True, nogil=True)
def without_the_beaten(found, found_scores, count, floor):
    kept = 0
    for place in range(count):
        if found_scores[place] >= floor:
            found[kept] = found[place]
            found_scores[kept] = found_scores[place]
            kept += 1
    return kept


@njit(cache=True, nogil=True)
def scan(scores, half_norms, first, margins, best, found, found_scores, counts):
    """Take in the scores of the words `first` … for every query; `counts` becomes OVERFULL where too many are alike."""
    width = scores.shape[1]
    capacity = found.shape[1]
    for q in range(scores.shape[0]):
        if counts[q] == OVERFULL:
            continue
        row = scores[q]
        floor = best[q, 1] - margins[q]
        for start in range(0, width, CHUNK):
            stop = min(start + CHUNK, width)
            if not _any_reaches(row[start:stop], half_norms[first + start : first + stop], floor):
                continue
            for j in range(start, stop):
                score = row[j] - half_norms[first + j]
                if score < floor:
                    continue
                if score > best[q, 0]:
                    best[q, 1] = best[q, 0]
                    best[q, 0] = score
                elif score > best[q, 1]:
                    best[q, 1] = score
                floor = best[q, 1] - margins[q]
                if counts[q] == capacity:
                    counts[q] = without_the_beaten(found[q], found_scores[q], capacity, floor)
                if counts[q] == capacity:
                    counts[q] = OVERFULL
                    break
                found[q, counts[q]] = first + j
                found_scores[q, counts[q]] = score
                counts[q] += 1
            if counts[q] == OVERFULL:
                break


@njit(cache=True, nogil=True)
def _difference_of_squares(matrix, a, b, point):
    """‖a − p‖² − ‖b − p‖² as Σ (aᵢ − bᵢ)(aᵢ + bᵢ − 2pᵢ): its error shrinks with ‖a − b‖, so near twins are told apart.

    Summed in runs of 16, which keeps the error of n terms below (n / 16 + 20) units.
    """
    total = 0.0
    for start in range(0, len(point), 16):
        part = 0.0
        for i in range(start, min(start + 16, len(point))):
            x, y = np.float64(matrix[a, i]), np.float64(matrix[b, i])
            part += (x - y) * (x + y - 2.0 * point[i])
        total += part
    return total


@njit(cache=True, nogil=True)
def _is_nearer(matrix, a, b, point):
    difference = _difference_of_squares(matrix, a, b, point)
    return difference < 0.0 or (difference == 0.0 and a < b)


@njit(cache=True, nogil=True)
def judge(matrix, points, margins, best, found, found_scores, counts, nearest, distances):
    """The two nearest among the candidates, in double precision; ties to the word that comes first."""
    for q in range(len(points)):
        first, second = np.int64(-1), np.int64(-1)
        for place in range(max(counts[q], 0)):
            if found_scores[q, place] < best[q, 1] - margins[q]:
                continue
            word = found[q, place]
            if first < 0 or _is_nearer(matrix, word, first, points[q]):
                first, second = word, first
            elif second < 0 or _is_nearer(matrix, word, second, points[q]):
                second = word
        nearest[q, 0], nearest[q, 1] = first, second
        for place in range(2):
            squared = 0.0
            for i in range(points.shape[1]):
                difference = np.float64(matrix[nearest[q, place], i]) - points[q, i]
                squared += difference * difference
            distances[q, place] = squared

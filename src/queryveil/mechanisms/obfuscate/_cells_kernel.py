"""Which of some words lie nearest to noisy points, and how likely each of several words put the point there (Numba).

Points are w + z for every word w and every noise z. Scores are linear in the point, (w + z)·x − ‖x‖²/2 = A[w, x] + G[z,
x], so that a point costs one addition for each word x and not one for each coordinate.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

CHUNK = 64


@njit(cache=True, nogil=True, fastmath=True)
def _any_above(a, g, floor):
    """Whether a score is above the floor: one bit is quicker to find than the largest score."""
    reached = False
    if len(a) == CHUNK:  # a known length compiles to vector instructions without a loop
        for j in range(CHUNK):
            reached |= a[j] + g[j] > floor
        return reached
    for j in range(len(a)):
        reached |= a[j] + g[j] > floor
    return reached


@njit(cache=True, nogil=True)
def _two_nearest(a, g):
    """Places and scores of the two largest a + g; of equal ones the first."""
    first, second = np.float32(-np.inf), np.float32(-np.inf)
    nearest, other = -1, -1
    for start in range(0, len(a), CHUNK):
        stop = min(start + CHUNK, len(a))
        if not _any_above(a[start:stop], g[start:stop], second):
            continue
        for k in range(start, stop):
            score = a[k] + g[k]
            if score > first:
                first, second, nearest, other = score, first, k, nearest
            elif score > second:
                second, other = score, k
    return nearest, other, first, second


@njit(cache=True, nogil=True)
def chances(word_scores, noise_scores, squares, t, straight, epsilon, place, found):
    """Add P(output | word) to `found` [outputs × words], estimated from all points together.

    `squares[w, z]` = ‖w + z‖². `straight` = (‖y‖² of each noise, y·s of each noise and word, ‖s − s'‖² of words) in the
    coordinates in which the density is e^(−ε‖y‖). `place` tells which output a near word is, −1 for none.

    A point x, whichever word put it there, counts for word w with the weight f(x − w) / Σ f(x − w'), over all words:
    the balance heuristic of Veach and Guibas (1995), unbiased for each of the words.
    """
    lengths, along, apart = straight
    words, noises = len(word_scores), len(noise_scores)
    shares = np.empty(words)
    for c in range(words):
        for m in range(noises):
            nearest, other, first, second = _two_nearest(word_scores[c], noise_scores[m])
            here, there = place[nearest], place[other] if other >= 0 else -1
            if here < 0 and (t == 0.0 or there < 0):
                continue
            keeps = 1.0
            if t > 0.0 and other >= 0:
                d1 = math.sqrt(max(squares[c, m] - 2.0 * first, 0.0))
                d2 = math.sqrt(max(squares[c, m] - 2.0 * second, 0.0))
                if d1 > 0.0:
                    keeps = (1.0 - t) * d2 / (t * d1 + (1.0 - t) * d2)
            least = np.inf
            for w in range(words):
                squared = lengths[m] + apart[c, w] + 2.0 * (along[m, c] - along[m, w])
                shares[w] = epsilon * math.sqrt(max(squared, 0.0))
                least = min(least, shares[w])
            total = 0.0
            for w in range(words):
                shares[w] = math.exp(least - shares[w])
                total += shares[w]
            for w in range(words):
                share = shares[w] / (total * noises)
                if here >= 0:
                    found[here, w] += keeps * share
                if there >= 0 and keeps < 1.0:
                    found[there, w] += (1.0 - keeps) * share

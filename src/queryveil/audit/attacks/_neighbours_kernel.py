"""Who received most among neighbouring releases (Numba)."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True)
def most_frequent_neighbours(receivers, starts, before, after, exclude_receiver, out):
    """For each release the user who received most in a window around it; ties go to the one that stands nearest.

    `receivers` is ordered by category, category c from starts[c] to starts[c + 1]. Where the receiver of a release may
    be its author it counts itself, otherwise it is left out. −1 where nobody is left.
    """
    for c in range(len(starts) - 1):
        for i in range(starts[c], starts[c + 1]):
            low, high = max(starts[c], i - before), min(starts[c + 1], i + after + 1)
            best, best_count, best_distance = -1, 0, 0
            for j in range(low, high):
                candidate = receivers[j]
                if (exclude_receiver and candidate == receivers[i]) or (exclude_receiver and j == i):
                    continue
                count, distance = 0, high - low
                for m in range(low, high):
                    if receivers[m] == candidate:
                        count += 1
                        distance = min(distance, abs(m - i))
                if count > best_count or (count == best_count and distance < best_distance):
                    best, best_count, best_distance = candidate, count, distance
            out[i] = best


@njit(cache=True)
def count_neighbours(receivers, starts, category_of, places, reach, counts, touched):
    """Add up, for one text, how often each user received within `reach` places of its releases; returns who did."""
    found = 0
    for place in places:
        c = category_of[place]
        for j in range(max(starts[c], place - reach), min(starts[c + 1], place + reach + 1)):
            if j != place:
                user = receivers[j]
                if counts[user] == 0:
                    touched[found] = user
                    found += 1
                counts[user] += 1
    return np.int64(found)

"""Who holds all of a few known texts (Numba)."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True)
def holds(holders, low, high, person):
    """Whether the sorted holders from low to high include a person."""
    while low < high:
        middle = (low + high) // 2
        if holders[middle] < person:
            low = middle + 1
        else:
            high = middle
    return low


@njit(cache=True)
def find_candidates(starts, holders, known, counts, only):
    """For each row of known texts how many people hold all of them (2 stands for more) and the last one found.

    A text that nobody holds, or a negative number, tells nothing and is passed over; where that leaves none, nobody is
    found.
    """
    rows, width = known.shape
    for i in range(rows):
        rarest, size = -1, np.int64(0)
        for j in range(width):
            text = known[i, j]
            held = starts[text + 1] - starts[text] if text >= 0 else np.int64(0)
            if held > 0 and (rarest < 0 or held < size):
                rarest, size = text, held
        found, last = 0, -1
        if rarest >= 0:
            for place in range(starts[rarest], starts[rarest + 1]):
                person, all_held = holders[place], True
                for j in range(width):
                    text = known[i, j]
                    if text < 0 or text == rarest:
                        continue
                    low, high = starts[text], starts[text + 1]
                    if high > low:
                        at = holds(holders, low, high, person)
                        if at == high or holders[at] != person:
                            all_held = False
                            break
                if all_held:
                    found, last = found + 1, person
                    if found == 2:
                        break
        counts[i], only[i] = found, last

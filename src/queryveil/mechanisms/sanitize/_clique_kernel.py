"""Which pairs exclude each other, and cliques of them that a fractional solution breaks (Numba).

Who excludes whom is a matrix of bits: bit j of row i, in words of 64.
"""

from __future__ import annotations

import numpy as np
from numba import njit

ONE = np.uint64(1)
PRESENT = 1e-6
"""A pair with a share above this counts as present in a fractional solution."""


@njit(cache=True)
def exclusions(user_start, user_pair, user_weight, limit, bits):
    """Set the bits of all pairs of pairs that together are too heavy for some user."""
    for user in range(len(user_start) - 1):
        for a in range(user_start[user], user_start[user + 1]):
            for b in range(a + 1, user_start[user + 1]):
                if user_weight[a] + user_weight[b] > limit:
                    i, j = user_pair[a], user_pair[b]
                    bits[i, j >> 6] |= ONE << np.uint64(j & 63)
                    bits[j, i >> 6] |= ONE << np.uint64(i & 63)


@njit(cache=True)
def _excludes_all(bits, members, size, candidate):
    for index in range(size):  # noqa: SIM110  # Numba knows no generators
        if not (bits[members[index], candidate >> 6] >> np.uint64(candidate & 63)) & ONE:
            return False
    return True


@njit(cache=True)
def broken_cliques(share, by_share, bits, least_excess, cliques, sizes):
    """From every present pair a clique grown greedily by share; those with more than 1 + least_excess in sum are made
    maximal with absent pairs and written to `cliques`. How many there are."""
    found = 0
    width = cliques.shape[1]
    for seed in by_share:
        if share[seed] <= PRESENT or found == len(cliques):
            break
        clique = cliques[found]
        clique[0] = seed
        size, total = 1, share[seed]
        for candidate in by_share:
            if share[candidate] <= PRESENT or size == width:
                break
            if candidate != seed and _excludes_all(bits, clique, size, candidate):
                clique[size] = candidate
                size += 1
                total += share[candidate]
        if total > 1 + least_excess:
            for candidate in by_share[::-1]:
                if share[candidate] > PRESENT or size == width:
                    break
                if _excludes_all(bits, clique, size, candidate):
                    clique[size] = candidate
                    size += 1
            sizes[found] = size
            found += 1
    return found

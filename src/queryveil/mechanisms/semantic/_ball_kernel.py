"""Loops over the balls of a domain, one input at a time (Numba); see `_law_kernel.py` for how a row is scanned."""

from __future__ import annotations

import numpy as np
from numba import njit

from queryveil.mechanisms.semantic._law_kernel import _row

_kernel = njit(cache=True, nogil=True)


@_kernel
def find_edges(first, last, size, domain, ranks, edges, lasts, found):
    """For the inputs first … last−1: the rank of similarity at which the `size` nearest end, and the last there.

    `found` counts the members that follow from both.
    """
    concepts = len(domain.part_of)
    steps, row = np.zeros(concepts + 1, np.int32), np.empty(concepts, np.int32)
    counts = np.zeros(ranks.max() + 1, np.int64)
    for concept in range(first, last):
        _row(concept, domain, steps, row)
        counts[:] = 0
        for output in range(concepts):
            row[output] = ranks[row[output]]
            counts[row[output]] += 1
        edge, left = len(counts) - 1, size
        while counts[edge] < left:
            left -= counts[edge]
            edge -= 1
        output, reached = -1, 0
        while reached < left:
            output += 1
            if row[output] == edge:
                reached += 1
        edges[concept], lasts[concept] = edge, output
        members = 0
        for output in range(concepts):
            if row[output] > edge or (row[output] == edge and output <= lasts[concept]):
                members += 1
        found[concept] = members


@_kernel
def draw_members(group_starts, inputs, draws, places, domain, ranks, edges, lasts, outputs):
    """outputs[draws[d]]: the places[d]-th member of the ball of its input, by number.

    Draws with equal input are neighbours (groups between `group_starts`); each group costs one scan of the domain.
    """
    concepts = len(domain.part_of)
    steps, row = np.zeros(concepts + 1, np.int32), np.empty(concepts, np.int32)
    members = np.empty(concepts, np.int32)
    for group in range(len(group_starts) - 1):
        concept = inputs[draws[group_starts[group]]]
        _row(concept, domain, steps, row)
        edge, last = edges[concept], lasts[concept]
        count = 0
        for output in range(concepts):
            rank = ranks[row[output]]
            if rank > edge or (rank == edge and output <= last):
                members[count] = output
                count += 1
        for draw in range(group_starts[group], group_starts[group + 1]):
            outputs[draws[draw]] = members[places[draw]]

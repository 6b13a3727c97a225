"""Loops over the balls of a domain, one input at a time (Numba); see `_law_kernel.py` for how a row is scanned."""

from __future__ import annotations

import numpy as np
from numba import njit

from queryveil.mechanisms.semantic._law_kernel import _class_of, _count_cells, _helper, _pieces, _row
from queryveil.mechanisms.semantic.domain import BLOCK

_kernel = njit(cache=True, nogil=True)


@_kernel
def find_edges(first, last, size, domain, ranks, edges, lasts, found):
    """For the inputs first … last−1: the rank of similarity at which the `size` nearest end, and the last there.

    `found` counts the members that follow from both.
    """
    concepts, kinds = len(domain.part_of), len(domain.kind_counts)
    begins, shared = np.empty(domain.most_pieces + 1, np.int64), np.empty(domain.most_pieces, np.int64)
    ends = np.empty(domain.most_pieces, np.int64)
    all_cells = np.zeros((domain.subsumer_counts.max() + 1, kinds), np.int32)
    all_ranks, all_before = np.empty_like(all_cells), np.empty_like(all_cells)
    counts = np.zeros(ranks.max() + 1, np.int64)
    for concept in range(first, last):
        levels = domain.subsumer_counts[concept] + 1
        cells, cell_ranks, before = all_cells[:levels], all_ranks[:levels], all_before[:levels]
        pieces = _pieces(concept, domain, ends, begins, shared)
        _count_cells(pieces, begins, shared, concepts, domain, cells)
        counts[:] = 0
        for level in range(levels):
            for kind in range(kinds):
                cell_ranks[level, kind] = -1
                if cells[level, kind] > 0:
                    cell_ranks[level, kind] = ranks[_class_of(concept, level, kind, domain)]
                    counts[cell_ranks[level, kind]] += cells[level, kind]
        edge, left = len(counts) - 1, size
        while counts[edge] < left:
            left -= counts[edge]
            edge -= 1
        edges[concept], lasts[concept] = edge, _place_of(left, edge, pieces, begins, shared, cell_ranks, domain)
        _count_cells(pieces, begins, shared, lasts[concept] + 1, domain, before)
        members = 0
        for level in range(levels):
            for kind in range(kinds):
                if cell_ranks[level, kind] > edge:
                    members += cells[level, kind]
                elif cell_ranks[level, kind] == edge:
                    members += before[level, kind]
        found[concept] = members


@_helper
def _place_of(left, edge, pieces, begins, shared, cell_ranks, domain):
    """The number of the left-th output whose rank is `edge`: blocks that end before it are skipped."""
    wanted = np.empty(cell_ranks.shape[1], np.int32)
    for piece in range(pieces):
        of_kinds, kinds = cell_ranks[shared[piece]], 0
        for kind in range(len(of_kinds)):
            if of_kinds[kind] == edge:
                wanted[kinds] = kind
                kinds += 1
        output = begins[piece] if kinds > 0 else begins[piece + 1]
        while output < begins[piece + 1]:
            if output % BLOCK == 0 and output + BLOCK <= begins[piece + 1]:
                block, more = output // BLOCK, 0
                for kind in wanted[:kinds]:
                    more += domain.tallies[block + 1, kind] - domain.tallies[block, kind]
                if more < left:
                    left -= more
                    output += BLOCK
                    continue
            if of_kinds[domain.kind_of[output]] == edge:
                left -= 1
                if left == 0:
                    return output
            output += 1
    return -1


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

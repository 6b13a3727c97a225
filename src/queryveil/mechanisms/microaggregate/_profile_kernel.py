"""Counting categories per user (Numba); `Vocabulary.profiles` is the caller, the tests hold a slow twin."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def count_cells(user_offsets, pair_texts, pair_counts, term_offsets, terms, node_offsets, nodes, node_count):
    """How many different nodes each user has."""
    users = len(user_offsets) - 1
    seen_by = np.full(node_count, -1, np.int32)
    cells = np.zeros(users, np.int64)
    for user in range(users):
        for pair in range(user_offsets[user], user_offsets[user + 1]):
            text = pair_texts[pair]
            for place in range(term_offsets[text], term_offsets[text + 1]):
                term = terms[place]
                for spot in range(node_offsets[term], node_offsets[term + 1]):
                    if seen_by[nodes[spot]] != user:
                        seen_by[nodes[spot]] = user
                        cells[user] += 1
    return cells


@njit(cache=True, nogil=True)
def fill_cells(user_offsets, pair_texts, pair_counts, term_offsets, terms, node_offsets, nodes, node_count, offsets):
    """The nodes of each user in ascending order, and how often each was asked for."""
    users = len(user_offsets) - 1
    times = np.zeros(node_count, np.int32)
    out_nodes = np.empty(offsets[-1], np.int32)
    out_counts = np.empty(offsets[-1], np.int32)
    for user in range(users):
        filled = offsets[user]
        for pair in range(user_offsets[user], user_offsets[user + 1]):
            text = pair_texts[pair]
            for place in range(term_offsets[text], term_offsets[text + 1]):
                term = terms[place]
                for spot in range(node_offsets[term], node_offsets[term + 1]):
                    node = nodes[spot]
                    if times[node] == 0:
                        out_nodes[filled] = node
                        filled += 1
                    times[node] += pair_counts[pair]
        mine = out_nodes[offsets[user] : filled]
        mine.sort()
        for place in range(offsets[user], filled):
            out_counts[place] = times[out_nodes[place]]
            times[out_nodes[place]] = 0
    return out_nodes, out_counts

"""The greedy search for groups (Numba): arrays in, arrays out, no randomness; the tests hold a dense slow twin.

A user's row is a sparse multiset of nodes; `lists` is its transpose: for each node the users that have it, from
`begins[node]` to `ends[node]`, or, where many have it, everybody's count in `columns[column_of[node]]`. Similarity is
Σ over nodes of min(counts) (Algorithm 2). Only one row of similarities is ever in memory. `strengths` has the integer
type that sums of similarities fit in.
"""

from __future__ import annotations

import heapq

import numpy as np
from numba import njit

PARTNERS_KEPT = 64
"""Partners remembered for each user. More make fewer rows to be computed again, and take more memory."""

MANY = 16
"""A node that one user in so many has is kept as a column, which takes less time than a list of those who have it."""
LARGEST_IN_COLUMN = 2**15 - 1

_helper = njit(inline="always")


@njit(cache=True, nogil=True)
def transpose(offsets, nodes, counts, node_count):
    """Users and counts by node, users ascending; of nodes that many have, a column with everybody's count instead."""
    users = len(offsets) - 1
    begins, largest = np.zeros(node_count + 1, np.int64), np.zeros(node_count, np.int32)
    for place in range(len(nodes)):
        begins[nodes[place] + 1] += 1
        largest[nodes[place]] = max(largest[nodes[place]], counts[place])
    column_of, columns = np.full(node_count, -1, np.int32), 0
    for node in range(node_count):
        if begins[node + 1] * MANY > users and largest[node] <= LARGEST_IN_COLUMN:
            column_of[node], columns, begins[node + 1] = columns, columns + 1, 0
        begins[node + 1] += begins[node]
    filled = begins[:-1].copy()
    list_users, list_counts = np.empty(begins[-1], np.int32), np.empty(begins[-1], np.int32)
    column_counts = np.zeros((columns, users), np.int16)
    for user in range(users):
        for place in range(offsets[user], offsets[user + 1]):
            node = nodes[place]
            if column_of[node] >= 0:
                column_counts[column_of[node], user] = counts[place]
                continue
            list_users[filled[node]], list_counts[filled[node]] = user, counts[place]
            filled[node] += 1
    return begins[:-1].copy(), begins[1:].copy(), list_users, list_counts, column_of, column_counts


@_helper
def _add_row(user, offsets, nodes, counts, begins, ends, list_users, list_counts, column_of, columns, row):
    """Add the similarity of a user with everybody to `row`."""
    for place in range(offsets[user], offsets[user + 1]):
        node, mine = nodes[place], counts[place]
        if column_of[node] >= 0:
            column, most = columns[column_of[node]], np.int16(mine)
            for other in range(len(row)):  # no branch and no address to look up: many users in one instruction
                row[other] += column[other] if column[other] < most else most
        elif mine == 1:  # most cells: nobody listed has less
            for spot in range(begins[node], ends[node]):
                row[list_users[spot]] += 1
        else:
            for spot in range(begins[node], ends[node]):
                row[list_users[spot]] += min(mine, list_counts[spot])


@njit(cache=True, nogil=True)
def similarities(user, offsets, nodes, counts, begins, ends, list_users, list_counts, column_of, columns):
    """The similarity of one user with everybody, themselves included."""
    row = np.zeros(len(offsets) - 1, np.int64)
    _add_row(user, offsets, nodes, counts, begins, ends, list_users, list_counts, column_of, columns, row)
    return row


@_helper
def _keep_best(user, row, free, partners, strengths):
    """The most similar free users in falling order, lowest number first among equals; returns how many there are.

    Only positive similarities are kept. If the list comes back full, there may be more behind it.
    """
    kept = 0
    for other in range(len(row)):
        strength = row[other]
        if strength == 0 or other == user or not free[other]:
            continue
        if kept == len(partners):
            if strength <= strengths[kept - 1]:
                continue
        else:
            kept += 1
        at = kept - 1
        while at > 0 and strengths[at - 1] < strength:
            partners[at] = partners[at - 1]
            strengths[at] = strengths[at - 1]
            at -= 1
        partners[at] = other
        strengths[at] = strength
    return kept


@njit(cache=True, nogil=True)
def find_best_partners(
    part,
    parts,
    offsets,
    nodes,
    counts,
    begins,
    ends,
    list_users,
    list_counts,
    column_of,
    columns,
    partners,
    strengths,
    found,
):
    """For each user the most similar others and how similar they are; this call does every `parts`-th user."""
    users = len(offsets) - 1
    free = np.ones(users, np.bool_)
    row = np.empty(users, strengths.dtype)
    for user in range(part, users, parts):
        row[:] = 0
        _add_row(user, offsets, nodes, counts, begins, ends, list_users, list_counts, column_of, columns, row)
        found[user] = _keep_best(user, row, free, partners[user], strengths[user])


@_helper
def _first_free(free, at):
    while at < len(free) and not free[at]:
        at += 1
    return at


@njit(cache=True, nogil=True)
def greedy_groups(
    k,
    enough,
    offsets,
    nodes,
    counts,
    begins,
    ends,
    list_users,
    list_counts,
    column_of,
    columns,
    partners,
    strengths,
    found,
    grouped,
):
    """Algorithms 3 and 4 as corrected: the most similar free pair, then whoever has the largest summed similarity.

    Ties go to the lowest number. Stops when fewer than `enough` users are free; gives the group of each user, −1 for
    those still free; `grouped` tells other threads meanwhile how many have one. A heap holds each user with the
    similarity of their best partner when last looked at. Others only ever disappear, so that is an upper bound, and the
    pair on top is the best one once its partner is found to be free.
    """
    users = len(offsets) - 1
    group = np.full(users, -1, np.int32)
    free = np.ones(users, np.bool_)
    left, groups, first = users, 0, 0
    place = np.zeros(users, np.int32)
    row = np.zeros(users, strengths.dtype)
    heap = [(np.int64(-strengths[each, 0] if found[each] else 0), np.int64(each)) for each in range(users)]
    heapq.heapify(heap)
    while left >= enough:
        bound, user = heapq.heappop(heap)
        if not free[user]:
            continue
        partner = -1
        if bound < 0:
            while place[user] < found[user] and not free[partners[user, place[user]]]:
                place[user] += 1
            if place[user] == found[user] and found[user] == partners.shape[1]:
                row[:] = 0
                _add_row(user, offsets, nodes, counts, begins, ends, list_users, list_counts, column_of, columns, row)
                found[user] = _keep_best(user, row, free, partners[user], strengths[user])
                place[user] = 0
            at = place[user]
            strength = np.int64(strengths[user, at]) if at < found[user] else np.int64(0)
            if strength < -bound:
                heapq.heappush(heap, (-strength, user))
                continue
            partner = partners[user, at]
        else:  # nobody left has anything in common with anybody
            first = _first_free(free, first)
            partner = first if first != user else _first_free(free, first + 1)
        group[user] = groups
        group[partner] = groups
        free[user] = False
        free[partner] = False
        if k > 2:
            row[:] = 0
            if bound < 0:
                _add_row(user, offsets, nodes, counts, begins, ends, list_users, list_counts, column_of, columns, row)
            latest = partner
            for _ in range(2, k):
                if bound < 0:
                    _add_row(
                        latest, offsets, nodes, counts, begins, ends, list_users, list_counts, column_of, columns, row
                    )
                latest = -1
                for other in range(users):
                    if free[other] and (latest < 0 or row[other] > row[latest]):
                        latest = other
                group[latest] = groups
                free[latest] = False
        groups += 1
        left -= k
        grouped[0] += k
    return group

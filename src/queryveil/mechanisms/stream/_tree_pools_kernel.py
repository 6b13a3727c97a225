"""The pools of the category tree (Numba): slabs, sets, nodes, tokens and records that come and go.

Everything lives in pooled rows with free lists, so memory follows the most that ever waited at once, and every step
costs O(1), or O(depth) where a user appears in or vanishes from a branch. The layout is in `_layout.py`.
"""

# ruff: noqa: F403, F405 -- the names of the fields come by the dozen
# The arrays of the state, spelt one to a line in every call, would hide the algorithm:
# fmt: off

from __future__ import annotations

import numpy as np
from numba import njit

from queryveil.mechanisms.stream._layout import *
from queryveil.mechanisms.stream._tree_table_kernel import find, forget

# Slabs of 2^class numbers from one arena, with a free list for each class


@njit
def _take_slab(arena, free_slabs, counters, size_class):
    place = free_slabs[size_class]
    if place != NONE:
        free_slabs[size_class] = arena[place]
    else:
        place = counters[C_ARENA_TOP]
        counters[C_ARENA_TOP] += np.int64(1) << size_class
    return place


@njit
def _give_slab(arena, free_slabs, place, size_class):
    arena[place] = free_slabs[size_class]
    free_slabs[size_class] = place


@njit
def join_set(vertices, nodes, arena, free_slabs, counters, vertex, at, node, place_field):
    """Add a node to a vertex's set of users or owners; `at` is the set's first field."""
    base = (vertex << ROW) + at
    place, count, size_class = np.int64(vertices[base]), np.int64(vertices[base + 1]), np.int64(vertices[base + 2])
    if place == NONE:
        size_class = np.int64(1)
        place = np.int64(_take_slab(arena, free_slabs, counters, size_class))
        vertices[base] = place
        vertices[base + 2] = size_class
    elif count == np.int64(1) << size_class:
        wider = np.int64(_take_slab(arena, free_slabs, counters, size_class + 1))
        for i in range(count):
            arena[wider + i] = arena[place + i]
        _give_slab(arena, free_slabs, place, size_class)
        place = wider
        vertices[base] = place
        vertices[base + 2] = size_class + 1
        counters[C_LARGEST_SET] = max(counters[C_LARGEST_SET], 2 * count)
    arena[place + count] = node
    nodes[(node << ROW) + place_field] = count
    vertices[base + 1] = count + 1


@njit
def leave_set(vertices, nodes, arena, free_slabs, vertex, at, node, place_field):
    base = (vertex << ROW) + at
    place, last = np.int64(vertices[base]), np.int64(vertices[base + 1]) - 1
    hole = np.int64(nodes[(node << ROW) + place_field])
    moved = np.int64(arena[place + last])
    arena[place + hole] = moved
    nodes[(moved << ROW) + place_field] = hole
    vertices[base + 1] = last
    if last == 0:
        _give_slab(arena, free_slabs, place, vertices[base + 2])
        vertices[base] = NONE


@njit
def make_room(vertices, arena, free_slabs, counters, vertex):
    """Room for one more token and one more record in the slab of a vertex."""
    base = vertex << ROW
    place = np.int64(vertices[base + V_SLAB])
    if place == NONE:
        vertices[base + V_SLAB] = _take_slab(arena, free_slabs, counters, np.int64(2))
        vertices[base + V_SLAB_CLASS] = 2
        return
    size_class = np.int64(vertices[base + V_SLAB_CLASS])
    half = np.int64(1) << (size_class - 1)
    if max(vertices[base + V_TOKENS], vertices[base + V_RECORDS]) == half:
        wider = np.int64(_take_slab(arena, free_slabs, counters, size_class + 1))
        for i in range(half):
            arena[wider + i] = arena[place + i]
            arena[wider + 2 * half + i] = arena[place + half + i]
        _give_slab(arena, free_slabs, place, size_class)
        vertices[base + V_SLAB] = wider
        vertices[base + V_SLAB_CLASS] = size_class + 1
        counters[C_LARGEST_SLAB] = max(counters[C_LARGEST_SLAB], 4 * half)


@njit
def _close_if_empty(vertices, arena, free_slabs, vertex):
    base = vertex << ROW
    if vertices[base + V_TOKENS] == 0 and vertices[base + V_RECORDS] == 0:
        _give_slab(arena, free_slabs, vertices[base + V_SLAB], vertices[base + V_SLAB_CLASS])
        vertices[base + V_SLAB] = NONE


# Vertices and nodes


@njit
def _new_vertex(categories, vertices, counters, category):
    vertex = counters[C_VERTEX_FREE]
    if vertex != NONE:
        counters[C_VERTEX_FREE] = vertices[(vertex << ROW) + V_PARENT]
    else:
        vertex = counters[C_VERTEX_TOP]
        counters[C_VERTEX_TOP] += 1
    base = vertex << ROW
    for field in range(1 << ROW):
        vertices[base + field] = 0
    vertices[base + V_PARENT] = NONE
    vertices[base + V_USERS_AT] = NONE
    vertices[base + V_OWNERS_AT] = NONE
    vertices[base + V_SLAB] = NONE
    vertices[base + V_CATEGORY] = category
    categories[(category << CATEGORY_ROW) + G_VERTEX] = vertex
    return vertex


@njit
def _prune(categories, vertices, counters, vertex):
    """Forget a vertex in which, and below which, nothing waits."""
    base = vertex << ROW
    if vertices[base + V_USERS] == 0 and vertices[base + V_OWNERS] == 0:
        categories[(np.int64(vertices[base + V_CATEGORY]) << CATEGORY_ROW) + G_VERTEX] = NONE
        vertices[base + V_CATEGORY] = NONE
        vertices[base + V_PARENT] = counters[C_VERTEX_FREE]
        counters[C_VERTEX_FREE] = vertex


@njit
def node_at(categories, vertices, nodes, table, counters, category, user):
    """The user's node at a category, made with its missing ancestors, and their vertices, where there is none."""
    key = (np.int64(category) << 32) | np.int64(user)
    found, slot = find(table, counters[C_TABLE_MASK], key)
    if found != NONE:
        return found
    first = np.int64(NONE)
    child = np.int64(NONE)
    child_vertex = np.int64(NONE)  # made just now, and still without a parent
    while True:
        vertex = np.int64(categories[(category << CATEGORY_ROW) + G_VERTEX])
        made = vertex == NONE
        if made:
            vertex = _new_vertex(categories, vertices, counters, category)
        if child_vertex != NONE:
            vertices[(child_vertex << ROW) + V_PARENT] = vertex
        child_vertex = vertex if made else np.int64(NONE)
        node = counters[C_NODE_FREE]
        if node != NONE:
            counters[C_NODE_FREE] = nodes[(node << ROW) + N_NEXT]
        else:
            node = counters[C_NODE_TOP]
            counters[C_NODE_TOP] += 1
        row = node << ROW
        nodes[row + N_VERTEX] = vertex
        nodes[row + N_USER] = user
        nodes[row + N_PARENT] = NONE
        nodes[row + N_CHILD] = child
        nodes[row + N_NEXT] = NONE
        nodes[row + N_PREVIOUS] = NONE
        nodes[row + N_TOKENS] = 0
        nodes[row + N_TOKEN_VERTICES] = 0
        nodes[row + N_TOP_TOKEN] = NONE
        nodes[row + N_RECORDS] = 0
        nodes[row + N_RECORD_VERTICES] = 0
        nodes[row + N_TOP_RECORD] = NONE
        nodes[row + N_QUEUE_HEAD] = NONE
        nodes[row + N_QUEUE_TAIL] = NONE
        table[2 * slot] = key
        table[2 * slot + 1] = node
        counters[C_TABLE_USED] += 1
        if child == NONE:
            first = node
        else:
            nodes[(child << ROW) + N_PARENT] = node
        category = np.int64(categories[(category << CATEGORY_ROW) + G_PARENT])
        if category == ROOT:
            return first
        child = node
        key = (category << 32) | np.int64(user)
        found, slot = find(table, counters[C_TABLE_MASK], key)
        if found != NONE:
            if child_vertex != NONE:
                vertices[(child_vertex << ROW) + V_PARENT] = nodes[(found << ROW) + N_VERTEX]
            second = np.int64(nodes[(found << ROW) + N_CHILD])
            nodes[row + N_PARENT] = found
            nodes[row + N_NEXT] = second
            nodes[(found << ROW) + N_CHILD] = node
            if second != NONE:
                nodes[(second << ROW) + N_PREVIOUS] = node
            return first


@njit
def _free_node(vertices, nodes, table, counters, node):
    row = node << ROW
    parent, following, before = nodes[row + N_PARENT], nodes[row + N_NEXT], nodes[row + N_PREVIOUS]
    if before != NONE:
        nodes[(np.int64(before) << ROW) + N_NEXT] = following
    elif parent != NONE:
        nodes[(np.int64(parent) << ROW) + N_CHILD] = following
    if following != NONE:
        nodes[(np.int64(following) << ROW) + N_PREVIOUS] = before
    category = np.int64(vertices[(np.int64(nodes[row + N_VERTEX]) << ROW) + V_CATEGORY])
    forget(table, counters[C_TABLE_MASK], (category << 32) | np.int64(nodes[row + N_USER]))
    counters[C_TABLE_USED] -= 1
    nodes[row + N_VERTEX] = NONE
    nodes[row + N_NEXT] = counters[C_NODE_FREE]
    counters[C_NODE_FREE] = node


@njit
def add_token(vertices, nodes, tokens, arena, free_slabs, counters, node):
    """One more token of a node's user in U[v]."""
    row = node << ROW
    vertex = np.int64(nodes[row + N_VERTEX])
    base = vertex << ROW
    token = counters[C_TOKEN_FREE]
    if token != NONE:
        counters[C_TOKEN_FREE] = tokens[(token << TOKEN_ROW) + T_NEXT]
    else:
        token = counters[C_TOKEN_TOP]
        counters[C_TOKEN_TOP] += 1
    place = np.int64(vertices[base + V_TOKENS])
    at = token << TOKEN_ROW
    tokens[at + T_NODE] = node
    tokens[at + T_PLACE] = place
    tokens[at + T_NEXT] = nodes[row + N_TOP_TOKEN]
    nodes[row + N_TOP_TOKEN] = token
    arena[np.int64(vertices[base + V_SLAB]) + place] = token
    vertices[base + V_TOKENS] = place + 1
    nodes[row + N_TOKENS] += 1
    if nodes[row + N_TOKENS] == 1:
        vertices[base + V_OWN_USERS] += 1
        while node != NONE:
            row = node << ROW
            nodes[row + N_TOKEN_VERTICES] += 1
            if nodes[row + N_TOKEN_VERTICES] == 1:
                join_set(
                    vertices, nodes, arena, free_slabs, counters, np.int64(nodes[row + N_VERTEX]), V_USERS_AT, node,
                    N_USER_PLACE,
                )
            node = np.int64(nodes[row + N_PARENT])


@njit
def drop_token(categories, vertices, nodes, tokens, arena, free_slabs, table, counters, token):
    """A token leaves U[v]. Tokens of one user at one vertex are alike: the topmost is freed, this one replaces it."""
    node = np.int64(tokens[(token << TOKEN_ROW) + T_NODE])
    row = node << ROW
    base = np.int64(nodes[row + N_VERTEX]) << ROW
    slab = np.int64(vertices[base + V_SLAB])
    hole = np.int64(tokens[(token << TOKEN_ROW) + T_PLACE])
    top = np.int64(nodes[row + N_TOP_TOKEN])
    if top != token:
        kept = np.int64(tokens[(top << TOKEN_ROW) + T_PLACE])
        tokens[(token << TOKEN_ROW) + T_PLACE] = kept
        arena[slab + kept] = token
    nodes[row + N_TOP_TOKEN] = tokens[(top << TOKEN_ROW) + T_NEXT]
    tokens[(top << TOKEN_ROW) + T_NEXT] = counters[C_TOKEN_FREE]
    counters[C_TOKEN_FREE] = top
    last = np.int64(vertices[base + V_TOKENS]) - 1
    if hole != last:
        moved = np.int64(arena[slab + last])
        arena[slab + hole] = moved
        tokens[(moved << TOKEN_ROW) + T_PLACE] = hole
    vertices[base + V_TOKENS] = last
    _close_if_empty(vertices, arena, free_slabs, base >> ROW)
    nodes[row + N_TOKENS] -= 1
    if nodes[row + N_TOKENS] == 0:
        vertices[base + V_OWN_USERS] -= 1
        while node != NONE:
            row = node << ROW
            parent = np.int64(nodes[row + N_PARENT])
            nodes[row + N_TOKEN_VERTICES] -= 1
            if nodes[row + N_TOKEN_VERTICES] == 0:
                vertex = np.int64(nodes[row + N_VERTEX])
                leave_set(vertices, nodes, arena, free_slabs, vertex, V_USERS_AT, node, N_USER_PLACE)
                if nodes[row + N_RECORD_VERTICES] == 0:
                    _free_node(vertices, nodes, table, counters, node)
                _prune(categories, vertices, counters, vertex)
            node = parent


@njit
def add_record(vertices, nodes, records, arena, free_slabs, counters, vertex, node, record, by_owner):
    """One more record in Q[v]; `by_owner` also keeps the distinct owners of every branch."""
    base = vertex << ROW
    place = np.int64(vertices[base + V_RECORDS])
    half = np.int64(1) << (np.int64(vertices[base + V_SLAB_CLASS]) - 1)
    arena[np.int64(vertices[base + V_SLAB]) + half + place] = record
    vertices[base + V_RECORDS] = place + 1
    if by_owner:
        row = node << ROW
        at = record << RECORD_ROW
        records[at + R_NODE] = node
        records[at + R_PLACE] = place
        records[at + R_NEXT] = nodes[row + N_TOP_RECORD]
        nodes[row + N_TOP_RECORD] = record
        nodes[row + N_RECORDS] += 1
        if nodes[row + N_RECORDS] == 1:
            vertices[base + V_OWN_OWNERS] += 1
            above = node
            while above != NONE:
                row = above << ROW
                nodes[row + N_RECORD_VERTICES] += 1
                if nodes[row + N_RECORD_VERTICES] == 1:
                    join_set(
                        vertices, nodes, arena, free_slabs, counters, np.int64(nodes[row + N_VERTEX]), V_OWNERS_AT,
                        above, N_OWNER_PLACE,
                    )
                above = np.int64(nodes[row + N_PARENT])


@njit
def drop_record(vertices, nodes, records, arena, free_slabs, table, counters, vertex, hole, by_owner):
    """The record at place `hole` leaves Q[v]; the last one takes its place."""
    base = vertex << ROW
    half = np.int64(1) << (np.int64(vertices[base + V_SLAB_CLASS]) - 1)
    first = np.int64(vertices[base + V_SLAB]) + half
    record = np.int64(arena[first + hole])
    last = np.int64(vertices[base + V_RECORDS]) - 1
    moved = np.int64(arena[first + last])
    arena[first + hole] = moved
    vertices[base + V_RECORDS] = last
    _close_if_empty(vertices, arena, free_slabs, vertex)
    if by_owner:
        records[(moved << RECORD_ROW) + R_PLACE] = hole
        node = np.int64(records[(record << RECORD_ROW) + R_NODE])
        row = node << ROW
        following = records[(record << RECORD_ROW) + R_NEXT]
        before = np.int64(nodes[row + N_TOP_RECORD])
        if before == record:
            nodes[row + N_TOP_RECORD] = following
        else:
            while records[(before << RECORD_ROW) + R_NEXT] != record:
                before = np.int64(records[(before << RECORD_ROW) + R_NEXT])
            records[(before << RECORD_ROW) + R_NEXT] = following
        nodes[row + N_RECORDS] -= 1
        if nodes[row + N_RECORDS] == 0:
            vertices[base + V_OWN_OWNERS] -= 1
            while node != NONE:
                row = node << ROW
                parent = np.int64(nodes[row + N_PARENT])
                nodes[row + N_RECORD_VERTICES] -= 1
                if nodes[row + N_RECORD_VERTICES] == 0:
                    leave_set(
                        vertices, nodes, arena, free_slabs, np.int64(nodes[row + N_VERTEX]), V_OWNERS_AT, node,
                        N_OWNER_PLACE,
                    )
                    if nodes[row + N_TOKEN_VERTICES] == 0:
                        _free_node(vertices, nodes, table, counters, node)
                node = parent
    records[(record << RECORD_ROW) + R_NEXT] = counters[C_RECORD_FREE]
    counters[C_RECORD_FREE] = record
    counters[C_PENDING] -= 1

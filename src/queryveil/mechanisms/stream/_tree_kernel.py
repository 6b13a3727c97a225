"""The state machine of the stream mechanism on integer arrays (Numba): Algorithm 1 of the paper and what we make of it.

No strings, no objects, no randomness of its own: every draw takes one of the `words` it is handed, in order. Uniform
draws are exact (Lemire's multiplication with rejection). Where a law needs rejection, a few tries are made and then the
same law is drawn by one walk, so a record uses a bounded number of words and time.

The layout of the arrays is in `_tree_layout.py`. An arrival costs O(depth) for the user's nodes, an emission the same;
nothing depends on how many records were seen.
"""

# ruff: noqa: F403, F405 -- the names of the fields come by the dozen

from __future__ import annotations

import numpy as np
from numba import njit

from queryveil.mechanisms.stream._pointers import pointer
from queryveil.mechanisms.stream._tree_layout import *

TRIES = 16
WORDS_PER_RECORD = 512
"""More than one record can use: two emissions of 4·TRIES + 4 words each, the branch step and the move."""

NODES_PER_LEVEL = 4
SETS_PER_LEVEL = 8

_MIX = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)

_small = njit(inline="always")
_large = njit()


# Draws


@_large
def below(words, counters, limit):
    """A uniform whole number in [0, limit), for limit < 2^32."""
    wide = np.uint64(limit)
    while True:
        word = words[counters[C_WORD]]
        counters[C_WORD] += 1
        low = word * wide
        if low >= wide or low >= (~wide + np.uint64(1)) % wide:
            return np.int64(((word >> _HALF) * wide + (((word & _LOW) * wide) >> _HALF)) >> _HALF)


# The table of nodes: (category, user) → node, open addressing, no tombstones


@_small
def _home(key, mask):
    mixed = np.uint64(key) * _MIX
    return np.int64((mixed ^ (mixed >> _HALF)) & np.uint64(mask))


@_small
def _find(table, mask, key):
    """The node at `key`, or NONE, and the slot it has or would take."""
    slot = _home(key, mask)
    while table[2 * slot] != NONE and table[2 * slot] != key:
        slot = (slot + 1) & mask
    return (table[2 * slot + 1] if table[2 * slot] == key else np.int64(NONE)), slot


@_small
def _forget(table, mask, key):
    """Take a key out and close the gap, so that no probe ever walks over dead slots."""
    hole = _home(key, mask)
    while table[2 * hole] != key:
        hole = (hole + 1) & mask
    slot = hole
    while True:
        slot = (slot + 1) & mask
        other = table[2 * slot]
        if other == NONE:
            break
        if ((slot - _home(other, mask)) & mask) >= ((slot - hole) & mask):
            table[2 * hole] = other
            table[2 * hole + 1] = table[2 * slot + 1]
            hole = slot
    table[2 * hole] = NONE


@njit(cache=True)
def rebuild_table(table, vertices, nodes, counters):
    """Fill an empty table with all nodes in use."""
    mask = (table.size >> 1) - 1
    counters[C_TABLE_MASK] = mask
    slots = pointer(table)
    for node in range(counters[C_NODE_TOP]):
        row = node << ROW
        if nodes[row + N_VERTEX] != NONE:
            category = np.int64(vertices[(np.int64(nodes[row + N_VERTEX]) << ROW) + V_CATEGORY])
            key = (category << 32) | np.int64(nodes[row + N_USER])
            _, slot = _find(slots, mask, key)
            slots[2 * slot] = key
            slots[2 * slot + 1] = node


# Slabs of 2^class numbers from one arena, with a free list for each class


@_small
def _take_slab(arena, free_slabs, counters, size_class):
    place = free_slabs[size_class]
    if place != NONE:
        free_slabs[size_class] = arena[place]
    else:
        place = counters[C_ARENA_TOP]
        counters[C_ARENA_TOP] += np.int64(1) << size_class
    return place


@_small
def _give_slab(arena, free_slabs, place, size_class):
    arena[place] = free_slabs[size_class]
    free_slabs[size_class] = place


@_small
def _join_set(vertices, nodes, arena, free_slabs, counters, vertex, at, node, place_field):
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


@_small
def _leave_set(vertices, nodes, arena, free_slabs, vertex, at, node, place_field):
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


@_small
def _make_room(vertices, arena, free_slabs, counters, vertex):
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


@_small
def _close_if_empty(vertices, arena, free_slabs, vertex):
    base = vertex << ROW
    if vertices[base + V_TOKENS] == 0 and vertices[base + V_RECORDS] == 0:
        _give_slab(arena, free_slabs, vertices[base + V_SLAB], vertices[base + V_SLAB_CLASS])
        vertices[base + V_SLAB] = NONE


# Vertices and nodes


@_small
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


@_small
def _prune(categories, vertices, counters, vertex):
    """Forget a vertex in which, and below which, nothing waits."""
    base = vertex << ROW
    if vertices[base + V_USERS] == 0 and vertices[base + V_OWNERS] == 0:
        categories[(np.int64(vertices[base + V_CATEGORY]) << CATEGORY_ROW) + G_VERTEX] = NONE
        vertices[base + V_CATEGORY] = NONE
        vertices[base + V_PARENT] = counters[C_VERTEX_FREE]
        counters[C_VERTEX_FREE] = vertex


@_large
def _node_at(categories, vertices, nodes, table, counters, category, user):
    """The user's node at a category, made with its missing ancestors, and their vertices, where there is none."""
    key = (np.int64(category) << 32) | np.int64(user)
    found, slot = _find(table, counters[C_TABLE_MASK], key)
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
        found, slot = _find(table, counters[C_TABLE_MASK], key)
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


@_small
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
    _forget(table, counters[C_TABLE_MASK], (category << 32) | np.int64(nodes[row + N_USER]))
    counters[C_TABLE_USED] -= 1
    nodes[row + N_VERTEX] = NONE
    nodes[row + N_NEXT] = counters[C_NODE_FREE]
    counters[C_NODE_FREE] = node


@_large
def _add_token(vertices, nodes, tokens, arena, free_slabs, counters, node):
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
                _join_set(
                    vertices, nodes, arena, free_slabs, counters, np.int64(nodes[row + N_VERTEX]), V_USERS_AT, node,
                    N_USER_PLACE,
                )
            node = np.int64(nodes[row + N_PARENT])


@_large
def _drop_token(categories, vertices, nodes, tokens, arena, free_slabs, table, counters, token):
    """A token leaves U[v]. Tokens of one user at one vertex are alike: the topmost is freed, this one takes its place."""
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
                _leave_set(vertices, nodes, arena, free_slabs, vertex, V_USERS_AT, node, N_USER_PLACE)
                if nodes[row + N_RECORD_VERTICES] == 0:
                    _free_node(vertices, nodes, table, counters, node)
                _prune(categories, vertices, counters, vertex)
            node = parent


@_small
def _add_record(vertices, nodes, records, arena, free_slabs, counters, vertex, node, record, by_owner):
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
                    _join_set(
                        vertices, nodes, arena, free_slabs, counters, np.int64(nodes[row + N_VERTEX]), V_OWNERS_AT,
                        above, N_OWNER_PLACE,
                    )
                above = np.int64(nodes[row + N_PARENT])


@_large
def _drop_record(vertices, nodes, records, arena, free_slabs, table, counters, vertex, hole, by_owner):
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
                    _leave_set(
                        vertices, nodes, arena, free_slabs, np.int64(nodes[row + N_VERTEX]), V_OWNERS_AT, node,
                        N_OWNER_PLACE,
                    )
                    if nodes[row + N_TOKEN_VERTICES] == 0:
                        _free_node(vertices, nodes, table, counters, node)
                node = parent
    records[(record << RECORD_ROW) + R_NEXT] = counters[C_RECORD_FREE]
    counters[C_RECORD_FREE] = record
    counters[C_PENDING] -= 1


# Who is drawn


@_small
def _one_of_its_vertices(nodes, words, counters, node, vertices_field, own_field):
    """The user's node at one of the vertices below `node` that hold something of the user, uniformly."""
    steps = below(words, counters, nodes[(node << ROW) + vertices_field])
    while True:
        row = node << ROW
        if nodes[row + own_field] > 0:
            if steps == 0:
                return node
            steps -= 1
        node = np.int64(nodes[row + N_CHILD])
        while steps >= nodes[(node << ROW) + vertices_field]:
            steps -= nodes[(node << ROW) + vertices_field]
            node = np.int64(nodes[(node << ROW) + N_NEXT])


@_large
def _token_but_not_of(vertices, nodes, tokens, arena, words, counters, vertex, owner):
    """A token of U[v], uniform over tokens of users other than `owner`."""
    base = vertex << ROW
    slab = np.int64(vertices[base + V_SLAB])
    count = np.int64(vertices[base + V_TOKENS])
    for _ in range(TRIES):
        token = np.int64(arena[slab + below(words, counters, count)])
        if nodes[(np.int64(tokens[(token << TOKEN_ROW) + T_NODE]) << ROW) + N_USER] != owner:
            return token
    first, users = np.int64(vertices[base + V_USERS_AT]), np.int64(vertices[base + V_USERS])
    for i in range(users):
        node = np.int64(arena[first + i])
        if nodes[(node << ROW) + N_USER] == owner:
            count -= nodes[(node << ROW) + N_TOKENS]
    steps = below(words, counters, count)
    for i in range(users):
        row = np.int64(arena[first + i]) << ROW
        if nodes[row + N_USER] == owner:
            continue
        if steps < nodes[row + N_TOKENS]:
            return np.int64(nodes[row + N_TOP_TOKEN])
        steps -= nodes[row + N_TOKENS]
    return np.int64(NONE)  # not reached: more than k users are here


@_large
def _token_of_a_user(vertices, nodes, tokens, arena, words, counters, vertex):
    """A token of U[v], uniform over its distinct users: a uniform token is kept with probability 1 / (its user's)."""
    base = vertex << ROW
    slab = np.int64(vertices[base + V_SLAB])
    for _ in range(TRIES):
        token = np.int64(arena[slab + below(words, counters, vertices[base + V_TOKENS])])
        alike = nodes[(np.int64(tokens[(token << TOKEN_ROW) + T_NODE]) << ROW) + N_TOKENS]
        if alike == 1 or below(words, counters, alike) == 0:
            return token
    steps = below(words, counters, vertices[base + V_OWN_USERS])
    first = np.int64(vertices[base + V_USERS_AT])
    for i in range(vertices[base + V_USERS]):
        row = np.int64(arena[first + i]) << ROW
        if nodes[row + N_TOKENS] > 0:
            if steps == 0:
                return np.int64(nodes[row + N_TOP_TOKEN])
            steps -= 1
    return np.int64(NONE)  # not reached


@_small
def _record_of_node(nodes, records, words, counters, node):
    """One of the node's own records, uniformly; there are at most `cap`."""
    record = np.int64(nodes[(node << ROW) + N_TOP_RECORD])
    for _ in range(below(words, counters, nodes[(node << ROW) + N_RECORDS])):
        record = np.int64(records[(record << RECORD_ROW) + R_NEXT])
    return record


@_large
def _record_of_an_owner(vertices, nodes, records, arena, words, counters, vertex):
    """A record of Q[v], uniform over its distinct owners, then over the owner's records there."""
    base = vertex << ROW
    first = np.int64(vertices[base + V_SLAB]) + (np.int64(1) << (np.int64(vertices[base + V_SLAB_CLASS]) - 1))
    for _ in range(TRIES):
        record = np.int64(arena[first + below(words, counters, vertices[base + V_RECORDS])])
        alike = nodes[(np.int64(records[(record << RECORD_ROW) + R_NODE]) << ROW) + N_RECORDS]
        if alike == 1 or below(words, counters, alike) == 0:
            return record
    steps = below(words, counters, vertices[base + V_OWN_OWNERS])
    place = np.int64(vertices[base + V_OWNERS_AT])
    for i in range(vertices[base + V_OWNERS]):
        node = np.int64(arena[place + i])
        if nodes[(node << ROW) + N_RECORDS] > 0:
            if steps == 0:
                return _record_of_node(nodes, records, words, counters, node)
            steps -= 1
    return np.int64(NONE)  # not reached


# Arrivals and emissions


@_small
def _enter(
    categories, vertices, nodes, tokens, records, arena, free_slabs, table, counters, category, user, record, by_owner
):
    """Line 1.7 and 1.9: the user joins U[v], the query joins Q[v]."""
    node = _node_at(categories, vertices, nodes, table, counters, category, user)
    vertex = np.int64(nodes[(node << ROW) + N_VERTEX])
    _make_room(vertices, arena, free_slabs, counters, vertex)
    _add_token(vertices, nodes, tokens, arena, free_slabs, counters, node)
    _add_record(vertices, nodes, records, arena, free_slabs, counters, vertex, node, record, by_owner)


@_large
def _emit(
    categories, vertices, nodes, tokens, records, arena, free_slabs, table, counters, by_owner, out, arrival, pool_users,
    pool_owners, depth, vertex, place, token,
):
    """Send out the record at `place` of Q[vertex] under the name of a token's user; the record leaves.

    A record of the same owner that waits behind the cap moves up first.
    """
    base = vertex << ROW
    half = np.int64(1) << (np.int64(vertices[base + V_SLAB_CLASS]) - 1)
    record = np.int64(arena[np.int64(vertices[base + V_SLAB]) + half + place])
    at = record << RECORD_ROW
    row = np.int64(tokens[(token << TOKEN_ROW) + T_NODE]) << ROW
    told = counters[C_EMITTED] * OUT_COLUMNS
    out[told + OUT_HANDLE] = records[at + R_HANDLE]
    out[told + OUT_OWNER] = records[at + R_OWNER]
    out[told + OUT_RECEIVER] = nodes[row + N_USER]
    out[told + OUT_DEPTH] = depth
    out[told + OUT_POOL_USERS] = pool_users
    out[told + OUT_POOL_OWNERS] = pool_owners
    out[told + OUT_RECORDS] = vertices[base + V_RECORDS]
    out[told + OUT_ARRIVAL] = arrival
    counters[C_EMITTED] += 1
    if by_owner:
        node = np.int64(records[at + R_NODE])
        queued = np.int64(nodes[(node << ROW) + N_QUEUE_HEAD])
        if queued != NONE:
            nodes[(node << ROW) + N_QUEUE_HEAD] = records[(queued << RECORD_ROW) + R_NEXT]
            if nodes[(node << ROW) + N_QUEUE_HEAD] == NONE:
                nodes[(node << ROW) + N_QUEUE_TAIL] = NONE
            _enter(
                categories, vertices, nodes, tokens, records, arena, free_slabs, table, counters,
                np.int64(records[at + R_CATEGORY]), np.int64(records[at + R_OWNER]), queued, by_owner,
            )
    _drop_record(vertices, nodes, records, arena, free_slabs, table, counters, vertex, place, by_owner)


@_large
def _queue_if_capped(nodes, records, table, counters, cap, category, user, record):
    """A user with `cap` records waiting at a vertex queues behind them."""
    node, _ = _find(table, counters[C_TABLE_MASK], (np.int64(category) << 32) | np.int64(user))
    if node == NONE or nodes[(node << ROW) + N_RECORDS] < cap:
        return False
    row = node << ROW
    records[(record << RECORD_ROW) + R_NEXT] = NONE
    records[(record << RECORD_ROW) + R_NODE] = node
    tail = np.int64(nodes[row + N_QUEUE_TAIL])
    if tail == NONE:
        nodes[row + N_QUEUE_HEAD] = record
    else:
        records[(tail << RECORD_ROW) + R_NEXT] = record
    nodes[row + N_QUEUE_TAIL] = record
    return True


@_large
def _branch_step(
    categories, depths, vertices, nodes, tokens, records, arena, free_slabs, table, counters, words, rules, out, arrival, leaf, branch
):
    """Lines 1.28 to 1.36: a query and a user from anywhere in the branch. Returns vu where it differs from vq."""
    by_owner = rules[RULE_DISTINCT] != 0
    owners_field = V_OWN_OWNERS if rules[RULE_STRICT] != 0 else V_OWNERS
    first, users = np.int64(vertices[(branch << ROW) + V_USERS_AT]), np.int64(vertices[(branch << ROW) + V_USERS])
    if by_owner:
        if rules[RULE_STRICT] != 0:
            record = _record_of_an_owner(vertices, nodes, records, arena, words, counters, leaf)
        else:
            owners = np.int64(vertices[(branch << ROW) + V_OWNERS_AT])
            chosen = np.int64(arena[owners + below(words, counters, vertices[(branch << ROW) + V_OWNERS])])
            chosen = _one_of_its_vertices(nodes, words, counters, chosen, N_RECORD_VERTICES, N_RECORDS)
            record = _record_of_node(nodes, records, words, counters, chosen)
        query_vertex = np.int64(nodes[(np.int64(records[(record << RECORD_ROW) + R_NODE]) << ROW) + N_VERTEX])
        place = np.int64(records[(record << RECORD_ROW) + R_PLACE])
    else:
        chosen = np.int64(arena[first + below(words, counters, users)])
        chosen = _one_of_its_vertices(nodes, words, counters, chosen, N_TOKEN_VERTICES, N_TOKENS)
        query_vertex = np.int64(nodes[(chosen << ROW) + N_VERTEX])
        base = query_vertex << ROW
        place = below(words, counters, vertices[base + V_RECORDS])
        half = np.int64(1) << (np.int64(vertices[base + V_SLAB_CLASS]) - 1)
        record = np.int64(arena[np.int64(vertices[base + V_SLAB]) + half + place])
    drawn = below(words, counters, users)
    receiver = np.int64(arena[first + drawn])
    if rules[RULE_EXCLUDE_OWNER] != 0 and (
        nodes[(receiver << ROW) + N_USER] == records[(record << RECORD_ROW) + R_OWNER]
    ):
        receiver = np.int64(arena[first + (drawn + 1 + below(words, counters, users - 1)) % users])
    receiver = _one_of_its_vertices(nodes, words, counters, receiver, N_TOKEN_VERTICES, N_TOKENS)
    user_vertex = np.int64(nodes[(receiver << ROW) + N_VERTEX])
    token = np.int64(nodes[(receiver << ROW) + N_TOP_TOKEN])
    _emit(
        categories, vertices, nodes, tokens, records, arena, free_slabs, table, counters, by_owner, out, arrival, users,
        vertices[((leaf if rules[RULE_STRICT] != 0 else branch) << ROW) + owners_field],
        depths[vertices[(branch << ROW) + V_CATEGORY]], query_vertex, place, token,
    )
    if query_vertex != user_vertex:
        # The moved user arrives before the receiver leaves, so that no vertex is empty in between.
        base = query_vertex << ROW
        moved = np.int64(
            arena[np.int64(vertices[base + V_SLAB]) + below(words, counters, vertices[base + V_TOKENS])]
        )
        user = np.int64(nodes[(np.int64(tokens[(moved << TOKEN_ROW) + T_NODE]) << ROW) + N_USER])
        category = np.int64(vertices[(user_vertex << ROW) + V_CATEGORY])
        node = _node_at(categories, vertices, nodes, table, counters, category, user)
        _make_room(vertices, arena, free_slabs, counters, user_vertex)
        _add_token(vertices, nodes, tokens, arena, free_slabs, counters, node)
        _drop_token(categories, vertices, nodes, tokens, arena, free_slabs, table, counters, moved)
    else:
        user_vertex = np.int64(NONE)
    _drop_token(categories, vertices, nodes, tokens, arena, free_slabs, table, counters, token)
    return user_vertex


@_small
def _enough(vertices, vertex, rules, users_field, owners_field):
    """Restriction 2: more than k distinct users; in safe mode more than k distinct owners as well."""
    base = vertex << ROW
    return vertices[base + users_field] > rules[RULE_K] and (
        rules[RULE_DISTINCT] == 0 or vertices[base + owners_field] > rules[RULE_K]
    )


@_large
def _arrive(
    categories, depths, vertices, nodes, tokens, records, arena, free_slabs, table, counters, words, rules, leaves,
    users, handles, start, arrivals, deepest, out, word_limit, vertex_limit, node_limit, token_limit, record_limit,
    table_limit, arena_limit,
):
    by_owner = rules[RULE_DISTINCT] != 0
    exclude = rules[RULE_EXCLUDE_OWNER] != 0
    cap = rules[RULE_CAP]
    for arrival in range(start, arrivals):
        if (
            counters[C_WORD] + WORDS_PER_RECORD + (counters[C_PENDING] * (TRIES + 2) if rules[RULE_MOST] > 2 else 0)
            > word_limit
            or counters[C_VERTEX_TOP] + 2 * deepest > vertex_limit
            or counters[C_NODE_TOP] + NODES_PER_LEVEL * deepest > node_limit
            or counters[C_TOKEN_TOP] + 4 > token_limit
            or counters[C_RECORD_TOP] + 1 > record_limit
            or 2 * (counters[C_TABLE_USED] + NODES_PER_LEVEL * deepest) > table_limit
            or counters[C_ARENA_TOP]
            + 4 * counters[C_LARGEST_SLAB]
            + SETS_PER_LEVEL * deepest * counters[C_LARGEST_SET]
            > arena_limit
        ):
            return arrival
        category, user = np.int64(leaves[arrival]), np.int64(users[arrival])
        record = counters[C_RECORD_FREE]
        if record != NONE:
            counters[C_RECORD_FREE] = records[(record << RECORD_ROW) + R_NEXT]
        else:
            record = counters[C_RECORD_TOP]
            counters[C_RECORD_TOP] += 1
        records[(record << RECORD_ROW) + R_OWNER] = user
        records[(record << RECORD_ROW) + R_HANDLE] = handles[arrival]
        records[(record << RECORD_ROW) + R_CATEGORY] = category
        counters[C_PENDING] += 1
        if cap == 0 or not _queue_if_capped(nodes, records, table, counters, cap, category, user, record):
            _enter(
                categories, vertices, nodes, tokens, records, arena, free_slabs, table, counters, category, user,
                record, by_owner,
            )
        leaf = np.int64(categories[(category << CATEGORY_ROW) + G_VERTEX])
        vertex, emissions = leaf, rules[RULE_MOST]
        if rules[RULE_BRANCHES] != 0 and not _enough(vertices, leaf, rules, V_OWN_USERS, V_OWN_OWNERS):
            emissions = np.int64(0)
            branch = leaf  # lines 1.11 to 1.15: the deepest branch with enough users; the root is none
            while branch != NONE and not _enough(vertices, branch, rules, V_USERS, V_OWNERS):
                branch = np.int64(vertices[(branch << ROW) + V_PARENT])
            if branch != NONE and (
                rules[RULE_STRICT] == 0 or vertices[(leaf << ROW) + V_OWN_OWNERS] > rules[RULE_K]
            ):
                vertex = _branch_step(
                    categories, depths, vertices, nodes, tokens, records, arena, free_slabs, table, counters, words, rules, out, arrival,
                    leaf, branch,
                )
                emissions = np.int64(0 if vertex == NONE else 1)
        while emissions > 0 and _enough(vertices, vertex, rules, V_OWN_USERS, V_OWN_OWNERS):
            emissions -= 1
            base = vertex << ROW
            if by_owner:
                record = _record_of_an_owner(vertices, nodes, records, arena, words, counters, vertex)
                place = np.int64(records[(record << RECORD_ROW) + R_PLACE])
            else:
                place = below(words, counters, vertices[base + V_RECORDS])
            if exclude:
                half = np.int64(1) << (np.int64(vertices[base + V_SLAB_CLASS]) - 1)
                record = np.int64(arena[np.int64(vertices[base + V_SLAB]) + half + place])
                token = _token_but_not_of(
                    vertices, nodes, tokens, arena, words, counters, vertex, records[(record << RECORD_ROW) + R_OWNER]
                )
            elif by_owner:
                token = _token_of_a_user(vertices, nodes, tokens, arena, words, counters, vertex)
            else:
                token = np.int64(
                    arena[np.int64(vertices[base + V_SLAB]) + below(words, counters, vertices[base + V_TOKENS])]
                )
            _emit(
                categories, vertices, nodes, tokens, records, arena, free_slabs, table, counters, by_owner, out, arrival,
                vertices[base + V_OWN_USERS], vertices[base + V_OWN_OWNERS], depths[vertices[base + V_CATEGORY]], vertex, place,
                token,
            )
            _drop_token(categories, vertices, nodes, tokens, arena, free_slabs, table, counters, token)
    return arrivals


@njit(cache=True)
def arrive(
    categories, depths, vertices, nodes, tokens, records, arena, free_slabs, table, counters, words, rules, leaves,
    users, handles, start, deepest, out,
):
    """Take records from `start` on, until all are in or an array runs short; returns the first that is not in yet."""
    return _arrive(
        pointer(categories), pointer(depths), pointer(vertices), pointer(nodes), pointer(tokens),
        pointer(records), pointer(arena), pointer(free_slabs), pointer(table), pointer(counters),
        pointer(words), pointer(rules), pointer(leaves), pointer(users), pointer(handles), start, len(leaves),
        deepest, pointer(out), words.size, vertices.size >> ROW, nodes.size >> ROW, tokens.size >> TOKEN_ROW,
        records.size >> RECORD_ROW, table.size >> 1, arena.size,
    )

"""The state machine of the stream mechanism on integer arrays (Numba): Algorithm 1 of the paper and what we make of it.

No strings, no objects, no randomness of its own: every draw takes one of the `words` it is handed, in order. Uniform
draws are exact (Lemire's multiplication with rejection). Where a law needs rejection, a few tries are made and then the
same law is drawn by one walk, so a record uses a bounded number of words and time.

The pools it works on are in `_tree_pools_kernel.py`, the layout of the arrays in `_layout.py`. An arrival costs
O(depth) for the user's nodes, an emission the same; nothing depends on how many records were seen.
"""

# ruff: noqa: F403, F405 -- the names of the fields come by the dozen
# The arrays of the state, spelt one to a line in every call, would hide the algorithm:
# fmt: off

from __future__ import annotations

import numpy as np
from numba import njit

from queryveil.log._pointers import pointer, prefetch
from queryveil.mechanisms.stream._layout import *
from queryveil.mechanisms.stream._tree_pools_kernel import (
    add_record,
    add_token,
    drop_record,
    drop_token,
    make_room,
    node_at,
)
from queryveil.mechanisms.stream._tree_table_kernel import find, look_ahead

TRIES = 16
WORDS_PER_RECORD = 512
"""More than one record can use: two emissions of 4·TRIES + 4 words each, the branch step and the move."""

NODES_PER_LEVEL = 4
SETS_PER_LEVEL = 8

AHEAD = 4
"""So many arrivals ahead their slots in the table are asked for, and twice as many ahead their categories."""

_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)



# Draws


@njit
def below(words, counters, limit):
    """A uniform whole number in [0, limit), for limit < 2^32."""
    wide = np.uint64(limit)
    while True:
        word = words[counters[C_WORD]]
        counters[C_WORD] += 1
        low = word * wide
        if low >= wide or low >= (~wide + np.uint64(1)) % wide:
            return np.int64(((word >> _HALF) * wide + (((word & _LOW) * wide) >> _HALF)) >> _HALF)


# Who is drawn


@njit
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


@njit
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


@njit
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


@njit
def _record_of_node(nodes, records, words, counters, node):
    """One of the node's own records, uniformly; there are at most `cap`."""
    record = np.int64(nodes[(node << ROW) + N_TOP_RECORD])
    for _ in range(below(words, counters, nodes[(node << ROW) + N_RECORDS])):
        record = np.int64(records[(record << RECORD_ROW) + R_NEXT])
    return record


@njit
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


@njit
def _enter(
    categories, vertices, nodes, tokens, records, arena, free_slabs, table, counters, category, user, record, by_owner
):
    """Line 1.7 and 1.9: the user joins U[v], the query joins Q[v]."""
    node = node_at(categories, vertices, nodes, table, counters, category, user)
    vertex = np.int64(nodes[(node << ROW) + N_VERTEX])
    make_room(vertices, arena, free_slabs, counters, vertex)
    add_token(vertices, nodes, tokens, arena, free_slabs, counters, node)
    add_record(vertices, nodes, records, arena, free_slabs, counters, vertex, node, record, by_owner)


@njit
def _emit(
    categories, vertices, nodes, tokens, records, arena, free_slabs, table, counters, by_owner, out, arrival,
    pool_users, pool_owners, depth, vertex, place, token,
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
                categories, vertices, nodes, tokens, records, arena, free_slabs, table, counters, np.int64(records[at +
                R_CATEGORY]), np.int64(records[at + R_OWNER]), queued, by_owner,
            )
    drop_record(vertices, nodes, records, arena, free_slabs, table, counters, vertex, place, by_owner)


@njit
def _queue_if_capped(nodes, records, table, counters, cap, category, user, record):
    """A user with `cap` records waiting at a vertex queues behind them."""
    node, _ = find(table, counters[C_TABLE_MASK], (np.int64(category) << 32) | np.int64(user))
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


@njit
def _branch_step(
    categories, depths, vertices, nodes, tokens, records, arena, free_slabs, table, counters, words, rules, out,
    arrival, leaf, branch,
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
        vertices[((leaf if rules[RULE_STRICT] != 0 else branch) << ROW) + owners_field], depths[vertices[(branch << ROW)
        + V_CATEGORY]], query_vertex, place, token,
    )
    if query_vertex != user_vertex:
        # The moved user arrives before the receiver leaves, so that no vertex is empty in between.
        base = query_vertex << ROW
        moved = np.int64(arena[np.int64(vertices[base + V_SLAB]) + below(words, counters, vertices[base + V_TOKENS])])
        user = np.int64(nodes[(np.int64(tokens[(moved << TOKEN_ROW) + T_NODE]) << ROW) + N_USER])
        category = np.int64(vertices[(user_vertex << ROW) + V_CATEGORY])
        node = node_at(categories, vertices, nodes, table, counters, category, user)
        make_room(vertices, arena, free_slabs, counters, user_vertex)
        add_token(vertices, nodes, tokens, arena, free_slabs, counters, node)
        drop_token(categories, vertices, nodes, tokens, arena, free_slabs, table, counters, moved)
    else:
        user_vertex = np.int64(NONE)
    drop_token(categories, vertices, nodes, tokens, arena, free_slabs, table, counters, token)
    return user_vertex


@njit
def _enough(vertices, vertex, rules, users_field, owners_field):
    """Restriction 2: more than k distinct users; in safe mode more than k distinct owners as well."""
    base = vertex << ROW
    return vertices[base + users_field] > rules[RULE_K] and (
        rules[RULE_DISTINCT] == 0 or vertices[base + owners_field] > rules[RULE_K]
    )


@njit
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
            or counters[C_ARENA_TOP] + 4 * counters[C_LARGEST_SLAB] + SETS_PER_LEVEL * deepest * counters[C_LARGEST_SET]
            > arena_limit
        ):
            return arrival
        if arrival + 2 * AHEAD < arrivals:
            prefetch(categories, np.int64(leaves[arrival + 2 * AHEAD]) << CATEGORY_ROW)
            look_ahead(
                categories, table, counters[C_TABLE_MASK], np.int64(leaves[arrival + AHEAD]),
                np.int64(users[arrival + AHEAD]),
            )
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
            if branch != NONE and (rules[RULE_STRICT] == 0 or vertices[(leaf << ROW) + V_OWN_OWNERS] > rules[RULE_K]):
                vertex = _branch_step(
                    categories, depths, vertices, nodes, tokens, records, arena, free_slabs, table, counters, words,
                    rules, out, arrival, leaf, branch,
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
                categories, vertices, nodes, tokens, records, arena, free_slabs, table, counters, by_owner, out,
                arrival, np.int64(vertices[base + V_OWN_USERS]), vertices[base + V_OWN_OWNERS], depths[vertices[base +
                V_CATEGORY]], vertex, place, token,
            )
            drop_token(categories, vertices, nodes, tokens, arena, free_slabs, table, counters, token)
    return arrivals


@njit(cache=True, nogil=True)
def arrive(
    categories, depths, vertices, nodes, tokens, records, arena, free_slabs, table, counters, words, rules, leaves,
    users, handles, start, deepest, out,
):
    """Take records from `start` on, until all are in or an array runs short; returns the first that is not in yet."""
    return _arrive(
        pointer(categories), pointer(depths), pointer(vertices), pointer(nodes), pointer(tokens), pointer(records),
        pointer(arena), pointer(free_slabs), pointer(table), pointer(counters), pointer(words), pointer(rules),
        pointer(leaves), pointer(users), pointer(handles), start, len(leaves), deepest, pointer(out), words.size,
        vertices.size >> ROW, nodes.size >> ROW, tokens.size >> TOKEN_ROW, records.size >> RECORD_ROW, table.size >> 1,
        arena.size,
    )

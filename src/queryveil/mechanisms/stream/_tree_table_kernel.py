"""The table of the category tree's nodes (Numba): (category, user) → node, open addressing, no tombstones.

A look, an entry and a removal cost O(1) on average; `rebuild_table` fills a larger table. The layout of the other
arrays is in `_layout.py`.
"""

# ruff: noqa: F403, F405 -- the names of the fields come by the dozen

from __future__ import annotations

import numpy as np
from numba import njit

from queryveil.log._pointers import pointer, prefetch
from queryveil.mechanisms.stream._layout import *

_MIX = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


@njit
def _home(key, mask):
    mixed = np.uint64(key) * _MIX
    return np.int64((mixed ^ (mixed >> _HALF)) & np.uint64(mask))


@njit
def find(table, mask, key):
    """The node at `key`, or NONE, and the slot it has or would take."""
    slot = _home(key, mask)
    while table[2 * slot] != NONE and table[2 * slot] != key:
        slot = (slot + 1) & mask
    return (table[2 * slot + 1] if table[2 * slot] == key else np.int64(NONE)), slot


@njit
def look_ahead(categories, table, mask, category, user):
    """Have the slots ready where a user's nodes at a category and above it are, or would be."""
    while category != ROOT:
        prefetch(table, 2 * _home((category << 32) | user, mask))
        category = np.int64(categories[(category << CATEGORY_ROW) + G_PARENT])


@njit
def forget(table, mask, key):
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


@njit(cache=True, nogil=True)
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
            _, slot = find(slots, mask, key)
            slots[2 * slot] = key
            slots[2 * slot + 1] = node

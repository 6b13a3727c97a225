"""The window over texts (Numba): a record waits until `k_text` distinct users issued its text in the last W records.

The window is a ring of records. Two open-addressing tables say how often each (text, user) pair and which text row is
in it. A record that is still waiting when it leaves the window is withheld for good, so memory is bounded by W.
"""

# ruff: noqa: F403, F405 -- the names of the fields come by the dozen
# The arrays of the state, spelt one to a line in every call, would hide the algorithm:
# fmt: off

from __future__ import annotations

import numpy as np
from numba import njit

from queryveil.log._pointers import pointer, prefetch
from queryveil.mechanisms.stream._layout import *

EMPTY = np.uint64(0)
AHEAD = 8
"""So many records before their turn the memory of what they need is asked for."""
_TEXT_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_USER_FACTOR = np.uint64(0xC2B2AE3D27D4EB4F)


@njit
def _pair(text, user):
    """A key for a text and a user. Both are secret fingerprints, so a linear mix collides with chance 2^-64 only."""
    key = text * _TEXT_FACTOR + user * _USER_FACTOR
    key ^= key >> np.uint64(29)
    return key if key != EMPTY else np.uint64(1)


@njit
def _slot_of(keys, mask, key):
    slot = np.int64(key & np.uint64(mask))
    while keys[slot] != EMPTY and keys[slot] != key:
        slot = (slot + 1) & mask
    return slot


@njit
def _remove(keys, values, mask, hole):
    """Empty a slot and close the gap."""
    slot = hole
    while True:
        slot = (slot + 1) & mask
        other = keys[slot]
        if other == EMPTY:
            break
        if ((slot - np.int64(other & np.uint64(mask))) & mask) >= ((slot - hole) & mask):
            keys[hole] = other
            values[hole] = values[slot]
            hole = slot
    keys[hole] = EMPTY


@njit
def _expire(
    ring, ring_pairs, texts, text_names, text_keys, text_rows, text_mask, pair_keys, pair_counts, pair_mask, counters,
    capacity, expired,
):
    """The oldest record leaves the window; one that still waits is withheld."""
    place = counters[P_START]
    row = place << RING_ROW
    text = np.int64(ring[row + W_TEXT])
    at = text << TEXT_ROW
    slot = _slot_of(pair_keys, pair_mask, ring_pairs[place])
    pair_counts[slot] -= 1
    if pair_counts[slot] == 0:
        _remove(pair_keys, pair_counts, pair_mask, slot)
        counters[P_PAIRS] -= 1
        texts[at + X_USERS] -= 1
    if ring[row + W_HANDLE] != NONE:
        texts[at + X_HEAD] = ring[row + W_NEXT]  # the oldest of its text stands first
        if ring[row + W_NEXT] == NONE:
            texts[at + X_TAIL] = NONE
        expired[counters[P_EXPIRED]] = ring[row + W_HANDLE]
        counters[P_EXPIRED] += 1
        counters[P_WAITING] -= 1
    texts[at + X_RECORDS] -= 1
    if texts[at + X_RECORDS] == 0:
        _remove(text_keys, text_rows, text_mask, _slot_of(text_keys, text_mask, text_names[text]))
        counters[P_TEXTS] -= 1
        texts[at + X_HEAD] = counters[P_TEXT_FREE]
        counters[P_TEXT_FREE] = text
    counters[P_START] = place + 1 if place + 1 < capacity else 0
    counters[P_COUNT] -= 1


@njit
def _enter(entered, counters, handle, user, category, arrival):
    at = counters[P_ENTERED] * IN_COLUMNS
    entered[at + IN_HANDLE] = handle
    entered[at + IN_USER] = user
    entered[at + IN_CATEGORY] = category
    entered[at + IN_ARRIVAL] = arrival
    counters[P_ENTERED] += 1


@njit
def _pass(
    ring, ring_pairs, texts, text_names, text_keys, text_rows, text_mask, pair_keys, pair_counts, pair_mask, counters,
    capacity, window, k_text, fingerprints, user_names, users, categories, handles, arrivals, entered, expired,
):
    for arrival in range(arrivals):
        if arrival + AHEAD < arrivals:
            soon = fingerprints[arrival + AHEAD]
            prefetch(text_keys, np.int64(soon & np.uint64(text_mask)))
            prefetch(text_rows, np.int64(soon & np.uint64(text_mask)))
            soon = _pair(soon, user_names[users[arrival + AHEAD]])
            prefetch(pair_keys, np.int64(soon & np.uint64(pair_mask)))
            prefetch(pair_counts, np.int64(soon & np.uint64(pair_mask)))
        if counters[P_COUNT] == window:
            oldest = counters[P_START] + AHEAD
            if oldest < capacity:
                soon = ring_pairs[oldest]
                prefetch(pair_keys, np.int64(soon & np.uint64(pair_mask)))
                prefetch(pair_counts, np.int64(soon & np.uint64(pair_mask)))
                text = np.int64(ring[(oldest << RING_ROW) + W_TEXT])
                prefetch(texts, text << TEXT_ROW)
                prefetch(text_names, text)
            _expire(
                ring, ring_pairs, texts, text_names, text_keys, text_rows, text_mask, pair_keys, pair_counts, pair_mask,
                counters, capacity, expired,
            )
        slot = _slot_of(text_keys, text_mask, fingerprints[arrival])
        if text_keys[slot] == EMPTY:
            text = counters[P_TEXT_FREE]
            if text != NONE:
                counters[P_TEXT_FREE] = texts[(text << TEXT_ROW) + X_HEAD]
            else:
                text = counters[P_TEXT_TOP]
                counters[P_TEXT_TOP] += 1
            text_keys[slot] = fingerprints[arrival]
            text_rows[slot] = text
            text_names[text] = fingerprints[arrival]
            counters[P_TEXTS] += 1
            at = text << TEXT_ROW
            texts[at + X_USERS] = 0
            texts[at + X_RECORDS] = 0
            texts[at + X_HEAD] = NONE
            texts[at + X_TAIL] = NONE
        text = np.int64(text_rows[slot])
        at = text << TEXT_ROW
        pair = _pair(fingerprints[arrival], user_names[users[arrival]])
        slot = _slot_of(pair_keys, pair_mask, pair)
        if pair_keys[slot] == EMPTY:
            pair_keys[slot] = pair
            pair_counts[slot] = 0
            counters[P_PAIRS] += 1
            texts[at + X_USERS] += 1
        pair_counts[slot] += 1
        texts[at + X_RECORDS] += 1
        place = counters[P_START] + counters[P_COUNT]
        if place >= capacity:
            place -= capacity
        counters[P_COUNT] += 1
        row = place << RING_ROW
        ring_pairs[place] = pair
        ring[row + W_TEXT] = text
        ring[row + W_USER] = users[arrival]
        ring[row + W_CATEGORY] = categories[arrival]
        ring[row + W_NEXT] = NONE
        if texts[at + X_USERS] >= k_text:
            ring[row + W_HANDLE] = NONE
            waiting = np.int64(texts[at + X_HEAD])
            while waiting != NONE:
                other = waiting << RING_ROW
                _enter(
                    entered, counters, ring[other + W_HANDLE], ring[other + W_USER], ring[other + W_CATEGORY], arrival
                )
                ring[other + W_HANDLE] = NONE
                counters[P_WAITING] -= 1
                waiting = np.int64(ring[other + W_NEXT])
            texts[at + X_HEAD] = NONE
            texts[at + X_TAIL] = NONE
            _enter(entered, counters, handles[arrival], users[arrival], categories[arrival], arrival)
        else:
            ring[row + W_HANDLE] = handles[arrival]
            tail = np.int64(texts[at + X_TAIL])
            if tail == NONE:
                texts[at + X_HEAD] = place
            else:
                ring[(tail << RING_ROW) + W_NEXT] = place
            texts[at + X_TAIL] = place
            counters[P_WAITING] += 1


@njit(cache=True, nogil=True)
def pass_gate(
    ring, ring_pairs, texts, text_names, text_keys, text_rows, pair_keys, pair_counts, counters, window, k_text,
    fingerprints, user_names, users, categories, handles, entered, expired,
):
    """Let records through the window. The caller provides room for all of them in every array."""
    _pass(
        pointer(ring), pointer(ring_pairs), pointer(texts), pointer(text_names), pointer(text_keys), pointer(text_rows),
        text_keys.size - 1, pointer(pair_keys), pointer(pair_counts), pair_keys.size - 1, pointer(counters),
        ring_pairs.size, window, k_text, pointer(fingerprints), pointer(user_names), pointer(users),
        pointer(categories), pointer(handles), len(users), pointer(entered), pointer(expired),
    )


@njit(cache=True, nogil=True)
def move_table(old_keys, old_values, keys, values):
    """Carry a table over into a larger empty one."""
    table = pointer(keys)
    for i in range(len(old_keys)):
        if old_keys[i] != EMPTY:
            slot = _slot_of(table, keys.size - 1, old_keys[i])
            keys[slot] = old_keys[i]
            values[slot] = old_values[i]


@njit(cache=True, nogil=True)
def fill_tables(ring, ring_pairs, text_names, user_names, count, text_keys, text_rows, pair_keys, pair_counts):
    """Work out the pairs of the first `count` records of the ring, and enter texts and pairs into empty tables."""
    text_table, pair_table = pointer(text_keys), pointer(pair_keys)
    for place in range(count):
        row = place << RING_ROW
        text = ring[row + W_TEXT]
        slot = _slot_of(text_table, text_keys.size - 1, text_names[text])
        text_keys[slot] = text_names[text]
        text_rows[slot] = text
        pair = _pair(text_names[text], user_names[ring[row + W_USER]])
        ring_pairs[place] = pair
        slot = _slot_of(pair_table, pair_keys.size - 1, pair)
        pair_keys[slot] = pair
        pair_counts[slot] += 1

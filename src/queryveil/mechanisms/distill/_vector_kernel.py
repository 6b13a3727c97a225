"""Sums of people's unit vectors in whole numbers (Numba). No strings, no randomness.

A person's counts n become weights w = WEIGHTS[n] ≈ 1024 · n^0.7; the vector is ⌊unit · w / ‖w‖⌋, rounded down. Whatever
floating point did, the squares are then added up as whole numbers, and a vector that is too long is made shorter: no
vector adds more than `unit` in length.
"""

from __future__ import annotations

import numpy as np
from numba import njit

MOST_COUNT = 4096
WEIGHTS = np.floor(1024 * np.arange(MOST_COUNT + 1, dtype=np.float64) ** 0.7).astype(np.int64)


@njit(cache=True, nogil=True)
def shorten(vector, size, unit):
    """Take one from every number until the squares of the first `size` add up to at most unit²."""
    while True:
        squares = np.int64(0)
        for place in range(size):
            squares += vector[place] * vector[place]
        if squares <= unit * unit:
            return
        for place in range(size):
            if vector[place] > 0:
                vector[place] -= 1


@njit(cache=True, nogil=True)
def _count_person(sorted_keys, start, cells, weights, cell, weight):
    """Write the cells of the person whose keys begin at `start`, and their weights; where the next person's keys begin,
    and how many cells there are."""
    total = len(sorted_keys)
    person = sorted_keys[start] // cells
    size = 0
    place = start
    while place < total and sorted_keys[place] // cells == person:
        key = sorted_keys[place]
        count = 0
        while place < total and sorted_keys[place] == key:
            count += 1
            place += 1
        cell[size] = key % cells
        weight[size] = float(weights[min(count, len(weights) - 1)])
        size += 1
    return place, size


@njit(cache=True, nogil=True)
def _squares(weight, size):
    squares = 0.0
    for index in range(size):
        squares += weight[index] * weight[index]
    return squares


@njit(cache=True, nogil=True)
def add_vectors(sorted_keys, cells, unit, weights, out):
    """Add every person's unit vector to `out`; `sorted_keys` has person · cells + cell of each thing counted."""
    total = len(sorted_keys)
    cell = np.empty(cells if cells < total else total, dtype=np.int64)
    weight = np.empty(len(cell), dtype=np.float64)
    vector = np.empty(len(cell), dtype=np.int64)
    start = 0
    while start < total:
        place, size = _count_person(sorted_keys, start, cells, weights, cell, weight)
        length = np.sqrt(_squares(weight, size))
        for index in range(size):
            vector[index] = np.int64(np.floor(weight[index] * unit / length))
        shorten(vector, size, unit)
        for index in range(size):
            out[cell[index]] += vector[index]
        start = place


@njit(cache=True, nogil=True)
def add_outer_products(sorted_keys, cells, unit, weights, out):
    """Add every person's h·hᵀ to `out` (cells × cells), h the unit vector: its squares add up to 1 as those of h do."""
    total = len(sorted_keys)
    cell = np.empty(cells, dtype=np.int64)
    weight = np.empty(cells, dtype=np.float64)
    vector = np.empty(cells * cells, dtype=np.int64)
    start = 0
    while start < total:
        place, size = _count_person(sorted_keys, start, cells, weights, cell, weight)
        squares = _squares(weight, size)
        for row in range(size):
            for column in range(size):
                product = weight[row] * weight[column] * unit
                vector[row * size + column] = np.int64(np.floor(product / squares))
        shorten(vector, size * size, unit)
        for row in range(size):
            for column in range(size):
                out[cell[row] * cells + cell[column]] += vector[row * size + column]
        start = place


@njit(cache=True, nogil=True)
def count_common_words(offsets, numbers, before, after, out):
    """How many places of each later text hold a word of the earlier one; a text has few words."""
    for pair in range(len(before)):
        for place in range(offsets[after[pair]], offsets[after[pair] + 1]):
            for earlier in range(offsets[before[pair]], offsets[before[pair] + 1]):
                if numbers[place] == numbers[earlier]:
                    out[pair] += 1
                    break


@njit(cache=True, nogil=True)
def fill_slots(hashes, slots, numbers):
    """Put every hash, with its place in the list, into the first free slot from its own one on; −1 is a free slot."""
    mask = np.uint64(len(slots) - 1)
    for place in range(len(hashes)):
        slot = hashes[place] & mask
        while numbers[slot] >= 0:
            slot = (slot + np.uint64(1)) & mask
        slots[slot] = hashes[place]
        numbers[slot] = place


@njit(cache=True, nogil=True)
def find_slots(wanted, slots, numbers, unknown, out):
    """The number of each hash, or `unknown`."""
    mask = np.uint64(len(slots) - 1)
    for place in range(len(wanted)):
        slot = wanted[place] & mask
        while numbers[slot] >= 0 and slots[slot] != wanted[place]:
            slot = (slot + np.uint64(1)) & mask
        out[place] = numbers[slot] if numbers[slot] >= 0 else unknown

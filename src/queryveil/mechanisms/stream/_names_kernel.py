"""From names to numbers: keyed fingerprints of users, texts and category paths, and dense numbers for them (Numba).

A fingerprint is SipHash-2-4 (Aumasson and Bernstein, 2012) under a secret key drawn for the run: 64 bits that nobody
outside can predict. A level of a path is fingerprinted under its parent's fingerprint, so equal names under different
parents differ and no name has to be kept.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from queryveil.log._pointers import pointer, prefetch, word_at

EMPTY = np.uint64(0)
ROOT = 0
AT_ONCE = 32

_U8 = np.uint64


@njit
def _rotated(word, bits):
    return (word << _U8(bits)) | (word >> _U8(64 - bits))


@njit
def _round(a, b, c, d):
    a += b
    b = _rotated(b, 13) ^ a
    a = _rotated(a, 32)
    c += d
    d = _rotated(d, 16) ^ c
    a += d
    d = _rotated(d, 21) ^ a
    c += b
    b = _rotated(b, 17) ^ c
    c = _rotated(c, 32)
    return a, b, c, d


@njit
def sip_hash(data, start, stop, key_low, key_high):
    """SipHash-2-4 of the bytes start … stop − 1. Never 0, which marks an empty slot: 0 becomes 1."""
    a = key_low ^ _U8(0x736F6D6570736575)
    b = key_high ^ _U8(0x646F72616E646F6D)
    c = key_low ^ _U8(0x6C7967656E657261)
    d = key_high ^ _U8(0x7465646279746573)
    at = np.int64(start)
    while stop - at >= 8:
        word = word_at(data, at)
        d ^= word
        a, b, c, d = _round(a, b, c, d)
        a, b, c, d = _round(a, b, c, d)
        a ^= word
        at += 8
    word = _U8((stop - start) & 0xFF) << _U8(56)
    for i in range(stop - at):
        word |= _U8(data[at + i]) << _U8(8 * i)
    d ^= word
    a, b, c, d = _round(a, b, c, d)
    a, b, c, d = _round(a, b, c, d)
    a ^= word
    c ^= _U8(0xFF)
    for _ in range(4):
        a, b, c, d = _round(a, b, c, d)
    result = a ^ b ^ c ^ d
    return result if result != EMPTY else _U8(1)


@njit(cache=True, nogil=True)
def fingerprints(data, starts, stops, key_low, key_high, out):
    """One fingerprint for each of the texts that lie at these places of `data`."""
    bytes_ = pointer(data)
    for i in range(len(starts)):
        out[i] = sip_hash(bytes_, starts[i], stops[i], key_low, key_high)


@njit(cache=True, nogil=True)
def fingerprints_of_pairs(first, second, key_low, key_high, out):
    """One fingerprint for each pair of words."""
    data = np.empty(16, np.uint8)
    bytes_ = pointer(data)
    for i in range(len(first)):
        for j in range(8):
            data[j] = np.uint8((first[i] >> _U8(8 * j)) & _U8(0xFF))
            data[8 + j] = np.uint8((second[i] >> _U8(8 * j)) & _U8(0xFF))
        out[i] = sip_hash(bytes_, np.int64(0), np.int64(16), key_low, key_high)


@njit
def _slot_of(keys, mask, fingerprint):
    slot = np.int64(fingerprint & _U8(mask))
    while keys[slot] != EMPTY and keys[slot] != fingerprint:
        slot = (slot + 1) & mask
    return slot


@njit(cache=True, nogil=True)
def fill_table(keys, numbers, known):
    """Enter the fingerprints known[0], known[1], … with their places as numbers into an empty table."""
    table = pointer(keys)
    for i in range(len(known)):
        slot = _slot_of(table, keys.size - 1, known[i])
        keys[slot] = known[i]
        numbers[slot] = i


@njit(cache=True, nogil=True)
def number(keys, numbers, known, count, wanted, start, out):
    """Dense numbers for fingerprints, new ones in order of appearance. Stops where the table is half full.

    Returns the first place not done and how many numbers are taken.
    """
    table = pointer(keys)
    mask = keys.size - 1
    for i in range(start, len(wanted)):
        if 2 * (count + 1) > keys.size or count + 1 > known.size:
            return i, count
        slot = _slot_of(table, mask, wanted[i])
        if keys[slot] == EMPTY:
            keys[slot] = wanted[i]
            numbers[slot] = count
            known[count] = wanted[i]
            count += 1
        out[i] = numbers[slot]
    return len(wanted), count


@njit
def _separator_at(data, at, stop, separator, length):
    if at + length > stop:
        return False
    i = 0
    while i < length and data[at + i] == separator[i]:
        i += 1
    return i == length


@njit
def _fingerprint_levels(data, at, stop, separator, length, depth, key_low, key_high, levels):
    """Fingerprints of a path's first levels, each with those above it; how many there are, and the last."""
    level, name, parent = 0, at, _U8(0)
    while level < depth:
        if at == stop or _separator_at(data, at, stop, separator, length):
            parent = sip_hash(data, name, at, key_low ^ parent, key_high)
            levels[level] = parent
            level += 1
            if at == stop:
                break
            at += length
            name = at
        else:
            at += 1
    return level, parent


@njit(cache=True, nogil=True)
def number_paths(
    data,
    starts,
    stops,
    separator,
    depth,
    key_low,
    key_high,
    keys,
    numbers,
    known,
    parents,
    depths,
    count,
    first,
    levels,
    out,
):
    """Dense numbers for category paths cut to `depth` levels, with the parent and depth of each new category.

    Returns the first place not done and how many numbers are taken. `levels` is room for `depth` fingerprints.
    """
    bytes_, cut, table = pointer(data), pointer(separator), pointer(keys)
    length, mask = len(separator), keys.size - 1
    values, whole = pointer(numbers), np.empty(AT_ONCE, np.uint64)
    for i in range(first, len(starts)):
        # Some paths at once: the memory of what is known of each is asked for before any is looked up.
        place = (i - first) % AT_ONCE
        if place == 0:
            for j in range(min(AT_ONCE, len(starts) - i)):
                _, whole[j] = _fingerprint_levels(
                    bytes_, starts[i + j], stops[i + j], cut, length, depth, key_low, key_high, levels
                )
                prefetch(table, np.int64(whole[j] & _U8(mask)))
                prefetch(values, np.int64(whole[j] & _U8(mask)))
        if 2 * (count + depth) > keys.size or count + depth > known.size:
            return i, count
        slot = _slot_of(table, mask, whole[place])
        if keys[slot] == EMPTY:
            level, _ = _fingerprint_levels(bytes_, starts[i], stops[i], cut, length, depth, key_low, key_high, levels)
            above = np.int32(ROOT)
            for j in range(level):
                slot = _slot_of(table, mask, levels[j])
                if keys[slot] == EMPTY:
                    keys[slot] = levels[j]
                    numbers[slot] = count
                    known[count] = levels[j]
                    parents[count] = above
                    depths[count] = j + 1
                    count += 1
                above = numbers[slot]
        out[i] = numbers[slot]
    return len(starts), count


@njit(cache=True, nogil=True)
def kept_characters(data, starts, stops, separator, levels, out):
    """How many characters of each path its first `levels[i]` levels take."""
    bytes_, cut = pointer(data), pointer(separator)
    length = len(separator)
    for i in range(len(starts)):
        at, stop = starts[i], stops[i]
        level, characters = 0, 0
        while at < stop:
            if _separator_at(bytes_, at, stop, cut, length):
                level += 1
                if level == levels[i]:
                    break
                for j in range(length):
                    characters += (data[at + j] & 0xC0) != 0x80
                at += length
            else:
                characters += (data[at] & 0xC0) != 0x80
                at += 1
        out[i] = characters


@njit(cache=True, nogil=True)
def write_pseudonyms(numbers, out):
    """`u`, sixteen hexadecimal digits and a line feed for each number."""
    at = 0
    for number_ in numbers:
        out[at] = 117
        for j in range(16):
            digit = np.uint8((number_ >> _U8(60 - 4 * j)) & _U8(15))
            out[at + 1 + j] = digit + (48 if digit < 10 else 87)
        out[at + 17] = 10
        at += 18

"""Where the parts of lines of Solr's and slow logs stand (Numba). No strings: bytes, begins and ends."""

from __future__ import annotations

import numpy as np
from numba import njit

from queryveil.log.formats._bytes_kernel import ABSENT, ESCAPED_TEXT, TEXT, hex_digit, pointer

OTHER, REQUEST, SHARD_REQUEST = range(3)


@njit(cache=True, nogil=True)
def _is_at(data, at, stop, word):
    if at < 0 or at + len(word) > stop:
        return False
    place = 0
    while place < len(word) and data[at + place] == word[place]:
        place += 1
    return place == len(word)


@njit(cache=True, nogil=True)
def _find(data, at, stop, word):
    """Where a word begins first, or -1."""
    while at + len(word) <= stop:
        if data[at] == word[0] and _is_at(data, at, stop, word):
            return at
        at += 1
    return -1


@njit(cache=True, nogil=True)
def slow_lines(data, starts, stops, source_word, id_word, froms, tos, good):
    """Begins and ends of the time, the source and the id of `[TIME]…, source[…], id[…], ` lines; an id may be missing.

    The source goes from the first mark of one to the last mark of an id, so that what it holds cannot end it.
    """
    for line in range(len(starts)):
        start, stop = starts[line], stops[line]
        while stop > start and (data[stop - 1] == 32 or data[stop - 1] == 44 or data[stop - 1] == 13):
            stop -= 1
        begin = _find(data, start, stop, source_word)
        if begin < 0 or data[start] != 91 or data[stop - 1] != 93:
            continue
        end = start + 1
        while data[end] != 93:
            end += 1
        froms[line, 0], tos[line, 0] = start + 1, end
        begin += len(source_word)
        end = stop - len(id_word)
        while end >= begin and not _is_at(data, end, stop, id_word):
            end -= 1
        if end >= begin:
            froms[line, 2], tos[line, 2] = end + len(id_word), stop - 1
        else:
            end = stop - 1
        froms[line, 1], tos[line, 1] = begin, max(begin, end)
        good[line] = True


@njit(cache=True, nogil=True)
def solr_lines(data, starts, stops, words, ends, names, name_ends, froms, tos, kinds):
    """Begins and ends of the time and of the values of named parameters of `TIME … params={…} …` lines.

    Solr writes a blank in a parameter as a plus, so that the first brace before a blank ends them. Of a name that
    stands twice the first counts, as it does for Solr.
    """
    level, begins, shard = words[: ends[0]], words[ends[0] : ends[1]], words[ends[1] : ends[2]]
    for line in range(len(starts)):
        start, stop = starts[line], stops[line]
        if stop > start and data[stop - 1] == 13:
            stop -= 1
        at = start + (len(level) if _is_at(data, start, stop, level) else 0)
        end = min(at + 11, stop)
        while end < stop and data[end] != 32 and data[end] != 59:
            end += 1
        froms[line, 0], tos[line, 0] = at, end
        at = _find(data, end, stop, begins)
        if at < 0:
            continue
        kinds[line] = REQUEST
        at += len(begins)
        closed = False
        while at < stop and not closed:
            end = at
            while (
                end < stop and data[end] != 38 and not (data[end] == 125 and (end + 1 == stop or data[end + 1] == 32))
            ):
                end += 1
            closed = end < stop and data[end] == 125
            if _is_at(data, at, end, shard):
                kinds[line] = SHARD_REQUEST
            begin = 0
            for name in range(len(name_ends)):
                word = names[begin : name_ends[name]]
                value = at + len(word) + 1
                if value <= end and data[value - 1] == 61 and _is_at(data, at, end, word) and not froms[line, name + 1]:
                    froms[line, name + 1], tos[line, name + 1] = value, end
                begin = name_ends[name]
            at = end + 1
        if not closed:
            kinds[line] = OTHER


@njit(cache=True, nogil=True)
def decode_percent(data, starts, stops, present, strict, out, ends, made, good):
    """Percent-encoded texts one after the other, decoded, a line feed after each; how long that is.

    Made are texts, escaped ones where there are line ends inside, and what is absent. A percent sign that begins no
    byte is one, or, where that is strict, makes the text no good one.
    """
    size = 0
    for piece in range(len(starts)):
        at, stop = starts[piece], stops[piece]
        good[piece], broken = True, False
        while at < stop:
            byte = np.int64(data[at])
            if byte == 37:
                high = hex_digit(data[at + 1]) if at + 2 < stop else np.int64(-1)
                low = hex_digit(data[at + 2]) if at + 2 < stop else np.int64(-1)
                if high >= 0 and low >= 0:
                    byte, at = high * np.int64(16) + low, at + 2
                elif strict:
                    good[piece] = False
                    break
            elif byte == 43:
                byte = np.int64(32)
            broken |= byte == 10 or byte == 13
            out[size] = byte
            size, at = size + 1, at + 1
        made[piece] = (ESCAPED_TEXT if broken else TEXT) if present[piece] else ABSENT
        ends[piece] = size
        out[size] = 10
        size += 1
    return size


@njit(cache=True, nogil=True)
def hold_word(data_of, starts, stops, word_of, held, is_ascii):
    """Which pieces hold a word of small letters, whatever the case of ASCII letters there, and which are of ASCII."""
    data, word, size = pointer(data_of), pointer(word_of), len(word_of)
    for piece in range(len(starts)):
        held[piece], is_ascii[piece] = False, True
        for at in range(starts[piece], stops[piece]):
            is_ascii[piece] &= data[at] < 128
            if (data[at] | 32) == word[0] and at + size <= stops[piece] and not held[piece]:
                place = 1
                while place < size and (data[at + place] | 32) == word[place]:
                    place += 1
                held[piece] = place == size

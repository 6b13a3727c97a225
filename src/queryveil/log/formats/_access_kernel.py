"""Where the parts of lines of access logs stand (Numba), as the patterns in `access_log` find them."""

from __future__ import annotations

import numpy as np
from numba import njit

from queryveil.log.formats._bytes_kernel import digits, hex_digit, pointer

OTHER, REQUEST, ESCAPED_REQUEST = range(3)
ADDRESS, TIME, QUERY = range(3)


@njit(cache=True, nogil=True)
def _end(data, at, stop, byte):
    """Where this byte stands first, or the end."""
    while at < stop and data[at] != byte:
        at += 1
    return at


@njit(cache=True, nogil=True)
def _is_name(data, at, stop, word, begin, end):
    """Whether percent-encoded bytes are a word."""
    while at < stop and begin < end:
        byte = np.int64(data[at])
        if byte == 37 and at + 2 < stop:
            high, low = hex_digit(data[at + 1]), hex_digit(data[at + 2])
            if high >= 0 and low >= 0:
                byte, at = high * np.int64(16) + low, at + 2
        if byte != word[begin]:
            return False
        at, begin = at + 1, begin + 1
    return at == stop and begin == end


@njit(cache=True, nogil=True)
def _search(data, at, stop, words, ends):
    """Begin and end of the value of the first of these names that has one, among parameters with & between."""
    best, begin, end = len(ends), np.int64(0), np.int64(0)
    while at < stop:
        last = at
        while last < stop and data[last] != 38:
            last += 1
        equals = _end(data, at, last, 61)
        if equals + 1 < last:
            first = np.int64(0)
            for name in range(best):
                if _is_name(data, at, equals, words, first, ends[name]):
                    best, begin, end = name, equals + 1, last
                    break
                first = ends[name]
        at = last + 1
    return begin, end


@njit(cache=True, nogil=True)
def access_lines(data_of, starts, stops, words_of, ends, froms, tos, kinds):
    """Begin and end of address, time and search of `ADDRESS ID USER [TIME] "REQUEST" STATUS SIZE …` lines.

    A search with a backslash in its request, which may be an escape, is left to a slower reader.
    """
    data, words = pointer(data_of), pointer(words_of)
    for line in range(len(starts)):
        start, stop = starts[line], stops[line]
        kinds[line] = OTHER
        for column in range(3):
            froms[column, line], tos[column, line] = 0, 0
        if stop > start and data[stop - 1] == 13:
            stop -= 1
        at, parts = start, 0
        address = at
        while parts < 3 and at < stop:
            end = _end(data, at, stop, 32)
            if end == at:
                break
            address = end if parts == 0 else address
            at, parts = end + 1, parts + 1
        if parts < 3 or at >= stop or data[at] != 91:
            continue
        time = at + 1
        time_end = _end(data, time, stop, 93)
        at = time_end + 3
        if at > stop or data[at - 2] != 32 or data[at - 1] != 34:
            continue
        request, escaped, target, asks = at, False, np.int64(-1), np.int64(-1)
        blanks = 0
        target_end = np.int64(-1)
        while at < stop and data[at] != 34:
            byte = data[at]
            if byte == 92:
                escaped = True
                at += 1
            elif byte == 32:
                blanks += 1
                if blanks == 1:
                    target = at + 1
                elif blanks == 2:
                    target_end = at
            elif byte == 63 and blanks == 1 and asks < 0:
                asks = at
            at += 1
        request_end = at
        at += 2
        if at + 4 > stop or data[at - 1] != 32 or digits(data, at, at + 3) != at + 3 or data[at + 3] != 32:
            continue
        at += 4
        end = digits(data, at, stop)
        end += end == at and at < stop and data[at] == 45
        if end == at or (end < stop and data[end] != 32):
            continue
        kinds[line] = ESCAPED_REQUEST if escaped else REQUEST
        froms[0, line], tos[0, line], froms[1, line], tos[1, line] = start, address, time, time_end
        if escaped or blanks == 0 or blanks > 2 or asks < 0:
            continue
        place = request
        while 97 <= (data[place] | 32) <= 122:
            place += 1
        good = place + 1 == target and place > request
        if blanks == 2:
            word = target_end + 1  # HTTP/ and digits with dots
            good &= request_end > word + 5 and data[word] == 72 and data[word + 1] == 84 and data[word + 2] == 84
            good &= request_end > word + 5 and data[word + 3] == 80 and data[word + 4] == 47
            for place in range(word + 5, request_end):
                good &= data[place] == 46 or 48 <= data[place] <= 57
        else:
            target_end = request_end
        if good:
            end = _end(data, asks + 1, target_end, 35)
            froms[2, line], tos[2, line] = _search(data, asks + 1, end, words, ends)

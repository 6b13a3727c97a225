"""JSON in bytes (Numba): where the values under given keys stand, checked against RFC 8259 as a whole.

No strings and no objects are made: a value is where it begins and ends, and what kind it is. What is no JSON to this
kernel is none to Python's `json` either, but for what that reads beyond the standard (NaN, half a surrogate pair, a
control character); nesting is limited to `MOST_DEPTH`. A key is compared after its escapes are read.

A path is a row of codes of keys, outermost first. An anchored path is the whole way to the value; another one is its
end, below the key `root` of the outermost object and outside of keys that are `skipped`, with `ANY` for any key.
"""

from __future__ import annotations

import numpy as np
from numba import njit

ABSENT, TEXT, ESCAPED_TEXT, WHOLE, NUMBER, NULL, BOOLEAN, OBJECT, ARRAY = range(9)
GOOD, NO_OBJECT, KEY_TWICE = range(3)
ANY, UNKNOWN, IN_ARRAY = -1, -2, -3
MOST_DEPTH = 128

_VALUE, _FIRST_KEY, _KEY, _NEXT, _FIRST_VALUE = range(5)
_PLAIN = np.array([byte >= 32 and byte not in b'"\\' for byte in range(256)])
_LETTERS = np.frombuffer(b'""\\\\//b\bf\fn\nr\rt\t', np.uint8)
_DAYS = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
_WORDS = np.frombuffer(b"true false null ", np.uint8)


@njit(cache=True, nogil=True)
def _hex_digit(digit):
    """The number that a hexadecimal digit stands for, or -1."""
    if 48 <= digit <= 57:
        return np.int64(digit) - 48
    return np.int64(digit | 32) - 87 if 97 <= (digit | 32) <= 102 else np.int64(-1)


@njit(cache=True, nogil=True)
def _hex(data, at):
    """The number that four hexadecimal digits say, or -1."""
    value = 0
    for place in range(at, at + 4):
        digit = _hex_digit(data[place])
        if digit < 0:
            return -1
        value = value * 16 + digit
    return value


@njit(cache=True, nogil=True)
def _character(data, at, stop):
    """What the escape at a backslash says, and where it ends; -1 where it is none."""
    if at + 1 >= stop:
        return -1, at
    letter = data[at + 1]
    if letter == 117:  # u
        if at + 6 > stop:
            return -1, at
        value = _hex(data, at + 2)
        if value < 0xD800 or value > 0xDFFF:
            return value, at + 6
        if value > 0xDBFF or at + 12 > stop or data[at + 6] != 92 or data[at + 7] != 117:
            return -1, at
        low = _hex(data, at + 8)
        if low < 0xDC00 or low > 0xDFFF:
            return -1, at
        return 0x10000 + ((value - 0xD800) << 10) + (low - 0xDC00), at + 12
    for place in range(0, len(_LETTERS), 2):
        if letter == _LETTERS[place]:
            return np.int64(_LETTERS[place + 1]), at + 2
    return -1, at


@njit(cache=True, nogil=True)
def _text(data, at, stop):
    """The place of the quote that closes the text which begins here, or -1, and whether there are escapes in it."""
    escaped = False
    while at < stop:
        byte = data[at]
        if _PLAIN[byte]:
            at += 1
        elif byte == 34:
            return at, escaped
        elif byte == 92:
            escaped = True
            value, at = _character(data, at, stop)
            if value < 0:
                return -1, escaped
        else:
            return -1, escaped
    return -1, escaped


@njit(cache=True, nogil=True)
def _put(out, size, value):
    """Append a character as UTF-8."""
    if value < 0x80:
        out[size] = value
        return size + 1
    if value < 0x800:
        out[size] = 0xC0 | (value >> 6)
        out[size + 1] = 0x80 | (value & 63)
        return size + 2
    if value < 0x10000:
        out[size] = 0xE0 | (value >> 12)
        out[size + 1] = 0x80 | ((value >> 6) & 63)
        out[size + 2] = 0x80 | (value & 63)
        return size + 3
    out[size] = 0xF0 | (value >> 18)
    out[size + 1] = 0x80 | ((value >> 12) & 63)
    out[size + 2] = 0x80 | ((value >> 6) & 63)
    out[size + 3] = 0x80 | (value & 63)
    return size + 4


@njit(cache=True, nogil=True)
def _code(data, at, stop, names, ends, letters):
    """Which of the names a key is, UNKNOWN where it is none of them."""
    size = 0
    while at < stop and size < len(letters) - 4:
        if data[at] == 92:
            value, at = _character(data, at, stop)
            size = _put(letters, size, value)
        else:
            letters[size] = data[at]
            size += 1
            at += 1
    if at < stop:
        return UNKNOWN
    begin = 0
    for code in range(len(ends)):
        if ends[code] - begin == size:
            same = True
            for place in range(size):
                if letters[place] != names[begin + place]:
                    same = False
                    break
            if same:
                return code
        begin = ends[code]
    return UNKNOWN


@njit(cache=True, nogil=True)
def _digits(data, at, stop):
    while at < stop and 48 <= data[at] <= 57:
        at += 1
    return at


@njit(cache=True, nogil=True)
def _plain(data, at, stop):
    """The end of a number or a word (true, false, null), and its kind; -1 where there is none."""
    byte = data[at]
    word = 0 if byte == 116 else 5 if byte == 102 else 11 if byte == 110 else -1
    if word >= 0:
        kind = NULL if word == 11 else BOOLEAN
        while at < stop and _WORDS[word] != 32 and data[at] == _WORDS[word]:
            at, word = at + 1, word + 1
        return (at if _WORDS[word] == 32 else -1), kind
    begin = at + (byte == 45)
    end = _digits(data, begin, stop)
    if end == begin or (data[begin] == 48 and end > begin + 1):
        return -1, WHOLE
    kind = WHOLE
    if end < stop and data[end] == 46:
        begin, kind = end + 1, NUMBER
        end = _digits(data, begin, stop)
        if end == begin:
            return -1, kind
    if end < stop and (data[end] | 32) == 101:
        begin, kind = end + 1, NUMBER
        if begin < stop and (data[begin] == 43 or data[begin] == 45):
            begin += 1
        end = _digits(data, begin, stop)
        if end == begin:
            return -1, kind
    return end, kind


@njit(cache=True, nogil=True)
def _blank(data, at, stop):
    while at < stop and (data[at] == 32 or data[at] == 10 or data[at] == 13 or data[at] == 9):
        at += 1
    return at


@njit(cache=True, nogil=True)
def locate(data, starts, stops, names, ends, paths, lengths, anchored, root, skipped, kinds, froms, tos, states):
    """For each piece of the data and each path: kind, begin and end of the value; GOOD where the piece is an object.

    A text is without its quotes. A second value at an anchored path makes the piece KEY_TWICE. Of paths that are not
    anchored only texts count, and of those one: the first in the piece at the first path that has any.
    """
    keys, opened = np.empty(MOST_DEPTH, np.int64), np.empty(MOST_DEPTH, np.int64)
    is_object = np.empty(MOST_DEPTH, np.bool_)
    letters = np.empty(260, np.uint8)
    for piece in range(len(starts)):
        stop = stops[piece]
        at = _blank(data, starts[piece], stop)
        state, depth, expected = NO_OBJECT, 0, _VALUE
        if at >= stop or data[at] != 123:
            states[piece] = NO_OBJECT
            continue
        twice, best = False, len(lengths)
        while at < stop:
            byte = data[at]
            kind, begin, end, complete = ABSENT, at, at, False
            if expected in (_FIRST_KEY, _KEY):
                if byte == 34:
                    end, _ = _text(data, at + 1, stop)
                    if end < 0:
                        break
                    keys[depth - 1] = _code(data, at + 1, end, names, ends, letters)
                    at = _blank(data, end + 1, stop)
                    if at >= stop or data[at] != 58:
                        break
                    at, expected = _blank(data, at + 1, stop), _VALUE
                    continue
                if byte != 125 or expected == _KEY:
                    break
            if expected == _NEXT and byte == 44:
                expected = _KEY if is_object[depth - 1] else _VALUE
                at = _blank(data, at + 1, stop)
                continue
            if byte == 125 or byte == 93:
                if expected in (_VALUE, _KEY) or is_object[depth - 1] != (byte == 125):
                    break
                depth -= 1
                kind, begin, end, complete = (OBJECT if byte == 125 else ARRAY), opened[depth], at + 1, True
                at += 1
            elif expected == _NEXT:
                break
            elif byte == 123 or byte == 91:
                if depth == MOST_DEPTH:
                    break
                opened[depth], is_object[depth] = at, byte == 123
                keys[depth] = UNKNOWN if byte == 123 else IN_ARRAY
                expected = _FIRST_KEY if byte == 123 else _FIRST_VALUE
                depth += 1
                at = _blank(data, at + 1, stop)
                continue
            elif byte == 34:
                end, escaped = _text(data, at + 1, stop)
                if end < 0:
                    break
                kind, begin, complete = (ESCAPED_TEXT if escaped else TEXT), at + 1, True
                at = end + 1
            else:
                end, kind = _plain(data, at, stop)
                if end < 0:
                    break
                at, complete = end, True
            if complete and depth:
                last = keys[depth - 1]
                for path in range(len(lengths)):
                    length = lengths[path]
                    if depth < length or (anchored[path] and depth > length):
                        continue
                    if paths[path, length - 1] != last and paths[path, length - 1] != ANY:
                        continue
                    fits = anchored[path] or keys[0] == root
                    for place in range(length):
                        wanted, key = paths[path, place], keys[depth - length + place]
                        if key != wanted and (wanted != ANY or key == IN_ARRAY):
                            fits = False
                            break
                    if fits and not anchored[path]:
                        for place in range(depth):
                            if keys[place] >= 0 and skipped[keys[place]]:
                                fits = False
                                break
                    column = path if anchored[path] else 0
                    if fits and anchored[path] and kinds[piece, path] != ABSENT:
                        twice = True
                    elif fits and (anchored[path] or (path < best and kind in (TEXT, ESCAPED_TEXT))):
                        best = path
                        kinds[piece, column], froms[piece, column], tos[piece, column] = kind, begin, end
            at, expected = _blank(data, at, stop), _NEXT
            if depth == 0:
                if at == stop:
                    state = KEY_TWICE if twice else GOOD
                break
        states[piece] = state


@njit(cache=True, nogil=True)
def elements(data, starts, stops, count, froms, tos, owners):
    """Begin and end of each element of arrays, white space included; how many there are, where only that is asked.

    Quotes and brackets alone are looked at: whether an element is JSON is for `locate` to say. -1 where they are not
    balanced.
    """
    size = 0
    for piece in range(len(starts)):
        depth, begin, at, stop = 0, starts[piece] + 1, starts[piece] + 1, stops[piece] - 1
        if _blank(data, at, stop) == stop:
            continue
        while at <= stop:
            byte = data[at]
            if byte == 34 and at < stop:
                at, _ = _text(data, at + 1, stop)
                if at < 0:
                    return -1
            elif at == stop or (byte == 44 and depth == 0):
                if not count:
                    froms[size], tos[size], owners[size] = begin, at, piece
                size += 1
                begin = at + 1
            elif byte == 123 or byte == 91:
                depth += 1
            elif byte == 125 or byte == 93:
                depth -= 1
                if depth < 0:
                    return -1
            at += 1
    return size


@njit(cache=True, nogil=True)
def copy_texts(data, starts, stops, escaped, out, ends, odd):
    """The texts one after the other, their escapes read, a line end after each; odd are those with line ends inside."""
    size = 0
    for piece in range(len(starts)):
        at, stop = starts[piece], stops[piece]
        broken = False
        while at < stop:
            byte = data[at]
            if byte == 92 and escaped[piece]:
                value, at = _character(data, at, stop)
                size = _put(out, size, value)
                broken |= value == 10 or value == 13
            else:
                out[size] = byte
                broken |= byte == 13
                size, at = size + 1, at + 1
        odd[piece] = broken
        ends[piece] = size
        out[size] = 10
        size += 1
    return size


@njit(cache=True, nogil=True)
def _number(data, at, length):
    """The number that so many digits say, or -1."""
    value = 0
    for place in range(at, at + length):
        if data[place] < 48 or data[place] > 57:
            return -1
        value = value * 10 + data[place] - 48
    return value


@njit(cache=True, nogil=True)
def moments(data, starts, stops, micros, known):
    """Microseconds since 1970 of texts like 2006-03-01T07:17:12.5+01:00; not known are all others, were they times."""
    for piece in range(len(starts)):
        at, stop = starts[piece], stops[piece]
        if stop - at < 19:
            continue
        year, month, day = _number(data, at, 4), _number(data, at + 5, 2), _number(data, at + 8, 2)
        hour, minute, second = _number(data, at + 11, 2), _number(data, at + 14, 2), _number(data, at + 17, 2)
        if data[at + 4] != 45 or data[at + 7] != 45 or data[at + 13] != 58 or data[at + 16] != 58:
            continue
        if (data[at + 10] != 84 and data[at + 10] != 32) or min(year, month, day, hour, minute, second) < 0:
            continue
        leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
        if year < 2 or year > 9998 or month < 1 or month > 12 or hour > 23 or minute > 59 or second > 59:
            continue
        if day < 1 or day > _DAYS[month - 1] + (leap and month == 2):
            continue
        at += 19
        fraction = 0
        if at < stop and (data[at] == 46 or data[at] == 44):
            begin = at + 1
            at = _digits(data, begin, stop)
            if at == begin or at > begin + 9:
                continue
            for place in range(begin, begin + 6):
                fraction = fraction * 10 + (data[place] - 48 if place < at else 0)
        east = 0
        if at + 1 == stop and (data[at] | 32) == 122:
            at = stop
        elif stop - at == 5 or stop - at == 6:
            if (data[at] != 43 and data[at] != 45) or (stop - at == 6 and data[at + 3] != 58):
                continue
            hours, minutes = _number(data, at + 1, 2), _number(data, stop - 2, 2)
            if hours < 0 or minutes < 0:
                continue
            east = (hours * 60 + minutes) * (1 if data[at] == 43 else -1)
            at = stop
        if at != stop:
            continue
        # Days since 1970 by Howard Hinnant's `days_from_civil`: years begin in March, so that leap days come last.
        shifted = year - (month <= 2)
        era = shifted // 400
        of_era = shifted - era * 400
        of_year = (153 * (month + (9 if month <= 2 else -3)) + 2) // 5 + day - 1
        days = era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468
        micros[piece] = (((days * 24 + hour) * 60 + minute - east) * 60 + second) * 1_000_000 + fraction
        known[piece] = True

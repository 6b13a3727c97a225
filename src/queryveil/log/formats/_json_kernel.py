"""JSON in bytes (Numba): where the values under given keys stand, checked against RFC 8259 as a whole.

No strings and no objects are made: a value is where it begins and ends, and what kind it is. What is no JSON to this
kernel is none to Python's `json` either, but for what that reads beyond the standard (NaN, half a surrogate pair, a
control character); nesting is limited to `MOST_DEPTH`. The bytes are known to be UTF-8. A key is compared after its
escapes are read.

Which keys matter where is a table, made once (`_json_columns`): in a scope, which is what is known of the way to an
object, the key with a code leads to another scope, and its value is one that is looked for or none. Two more codes
stand for all other keys and for the places of an array. From `DEAD` no way leads to anything: there keys are not even
looked up. So a line costs its bytes, whatever the number of keys.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from queryveil.log.formats._bytes_kernel import ABSENT as ABSENT
from queryveil.log.formats._bytes_kernel import ARRAY as ARRAY
from queryveil.log.formats._bytes_kernel import BOOLEAN as BOOLEAN
from queryveil.log.formats._bytes_kernel import ESCAPED_TEXT as ESCAPED_TEXT
from queryveil.log.formats._bytes_kernel import NULL as NULL
from queryveil.log.formats._bytes_kernel import NUMBER as NUMBER
from queryveil.log.formats._bytes_kernel import OBJECT as OBJECT
from queryveil.log.formats._bytes_kernel import TEXT as TEXT
from queryveil.log.formats._bytes_kernel import WHOLE as WHOLE
from queryveil.log.formats._bytes_kernel import (
    character,
    digits,
    eight,
    ends_of_text,
    first_mark,
    pointer,
    put_character,
)

GOOD, NO_OBJECT, KEY_TWICE = range(3)
START, DEAD = range(2)
NOTHING = -1
MOST_DEPTH = 128

_FIRST_KEY, _KEY, _VALUE, _NEXT, _FIRST_VALUE = range(5)
_PLAIN = np.array([byte >= 32 and byte not in b'"\\' for byte in range(256)])
_WORDS = np.frombuffer(b"true false null ", np.uint8)
_PRIME = np.uint64(0x9E3779B97F4A7C15)
_HALF = np.uint64(32)


@njit(cache=True, nogil=True)
def _text(data, at, stop, size):
    """The place of the quote that closes the text which begins here, or -1, and whether there are escapes in it."""
    escaped = False
    while at < stop:
        if at + 8 <= size:
            marks = ends_of_text(eight(data, at))
            if marks == 0:
                at += 8
                continue
            at += first_mark(marks)
            if at >= stop:
                break
        byte = data[at]
        if _PLAIN[byte]:
            at += 1
        elif byte == 34:
            return at, escaped
        elif byte == 92:
            escaped = True
            value, at = character(data, at, stop)
            if value < 0:
                return -1, escaped
        else:
            break
    return -1, escaped


@njit(cache=True, nogil=True)
def _up_to_eight(data, at, stop, size):
    """The next bytes, eight at most, and nothing behind them."""
    if stop - at >= 8:
        return eight(data, at)
    if at + 8 <= size:
        return eight(data, at) & ((np.uint64(1) << np.uint64(8 * (stop - at))) - np.uint64(1))
    word = np.uint64(0)
    for place in range(stop - at):
        word |= np.uint64(data[at + place]) << np.uint64(8 * place)
    return word


@njit(cache=True, nogil=True)
def _place_of(data, at, stop, size, mask):
    """Where a table of so many places, less one, begins to be searched for these bytes."""
    value = np.uint64(stop - at)
    while at < stop:
        value = (value ^ _up_to_eight(data, at, stop, size)) * _PRIME
        value ^= value >> _HALF
        at += 8
    return np.int64(value & np.uint64(mask))


@njit(cache=True, nogil=True)
def fill_places(names_of, ends, places):
    """Put the codes of names into a table with room for twice as many, in which -1 stands for an empty place."""
    names, begin = pointer(names_of), 0
    for code in range(len(ends)):
        place = _place_of(names, begin, ends[code], len(names_of), len(places) - 1)
        while places[place] >= 0:
            place = (place + 1) & (len(places) - 1)
        places[place] = code
        begin = ends[code]


@njit(cache=True, nogil=True)
def _code(data, at, stop, size, names, ends, places, mask, unknown):
    """Which of the names some bytes are, or that they are unknown."""
    place = _place_of(data, at, stop, size, mask)
    while places[place] >= 0:
        code = places[place]
        begin = ends[code - 1] if code else np.int64(0)
        if ends[code] - begin == stop - at:
            same = 0
            while same < stop - at and data[at + same] == names[begin + same]:
                same += 1
            if same == stop - at:
                return code
        place = (place + 1) & mask
    return unknown


@njit(cache=True, nogil=True)
def _code_of_escaped(data, at, stop, letters, longest, names, ends, places, mask, unknown):
    """The same of a key with escapes in it."""
    size = 0
    while at < stop and size <= longest:
        if data[at] == 92:
            value, at = character(data, at, stop)
            size = put_character(letters, size, value)
        else:
            letters[size] = data[at]
            size += 1
            at += 1
    return unknown if at < stop else _code(letters, 0, size, size, names, ends, places, mask, unknown)


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
    end = digits(data, begin, stop)
    if end == begin or (data[begin] == 48 and end > begin + 1):
        return -1, WHOLE
    kind = WHOLE
    if end < stop and data[end] == 46:
        begin, kind = end + 1, NUMBER
        end = digits(data, begin, stop)
        if end == begin:
            return -1, kind
    if end < stop and (data[end] | 32) == 101:
        begin, kind = end + 1, NUMBER
        if begin < stop and (data[begin] == 43 or data[begin] == 45):
            begin += 1
        end = digits(data, begin, stop)
        if end == begin:
            return -1, kind
    return end, kind


@njit(cache=True, nogil=True)
def _blank(data, at, stop):
    while at < stop and data[at] <= 32 and (data[at] == 32 or data[at] == 10 or data[at] == 13 or data[at] == 9):
        at += 1
    return at


@njit(cache=True, nogil=True)
def locate(
    data_of,
    starts,
    stops,
    names_of,
    ends_of,
    places_of,
    steps_of,
    finds_of,
    first_text,
    kinds_of,
    froms_of,
    tos_of,
    states,
):
    """For each piece of the data and each value looked for: kind, begin and end; GOOD where the piece is an object.

    A text is without its quotes. A second value where there was one makes the piece KEY_TWICE. Of `first_text` only
    texts count, and of those one: the first in the piece of the lowest number that has any.
    """
    scopes, opened = np.empty(MOST_DEPTH + 1, np.int64), np.empty(MOST_DEPTH + 1, np.int64)
    wanted, is_object = np.empty(MOST_DEPTH + 1, np.int64), np.empty(MOST_DEPTH + 1, np.bool_)
    longest = np.int64(0)
    for code in range(len(ends_of)):
        longest = max(longest, ends_of[code] - (ends_of[code - 1] if code else np.int64(0)))
    letters_of = np.empty(longest + 5, np.uint8)  # a key that is longer is known to be none when a character is over
    data, size, letters = pointer(data_of), len(data_of), pointer(letters_of)
    names, ends, places, mask = pointer(names_of), pointer(ends_of), pointer(places_of), np.int64(len(places_of) - 1)
    steps, finds, width, count = pointer(steps_of), pointer(finds_of), np.int64(len(ends_of) + 2), np.int64(len(starts))
    kinds, froms, tos = pointer(kinds_of), pointer(froms_of), pointer(tos_of)
    unknown, in_array, nothing = width - 2, width - 1, np.int64(NOTHING)
    for piece in range(len(starts)):
        stop = stops[piece]
        at = _blank(data, starts[piece], stop)
        states[piece] = NO_OBJECT
        if at >= stop or data[at] != 123:
            continue
        depth, expected, twice, best = 0, _VALUE, False, np.int64(len(kinds_of) + finds_of.size)
        scope, column = np.int64(START), nothing  # of the value that comes next
        while at < stop:
            byte = data[at]
            begin, end = at, at
            if expected <= _KEY:
                if byte == 34:
                    end, escaped = _text(data, at + 1, stop, size)
                    if end < 0:
                        break
                    scope, column = scopes[depth], nothing
                    if scope != DEAD:
                        if escaped:
                            code = _code_of_escaped(
                                data, at + 1, end, letters, longest, names, ends, places, mask, unknown
                            )
                        else:
                            code = _code(data, at + 1, end, size, names, ends, places, mask, unknown)
                        scope, column = steps[scope * width + code], finds[scope * width + code]
                    at = _blank(data, end + 1, stop)
                    if at >= stop or data[at] != 58:
                        break
                    at, expected = _blank(data, at + 1, stop), _VALUE
                    continue
                if byte != 125 or expected == _KEY:
                    break
            elif expected == _NEXT and byte == 44:
                expected = _KEY if is_object[depth] else _VALUE
                if expected == _VALUE:
                    scope, column = steps[scopes[depth] * width + in_array], nothing
                at = _blank(data, at + 1, stop)
                continue
            if byte == 34 and expected != _NEXT:
                end, escaped = _text(data, at + 1, stop, size)
                if end < 0:
                    break
                kind, begin = (ESCAPED_TEXT if escaped else TEXT), at + 1
                at = end + 1
            elif byte == 125 or byte == 93:
                if expected == _VALUE or is_object[depth] != (byte == 125):
                    break
                kind, begin, end, column = (OBJECT if byte == 125 else ARRAY), opened[depth], at + 1, wanted[depth]
                depth -= 1
                at += 1
            elif expected == _NEXT:
                break
            elif byte == 123 or byte == 91:
                if depth == MOST_DEPTH:
                    break
                depth += 1
                opened[depth], is_object[depth], wanted[depth], scopes[depth] = at, byte == 123, column, scope
                expected = _FIRST_KEY if byte == 123 else _FIRST_VALUE
                if byte == 91:
                    scope, column = steps[scope * width + in_array], nothing
                at = _blank(data, at + 1, stop)
                continue
            else:
                end, kind = _plain(data, at, stop)
                if end < 0:
                    break
                at = end
            if column != NOTHING:
                if first_text:
                    if column < best and kind <= ESCAPED_TEXT:
                        best = column
                        kinds[piece], froms[piece], tos[piece] = kind, begin, end
                else:
                    place = column * count + piece
                    twice |= kinds[place] != ABSENT
                    kinds[place], froms[place], tos[place] = kind, begin, end
            at, expected = _blank(data, at, stop), _NEXT
            if depth == 0:
                if at == stop:
                    states[piece] = KEY_TWICE if twice else GOOD
                break


@njit(cache=True, nogil=True)
def elements(data_of, starts, stops, count, froms, tos, owners):
    """Begin and end of each element of arrays, white space included; how many there are, where only that is asked.

    Quotes and brackets alone are looked at: whether an element is JSON is for `locate` to say. -1 where they are not
    balanced.
    """
    data, data_size, size = pointer(data_of), len(data_of), 0
    for piece in range(len(starts)):
        depth, begin, at, stop = 0, starts[piece] + 1, starts[piece] + 1, stops[piece] - 1
        if _blank(data, at, stop) == stop:
            continue
        while at <= stop:
            byte = data[at]
            if byte == 34 and at < stop:
                at, _ = _text(data, at + 1, stop, data_size)
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
def compact_lists(data_of, starts, stops, kinds, good):
    """Good are arrays of texts without escapes and nothing else, no blanks between: they are JSON as we write it."""
    data, size = pointer(data_of), len(data_of)
    for piece in range(len(starts)):
        at, stop, good[piece] = starts[piece] + 1, stops[piece], False
        if kinds[piece] != ARRAY:
            continue
        if at + 1 == stop:
            good[piece] = True
        while at < stop and data[at] == 34:
            end, escaped = _text(data, at + 1, stop, size)
            if end < 0 or escaped or end + 2 > stop:
                break
            at = end + 2
            if data[end + 1] == 93 and at == stop:
                good[piece] = True
            if data[end + 1] != 44:
                break

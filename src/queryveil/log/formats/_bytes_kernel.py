"""Bytes, eight at a time (Numba): what kernels of formats share. No strings: arrays, begins and ends.

A word is eight bytes as one number, the first of them the lowest, wherever they lie in memory. Marks are words in which
the high bit of a byte says something about that byte, exact up to the first that is marked.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

ABSENT, TEXT, ESCAPED_TEXT, WHOLE, NUMBER, NULL, BOOLEAN, OBJECT, ARRAY = range(9)
ROOM = 8
"""Bytes that have to be free behind what is written eight at a time."""

_ONES, _HIGHS = np.uint64(0x0101010101010101), np.uint64(0x8080808080808080)
_QUOTES, _SLASHES = np.uint64(34) * _ONES, np.uint64(92) * _ONES
_RETURNS, _BLANKS = np.uint64(13) * _ONES, np.uint64(32) * _ONES
_LETTERS = np.frombuffer(b'""\\\\//b\bf\fn\nr\rt\t', np.uint8)
_DAYS = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
_NAMES_OF_MONTHS = np.frombuffer(b"JanFebMarAprMayJunJulAugSepOctNovDec", np.uint8)


@intrinsic
def pointer(typing: Any, array: Any) -> Any:
    """The bare address of an array, to be read and written by index.

    Numba counts references to an array at every call between compiled functions, and looks for negative indices: with
    a few nanoseconds of work at each place that is most of it. Whoever has the address keeps the array alive, and
    inside of it.
    """

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return context.make_array(signature.args[0])(context, builder, values[0]).data

    return types.CPointer(array.dtype)(array), generate


@intrinsic
def eight(typing: Any, data: Any, at: Any) -> Any:
    """The word that begins at this place of an address."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        place = builder.bitcast(builder.gep(values[0], [values[1]]), ir.IntType(64).as_pointer())
        word = builder.load(place)
        word.align = 1
        return builder.bswap(word) if sys.byteorder == "big" else word

    return types.uint64(data, types.int64), generate


@intrinsic
def put_eight(typing: Any, data: Any, at: Any, word: Any) -> Any:
    """Write a word to this place of an address."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        place = builder.bitcast(builder.gep(values[0], [values[1]]), ir.IntType(64).as_pointer())
        word = builder.bswap(values[2]) if sys.byteorder == "big" else values[2]
        builder.store(word, place, align=1)
        return context.get_dummy_value()

    return types.void(data, types.int64, types.uint64), generate


@intrinsic
def first_mark(typing: Any, marks: Any) -> Any:
    """Which byte of a word is the first that is marked, where one is."""

    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        zeros = builder.cttz(values[0], ir.Constant(ir.IntType(1), 1))
        return builder.lshr(zeros, ir.Constant(ir.IntType(64), 3))

    return types.int64(types.uint64), generate


@njit(cache=True, nogil=True, inline="always")
def _zeros(word):
    return (word - _ONES) & ~word & _HIGHS


@njit(cache=True, nogil=True, inline="always")
def ends_of_text(word):
    """Marks of quotes, backslashes and control characters."""
    return _zeros(word ^ _QUOTES) | _zeros(word ^ _SLASHES) | ((word - _BLANKS) & ~word & _HIGHS)


@njit(cache=True, nogil=True)
def hex_digit(digit):
    """The number that a hexadecimal digit stands for, or -1."""
    if 48 <= digit <= 57:
        return np.int64(digit) - 48
    return np.int64(digit | 32) - 87 if 97 <= (digit | 32) <= 102 else np.int64(-1)


@njit(cache=True, nogil=True)
def _hex(data, at):
    """The number that four hexadecimal digits say, or -1."""
    value = 0
    for place in range(at, at + 4):
        digit = hex_digit(data[place])
        if digit < 0:
            return -1
        value = value * 16 + digit
    return value


@njit(cache=True, nogil=True)
def character(data, at, stop):
    """What the escape of JSON at a backslash says, and where it ends; -1 where it is none."""
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
def put_character(out, size, value):
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
def copy_texts(data_of, starts, stops, kinds, wanted, out_of, ends, made):
    """The texts of wanted kinds one after the other, their escapes read, a line feed after each; how long that is.

    Made are texts, escaped ones where there are line ends inside, and what is absent. Behind them, `ROOM` is needed.
    """
    data_size, data, out = len(data_of), pointer(data_of), pointer(out_of)
    size = 0
    for piece in range(len(starts)):
        at, stop, kind = starts[piece], stops[piece], kinds[piece]
        made[piece] = ABSENT
        if wanted[kind]:
            broken = False
            if kind != ESCAPED_TEXT:
                while at < stop and at + 8 <= data_size:
                    word = eight(data, at)
                    put_eight(out, size, word)
                    step = min(np.int64(8), stop - at)
                    returns = _zeros(word ^ _RETURNS)
                    broken |= returns != 0 and first_mark(returns) < step
                    at, size = at + step, size + step
            while at < stop:
                byte = data[at]
                if byte == 92 and kind == ESCAPED_TEXT:
                    value, at = character(data, at, stop)
                    size = put_character(out, size, value)
                    broken |= value == 10 or value == 13
                else:
                    out[size] = byte
                    broken |= byte == 13
                    size, at = size + 1, at + 1
            made[piece] = ESCAPED_TEXT if broken else TEXT
        ends[piece] = size
        out[size] = 10
        size += 1
    return size


@njit(cache=True, nogil=True)
def digits(data, at, stop):
    """Where the decimal digits end that begin here."""
    while at < stop and 48 <= data[at] <= 57:
        at += 1
    return at


@njit(cache=True, nogil=True)
def whole_numbers(data_of, starts, stops, kinds, wanted, values, known):
    """The numbers that digits say, up to eighteen of them; not known is anything else."""
    data = pointer(data_of)
    for piece in range(len(starts)):
        at, stop = starts[piece], stops[piece]
        known[piece] = False
        if wanted[kinds[piece]] and at < stop <= at + 18 and digits(data, at, stop) == stop:
            values[piece], known[piece] = number(data, at, stop - at), True


@njit(cache=True, nogil=True)
def number(data, at, length):
    """The number that so many digits say, or -1."""
    value = 0
    for place in range(at, at + length):
        if data[place] < 48 or data[place] > 57:
            return -1
        value = value * 10 + data[place] - 48
    return value


@njit(cache=True, nogil=True)
def _moment(year, month, day, hour, minute, second):
    """Seconds since 1970, or less than any year has where there is no such moment in the years 2 to 9998."""
    leap = year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)
    if year < 2 or year > 9998 or month < 1 or month > 12 or hour > 23 or minute > 59 or second > 59:
        return np.int64(-(1 << 62))
    if min(day, hour, minute, second) < 0 or day < 1 or day > _DAYS[month - 1] + (leap and month == 2):
        return np.int64(-(1 << 62))
    # Days since 1970 by Howard Hinnant's `days_from_civil`: years begin in March, so that leap days come last.
    shifted = year - (month <= 2)
    era = shifted // 400
    of_era = shifted - era * 400
    of_year = (153 * (month + (9 if month <= 2 else -3)) + 2) // 5 + day - 1
    days = era * 146097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719468
    return ((days * 24 + hour) * 60 + minute) * 60 + second


@njit(cache=True, nogil=True)
def moments(data_of, starts, stops, kinds, micros, known):
    """Microseconds since 1970 of texts like 2006-03-01T07:17:12.5+01:00; not known are all others, were they times."""
    data = pointer(data_of)
    for piece in range(len(starts)):
        at, stop = starts[piece], stops[piece]
        known[piece] = False
        if kinds[piece] != TEXT or stop - at < 19:
            continue
        if data[at + 4] != 45 or data[at + 7] != 45 or data[at + 13] != 58 or data[at + 16] != 58:
            continue
        if data[at + 10] != 84 and data[at + 10] != 32:
            continue
        year, month, day = number(data, at, 4), number(data, at + 5, 2), number(data, at + 8, 2)
        hour, minute, second = number(data, at + 11, 2), number(data, at + 14, 2), number(data, at + 17, 2)
        seconds = _moment(year, month, day, hour, minute, second)
        at += 19
        fraction = 0
        if at < stop and (data[at] == 46 or data[at] == 44):
            begin = at + 1
            at = digits(data, begin, stop)
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
            hours, minutes = number(data, at + 1, 2), number(data, stop - 2, 2)
            if hours < 0 or minutes < 0:
                continue
            east = (hours * 60 + minutes) * (1 if data[at] == 43 else -1)
            at = stop
        if at == stop and seconds > -(1 << 62):
            micros[piece], known[piece] = (seconds - east * 60) * 1_000_000 + fraction, True


@njit(cache=True, nogil=True)
def clock_times(data_of, starts, stops, kinds, micros, known):
    """The same of texts like 01/Mar/2006:07:17:12 +0100."""
    data = pointer(data_of)
    for piece in range(len(starts)):
        at = starts[piece]
        known[piece] = False
        if kinds[piece] != TEXT or stops[piece] - at != 26 or data[at + 2] != 47 or data[at + 6] != 47:
            continue
        if data[at + 11] != 58 or data[at + 14] != 58 or data[at + 17] != 58 or data[at + 20] != 32:
            continue
        month = 0
        for each in range(12):
            name = 3 * each
            if (
                data[at + 3] == _NAMES_OF_MONTHS[name]
                and data[at + 4] == _NAMES_OF_MONTHS[name + 1]
                and data[at + 5] == _NAMES_OF_MONTHS[name + 2]
            ):
                month = each + 1
                break
        day, year, hour = number(data, at, 2), number(data, at + 7, 4), number(data, at + 12, 2)
        minute, second = number(data, at + 15, 2), number(data, at + 18, 2)
        hours, minutes = number(data, at + 22, 2), number(data, at + 24, 2)
        sign = data[at + 21]
        seconds = _moment(year, month, day, hour, minute, second)
        if (sign != 43 and sign != 45) or hours < 0 or hours > 23 or minutes < 0 or minutes > 59:
            continue
        if seconds > -(1 << 62):
            east = (hours * 60 + minutes) * (1 if sign == 43 else -1)
            micros[piece], known[piece] = (seconds - east * 60) * 1_000_000, True

"""Records as bytes (Numba): kept one behind the other while they wait, and written out as lines of JSON, CSV or AOL.

A record that is held is its user, its text and its category path, one behind the other: `fields` has the place where it
begins and where each of the three ends. Numbers and bytes only; the caller provides room.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from queryveil.log._pointers import copy_bytes, pointer, prefetch, reversed_bytes, set_word

HELD_FIELDS = 4
AHEAD = 8
JSON, CSV, AOL = 0, 1, 2
ROOM = 160
"""Bytes of a line beside its text and its path: names of fields, pseudonym, time, quotes, the line end."""
LONGER = 6
"""Bytes that one byte becomes at most: a control character in JSON."""

_QUOTE, _NEWLINE, _RETURN, _BACKSLASH = 34, 10, 13, 92
_U8 = np.uint64
_DAY, _SECOND = 86_400_000_000, 1_000_000
_PLAIN = np.array([byte >= 32 and byte not in b'"\\' for byte in range(256)])
_SHORT = np.array([{8: 98, 9: 116, 10: 110, 12: 102, 13: 114, 34: 34, 92: 92}.get(byte, 0) for byte in range(256)])
_HEX = np.frombuffer(b"0123456789abcdef", np.uint8)


@njit(cache=True, nogil=True)
def hold(
    users, user_starts, user_stops, texts, text_starts, text_stops, paths, path_starts, path_stops, top, arena, fields
):
    """Keep records behind the byte `top` of the arena; returns where they end."""
    kept, users, texts, paths = pointer(arena), pointer(users), pointer(texts), pointer(paths)
    for i in range(len(user_starts)):
        fields[i, 0] = top
        count = user_stops[i] - user_starts[i]
        copy_bytes(kept, top, users, user_starts[i], count)
        top += count
        fields[i, 1] = top
        count = text_stops[i] - text_starts[i]
        copy_bytes(kept, top, texts, text_starts[i], count)
        top += count
        fields[i, 2] = top
        count = path_stops[i] - path_starts[i]
        copy_bytes(kept, top, paths, path_starts[i], count)
        top += count
        fields[i, 3] = top
    return top


@njit(cache=True, nogil=True)
def keep_only(arena, fields, live, out, kept):
    """Copy the records of these numbers, one behind the other; returns where they end."""
    top, source, target = np.int64(0), pointer(arena), pointer(out)
    for i in range(len(live)):
        begin, end = fields[live[i], 0], fields[live[i], 3]
        copy_bytes(target, top, source, begin, end - begin)
        for j in range(HELD_FIELDS):
            kept[i, j] = fields[live[i], j] - begin + top
        top += end - begin
    return top


@njit(cache=True, nogil=True)
def worth_a_look(data, starts, stops, suspicious):
    """Which texts could be identifying (`queryveil.log.identifying`): all others match none of its patterns.

    These want an @ or a bracket (addresses), seven digits without a letter between, an equals sign (credentials), a
    colon, two full stops or five hyphens (devices); only a percent sign or a character outside ASCII can hide them.
    """
    for i in range(len(starts)):
        digits, hyphens, stops_seen, found = 0, 0, 0, False
        for at in range(starts[i], stops[i]):
            byte = data[at]
            if 97 <= (byte | 32) <= 122:
                digits = 0
            elif 48 <= byte <= 57:
                digits += 1
                found |= digits >= 7
            elif byte != 32:
                hyphens += byte == 45
                stops_seen += byte == 46
                found |= (
                    byte >= 128 or byte == 64 or byte == 40 or byte == 91 or byte == 123 or byte == 60 or byte == 61
                    or byte == 58 or byte == 37
                )  # fmt: skip
        suspicious[i] = found or hyphens >= 5 or stops_seen >= 2


@njit
def _put_digits(out, at, value, count):
    for j in range(count - 1, -1, -1):
        out[at + j] = np.uint8(48 + value % 10)
        value //= 10
    return at + count


@njit
def _hexadecimal(number):
    """The eight digits of a 32-bit number, the first of them in the lowest byte."""
    digits = (number | (number << _U8(16))) & _U8(0x0000FFFF0000FFFF)
    digits = (digits | (digits << _U8(8))) & _U8(0x00FF00FF00FF00FF)
    digits = (digits | (digits << _U8(4))) & _U8(0x0F0F0F0F0F0F0F0F)
    letters = ((digits + _U8(0x0606060606060606)) >> _U8(4)) & _U8(0x0101010101010101)
    return reversed_bytes(digits + _U8(0x3030303030303030) + letters * _U8(39))


@njit
def _put_pseudonym(out, at, number):
    out[at] = 117
    set_word(out, at + 1, _hexadecimal(number >> _U8(32)))
    set_word(out, at + 9, _hexadecimal(number & _U8(0xFFFFFFFF)))
    return at + 17


@njit
def _put_time(out, at, micros, between):
    """As 2006-03-01T07:17:12 with as many decimals as it has: none, 3 or 6."""
    days = micros // _DAY
    of_day = micros - days * _DAY
    # The date of a day by Howard Hinnant's `civil_from_days`: years begin in March, so that leap days come last.
    shifted = days + 719468
    era = shifted // 146097
    of_era = shifted - era * 146097
    year = (of_era - of_era // 1460 + of_era // 36524 - of_era // 146096) // 365
    of_year = of_era - (365 * year + year // 4 - year // 100)
    month = (5 * of_year + 2) // 153
    day = of_year - (153 * month + 2) // 5 + 1
    month = month + 3 if month < 10 else month - 9
    year += era * 400 + (month <= 2)
    at = _put_digits(out, at, year, 4)
    out[at] = 45
    at = _put_digits(out, at + 1, month, 2)
    out[at] = 45
    at = _put_digits(out, at + 1, day, 2)
    out[at] = between
    seconds, rest = of_day // _SECOND, of_day % _SECOND
    at = _put_digits(out, at + 1, seconds // 3600, 2)
    out[at] = 58
    at = _put_digits(out, at + 1, seconds // 60 % 60, 2)
    out[at] = 58
    at = _put_digits(out, at + 1, seconds % 60, 2)
    if rest:
        out[at] = 46
        at = _put_digits(out, at + 1, rest // 1000 if rest % 1000 == 0 else rest, 3 if rest % 1000 == 0 else 6)
    return at


@njit
def _put_json(out, at, data, start, stop):
    """A text between quotes, escaped as RFC 8259 wants it and no further."""
    out[at] = _QUOTE
    at += 1
    plain = start
    for place in range(start, stop):
        byte = data[place]
        if not _PLAIN[byte]:
            copy_bytes(out, at, data, plain, place - plain)
            at += place - plain
            plain = place + 1
            out[at] = _BACKSLASH
            if _SHORT[byte]:
                out[at + 1] = _SHORT[byte]
                at += 2
            else:
                out[at + 1] = 117
                out[at + 2] = out[at + 3] = 48
                out[at + 4] = _HEX[byte >> 4]
                out[at + 5] = _HEX[byte & 15]
                at += 6
    copy_bytes(out, at, data, plain, stop - plain)
    at += stop - plain
    out[at] = _QUOTE
    return at + 1


@njit
def _put_cell(out, at, data, start, stop, separator):
    """A value of CSV, between quotes where it holds a separator, a quote or a line end; no value is nothing."""
    odd = False
    for place in range(start, stop):
        byte = data[place]
        odd |= byte in (separator, _QUOTE, _NEWLINE, _RETURN)
    if not odd:
        copy_bytes(out, at, data, start, stop - start)
        return at + stop - start
    out[at] = _QUOTE
    at += 1
    for place in range(start, stop):
        if data[place] == _QUOTE:
            out[at] = _QUOTE
            at += 1
        out[at] = data[place]
        at += 1
    out[at] = _QUOTE
    return at + 1


@njit
def _cut(data, start, stop, separator, length, levels):
    """Where the first so many levels of a path end."""
    level, at = 0, start
    while at + length <= stop:
        j = 0
        while j < length and data[at + j] == separator[j]:
            j += 1
        if j == length:
            level += 1
            if level == levels:
                return at
            at += length
        else:
            at += 1
    return stop


@njit(cache=True, nogil=True)
def write(
    arena,
    fields,
    handles,
    numbers,
    times,
    no_time,
    unit,
    levels,
    separator,
    kind,
    comma,
    with_time,
    names,
    name_ends,
    out,
    ends,
):
    """Lines of records: pseudonym, text, time and cut path. `ends` tells where each ends, its line feed included.

    `names` are the pieces of JSON before each of the four values, its null, and what stands behind the last value.
    Times are cut to whole units of so many microseconds. Returns how many lines found room in `out`.
    """
    at = np.int64(0)
    made, data, pieces, cut = pointer(out), pointer(arena), pointer(names), pointer(separator)
    length, room = len(separator), len(out)
    user, text_name, time_name, path_name, null = name_ends[0], name_ends[1], name_ends[2], name_ends[3], name_ends[4]
    last_time, time_at, time_size = np.int64(no_time), np.int64(0), np.int64(0)
    rows = pointer(fields)
    for i in range(len(handles)):
        # Records leave in random order: the memory of each is asked for some lines before it is written.
        if i + 2 * AHEAD < len(handles):
            prefetch(rows, np.int64(handles[i + 2 * AHEAD]) * HELD_FIELDS)
            prefetch(data, fields[handles[i + AHEAD], 1])
        record = handles[i]
        text, path = fields[record, 1], fields[record, 2]
        end = _cut(data, path, fields[record, 3], cut, length, levels[i])
        if at + ROOM + LONGER * (end - text) > room:
            return i
        if kind == JSON:
            copy_bytes(made, at, pieces, 0, user)
            at = _put_pseudonym(made, at + user, numbers[i])
            copy_bytes(made, at, pieces, user, text_name - user)
            at = _put_json(made, at + text_name - user, data, text, path)
        else:
            at = _put_pseudonym(made, at, numbers[i])
            made[at] = comma
            if kind == CSV:
                at = _put_cell(made, at + 1, data, text, path, comma)
            else:
                copy_bytes(made, at + 1, data, text, path - text)
                at += 1 + path - text
        if with_time:
            if kind == JSON:
                copy_bytes(made, at, pieces, text_name, time_name - text_name)
                at += time_name - text_name
            else:
                made[at] = comma
                at += 1
            if times[i] == no_time:
                if kind == JSON:
                    copy_bytes(made, at, pieces, path_name, null - path_name)
                    at += null - path_name
            elif last_time != no_time and (times[i] == last_time or 0 <= times[i] - last_time < unit):
                copy_bytes(made, at, made, time_at, time_size)
                at += time_size
            else:
                last_time, time_at = (times[i] // unit * unit if unit else times[i]), at
                if kind == JSON:
                    made[at] = _QUOTE
                    at += 1
                at = _put_time(made, at, last_time, 32 if kind == AOL else 84)
                if kind == JSON:
                    made[at] = _QUOTE
                    at += 1
                time_size = at - time_at
        if kind == JSON:
            copy_bytes(made, at, pieces, time_name, path_name - time_name)
            at += path_name - time_name
            if end > path:
                at = _put_json(made, at, data, path, end)
            else:  # a path whose first levels have no names: an empty value is no value
                copy_bytes(made, at, pieces, path_name, null - path_name)
                at += null - path_name
            copy_bytes(made, at, pieces, null, len(names) - null)
            at += len(names) - null
        elif kind == CSV:
            made[at] = comma
            at = _put_cell(made, at + 1, data, path, end, comma)
        else:
            made[at] = made[at + 1] = comma
            at += 2
        made[at] = _NEWLINE
        at += 1
        ends[i] = at
    return len(handles)

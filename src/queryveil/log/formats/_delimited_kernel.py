"""Where the cells of lines without quotes stand (Numba). No strings: bytes, begins and ends."""

from __future__ import annotations

import numpy as np
from numba import njit

from queryveil.log._pointers import first_one, pointer, word_at

_LOW_BITS = np.uint64(0x7F7F7F7F7F7F7F7F)
_EACH = np.uint64(0x0101010101010101)
_NEWLINES = np.uint64(0x0A0A0A0A0A0A0A0A)
_ONE, _ZERO = np.uint64(1), np.uint64(0)


@njit
def _equal_bytes(word, pattern):
    """The highest bit of each byte that is the same in both words."""
    differs = word ^ pattern
    return ~(((differs & _LOW_BITS) + _LOW_BITS) | differs | _LOW_BITS)


@njit(cache=True, nogil=True)
def cut(data, separator, needed, is_read, longest, starts, ends, cells):
    """Begin of each line and end of each of its first cells; how many cells it has, 0 for a blank line.

    As many ends are kept as `needed` has places; it says which cells must hold something. The sign of `cells` is minus
    where such a one is empty, or a cell that is read is longer than `longest`. The data ends with a line feed.
    """
    separators = np.uint64(separator) * _EACH
    bytes_, width, size = pointer(data), len(needed), len(data)
    line, cell, begin, lacks = 0, 0, np.int64(0), False
    starts[0] = 0
    at = np.int64(0)
    while at < size:
        if at + 8 <= size:
            word = word_at(bytes_, at)
            marks = _equal_bytes(word, separators) | _equal_bytes(word, _NEWLINES)
        else:
            marks = _ZERO
            for place in range(size - at):
                if data[at + place] == separator or data[at + place] == 10:
                    marks |= np.uint64(0x80) << np.uint64(8 * place)
        while marks != _ZERO:
            end = at + (first_one(marks) >> 3)
            marks &= marks - _ONE
            if cell < width:
                ends[cell, line] = end
                lacks |= (is_read[cell] and end - begin > longest) or (needed[cell] and end == begin)
            cell += 1
            if bytes_[end] == 10:
                if end == starts[line]:
                    cells[line] = 0
                else:
                    cells[line] = -cell if lacks else cell
                line += 1
                if line < len(starts):
                    starts[line] = end + 1
                cell, lacks = 0, False
            begin = end + 1
        at += 8

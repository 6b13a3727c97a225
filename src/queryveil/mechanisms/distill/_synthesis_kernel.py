"""Draw words of queries, and how users search, from arrays (Numba). All randomness comes in as an array."""

from __future__ import annotations

import numpy as np
from numba import njit

PRIOR, PAIRS, WORDS, COARSE, FINE = range(5)
WORDS_A_DRAW = 3
NOTHING = -1


@njit(cache=True, inline="always")
def _uniform(word):
    return float(word >> np.uint64(11)) * 2.0**-53


@njit(cache=True, inline="always")
def _place(upper, begin, end, wanted):
    """The first place in [begin, end) whose running sum exceeds `wanted`, or the last."""
    low, high = begin, end - 1
    while low < high:
        middle = (low + high) // 2
        if upper[middle] > wanted:
            high = middle
        else:
            low = middle + 1
    return low


@njit(cache=True, nogil=True)
def draw_words(
    random, lengths, begins, start, mixture, prior, raked, order, coarse, coarse_start, fine, fine_start, class_before,
    pairs_start, pairs_upper, pairs_second, shown_start, shown_upper, shown_second, shown_weight, own, own_share, out,
):  # fmt: skip
    """Fill `out` (queries × most words) with numbers of words, `NOTHING` behind the last.

    `raked` are running sums over words in `order`, in which every class lies together; `coarse` and `fine` running sums
    over classes for each class before. `begins` is what stands before each query's first word, usually `start`; numbers
    behind `start` are words outside the vocabulary, drawn by the running sums `own`.
    """
    position = 0
    for query in range(len(lengths)):
        before = begins[query]
        for place in range(out.shape[1]):
            if place >= lengths[query]:
                out[query, place] = NOTHING
                continue
            which = _uniform(random[position])
            inner = _uniform(random[position + 1])
            last = _uniform(random[position + 2])
            position += WORDS_A_DRAW
            outside = own_share[class_before[before]]
            if last < outside:
                out[query, place] = start + 1 + _place(own, 0, len(own), inner * own[-1])
                before = start - 1
                continue
            last = (last - outside) / (1 - outside)
            if inner < shown_weight[before]:
                begin, end = shown_start[before], shown_start[before + 1]
                word = shown_second[_place(shown_upper, begin, end, last)]
            else:
                part = _place(mixture, 0, len(mixture), which)
                if part == PAIRS:
                    begin, end = pairs_start[before], pairs_start[before + 1]
                    if begin < end:
                        word = pairs_second[_place(pairs_upper, begin, end, last)]
                    else:
                        part = COARSE
                if part == PRIOR:
                    word = _place(prior, 0, len(prior), last * prior[-1])
                elif part == WORDS:
                    word = order[_place(raked, 0, len(raked), last * raked[-1])]
                elif part in (COARSE, FINE):
                    row = class_before[before]
                    # `inner` is uniform above the weight of published pairs; stretched, it is uniform from 0 to 1
                    again = (inner - shown_weight[before]) / (1 - shown_weight[before])
                    if part == COARSE:
                        chosen = _place(coarse[row], 0, coarse.shape[1], again * coarse[row, -1])
                        begin, end = coarse_start[chosen], coarse_start[chosen + 1]
                    else:
                        chosen = _place(fine[row], 0, fine.shape[1], again * fine[row, -1])
                        begin, end = fine_start[chosen], fine_start[chosen + 1]
                    low = raked[begin - 1] if begin > 0 else 0.0
                    word = order[_place(raked, begin, end, low + last * (raked[end - 1] - low))]
            out[query, place] = word
            before = word


@njit(cache=True, nogil=True)
def lay_out_sessions(random, records, session_upper, session):
    """Cut every user's records into sessions; `session` gets the number of each record's session, and how many."""
    position = 0
    record = 0
    number = -1
    for user in range(len(records)):
        left = records[user]
        while left > 0:
            length = _place(session_upper, 0, len(session_upper), _uniform(random[position])) + 1
            position += 1
            number += 1
            for _ in range(min(length, left)):
                session[record] = number
                record += 1
            left -= length
    return number + 1

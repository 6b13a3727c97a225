"""Picking records for the shared logs (Numba): reads random words it is handed; the tests hold a slow twin."""

from __future__ import annotations

import numpy as np
from numba import njit

LARGEST_WORD = np.uint64(0xFFFFFFFFFFFFFFFF)
ONE = np.uint64(1)
USER, PAIR, ADDED, WRITTEN = 0, 1, 2, 3


@njit(cache=True, nogil=True)
def pick(words, offsets, counts, tops, bottoms, quota_tops, quota_bottoms, progress, out_pairs, out_copies):
    """Algorithm 5 for every user: walk the list of texts, most repeated first, until the quota is met.

    A text asked `count` times is added ⌊p · count⌋ times and once more with the fractional probability, p being
    `tops / bottoms`; the quota is `quota_tops / quota_bottoms`. The walk ends with the list at the latest. Stops when
    the words run out (`progress` says where to go on with more of them); draws are exact, by rejection. True when all
    is done.
    """
    users = len(offsets) - 1
    user, pair, added, written = progress[USER], progress[PAIR], progress[ADDED], progress[WRITTEN]
    used = 0
    while user < users:
        met = added * quota_bottoms[user] >= quota_tops[user]
        if met or pair == offsets[user + 1]:
            user += 1
            pair = offsets[min(user, users)]
            added = 0
            continue
        share = tops[user] * counts[pair]
        copies = share // bottoms[user]
        rest = np.uint64(share % bottoms[user])
        if rest > 0:
            bottom = np.uint64(bottoms[user])
            fair = LARGEST_WORD - (LARGEST_WORD % bottom + ONE) % bottom  # a multiple of bottom, less one
            while used < len(words) and words[used] > fair:
                used += 1
            if used == len(words):
                break
            if words[used] % bottom < rest:
                copies += 1
            used += 1
        if copies > 0:
            out_pairs[written] = pair
            out_copies[written] = copies
            written += 1
            added += copies
        pair += 1
    progress[USER], progress[PAIR], progress[ADDED], progress[WRITTEN] = user, pair, added, written
    return user == users

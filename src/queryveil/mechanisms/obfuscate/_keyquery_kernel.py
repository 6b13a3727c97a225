"""Scores many short queries on one small index: how well each ranks a few target texts. No strings, no randomness."""

from __future__ import annotations

import math

import numba
import numpy as np

from queryveil.arrays import Array


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def score_candidates(
    candidates: Array,
    offsets: Array,
    texts: Array,
    weights: Array,
    targets: Array,
    drop_up_to: int,
    scores: Array,
    touched: Array,
) -> Array:
    """The discounted gain of each candidate (row of term numbers, −1 for none) on the targets.

    0 where a candidate finds `drop_up_to` texts or fewer. `scores` (zeros, one per text) and `touched` (room for one
    number per text) are scratch and come back clean.
    """
    gains = np.zeros(len(candidates))
    for row in range(len(candidates)):
        reached = 0
        for term in candidates[row]:
            if term < 0:
                continue
            for i in range(offsets[term], offsets[term + 1]):
                if scores[texts[i]] == 0.0:
                    touched[reached] = texts[i]
                    reached += 1
                scores[texts[i]] += weights[i]
        if reached > drop_up_to:
            for target in targets:
                mine = scores[target]
                if mine > 0.0:
                    rank = 1
                    for i in range(reached):
                        other = scores[touched[i]]
                        if other > mine or (other == mine and touched[i] < target):
                            rank += 1
                    gains[row] += 1.0 / math.log2(rank + 1.0)
        for i in range(reached):
            scores[touched[i]] = 0.0
    return gains

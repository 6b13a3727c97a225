"""Scores of people for rows of terms (Numba): the best of everybody by an inverted index, and given pairs."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def best_candidates(row_starts, row_terms, row_weights, starts, people, weights, prior, draws, best):
    """For each row the person with the largest Σ over its terms of row weight · the person's weight, plus their prior.

    `people[starts[t]:starts[t + 1]]` hold term t, with `weights`, which are never below 0. Ties are broken by a number
    from 0 to 1 for each row.
    """
    total = prior.copy()
    touched = np.empty(len(prior), np.int64)
    seen = np.zeros(len(prior), np.bool_)
    first = prior.max() if len(prior) else 0.0
    for i in range(len(row_starts) - 1):
        count = 0
        for place in range(row_starts[i], row_starts[i + 1]):
            term, weight = row_terms[place], row_weights[place]
            for entry in range(starts[term], starts[term + 1]):
                person = people[entry]
                if not seen[person]:
                    seen[person] = True
                    touched[count] = person
                    count += 1
                total[person] += weight * weights[entry]
        top = first
        for j in range(count):
            top = max(top, total[touched[j]])
        near = top - 1e-9 * max(1.0, abs(top))
        by_terms = top > first  # else the prior decides alone
        among = count if by_terms else len(prior)
        ties = 0
        for j in range(among):
            ties += total[touched[j] if by_terms else j] >= near
        pick = int(draws[i] * ties)
        for j in range(among):
            person = touched[j] if by_terms else j
            if total[person] >= near:
                if pick == 0:
                    best[i] = person
                    break
                pick -= 1
        for j in range(count):
            total[touched[j]] = prior[touched[j]]
            seen[touched[j]] = False


@njit(cache=True, nogil=True)
def pair_scores(row_starts, row_terms, row_weights, starts, terms, weights, rows, people, scores):
    """For each pair of a row and a person Σ over the terms they share; terms are sorted on both sides."""
    for i in range(len(rows)):
        a, a_end = row_starts[rows[i]], row_starts[rows[i] + 1]
        b, b_end = starts[people[i]], starts[people[i] + 1]
        total = 0.0
        while a < a_end and b < b_end:
            if row_terms[a] == terms[b]:
                total += row_weights[a] * weights[b]
                a += 1
                b += 1
            elif row_terms[a] < terms[b]:
                a += 1
            else:
                b += 1
        scores[i] = total

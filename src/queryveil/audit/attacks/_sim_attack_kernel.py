"""SimAttack's scores of everybody for a query (Numba)."""

from __future__ import annotations

import numpy as np
from numba import njit

KEPT = 8
"""Of a person's similarities the largest so many count: the weight of the next is below 0.2^8."""


@njit(cache=True, nogil=True)
def most_similar(row_starts, row_words, starts, queries, person_of, lengths, alpha, draws, best):
    """For each row of words the person with the best smoothed similarity; −1 where nobody shares a word.

    `queries[starts[w]:starts[w + 1]]` are the past queries that hold word w; a query has a person and a number of
    words. Similarity is Dice's coefficient; a person's similarities, the largest first, weigh α, α(1 − α), α(1 − α)² …
    """
    people = person_of.max() + 1 if len(person_of) else 0
    shared = np.zeros(len(person_of), np.int32)
    top = np.zeros((people, KEPT))
    touched = np.empty(len(person_of), np.int64)
    met = np.empty(people, np.int64)
    seen = np.zeros(people, np.bool_)
    for i in range(len(row_starts) - 1):
        count = 0
        for place in range(row_starts[i], row_starts[i + 1]):
            word = row_words[place]
            for entry in range(starts[word], starts[word + 1]):
                query = queries[entry]
                if shared[query] == 0:
                    touched[count] = query
                    count += 1
                shared[query] += 1
        size = row_starts[i + 1] - row_starts[i]
        candidates = 0
        for j in range(count):
            query = touched[j]
            person = person_of[query]
            likeness = 2.0 * shared[query] / (size + lengths[query])
            shared[query] = 0
            if not seen[person]:
                seen[person] = True
                met[candidates] = person
                candidates += 1
            for slot in range(KEPT):  # largest first
                if likeness > top[person, slot]:
                    likeness, top[person, slot] = top[person, slot], likeness
        first, ties = 0.0, 0
        for j in range(candidates):
            person, score, weight = met[j], 0.0, alpha
            for slot in range(KEPT):
                score += weight * top[person, slot]
                weight *= 1.0 - alpha
                top[person, slot] = 0.0
            seen[person] = False
            top[person, 0] = score
            if score > first + 1e-12:
                first, ties = score, 0
            ties += score >= first - 1e-12
        pick = int(draws[i] * ties)
        for j in range(candidates):
            person = met[j]
            if top[person, 0] >= first - 1e-12:
                if pick == 0:
                    best[i] = person
                pick -= 1
            top[person, 0] = 0.0

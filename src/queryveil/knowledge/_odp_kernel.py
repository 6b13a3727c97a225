"""Scores categories for many queries: adds up posting weights and keeps the best few. No strings, no objects."""

from __future__ import annotations

import numba
import numpy as np

from queryveil.knowledge._arrays import Array


@numba.njit(cache=True, nogil=True)  # type: ignore[untyped-decorator]
def best_categories(
    query_offsets: Array,
    query_terms: Array,
    posting_offsets: Array,
    posting_categories: Array,
    posting_weights: Array,
    documents: Array,
    at_most: int,
    scores: Array,
    touched: Array,
    best: Array,
    found: Array,
) -> None:
    """Fill best[q, :found[q]] with the categories of query q: by score, then documents, then number.

    `scores` (zeros, one per category) and `touched` (room for one number per category) are scratch and come back clean.
    """
    for q in range(len(query_offsets) - 1):
        reached = 0
        for i in range(query_offsets[q], query_offsets[q + 1]):
            term = query_terms[i]
            for j in range(posting_offsets[term], posting_offsets[term + 1]):
                category = posting_categories[j]
                if scores[category] == 0.0:
                    touched[reached] = category
                    reached += 1
                scores[category] += posting_weights[j]
        kept = 0
        for t in range(reached):
            category = touched[t]
            place = kept
            while place > 0:
                other = best[q, place - 1]
                if scores[category] < scores[other]:
                    break
                if scores[category] == scores[other] and (
                    documents[category] < documents[other]
                    or (documents[category] == documents[other] and category > other)
                ):
                    break
                place -= 1
            if place < at_most:
                for move in range(min(kept, at_most - 1), place, -1):
                    best[q, move] = best[q, move - 1]
                best[q, place] = category
                kept = min(kept + 1, at_most)
        found[q] = kept
        for t in range(reached):
            scores[touched[t]] = 0.0


def room(queries: int, categories: int, at_most: int) -> tuple[Array, Array, Array, Array]:
    """Scratch and result arrays for `best_categories`."""
    return (
        np.zeros(categories),
        np.empty(categories, np.int32),
        np.full((queries, at_most), -1, np.int32),
        np.zeros(queries, np.int32),
    )

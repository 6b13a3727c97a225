"""HBDP, the baseline of the paper: noise on how often each user asked each concept, in place of changing queries.

Sánchez et al. (2018), section 4: every user's log becomes a histogram over all concepts of the domain; every bin, empty
ones too, gets two-sided geometric noise with α = e^(−ε/Δ). The published log holds each concept as often as its noisy
count says; a negative count counts as 0 (the paper leaves that open).

Δ is the L1 distance of two users' histograms. The paper takes the largest number of queries of any user *in the data*
and adding one user as the change; safe mode takes the public maximum, and twice of it, because one log is replaced by
another.

Cost: one random number for every user and concept. It floods the log with concepts nobody asked, which is the point the
paper makes.

>>> round(zero_probability(Fraction(1, 100)), 9), round(noise_variance(Fraction(1, 100)), 4)
(0.004999958, 19999.8333)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np
import polars as pl

from queryveil.arrays import Array
from queryveil.errors import RefusedError
from queryveil.mechanisms.semantic.domain import Domain
from queryveil.privacy.noise import NoiseStream

CELLS_AT_ONCE = 1 << 22
MOST_RECORDS = 50_000_000


def zero_probability(rate: Fraction) -> float:
    """P(noise = 0) = (1 − α) / (1 + α) for α = e^−rate, rate = ε/Δ."""
    return math.tanh(float(rate) / 2)


def noise_variance(rate: Fraction) -> float:
    """2α / (1 − α)²."""
    return 1 / (2 * math.sinh(float(rate) / 2) ** 2)


def expected_surplus(rate: Fraction) -> float:
    """The mean count that an empty bin shows after negative ones became 0: α / (1 − α²)."""
    return 1 / (2 * math.sinh(float(rate)))


def check_size(users: int, concepts: int, rate: Fraction) -> None:
    """Refuse what would write more records than anybody can read back."""
    per_user = concepts * expected_surplus(rate)
    if users * per_user > MOST_RECORDS:
        raise RefusedError(
            f"hbdp with this noise over {concepts:,} concepts writes about {per_user:,.0f} records for every user, "
            f"over {MOST_RECORDS:,} in all. Name a smaller domain, or use another criterion."
        )


def noisy_counts(
    users: Array, concepts: Array, user_count: int, concept_count: int, rate: Fraction, stream: NoiseStream
) -> Iterator[tuple[int, Array]]:
    """Blocks of users: the number of the first, and one row of noisy counts ≥ 0 for each of them."""
    order = np.argsort(users, kind="stable")
    edges = np.searchsorted(users[order], np.arange(user_count + 1))
    block = max(1, CELLS_AT_ONCE // concept_count)
    for first in range(0, user_count, block):
        last = min(first + block, user_count)
        own = order[edges[first] : edges[last]]
        cells = (users[own].astype(np.int64) - first) * concept_count + concepts[own]
        true = np.bincount(cells, minlength=(last - first) * concept_count)
        noisy = true + stream.discrete_laplace(1 / rate, len(true))
        yield first, np.maximum(noisy, 0).reshape(last - first, concept_count)


def noisy_rows(
    users: pl.Series, who: Array, concepts: Array, domain: Domain, rate: Fraction, stream: NoiseStream
) -> pl.DataFrame:
    """Records for every noisy count: columns user, query, time (null)."""
    blocks = []
    for first, counts in noisy_counts(who, concepts, len(users), len(domain), rate, stream):
        row, concept = np.nonzero(counts)
        times = counts[row, concept]
        blocks.append((np.repeat(row + first, times), np.repeat(concept, times)))
    rows = np.concatenate([block[0] for block in blocks]) if blocks else np.empty(0, np.int64)
    drawn = np.concatenate([block[1] for block in blocks]) if blocks else np.empty(0, np.int64)
    return pl.DataFrame(
        {
            "user": users.gather(rows),
            "query": domain.texts(drawn),
            "time": pl.Series([None] * len(rows), dtype=pl.Datetime("us")),
        }
    )

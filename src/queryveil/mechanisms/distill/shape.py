"""How much, when and in which steps people search: small noisy tables beside what is usual.

Where a table says nothing (a log without times, few people) what is usual stays. The usual shares are round numbers of
what the literature reports of web search logs (Jansen, Spink and Saracevic 2000; Silverstein et al. 1999).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from queryveil.arrays import Floats
from queryveil.mechanisms.distill.budget import (
    CLASSES,
    FOLLOW_LENGTHS,
    FOLLOWS,
    GAP_BUCKETS,
    HOURS,
    LENGTHS,
    RANKS,
    RECORD_BUCKETS,
    SESSION_LENGTHS,
    UNIT,
)
from queryveil.mechanisms.distill.estimation import histogram, usually_off
from queryveil.mechanisms.distill.tables import NoisyTables


def _falling(cells: int, factor: float) -> Floats:
    shares: Floats = factor ** np.arange(cells, dtype=np.float64)
    return np.asarray(shares / shares.sum())


def _usual_lengths() -> Floats:
    shares = np.append(np.array([0.2, 0.28, 0.23, 0.13]), 0.16 * _falling(LENGTHS - 4, 0.55))
    return np.asarray(shares / shares.sum())


def _usual_hours() -> Floats:
    day = 1 + 0.7 * np.sin((np.arange(24) - 9) / 24 * 2 * np.pi)
    return np.tile(day / day.sum(), HOURS // 24) / (HOURS // 24)


def _usual_ranks() -> Floats:
    return np.append([0.45], 0.55 * _falling(RANKS - 1, 0.7))


def _usual_follows() -> Floats:
    kinds = np.array([0.15, 0.12, 0.06, 0.22, 0.45])
    lengths = _falling(FOLLOW_LENGTHS, 0.7)
    return (kinds[:, None] * lengths[None, :]).ravel()


USUAL: dict[str, Floats] = {
    "lengths": _usual_lengths(),
    "query_kinds": np.array([0.09, 0.02, 0.03, 0.03, 0.83]),
    "session_lengths": _falling(SESSION_LENGTHS, 0.6),
    "records": _falling(RECORD_BUCKETS, 0.6),
    "gaps": np.full(GAP_BUCKETS, 1 / GAP_BUCKETS),
    "hours": _usual_hours(),
    "ranks": _usual_ranks(),
    "follows": _usual_follows(),
}


@dataclass(frozen=True)
class Shape:
    """Shares of the cells of each small table."""

    lengths: Floats
    query_kinds: Floats
    """The shares of `known_queries.KINDS`."""
    session_lengths: Floats
    records: Floats
    gaps: Floats
    hours: Floats
    ranks: Floats
    follows: Floats
    """Rows by how a query follows the one before, columns by its length."""
    people: int
    """The noisy number of people, at least 1."""

    @classmethod
    def of(cls, tables: NoisyTables) -> Shape:
        """Estimate all of it."""
        shares = {name: share_of(tables, name) for name in USUAL}
        shares["follows"] = shares["follows"].reshape(len(FOLLOWS), FOLLOW_LENGTHS)
        return cls(**shares, people=max(1, round(int(tables.cells["users"][0]) / UNIT)))

    @property
    def words_in_query(self) -> float:
        """The mean number of words."""
        return float(self.lengths @ np.arange(1, LENGTHS + 1))


def share_of(tables: NoisyTables, name: str) -> Floats:
    """The shares of one small table's cells."""
    noisy, usual, sigma = tables.cells[name], USUAL[name], tables.budget.sigmas[name]
    # What is usual is known well of lengths alone: how far to believe it there, the table says.
    tau = usually_off(noisy, usual, sigma=sigma) if name == "lengths" else 1.0
    return histogram(noisy, usual, sigma=sigma, tau=tau)


def interests(tables: NoisyTables, mass: Floats) -> Floats:
    """Directions in which people's interests vary, one a column, as long as the variation is.

    The noisy mean of h·hᵀ, less what the mean interest makes, symmetric, cut to what exceeds the noise: the largest
    eigenvalue of symmetric noise is about σ√(2·classes) (Wigner).
    """
    people = max(float(tables.cells["users"][0]), float(tables.budget.sigmas["users"]))
    noisy = tables.cells["people"].reshape(CLASSES[0], CLASSES[0]) / people
    symmetric = (noisy + noisy.T) / 2
    mean = np.sqrt(np.maximum(np.diag(symmetric), 0))
    mean = mean if mean.any() else np.sqrt(mass)
    mean = mean / np.linalg.norm(mean)
    strength = float(mean @ symmetric @ mean)
    values, vectors = np.linalg.eigh(symmetric - strength * np.outer(mean, mean))
    noise = tables.budget.sigmas["people"] / people * np.sqrt(2 * CLASSES[0])
    kept = values > noise
    directions: Floats = vectors[:, kept] * np.sqrt(values[kept] - noise)
    return directions


def successions(tables: NoisyTables, mass: Floats) -> Floats:
    """P(topic | topic before) within a session, a row for each topic before."""
    noisy = tables.cells["successions"].reshape(CLASSES[0], CLASSES[0])
    sigma = tables.budget.sigmas["successions"]
    rows = [histogram(row, mass, sigma=sigma) for row in noisy]
    made: Floats = np.array(rows)
    return made

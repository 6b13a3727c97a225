"""Groups to compare the semantic partition with, and what is measured on any groups.

MDAV (Domingo-Ferrer and Mateo-Sanz 2002, "Practical data-oriented microaggregation for statistical disclosure
control") groups the k users nearest to the one farthest from the average, then those nearest to the one farthest from
that one, by Euclidean distance. Cost: n/k passes over the sparse matrix.

>>> sorted(np.bincount(random_groups(7, 3, Noise.seeded(1))).tolist())
[3, 4]
>>> profiles = Profiles(np.array([0, 1, 2, 3, 4]), np.array([5, 6, 6, 5], np.int32), np.ones(4, np.int32), 7)
>>> greedy_in_blocks(profiles, 2, users_per_block=4).tolist()
[0, 1, 1, 0]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
from scipy import sparse

from queryveil.arrays import Floats, Ints
from queryveil.log.query_log import LocalTable
from queryveil.mechanisms.microaggregate import partition
from queryveil.mechanisms.microaggregate.aggregation import paper_copies
from queryveil.mechanisms.microaggregate.grouping import SIZE, TOTAL, search_in_blocks
from queryveil.mechanisms.microaggregate.profiles import CountedLog, Profiles
from queryveil.privacy import Noise
from queryveil.privacy.noise import NoiseStream


def random_groups(users: int, k: int, noise: Noise) -> Ints:
    """Groups of k users drawn at random; those left over join groups at random, sizes stay below 2k."""
    groups = np.empty(users, np.int32)
    whole = users // k
    places = np.arange(users) // k
    stream = noise.stream("microaggregate: random groups")
    places[whole * k :] = stream.permutation(max(whole, 1))[np.arange(users - whole * k) % max(whole, 1)]
    groups[stream.permutation(users)] = places
    return groups


def mdav_groups(profiles: Profiles, k: int) -> Ints:
    """MDAV's groups; the last one takes all that are left, so sizes are k to 2k − 1 (fewer than k users: one group)."""
    shape = (len(profiles), profiles.node_count)
    matrix = sparse.csr_matrix((profiles.counts.astype(np.float64), profiles.nodes, profiles.offsets), shape)
    lengths = np.asarray(matrix.multiply(matrix).sum(axis=1)).ravel()
    groups = np.full(len(profiles), -1, np.int32)
    made = 0
    while (left := np.flatnonzero(groups < 0)).size >= 2 * k:
        average = np.asarray(matrix[left].mean(axis=0)).ravel()
        centre = left[np.argmax(_distances(matrix, lengths, left, average))]
        for _ in range(2 if left.size >= 3 * k else 1):
            left = np.flatnonzero(groups < 0)
            distances = _distances(matrix, lengths, left, matrix[[centre]].toarray().ravel())
            distances[left == centre] = -np.inf  # the centre itself, also where others coincide with it
            nearest = np.argsort(distances, kind="stable")
            groups[left[nearest[:k]]] = made
            made += 1
            centre = left[nearest[-1]]
    groups[left] = made
    return groups


def _distances(
    matrix: sparse.csr_matrix,
    lengths: Floats,
    rows: npt.NDArray[np.integer],
    point: Floats,
) -> Floats:
    """Squared Euclidean distances of rows to a point, less the point's own length, which changes no comparison."""
    return np.asarray(lengths[rows] - 2 * (matrix[rows] @ point))


def greedy_in_blocks(profiles: Profiles, k: int, *, users_per_block: int = partition.USERS_PER_BLOCK) -> Ints:
    """The search in blocks for profiles that are at hand, to measure it."""
    users, totals = pl.Series("user", np.arange(len(profiles)).astype(str), dtype=pl.String), profiles.totals()
    people = pl.DataFrame({"user": users, SIZE: totals, TOTAL: totals})
    table = LocalTable(pl.concat([people, profiles.frame()], how="horizontal"), 1 + len(profiles) // users_per_block)
    return search_in_blocks(table, users, totals, k, users_per_block, profiles.node_count)


@dataclass(frozen=True)
class SharedLogs:
    """The logs of all groups: group, text, who supplied it and how often; sorted by group, then text."""

    groups: Ints
    texts: Ints
    owners: Ints
    copies: Ints


def paper_logs(log: CountedLog, groups: Ints, stream: NoiseStream) -> SharedLogs:
    """The shared logs of any groups as the paper makes them, to measure how good the groups are."""
    grouped = groups >= 0
    of_group = np.where(grouped, groups, groups.max(initial=-1) + 1)  # a last one for those without
    members = np.where(grouped, np.bincount(of_group)[of_group], 0)
    records = np.bincount(of_group, log.sizes())[of_group].astype(np.int64)
    copies = paper_copies(log, records, members, stream)
    chosen = np.flatnonzero(copies)
    chosen = chosen[np.lexsort((log.pair_users[chosen], log.pair_texts[chosen], groups[log.pair_users[chosen]]))]
    owners, texts = log.pair_users[chosen], log.pair_texts[chosen]
    return SharedLogs(groups[owners], texts, owners, copies[chosen].astype(np.int32))

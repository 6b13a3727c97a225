"""What the semantic partition is compared with: random groups, and MDAV on the category vectors.

MDAV (Domingo-Ferrer and Mateo-Sanz 2002, "Practical data-oriented microaggregation for statistical disclosure
control") groups the k users nearest to the one farthest from the average, then those nearest to the one farthest from
that one, by Euclidean distance. Cost: n/k passes over the sparse matrix.

>>> sorted(np.bincount(random_groups(7, 3, Noise.seeded(1))).tolist())
[3, 4]
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy import sparse

from queryveil.arrays import Floats, Ints
from queryveil.mechanisms.microaggregate.profiles import Profiles
from queryveil.privacy import Noise


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

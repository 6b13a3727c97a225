"""Who shares a log with whom: groups of at least k users with much in common (Algorithms 2 to 4 of Erola et al. 2011).

`greedy` is the paper's search with the errors of its print corrected: similarity is the multiset intersection over all
levels (equation 1 prints a union), the loop runs while at least k users are left (printed: at most k), the diagonal is
no pair, and a growing group is compared by the sum of its members' rows. It is exact and never holds the n × n matrix
the paper builds: each user remembers their best partners, and a row is computed again only when all of those are taken.
Cost: a few times Σ over categories of (users that have it)²; memory n · 64 partners.

Many users are searched in blocks (`grouping`).

Ties go to the lowest user number: number the users at random where the order must tell nothing.

>>> profiles = Profiles(np.array([0, 1, 2, 3, 4]), np.array([5, 6, 6, 5], np.int32), np.ones(4, np.int32), 7)
>>> greedy(profiles, 2).tolist()
[0, 1, 1, 0]
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np
import numpy.typing as npt

from queryveil.arrays import Ints, Longs
from queryveil.log.query_log import cores
from queryveil.mechanisms.microaggregate.profiles import Profiles
from queryveil.progress import tell

LEFT_OVER = -1
EXACT_UP_TO = 20_000
"""More users than this are searched in blocks."""
USERS_PER_BLOCK = 4_000
GROUPING, PIECES = "grouping the users", 32


def greedy(profiles: Profiles, k: int, *, all_cores: bool = True) -> Ints:
    """The group of each user by the exact search; −1 for the fewer than k that are left over."""
    groups = np.full(len(profiles), LEFT_OVER, np.int32)
    free, made = np.arange(len(profiles)), 0
    while len(free) >= k:  # each time half of the users have a group, go on with a smaller matrix
        left = (len(free) / len(profiles)) ** 2  # the share of the work, which grows with the square of the users
        inside = _greedy_until(profiles.take(free), k, max(k, len(free) // 2), all_cores, left)
        groups[free] = np.where(inside >= 0, inside + made, LEFT_OVER)
        made += int(inside.max()) + 1
        free = free[inside == LEFT_OVER]
    tell(GROUPING, 1)
    return groups


def _greedy_until(profiles: Profiles, k: int, enough: int, all_cores: bool, work_left: float) -> Ints:
    from queryveil.mechanisms.microaggregate import _partition_kernel as kernel

    profiles = _with_dense_columns(profiles)
    users = len(profiles)
    matrix = (profiles.offsets, profiles.nodes, profiles.counts)
    lists = kernel.transpose(*matrix, profiles.node_count)
    widest = int(profiles.totals().max(initial=0)) * k
    partners = np.empty((users, min(kernel.PARTNERS_KEPT, users)), np.int32)
    strengths = np.empty(partners.shape, np.int32 if widest < 2**31 else np.int64)
    best = (partners, strengths, np.empty(users, np.int32))
    grouped = np.zeros(1, np.int64)

    def show(compared: float) -> None:
        """Comparing is about half of it; a quarter of the work is left for smaller matrices."""
        part = compared + int(grouped[0]) / max(users - enough, 1)
        tell(GROUPING, 1 - work_left * (1 - 0.75 * min(part / 2, 1.0)))

    def compare(piece: int) -> None:
        kernel.find_best_partners(piece, PIECES, *matrix, *lists, *best)

    with ThreadPoolExecutor(cores() if all_cores else 1) as threads:  # the kernels let go of Python's lock
        for done, _ in enumerate(threads.map(compare, range(PIECES))):
            show(done / PIECES)
        searched = threads.submit(lambda: kernel.greedy_groups(k, enough, *matrix, *lists, *best, grouped))
        while wait([searched], timeout=0.2).not_done:
            show(1.0)
    groups: Ints = searched.result()
    return groups


def like_activity(totals: Longs, users_per_block: int) -> Ints:
    """The search block of each user: the most active ones share the first."""
    order = np.lexsort((np.arange(len(totals)), -totals))
    blocks = np.empty(len(totals), np.int32)
    for number, block in enumerate(np.array_split(order, max(1, round(len(order) / users_per_block)))):
        blocks[block] = number
    return blocks


def join_leftovers(profiles: Profiles, groups: Ints) -> Ints:
    """Put each user left over into the group with the largest summed similarity; groups then have k to 2k − 1 users.

    Similarity counts the first k members only, so that the order in which users join does not matter.
    """
    rest = np.flatnonzero(groups == LEFT_OVER)
    joined = groups.copy()
    made = int(groups.max(initial=-1)) + 1
    if not len(rest) or not made:
        return joined
    member = groups >= 0
    for user, row in zip(rest, similarity_rows(profiles, rest), strict=True):
        joined[user] = np.argmax(np.bincount(groups[member], row[member], made))
    return joined


def similarity_rows(profiles: Profiles, users: npt.NDArray[np.integer]) -> Iterator[Longs]:
    """The similarity of each of some users with everybody."""
    from queryveil.mechanisms.microaggregate import _partition_kernel as kernel

    matrix = (profiles.offsets, profiles.nodes, profiles.counts)
    lists = kernel.transpose(*matrix, profiles.node_count)
    return (kernel.similarities(user, *matrix, *lists) for user in users.tolist())


def incidence(profiles: Profiles) -> Longs:
    """The paper's n × n matrix of similarities (Algorithm 2), for few users."""
    rows = list(similarity_rows(profiles, np.arange(len(profiles))))
    return np.array(rows, np.int64).reshape(len(profiles), len(profiles))


def _with_dense_columns(profiles: Profiles) -> Profiles:
    """The same similarities with columns numbered without gaps: a block of users has few of the tree's nodes.

    A category that only one user has cannot be shared, so it is left out.
    """
    holders = profiles.users_per_node()
    numbers = np.cumsum(holders > 1, dtype=np.int32) - 1
    kept = holders[profiles.nodes] > 1
    offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(kept, dtype=np.int64)])[profiles.offsets]
    nodes = numbers[profiles.nodes[kept]].astype(np.int32)
    return Profiles(offsets, nodes, profiles.counts[kept], int((holders > 1).sum()))

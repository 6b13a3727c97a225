"""Who could have written each record: the pools of a run, for whoever tests the promise.

The promise is made to somebody who knows the pool a record came out of. Nobody keeps pools, so a run is made again with
draws of its own, record by record, and after each emission the owners are read off who still wait in its branch of the
tree; the one whose record left was there too.

Cost: some ten times a run, because every record enters by itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from queryveil.arrays import Ints, Longs, Words
from queryveil.log import QueryLog
from queryveil.mechanisms.stream import _layout as at
from queryveil.mechanisms.stream._tree import Tree
from queryveil.mechanisms.stream.live import LiveStream
from queryveil.privacy import Noise

if TYPE_CHECKING:
    from queryveil.mechanisms.stream.mixing import Stream


@dataclass(frozen=True)
class Pools:
    """The records of a run with their owners, and the owners who were in the pool of each."""

    owners: pl.Series
    queries: pl.Series
    starts: Longs
    members: pl.Series
    """`members[starts[i]:starts[i + 1]]` could have written record i."""


def observed_pools(mechanism: Stream, log: QueryLog, noise: Noise) -> Pools:
    """A run of the mechanism over the log, up to the end of its first epoch."""
    live = mechanism.open(noise, for_science=True, all_at_once=True)
    watched = _WatchedTree.of(live)
    live.tree = watched
    first = QueryLog(log.frame.head(mechanism.epoch))
    parts = [part for part in (*live.push_with_owners(first), *live.finish_with_owners()) if len(part)]
    nobody = pl.Series(dtype=pl.String)
    if not parts:
        return Pools(nobody, nobody, np.zeros(1, np.int64), nobody)
    rows = pl.concat([part.rows for part in parts])
    pools = [watched.pools[serial] for part in parts for serial in part.serials.tolist()]
    starts = np.concatenate([[0], np.cumsum([len(pool) for pool in pools])]).astype(np.int64)
    return Pools(rows["user"], rows["query"], starts, live.names_of(np.concatenate(pools), first.users()))


class _WatchedTree(Tree):
    """A tree that is told records one by one, and notes the owners of each emission's pool."""

    _live: LiveStream
    pools: list[Words]
    """Fingerprints of the owners: numbers of people change as some are forgotten."""

    @classmethod
    def of(cls, live: LiveStream) -> _WatchedTree:
        watched = cls(live.tree.rules)
        for name in (*cls.ARRAYS, "table"):
            setattr(watched, name, getattr(live.tree, name))
        watched.pools, watched._live = [], live
        return watched

    def push(self, leaves: Ints, users: Ints, handles: Ints, words: Callable[[int, int], Words]) -> Ints:
        """One record after the other."""
        found = [np.zeros((0, at.OUT_COLUMNS), np.int32)]
        for place in range(len(leaves)):
            one = slice(place, place + 1)
            out = super().push(leaves[one], users[one], handles[one], words).copy()
            out[:, at.OUT_ARRIVAL] = place
            self.pools += [self._pool(row, out[turn + 1 :]) for turn, row in enumerate(out)]
            found.append(out)
        return np.concatenate(found)

    def _pool(self, emission: Ints, after: Ints) -> Words:
        """The owners who still wait where an emission came from, its own and those of emissions after it.

        An emission from one category counts those who wait in that very category, one from a branch all below it.
        """
        vertex = self._vertex(emission)
        owner, size = int(emission[at.OUT_OWNER]), int(emission[at.OUT_POOL_OWNERS])
        everybody, here = {owner}, {owner}
        if vertex is not None and vertex[at.V_OWNERS]:
            places = self.arena[vertex[at.V_OWNERS_AT] : vertex[at.V_OWNERS_AT] + vertex[at.V_OWNERS]]
            nodes = self.rows("nodes")[places]
            everybody |= set(nodes[:, at.N_USER].tolist())
            here |= set(nodes[nodes[:, at.N_RECORDS] > 0, at.N_USER].tolist())
        later = set(after[:, at.OUT_OWNER].tolist())
        pools = (here, here | later, everybody, everybody | later)
        pool = min(pools, key=lambda members: abs(len(members) - size))
        return self._live.people(np.array(sorted(pool), np.int64))

    def _vertex(self, emission: Ints) -> Ints | None:
        """What is left of the category or branch that an emission came from; its row is the last of that handle."""
        records = self.rows("records")
        same = (records[:, at.R_HANDLE] == emission[at.OUT_HANDLE]) & (records[:, at.R_OWNER] == emission[at.OUT_OWNER])
        category = int(records[np.flatnonzero(same)[0], at.R_CATEGORY])
        categories = self.rows("categories")
        while self.depths[category] > emission[at.OUT_DEPTH]:
            category = int(categories[category, at.G_PARENT])
        vertex = int(categories[category, at.G_VERTEX])
        return None if vertex == at.NONE else self.rows("vertices")[vertex]

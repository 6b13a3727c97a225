"""Link the releases of one text under one pseudonym, and intersect the pools they left.

If a pseudonym and a text together stood for one owner, that owner was in every pool the pair came out of. An attacker
who knows the pools takes each pair (pseudonym, text) released at least twice, intersects the owners waiting in those
pools, and where one person is left guesses that person. It counts as right where that person really owns more than half
of the pair's releases. This is why safe mode draws a fresh receiver for every record, repeated texts included.

`watched` runs a stream in safe mode one arrival at a time and notes who was in each pool, which only the holder can do.
Cost: O(pool) for each release.

>>> stream = ReleasedStream.of_names([("x", "ann", "tulips", "plants"), ("x", "ann", "tulips", "plants")])
>>> ann = int(stream.owners[0])
>>> linked_repeats(stream, [frozenset({ann, -1}), frozenset({ann, -2})])
Success(right=1, tried=1)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from queryveil.arrays import Ints, Words
from queryveil.audit.attacks.released_stream import ReleasedStream
from queryveil.audit.finding import Success
from queryveil.log import QueryLog
from queryveil.mechanisms.stream import LiveStream, Stream
from queryveil.mechanisms.stream import _layout as at
from queryveil.mechanisms.stream._tree import Rules, Tree
from queryveil.privacy import Noise

Pool = frozenset[int]


def linked_repeats(stream: ReleasedStream, pools: Sequence[Pool]) -> Success:
    """How many pairs with a single common pool member were that member's, of all such pairs."""
    groups: dict[tuple[int, int], list[int]] = {}
    for place, pair in enumerate(zip(stream.pseudonyms.tolist(), stream.texts.tolist(), strict=True)):
        groups.setdefault(pair, []).append(place)
    right = tried = 0
    for places in groups.values():
        common = frozenset.intersection(*(pools[place] for place in places))
        if len(places) < 2 or len(common) != 1:
            continue
        tried += 1
        right += 2 * Counter(stream.owners[places].tolist())[next(iter(common))] > len(places)
    return Success(right, tried)


def watched(mechanism: Stream, log: QueryLog, noise: Noise) -> tuple[ReleasedStream, list[Pool]]:
    """What safe mode releases of a log, and for each release the owners in its pool, numbered as in the stream."""
    live = _WatchedStream(mechanism.settings(), noise, mechanism.categories, all_at_once=True)
    parts = [part for part in (*live.push_with_owners(log), *live.finish_with_owners()) if len(part)]
    stream = ReleasedStream.of(parts)
    if not parts:
        return stream, []
    numbers = dict(zip(np.concatenate([part.owners for part in parts]).tolist(), stream.owners.tolist(), strict=True))
    serials = np.concatenate([part.serials for part in parts]).tolist()
    # Somebody in a pool who never had a record released has no number in the stream: -1 and down.
    unnumbered: dict[int, int] = {}
    pools = [
        frozenset(
            numbers[name] if name in numbers else unnumbered.setdefault(name, -1 - len(unnumbered))
            for name in live.pools[serial].tolist()
        )
        for serial in serials
    ]
    return stream, pools


class _WatchedStream(LiveStream):
    def _empty_tree(self) -> Tree:
        self.pools: list[Words] = getattr(self, "pools", [])
        return _WatchedTree(self.settings.rules, self.pools, lambda: self._users.known)


class _WatchedTree(Tree):
    """A tree that notes the owners of every pool before a record leaves it."""

    def __init__(self, rules: Rules, pools: list[Words], names: Callable[[], Words]) -> None:
        super().__init__(rules)
        self._pools, self._names = pools, names

    def push(self, leaves: Ints, users: Ints, handles: Ints, words: Callable[[int, int], Words]) -> Ints:
        """Take records in one by one."""
        told = [np.zeros((0, at.OUT_COLUMNS), np.int32)]
        for i in range(len(leaves)):
            out = super().push(leaves[i : i + 1], users[i : i + 1], handles[i : i + 1], words)
            out[:, at.OUT_ARRIVAL] = i
            told.append(out)
            self._note(out)
        return np.concatenate(told)

    def _note(self, out: Ints) -> None:
        """The pools as they were: who owns a record there now, and who owned the ones that left since."""
        noted: list[Words] = []
        gone: set[int] = set()
        record, rows = int(self.counters[at.C_RECORD_FREE]), self.rows("records")
        for emission in reversed(out):
            assert rows[record, at.R_HANDLE] == emission[at.OUT_HANDLE]  # what left last stands first among the free
            gone.add(int(emission[at.OUT_OWNER]))
            pools = (owners | gone for owners in self._owners(int(rows[record, at.R_CATEGORY]), emission))
            # Where the vertex and its whole branch both have the size that was told, they hold the same people.
            pool = next(pool for pool in pools if len(pool) == emission[at.OUT_POOL_OWNERS])
            noted.append(self._names()[np.array(sorted(pool))])
            record = int(rows[record, at.R_NEXT])
        self._pools.extend(reversed(noted))

    def _owners(self, category: int, emission: Ints) -> Iterator[set[int]]:
        """The owners in the vertex that a record left, and in the branch it was drawn from."""
        categories = self.rows("categories")
        while not self.rules.strict and self.depths[category] > emission[at.OUT_DEPTH]:
            category = int(categories[category, at.G_PARENT])
        vertex = self.rows("vertices")[categories[category, at.G_VERTEX]]
        members = self.arena[vertex[at.V_OWNERS_AT] : vertex[at.V_OWNERS_AT] + vertex[at.V_OWNERS]]
        nodes = self.rows("nodes")[members]
        yield set(nodes[nodes[:, at.N_RECORDS] > 0, at.N_USER].tolist())
        yield set(nodes[:, at.N_USER].tolist())

"""The arrays of the category tree: made, grown when the kernel asks, emptied of what is gone, handed out whole.

`Tree` keeps users and categories as whole numbers. Who they are is the business of `live.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass

import numpy as np

from queryveil.arrays import Array, Flags, Ints, Longs, Words
from queryveil.mechanisms.stream import _layout as at
from queryveil.privacy import Noise

FIRST_ROWS = 1 << 10
UNLIMITED = 1 << 40
WORDS_IN_BLOCK = 1 << 17


@dataclass(frozen=True, kw_only=True)
class Rules:
    """What the kernel does differently between the modes; its fields stand in the order of `RULE_…` in `_layout.py`."""

    k: int
    branches: bool = True
    exclude_owner: bool = True
    distinct: bool = False
    cap: int = 0
    strict: bool = False
    most: int = 2

    @classmethod
    def paper(cls, k: int) -> Rules:
        """Algorithm 1."""
        return cls(k=k)

    @classmethod
    def base(cls, k: int) -> Rules:
        """The predecessor: fixed depth, no branch step."""
        return cls(k=k, branches=False)

    @classmethod
    def safe(cls, k: int, cap: int, *, strict: bool = False) -> Rules:
        """Owner and receiver uniform over more than k distinct people each, at most `cap` records a user and vertex."""
        return cls(k=k, exclude_owner=False, distinct=True, cap=cap, strict=strict)

    def as_array(self) -> Longs:
        """As the kernel reads it."""
        return np.array(astuple(self), np.int64)


class Draws:
    """The random words of a run, by number: block after block of the noise, each asked for once.

    A restored stream goes on at the word where it stopped.
    """

    def __init__(self, noise: Noise, used: int) -> None:
        self._noise = noise
        self.used = used
        self._next_block, self._skip = divmod(used, WORDS_IN_BLOCK)
        self._ahead: Words = np.zeros(0, np.uint64)

    def __call__(self, used: int, wanted: int) -> Words:
        self.used += used
        self._ahead = self._ahead[used:]
        while len(self._ahead) < wanted:
            block = self._noise.stream("stream: draws", self._next_block).words(WORDS_IN_BLOCK)[self._skip :]
            self._next_block, self._skip = self._next_block + 1, 0
            self._ahead = np.concatenate([self._ahead, block])
        return self._ahead


class Tree:
    """The state of the algorithm over numbered users and categories; category 0 is the root, never a branch."""

    ARRAYS = ("categories", "depths", "vertices", "nodes", "tokens", "records", "arena", "free_slabs", "counters")

    def __init__(self, rules: Rules) -> None:
        self.rules = rules
        self._rules = rules.as_array()
        self.categories: Ints = np.empty(0, np.int32)
        self.depths: Ints = np.empty(0, np.int32)
        self.vertices: Ints = np.empty(FIRST_ROWS << at.ROW, np.int32)
        self.nodes: Ints = np.empty(FIRST_ROWS << at.ROW, np.int32)
        self.tokens: Ints = np.empty(FIRST_ROWS << at.TOKEN_ROW, np.int32)
        self.records: Ints = np.empty(FIRST_ROWS << at.RECORD_ROW, np.int32)
        self.arena: Ints = np.empty(FIRST_ROWS, np.int32)
        self.free_slabs: Longs = np.full(at.CLASSES, at.NONE, np.int64)
        self.counters: Longs = np.zeros(at.COUNTERS, np.int64)
        for free in (at.C_VERTEX_FREE, at.C_NODE_FREE, at.C_TOKEN_FREE, at.C_RECORD_FREE):
            self.counters[free] = at.NONE
        self.counters[at.C_LARGEST_SLAB] = 8
        self.counters[at.C_LARGEST_SET] = 4
        self.table: Longs = np.full(4 * FIRST_ROWS, at.NONE, np.int64)
        self.counters[at.C_TABLE_MASK] = 2 * FIRST_ROWS - 1
        self.add_categories(np.zeros(1, np.int32), np.zeros(1, np.int32))

    @property
    def category_count(self) -> int:
        """How many categories have a number, the root included."""
        return int(self.counters[at.C_CATEGORIES])

    @property
    def pending(self) -> int:
        """How many records wait, queued ones included."""
        return int(self.counters[at.C_PENDING])

    def add_categories(self, parents: Ints, depths: Ints) -> None:
        """Number new categories, following on those there are."""
        first, after = self.category_count, self.category_count + len(parents)
        self.depths = _grown(self.depths, after)
        self.depths[first:after] = depths
        self.categories = _grown(self.categories, after << at.CATEGORY_ROW)
        rows = self.categories[first << at.CATEGORY_ROW : after << at.CATEGORY_ROW].reshape(-1, 1 << at.CATEGORY_ROW)
        rows[:, at.G_PARENT], rows[:, at.G_VERTEX] = parents, at.NONE
        self.counters[at.C_CATEGORIES] = after

    def push(self, leaves: Ints, users: Ints, handles: Ints, words: Callable[[int, int], Words]) -> Ints:
        """Take records in; returns one row per emission, with the columns `OUT_…`.

        `words(used, wanted)` is told how many words were used since it was last asked and hands out the ones to go on
        with, at least `wanted`.
        """
        from queryveil.mechanisms.stream import _tree_kernel  # Numba takes a second to import: only who runs it pays

        # Numba compiles anew for arrays that may not be written to, as Polars hands out.
        leaves, users, handles = (np.require(given, requirements="W") for given in (leaves, users, handles))
        most = self.pending + len(leaves)
        if self.rules.most <= 2:
            most = min(most, 2 * len(leaves))
        out = np.empty(most * at.OUT_COLUMNS, np.int32)
        self.counters[at.C_EMITTED] = 0
        deepest = int(self.depths[: self.category_count].max()) + 2
        wanted = 8 * _tree_kernel.WORDS_PER_RECORD
        block, done = words(0, wanted), 0
        self.counters[at.C_WORD] = 0
        while done < len(leaves):
            before = done
            done = _tree_kernel.arrive(
                self.categories, self.depths, self.vertices, self.nodes, self.tokens, self.records, self.arena,
                self.free_slabs, self.table, self.counters, block, self._rules, leaves, users, handles, done, deepest,
                out,
            )  # fmt: skip
            if done < len(leaves):
                self._grow(deepest)
                wanted = wanted if done > before else 2 * wanted
                block = words(int(self.counters[at.C_WORD]), wanted)
                self.counters[at.C_WORD] = 0
        words(int(self.counters[at.C_WORD]), 0)
        emitted = int(self.counters[at.C_EMITTED])
        return out[: emitted * at.OUT_COLUMNS].reshape(emitted, at.OUT_COLUMNS)

    def _grow(self, deepest: int) -> None:
        from queryveil.mechanisms.stream import _tree_kernel

        counters = self.counters
        self.vertices = _grown(self.vertices, (int(counters[at.C_VERTEX_TOP]) + 2 * deepest) << at.ROW)
        nodes = int(counters[at.C_NODE_TOP]) + _tree_kernel.NODES_PER_LEVEL * deepest
        self.nodes = _grown(self.nodes, nodes << at.ROW)
        self.tokens = _grown(self.tokens, (int(counters[at.C_TOKEN_TOP]) + 4) << at.TOKEN_ROW)
        self.records = _grown(self.records, (int(counters[at.C_RECORD_TOP]) + 1) << at.RECORD_ROW)
        sets = _tree_kernel.SETS_PER_LEVEL * deepest * int(counters[at.C_LARGEST_SET])
        self.arena = _grown(self.arena, int(counters[at.C_ARENA_TOP] + 4 * counters[at.C_LARGEST_SLAB]) + sets)
        needed = 2 * (int(counters[at.C_TABLE_USED]) + _tree_kernel.NODES_PER_LEVEL * deepest)
        if needed > len(self.table) // 2:
            self._rebuild_table(needed)

    def _rebuild_table(self, needed: int) -> None:
        from queryveil.mechanisms.stream import _tree_table_kernel

        slots = 1 << max(needed.bit_length(), FIRST_ROWS.bit_length())
        self.table = np.full(2 * slots, at.NONE, np.int64)
        _tree_table_kernel.rebuild_table(self.table, self.vertices, self.nodes, self.counters)

    # Looking in

    def rows(self, name: str) -> Ints:
        """The rows in use of vertices, nodes, tokens or records, free ones among them."""
        array: Ints = getattr(self, name)
        top, width = {
            "categories": (at.C_CATEGORIES, at.CATEGORY_ROW),
            "vertices": (at.C_VERTEX_TOP, at.ROW),
            "nodes": (at.C_NODE_TOP, at.ROW),
            "tokens": (at.C_TOKEN_TOP, at.TOKEN_ROW),
            "records": (at.C_RECORD_TOP, at.RECORD_ROW),
        }[name]
        count = int(self.counters[top])
        return array[: count << width].reshape(count, 1 << width)

    def live_records(self) -> Longs:
        """The numbers of the record rows that wait, in a vertex or in a queue."""
        live = np.ones(int(self.counters[at.C_RECORD_TOP]), bool)
        free, following = int(self.counters[at.C_RECORD_FREE]), self.rows("records")[:, at.R_NEXT]
        while free != at.NONE:
            live[free] = False
            free = int(following[free])
        return np.flatnonzero(live)

    def used_vertices(self) -> Ints:
        """The rows of the vertices that are not pruned."""
        vertices = self.rows("vertices")
        used: Ints = vertices[vertices[:, at.V_CATEGORY] != at.NONE]
        return used

    # Forgetting

    def used_categories(self) -> Flags:
        """Which categories hold anything, here or below; the root counts."""
        used: Flags = self.rows("categories")[:, at.G_VERTEX] != at.NONE
        used[at.ROOT] = True
        return used

    def used_users(self, count: int) -> Flags:
        """Which of `count` users have a token or a record waiting."""
        used = np.zeros(count, bool)
        nodes = self.rows("nodes")
        used[nodes[nodes[:, at.N_VERTEX] != at.NONE, at.N_USER]] = True
        return used

    def renumber(self, category_numbers: Ints, user_numbers: Ints) -> None:
        """Give categories and users new numbers (`NONE`: forgotten). Changes nothing the draws depend on."""
        kept = category_numbers != at.NONE
        categories = self.rows("categories")[kept]
        categories[:, at.G_PARENT] = category_numbers[categories[:, at.G_PARENT]]
        self.depths = self.depths[: self.category_count][kept]
        self.categories = categories.reshape(-1)
        self.counters[at.C_CATEGORIES] = len(categories)
        vertices = self.rows("vertices")
        live = vertices[:, at.V_CATEGORY] != at.NONE
        vertices[live, at.V_CATEGORY] = category_numbers[vertices[live, at.V_CATEGORY]]
        nodes = self.rows("nodes")
        live = nodes[:, at.N_VERTEX] != at.NONE
        nodes[live, at.N_USER] = user_numbers[nodes[live, at.N_USER]]
        records, waiting = self.rows("records"), self.live_records()
        records[waiting, at.R_OWNER] = user_numbers[records[waiting, at.R_OWNER]]
        records[waiting, at.R_CATEGORY] = category_numbers[records[waiting, at.R_CATEGORY]]
        self._rebuild_table(2 * int(self.counters[at.C_TABLE_USED]))

    # Handing over

    def to_arrays(self) -> dict[str, Array]:
        """All there is to know, cut to what is in use."""
        trimmed = {
            name: self.rows(name).reshape(-1) for name in ("categories", "vertices", "nodes", "tokens", "records")
        }
        trimmed["depths"] = self.depths[: self.category_count]
        arena = self.arena[: int(self.counters[at.C_ARENA_TOP])]
        return {**trimmed, "arena": arena, "free_slabs": self.free_slabs, "counters": self.counters}

    @classmethod
    def from_arrays(cls, rules: Rules, arrays: dict[str, Array]) -> Tree:
        """The tree that `to_arrays` described."""
        tree = cls(rules)
        for name in cls.ARRAYS:
            setattr(tree, name, np.array(arrays[name], dtype=getattr(tree, name).dtype))
        tree._rebuild_table(2 * int(tree.counters[at.C_TABLE_USED]))
        return tree


def _grown(array: Ints, needed: int) -> Ints:
    if needed <= len(array):
        return array
    wider = np.empty(max(needed, len(array) + len(array) // 2), np.int32)
    wider[: len(array)] = array
    return wider

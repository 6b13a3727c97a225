"""The fast state machine agrees with the plain one, draw by draw, and keeps its books."""

import itertools
from collections import Counter

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mechanisms.stream_oracle import GateOracle, Oracle, from_words
from properties import examples
from queryveil.mechanisms.stream import _layout as at
from queryveil.mechanisms.stream._gate import Gate
from queryveil.mechanisms.stream._tree import UNLIMITED, Rules, Tree
from vectors.stream import RELEASED_OF_SCRIPT, SCRIPT

ALPHA = 1e-6

RULES = [
    Rules.paper(2),
    Rules.paper(3),
    Rules.base(2),
    Rules.safe(2, 1),
    Rules.safe(2, 3),
    Rules.safe(3, 2),
    Rules.safe(2, 2, strict=True),
    Rules(k=2, branches=False, most=UNLIMITED),  # the simple attacker
    Rules(k=2, exclude_owner=False),  # the full attacker on a safe stream
]


class Words:
    """Words from a list, then from a counter-based mix: as the kernel asks for them, and one by one."""

    def __init__(self, first, seed):
        rest = np.random.default_rng(seed).integers(0, 2**64, 1 << 15, dtype=np.uint64)
        self.all = np.concatenate([np.array(first, np.uint64), rest])
        self.ahead = self.all
        self.used = 0

    def __call__(self, used, wanted):
        self.used += used
        self.ahead = self.ahead[used:]
        assert len(self.ahead) >= wanted
        return self.ahead


class Numbered:
    """Category paths as numbers for the kernel."""

    def __init__(self, tree):
        self.tree, self.numbers, self.paths = tree, {(): 0}, [()]

    def __call__(self, path):
        for depth in range(1, len(path) + 1):
            here = path[:depth]
            if here not in self.numbers:
                self.numbers[here] = len(self.paths)
                self.paths.append(here)
                parent = np.array([self.numbers[here[:-1]]], np.int32)
                self.tree.add_categories(parent, np.array([depth], np.int32))
        return self.numbers[path]


def push(tree, words, numbered, stream, first_handle=0):
    leaves = np.array([numbered(path) for _, path in stream], np.int32)
    users = np.array([user for user, _ in stream], np.int32)
    handles = np.arange(first_handle, first_handle + len(stream), dtype=np.int32)
    return tree.push(leaves, users, handles, words)


def check_books(tree, oracle, numbered):
    """What waits in the fast tree is exactly what waits in the plain one, and |U| = |Q| at every vertex."""
    used = tree.used_vertices()
    assert (used[:, at.V_TOKENS] == used[:, at.V_RECORDS]).all()
    by_path = {numbered.paths[row[at.V_CATEGORY]]: row for row in used}
    for path, row in by_path.items():
        assert row[at.V_TOKENS] == len(oracle.tokens[path])
        assert row[at.V_USERS] == len(oracle.users[path]) > 0
        assert row[at.V_OWN_USERS] == oracle.own_users(path)
        assert row[at.V_OWNERS] == len(oracle.owners[path])
    assert {path for path, users in oracle.users.items() if users} == set(by_path)
    nodes = tree.rows("nodes")
    assert (nodes[:, at.N_VERTEX] != at.NONE).sum() == len(oracle.children) == tree.counters[at.C_TABLE_USED]
    waiting = sum(map(len, oracle.queries.values())) + sum(map(len, oracle.queued.values()))
    assert tree.pending == waiting == len(tree.live_records())


paths = st.lists(st.sampled_from("ab"), min_size=1, max_size=4).map(tuple)
streams = st.lists(st.tuples(st.integers(0, 6), paths), max_size=120)


@settings(max_examples=examples(250), deadline=None)
@given(
    rules=st.sampled_from(RULES),
    stream=streams,
    seed=st.integers(0, 2**32),
    constant=st.sampled_from([None, 0, 2**64 - 1, 2**63]),
    cuts=st.lists(st.integers(0, 120), max_size=4),
)
def test_the_kernel_does_what_the_plain_algorithm_does_under_the_same_draws(rules, stream, seed, constant, cuts):
    # Constant words pick the same entry again and again, which drives the walks behind the bounded tries.
    first = [] if constant is None else [constant] * 2000
    words, tree = Words(first, seed), Tree(rules)
    numbered = Numbered(tree)
    spent = iter(words.all.tolist())
    oracle = Oracle(
        rules.k, from_words(spent), rules.branches, rules.exclude_owner, rules.distinct, rules.cap, rules.strict,
        rules.most,
    )  # fmt: skip
    told = []
    bounds = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    for start, stop in itertools.pairwise(bounds):
        out = push(tree, words, numbered, stream[start:stop], start)
        for place in range(start, stop):
            oracle.push(stream[place][0], place, stream[place][1])
        told += [(*row[:3], row[at.OUT_DEPTH], *row[4:6], row[at.OUT_ARRIVAL] + start) for row in out.tolist()]
        check_books(tree, oracle, numbered)
    owners = [e.owners if rules.distinct else 0 for e in oracle.out]
    expected = [
        (e.record, e.owner, e.receiver, len(e.category), e.users, o, e.arrival)
        for e, o in zip(oracle.out, owners, strict=True)
    ]
    assert told == expected
    assert next(spent) == int(words.ahead[0])  # both used as many words


@settings(max_examples=examples(120), deadline=None)
@given(rules=st.sampled_from(RULES[:7]), stream=streams, seed=st.integers(0, 2**32))
def test_users_and_queries_are_conserved_and_every_pool_was_large_enough(rules, stream, seed):
    words, tree = Words([], seed), Tree(rules)
    numbered = Numbered(tree)
    released = Counter()
    receivers = Counter()
    for place, record in enumerate(stream):
        out = push(tree, words, numbered, [record], place)
        used = tree.used_vertices()
        assert len(out) <= 2
        assert (used[:, at.V_TOKENS] == used[:, at.V_RECORDS]).all()
        assert (out[:, at.OUT_POOL_USERS] > rules.k).all()
        for row in out:
            handle = row[at.OUT_HANDLE]
            released[handle] += 1
            receivers[row[at.OUT_RECEIVER]] += 1
            assert stream[handle][0] == row[at.OUT_OWNER]
            assert 1 <= row[at.OUT_DEPTH] <= len(stream[handle][1])
            if rules.distinct:
                assert row[at.OUT_POOL_OWNERS] > rules.k
            else:
                assert row[at.OUT_OWNER] != row[at.OUT_RECEIVER]
    assert not released or max(released.values()) == 1
    assert sum(released.values()) + tree.pending == len(stream)
    nodes, tokens = tree.rows("nodes"), tree.used_vertices()
    left = Counter()
    for row in nodes[nodes[:, at.N_VERTEX] != at.NONE]:
        left[row[at.N_USER]] += row[at.N_TOKENS]
    queued = Counter(user for user, _ in stream)
    queued.subtract(receivers)
    queued.subtract(left)
    assert all(count >= 0 for count in queued.values())  # beyond tokens: records queued behind the cap
    assert tokens[:, at.V_TOKENS].sum() + sum(queued.values()) == tree.pending
    assert rules.cap or not sum(queued.values())


# The kernel's draws


def test_the_kernel_emits_from_a_single_owner_as_often_as_the_law_says():
    """n = 40,000, α = 1e-6: a share of 0.058 instead of 0.05 (7 standard errors) is rejected."""
    runs, hits = 40_000, 0
    words = Words([], 5)
    for _ in range(runs):
        if len(words.ahead) < 1 << 13:
            words = Words([], words.used)
        tree = Tree(Rules.paper(2))
        tree.add_categories(np.zeros(1, np.int32), np.ones(1, np.int32))
        out = tree.push(*(np.array(x, np.int32) for x in ([1] * 6, [2, 2, 2, 1, 0, 2], range(6))), words)
        owners = [2, 2, 2, 1, 0, 2]
        waiting = set()
        rows = out.tolist()
        for arrival in range(6):
            waiting.add(arrival)
            for row in (r for r in rows if r[at.OUT_ARRIVAL] == arrival):
                if len({owners[w] for w in waiting}) == 1:
                    hits += 1
                    waiting.clear()
                    break
                waiting.discard(row[at.OUT_HANDLE])
    assert stats.binomtest(hits, runs, 0.05).pvalue > ALPHA


def test_the_receiver_is_uniform_among_the_others_of_an_all_ones_pool():
    """χ² with n = 100,000 over 110 cells, α = 1e-6: one receiver favoured by 20 % (the broken twin) is rejected."""
    runs, k = 20_000, 10
    table = np.zeros((11, 11), np.int64)
    for seed in range(5):
        words = np.random.default_rng(seed).integers(0, 2**64, 64 * runs, dtype=np.uint64)
        tree = Tree(Rules(k=k, branches=False, most=1))
        tree.add_categories(np.zeros(runs, np.int32), np.ones(runs, np.int32))
        leaves = np.repeat(np.arange(1, runs + 1, dtype=np.int32), 11)
        users = np.tile(np.arange(11, dtype=np.int32), runs)
        position = 0

        def hand_out(used, wanted):
            nonlocal position
            position += used
            return words[position:]  # noqa: B023

        out = tree.push(leaves, users, np.arange(11 * runs, dtype=np.int32), hand_out)
        assert len(out) == runs
        np.add.at(table, (out[:, at.OUT_OWNER], out[:, at.OUT_RECEIVER]), 1)
    assert (np.diag(table) == 0).all()
    cells = table[~np.eye(11, dtype=bool)]
    assert stats.chisquare(cells).pvalue > ALPHA
    twin = table.astype(float)
    twin[:, 0] *= 1.2
    favoured = twin[~np.eye(11, dtype=bool)]
    assert stats.chisquare(favoured).pvalue < ALPHA


def test_the_scripted_stream_keeps_health_inside_and_releases_four_to_six_records():
    totals = set()
    for seed in range(400):
        words, tree = Words([], seed), Tree(Rules.paper(2))
        numbered = Numbered(tree)
        released = []
        for place, (user, *path) in enumerate(SCRIPT):
            out = push(tree, words, numbered, [(ord(user), tuple(path))], place)
            released.append(len(out))
            for row in out.tolist():
                assert row[at.OUT_OWNER] != row[at.OUT_RECEIVER]
                assert row[at.OUT_HANDLE] not in (4, 8)
            used = tree.used_vertices()
            assert (used[:, at.V_TOKENS] == used[:, at.V_RECORDS]).all()
        assert released[:3] == [0, 0, 0]
        assert released[3] >= 1
        totals.add(sum(released))
    assert (min(totals), max(totals)) == RELEASED_OF_SCRIPT


def test_time_and_memory_do_not_follow_the_number_of_records_seen():
    tree, words = Tree(Rules.paper(3)), np.random.default_rng(1).integers(0, 2**64, 1 << 22, dtype=np.uint64)
    tree.add_categories(np.zeros(4, np.int32), np.ones(4, np.int32))
    position, sizes = 0, []

    def hand_out(used, wanted):
        nonlocal position
        position += used
        return words[position:]

    dice = np.random.default_rng(2)
    for _ in range(20):
        leaves = dice.integers(1, 5, 10_000).astype(np.int32)
        users = dice.integers(0, 500, 10_000).astype(np.int32)
        tree.push(leaves, users, np.arange(10_000, dtype=np.int32), hand_out)
        sizes.append(len(tree.nodes) + len(tree.tokens) + len(tree.records) + len(tree.arena) + len(tree.table))
    assert sizes[-1] == sizes[1]
    assert tree.pending < 100


def test_one_user_alone_waits_for_ever_and_a_heavy_one_is_drawn_without_walking_through_all():
    tree = Tree(Rules.paper(2))
    tree.add_categories(np.zeros(1, np.int32), np.ones(1, np.int32))
    words = Words([], 1)
    ones = np.ones(50_000, np.int32)
    assert len(tree.push(ones, 0 * ones, np.arange(50_000, dtype=np.int32), words)) == 0
    out = tree.push(ones[:4], np.array([1, 2, 3, 4], np.int32), np.arange(4, dtype=np.int32), words)
    assert len(out) > 0
    assert (out[:, at.OUT_RECEIVER] != out[:, at.OUT_OWNER]).all()
    assert words.used < 400  # bounded tries, although the heavy user owns nearly every token


def test_a_path_of_a_thousand_levels_is_taken():
    tree, words = Tree(Rules.paper(2)), Words([], 3)
    numbered = Numbered(tree)
    deep = tuple(f"level {i}" for i in range(1000))
    out = push(tree, words, numbered, [(user, deep) for user in range(4)])
    assert len(out) >= 1
    assert len(out) + tree.pending == 4
    assert (out[:, at.OUT_DEPTH] == 1000).all()


# The window over texts


@settings(max_examples=examples(150), deadline=None)
@given(
    k_text=st.integers(2, 4),
    window=st.integers(1, 30),
    stream=st.lists(st.tuples(st.integers(0, 5), st.integers(1, 6)), max_size=120),
    cuts=st.lists(st.integers(0, 120), max_size=4),
)
def test_the_window_lets_through_what_a_plain_recount_lets_through(k_text, window, stream, cuts):
    gate, oracle = Gate(k_text, window), GateOracle(k_text, window)
    names = np.arange(1, 7, dtype=np.uint64) * np.uint64(7919)
    expected, told, expired = [], [], []
    bounds = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    for start, stop in itertools.pairwise(bounds):
        part = stream[start:stop]
        users = np.array([u for u, _ in part], np.int32)
        texts = np.array([t * 1_000_003 for _, t in part], np.uint64)
        entered, gone = gate.push(texts, names, users, users * 0, np.arange(start, stop, dtype=np.int32))
        told += [(user, handle) for handle, user, _, _ in entered.tolist()]
        expired += gone.tolist()
        for place, (user, text) in enumerate(part, start):
            expected += oracle.push(user, text, place)
        assert sorted(gate.waiting_handles().tolist()) == sorted(r for _, _, r in oracle.waiting)
    assert told == expected
    assert expired == oracle.expired
    assert len(told) + len(expired) + gate.waiting == len(stream)

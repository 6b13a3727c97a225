"""Profiles, similarity and the search for groups, against the specs' numbers and slow twins."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import group_baselines
from mechanisms.microaggregate_oracle import (
    Dictionary,
    frame_of,
    groups_of,
    slow_greedy,
    slow_profile,
    slow_similarity,
    toy,
)
from properties import examples
from queryveil.mechanisms.microaggregate import partition as parts
from queryveil.mechanisms.microaggregate.profiles import CountedLog, Profiles, Vocabulary, split_terms
from queryveil.privacy import Noise
from vectors.microaggregate import BY_CATEGORIES, DIRECTORY, LARGEST_SIMILARITY, QUERIES

USERS = list(QUERIES)
ONE_CATEGORY = [[6, 5, 0, 0, 0], [5, 6, 0, 0, 0], [0, 0, 6, 2, 0], [0, 0, 2, 4, 2], [0, 0, 0, 2, 6]]
FIVE_CATEGORIES = [[8, 7, 0, 0, 0], [7, 8, 0, 0, 0], [0, 0, 6, 2, 0], [0, 0, 2, 6, 4], [0, 0, 0, 4, 8]]


def named(groups):
    return [[USERS[user] for user in group] for group in groups]


@pytest.mark.parametrize(("categories", "expected"), [(1, ONE_CATEGORY), (5, FIVE_CATEGORIES)])
def test_the_incidence_matrix_of_the_toy_users(categories, expected):
    assert parts.incidence(toy(categories)[2]).tolist() == expected


def test_classification_counts_every_term_at_every_level_it_reaches():
    _, vocabulary, profiles = toy(1)
    depths = vocabulary.tree.depths[profiles.nodes]
    names = [":".join(vocabulary.tree.path(int(node))) for node in profiles.nodes]
    cells = [
        (USERS[row], depth, name, count)
        for row, depth, name, count in zip(
            profiles.rows().tolist(), depths.tolist(), names, profiles.counts.tolist(), strict=True
        )
    ]
    assert {c for c in cells if c[0] == "u2"} == {
        ("u2", 1, "Sports", 3),
        ("u2", 2, "Sports:Soccer", 2),
        ("u2", 2, "Sports:Basketball", 1),
    }
    assert {c for c in cells if c[0] == "u5" and c[1] == 1} == {("u5", 1, "Computers", 2), ("u5", 1, "Science", 1)}


def test_equation_one_is_an_intersection_of_multisets():
    first, second, third = (slow_profile(QUERIES[user], DIRECTORY, 1, 2) for user in ("u1", "u2", "u3"))
    union = sum(len(set(a) | set(b)) for a, b in zip(first, third, strict=True))
    sets = sum(len(set(a) & set(b)) for a, b in zip(first, second, strict=True))
    assert (union, sets, slow_similarity(first, second)) == (5, 2, 5)
    assert parts.incidence(toy(1)[2])[0, [1, 2]].tolist() == [5, 0]  # neither the union (5) nor sets (2)


@pytest.mark.parametrize("k", [2, 3])
@pytest.mark.parametrize("categories", BY_CATEGORIES)
def test_groups_and_leftovers_of_the_toy_users(categories, k):
    profiles, expected = toy(categories)[2], BY_CATEGORIES[categories]["by k"][k]
    found = parts.greedy(profiles, k)
    assert named(groups_of(found)) == expected["groups"]
    assert [USERS[user] for user in np.flatnonzero(found < 0)] == expected["left over"]
    joined = named(groups_of(parts.join_leftovers(profiles, found)))
    assert joined == [sorted(group) for group in expected["joined"]]


def test_a_second_category_moves_u3_and_u5():
    one, five = (parts.greedy(toy(categories)[2], 2).tolist() for categories in (1, 5))
    assert one == [0, 0, 1, 1, -1]
    assert five == [0, 0, -1, 1, 1]


@pytest.mark.parametrize("categories", BY_CATEGORIES)
def test_categories_and_similarities_of_the_toy_users_are_those_by_hand(categories):
    _, vocabulary, profiles = toy(categories)
    assert parts.incidence(profiles).tolist() == BY_CATEGORIES[categories]["incidence"]
    for level, matrix in enumerate(BY_CATEGORIES[categories]["classification"], 1):
        for number, user in enumerate(USERS):
            row = slice(profiles.offsets[number], profiles.offsets[number + 1])
            cells = zip(profiles.nodes[row].tolist(), profiles.counts[row].tolist(), strict=True)
            mine = {":".join(vocabulary.tree.path(n)): c for n, c in cells if vocabulary.tree.depths[n] == level}
            assert mine == matrix[user]
    if categories == 1:
        assert parts.incidence(profiles).max() == LARGEST_SIMILARITY


def test_fewer_users_than_k_are_all_left_over():
    assert parts.greedy(toy(1)[2], 6).tolist() == [-1] * 5


def random_profiles(draw_rows, columns):
    rows = [sorted(row.items()) for row in draw_rows]
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])]).astype(np.int64)
    flat = [cell for row in rows for cell in row]
    nodes, counts = (np.array([cell[side] for cell in flat], np.int32) for side in (0, 1))
    return Profiles(offsets, nodes, counts, columns)


rows_of_users = st.lists(st.dictionaries(st.integers(0, 7), st.integers(1, 4), max_size=6), min_size=1, max_size=24)


@given(rows_of_users, st.integers(2, 5))
@settings(deadline=None, max_examples=examples(150))
def test_the_search_agrees_with_the_dense_matrix(rows, k):
    profiles = random_profiles(rows, 8)
    matrix = parts.incidence(profiles)
    slow = [[sum(min(a.get(c, 0), b.get(c, 0)) for c in range(8)) for b in rows] for a in rows]
    assert matrix.tolist() == slow
    groups = slow_greedy(slow, k)
    for all_cores in (False, True):
        assert groups_of(parts.greedy(profiles, k, all_cores=all_cores)) == [sorted(group) for group in groups]


def test_the_search_agrees_with_the_dense_matrix_when_partner_lists_run_out(monkeypatch):
    from queryveil.mechanisms.microaggregate import _partition_kernel

    monkeypatch.setattr(_partition_kernel, "PARTNERS_KEPT", 2)
    rng = np.random.default_rng(5)
    rows = [
        dict(zip(range(30), map(int, rng.integers(1, 9, 30) * rng.integers(0, 2, 30)), strict=True)) for _ in range(150)
    ]
    rows = [{c: n for c, n in row.items() if n} for row in rows]
    profiles = random_profiles(rows, 30)
    for k in (2, 3, 5):
        expected = slow_greedy(parts.incidence(profiles).tolist(), k)
        assert groups_of(parts.greedy(profiles, k)) == [sorted(group) for group in expected]


def test_categories_that_many_have_and_those_that_few_have_are_counted_alike():
    """Common ones are columns of 16 bits, rare ones and those with larger counts lists: 120 users, all pairs."""
    rng = np.random.default_rng(5)
    common, rare, large = range(10), range(10, 40), range(40, 43)
    rows = [
        {int(c): int(n) for c, n in zip(rng.choice(common, 5, replace=False), rng.integers(1, 6, 5), strict=True)}
        | {int(rng.choice(rare)): int(rng.integers(1, 6))}
        | {int(c): int(rng.integers(1, 2**17)) for c in rng.choice(large, 2, replace=False)}
        for _ in range(120)
    ]
    rows[0][0], rows[1][0] = 2**15 - 1, 2**15 - 2  # the largest that a column holds
    profiles = random_profiles(rows, 43)
    slow = [[sum(min(a[c], b[c]) for c in a.keys() & b.keys()) for b in rows] for a in rows]
    assert parts.incidence(profiles).tolist() == slow
    holders = profiles.users_per_node()
    assert (holders[common] * 16 > 120).all() and (holders[rare] * 16 <= 120).any()


def test_sums_of_similarities_beyond_32_bits_do_not_wrap():
    huge = 2**30
    rows = [{0: huge}, {0: huge}, {0: huge}, {0: huge, 1: 5}, {1: 5}, {1: 5}]
    profiles = random_profiles(rows, 2)
    assert parts.greedy(profiles, 4).tolist() == [0, 0, 0, 0, -1, -1]
    assert parts.incidence(profiles)[0, 1] == huge


@given(st.permutations(range(12)), st.integers(2, 4))
@settings(deadline=None, max_examples=examples(40))
def test_the_order_of_users_does_not_matter_where_similarities_differ(order, k):
    rng = np.random.default_rng(3)
    rows = [{c: int(n) for c, n in enumerate(rng.integers(1, 10**6, 6))} for _ in range(12)]
    plain = {frozenset(group) for group in groups_of(parts.greedy(random_profiles(rows, 6), k))}
    moved = groups_of(parts.greedy(random_profiles([rows[user] for user in order], 6), k))
    assert {frozenset(order[place] for place in group) for group in moved} == plain


@given(rows_of_users, st.integers(2, 5), st.integers(2, 8))
@settings(deadline=None, max_examples=examples(60))
def test_every_user_is_in_one_group_of_k_to_2k_less_one(rows, k, block):
    profiles = random_profiles(rows, 8)
    ways = {
        "exact": parts.join_leftovers(profiles, parts.greedy(profiles, k)),
        "blocks": parts.join_leftovers(profiles, group_baselines.greedy_in_blocks(profiles, k, users_per_block=block)),
        "random": group_baselines.random_groups(len(rows), k, Noise.seeded(1)),
        "mdav": group_baselines.mdav_groups(profiles, k),
    }
    for name, groups in ways.items():
        if len(rows) < k:
            assert name in ("random", "mdav") or (groups == -1).all()
            continue
        sizes = np.bincount(groups)
        assert (groups >= 0).all()
        assert k <= sizes.min()
        assert sizes.max() <= 2 * k - 1


@given(rows_of_users)
@settings(deadline=None, max_examples=examples(40))
def test_the_incidence_matrix_is_symmetric_with_totals_on_the_diagonal(rows):
    profiles = random_profiles(rows, 8)
    matrix = parts.incidence(profiles)
    assert (matrix == matrix.T).all()
    assert np.diag(matrix).tolist() == [sum(row.values()) for row in rows]


words = st.lists(st.sampled_from([*DIRECTORY, "unknown"]), min_size=1, max_size=3).map(" ".join)


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.lists(words, min_size=1, max_size=6), min_size=1),
    st.integers(1, 5),
    st.integers(1, 3),
)
@settings(deadline=None, max_examples=examples(80))
def test_profiles_agree_with_plain_counting(queries, categories, levels):
    log = CountedLog.of(frame_of(queries))
    vocabulary = Vocabulary.of(log.texts, Dictionary(DIRECTORY), categories=categories, levels=levels)
    profiles = vocabulary.profiles(log)
    for number, user in enumerate(log.users):
        row = slice(profiles.offsets[number], profiles.offsets[number + 1])
        mine = {
            ":".join(vocabulary.tree.path(int(n))): int(c)
            for n, c in zip(profiles.nodes[row], profiles.counts[row], strict=True)
        }
        matrices = slow_profile(queries[user], DIRECTORY, categories, levels)
        assert mine == {path: count for matrix in matrices for path, count in matrix.items()}
        assert sorted(profiles.nodes[row].tolist()) == profiles.nodes[row].tolist()


def test_terms_are_words_without_function_words_and_each_distinct_one_once():
    terms, known = split_terms(pl.Series(["How to train the Puppies", "puppies", "!!", "café puppies"]))
    assert known == ["train", "puppies", "cafe"]
    assert [terms[place].tolist() for place in range(4)] == [[0, 1], [1], [], [2, 1]]


def test_counting_a_log_sorts_users_and_texts():
    log = CountedLog.of(frame_of({"b": ["y", "x", "y"], "a": ["y"]}))
    assert log.users.to_list() == ["a", "b"]
    assert log.texts.to_list() == ["x", "y"]
    assert list(zip(log.pair_users.tolist(), log.pair_texts.tolist(), log.pair_counts.tolist(), strict=True)) == [
        (0, 1, 1),
        (1, 0, 1),
        (1, 1, 2),
    ]
    assert log.sizes().tolist() == [1, 3]
    assert log.askers().tolist() == [1, 2]


def test_mdav_finds_what_lies_together():
    rows = [{0: 9}, {0: 8}, {1: 9}, {1: 8}, {2: 9}, {2: 8}]
    assert {frozenset(group) for group in groups_of(group_baselines.mdav_groups(random_profiles(rows, 3), 2))} == {
        frozenset({0, 1}),
        frozenset({2, 3}),
        frozenset({4, 5}),
    }


def test_random_groups_depend_on_the_noise_only():
    first, again, other = (group_baselines.random_groups(50, 3, Noise.seeded(seed)).tolist() for seed in (1, 1, 2))
    assert first == again != other


def test_blocks_put_users_of_like_activity_together():
    rows = [{0: 1 + user % 4} for user in range(400)]
    groups = group_baselines.greedy_in_blocks(random_profiles(rows, 1), 2, users_per_block=100)
    assert all(len({user % 4 for user in group}) == 1 for group in groups_of(groups))


def test_one_block_is_the_exact_search():
    profiles = toy(5)[2]
    assert group_baselines.greedy_in_blocks(profiles, 2).tolist() == parts.greedy(profiles, 2).tolist()

"""How much of what users searched for remains, against the specs' numbers and plain counting."""

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import group_baselines
from mechanisms.microaggregate_oracle import Dictionary, frame_of, slow_profile
from properties import examples
from queryveil.audit.measures.srp import attribution, members_by_owner, release_srp, srp
from queryveil.knowledge.categories import load_classifier
from queryveil.log import QueryLog
from queryveil.log.synthetic import synth
from queryveil.mechanisms.microaggregate import Microaggregate, partition
from queryveil.mechanisms.microaggregate.profiles import CountedLog, Vocabulary
from queryveil.privacy import Noise
from vectors.microaggregate import DIRECTORY, QUERIES

CENTROID = ["messi", "barcelona messi"]


def toy_release(published):
    """The two soccer fans of the specs, each with the same published log."""
    log = QueryLog(frame_of({user: QUERIES[user] for user in ("u1", "u2")}))
    released = QueryLog(frame_of(dict.fromkeys(("p1", "p2"), published)))
    members = pl.DataFrame({"user": ["u1", "u2"], "pseudonym": ["p1", "p2"]})
    return log, released, members


def test_the_specs_example():
    remain = release_srp(*toy_release(CENTROID), Dictionary(DIRECTORY), levels=2, categories=1)
    assert remain.by_user.tolist() == [[1, 1], [1, pytest.approx(2 / 3)]]
    assert remain.by_level == pytest.approx((1, 5 / 6))
    assert remain.cumulative == pytest.approx((1, (1 + 5 / 6) / 2))
    assert remain.pooled == pytest.approx((1, 5 / 6))


def test_disjoint_interests_leave_one_kth():
    log = QueryLog(frame_of({"u1": ["messi", "messi"], "u2": ["flu", "flu"]}))
    released = QueryLog(frame_of({"p1": ["messi", "flu"], "p2": ["messi", "flu"]}))
    members = pl.DataFrame({"user": ["u1", "u2"], "pseudonym": ["p1", "p2"]})
    assert release_srp(log, released, members, Dictionary(DIRECTORY), levels=2).by_level == (0.5, 0.5)


def test_a_user_without_categories_does_not_count_and_an_empty_log_keeps_nothing():
    log = QueryLog(frame_of({"u1": ["messi"], "u2": ["zzyzx"], "u3": ["messi"]}))
    released = QueryLog(frame_of({"p1": ["messi"], "p2": ["messi"]}))
    members = pl.DataFrame({"user": ["u1", "u2", "u3"], "pseudonym": ["p1", "p2", "p3"]})
    remain = release_srp(log, released, members, Dictionary(DIRECTORY), levels=3)
    assert remain.by_user[0].tolist()[:2] == [1, 1]
    assert np.isnan(remain.by_user[1]).all()
    assert remain.by_user[2].tolist()[:2] == [0, 0]
    assert remain.by_level[:2] == (0.5, 0.5)
    assert math.isnan(remain.by_level[2])  # nothing is filed that deep


texts = st.lists(
    st.lists(st.sampled_from(list(DIRECTORY)), min_size=1, max_size=2).map(" ".join), min_size=1, max_size=8
)


@given(texts, texts, st.integers(1, 5))
@settings(deadline=None, max_examples=examples(60))
def test_srp_agrees_with_plain_counting(original, published, categories):
    log, released = QueryLog(frame_of({"u": original})), QueryLog(frame_of({"p": published}))
    members = pl.DataFrame({"user": ["u"], "pseudonym": ["p"]})
    remain = release_srp(log, released, members, Dictionary(DIRECTORY), levels=2, categories=categories)
    had = slow_profile(original, DIRECTORY, categories, 2)
    shown = slow_profile(published, DIRECTORY, categories, 2)
    for level in range(2):
        if had[level]:
            assert remain.by_level[level] == pytest.approx((had[level] & shown[level]).total() / had[level].total())
        else:
            assert math.isnan(remain.by_level[level])


def test_whose_words_the_logs_hold():
    log = QueryLog.of([("a", "mine"), ("a", "ours"), ("b", "ours"), ("c", "ours")])
    released = QueryLog.of([(p, text) for p in ("p", "q") for text in ("mine", "ours", "ours", "[label]")])
    owners = pl.Series(["a", "a", "b", "b"] * 2)
    seen = attribution(log, released, owners)
    assert seen.texts_of_one_user == 0.25
    assert seen.largest_contributor == seen.largest_contributor_at_worst == 0.5
    assert seen.distinct_texts == 3
    assert members_by_owner(owners, released).rows() == [("a", "p"), ("b", "p")]


def test_an_empty_release_has_no_figures():
    seen = attribution(QueryLog.of([("a", "x")]), QueryLog.empty(), pl.Series([], dtype=pl.String))
    assert math.isnan(seen.largest_contributor)


@pytest.fixture(scope="module")
def crowd():
    log = CountedLog.of(synth(users=600, records=33_000, seed=4).frame)
    vocabulary = Vocabulary.of(log.texts, load_classifier("wordnet"), categories=5, levels=5)
    return log, vocabulary, vocabulary.profiles(log)


def remain_of(crowd, groups):
    log, vocabulary, profiles = crowd
    shared = group_baselines.paper_logs(log, groups, Noise.seeded(1).stream("records"))
    by_group = CountedLog(
        pl.Series([str(g) for g in range(groups.max() + 1)]), log.texts, shared.groups, shared.texts, shared.copies
    )
    published = vocabulary.profiles(by_group).take(groups[groups >= 0])
    chosen = profiles.take(np.flatnonzero(groups >= 0))
    return srp(chosen, published, depths=vocabulary.tree.depths, levels=5)


def test_srp_falls_with_k_and_level_and_beats_random_groups_and_one_kth(crowd):
    found = {k: remain_of(crowd, partition.greedy(crowd[2], k)) for k in (2, 3, 5)}
    for k, remain in found.items():
        assert list(remain.by_level) == sorted(remain.by_level, reverse=True)
        by_chance = remain_of(crowd, group_baselines.random_groups(600, k, Noise.seeded(1)))
        assert all(ours > theirs + 0.05 for ours, theirs in zip(remain.pooled, by_chance.pooled, strict=True))
        # By users, random groups do as well at the top level for k = 5: there a large log covers small users whole.
        both = list(zip(remain.by_level, by_chance.by_level, strict=True))[0 if k < 5 else 1 :]
        assert all(ours > theirs + 0.03 for ours, theirs in both)
        assert all(share > 1 / k for share in remain.by_level)
    for level in range(5):
        assert found[2].by_level[level] > found[3].by_level[level] > found[5].by_level[level]


def test_five_categories_keep_more_than_one_at_deep_levels(crowd):
    log, many, _ = crowd
    few = Vocabulary.of(log.texts, load_classifier("wordnet"), categories=1, levels=5)
    one, five = ((log, vocabulary, vocabulary.profiles(log)) for vocabulary in (few, many))
    for k in (3, 5):
        by_one, by_five = (remain_of(world, partition.greedy(world[2], k)).by_level for world in (one, five))
        assert by_five[3] > by_one[3]
        assert by_five[4] > by_one[4]


@pytest.mark.data
def test_real_users_keep_more_than_one_kth_and_no_rare_text_is_published(shared_data):
    raw = pl.read_csv(shared_data / "aol/aol-1017-users.tsv.gz", separator="\t", quote_char=None, infer_schema=False)
    log = QueryLog(raw.select(user="AnonID", query="Query"))
    release = Microaggregate(k=3).protect(log, Noise.seeded(1))
    assert release_srp(log, release.log, release.members, load_classifier("wordnet")).by_level[0] > 1 / 3
    seen = attribution(log, release.log, release.owners)
    assert seen.texts_of_one_user == 0
    assert seen.largest_contributor_at_worst <= 1 / 3


def test_srp_of_a_safe_release_beats_one_kth_at_the_top():
    log = synth(users=200, records=10_000, seed=2)
    release = Microaggregate(k=3, k_text=3).protect(log, Noise.seeded(1))
    remain = release_srp(log, release.log, release.members, load_classifier("wordnet"))
    assert remain.by_level[0] > 1 / 3
    again = release_srp(log, release.log, members_by_owner(release.owners, release.log), load_classifier("wordnet"))
    assert again.by_level[0] == pytest.approx(remain.by_level[0], abs=0.02)

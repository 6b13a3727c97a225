"""Safe mode of sanitize: exact privacy of the selection, the law of what is kept, synthetic users."""

import math
from collections import Counter

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from mechanisms.exact_selection import distance
from properties import examples
from queryveil.errors import DataError
from queryveil.log import QueryLog
from queryveil.log.query_log import LocalTable
from queryveil.mechanisms.sanitize import Sanitize, safe, synthetic_users
from queryveil.mechanisms.sanitize.counts import ClickCounts
from queryveil.mechanisms.sanitize.selection import Selection, contributed, expected_kept
from queryveil.privacy import Noise, calibration
from queryveil.privacy.guarantee import COMPUTATIONAL, FIXED_PARAMETERS

ALPHA = 1e-6
KINDS = [Selection.gaussian, Selection.laplace, Selection.truncated_geometric]


# --- selection


@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
@pytest.mark.parametrize(("epsilon", "delta"), [(0.8, 1e-3), (2.0, 1e-6), (5.0, 0.01)])
@pytest.mark.parametrize(("contribution", "own"), [(1, 0), (1, 1), (2, 0), (2, 1), (2, 2)])
def test_two_neighbouring_logs_are_as_close_as_promised_by_enumeration(make, epsilon, delta, contribution, own):
    """All outcomes enumerated, both directions, with few, middling and many other people around the threshold."""
    selection = make(epsilon=epsilon, delta=delta, contribution=contribution)
    half = selection.half_kept
    for n in {1, half // 2, half - 1, half, 2 * half}:
        assert distance(selection, epsilon, others=[n] * (contribution - own), own=own) <= delta * (1 + 1e-9)


@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
@settings(max_examples=examples(30), deadline=None)
@given(epsilon=st.floats(0.1, 8), delta=st.sampled_from([1e-6, 1e-7, 1e-9]), contribution=st.integers(1, 40))
def test_a_pair_of_one_person_comes_out_with_probability_at_most_delta_over_2d_or_by_keys_alone_over_d(
    make, epsilon, delta, contribution
):
    selection = make(epsilon=epsilon, delta=delta, contribution=contribution)
    assert 0 < selection.keep_probability(1) <= delta / (contribution if selection.keys else 2 * contribution)


@pytest.mark.parametrize("make", KINDS, ids=lambda make: make.__name__)
def test_a_pair_of_one_person_comes_out_as_seldom_as_computed(make):
    """10^6 draws at a chance of 0.005, α = 1e-6: a rate 10 % too high is rejected with probability above 0.99."""
    selection = make(epsilon=1.0, delta=0.005 if make == Selection.truncated_geometric else 0.01, contribution=1)
    kept, _ = selection.apply(np.ones(10**6, dtype=np.int64), Noise.seeded(5).stream("one person"))
    chance = selection.keep_probability(1)
    assert chance <= 0.005
    assert stats.binomtest(int(kept.sum()), 10**6, chance).pvalue > ALPHA
    assert stats.binomtest(int(kept.sum()), 10**6, 0.0055, alternative="less").pvalue < ALPHA


def test_the_gaussian_loss_exceeds_epsilon_less_than_half_of_the_time():
    """The step of the proof from A to B: P(loss > ε − ln 1/(1−p)) ≤ 1 − p."""
    for epsilon in (0.01, 0.8, 2.0, 8.0):
        for contribution in (1, 5, 100):
            sigma = calibration.discrete_gaussian_sigma(epsilon=epsilon, delta=5e-7, keys=contribution)
            assert contribution / (2 * float(sigma) ** 2) < epsilon + math.log1p(-5e-7)


def test_the_noise_is_chosen_by_public_parameters_few_contributions_laplace_many_gaussian():
    for contribution, kind in ((1, "laplace"), (20, "gaussian"), (100, "gaussian")):
        assert Selection.best(epsilon=1.6, delta=1e-7, contribution=contribution, keys_only=False).kind == kind
    assert Selection.best(epsilon=1.6, delta=1e-7, contribution=1, keys_only=True).kind == "truncated geometric"
    assert Selection.best(epsilon=1.6, delta=1e-7, contribution=50, keys_only=True).kind == "gaussian"


def test_where_both_keep_half_of_the_pairs_of_ten_people_the_truncated_geometric_rule_is_taken_and_better_throughout():
    """At ε = 1.6 and δ = 1e-6: a pair of 9 people is kept with .454 by it, with .168 by Laplace's noise."""
    settings = {"epsilon": 1.6, "delta": 1e-6, "contribution": 1}
    keys, counts = Selection.truncated_geometric(**settings), Selection.laplace(**settings)
    assert keys.half_kept == counts.half_kept == 10
    assert Selection.best(**settings, keys_only=True) == keys
    assert all(keys.keep_probability(n) > counts.keep_probability(n) for n in range(2, 14))
    assert round(keys.keep_probability(9), 3) == 0.454 and round(counts.keep_probability(9), 3) == 0.168


@settings(max_examples=examples(50), deadline=None)
@given(st.lists(st.integers(0, 9), max_size=80), st.integers(1, 5), st.integers(0, 2**32))
def test_no_user_contributes_more_than_allowed_and_nobody_less_than_possible(users, contribution, seed):
    user = np.array(users, dtype=np.int64)
    kept = contributed(user, Noise.seeded(seed).stream("c"), contribution)
    has, gives = Counter(users), Counter(user[kept].tolist())
    assert all(gives[u] == min(n, contribution) for u, n in has.items())


def test_contributions_are_drawn_uniformly():
    """60,000 users with 3 pairs of which 1 is kept, α = 1e-6: a share of 1/3 off by 0.015 is rejected."""
    user = np.repeat(np.arange(60_000), 3)
    kept = contributed(user, Noise.seeded(2).stream("c"), 1).reshape(-1, 3).sum(axis=0)
    assert stats.chisquare(kept).pvalue > ALPHA
    assert stats.chisquare(kept, [20_900, 19_550, 19_550]).pvalue < ALPHA


# --- what is published


def one_pair_each(people: list[int]) -> pl.DataFrame:
    """A click table in which pair j has people[j] holders, each with that pair only."""
    pair = np.repeat(np.arange(len(people)), people)
    return pl.DataFrame(
        {
            "user": [f"u{k}" for k in range(len(pair))],
            "query": [f"query {j}" for j in pair],
            "url": [f"site{j}.example" for j in pair],
            "count": np.full(len(pair), 3),
        }
    )


@pytest.mark.parametrize("objective", ["size", "diversity"])
@pytest.mark.parametrize("contribution", [1, 20])
def test_as_many_pairs_are_kept_as_the_law_says(objective, contribution):
    """3,000 pairs around the threshold; within 4 standard deviations of Σ P(n_p + noise > T)."""
    selection = safe.rule(epsilon=2.0, delta=1e-7, contribution=contribution, objective=objective)
    people = np.random.default_rng(1).integers(1, 2 * selection.half_kept, 3000).tolist()
    published = safe.publish(
        LocalTable(one_pair_each(people)), Noise.seeded(9), epsilon=2.0, contribution=contribution, selection=selection
    )
    mean, variance = expected_kept(selection, people)
    assert abs(published.pairs.height - mean) <= 4 * math.sqrt(variance)
    assert mean > 500


def test_the_law_counts_people_after_the_contribution_bound():
    """Everybody holds the same 10 pairs and contributes 2: a pair has a fifth of the people, and few are kept."""
    rows = [(f"u{k}", f"q{j}", f"s{j}", 1) for k in range(100) for j in range(10)]
    clicks = pl.DataFrame(rows, schema=["user", "query", "url", "count"], orient="row")
    selection = Selection.laplace(epsilon=2.0, delta=1e-6, contribution=2)
    published = safe.publish(LocalTable(clicks), Noise.seeded(1), epsilon=2.0, contribution=2, selection=selection)
    assert np.abs(published.people - 20).max(initial=0) < 20
    many = safe.publish(LocalTable(clicks), Noise.seeded(1), epsilon=2.0, contribution=10, selection=selection)
    assert many.people.min() > 60


def busy_log(users: int = 4000, seed: int = 3) -> QueryLog:
    """Users with 1 to 6 of 40 popular pairs; half of them stay within one of four topics."""
    random = np.random.default_rng(seed)
    topics = ["garden tulip", "football goal", "chess opening", "train ticket"]
    rows = []
    for k in range(users):
        loyal, home = random.random() < 0.5, random.integers(4)
        for j in random.choice(10, size=random.integers(1, 7), replace=False):
            topic = home if loyal else random.integers(4)
            rows.append((f"user {k}", f"{topics[topic]} {j}", None, None, f"{topics[topic].split()[0]}.example"))
    return QueryLog.of(rows)


def test_synthetic_users_have_the_lengths_of_real_ones_within_the_noise():
    """Noise of scale 5 a cell: within 60 users of the true histogram in each cell (6 cells, α < 1e-4 by the tail), with
    the scaling to the noisy number of copies; the twin without a histogram (everybody length 1) is far off."""
    log = busy_log()
    release = Sanitize(epsilon=2.0, contribution=6, selection="capped").protect(log, Noise.seeded(4))
    pairs = release.log.frame.select("query", "url").unique()
    kept = log.frame.join(pairs, on=["query", "url"], how="semi").unique(["user", "query", "url"])
    true = np.bincount(kept.group_by("user").len()["len"].to_numpy(), minlength=7)[1:]
    made = np.bincount(release.log.frame.group_by("user").len()["len"].to_numpy(), minlength=7)[1:]
    scale = len(release.log) / kept.height
    assert abs(scale - 1) < 0.05
    assert np.abs(made - true * scale).max() < 60 * scale + 10
    everybody_one = np.array([len(release.log), 0, 0, 0, 0, 0])
    assert np.abs(everybody_one - true).max() > 1000


def test_synthetic_users_stay_with_topics_as_real_ones_do():
    """Half of the real users keep to one topic; dealing pairs out at random would leave a seventh of that."""
    log = busy_log()
    release = Sanitize(epsilon=4.0, contribution=6, selection="capped").protect(log, Noise.seeded(4))

    def same_topic(frame):
        words = frame.select("user", pl.col("query").str.split(" ").list.first().alias("topic"))
        users = words.group_by("user").agg(pl.col("topic").n_unique().alias("topics"), pl.len().alias("n"))
        return float((users.filter(pl.col("n") >= 3)["topics"] == 1).mean())

    shuffled = release.log.frame.with_columns(user=release.log.frame["user"].shuffle(seed=1))
    real, made, random = same_topic(log.frame), same_topic(release.log.frame), same_topic(shuffled)
    assert real > 0.45
    assert made > 2.5 * random
    assert random < 0.1


def test_no_synthetic_user_equals_a_real_one_more_often_than_chance():
    """Of synthetic users with at least 3 pairs, as many equal some real user as users of another log with the same law
    do: within 4 standard errors of the share among users dealt from fresh people (seeds 50 to 59)."""
    log = busy_log()
    release = Sanitize(epsilon=2.0, contribution=6, selection="capped").protect(log, Noise.seeded(4))

    def sets(frame):
        grouped = frame.unique(["user", "query"]).group_by("user").agg(pl.col("query").sort())
        return [tuple(q) for q in grouped["query"].to_list() if len(q) >= 3]

    real = set(sets(log.frame))
    made = sets(release.log.frame)
    equal = sum(s in real for s in made)
    fresh = [s for seed in range(50, 53) for s in sets(busy_log(seed=seed).frame)]
    chance = sum(s in real for s in fresh) / len(fresh)
    assert equal <= len(made) * chance + 4 * math.sqrt(len(made) * max(chance, 1e-3))
    copied = list(real)  # the broken twin: real users handed out
    assert sum(s in real for s in copied) > len(copied) * chance + 4 * math.sqrt(len(copied) * max(chance, 1e-3))


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.integers(0, 200), min_size=1, max_size=8), st.integers(0, 3000))
def test_lengths_add_up_to_the_copies(histogram, copies):
    lengths = synthetic_users.lengths_for(np.array(histogram), copies)
    assert lengths.sum() == copies
    assert len(lengths) == 0 or lengths.max() <= len(histogram) or sum(histogram) == 0


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.integers(1, 30), min_size=1, max_size=12), st.integers(0, 2**32), st.data())
def test_every_copy_is_dealt_out_once(copies, seed, data):
    topics = synthetic_users.TOPICS
    topic = np.array(data.draw(st.lists(st.integers(0, topics - 1), min_size=len(copies), max_size=len(copies))))
    histogram = np.array(data.draw(st.lists(st.integers(-5, 40), min_size=1, max_size=5)))
    meetings = np.array(data.draw(st.lists(st.integers(-5, 30), min_size=topics**2, max_size=topics**2)))
    dealt = synthetic_users.assemble(
        np.array(copies), topic, histogram, meetings.reshape(topics, topics), Noise.seeded(seed)
    )
    assert np.bincount(dealt.pair, minlength=len(copies)).tolist() == copies
    assert len(np.unique(dealt.user)) == dealt.users


def test_users_get_no_pair_twice_where_it_can_be_helped():
    release = Sanitize(epsilon=2.0, contribution=6, selection="capped").protect(busy_log(), Noise.seeded(4))
    assert release.log.frame.select("user", "query", "url").is_duplicated().sum() == 0


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=20), st.integers(0, 10**6))
def test_apportioning_is_exact_and_fair(weights, seats):
    given_out = synthetic_users.apportioned(np.array(weights), seats)
    if sum(weights):
        assert given_out.sum() == seats
        assert np.abs(given_out - np.array(weights) * seats / sum(weights)).max() < 1


# --- objectives as post-processing


def test_objectives_choose_counts_from_the_noisy_ones():
    people = np.array([500, 300, 150, 50])

    def copies(**settings_):
        return safe.copies_for(people, **({"objective": "size", "support": 0.1, "size": None} | settings_)).tolist()

    assert copies() == [500, 300, 150, 50]
    assert copies(objective="diversity") == [1, 1, 1, 1]
    assert copies(objective="frequent") == [500, 300, 150, 0]
    assert copies(objective="frequent", size=95) == [50, 30, 15, 0]
    with pytest.raises(DataError, match="1000 that the noisy counts allow"):
        copies(objective="frequent", size=1001)
    with pytest.raises(DataError, match="Lower support"):
        copies(objective="frequent", support=0.9)


def test_clicks_are_counted_once_per_user():
    """One user who clicks a pair a million times is one person."""
    clicks = one_pair_each([1]).with_columns(count=pl.lit(10**6))
    counts = ClickCounts.of(clicks)
    assert counts.total == 10**6
    selection = Selection.laplace(epsilon=2.0, delta=1e-6, contribution=1)
    published = safe.publish(LocalTable(clicks), Noise.seeded(1), epsilon=2.0, contribution=1, selection=selection)
    assert published.pairs.height == 0


def test_the_promise_says_that_it_is_computational_and_for_parameters_fixed_beforehand():
    assumed = Sanitize().guarantee().assumptions
    assert COMPUTATIONAL in assumed
    assert FIXED_PARAMETERS in assumed
    assert not {COMPUTATIONAL, FIXED_PARAMETERS} & set(Sanitize(mode="paper").guarantee().assumptions)

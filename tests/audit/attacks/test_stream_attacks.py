"""The attackers find what is there to find, and nothing in a safe stream."""

from math import comb, isnan

import numpy as np
import polars as pl
import pytest
from scipy import stats

from linked_repeats import linked_repeats, watched
from ordinary_log import standard_stream
from queryveil.audit.attacks.neighbours import repeated_texts, window_plurality
from queryveil.audit.attacks.profiles import halves, profile_linkage
from queryveil.audit.attacks.released_stream import ReleasedStream, cut_to_depth, numbered_paths
from queryveil.audit.attacks.rematching import repair
from queryveil.audit.finding import Success
from queryveil.errors import ParameterError
from queryveil.log import QueryLog
from queryveil.mechanisms.stream import Stream
from queryveil.privacy import Noise
from stream_survey import binomial_verdict, survey


def released(mode, k, depth=1, log=None, **given):
    made = Stream(
        **{"k": k, "depth": depth, "mode": mode, "k_text": 3, "window": 20_000, "category_column": "category"} | given
    )
    running = made.open(Noise.seeded(1))
    parts = [*running.push_with_owners(log if log is not None else STREAM), *running.finish_with_owners()]
    return ReleasedStream.of(parts), running


STREAM = standard_stream(records=60_000, users=600)
SMALL = standard_stream(records=6_000, users=80)


def test_the_stated_stream_has_bursts_and_personal_texts_that_come_back():
    frame = STREAM.frame
    personal = frame.filter(frame["query"].str.starts_with("own"))
    repeats = personal.group_by("query").agg(n=pl.len())
    assert 0.24 < personal.height / frame.height < 0.26
    assert repeats.filter(repeats["n"] >= 4)["n"].sum() / frame.height > 0.2
    same = (frame["user"][1:] == frame["user"][:-1]).mean()
    assert same > 10 / 600  # next to each other far more often than chance would have it
    assert len(STREAM) == 60_000


def test_in_paper_mode_repeated_personal_texts_are_re_attributed():
    stream, _ = released("paper", 3)
    found = repeated_texts(stream, depth=1)
    assert found.eligible > 500
    assert found.success.at_least > 0.6


@pytest.mark.parametrize(("k", "share"), [(3, 0.95), (10, 0.90), (30, 0.80)])
def test_a_safe_stream_holds_against_every_attacker_and_still_releases(k, share):
    # mix=1 shows the attackers the order of release, more than they see of a live stream
    made = Stream(k=k, depth=1, k_text=3, window=20_000, mix=1, category_column="category")
    running = made.open(Noise.seeded(1))
    parts = running.push_with_owners(STREAM)
    passed_the_window = len(STREAM) - running.suppressed - running.withheld
    parts += running.finish_with_owners()
    stream = ReleasedStream.of(parts)
    assert survey(parts, len(STREAM), stream).smallest_owners == k + 1
    for algorithm in ("simple", "full"):
        matched = repair(stream, k=k, depth=1, noise=Noise.seeded(2), algorithm=algorithm, owner_excluded=False)
        assert matched.at_most <= 1 / k
    assert all(found.at_most <= 1 / k for found in window_plurality(stream, depth=1, owner_excluded=False).values())
    assert repeated_texts(stream, depth=1).eligible == 0
    assert len(stream) / passed_the_window >= share


def test_in_paper_mode_the_window_attack_breaks_the_bound():
    for k in (3, 10, 30):
        stream, _ = released("paper", k)
        best = max(window_plurality(stream, depth=1, owner_excluded=True).values(), key=lambda found: found.share)
        assert best.at_least > 1 / k


def test_a_wrong_k_finds_less_and_a_wrong_depth_is_tried_as_told():
    stream, _ = released("paper", 3, log=SMALL, depth=2)
    right = repair(stream, k=3, depth=2, noise=Noise.seeded(1)).share
    assert repair(stream, k=30, depth=2, noise=Noise.seeded(1)).share < right / 2
    assert repair(stream, k=3, depth=1, noise=Noise.seeded(1)).share != right
    with pytest.raises(ParameterError, match="k must be"):
        repair(stream, k=1, depth=1, noise=Noise.seeded(1))


def test_repairing_matches_about_as_often_as_chance_in_an_even_pool():
    """Everybody has one record waiting; the re-pairing then finds about 1/k of the owners (n = 3,000)."""
    rows = [(f"u{i % 11}", f"q{i}", None) for i in range(3000)]
    made = Stream(k=10, depth=1, mode="paper", category_column="topic")
    log = QueryLog(QueryLog.of(rows).frame.with_columns(topic=pl.lit("t")))
    stream = ReleasedStream.of(made.open(Noise.seeded(1)).push_with_owners(log))
    matched = repair(stream, k=10, depth=1, noise=Noise.seeded(2))
    assert 0.05 < matched.share < 0.2


def window_by_hand(stream, window, owner_excluded):
    """A1 written plainly, for one category."""
    right = 0
    receivers = stream.receivers.tolist()
    for i, receiver in enumerate(receivers):
        low, high = max(0, i - window // 2), min(len(receivers), i + window - window // 2 + 1)
        near = [
            (j, receivers[j]) for j in range(low, high) if not owner_excluded or (receivers[j] != receiver and j != i)
        ]
        if near:
            users = {u for _, u in near}
            best = max(users, key=lambda u: (sum(v == u for _, v in near), -min(abs(j - i) for j, v in near if v == u)))
            tied = [
                u for u in users
                if (sum(v == u for _, v in near), min(abs(j - i) for j, v in near if v == u))
                == (sum(v == best for _, v in near), min(abs(j - i) for j, v in near if v == best))
            ]  # fmt: skip
            first = next(u for _, u in near if u in tied)
            right += first == stream.owners[i]
    return right


@pytest.mark.parametrize("owner_excluded", [True, False])
def test_the_window_attack_is_what_its_words_say(owner_excluded):
    dice = np.random.default_rng(3)
    people = [f"u{i}" for i in range(9)]
    rows = [(people[dice.integers(9)], people[dice.integers(9)], "t", "c") for _ in range(300)]
    stream = ReleasedStream.of_names(rows)
    for window, found in window_plurality(stream, depth=1, owner_excluded=owner_excluded).items():
        assert found.right == window_by_hand(stream, window, owner_excluded)


def test_exclusion_finds_an_owner_who_is_the_only_neighbour_that_never_receives():
    rows = []
    for turn in range(6):
        rows += [("owner", "x", f"noise {turn}", "c"), (f"other {turn}", "owner", "my text", "c")]
    found = repeated_texts(ReleasedStream.of_names(rows), depth=1)
    assert (found.eligible, found.right) == (1, 1)


def test_a_text_of_two_owners_or_three_releases_is_not_eligible():
    rows = [(f"r{i}", "o1" if i else "o2", "shared", "c") for i in range(6)] + [("r", "o", "short", "c")] * 3
    assert repeated_texts(ReleasedStream.of_names(rows), depth=1).eligible == 0


@pytest.mark.parametrize(
    ("k", "t", "found"),
    [
        (2, 1, 0.5),
        (2, 2, 0.75),
        (2, 5, 0.96875),
        (3, 1, 1 / 3),
        (3, 2, 4 / 9),
        (3, 5, 0.8065843621),
        (10, 20, 0.5426131344),
    ],
)
def test_excluding_t_receivers_finds_the_owner_as_often_as_computed(k, t, found):
    """k others receive t times, never the owner: the owner is guessed among those who never received."""
    chance = 0.0
    for hit in range(1, min(k, t) + 1):
        surjections = sum((-1) ** j * comb(hit, j) * (hit - j) ** t for j in range(hit + 1))
        chance += comb(k, hit) * surjections / k**t / (k + 1 - hit)
    assert chance == pytest.approx(found, abs=1e-9)


def test_profiles_are_linked_in_raw_and_by_epoch_and_at_chance_by_record():
    log = standard_stream(records=20_000, users=60)
    stream, _ = released("safe", 3, depth=2, log=log)
    linked = profile_linkage(stream.receivers, stream.at_depth(2), halves(len(stream)))
    raw = profile_linkage(stream.owners, stream.at_depth(2), halves(len(stream)))
    assert raw.share > 5 / raw.tried
    assert linked.share > 2 / linked.tried
    by_epoch = profile_linkage(stream.pseudonyms, stream.at_depth(2), halves(len(stream)))
    assert by_epoch.share > 2 / by_epoch.tried
    alone, _ = released("safe", 3, depth=2, log=log, pseudonym="record")
    assert len(alone) == len(stream)
    assert len(set(alone.pseudonyms.tolist())) == len(alone)
    # Every pseudonym is released once, so there is no profile to link: nothing measured, which is not "0 % linked".
    assert not profile_linkage(alone.pseudonyms, alone.at_depth(2), halves(len(alone)), at_least=1).measured
    shared, _ = released("safe", 3, depth=2, log=log, pseudonym="session", time="day")
    assert 100 < len(set(shared.pseudonyms.tolist())) < len(shared) / 2  # the same check sees pseudonyms that live on


def test_bounds_are_clopper_and_pearsons():
    success = Success(7, 50)
    interval = stats.binomtest(7, 50).proportion_ci(0.9, method="exact")
    assert (success.at_least, success.at_most) == (pytest.approx(interval.low), pytest.approx(interval.high))
    assert (Success(0, 5).share, Success(0, 5).at_least, Success(5, 5).at_most) == (0, 0, 1)
    nothing = Success(0, 0)
    assert (nothing.measured, nothing.at_most, isnan(nothing.share)) == (False, 1, True)
    assert binomial_verdict(nothing, 3) == "not measured"


def test_linked_repeats_guess_the_one_person_common_to_all_pools():
    rows = [
        ("x", "a", "t", "c"),
        ("x", "a", "t", "c"),
        ("x", "b", "u", "c"),
        ("x", "a", "u", "c"),
        ("y", "b", "t", "c"),
    ]
    stream = ReleasedStream.of_names(rows)
    a, b = stream.owners[0], stream.owners[2]
    both = [frozenset({a, b, -1}), frozenset({a, -2, -3})]
    assert linked_repeats(stream, [*both, *both, frozenset({b})]) == Success(
        1, 2
    )  # t is a's; u is half a's; y is alone
    assert linked_repeats(stream, [frozenset({a, b})] * 5) == Success(0, 0)


@pytest.mark.parametrize("given", [{}, {"strict": True}, {"depth": 2}, {"epoch": 2500, "cap": 1, "depth": 2}])
def test_watching_pools_changes_nothing_and_sees_every_owner_in_its_pool(given):
    made = Stream(**{"k": 3, "depth": 1, "k_text": 2, "category_column": "category"} | given)
    stream, pools = watched(made, SMALL, Noise.seeded(1))
    expected = ReleasedStream.of(made.observe(SMALL, Noise.seeded(1)))
    assert (stream.receivers == expected.receivers).all()
    assert (stream.owners == expected.owners).all()
    assert len(stream) == len(pools) > 1000
    assert all(owner in pool for owner, pool in zip(stream.owners.tolist(), pools, strict=True))
    told = np.concatenate([part.pool_owners for part in made.observe(SMALL, Noise.seeded(1))])
    assert [len(pool) for pool in pools] == told.tolist()
    assert watched(made, QueryLog(SMALL.frame.clear()), Noise.seeded(1))[1] == []


def test_a_path_of_a_thousand_levels_is_numbered():
    deep = ": ".join(f"level {i}" for i in range(1000))
    numbers, parents, depths = numbered_paths(pl.Series([deep, "level 0: other", deep, "level 0"]), ": ")
    assert depths[numbers].tolist() == [1000, 2, 1000, 1]
    assert parents[numbers[1]] == numbers[3]
    assert len(parents) == 1002


def test_categories_are_cut_on_the_tree():
    stream = ReleasedStream.of_names([("a", "b", "t", "x: y: z"), ("a", "b", "t", "x"), ("a", "b", "u", "x: y")])
    assert len(set(stream.at_depth(1).tolist())) == 1
    assert len(set(stream.at_depth(2).tolist())) == 2
    assert cut_to_depth(stream.parents, stream.depths, 3).tolist() == list(range(len(stream.parents)))
    assert len(ReleasedStream.of([])) == 0


def test_an_attack_on_nothing_finds_nothing():
    nothing = ReleasedStream.of_names([])
    assert repair(nothing, k=3, depth=1, noise=Noise.seeded(1)) == Success(0, 0)
    assert repeated_texts(nothing, depth=1).eligible == 0
    assert all(found.tried == 0 for found in window_plurality(nothing, depth=1, owner_excluded=True).values())

"""Comparing releases: fresh groups single people out, frozen groups never do."""

from collections import defaultdict

import numpy as np
import polars as pl
from hypothesis import given, settings
from hypothesis import strategies as st

from queryveil.audit.attacks.intersection import candidates, groups_by_log, intersect
from queryveil.errors import RefusedError
from queryveil.log import QueryLog
from queryveil.log.synthetic import synth
from queryveil.mechanisms.microaggregate import Microaggregate
from queryveil.privacy import Noise


def groups(**members):
    return pl.DataFrame({"user": list(members), "group": list(members.values())})


def test_candidates_share_every_group_and_every_absence():
    first = groups(a=1, b=1, c=1, d=2, e=2)
    second = groups(a=7, b=7, d=7, e=8)
    assert dict(candidates(first, second).iter_rows()) == {"a": 2, "b": 2, "c": 1, "d": 1, "e": 1}
    assert intersect(first, second).smallest == 1
    assert intersect(first, second).singled_out == 0.6


def test_one_release_leaves_the_whole_group():
    assert candidates(groups(a=1, b=1, c=1)).get_column("candidates").to_list() == [3, 3, 3]


def test_no_release_with_anybody_has_no_figures():
    assert intersect(groups().cast({"user": pl.String, "group": pl.Int64})).smallest == 0


@given(st.lists(st.dictionaries(st.sampled_from("abcdefgh"), st.integers(0, 2), min_size=1), min_size=1, max_size=3))
@settings(deadline=None)
def test_candidates_agree_with_plain_sets(releases):
    frames = [groups(**one) for one in releases]
    everybody = sorted(set().union(*releases))
    seen = defaultdict(set)
    for user in everybody:
        seen[tuple(one.get(user) for one in releases)].add(user)
    expected = {user: len(seen[tuple(one.get(user) for one in releases)]) for user in everybody}
    assert dict(candidates(*frames).iter_rows()) == expected


def weeks(count=4, users=90):
    """The same people in several logs, about one in ten away each time, some joining late."""
    log = synth(users=users, records=users * 60, seed=6)
    rng = np.random.default_rng(1)
    names = log.users().to_list()
    for week in range(count):
        joined = int(users * (0.5 + 0.5 * week / (count - 1)))
        away = {name for name in names[:joined] if rng.random() < 0.03} | set(names[joined:])
        start = week * len(log) // count
        yield QueryLog(log.frame[start : start + len(log) // count]).without_users(away)


def test_frozen_groups_never_leave_fewer_than_k_candidates_and_fresh_ones_do(tmp_path):
    k = 3
    outcome = {}
    for name, state in (("frozen", str(tmp_path / "groups.json")), ("fresh", None)):
        seen = []
        for week, log in enumerate(weeks()):
            try:
                release = Microaggregate(k=k, k_text=3, state=state).protect(log, Noise.seeded(week))
            except RefusedError:  # every group lacks somebody this week
                continue
            seen.append(release.members)
        assert len(seen) >= 3
        outcome[name] = intersect(*seen)
    assert outcome["frozen"].smallest >= k
    assert outcome["frozen"].singled_out == 0
    assert outcome["fresh"].smallest == 1
    assert outcome["fresh"].singled_out > 0.3


def test_identical_logs_are_the_groups_an_attacker_sees():
    log = synth(users=30, records=2000, seed=3)
    release = Microaggregate(k=3, k_text=3).protect(log, Noise.seeded(1))
    seen = groups_by_log(release.log, release.members)
    assert intersect(seen).smallest >= 3
    both = seen.join(release.members, on="user")
    assert both.group_by("group_right").agg(pl.col("group").n_unique())["group"].unique().to_list() == [1]

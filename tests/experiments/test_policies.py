"""Today's rules on a log, against plain counting."""

import datetime as dt
from collections import Counter, defaultdict
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queryveil.errors import ParameterError, UsageError
from queryveil.experiments.experiment import tried_rule
from queryveil.experiments.policies import RULES, Frequency, NoisyThreshold, UsersInWindow, make
from queryveil.log import QueryLog
from queryveil.log.synthetic import synth
from queryveil.privacy import Noise

START = dt.datetime(2026, 1, 1)
records = st.lists(
    st.tuples(st.sampled_from("uvwx"), st.sampled_from("abc"), st.integers(0, 40)), min_size=1, max_size=40
)


def log_of(rows):
    return QueryLog.of([(user, text, START + dt.timedelta(days=day)) for user, text, day in rows])


def told(rule, log):
    return Counter(rule.published(log, Noise.seeded(1)).queries())


@given(records, st.integers(1, 3), st.integers(1, 30), st.none() | st.integers(1, 30))
def test_users_in_a_window_is_what_walking_over_the_days_gives(rows, users, days, every):
    expected, first = Counter(), min(day for *_, day in rows)
    step = every or days
    for start in range(first, max(day for *_, day in rows) + 1, step):
        askers = defaultdict(set)
        for user, text, day in rows:
            if start + step - days <= day < start + step:
                askers[text].add(user)
        for _, text, day in rows:
            inside = max(start, start + step - days) <= day < start + step
            if inside and len(askers[text]) >= users:
                expected[text] += 1
    assert told(UsersInWindow(users=users, days=days, every=every), log_of(rows)) == expected


def test_a_log_without_times_is_one_window():
    log = QueryLog.of([("ann", "a"), ("bob", "a"), ("ann", "b")])
    assert told(UsersInWindow(users=2), log) == {"a": 2}


def test_one_person_alone_reaches_a_frequency_but_not_a_number_of_users():
    log = QueryLog.of([("ann", "my secret")] * 10)
    assert told(Frequency(k=10), log) == {"my secret": 10}
    assert told(UsersInWindow(users=2), log) == {}


@pytest.mark.parametrize("rule", [UsersInWindow(users=3), Frequency(k=3), NoisyThreshold(epsilon=50.0)])
def test_a_rule_publishes_no_user_no_time_and_no_click(rule):
    log = synth(users=400, records=9000)
    published = rule.published(log, Noise.seeded(1))
    assert len(published) > 0
    assert published.used_columns == ["user", "query"]
    assert published.user_count() == len(published)
    assert not set(published.users()) & set(log.users())


def test_the_noisy_threshold_keeps_what_many_asked_and_never_what_one_did():
    log = QueryLog.of([(f"u{i}", "weather") for i in range(500)] + [("ann", "my secret")] * 500)
    found = told(NoisyThreshold(epsilon=1.0, contribution=1), log)
    assert found.keys() == {"weather"}
    assert abs(found["weather"] - 500) < 60  # scale 1: beyond it with probability e^-60
    assert NoisyThreshold(epsilon=1.0, contribution=1).promise()["model"] == "approx-dp"


def test_a_user_contributes_at_most_so_many_texts_to_the_noisy_threshold():
    log = QueryLog.of([(f"u{i}", f"text {j}") for i in range(300) for j in range(10)])
    found = told(NoisyThreshold(epsilon=50.0, contribution=2), log)
    assert sum(found.values()) < 300 * 2 + 10 * 20


def test_rules_are_made_by_name_and_checked():
    assert make("frequency", k=3) == Frequency(k=3)
    with pytest.raises(UsageError, match="no rule of that name"):
        make("nonsense")
    with pytest.raises(ParameterError, match="no others"):
        make("frequency", users=3)
    for rule in RULES.values():
        for field in fields(rule):
            with pytest.raises(ParameterError):
                rule(**{field.name: float("nan")})


def test_a_rule_is_audited_as_a_release_without_people():
    log = synth(users=200, records=4000)
    published, audit = tried_rule(Frequency(k=5), log, Noise.seeded(1))
    rare = next(found for found in audit.findings if found.key == "rare-texts")
    assert 0 < rare.value < rare.raw
    assert not any(found.key.startswith("found-") for found in audit.findings)
    assert len(published) < len(log)

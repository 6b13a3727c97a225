"""Today's rules on a log, against plain counting."""

import datetime as dt
from collections import Counter, defaultdict
from dataclasses import fields

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queryveil.errors import ParameterError, UsageError
from queryveil.experiments.experiment import tried
from queryveil.experiments.policies import RELEASED, RULES, make, read
from queryveil.experiments.policies.commission import Commission
from queryveil.experiments.policies.console import Console
from queryveil.experiments.policies.counterproposal import Counterproposal
from queryveil.experiments.policies.frequency import Frequency
from queryveil.experiments.policies.licensing import Licensing
from queryveil.experiments.policies.noisy_threshold import NoisyThreshold
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
    return Counter(rule.protect(log, Noise.seeded(1)).log.queries())


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
    assert told(Console(users=users, days=days, every=every), log_of(rows)) == expected


def test_a_log_without_times_is_one_window():
    log = QueryLog.of([("ann", "a"), ("bob", "a"), ("ann", "b")])
    assert told(Console(users=2), log) == {"a": 2}


def test_one_person_alone_reaches_no_number_of_users():
    log = QueryLog.of([("ann", "my secret")] * 10)
    assert told(Frequency(k=2), log) == {}
    assert told(Console(users=2), log) == {}


@pytest.mark.parametrize("rule", [Console(users=3), Frequency(k=3), NoisyThreshold(epsilon=50.0)])
def test_a_rule_publishes_no_user_no_time_and_no_click(rule):
    log = synth(users=400, records=9000)
    published = rule.protect(log, Noise.seeded(1)).log
    assert len(published) > 0
    assert published.used_columns == ["user", "query"]
    assert published.user_count() == len(published)
    assert not set(published.users()) & set(log.users())


def test_the_noisy_threshold_keeps_what_many_asked_and_never_what_one_did():
    log = QueryLog.of([(f"u{i}", "weather") for i in range(500)] + [("ann", "my secret")] * 500)
    found = told(NoisyThreshold(epsilon=1.0, contribution=1), log)
    assert found.keys() == {"weather"}
    assert abs(found["weather"] - 500) < 60  # scale 1: beyond it with probability e^-60
    assert NoisyThreshold(epsilon=1.0, contribution=1).guarantee().model == "approx-dp"


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
    published, audit = tried(Frequency(k=2), log, Noise.seeded(1))
    rare = next(found for found in audit.findings if found.key == "rare-texts")
    assert 0 < rare.value < rare.raw
    assert not any(found.key.startswith("found-") for found in audit.findings)
    assert len(published) < len(log)


def day(number, **more):
    return START + dt.timedelta(days=number, **more)


def test_commission_keeps_common_entities_in_mini_sessions_under_fresh_names():
    log = QueryLog.of(
        [("ann", "red tulips", day(0, minutes=n)) for n in range(4)]
        + [
            ("bob", "tulips", day(0)),
            ("bob", "red", day(9)),
            ("bob", "red roses", day(9)),
            ("bob", "red red red", day(9)),
        ]
    )
    release = Commission(people_per_entity=2, words_per_query=2, records_per_session=3).protect(log, Noise.seeded(1))
    frame = release.log.frame.with_columns(owner=release.owners)
    minis = Counter((user, owner) for user, owner in frame.select("user", "owner").rows())
    assert sorted((owner, records) for (_, owner), records in minis.items()) == [
        ("ann", 1), ("ann", 3), ("bob", 1), ("bob", 1)
    ]  # fmt: skip
    assert "red roses" not in release.log.queries()
    assert frame["time"].null_count() == frame.height  # two people are fewer than a thousand


def test_commission_publishes_metadata_that_enough_people_share():
    log = QueryLog.of([(f"u{n}", "tulips", day(0, minutes=n)) for n in range(6)])
    log = QueryLog(log.frame.with_columns(country=pl.Series(["fr"] * 5 + ["de"]), secret=pl.lit("x")))
    release = Commission(people_per_entity=2, people_per_group=5).protect(log, Noise.seeded(1))
    assert sorted(release.log.frame["country"].to_list(), key=str) == [None, *["fr"] * 5]
    assert release.columns["country"].startswith("generalised") and "secret" not in release.log.frame.columns


def test_licensing_wants_enough_people_for_the_text_and_for_the_row():
    rows = [(f"u{n}", "weather", day(n), 1, "x.org") for n in range(3)] + [("u9", "weather", day(3), 1, "y.org")]
    log = QueryLog.of([*rows, *(("u1", "rash", day(n), 1, "z.org") for n in range(9))])
    published = Licensing(users=4, users_per_row=3).protect(log, Noise.seeded(1)).log
    assert published.frame.select("query", "url").rows() == [("weather", "x.org")] * 3
    assert len(Licensing(users=5, users_per_row=3).protect(log, Noise.seeded(1)).log) == 0


def test_licensing_counts_those_to_whom_a_result_was_shown_and_leaves_out_the_others():
    rows = [(f"u{n}", "weather", day(n), *((1, "x") if n == 0 else ())) for n in range(4)]
    rows += [("u9", "weather", day(4), 20, "deep"), ("u8", "weather", day(4))]
    shown = ['["x","a"]', '["x","b"]', '["x"]', '["c"]', '["x"]', None]
    log = QueryLog(QueryLog.of(rows).frame.with_columns(shown=pl.Series(shown)))
    published = Licensing(users=2, users_per_row=3).protect(log, Noise.seeded(1)).log
    # x was shown to four; c to one, the deep result to one, and nothing at all to one
    assert published.frame.select("url", "shown").rows() == [(None, '["x"]'), (None, '["x"]'), ("x", '["x"]')]
    everything = Licensing(users=1, users_per_row=1).protect(log, Noise.seeded(1)).log
    assert sorted(everything.frame["shown"], key=str) == sorted(shown, key=str)


@pytest.mark.parametrize("rule", [Commission(people_per_entity=1), Counterproposal()])
def test_results_shown_are_kept_with_their_query(rule):
    log = QueryLog(QueryLog.of([("ann", "tulips")]).frame.with_columns(shown=pl.lit('["x"]')))
    release = rule.protect(log, Noise.seeded(1))
    assert release.log.frame["shown"].to_list() == ['["x"]'] and release.columns["shown"] == "kept with its query"


def test_the_counterproposal_keeps_all_that_no_filter_finds_under_one_name_for_each_person():
    log = QueryLog.of([("ann", "tulips", day(0, hours=7)), ("ann", "ann@x.org", day(0)), ("bob", "my rash", day(1))])
    published = Counterproposal().protect(log, Noise.seeded(1)).log
    assert set(published.queries()) == {"tulips", "my rash"}
    assert published.user_count() == 2
    assert set(published.frame["time"]) == {day(0), day(1)}


@pytest.mark.parametrize("name", RELEASED)
def test_a_policy_calls_itself_a_rule_without_a_guarantee_and_says_what_is_assumed(name):
    rule = make(name)
    assert rule.mode == "rule"
    assert rule.guarantee().model == "none"
    assert "a rule, no guarantee" in rule.guarantee().statement()
    assumed = [field.name for field in fields(rule) if field.metadata.get("assumed")]
    assert rule.in_words().count("(assumed)") >= len(assumed)
    log = synth(users=60, records=900)
    release = rule.protect(log, Noise.seeded(1))
    assert not set(release.log.users()) & set(log.users())
    assert set(release.log.queries()) <= set(log.queries())


def test_a_policy_is_read_from_toml(tmp_path):
    file = tmp_path / "rule.toml"
    file.write_text('name = "commission"\npeople_per_entity = 7\n')
    assert read(file) == Commission(people_per_entity=7)
    for content, said in (("people = 7", "does not name a rule"), ("name =", "not TOML"), ('name = "x"', "no rule")):
        file.write_text(content)
        with pytest.raises(UsageError, match=said):
            read(file)
    with pytest.raises(UsageError, match="cannot read"):
        read(tmp_path / "none.toml")

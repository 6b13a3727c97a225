"""Statistics of a log: by hand on a toy, against a slow twin on random logs."""

import json
import math
from datetime import datetime
from itertools import combinations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from properties import examples
from queryveil.log import QueryLog, statistics
from queryveil.log.statistics import describe

TOY = QueryLog.of(
    [
        ("ann", "weather", datetime(2026, 3, 1, 12), 1, "http://a.example"),
        ("ann", "tulip bulbs", datetime(2026, 3, 1, 13)),
        ("ann", "tulip bulbs", datetime(2026, 3, 1, 13), 2),
        ("ann", "ann@example.org", datetime(2026, 3, 3)),
        ("bob", "weather", datetime(2026, 3, 2)),
        ("bob", "call 555-0123-45", datetime(2026, 3, 4)),
        ("cat", "weather", datetime(2026, 3, 2), None, "http://b.example"),
        ("dan", "weather"),
        ("dan", "map  of wales", datetime(2026, 3, 2)),
        ("eve", "map  of wales", datetime(2026, 3, 2)),
    ]
)


def test_the_toy_log_by_hand():
    seen = describe(TOY)
    assert (seen.records, seen.users, seen.texts) == (10, 5, 5)
    assert (seen.records_per_user_min, seen.records_per_user_max) == (1, 4)
    assert (seen.records_per_user_median, seen.records_per_user_mean) == (2, 2)
    assert seen.words_per_query == pytest.approx((1 + 2 + 2 + 1 + 1 + 2 + 1 + 1 + 3 + 3) / 10)
    assert seen.records_with_click == 0.3
    assert seen.days == 2.5
    assert seen.repeat_rate == 0.1
    assert seen.texts_of_one_user == 3 / 5
    assert seen.records_with_text_of_one_user == 4 / 10
    assert seen.users_with_text_of_their_own == 2 / 5
    # ann: 2 of her 3 texts, bob: 1 of 2; cat, dan and eve: none.
    assert seen.singled_out_by_1 == pytest.approx((2 / 3 + 1 / 2) / 5)
    # ann: all three pairs, bob and dan: their only pair; cat and eve have one text, which others asked too.
    assert seen.singled_out_by_2 == seen.singled_out_by_3 == pytest.approx(3 / 5)
    assert (seen.records_with_email, seen.records_with_long_number) == (1, 1)


def test_an_empty_log_has_counts_of_zero_and_nothing_else():
    seen = describe(QueryLog.empty()).as_dict()
    counts = {"records", "users", "texts", "records_with_email", "records_with_long_number"}
    assert {name for name, value in seen.items() if value == 0} == counts
    assert all(seen[name] is None for name in seen.keys() - counts)


def test_a_log_without_times_has_no_span():
    assert describe(QueryLog.of([("ann", "weather")])).days is None


def test_one_user_alone_is_always_singled_out():
    seen = describe(QueryLog.of([("ann", "weather"), ("ann", "weather")]))
    assert (seen.singled_out_by_1, seen.singled_out_by_2, seen.singled_out_by_3) == (1, 1, 1)


@pytest.mark.parametrize(
    ("query", "email", "number"),
    [
        ("write to a.b@example.org now", 1, 0),
        ("meet @ noon", 0, 0),
        ("a@b", 0, 0),
        ("1234567", 0, 1),
        ("123456", 0, 0),
        ("555-0123-45", 0, 1),
        ("2006 2007 2008", 0, 1),
        ("x00012345y a@b.c", 1, 1),
    ],
)
def test_mail_addresses_and_long_numbers_are_counted(query, email, number):
    seen = describe(QueryLog.of([("ann", query)]))
    assert (seen.records_with_email, seen.records_with_long_number) == (email, number)


def slow_statistics(rows: list[tuple[str, str]]) -> dict[str, float]:
    held: dict[str, set[str]] = {}
    for user, query in rows:
        held.setdefault(user, set()).add(query)
    askers = {query: [u for u in held if query in held[u]] for _, query in rows}
    own = {query for query in askers if len(askers[query]) == 1}

    def singled_out(user: str, m: int) -> float:
        choices = list(combinations(held[user], min(m, len(held[user]))))
        alone = [all(u == user or not set(choice) <= held[u] for u in held) for choice in choices]
        return sum(alone) / len(choices)

    return {
        "records": len(rows),
        "users": len(held),
        "texts": len(askers),
        "words_per_query": sum(len(query.split()) for _, query in rows) / len(rows),
        "repeat_rate": 1 - len(set(rows)) / len(rows),
        "texts_of_one_user": len(own) / len(askers),
        "records_with_text_of_one_user": sum(query in own for _, query in rows) / len(rows),
        "users_with_text_of_their_own": sum(bool(held[u] & own) for u in held) / len(held),
        **{f"singled_out_by_{m}": sum(singled_out(u, m) for u in held) / len(held) for m in (1, 2, 3)},
    }


@settings(max_examples=examples(150), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abcdefgh"), st.sampled_from(["p", "q", "r s", "t", "u v w"])), min_size=1),
    st.randoms(use_true_random=False),
)
def test_statistics_agree_with_a_slow_twin_in_any_row_order(rows, random):
    seen = describe(QueryLog.of(rows))
    expected = slow_statistics(rows)
    assert {name: seen.as_dict()[name] for name in expected} == pytest.approx(expected)
    assert describe(QueryLog.of(random.sample(rows, len(rows)))) == seen


def crowd(users: int, texts: int, records: int) -> QueryLog:
    # Two multipliers without a common factor deal the texts out evenly, so that nearly all have many askers.
    return QueryLog.of([(f"u{i * 7919 % users}", f"q{i * i % 10007 % texts}") for i in range(records)])


def test_sampled_choices_come_near_the_exact_share(monkeypatch):
    # n = 20,000 choices: six standard errors are 6 * 0.5 / sqrt(20,000) = 0.021, so a false alarm has probability below
    # 1e-6, and a bias of 0.03 in the choice of texts is caught.
    log = crowd(users=40, texts=60, records=900)
    exact = describe(log)
    monkeypatch.setattr(statistics, "MOST_CHOICES", 20_000)
    assert 0.05 < exact.singled_out_by_3 < 0.95
    choices = sum(math.comb(n, 3) for n in log.frame.group_by("user").agg(pl.col("query").n_unique())["query"])
    assert choices > 20_000, "else nothing is sampled"
    sampled = describe(log)
    assert sampled.singled_out_by_3 == pytest.approx(exact.singled_out_by_3, abs=0.021)
    monkeypatch.setattr(statistics, "mixed", lambda words, salt: words * 0)  # the broken twin: always the same texts
    assert describe(log).singled_out_by_3 != pytest.approx(exact.singled_out_by_3, abs=0.021)


def test_of_more_users_than_choices_some_are_asked(monkeypatch):
    # n = 2,000 of 3,000 users, one choice each: six standard errors are 6 * 0.5 / sqrt(2,000) = 0.067.
    log = crowd(users=3000, texts=900, records=9000)
    exact = describe(log)
    monkeypatch.setattr(statistics, "MOST_CHOICES", 2000)
    assert describe(log).singled_out_by_2 == pytest.approx(exact.singled_out_by_2, abs=0.067)
    assert describe(log).singled_out_by_1 == exact.singled_out_by_1


def test_texts_with_more_askers_than_one_look_are_searched_to_the_end():
    # 400 users all asked "both", half of them "left", half "right"; only zed asked "left" and "right", last in line.
    rows = [(f"u{i:03}", text) for i in range(400) for text in ("both", "left" if i < 200 else "right")]
    seen = describe(QueryLog.of([*rows, ("zed", "left"), ("zed", "right")]))
    assert seen.singled_out_by_2 == pytest.approx(1 / 401)


def test_the_block_size_changes_nothing(monkeypatch):
    log = crowd(users=100, texts=80, records=1500)
    whole = describe(log)
    monkeypatch.setattr(statistics, "_BLOCK", 1000)
    assert describe(log) == whole


def test_statistics_are_a_frame_and_json_and_hold_nothing_of_the_data():
    seen = describe(QueryLog.of([("canary-user", "canary-query", datetime(1999, 1, 2))]))
    assert json.loads(json.dumps(seen.as_dict())) == seen.as_dict()
    frame = seen.frame()
    assert frame.schema == {"statistic": pl.String, "value": pl.Float64}
    assert frame.filter(pl.col("statistic") == "records")["value"].to_list() == [1]
    for shown in (repr(seen), str(frame), json.dumps(seen.as_dict())):
        assert "canary" not in shown
        assert "1999" not in shown


def test_statistics_cannot_be_changed():
    with pytest.raises(AttributeError):
        describe(TOY).records = 3  # type: ignore[misc]

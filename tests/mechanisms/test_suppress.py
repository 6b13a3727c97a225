"""Suppress publishes what many people typed, and nothing that names somebody by itself."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostile_values import NOT_A_NUMBER
from queryveil.errors import ParameterError, RefusedError
from queryveil.log import QueryLog
from queryveil.mechanisms.suppress import Suppress
from queryveil.privacy import Noise

WHEN = datetime(2026, 3, 1, 12, 34, 56)


def released(rows, **parameters):
    return Suppress(**parameters).protect(QueryLog.of(rows), Noise.seeded(1))


def test_a_text_is_published_exactly_from_k_text_users_on():
    rows = [(f"u{i}", "two") for i in range(2)] + [(f"u{i}", "three") for i in range(3)]
    assert set(released(rows, k_text=3).log.queries()) == {"three"}
    assert set(released(rows, k_text=2).log.queries()) == {"two", "three"}
    assert len(released(rows, k_text=4).log) == 0


def test_one_user_repeating_a_text_does_not_make_it_common():
    assert len(released([("ann", "secret")] * 100, k_text=2).log) == 0


@pytest.mark.parametrize(
    "text",
    [
        "mail ann@example.org",
        "a@b.co",
        "call 555 123 4567",
        "ssn 078-05-1120",
        "card 4111-1111-1111-1111",
        "+49 (0)30 1234567",
        "http://ann:secret@example.org/x",
        "ftp://ann@example.org",
        "https://example.org/?token=abc",
        "https://example.org/?a=b&password=abc",
        "١٢٣٤٥٦٧٨",
        "555 - 123 - 4567",
        "555–123–4567",
        "4111,1111,1111,1111",
        "ann＠example.com",
        "ann @ example.com",
        "https://x.org/#access_token=abc",
        "https://x.org/a;jsessionid=abc",
        "https://x.org/?api-key=abc",
    ],
)
def test_identifying_texts_are_withheld_however_many_typed_them(text):
    rows = [(f"u{i}", text) for i in range(20)]
    assert len(released(rows, k_text=2).log) == 0
    assert len(released(rows, k_text=2, mode="paper").log) == 20


@pytest.mark.parametrize("text", ["weather 2026", "iphone 17", "rock @ ring", "http://example.org", "c# vs c++ 11 12"])
def test_ordinary_texts_are_not_mistaken_for_identifying_ones(text):
    assert len(released([(f"u{i}", text) for i in range(3)], k_text=2).log) == 3


def test_clicks_and_ranks_stay_only_where_enough_people_share_them():
    rows = [(f"u{i}", "news", WHEN, 1, "a.example") for i in range(3)]
    rows += [("u0", "news", WHEN, 7, "a.example"), ("u1", "news", WHEN, 1, "rare.example")]
    frame = released(rows, k_text=3).log.frame
    assert frame["url"].drop_nulls().to_list() == ["a.example"] * 4
    assert frame["rank"].drop_nulls().to_list() == [1] * 3
    assert len(frame) == 5


@pytest.mark.parametrize(
    ("time", "expected"),
    [("drop", None), ("day", datetime(2026, 3, 1)), ("hour", datetime(2026, 3, 1, 12))],
)
def test_times_are_coarsened_as_told(time, expected):
    rows = [("a", "x", WHEN), ("b", "x", WHEN)]
    assert set(released(rows, k_text=2, time=time).log.frame["time"]) == {expected}


def test_exact_times_are_refused_in_safe_mode_and_kept_in_paper_mode():
    with pytest.raises(RefusedError, match="single people out"):
        Suppress(time="keep")
    rows = [("a", "x", WHEN), ("b", "x", WHEN)]
    assert set(released(rows, k_text=2, time="keep", mode="paper").log.frame["time"]) == {WHEN}


def test_pseudonyms_are_one_to_one_and_owners_stay_behind():
    rows = [(f"u{i % 4}", f"q{i % 2}") for i in range(40)]
    release = released(rows, k_text=2)
    pairs = set(zip(release.log.frame["user"], release.owners, strict=True))
    assert len(pairs) == len({p for p, _ in pairs}) == len({o for _, o in pairs}) == 4


def test_a_second_release_of_the_same_log_shares_no_pseudonym():
    log = QueryLog.of([("a", "x"), ("b", "x")])
    first, second = (Suppress(k_text=2).protect(log, Noise.secure()).log for _ in range(2))
    assert not set(first.users()) & set(second.users())


def test_two_releases_show_what_somebody_asked_who_left_and_the_promise_says_so():
    rows = [(f"u{i}", "weather") for i in range(9)] + [(f"u{i}", "clinic") for i in (0, 1, 2, 3, 8)]
    before, after = (released(log) for log in (rows, [row for row in rows if row[0] != "u8"]))
    assert set(before.log.queries()) - set(after.log.queries()) == {"clinic"}
    for mode in ("safe", "paper"):
        told = Suppress(mode=mode).guarantee().statement()
        assert "which texts or labels appear or vanish when a person joins or leaves" in told
        assert "which fresh names of two releases stand for one person" in told


logs = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.sampled_from(["x", "y", "z", "ann@x.org", "1234567"])), max_size=60
)


@given(logs, st.integers(2, 6))
def test_the_release_agrees_with_plain_counting(rows, k_text):
    askers: dict[str, set[str]] = {}
    for user, query in rows:
        askers.setdefault(query, set()).add(user)
    expected = sorted(q for _, q in rows if len(askers[q]) >= k_text and q in "xyz")
    assert sorted(released(rows, k_text=k_text).log.queries()) == expected


@pytest.mark.parametrize("value", [*NOT_A_NUMBER, 0, 1, 2.0, 10**10])
def test_hostile_k_text_is_refused(value):
    with pytest.raises(ParameterError, match="k_text must be a whole number"):
        Suppress(k_text=value)


@pytest.mark.parametrize("value", ["week", "", None, 1, "DAY"])
def test_hostile_time_is_refused(value):
    with pytest.raises(ParameterError, match="time must be one of"):
        Suppress(time=value)

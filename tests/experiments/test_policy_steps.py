"""Each step of today's rules on queries made by hand."""

import datetime as dt
import itertools
import sys
from collections import defaultdict

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queryveil.errors import UsageError
from queryveil.experiments.policies.detectors import USUAL, Address, Mail, Number, detect, load
from queryveil.experiments.policies.library_detectors import Name, Phone
from queryveil.experiments.policies.steps import (
    LADDER,
    MINI_SESSION,
    allowlist,
    cut_sessions,
    generalise,
    identified,
    limit,
    resolve,
    round_times,
    shared,
    shared_in_window,
    without_identifiers,
)
from queryveil.log import QueryLog
from queryveil.log.synthetic import planted

START = dt.datetime(2026, 1, 1, 9, 30)


def rows(*records):
    return QueryLog.of(records).frame


def entities(text):
    return set(resolve(pl.Series([text]))["entity"])


@pytest.mark.parametrize(
    ("text", "kind", "standard"),
    [
        ("write to Ann.Lee@Example.ORG now", "mail", "ann.lee@example.org"),
        ("who calls from (555) 123-4567", "number", "5551234567"),
        ("account 0001 2345 6789", "number", "000123456789"),
        ("12  Oak Hill Road springfield", "address", "12 oak hill road"),
    ],
)
def test_detect_finds_an_identifier_and_its_standard_form(text, kind, standard):
    assert [(one.kind, one.standard) for one in detect(text, USUAL)] == [(kind, standard)]


@pytest.mark.parametrize("text", ["tulip bulbs", "windows 11", "2026 world cup", "30 days of night", "@ the beach"])
def test_detect_finds_nothing_in_ordinary_queries(text):
    assert detect(text, USUAL) == []


def test_the_languages_of_addresses_are_an_option():
    assert detect("hauptstraße 12", [Address()]) == []
    assert [one.standard for one in detect("Hauptstraße 12", [Address(("en", "de"))])] == ["hauptstrasse 12"]
    assert [one.standard for one in detect("5 rue des lilas", [Address(("fr",))])] == ["5 rue des lilas"]


def test_of_two_identifiers_that_overlap_the_earlier_detector_has_its_way():
    assert [one.kind for one in detect("5551234567@example.org", [Mail(), Number()])] == ["mail"]
    assert [one.kind for one in detect("5551234567@example.org", [Number(), Mail()])] == ["number"]


def test_every_detector_is_hinted_at_where_it_finds_something():
    texts = ["ann@x.org", "555 123 4567", "12 oak road", "Hauptstraße 12", "5 rue des lilas", "tulips"]
    every = [Mail(), Number(), Address(("en", "de", "fr"))]
    assert identified(pl.Series(texts), every).keys() == {text for text in texts if detect(text, every)}
    assert len(identified(pl.Series(texts), every)) == 5


def test_resolve_gives_words_in_lower_case_and_identifiers_in_standard_form():
    assert entities("Cheap FLIGHTS cheap") == {"cheap", "flights"}
    assert entities("call 555-123-4567") == {"call", "number:5551234567"}
    assert entities("ANN@x.org ann") == {"mail:ann@x.org", "ann"}
    assert entities("!!") == {"!!"}


def test_two_ways_to_write_a_number_are_one_entity():
    log = rows(("ann", "555 123 4567"), ("bob", "555-123-4567"), ("cleo", "555 999 4567"))
    assert allowlist(log, people=2)["query"].to_list() == ["555 123 4567", "555-123-4567"]


def test_the_allowlist_wants_every_entity_and_counts_people_not_records():
    log = rows(("ann", "red tulips"), ("bob", "tulips"), ("bob", "red"), ("ann", "rash"), ("ann", "rash cream"))
    assert allowlist(log, people=2)["query"].to_list() == ["red tulips", "tulips", "red"]
    assert allowlist(log, people=1).equals(log)
    assert allowlist(log, people=3).height == 0


@given(st.lists(st.tuples(st.sampled_from("uvw"), st.sampled_from(["a", "b", "a b", "c", "b c"])), min_size=1))
def test_the_allowlist_is_what_plain_counting_gives(records):
    users = defaultdict(set)
    for user, text in records:
        for word in text.split():
            users[word].add(user)
    expected = [text for _, text in records if all(len(users[word]) >= 2 for word in text.split())]
    assert allowlist(rows(*records), people=2)["query"].to_list() == expected


def test_limit_counts_words():
    log = rows(("ann", "one two three"), ("ann", "one-two three, four"), ("ann", "one"))
    assert limit(log, words=3)["query"].to_list() == ["one two three", "one"]


def test_texts_with_identifiers_are_left_out_whole():
    log = rows(("ann", "tulips"), ("ann", "mail ann@x.org"), ("bob", "12 oak road"))
    assert without_identifiers(log)["query"].to_list() == ["tulips"]
    assert without_identifiers(log, detectors=[Mail()])["query"].to_list() == ["tulips", "12 oak road"]


def test_shared_wants_enough_people():
    log = rows(("ann", "a"), ("bob", "a"), ("ann", "b"), ("ann", "b"))
    assert shared(log, "query", users=2)["query"].to_list() == ["a", "a"]


def test_a_row_without_a_click_is_a_row_too():
    log = rows(("ann", "a", START), ("bob", "a", START), ("bob", "a", START, 1, "x.org"))
    assert shared_in_window(log, "query", "url", users=2, days=9)["url"].to_list() == [None, None]


def table(*records):
    return pl.DataFrame(
        records, schema={"user": pl.String, "country": pl.String, "device": pl.String, "time": pl.Datetime("us")},
        orient="row",
    )  # fmt: skip


def test_generalise_keeps_what_enough_people_share_and_coarsens_the_rest():
    log = table(
        ("ann", "fr", "phone", START),
        ("bob", "fr", "phone", START + dt.timedelta(minutes=20)),
        ("cleo", "fr", "desk", START),
        ("dora", "fr", "watch", START + dt.timedelta(hours=5)),
        ("emil", "de", "phone", START + dt.timedelta(days=3)),
    )
    day = START.replace(hour=0, minute=0)
    assert generalise(log, people=2).rows() == [
        ("ann", "fr", "phone", START.replace(minute=0)),
        ("bob", "fr", "phone", START.replace(minute=0)),
        ("cleo", "fr", None, day),
        ("dora", "fr", None, day),
        ("emil", None, None, None),
    ]


@given(
    st.lists(
        st.tuples(st.sampled_from("uvwxyz"), st.sampled_from(["fr", "de", None]), st.sampled_from(["p", "d"]),
                  st.integers(0, 60).map(lambda hour: START + dt.timedelta(hours=hour))), min_size=1, max_size=40
    ),
    st.integers(1, 4),
)  # fmt: skip
def test_after_generalising_every_combination_has_enough_people(records, people):
    made = generalise(table(*records), people=people)
    assert made["user"].to_list() == [user for user, *_ in records]
    groups = defaultdict(set)
    for user, *combination in made.rows():
        groups[tuple(combination)].add(user)
    groups.pop((None, None, None), None)
    assert all(len(users) >= people for users in groups.values())


def test_the_ladder_only_goes_down():
    finer = [level - {"hour", "day"} for level in LADDER]
    assert all(lower <= upper for upper, lower in itertools.pairwise(finer))


def test_sessions_are_cut_after_so_many_records_and_at_pauses():
    def at(minutes):
        return START + dt.timedelta(minutes=minutes)

    log = rows(
        *[("ann", f"a{n}", at(n)) for n in range(4)],
        ("ann", "a4", at(60)),  # after a pause
        ("bob", "b0", at(0)),
        ("bob", "b1", at(1), None, None, "s2"),  # another session of the log's own
    )
    cut = cut_sessions(log, records=3)
    minis = defaultdict(list)
    for query, mini in cut.select("query", MINI_SESSION).rows():
        minis[mini].append(query)
    assert list(minis.values()) == [["a0", "a1", "a2"], ["a3"], ["a4"], ["b0"], ["b1"]]


def test_without_times_a_session_is_what_the_log_says():
    log = rows(("ann", "a"), ("bob", "b"), ("ann", "c"))
    cut = cut_sessions(log, records=3)
    assert cut.group_by(MINI_SESSION).len().height == 2


def test_times_are_rounded_down():
    log = rows(("ann", "a", dt.datetime(2026, 5, 4, 23, 59)), ("ann", "b"))
    assert round_times(log, hours=24)["time"].to_list() == [dt.datetime(2026, 5, 4), None]


def test_libraries_give_one_form_to_a_number_however_it_is_written():
    pytest.importorskip("phonenumbers", reason="no libraries: install queryveil[detectors]")
    usual, libraries = load("patterns"), load("libraries")
    ways = ["(303) 555 0151", "+1 303 555 0151", "303-555-0151"]
    assert {detect(way, libraries)[0].standard for way in ways} == {"+13035550151"}
    assert len({detect(way, usual)[0].standard for way in ways}) == 2
    assert [one.kind for one in detect("020 7946 0018", libraries)] == ["phone"]  # of London, set aside for fiction


def test_libraries_know_check_digits():
    pytest.importorskip("stdnum", reason="no libraries: install queryveil[detectors]")
    found = detect("iban GB82 WEST 1234 5698 7654 32 please", load("libraries"))
    assert [(one.kind, one.standard) for one in found] == [("checked number", "GB82WEST12345698765432")]
    wrong = detect("iban GB83 WEST 1234 5698 7654 32", load("libraries"))
    assert "checked number" not in {one.kind for one in wrong}


def test_without_the_libraries_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "phonenumbers", None)
    with pytest.raises(UsageError, match=r"queryveil\[detectors\]"):
        detect("303-555-0151", [Phone()])


def test_identifiers_planted_in_a_synthetic_log_are_found_and_names_are_not():
    known = planted(users=600, records=20_000)
    found = pl.Series(list(identified(known["query"])), dtype=pl.String)
    hit = pl.col("query").is_in(found.implode()).mean().alias("hit")
    recall = dict(known.group_by("kind").agg(hit).rows())
    assert {kind: recall[kind] for kind in ("mail", "number", "address", "phone")} == dict.fromkeys(
        ("mail", "number", "address", "phone"), 1.0
    )
    assert recall["name"] == recall["rare name"] == 0.0
    assert recall[None] == 0.0


def test_numbers_of_books_and_what_numbers_count_identify_nobody():
    assert detect("isbn 978-0-306-40615-7 and 9790306406157", USUAL) == []
    assert detect("24 hour pharmacy drive, 4 wheel drive, 10 year old way", USUAL) == []
    assert [one.kind for one in detect("97803064061577 at 24 hourglass drive", USUAL)] == ["number", "address"]


def test_lists_find_a_frequent_given_name_before_a_frequent_family_name():
    pytest.importorskip("faker", reason="no libraries: install queryveil[detectors]")
    names = [Name(("en",))]
    for text in ("mary smith dentist", "MARY A. Smith", "is mary  j smith"):
        assert [one.standard for one in detect(text, names)] == ["mary smith"]
    for text in ("mary", "smith mary's", "mary had smith", "mary torvane", "smith", "marysmith", ""):
        assert detect(text, names) == []
    assert detect("jürgen schmidt", names) == []
    assert [one.standard for one in detect("Jürgen Schmidt", [Name(("en", "de"))])] == ["jürgen schmidt"]


def test_a_name_is_one_entity_so_that_its_words_alone_do_not_let_it_pass():
    pytest.importorskip("faker", reason="no libraries: install queryveil[detectors]")
    log = rows(("ann", "mary smith"), *((who, text) for who in ("bob", "eve") for text in ("mary", "smith")))
    assert "mary smith" in allowlist(log, people=2)["query"].to_list()
    assert "mary smith" not in allowlist(log, people=2, detectors=[Name()])["query"].to_list()

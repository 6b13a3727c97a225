"""A log as arrays: texts, words, sessions, steps, hours and clicks."""

from datetime import datetime, timedelta

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from queryveil.audit.held_out.searches import (
    COARSE,
    FINE,
    Searches,
    class_count,
    classes,
    other_word,
    start_of_text,
    vocabulary,
    word_numbers,
)
from queryveil.audit.held_out.word_model import Pairs
from queryveil.log import QueryLog

START = datetime(2026, 3, 1, 10, 0, 5)


def at(minutes):
    return START + timedelta(minutes=minutes)


def named(searches, texts):
    return [searches.names[int(text)] for text in texts]


def test_a_text_that_is_typed_in_other_ways_or_again_counts_once():
    searches = Searches(
        QueryLog.of([("ann", "New  York"), ("ann", "new york"), ("ann", "ＮＥＷ york "), ("bob", "york")])
    )
    assert searches.names.to_list() == ["new york", "york"]
    assert [column.tolist() for column in searches.asked] == [[0, 1], [0, 1]]


def test_words_stand_with_the_word_before_and_strange_ones_are_one_word():
    searches = Searches(QueryLog.of([("ann", "new york"), ("bob", "xqzzyk new?"), ("bob", "!!")]))
    new, york = (vocabulary().number(word) for word in ("new", "york"))
    assert searches.words.person.tolist() == [0, 0, 1, 1]
    assert searches.words.word.tolist() == [new, york, other_word(), new]
    assert searches.words.before.tolist() == [start_of_text(), new, start_of_text(), other_word()]


def test_the_class_of_a_text_is_that_of_its_rarest_known_word():
    searches = Searches(QueryLog.of([("ann", "the paris"), ("ann", "paris"), ("ann", "xqzzyk")]))
    known = dict(zip(searches.names, searches.class_of_texts(FINE).tolist(), strict=True))
    assert known["the paris"] == known["paris"] == classes(FINE)[vocabulary().number("paris")]
    assert known["xqzzyk"] == -1
    assert classes(COARSE).max() == class_count(COARSE) - 1


def test_a_step_leads_to_another_text_in_the_same_session():
    log = QueryLog.of([("ann", "a", at(0)), ("ann", "a", at(1)), ("ann", "b", at(2)), ("ann", "c", at(40)),
                       ("bob", "d", at(41))])  # fmt: skip
    searches = Searches(log)
    assert named(searches, searches.steps.text) == ["a"] and named(searches, searches.steps.next) == ["b"]
    assert [column.tolist() for column in searches.session_lengths] == [[0, 0, 1], [2, 1, 1]]


def test_a_session_is_what_the_log_says_a_day_or_the_whole_user():
    told = pl.DataFrame({"user": ["u"] * 3, "query": ["a", "b", "c"], "session": ["1", "2", "2"]})
    assert Searches(QueryLog(told)).session_lengths[1].tolist() == [1, 2]
    day = datetime(2026, 3, 1)
    cut = QueryLog.of([("u", "a", day), ("u", "b", day), ("u", "c", day + timedelta(days=1))])
    assert Searches(cut).session_lengths[1].tolist() == [2, 1]
    assert Searches(QueryLog.of([("u", "a"), ("u", "b"), ("v", "c")])).session_lengths[1].tolist() == [2, 1]


def test_hours_are_known_only_where_times_tell_them():
    assert Searches(QueryLog.of([("u", "a", at(0)), ("u", "b", at(130))])).hours[1].tolist() == [10, 12]
    day = datetime(2026, 3, 1)
    for log in (QueryLog.of([("u", "a", day)]), QueryLog.of([("u", "a")])):
        assert not Searches(log).tells_hours


def test_clicks_count_hosts_once_for_a_person_and_a_text():
    urls = ["http://www.Example.org/a", "https://example.org/b", "doc17", None]
    log = QueryLog(pl.DataFrame({"user": ["u"] * 4, "query": ["paris"] * 4, "url": urls}))
    clicks = Searches(log).clicks
    assert clicks["host"].to_list() == ["doc17", "example.org"]
    assert clicks["class"].to_list() == [classes(COARSE)[vocabulary().number("paris")]] * 2


def test_an_empty_log_has_nothing():
    searches = Searches(QueryLog.of([("u", "a")]))
    searches = Searches(QueryLog(searches.log.frame.clear()))
    assert searches.people == 0 and not len(searches.words.word) and not len(searches.steps.text)
    assert not len(searches.session_lengths[0]) and not len(searches.hours[0]) and searches.clicks.is_empty()


@pytest.mark.parametrize("word", ["the", "paris", "zzzzqq"])
def test_numbers_of_words_are_those_of_the_vocabulary(word):
    [number] = word_numbers(pl.Series([word]))
    assert number == (vocabulary().number(word) if vocabulary().number(word) >= 0 else other_word())


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 8)), max_size=30))
def test_pairs_are_shares_of_what_follows_a_word(pairs):
    first, second = (np.array([pair[side] for pair in pairs], np.int64) for side in (0, 1))
    found = Pairs.of(first, second, np.ones(len(pairs)))
    for before in range(6):
        of = sum(pair[0] == before for pair in pairs)
        expected = [pairs.count((before, word)) / max(1, of) for word in range(10)]
        assert np.allclose(found.shares(np.full(10, before), np.arange(10)), expected)
        assert found.listed(np.array([before]))[0] == (of > 0)

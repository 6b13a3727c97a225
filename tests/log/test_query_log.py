"""The table itself: canonical columns, views, equality, and silence about its rows."""

from __future__ import annotations

import datetime as dt

import polars as pl
import pytest
from hypothesis import given

from hostile import logs
from queryveil.errors import DataError
from queryveil.log import COLUMNS, QueryLog
from queryveil.log.query_log import exactly
from queryveil.log.shown import as_text, is_no_list

NOON = dt.datetime(2006, 3, 1, 12)
LOG = QueryLog.of(
    [
        ("bob", "tulips", NOON, 2, "http://a", "s1"),
        ("ann", "roses", NOON.replace(hour=9)),
        ("bob", "tulips", NOON, 2, "http://a", "s1"),
        ("bob", "bulbs", NOON.replace(hour=8), 1, "http://b"),
    ]
)


def test_every_log_has_the_canonical_columns_first_and_in_order():
    frame = pl.DataFrame({"shop": ["x"], "query": ["tulips"], "user": ["ann"]})
    log = QueryLog(frame)
    assert dict(log.frame.schema) == {**COLUMNS, "shop": pl.String()}
    assert log.extra_columns == ["shop"]
    assert log.used_columns == ["user", "query", "shop"]


def test_repr_counts_and_shows_no_row():
    assert repr(LOG) == "QueryLog(4 records, 2 users)"


def test_clicks_count_each_user_query_and_url():
    assert LOG.clicks().rows() == [("bob", "bulbs", "http://b", 1), ("bob", "tulips", "http://a", 2)]


def test_by_user_lists_queries_in_time_order():
    assert LOG.by_user().rows() == [("ann", ["roses"], 1), ("bob", ["bulbs", "tulips", "tulips"], 3)]


def test_users_are_distinct_and_sorted():
    assert LOG.users().to_list() == ["ann", "bob"]
    assert LOG.user_count() == 2


def test_excluded_users_leave_no_record():
    assert LOG.without_users({"bob", "nobody"}).queries() == ["roses"]


def test_an_empty_log_has_no_users():
    assert len(QueryLog.empty()) == QueryLog.empty().user_count() == 0


def test_logs_are_equal_by_content_with_null_equal_to_null():
    assert QueryLog(LOG.frame.clone()) == LOG
    assert LOG.without_users(["ann"]) != LOG
    assert LOG != "a log"


def test_empty_text_and_null_mean_the_same_outside_user_and_query():
    frame = pl.DataFrame({"user": ["ann"], "query": ["x"], "url": [""], "session": [""], "shop": [""]})
    assert QueryLog(frame).frame.row(0) == ("ann", "x", None, None, None, None, None)


def test_whole_number_users_become_text():
    assert QueryLog(pl.DataFrame({"user": [7], "query": ["x"]})).frame["user"].to_list() == ["7"]


@pytest.mark.parametrize("column", ["user", "query"])
@pytest.mark.parametrize("nothing", ["", None])
def test_an_empty_user_or_query_is_refused_by_row_number(column, nothing):
    frame = pl.DataFrame({"user": ["canary", "canary"], "query": ["canary", "canary"]})
    frame = frame.with_columns(pl.Series(column, ["canary", nothing]))
    with pytest.raises(DataError, match=f"row 2: {column} is empty") as caught:
        QueryLog(frame)
    assert "canary" not in str(caught.value)


def test_a_missing_column_is_named():
    with pytest.raises(DataError, match="missing: user"):
        QueryLog(pl.DataFrame({"query": ["canary"]}))


@pytest.mark.parametrize(
    "row", [(b"canary", "x"), ("canary", ["x"]), ("canary", "x", "noon"), ("canary", "x", None, -1), ("canary",) * 7]
)
def test_values_of_the_wrong_type_are_refused_without_showing_them(row):
    with pytest.raises(DataError) as caught:
        QueryLog.of([row])
    assert "canary" not in str(caught.value)


def test_a_frame_of_the_wrong_types_is_refused_without_showing_it():
    with pytest.raises(DataError, match="cannot read rank") as caught:
        QueryLog(pl.DataFrame({"user": ["ann"], "query": ["x"], "rank": ["canary"]}))
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("name", ["*", "^.*$", "^user$", "plain", "$^", "^a\n{$"])
def test_exactly_finds_the_column_of_that_very_name(name):
    frame = pl.DataFrame({"user": ["ann"], "query": ["x"], name: ["here"]})
    assert frame.select(exactly(name)).rows() == [("here",)]
    assert QueryLog(frame).frame[name].to_list() == ["here"]


@given(logs(extras=True))
def test_wrapping_a_log_again_changes_nothing(log):
    assert QueryLog(log.frame) == log


def test_a_list_of_results_shown_becomes_the_text_that_all_formats_carry():
    lists = [["http://a", 'b "c"\n\x01 дом'], [], None, [None, "x"]]
    frame = pl.DataFrame({"user": "u", "query": "q", "shown": pl.Series(lists, dtype=pl.List(pl.String))})
    texts = QueryLog(frame).frame["shown"]
    assert texts.to_list() == [as_text(lists[0]), "[]", None, '["x"]']
    assert not texts.to_frame().select(is_no_list())["shown"].any()
    assert QueryLog(frame).frame.select(is_no_list("query"))["query"].all()

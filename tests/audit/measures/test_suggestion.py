"""Which next queries a release still suggests."""

from datetime import datetime, timedelta

import numpy as np
import pytest

from queryveil.audit.measures.suggestion import followers, top_followers_kept
from queryveil.log import QueryLog

START = datetime(2026, 3, 1, 10, 0, 5)


def sessions(*texts, users=6, gap=1, who="u"):
    return QueryLog.of(
        [(f"{who}{u}", text, START + timedelta(minutes=gap * i)) for u in range(users) for i, text in enumerate(texts)]
    )


def test_followers_are_next_records_of_the_same_user_in_the_same_session():
    found = followers(sessions("a", "b", "b", "c"))
    assert sorted(found.rows()) == [("a", "b", 6), ("b", "c", 6)]
    assert followers(sessions("a", "b", gap=31)).is_empty()


def test_times_cut_to_the_day_make_a_day_one_session_and_none_the_whole_user():
    day = datetime(2026, 3, 1)
    cut = QueryLog.of([("u", "a", day), ("u", "b", day), ("u", "c", day + timedelta(days=1))])
    assert sorted(followers(cut).rows()) == [("a", "b", 1)]
    none = QueryLog.of([("u", "a"), ("u", "b"), ("v", "c")])
    assert sorted(followers(none).rows()) == [("a", "b", 1)]


def test_the_share_kept_is_that_of_the_raw_logs_first_suggestions():
    raw = QueryLog.of(sessions("a", "b").frame.rows() + sessions("a", "c", users=9, who="v").frame.rows())
    half = sessions("a", "c", users=2)
    assert top_followers_kept(raw, raw).share == 1
    assert top_followers_kept(raw, half).by_query.tolist() == [0.5]
    assert top_followers_kept(raw, sessions("x", "y")).share == 0
    assert np.isnan(top_followers_kept(half, half).share)  # two followers are too few


def test_popularity_alone_is_the_chance():
    raw = QueryLog.of(sessions("a", "b").frame.rows() + [(f"w{i}", "b", START) for i in range(20)])
    found = top_followers_kept(raw, QueryLog.empty(), suggested=1)
    assert found.chance == pytest.approx(1.0)  # b follows a, and is the most asked
    assert found.share == 0

"""What lies in the order in which it was asked or numbered is told, and what is shuffled is not."""

from datetime import datetime, timedelta

import polars as pl

from queryveil.audit.attacks.columns import finer_than_told
from queryveil.audit.attacks.order import in_order_asked, shared_with_next
from queryveil.audit.attacks.residue import Residue, rare_ranks
from queryveil.audit.both_logs import both_logs
from queryveil.audit.finding import Success
from queryveil.log import QueryLog
from queryveil.privacy import Noise

DAY = datetime(2026, 3, 1)


def shown_in(order, names):
    """Records of one person, a text each, in an order."""
    return pl.DataFrame({"user": ["ann"] * len(order), "query": [f"q{at}" for at in order], "name": names,
                         "time": [DAY] * len(order)})  # fmt: skip


def test_neighbours_are_compared_within_a_name_where_the_log_is_sorted_by_names():
    asked = pl.DataFrame({"user": ["ann"] * 4, "query": [f"q{at}" for at in range(4)]})
    assert in_order_asked(asked, shown_in([2, 3, 0, 1], ["a", "a", "b", "b"])) == Success(2, 2)
    assert in_order_asked(asked, shown_in([0, 1, 2, 3], ["b", "a", "b", "a"])) == Success(3, 3)
    assert in_order_asked(asked, shown_in([3, 2, 1, 0], ["b", "a", "b", "a"])) == Success(0, 3)
    days = [DAY + timedelta(days=at) for at in range(4)]
    apart = shown_in([0, 1, 2, 3], ["a"] * 4).with_columns(pl.Series("time", days))
    assert not in_order_asked(asked, apart).measured  # the days themselves tell


def test_texts_that_came_twice_cannot_be_placed_and_a_shuffle_is_at_chance():
    """n = 1,999 pairs: half within 0.44 and 0.56 but for 1e-7; a log left in order gives 1."""
    twice = pl.DataFrame({"user": ["ann"] * 3, "query": ["q0", "q0", "q1"]})
    assert not in_order_asked(twice, shown_in([0, 1], ["a", "a"])).measured
    asked = pl.DataFrame({"user": ["ann"] * 2000, "query": [f"q{at}" for at in range(2000)]})
    mixed = Noise.seeded(1).stream("toy").permutation(2000).tolist()
    found = in_order_asked(asked, shown_in(mixed, ["a"] * 2000))
    assert found.tried == 1999
    assert 0.44 < found.share < 0.56


def test_groups_of_neighbouring_ids_are_seen_as_text_and_as_numbers():
    logs = pl.Series([place // 3 for place in range(30)])
    assert shared_with_next(pl.Series([f"{place:03}" for place in range(30)]), logs) == Success(20, 29)
    assert shared_with_next(pl.Series([f"{place}" for place in range(30)]), logs) == Success(20, 29)
    mixed = logs.gather(Noise.seeded(1).stream("toy").permutation(30).tolist())
    assert shared_with_next(pl.Series([f"{place}" for place in range(30)]), mixed).right < 8


def test_columns_that_hold_more_than_is_told():
    frame = pl.DataFrame({"user": ["a", "b"], "time": [DAY, DAY + timedelta(hours=5)], "rank": [None, 1], "x": [1, 1]})
    told = {"user": "replaced", "time": "of the release, not of the query; cut to the hour", "rank": "kept"}
    assert finer_than_told(frame, told).to_list() == [False, False]
    assert finer_than_told(frame, told | {"time": "cut to the day"}).to_list() == [False, True]
    assert finer_than_told(frame, told | {"rank": "dropped"}).to_list() == [False, True]
    assert finer_than_told(frame, told | {"any other column": "dropped"}).to_list() == [True, True]


def test_a_rank_that_few_or_nobody_has_is_rare():
    raw = QueryLog.of([(user, "q", None, 1, "a.example") for user in "abc"] + [("a", "q", None, 7, "a.example")])
    assert rare_ranks(both_logs(raw, raw), k=3)[0] == Residue(1, 4, 1)
    made_up = QueryLog(raw.frame.with_columns(rank=pl.lit(9, pl.UInt32), url=pl.lit(None, pl.String)))
    assert rare_ranks(both_logs(raw, made_up), k=3)[0] == Residue(4, 4, 1)

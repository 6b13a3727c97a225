"""Progress: shares that never fall, from any thread, and never anything that could stop the work."""

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from progress_checks import check_course, everything_told
from queryveil import progress
from queryveil.progress import each, listening, parts, tell


def test_without_a_listener_nothing_is_told_and_everything_is_done():
    tell("work", 1, 2)
    with parts("work", 2) as part, part():
        assert list(each("work", [1, 2])) == [1, 2]


def test_a_share_of_nothing_is_all_of_it_and_no_share_is_above_one():
    with everything_told() as told:
        tell("work", 0, 0)
        tell("work", 3, 2)
        assert list(each("none", [])) == []
    assert told == [("work", 1.0), ("work", 1.0), ("none", 1.0)]


def test_what_a_part_tells_counts_as_a_share_of_the_part_under_the_name_of_the_whole():
    with everything_told() as told, parts("whole", 2) as part:
        with part():
            tell("inner", 1, 2)
        with part(), parts("inner", 2) as inner, inner():
            tell("innermost", 1, 2)
    assert {what for what, _ in told} == {"whole"}
    assert [share for _, share in told] == [0.0, 0.25, 0.5, 0.5, 0.625, 0.75, 1.0, 1.0, 1.0]


def test_parts_of_unknown_number_come_nearer_to_one_and_reach_it_at_the_end():
    with everything_told() as told, parts("search") as part:
        for _ in range(3):
            with part():
                pass
    assert [share for _, share in told] == pytest.approx([0, 1 - 0.5 ** (1 / 3), 1 - 0.5 ** (2 / 3), 0.5, 1])


@given(st.lists(st.lists(st.floats(0, 1), max_size=5), min_size=1, max_size=30))
def test_parts_done_by_many_threads_are_told_in_rising_shares(shares):
    def work(inner):
        with part():
            for share in inner:
                tell("inner", share)

    with everything_told() as told, parts("whole", len(shares)) as part, ThreadPoolExecutor(4) as threads:
        list(threads.map(work, shares))
    check_course(told)


def test_a_work_that_fails_is_not_told_as_done():
    with everything_told() as told, pytest.raises(ZeroDivisionError), parts("work", 1) as part, part():
        raise ZeroDivisionError
    assert told == [("work", 0.0)]
    tell("work", 1)  # and nobody listens any more
    assert len(told) == 1


def test_a_listener_that_raises_stops_nothing():
    def broken(what, share):
        raise ValueError("the terminal is gone")

    with listening(broken, every=0):
        assert list(each("work", [1, 2])) == [1, 2]


def test_a_listener_hears_a_hot_loop_at_most_once_in_the_time_it_asks_for(monkeypatch):
    ticks, heard = count(), []
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(ticks)))
    with listening(lambda what, share: heard.append(share), every=20):
        for told in range(101):
            tell("hot", told, 100)
    assert heard == [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]


def test_another_thread_is_not_heard_unless_it_works_on_a_part():
    with everything_told() as told:
        thread = threading.Thread(target=tell, args=("elsewhere", 1))
        thread.start()
        thread.join()
    assert told == []


@pytest.mark.parametrize(
    "told",
    [
        [("work", 0.5), ("work", 0.4), ("work", 1.0)],
        [("work", 0.0), ("other", 1.0)],
        [("work", 0.5), ("work", 1.5)],
    ],
    ids=["falls", "never ends", "more than all"],
)
def test_the_check_of_a_course_refuses_one_that(told):
    with pytest.raises(AssertionError):
        check_course(told)

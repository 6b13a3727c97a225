"""Processes side by side: all results, as they come, and what the processes tell is heard."""

import pytest

from progress_checks import everything_told
from queryveil.experiments.parallel import side_by_side
from queryveil.progress import tell

READY = []


def prepare(word):
    READY.append(word)


def doubled(number):
    tell("doubling", 0.25)
    return 2 * number, READY


def failing(number):
    raise ValueError(number)


def test_every_job_is_done_after_the_preparation_and_progress_comes_through():
    with everything_told() as told:
        found = sorted(side_by_side(doubled, [(1,), (2,), (3,)], 2, prepare, ("ready",)))
    assert found == [(2, ["ready"]), (4, ["ready"]), (6, ["ready"])]
    assert READY == []  # prepared there, not here
    assert set(told) == {("doubling", 0.25)}


def test_who_asks_hears_which_job_tells_and_jobs_start_in_their_order():
    heard = []
    found = list(side_by_side(doubled, [(1,), (2,), (3,)], 1, prepare, ("ready",), lambda *told: heard.append(told)))
    assert [number for number, _ in found] == [2, 4, 6]
    assert heard == [(0, "doubling", 0.25), (1, "doubling", 0.25), (2, "doubling", 0.25)]


def test_a_failure_there_is_a_failure_here():
    with pytest.raises(ValueError, match="7"):
        list(side_by_side(failing, [(7,)], 1))

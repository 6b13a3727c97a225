"""Waiting gives up, but not because the machine has become busy."""

import pytest

import waiting


@pytest.fixture
def clock(monkeypatch):
    """A clock that a look at it, and nothing else, moves by a second; a sleep takes no time."""
    now = [0.0]

    class Clock:
        @staticmethod
        def monotonic():
            now[0] += 1
            return now[0]

        @staticmethod
        def sleep(seconds):
            pass

    monkeypatch.setattr(waiting, "time", Clock)
    monkeypatch.setattr(waiting, "LONG", 300)
    return now


def test_what_never_comes_is_said_after_a_long_time(clock, monkeypatch):
    monkeypatch.setattr(waiting, "slowness", lambda: 1.0)
    with pytest.raises(AssertionError, match="waited in vain until the cows come home"):
        waiting.wait_until(lambda: False, "the cows come home")
    assert 300 < clock[0] < 310


def test_a_machine_that_has_become_slower_is_given_more_time(clock, monkeypatch):
    monkeypatch.setattr(waiting, "slowness", lambda: 10.0)
    waiting.wait_until(lambda: clock[0] > 2000, "much later")
    with pytest.raises(AssertionError):
        waiting.wait_until(lambda: clock[0] > 6000, "never")

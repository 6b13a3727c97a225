"""What is tried each day, and what by `make soak`: a fifth of a property's examples, some cases of a long test."""

import os

import pytest

SOAK = os.environ.get("QUERYVEIL_SOAK") == "1"


def examples(count: int) -> int:
    return count if SOAK else -(-count // 5)


def daily(cases, count):
    """The first `count` of a test's cases each day, all of them by `make soak`; each case is a tuple of arguments."""
    return [pytest.param(*case, marks=() if number < count else pytest.mark.soak) for number, case in enumerate(cases)]

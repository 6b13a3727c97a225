"""How far long work is, for whoever waits for it: a few public words and a share from 0 to 1.

Work says `tell("grouping the users", 3, 8)`, or does its parts within `parts`, and need not know whether anybody hears
it. Whoever waits hears by `listening`; without a listener nothing happens. The share of a work never falls and ends at
1; only then may a work of that name start over. Of a work in parts only the whole is heard.

What is told may go to the data holder's own terminal or their own session of the page, and nowhere else: never into a
manifest, a report or a log file. The words are fixed in the code, never of the data. A share is of blocks, people or
steps of a solver, and its pace tells how hard the log is to work on: as private as the log's size.

>>> with listening(lambda what, share: print(f"{what}: {share:.0%}"), every=0):
...     total = sum(each("counting", [1, 2]))
counting: 0%
counting: 50%
counting: 100%
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from typing import TypeAlias, TypeVar

Listener: TypeAlias = Callable[[str, float], None]
Item = TypeVar("Item")

_hearing: ContextVar[Listener | None] = ContextVar("hearing", default=None)


def tell(what: str, done: float, of: float = 1) -> None:
    """Say how much of a work is done; where there is nothing to do, all of it is."""
    if (hearing := _hearing.get()) is not None:
        hearing(what, min(1.0, done / of) if of else 1.0)


def in_words(what: str, share: float) -> str:
    """What a listener heard, to be read; work that cannot look inside itself stays at 0 and shows none."""
    return f"{what}, {share:.0%}" if share else what


def about(seconds: float) -> str:
    """How long something may still take, as one says it.

    >>> [about(seconds) for seconds in (0.4, 7.2, 42, 100, 4000)]
    ['a second', 'about 8 s', 'about 50 s', 'about 2 min', 'about 67 min']
    """
    if seconds <= 1:
        return "a second"
    if seconds <= 10:
        return f"about {math.ceil(seconds)} s"
    if seconds < 90:
        return f"about {math.ceil(seconds / 10) * 10} s"
    return f"about {math.ceil(seconds / 60)} min"


def each(what: str, items: Sequence[Item]) -> Iterator[Item]:
    """The items one by one, telling how many are done."""
    for done, item in enumerate(items):
        tell(what, done, len(items))
        yield item
    tell(what, 1)


@contextmanager
def listening(listener: Listener, every: float = 0.05) -> Iterator[None]:
    """Hear what is told inside, at most once in `every` seconds, so that hot loops may tell.

    What the listener raises is dropped: who only looks on must not break a release.
    """
    lock, due = threading.Lock(), 0.0

    def hear(what: str, share: float) -> None:
        nonlocal due
        with lock:
            if (now := time.monotonic()) >= due:
                due = now + every
                with suppress(Exception):
                    listener(what, share)

    with _heard_by(hear):
        yield


@contextmanager
def parts(what: str, of: int | None = None) -> Iterator[Callable[[], AbstractContextManager[None]]]:
    """A work in parts: each is done, in any thread, within `with part():`, and what it tells counts as a share of it.

    Where nobody knows how many there will be, the share nears 1, by half of what is left in three parts.
    """
    outer = _hearing.get()
    if outer is None:
        yield nullcontext
        return
    lock, done = threading.Lock(), 0.0

    def add(more: float) -> None:
        nonlocal done
        with lock:  # also around the telling, or a smaller share could overtake a larger one
            done += more
            outer(what, min(1.0, done / of) if of else 1.0 - 0.5 ** (done / 3))

    @contextmanager
    def part() -> Iterator[None]:
        share = 0.0

        def hear(_: str, inner: float) -> None:
            nonlocal share
            more, share = max(0.0, inner - share), max(inner, share)
            add(more)

        with _heard_by(hear):  # a context variable does not travel into threads by itself
            yield
        hear("", 1.0)

    add(0.0)
    yield part
    outer(what, 1.0)


@contextmanager
def _heard_by(hear: Listener) -> Iterator[None]:
    token = _hearing.set(hear)
    try:
        yield
    finally:
        _hearing.reset(token)

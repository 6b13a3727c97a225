"""Work in several processes side by side; what they tell of their progress is heard here.

A process writes what it tells into one slot of shared memory, which never makes it wait, and whoever waits for results
looks at the slot now and then: of several processes the one that told last is heard.

Each process does its matrix products with its share of the cores: threads of OpenBLAS spin while they wait for one
another, so more of them than cores make everybody wait.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any, TypeVar

from queryveil.progress import listening, tell

Made = TypeVar("Made")

LONGEST_TOLD = 120
SECONDS_BETWEEN_LOOKS = 0.2
THREADS = "OPENBLAS_NUM_THREADS"
_SLOT: list[Any] = []


def side_by_side(
    do: Callable[..., Made],
    jobs: Iterable[tuple[Any, ...]],
    workers: int,
    prepare: Callable[..., None] | None = None,
    given: tuple[Any, ...] = (),
) -> Iterator[Made]:
    """`do(*job)` for every job, in new processes, each of which does `prepare(*given)` first; results as they come."""
    context = get_context("spawn")
    slot: Any = context.Array("c", LONGEST_TOLD)
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(slot, prepare, given))
    try:
        with _sharing_cores(workers):
            waiting = {pool.submit(_heard, do, job) for job in jobs}
        while waiting:
            done, waiting = wait(waiting, timeout=SECONDS_BETWEEN_LOOKS, return_when=FIRST_COMPLETED)
            share, _, what = slot.value.decode(errors="ignore").partition(" ")
            if what:
                tell(what, float(share))
            yield from (future.result() for future in done)
    finally:
        pool.shutdown(cancel_futures=True)


@contextmanager
def _sharing_cores(workers: int) -> Iterator[None]:
    """Processes that start meanwhile take their share of the cores, unless the environment says how many."""
    if THREADS in os.environ:
        yield
        return
    os.environ[THREADS] = str(max(1, (os.cpu_count() or 1) // workers))
    try:
        yield
    finally:
        del os.environ[THREADS]


def _begin(slot: Any, prepare: Callable[..., None] | None, given: tuple[Any, ...]) -> None:
    _SLOT[:] = [slot]
    if prepare is not None:
        prepare(*given)


def _heard(do: Callable[..., Made], job: tuple[Any, ...]) -> Made:
    with listening(_note, every=SECONDS_BETWEEN_LOOKS):
        return do(*job)


def _note(what: str, share: float) -> None:
    _SLOT[0].value = f"{share:.3f} {what}".encode()[: LONGEST_TOLD - 1]

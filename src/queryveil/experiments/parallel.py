"""Work in several processes side by side; what each job tells of its progress is heard here.

A job writes what it tells into its own slot of shared memory, which never makes it wait, and whoever waits for results
looks at the slots now and then: of each job what it told last is heard.

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
_SLOTS: list[Any] = []


def tell_of_any(job: int, what: str, share: float) -> None:
    """For who waits for all jobs together: what any of them tells is heard."""
    tell(what, share)


def side_by_side(
    do: Callable[..., Made],
    jobs: Iterable[tuple[Any, ...]],
    workers: int,
    prepare: Callable[..., None] | None = None,
    given: tuple[Any, ...] = (),
    on_progress: Callable[[int, str, float], None] = tell_of_any,
) -> Iterator[Made]:
    """`do(*job)` for every job, in new processes, each of which does `prepare(*given)` first; results as they come.

    Jobs start in their order. `on_progress` is told the number of a job, what it does and how much of that is done.
    """
    jobs = list(jobs)
    context = get_context("spawn")
    slots: Any = context.Array("c", LONGEST_TOLD * max(1, len(jobs)))
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_begin, initargs=(slots, prepare, given))
    heard: dict[int, bytes] = {}
    try:
        with _sharing_cores(workers):
            numbers = {pool.submit(_heard, number, do, job): number for number, job in enumerate(jobs)}
        waiting = set(numbers)
        while waiting:
            done, waiting = wait(waiting, timeout=SECONDS_BETWEEN_LOOKS, return_when=FIRST_COMPLETED)
            for job in sorted(numbers[future] for future in waiting | done):
                told = slots[job * LONGEST_TOLD : (job + 1) * LONGEST_TOLD].rstrip(b"\0")
                if told and told != heard.get(job):
                    heard[job] = told
                    share, _, what = told.decode(errors="ignore").partition(" ")
                    on_progress(job, what, float(share))
            yield from (future.result() for future in sorted(done, key=numbers.__getitem__))
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


def _begin(slots: Any, prepare: Callable[..., None] | None, given: tuple[Any, ...]) -> None:
    _SLOTS[:] = [slots]
    if prepare is not None:
        prepare(*given)


def _heard(number: int, do: Callable[..., Made], job: tuple[Any, ...]) -> Made:
    def note(what: str, share: float) -> None:
        told = f"{share:.3f} {what}".encode()[:LONGEST_TOLD].ljust(LONGEST_TOLD, b"\0")
        _SLOTS[0][number * LONGEST_TOLD : (number + 1) * LONGEST_TOLD] = told

    with listening(note, every=SECONDS_BETWEEN_LOOKS):
        return do(*job)

"""Wait for what must come: as long as a busy machine may need, and not a moment longer."""

import time
from collections.abc import Callable

QUICK = 0.15
"""Seconds that `slowness` computes for on a core that has nothing else to do."""


def slowness() -> float:
    """How many times as long as a quiet core this machine takes for the same work just now; at least 1."""
    started = time.perf_counter()
    sum(number * number for number in range(3_000_000))
    return max(1.0, (time.perf_counter() - started) / QUICK)


SLOWNESS = slowness()
"""Measured once, when a run of tests begins to wait."""
USUAL = 300  # seconds
LONG = USUAL * SLOWNESS
"""Seconds, longer than anything may take that comes at all."""


def wait_until(holds: Callable[[], object], what: str) -> None:
    """Return as soon as this holds; fail, saying what was awaited, where it never does."""
    started, limit = time.monotonic(), LONG
    while not holds():
        if time.monotonic() - started > limit:
            limit = max(limit, USUAL * slowness())  # others may have come to use the machine since the run began
            assert time.monotonic() - started < limit, f"waited in vain until {what}"
        time.sleep(0.02)

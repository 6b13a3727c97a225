"""Wait for what must come: as long as a busy machine may need, and not a moment longer."""

import time
from collections.abc import Callable

LONG = 300  # seconds


def wait_until(holds: Callable[[], object], what: str) -> None:
    """Return as soon as this holds; fail, saying what was awaited, where it never does."""
    deadline = time.monotonic() + LONG
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.02)

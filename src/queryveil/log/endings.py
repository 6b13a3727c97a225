"""Who is asked to end (`kill`, a closed terminal) leaves as by an exception, so that what lies about is swept first."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Final

ENDINGS: Final = (signal.SIGTERM, signal.SIGHUP)


def heed_endings() -> None:
    """From now on; a program that has its own answer to a signal keeps it."""
    if threading.current_thread() is threading.main_thread():
        for number in ENDINGS:
            if signal.getsignal(number) == signal.SIG_DFL:
                signal.signal(number, _leave)


def swept() -> None:
    """Nothing is left to sweep: end at once again."""
    if threading.current_thread() is threading.main_thread():
        for number in ENDINGS:
            if signal.getsignal(number) is _leave:
                signal.signal(number, signal.SIG_DFL)


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)

"""Who is asked to end (`kill`, a closed terminal) leaves as by an exception, so that what lies about is swept first."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Final

ENDINGS: Final = (signal.SIGTERM, signal.SIGHUP)


def heed_endings() -> None:
    """From now on; a program that has its own answer to a signal keeps it."""
    if threading.current_thread() is threading.main_thread():
        for number in ENDINGS:
            if signal.getsignal(number) == signal.SIG_DFL:
                signal.signal(number, _leave)


def sweep_undisturbed() -> None:
    """From now on the work is done or given up: who is asked to end does so when all is swept."""
    _answer(_go_on, _leave)


def swept() -> None:
    """Nothing is left to sweep: end at once again."""
    _answer(signal.SIG_DFL, _leave, _go_on)


def _answer(new: Callable[[int, FrameType | None], None] | signal.Handlers, *present: object) -> None:
    if threading.current_thread() is threading.main_thread():
        for number in ENDINGS:
            if signal.getsignal(number) in present:
                signal.signal(number, new)


def _leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def _go_on(number: int, frame: FrameType | None) -> None:
    """It ends in a moment anyway."""

"""Structured logs: one JSON object a line, on stderr. Numbers and reasons, never anything of the data."""

from __future__ import annotations

import datetime as dt
import json
import sys
from collections.abc import Callable
from typing import IO


class Journal:
    """Writes events, and knows the last one. Without `out` they go to stderr; a `silent` one writes nothing.

    >>> Journal(sys.stdout, at=lambda: "2026-01-01T00:00:00Z").tell("shard opened", shard=3)
    {"at": "2026-01-01T00:00:00Z", "event": "shard opened", "shard": 3}
    """

    def __init__(
        self, out: IO[str] | None = None, at: Callable[[], str] | None = None, *, silent: bool = False
    ) -> None:
        self.last = ""
        self._out, self._silent = out, silent
        self._at = at or _now

    def tell(self, event: str, **facts: int | float | str) -> None:
        """One line."""
        self.last = ", ".join([event, *(f"{name}: {value}" for name, value in facts.items())])
        if self._silent:
            return
        out = self._out or sys.stderr
        out.write(json.dumps({"at": self._at(), "event": event, **facts}) + "\n")
        out.flush()


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds").replace("+00:00", "Z")

"""What a live stream does, as events of the standard `logging`: a stable name, and fields with numbers and reasons.

Never anything of the data. The logger is `queryveil.live`; docs/live.md lists the names. A program that wants the
events adds a handler of its own, or an `EventWriter`, which writes one JSON object a line.

>>> import sys
>>> with EventWriter(sys.stdout) as written:
...     log_event("shard_opened", shard=3)  # doctest: +ELLIPSIS
{"at": "...Z", "event": "shard_opened", "shard": 3}
>>> written.last
'shard_opened shard=3'
"""

from __future__ import annotations

import datetime as dt
import json
import logging
from typing import IO

logger = logging.getLogger("queryveil.live")
logger.addHandler(logging.NullHandler())  # without one, Python would write warnings to stderr


def log_event(event: str, *, level: int = logging.INFO, **fields: int | float | str) -> None:
    """One event."""
    logger.log(level, event, extra={"fields": fields})


class EventWriter(logging.Handler):
    """Writes events to `out`, where there is one, and knows the last. A context manager: it listens meanwhile."""

    def __init__(self, out: IO[str] | None) -> None:
        super().__init__()
        self._out = out
        self.last = ""

    def emit(self, record: logging.LogRecord) -> None:
        """One line."""
        event, fields = record.getMessage(), getattr(record, "fields", {})
        self.last = " ".join([event, *(f"{name}={value}" for name, value in fields.items())])
        if self._out is not None:
            at = dt.datetime.fromtimestamp(record.created, dt.UTC).isoformat(timespec="seconds")
            self._out.write(json.dumps({"at": at.replace("+00:00", "Z"), "event": event, **fields}) + "\n")
            self._out.flush()

    def __enter__(self) -> EventWriter:
        logger.addHandler(self)
        logger.setLevel(logging.INFO)
        return self

    def __exit__(self, *given: object) -> None:
        logger.removeHandler(self)

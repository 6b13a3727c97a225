"""What the attacker knows: what people asked before.

An earlier log that leaked, an earlier release that was undone, an employer, a provider: somebody may know what many
people asked before, by name. `known` is such a log, with the users of the original; otherwise the attacker has what the
original holds before a moment in time (`known_before`), and the attacks are judged on what was released after it.
Without either the moment is in the middle of the log: the start of the day by which half of its records were made, or,
where a log has no times, the middle of the file.

>>> log = QueryLog.of([("ann", "weather"), ("bob", "chess"), ("ann", "tulips"), ("bob", "openings")])
>>> past = Past.of(log)
>>> past.log.queries(), past.told
(['weather', 'chess'], 'what everybody asked in the first half of the log')
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

import numpy as np
import numpy.typing as npt
import polars as pl

from queryveil.errors import DataError, UsageError
from queryveil.log import QueryLog
from queryveil.log.identifying import merged


@dataclass(frozen=True)
class Past:
    """What an attacker knows of people's earlier queries, and which released records are later."""

    log: QueryLog = field(repr=False)
    told: str
    """In words, for the findings: public settings only."""
    until: datetime | None = None
    rows: int = 0
    """How many of the original's first records are known, where there are no times."""

    @classmethod
    def of(cls, original: QueryLog, *, known: QueryLog | None = None, known_before: datetime | None = None) -> Past:
        """What is known: a log of its own, or the first part of the original."""
        if known is not None and known_before is not None:
            raise UsageError("the attacker knows a log, or what lies before a time: give one of known, known_before.")
        if known is not None:
            return cls(merged(known) if original.similar_ids == "same" else known, "what everybody asked in a log of "
                       "earlier queries")  # fmt: skip
        times = original.frame["time"]
        if known_before is not None:
            if times.null_count() == len(times) and len(times):
                raise DataError("the original has no times, so nothing in it lies before known_before.")
            return cls._before(original, known_before, f"what everybody asked before {known_before:%Y-%m-%d %H:%M}")
        middle = times.drop_nulls().sort()
        if not len(middle):
            half = QueryLog(original.frame.head(len(original) // 2), similar_ids=original.similar_ids)
            return cls(half, "what everybody asked in the first half of the log", rows=len(half))
        moment: datetime = middle[len(middle) // 2]
        day = moment.replace(hour=0, minute=0, second=0, microsecond=0)
        until = day if middle[0] < day else moment  # a log of one day is cut within it
        return cls._before(original, until, "what everybody asked in the first half of the log's time")

    @classmethod
    def _before(cls, original: QueryLog, until: datetime, told: str) -> Past:
        before = original.frame.filter(pl.col("time") < until)
        return cls(QueryLog(before, similar_ids=original.similar_ids), told, until)

    def judged(self, released: QueryLog) -> npt.NDArray[np.bool_]:
        """Which released records the attacks are judged on: the later ones, where times tell; else all of them."""
        times = released.frame["time"]
        if self.until is None or times.null_count():
            return np.ones(len(released), np.bool_)
        later: npt.NDArray[np.bool_] = (times >= self.until).to_numpy()
        return later if later.any() else np.ones(len(released), np.bool_)

    def later(self, original: QueryLog) -> pl.DataFrame:
        """What the original holds that the attacker does not know: all of it where a log of its own is known."""
        if self.until is not None:
            return original.frame.filter(pl.col("time").is_null() | (pl.col("time") >= self.until))
        return original.frame[self.rows :]

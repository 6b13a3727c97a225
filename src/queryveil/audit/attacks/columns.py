"""Columns that hold more than the manifest says: times that were not cut, columns that were to be dropped.

The manifest tells what was done to each column. A recipient who finds more than that in the log has it for nothing, and
no other figure may notice: that is counted here, over all records.

>>> frame = pl.DataFrame({"user": ["a", "b"], "time": [datetime(2026, 3, 1), datetime(2026, 3, 1, 9, 41)]})
>>> finer_than_told(frame, {"time": "cut to the day"}).to_list()
[False, True]
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime  # noqa: F401  # for the example
from typing import ClassVar, Final

import polars as pl

from queryveil.audit.attacks.known_items import STEPS
from queryveil.audit.context import AuditContext
from queryveil.audit.finding import Finding, Found, LeftOut, Question
from queryveil.log import COLUMNS
from queryveil.release.mechanism import DROPPED, TIME_TREATMENTS, time_in_words

OTHERS: Final = "any other column"


def finer_than_told(frame: pl.DataFrame, columns: Mapping[str, str]) -> pl.Series:
    """Which records hold a value that, by what is told of the columns, should not be there."""
    finer = [pl.lit(False)]
    for name in frame.columns:
        told = columns.get(name, columns.get(OTHERS, ""))
        if told == DROPPED:
            finer.append(pl.col(name).is_not_null())
        for unit in (unit for unit in TIME_TREATMENTS if unit in STEPS and name == "time"):
            if told.endswith(time_in_words(unit)):
                finer.append(pl.col(name) != pl.col(name).dt.truncate(STEPS[unit]))
    return frame.select(pl.any_horizontal(expression.fill_null(False) for expression in finer).alias("finer"))["finer"]


class ColumnsLeft:
    """Values that should have been dropped or cut."""

    key: ClassVar[str] = "columns-left"
    title: ClassVar[str] = "Columns that hold more than is told"
    question: ClassVar[Question] = "singling out"
    counts_toward_risk: ClassVar[bool] = True
    counts_in_blocks: ClassVar[bool] = True

    def run(self, context: AuditContext) -> Found:
        """One finding, or what is missing."""
        told = context.manifest.get("columns")
        if not told:
            yield LeftOut(title=self.title, reason="nothing is told of what was done to the columns", by_settings=True)
            return
        released = context.released
        pieces = released.rows(*COLUMNS, *released.extra_columns)
        finer, records = sum(int(finer_than_told(rows, told).sum()) for rows in pieces), len(released)
        yield Finding(
            key=self.key, title=self.title, kind="risk", topic="columns", question=self.question,
            value=finer / max(records, 1), bound=0.0, trials=records, better="lower", unit="share",
            explanation="Share of released records with a time finer than the manifest says, or with a value in a "
            "column that it calls dropped. Counted, not sampled.", population="released records",
        )  # fmt: skip

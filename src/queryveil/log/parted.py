"""A log that lies in several Parquet files, one after the other, and is never read whole unless somebody asks.

What a cluster makes comes in parts. `PartedLog` counts and hands them out one at a time, so that a log larger than the
memory can be written in any format; `frame` reads it whole, for logs that fit. Columns whose name starts with `__` are
kept from the reader: they hold what only the holder may know (`hidden`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

import polars as pl

from queryveil.log.query_log import COLUMNS, QueryLog
from queryveil.log.table import Schema

HIDDEN_PREFIX = "__"


class PartedLog(QueryLog):
    """A log over Parquet files that hold no user in common and follow each other in the order of the records."""

    def __init__(self, paths: Sequence[Path], schema: Schema) -> None:
        self.paths = list(paths)
        self._schema = dict(schema)

    @cached_property
    def frame(self) -> pl.DataFrame:  # type: ignore[override]  # there it is an attribute, here it is read on demand
        """The whole log, in memory."""
        return QueryLog(self.shown().collect()).frame

    def shown(self) -> pl.LazyFrame:
        """What a reader may see."""
        return self._scan().select(self._shown)

    def hidden(self) -> pl.LazyFrame:
        """The released user and the hidden columns of every record, in the order of the log."""
        return self._scan().select("user", pl.col(f"^{HIDDEN_PREFIX}.*$"))

    def parts(self) -> Iterator[QueryLog]:
        """The log in pieces that fit in memory; all of them use the columns that the whole log uses."""
        if not self.paths:
            yield QueryLog.empty()
        for path in self.paths:
            yield _Part(pl.read_parquet(path, columns=self._shown, glob=False), self.used_columns)

    def __len__(self) -> int:
        return self._sums[0]

    def user_count(self) -> int:
        """How many distinct users the log has; no part shares one with another."""
        return self._sums[1]

    @cached_property
    def used_columns(self) -> list[str]:
        """Canonical columns that hold at least one value."""
        used = self._scan().select((~pl.col(self._shown).is_null().all()).name.keep()).collect().row(0, named=True)
        return [name for name in COLUMNS if name in ("user", "query") or used.get(name, False)]

    @property
    def _shown(self) -> list[str]:
        return [name for name in self._schema if not name.startswith(HIDDEN_PREFIX)]

    @cached_property
    def _sums(self) -> tuple[int, int]:
        counts = [
            pl.scan_parquet(path, glob=False).select(pl.len(), pl.col("user").n_unique()).collect().row(0)
            for path in self.paths
        ]
        return sum(records for records, _ in counts), sum(users for _, users in counts)

    def _scan(self) -> pl.LazyFrame:
        if not self.paths:
            return pl.DataFrame(schema=self._schema).lazy()
        return pl.scan_parquet(self.paths, glob=False).select(pl.col(n).cast(t) for n, t in self._schema.items())


class _Part(QueryLog):
    """A piece of a log, which uses the columns that the whole uses."""

    def __init__(self, frame: pl.DataFrame, used_columns: list[str]) -> None:
        super().__init__(frame)
        self._used_columns = used_columns

    @property
    def used_columns(self) -> list[str]:
        """Those of the whole log."""
        return self._used_columns

"""A table on Spark whose extra columns have names that Spark could not handle: `a.b`, `*`, `` ` ``.

On Spark they are numbered; a block function sees the names they have in the file.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from queryveil.log.query_log import QueryLog
from queryveil.log.table import BlockWork, RowWork, Schema, Table


@dataclass(frozen=True)
class NamedTable:
    """A table under other names; what is made of it has the names that the work gave."""

    table: Table
    names: Mapping[str, str]
    """From a column's name on Spark to its name in the file."""

    @property
    def blocks(self) -> int:
        """See `Table`."""
        return self.table.blocks

    @property
    def schema(self) -> Schema:
        """See `Table`."""
        return {self.names.get(name, name): dtype for name, dtype in self.table.schema.items()}

    def map_blocks(self, key: str, work: BlockWork, schema: Schema) -> Table:
        """See `Table`."""
        return self.table.map_blocks(self._on_spark([key])[0], _NamedBlocks(work, self.names), schema)

    def map_rows(self, work: RowWork, schema: Schema) -> Table:
        """See `Table`."""
        return self.table.map_rows(_NamedRows(work, self.names), schema)

    def kept(self) -> Table:
        """See `Table`."""
        return NamedTable(self.table.kept(), self.names)

    def collect(self) -> pl.DataFrame:
        """See `Table`."""
        return self.table.collect().rename(self.names)

    def in_order(self, columns: Sequence[str]) -> QueryLog:
        """See `Table`; a log that is finished has no columns but the canonical ones and hidden ones."""
        return self.table.in_order(self._on_spark(columns))

    def _on_spark(self, columns: Sequence[str]) -> list[str]:
        numbered = {outside: inside for inside, outside in self.names.items()}
        return [numbered.get(name, name) for name in columns]


@dataclass(frozen=True)
class _NamedRows:
    work: RowWork
    names: Mapping[str, str]

    def __call__(self, rows: pl.DataFrame) -> pl.DataFrame:
        return self.work(rows.rename(self.names))


@dataclass(frozen=True)
class _NamedBlocks:
    work: BlockWork
    names: Mapping[str, str]

    def __call__(self, block: int, rows: pl.DataFrame) -> pl.DataFrame:
        return self.work(block, rows.rename(self.names))

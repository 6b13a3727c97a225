"""A Parquet file that every executor sees, read by Spark's tasks themselves, by the reader of one machine.

Each task reads stretches of rows, checks them, and deals the records out by user in the staging place: rows never
pass through Java, and the first step over users finds them where it needs them. A file of which this reader refuses a
row, or which it cannot read, is left to Spark's own (`reading.py`), which tells what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import polars as pl

from queryveil.engines.spark.arrow import run_privately
from queryveil.engines.spark.shared_table import ByKey, Folder, SharedTable, by_group, deal, groups_for, run_tasks
from queryveil.errors import FormatError
from queryveil.log.formats.column_names import Names
from queryveil.log.formats.format import Findings
from queryveil.log.formats.parquet import records_of_table
from queryveil.log.identifying import representatives
from queryveil.log.query_log import QueryLog, Schema, blocks_for, exactly, shaped
from queryveil.log.spill import read_files

if TYPE_CHECKING:
    from queryveil.engines.spark.cluster import Cluster

ROWS_AT_ONCE = 1 << 19
USER: Schema = {"user": pl.String()}
Stretch: TypeAlias = tuple[int, int]


@dataclass(frozen=True)
class DirectlyRead:
    """A log in groups of people in the staging place."""

    table: Callable[[Sequence[str]], SharedTable]
    """The columns of these names."""
    written_ids: pl.Series
    """The distinct ids as they are in the file."""
    count: int


def read_directly(cluster: Cluster, path: Path, names: Names, schema: Schema, *, merge: bool) -> DirectlyRead | None:
    """The log in a file, or None where a row of it is bad or where it cannot be read this way.

    `schema` has the canonical columns and the extra ones that are read, by their names inside.
    """
    try:
        count = int(pl.scan_parquet(path, glob=False).select(pl.len()).collect().item())
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError):
        return None
    outside = {names.outside.get(name, name): dtype for name, dtype in schema.items()}
    read = {theirs: name for theirs, name in names.inside.items() if name in schema}
    wanted = Names(read, {inside: name for inside, name in names.outside.items() if inside in schema})
    blocks = blocks_for(count)
    groups = groups_for(cluster, blocks)
    folder = Folder(cluster.staging.new_folder())
    stretches = [(start, min(ROWS_AT_ONCE, count - start)) for start in range(0, count, ROWS_AT_ONCE)]
    parts = run_tasks(cluster, StretchTask(str(path), wanted, outside, merge, folder, groups), stretches)
    if any(part is None for part in parts):
        return None
    files = by_group([file for dealt, _ in parts for file in dealt], groups)
    written = read_files([Path(ids) for _, ids in parts], USER)["user"].unique()

    def table(columns: Sequence[str]) -> SharedTable:
        return SharedTable(cluster, files, {name: outside[name] for name in columns}, blocks, "user")

    return DirectlyRead(table, written, count)


@dataclass(frozen=True)
class StretchTask:
    """Reads stretches of rows; gives the files of each group and one with the distinct ids, or None for bad rows."""

    path: str
    names: Names
    schema: Schema
    merge: bool
    folder: Folder
    groups: int

    def __call__(self, stretches: list[Stretch]) -> list[tuple[list[tuple[int, str, int]], str] | None]:
        """What Spark calls."""
        return [run_privately(lambda: self._read(stretches))]

    def _read(self, stretches: list[Stretch]) -> tuple[list[tuple[int, str, int]], str] | None:
        ids: list[pl.Series] = []
        try:
            files = deal(self.folder, self.groups, ByKey("user", self.groups), self._records(stretches, ids))
            return files, str(self.folder.write(pl.concat(ids).unique().to_frame()))
        except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, FormatError):
            return None  # Spark's own reader tells what it is

    def _records(self, stretches: list[Stretch], ids: list[pl.Series]) -> Iterator[pl.DataFrame]:
        rows = pl.scan_parquet(self.path, glob=False).select(map(exactly, self.names.inside))
        for start, length in stretches:
            found = Findings(1)
            records = QueryLog(records_of_table(rows.slice(start, length).collect(), self.names, found)).frame
            if found.problem_count:
                raise FormatError("some rows are bad.")
            ids.append(records["user"].unique())
            if self.merge:
                records = records.with_columns(representatives(records["user"]))
            yield shaped(records, self.schema)

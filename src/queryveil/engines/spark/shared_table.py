"""A log in files that every executor sees, and `queryveil.log.query_log.Table` over it.

Rows that pass through Spark are turned from columns into rows and back at every step, in Java, which takes several
times the work itself. Where the staging place is a folder that all machines see (this machine's own, or a shared one:
`file:`), Spark only says who does what: a task reads the files of some groups, works on them, and writes new files. As
in `queryveil.log.spill`, a group holds whole blocks and a group's blocks are worked on by `LocalTable`, so the release
is the same. Steps are put together as long as records can stay where they are: what is asked of a table is done when
records must be dealt out anew, kept or collected, in one task.

A task's files have names of their own and count when the driver hears of them, so a task that is tried again, or that
runs twice, leaves files that nobody reads and that are swept with the place.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import polars as pl

from queryveil.engines.spark.arrow import run_privately
from queryveil.errors import RefusedError, Remedy
from queryveil.log.query_log import (
    COLUMNS,
    BlockWork,
    LocalTable,
    QueryLog,
    RowWork,
    Schema,
    SimilarIds,
    Table,
    block_numbers,
    blocks_for,
    shaped,
)
from queryveil.log.spill import NAME_RANGES, Groups, range_of_names, read_files

if TYPE_CHECKING:
    from queryveil.engines.spark.cluster import Cluster

BYTES_AT_ONCE = 1 << 26
"""How much of the records a task deals out at once."""
Numbering: TypeAlias = Callable[[pl.DataFrame], npt.NDArray[np.integer]]


@dataclass(frozen=True)
class Folder:
    """Where a task writes."""

    path: str
    bytes_at_once: int = BYTES_AT_ONCE

    def write(self, rows: pl.DataFrame) -> Path:
        """A new file with these rows, which only its owner may read."""
        path = Path(self.path) / f"{uuid4().hex}.parquet"
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            rows.write_parquet(file, compression="lz4", statistics=False)
        return path


@dataclass(frozen=True)
class Step:
    """Work on the records of a group, block by block where there is a key."""

    work: Any
    schema: Schema
    key: str | None = None
    combine: RowWork | None = None

    def __call__(self, rows: pl.DataFrame, blocks: int) -> pl.DataFrame:
        """What becomes of the records."""
        if not rows.height:
            return pl.DataFrame(schema=self.schema)
        if self.key is None:
            made: pl.DataFrame = self.work(rows)
            return shaped(made, self.schema)
        return LocalTable(rows, blocks).map_blocks(self.key, self.work, self.schema, self.combine).frame


@dataclass(frozen=True)
class ByKey:
    """The group of each record by the block of its key."""

    key: str
    groups: int

    def __call__(self, rows: pl.DataFrame) -> npt.NDArray[np.integer]:
        """A number for each row."""
        return block_numbers(rows[self.key], self.groups)


@dataclass(frozen=True)
class ByName:
    """The group of each record by the range of its random name."""

    groups: int

    def __call__(self, rows: pl.DataFrame) -> npt.NDArray[np.integer]:
        """A number for each row."""
        return range_of_names(rows["user"], self.groups)


@dataclass(frozen=True)
class GroupTask:
    """What one task does: read groups, take the steps, and write what comes of it, each group's or dealt out anew."""

    schema: Schema
    steps: tuple[Step, ...]
    blocks: int
    folder: Folder
    groups: int = 0
    number: Numbering | None = None

    def __call__(self, given: list[tuple[int, list[str]]]) -> list[list[tuple[int, str, int]]]:
        """`(group, file, records)` of each file that was written; Spark gets one list from each task."""
        return [run_privately(lambda: self._work_on(given))]

    def _work_on(self, given: list[tuple[int, list[str]]]) -> list[tuple[int, str, int]]:
        if self.number is None:
            made = ((group, self._made(files)) for group, files in given)
            return [(group, str(self.folder.write(rows)), rows.height) for group, rows in made if rows.height]
        return deal(self.folder, self.groups, self.number, (self._made(files) for _, files in given))

    def _made(self, files: list[str]) -> pl.DataFrame:
        rows = read_files([Path(file) for file in files], self.schema)
        for step in self.steps:
            rows = step(rows, self.blocks)
        return rows


def deal(folder: Folder, groups: int, number: Numbering, pieces: Iterable[pl.DataFrame]) -> list[tuple[int, str, int]]:
    """The files of pieces that were dealt out to groups; how many records each has is not told."""
    dealt = Groups(folder, groups, number)
    for rows in pieces:
        dealt.add(rows)
    dealt.flush()
    return [(group, str(path), 0) for group, paths in enumerate(dealt.files) for path in paths]


def run_tasks(cluster: Cluster, task: Callable[[Any], list[Any]], items: Sequence[Any]) -> list[Any]:
    """What the tasks give, each for some of the items, which tell nothing about the log: Spark may log them."""
    if not items:
        return []
    count = min(len(items), cluster.tasks_for(len(items)))
    shares = [list(items[share::count]) for share in range(count)]
    work = cluster.spark.sparkContext.parallelize(shares, count).flatMap(task)
    return cluster.jobs.run(work.collect)


class SharedTable:
    """Records in files that Spark's tasks work on; see the top of this module."""

    def __init__(
        self,
        cluster: Cluster,
        files: Sequence[Sequence[str]],
        schema: Schema,
        blocks: int,
        key: str | None = None,
        steps: tuple[Step, ...] = (),
    ) -> None:
        """`files` are those of each group, `schema` theirs; `key` is the column by whose blocks they are grouped, which
        the steps have not changed, or None."""
        self._cluster, self._files, self._stored = cluster, files, dict(schema)
        self.blocks, self._key, self._steps = blocks, key, steps

    @property
    def schema(self) -> Schema:
        """The columns and their types."""
        return self._steps[-1].schema if self._steps else self._stored

    def in_blocks(self, blocks: int) -> SharedTable:
        """The same records in so many blocks; where these are fewer than the groups, some of those go together."""
        wanted = min(len(self._files), blocks)
        files = [[path for part in self._files[group::wanted] for path in part] for group in range(wanted)]
        return SharedTable(self._cluster, files, self._stored, blocks, self._key, self._steps)

    def map_blocks(self, key: str, work: BlockWork, schema: Schema, combine: RowWork | None = None) -> SharedTable:
        """See `Table`."""
        grouped = self if self._key == key else self._dealt(key)
        return grouped._then(Step(work, dict(schema), key, combine))

    def map_rows(self, work: RowWork, schema: Schema, keeps: Collection[str] = ()) -> SharedTable:
        """See `Table`."""
        return self._then(Step(work, dict(schema)), self._key if self._key in keeps else None)

    def kept(self) -> SharedTable:
        """The same records, computed once."""
        files: list[list[str]] = [[] for _ in self._files]
        for group, path, _ in self._run(GroupTask(self._stored, self._steps, self.blocks, self._folder())):
            files[group].append(path)
        return SharedTable(self._cluster, files, self.schema, self.blocks, self._key)

    def collect(self) -> pl.DataFrame:
        """See `Table`."""
        table = self.kept() if self._steps else self
        return read_files([Path(path) for group in table._files for path in group], self.schema)

    def count(self) -> int:
        """How many records there are."""
        return int(self.map_rows(_counted, {"n": pl.Int64()}).collect()["n"].sum())

    def in_order(self, columns: Sequence[str]) -> QueryLog:
        """See `Table`; a part of the log for each range of names."""
        ranges = min(NAME_RANGES, self._cluster.tasks_for(self.blocks))
        ranged = self._regrouped(ranges, ByName(ranges))
        ordered = ranged._then(Step(partial(_sorted, list(columns)), self.schema)).kept()
        parts = [pl.scan_parquet(path, glob=False) for group in ordered._files for path in group]
        return QueryLog(parts or [pl.LazyFrame(schema=self.schema)])

    def log_of(self, pieces: Iterable[pl.DataFrame], schema: Schema) -> QueryLog:
        """See `Table`."""
        folder = self._folder()
        paths = [folder.write(shaped(piece, schema)) for piece in pieces if piece.height]
        files = [pl.scan_parquet(path, glob=False) for path in paths]
        return QueryLog(files or [pl.LazyFrame(schema=schema)])

    def _then(self, step: Step, key: str | None = None) -> SharedTable:
        return SharedTable(self._cluster, self._files, self._stored, self.blocks, key, (*self._steps, step))

    def _dealt(self, key: str) -> SharedTable:
        groups = groups_for(self._cluster, self.blocks)
        return self._regrouped(groups, ByKey(key, groups), key)

    def _regrouped(self, groups: int, number: Numbering, key: str | None = None) -> SharedTable:
        """The records in so many other groups."""
        task = GroupTask(self._stored, self._steps, self.blocks, self._folder(), groups, number)
        return SharedTable(self._cluster, by_group(self._run(task), groups), self.schema, self.blocks, key)

    def _run(self, task: GroupTask) -> list[tuple[int, str, int]]:
        items = [(group, list(files)) for group, files in enumerate(self._files) if files]
        return [file for files in run_tasks(self._cluster, task, items) for file in files]

    def _folder(self) -> Folder:
        return Folder(self._cluster.staging.new_folder())


def by_group(files: Iterable[tuple[int, str, int]], groups: int) -> list[list[str]]:
    """The files of each group."""
    sorted_out: list[list[str]] = [[] for _ in range(groups)]
    for group, path, _ in files:
        sorted_out[group].append(path)
    return sorted_out


def groups_for(cluster: Cluster, blocks: int) -> int:
    """How many groups so many blocks are put into: a power of two, as the number of blocks is."""
    return 1 << (cluster.tasks_for(blocks).bit_length() - 1)


def _counted(rows: pl.DataFrame) -> pl.DataFrame:
    return pl.DataFrame({"n": [rows.height]})


def _sorted(columns: list[str], rows: pl.DataFrame) -> pl.DataFrame:
    return rows.sort(columns)


@dataclass(frozen=True)
class Without:
    """Leaves people out."""

    users: pl.Series

    def __call__(self, rows: pl.DataFrame) -> pl.DataFrame:
        """The records of others."""
        return rows.filter(~pl.col("user").is_in(self.users.implode()))


class SharedLog(QueryLog):
    """A log in files that Spark's tasks work on; nobody reads it whole."""

    def __init__(
        self,
        table: Callable[[Sequence[str]], SharedTable],
        extras: Sequence[str],
        count: int | None,
        users: pl.Series,
        *,
        similar_ids: SimilarIds,
    ) -> None:
        """`table` makes a table of the columns of these names; `users` are the distinct ones."""
        self._table, self._extras, self._known_count, self._users = table, list(extras), count, users
        self._similar_ids = similar_ids

    @property
    def frame(self) -> pl.DataFrame:
        """Refused: the log may not fit here."""
        raise RefusedError(
            "this needs the whole log on one machine, which Spark is there to avoid.", remedy=Remedy("engine", "local")
        )

    def __len__(self) -> int:
        return self._count

    @cached_property
    def _count(self) -> int:
        return self._table(list(COLUMNS)).count() if self._known_count is None else self._known_count

    def table(self, *extra: str) -> Table:
        """The canonical columns, and extra ones by name, as a table on the cluster."""
        return self._table([*COLUMNS, *extra]).in_blocks(blocks_for(len(self)))

    def users(self) -> pl.Series:
        """The distinct users, sorted."""
        return self._users.sort()

    def user_count(self) -> int:
        """How many distinct users the log has."""
        return len(self._users)

    @property
    def extra_columns(self) -> list[str]:
        """Columns that are not canonical."""
        return self._extras

    def without_users(self, excluded: Collection[str]) -> SharedLog:
        """The same log without the records of the given users."""
        gone = pl.Series("user", list(excluded), dtype=pl.String)

        def table(columns: Sequence[str]) -> SharedTable:
            whole = self._table(columns)
            return whole.map_rows(Without(gone), whole.schema, keeps=("user",))

        left = self._users.filter(~self._users.is_in(gone.implode()))
        return SharedLog(table, self._extras, None, left, similar_ids=self.similar_ids)

"""A log that outgrows the memory, in private files: a `QueryLog` whose `table()` works group by group.

Its parts are groups of people, who share no user, so what `QueryLog` says of a log in parts holds. Whoever asks for
`frame` gets the whole log in memory, as always; mechanisms that work on tables never do.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Self

import polars as pl

from queryveil.log.query_log import (
    COLUMNS,
    QueryLog,
    Schema,
    SimilarIds,
    Table,
    block_numbers,
    blocks_for,
)
from queryveil.log.spill import MOST_GROUPS, Groups, Spill, SpilledTable, read_files


class DistinctUsers:
    """The distinct users of a log that comes in pieces."""

    def __init__(self) -> None:
        self._found, self._waiting, self._more = pl.Series("user", dtype=pl.String), list[pl.Series](), 0

    def add(self, piece: QueryLog) -> None:
        """Take in those of a piece."""
        self._waiting.append(piece.frame["user"].unique())
        self._more += len(self._waiting[-1])
        if self._more > len(self._found):  # so each is looked at a few times, however many pieces there are
            self.found()

    def found(self) -> pl.Series:
        """All so far."""
        self._found = pl.concat([self._found, *self._waiting]).unique()
        self._waiting, self._more = [], 0
        return self._found


class SpilledLog(QueryLog):
    """A log in groups of people on disk, as long as its `Spill` is open."""

    def __init__(
        self,
        spill: Spill,
        groups: Sequence[Sequence[Path]],
        schema: Schema,
        count: int,
        users: pl.Series,
        *,
        similar_ids: SimilarIds = "different",
    ) -> None:
        """`groups` are cut by the blocks of the column `user`, and as many as a power of two; `users` are distinct."""
        files = [[pl.scan_parquet(path, glob=False) for path in group] for group in groups if group]
        super().__init__(list(map(pl.concat, files)) or [pl.LazyFrame(schema=schema)], similar_ids=similar_ids)
        self._spill, self._groups, self._schema = spill, groups, dict(schema)
        self._count, self._users = count, users

    @classmethod
    def from_pieces(
        cls, spill: Spill, pieces: Iterable[QueryLog], groups: int, *, similar_ids: SimilarIds = "different"
    ) -> Self:
        """The records of the pieces of a log, all of which have the same columns."""
        dealt = Groups(spill, groups, lambda rows: block_numbers(rows["user"], groups))
        count, users, schema = 0, DistinctUsers(), dict(COLUMNS)
        for piece in pieces:
            schema, count = dict(piece.frame.schema), count + len(piece)
            users.add(piece)
            dealt.add(piece.frame)
        dealt.flush()
        return cls(spill, dealt.files, schema, count, users.found().sort(), similar_ids=similar_ids)

    def __len__(self) -> int:
        return self._count

    def table(self, *extra: str) -> Table:
        """The canonical columns, and extra ones by name, as a table for work block by block."""
        blocks = blocks_for(len(self))
        # Groups are cut before anybody knows how many blocks there will be; where there are more, some go together.
        wanted = min(len(self._groups), blocks)
        groups = [[path for part in self._groups[group::wanted] for path in part] for group in range(wanted)]
        schema = {name: self._schema[name] for name in (*COLUMNS, *extra)}
        return SpilledTable(self._spill, groups, schema, blocks, "user")

    @property
    def outgrows_memory(self) -> bool:
        """It does, or it would not be here."""
        return True

    def rows(self, *columns: str) -> Iterator[pl.DataFrame]:
        """Some columns of all records, hidden ones among them, one group of people after the other."""
        for group in self._groups:
            yield read_files(group, {name: self._schema[name] for name in columns})

    def table_beside(self, pieces: Iterable[pl.DataFrame], schema: Schema, key: str) -> Table:
        """Records of this log and of another one that is no larger, on disk by the blocks of a column."""
        groups = min(MOST_GROUPS, 2 * len(self._groups))
        return SpilledTable.by_key(self._spill, pieces, schema, max(groups, blocks_for(2 * len(self))), key, groups)

    def users(self) -> pl.Series:
        """The distinct users, sorted."""
        return self._users

    def user_count(self) -> int:
        """How many distinct users the log has."""
        return len(self._users)

    @property
    def extra_columns(self) -> list[str]:
        """Columns that are not canonical, in the order they came in."""
        return [name for name in self._schema if name not in COLUMNS]

    def without_users(self, excluded: Collection[str]) -> SpilledLog:
        """The same log without the records of the given users."""
        gone = pl.Series(list(excluded), dtype=pl.String).implode()
        return self._filtered(lambda rows: rows.filter(~pl.col("user").is_in(gone)))

    def _filtered(self, keep: Callable[[pl.DataFrame], pl.DataFrame]) -> SpilledLog:
        """The same log with some people's records: groups stay groups."""
        pieces = (QueryLog(keep(read_files(group, self._schema))) for group in self._groups if group)
        return SpilledLog.from_pieces(self._spill, pieces, len(self._groups), similar_ids=self.similar_ids)

"""Records that are worked on block by block, wherever they lie.

A mechanism that distributes is written once, against `Table`: what it does with one block of records is a pure function
of that block and its number. `LocalTable` runs such functions over a Polars frame; `queryveil.engines.spark` runs the
same ones on a cluster. Rows of one key value always share a block, and a value's block is the same everywhere (CRC-32,
which every engine has), so that block number b draws the same noise on one machine and on many.

The number of blocks follows the number of records and decides only who works on what: draws of different blocks are
independent, so the law of a release does not depend on how it was cut. A block's rows come in no particular order;
where a function draws, it sorts them first (`in_canonical_order`).

>>> table = LocalTable(pl.DataFrame({"user": ["ann", "bob", "ann"]}), blocks=2)
>>> schema = {"user": pl.String(), "len": pl.UInt32()}
>>> counted = table.map_blocks("user", lambda block, rows: rows.group_by("user").len(), schema)
>>> sorted(counted.collect().rows())
[('ann', 2), ('bob', 1)]
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from queryveil import progress

if TYPE_CHECKING:
    from queryveil.log.query_log import QueryLog

Schema: TypeAlias = Mapping[str, pl.DataType]
BlockWork: TypeAlias = Callable[[int, pl.DataFrame], pl.DataFrame]
Rows = TypeVar("Rows", pl.DataFrame, pl.LazyFrame)
RowWork: TypeAlias = Callable[[pl.DataFrame], pl.DataFrame]

RECORDS_PER_BLOCK = 1 << 16
MOST_BLOCKS = 1 << 16
ROWS_AT_ONCE = 1 << 18
BYTES_AT_ONCE = 1 << 30
"""Polars holds no text of 4 GiB or more, and somebody may have written thousands of the longest."""
BLOCKS_COMBINED = 16
BLOCK = "__block"
GOES_THROUGH = {"user": "users", "query": "texts"}


class Table(Protocol):
    """Records with columns of known types, cut into blocks by whatever column a step needs."""

    @property
    def blocks(self) -> int:
        """How many blocks there are, for every step alike."""

    @property
    def schema(self) -> Schema:
        """The columns and their types."""

    def map_blocks(self, key: str, work: BlockWork, schema: Schema, combine: RowWork | None = None) -> Table:
        """`work(block, rows)` for every block of the column `key`, which is of texts or whole numbers.

        `combine` makes fewer rows of those of several blocks, such as sums of sums: an engine may use it, on any rows
        and as often as it likes.
        """

    def map_rows(self, work: RowWork, schema: Schema) -> Table:
        """`work(rows)` for any cut of the records: for what looks at each row alone."""

    def kept(self) -> Table:
        """The same records, computed once and kept: for a table that several steps read."""

    def collect(self) -> pl.DataFrame:
        """All records on this machine, in no particular order; for what is known to be small."""

    def in_order(self, columns: Sequence[str]) -> QueryLog:
        """The finished log, sorted by these columns, nulls first; the first is `user`, with random names.

        Columns that start with `__` stay with it, hidden from readers.
        """

    def log_of(self, pieces: Iterable[pl.DataFrame], schema: Schema) -> QueryLog:
        """A finished log that was made elsewhere: its pieces share no user and come in the order of its records."""


class LocalTable:
    """A table over one Polars frame; blocks are worked on by as many threads as there are cores."""

    def __init__(self, frame: pl.DataFrame, blocks: int | None = None) -> None:
        self.frame = frame
        self.blocks = blocks_for(frame.height) if blocks is None else blocks

    @property
    def schema(self) -> Schema:
        """The columns and their types."""
        return self.frame.schema

    def map_blocks(self, key: str, work: BlockWork, schema: Schema, combine: RowWork | None = None) -> LocalTable:
        """See `Table`."""
        what = f"going through the {GOES_THROUGH.get(key, 'records')}"
        if self.blocks == 1:
            with progress.parts(what, 1) as part, part():
                made = [work(0, self.frame)] if self.frame.height else []
        else:
            # Places instead of copied rows: a block's rows are gathered when their turn comes.
            numbers = block_numbers(self.frame[key], self.blocks)
            places = np.argsort(numbers.astype(np.uint16), kind="stable").astype(np.uint32)
            ends = np.cumsum(np.bincount(numbers, minlength=self.blocks))
            filled = np.flatnonzero(np.diff(ends, prepend=0)).tolist()
            with progress.parts(what, len(filled)) as part, ThreadPoolExecutor(cores()) as threads:

                def worked(block: int) -> pl.DataFrame:
                    with part():
                        mine = places[ends[block - 1] if block else 0 : ends[block]]
                        return work(block, self.frame[mine])

                made = _combined(threads.map(worked, filled), combine)
        return self._of(made, schema)

    def map_rows(self, work: RowWork, schema: Schema) -> LocalTable:
        """See `Table`."""
        return self._of([work(self.frame)] if self.frame.height else [], schema)

    def kept(self) -> LocalTable:
        """See `Table`; everything here is kept anyway."""
        return self

    def collect(self) -> pl.DataFrame:
        """See `Table`."""
        return self.frame

    def in_order(self, columns: Sequence[str]) -> QueryLog:
        """See `Table`."""
        from queryveil.log.query_log import QueryLog

        return QueryLog([self.frame.sort(columns).lazy()])

    def log_of(self, pieces: Iterable[pl.DataFrame], schema: Schema) -> QueryLog:
        """See `Table`."""
        from queryveil.log.query_log import QueryLog

        return QueryLog([self._of(list(pieces), schema).frame.lazy()])

    def _of(self, made: list[pl.DataFrame], schema: Schema) -> LocalTable:
        # In one piece: to gather rows from a thousand pieces takes several times as long, in every step.
        parts = [shaped(part, schema) for part in made] or [pl.DataFrame(schema=schema)]
        return LocalTable(pl.concat(parts, rechunk=True), self.blocks)


def _combined(made: Iterable[pl.DataFrame], combine: RowWork | None) -> list[pl.DataFrame]:
    """What was made of the blocks, so many at a time made less of where that is possible."""
    if combine is None:
        return list(made)
    waiting: list[pl.DataFrame] = []
    done: list[pl.DataFrame] = []
    for rows in made:
        waiting.append(rows)
        if len(waiting) == BLOCKS_COMBINED:
            done.append(combine(pl.concat(waiting)))
            waiting = []
    return [*done, combine(pl.concat(waiting))] if waiting else done


def blocks_for(records: int) -> int:
    """How many blocks a log of so many records is cut into: a power of two, so that it tells little about them."""
    wanted = -(-records // RECORDS_PER_BLOCK)
    return int(min(MOST_BLOCKS, 1 << max(0, wanted - 1).bit_length()))


def block_numbers(values: pl.Series, blocks: int) -> npt.NDArray[np.uint32]:
    """The block of each value: CRC-32 of its text, modulo the number of blocks; a null counts as an empty text."""
    from queryveil.log import _crc_kernel as kernel  # Numba takes a second to import: only logs of several blocks pay

    numbers = np.empty(len(values), np.uint32)
    start = 0
    while start < len(values):
        texts = values.slice(start, ROWS_AT_ONCE).cast(pl.String).fill_null("")
        lengths = texts.str.len_bytes().to_numpy()
        fitting = int(np.searchsorted(np.cumsum(lengths, dtype=np.int64), BYTES_AT_ONCE, side="right"))
        rows = max(1, fitting)
        data = np.frombuffer(texts[:rows].str.join("").item().encode(), np.uint8)
        kernel.checksums(data, lengths[:rows], kernel.REMAINDERS, numbers[start : start + rows])
        start += rows
    return numbers % np.uint32(blocks)


class ByBlock:
    """Rows that travel with a step over blocks, cut as the table is: each block sees its own and not all of them."""

    def __init__(self, rows: pl.DataFrame, key: str, blocks: int) -> None:
        numbers = block_numbers(rows[key], blocks) if blocks > 1 else np.zeros(rows.height, np.uint32)
        self._ends = np.cumsum(np.bincount(numbers, minlength=blocks))
        self._rows = rows[np.argsort(numbers, kind="stable")]

    def __getitem__(self, block: int) -> pl.DataFrame:
        start = int(self._ends[block - 1]) if block else 0
        return self._rows[start : int(self._ends[block])]


def in_canonical_order(rows: pl.DataFrame) -> pl.DataFrame:
    """The rows sorted by all they hold: how they came in leaves no trace, and rows that tie are alike."""
    return rows.sort(rows.columns, nulls_last=False)


def shaped(rows: Rows, schema: Schema) -> Rows:
    """The columns of a schema, in its order and types."""
    return rows.select(pl.col(name).cast(dtype) for name, dtype in schema.items())


def cores() -> int:
    """How many cores this process may use, which in a container is fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

"""The one table of the package: who asked what, when, and which result they clicked; and work on it block by block.

>>> log = QueryLog.of([("ann", "weather"), ("bob", "weather"), ("ann", "tulip bulbs")])
>>> log
QueryLog(3 records, 2 users)
>>> log.queries()
['weather', 'weather', 'tulip bulbs']
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt
import polars as pl

from queryveil import progress
from queryveil.display import table
from queryveil.errors import DataError, Remedy
from queryveil.log.shown import SHOWN

COLUMNS: dict[str, pl.DataType] = {
    "user": pl.String(),
    "query": pl.String(),
    "time": pl.Datetime("us"),
    "rank": pl.UInt32(),
    "url": pl.String(),
    "session": pl.String(),
}
"""The canonical columns and their types. `user` and `query` are never null nor empty; the others may be null."""


METADATA: tuple[str, ...] = ("country", "region", "device", "language")
"""Optional columns with a meaning: where a record was made, on what, and in which language. Texts; they travel as extra
columns do, as `shown` does (`queryveil.log.shown`), and a mechanism that does not name them drops them."""

HIDDEN_PREFIX = "__"
SimilarIds: TypeAlias = Literal["same", "different"]

QUERY = ["user", "query", "time", "session"]
"""What the records of one query share."""
FIRST_OF_QUERY = pl.col("time").is_null() | pl.struct(QUERY).is_first_distinct()
"""One record of each query; where a record has no time it counts as a query."""

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


class QueryLog:
    """One row per click and one per query without a click.

    A log that is read or made here is one Polars frame. What a cluster made comes in parts that are larger together
    than the memory may be: they are lazy frames that share no user and follow each other in the order of the records,
    and are read one at a time, or whole where somebody asks for `frame`. Of their columns those whose name starts with
    `__` are kept from the reader: they hold what only the holder may know (`hidden`).

    Unknown columns travel along after the canonical ones; a mechanism that cannot protect them drops them.
    Neither `repr` nor any error shows a row: look at `log.frame` when you mean to see data.
    """

    def __init__(self, rows: pl.DataFrame | Sequence[pl.LazyFrame], *, similar_ids: SimilarIds = "different") -> None:
        self._similar_ids = similar_ids
        if isinstance(rows, pl.DataFrame):
            self.frame = _checked(rows)
            self._parts = [self.frame.lazy()]
            self._hidden = self._parts[0].select("user")
        else:
            self._parts = [_canonical(part.select(pl.exclude(f"^{HIDDEN_PREFIX}.*$"))) for part in rows]
            self._hidden = pl.concat(rows).select("user", f"^{HIDDEN_PREFIX}.*$")

    @classmethod
    def of(cls, rows: Iterable[Sequence[Any]]) -> QueryLog:
        """Build a log from tuples in the order of `COLUMNS`; trailing columns may be left out."""
        padded = [tuple(row) + (None,) * (len(COLUMNS) - len(row)) for row in rows]
        if any(len(row) > len(COLUMNS) for row in padded):
            raise DataError(f"a row has more than the {len(COLUMNS)} columns {', '.join(COLUMNS)}.")
        try:
            frame = pl.DataFrame(padded, schema=pl.Schema(COLUMNS), orient="row")
        except (TypeError, ValueError, OverflowError, pl.exceptions.PolarsError):  # their texts would quote values
            raise DataError(f"a value has the wrong type; the columns are {_types()}.") from None
        return cls(frame)

    @classmethod
    def empty(cls) -> QueryLog:
        """A log without records."""
        return cls.of([])

    @cached_property
    def frame(self) -> pl.DataFrame:
        """The whole log, in memory."""
        return _checked(self.lazy().collect())

    def lazy(self) -> pl.LazyFrame:
        """What a reader may see, read when it is needed."""
        return pl.concat(self._parts)

    def lazy_parts(self) -> Sequence[pl.LazyFrame]:
        """The same in pieces that fit in memory, one behind the other."""
        return self._parts

    def hidden(self) -> pl.LazyFrame:
        """Of a log that was made in parts: the user and the hidden columns of every record."""
        return self._hidden

    def parts(self) -> Iterator[QueryLog]:
        """The log in pieces that fit in memory; all of them use the columns that the whole log uses."""
        if len(self._parts) == 1:
            yield self
            return
        for rows in self._parts:
            part = QueryLog(rows.collect())
            part.used_columns = self.used_columns
            yield part

    def __len__(self) -> int:
        return self._record_count

    @cached_property
    def _record_count(self) -> int:
        return sum(part.select(pl.len()).collect().item() for part in self._parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QueryLog) and self.frame.equals(other.frame, null_equal=True)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"QueryLog({len(self):,} records, {self.user_count():,} users)"

    def _repr_html_(self) -> str:
        """In a notebook: sizes and columns, never a row."""
        sizes = ("records", f"{len(self):,}"), ("users", f"{self.user_count():,}")
        return table([*sizes, ("columns", ", ".join([*COLUMNS, *self.extra_columns]))], title="QueryLog")

    @property
    def extra_columns(self) -> list[str]:
        """Columns that are not canonical, in the order they came in."""
        return [name for name in self._parts[0].collect_schema() if name not in COLUMNS]

    @cached_property
    def used_columns(self) -> list[str]:
        """Canonical columns that hold at least one value, then the extra ones."""
        used = {"user", "query"}
        for part in self._parts:  # one at a time: all of them may outgrow the memory
            counts = part.select(pl.col(*COLUMNS).count()).collect().row(0, named=True)
            used |= {name for name, values in counts.items() if values}
        return [name for name in COLUMNS if name in used] + self.extra_columns

    @property
    def similar_ids(self) -> SimilarIds:
        """Whether ids that are written alike were merged, or are different people (see `queryveil.log.identifying`)."""
        return self._similar_ids

    @property
    def outgrows_memory(self) -> bool:
        """Whether the log waits on disk because it is larger than the memory may be (`queryveil.log.spilled_log`)."""
        return False

    def table(self, *extra: str) -> Table:
        """The canonical columns, and extra ones by name, as a table for work block by block."""
        return LocalTable(self.frame.select(*COLUMNS, *map(exactly, extra)))

    def rows(self, *columns: str) -> Iterator[pl.DataFrame]:
        """Some columns of all records, in pieces that fit in memory."""
        yield self.frame.select(map(exactly, columns))

    def table_beside(self, pieces: Iterable[pl.DataFrame], schema: Schema, key: str) -> Table:
        """Records of this log and of another one that is no larger, for several steps over the blocks of one column.

        In memory they are one block, since a grouping of all rows at once uses every core by itself.
        """
        rows = [shaped(piece, schema) for piece in pieces]
        return LocalTable(pl.concat(rows) if rows else pl.DataFrame(schema=schema), blocks=1)

    def user_count(self) -> int:
        """How many distinct users the log has; no part shares one with another."""
        return self._distinct_users

    @cached_property
    def _distinct_users(self) -> int:
        return sum(part.select(pl.col("user").n_unique()).collect().item() for part in self._parts)

    def queries(self) -> list[str]:
        """The query texts, row by row."""
        return self.frame["query"].to_list()

    def users(self) -> pl.Series:
        """The distinct users, sorted, so that the order tells nothing about the file."""
        return pl.concat(part.select(pl.col("user").unique()).collect() for part in self._parts)["user"].unique().sort()

    def clicks(self) -> pl.DataFrame:
        """`user, query, url, count`: how often each user clicked each result of each query."""
        clicked = self.frame.filter(pl.col("url").is_not_null())
        return clicked.group_by("user", "query", "url").agg(pl.len().alias("count")).sort("user", "query", "url")

    def by_user(self) -> pl.DataFrame:
        """One row per user with the list of their queries in time order, and how many there are."""
        in_order = self.frame.sort("time", maintain_order=True, nulls_last=True)
        return in_order.group_by("user").agg("query", pl.len().alias("records")).sort("user")

    def keeping(self, columns: Collection[str]) -> QueryLog:
        """The same log with only these columns; the other canonical ones become null, extra ones are dropped."""
        kept = self.frame.select(name for name in self.frame.columns if name in columns)
        return QueryLog(kept, similar_ids=self.similar_ids)

    def without_users(self, excluded: Collection[str]) -> QueryLog:
        """The same log without the records of the given users."""
        left = self.frame.filter(~pl.col("user").is_in(list(excluded)))
        return QueryLog(left, similar_ids=self.similar_ids)


def _types() -> str:
    return ", ".join(f"{name} {dtype}" for name, dtype in COLUMNS.items())


def exactly(name: str) -> pl.Expr:
    """The column of this very name: `pl.col` would read `*` and `^...$` as patterns, and a file may use any name."""
    if name == "*" or (name.startswith("^") and name.endswith("$")):
        return pl.col("^" + "".join(f"\\x{{{ord(character):x}}}" for character in name) + "$")
    return pl.col(name)


def _canonical(rows: Rows) -> Rows:
    """The canonical columns in their types, null where there are none, and behind them all others."""
    schema = rows.collect_schema()
    ours = ((name, pl.col(name) if name in schema else pl.lit(None), dtype) for name, dtype in COLUMNS.items())
    extras = ((name, exactly(name), dtype) for name, dtype in schema.items() if name not in COLUMNS)
    return rows.select(
        *(_nothing_as_null(name, column.cast(dtype), dtype) for name, column, dtype in ours),
        *(_nothing_as_null(name, column, dtype) for name, column, dtype in extras),
    )


def _checked(frame: pl.DataFrame) -> pl.DataFrame:
    missing = [name for name in ("user", "query") if name not in frame.columns]
    if missing:
        raise DataError(
            f"a query log needs the columns user and query; missing: {', '.join(missing)}. Map your own names to them.",
            remedy=Remedy("columns", dict.fromkeys(missing, "THEIR_NAME")),
        )
    try:
        canonical = _canonical(frame)
    except pl.exceptions.PolarsError:  # its text would quote values
        wrong = [n for n, t in COLUMNS.items() if n in frame.columns and frame[n].dtype != t]
        raise DataError(f"cannot read {' or '.join(wrong)} as the type the table needs.") from None
    for name in ("user", "query"):
        empty = canonical.select((pl.col(name).is_null() | (pl.col(name) == "")).arg_true()).to_series()
        if len(empty):
            raise DataError(f"row {empty[0] + 1}: {name} is empty ({len(empty):,} such rows). Every record needs one.")
    return canonical


def _nothing_as_null(name: str, column: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    """ "" and null mean the same in url, session and extra text columns: nothing was recorded."""
    if dtype == pl.String and name not in ("user", "query"):
        column = pl.when(column != "").then(column)
    elif name == SHOWN and isinstance(dtype, pl.List):
        listed = column.cast(pl.List(pl.String)).list.drop_nulls()
        # The text of {"": [...]} but for its braces and key: Polars writes JSON of structs only.
        column = pl.when(column.is_not_null()).then(
            pl.struct(listed.alias("")).struct.json_encode().str.slice(4).str.head(-1)
        )
    return column.alias(name)


class Table(Protocol):
    """Records with columns of known types, cut into blocks by whatever column a step needs.

    A mechanism that distributes is written once, against this: what it does with one block of records is a pure
    function of that block and its number. `LocalTable` runs such functions over a Polars frame;
    `queryveil.engines.spark` runs the same ones on a cluster. Rows of one key value always share a block, and a value's
    block is the same everywhere (CRC-32, which every engine has), so that block number b draws the same noise on one
    machine and on many.

    The number of blocks follows the number of records and decides only who works on what: draws of different blocks are
    independent, so the law of a release does not depend on how it was cut. A block's rows come in no particular order;
    where a function draws, it sorts them first (`in_canonical_order`).
    """

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

    def map_rows(self, work: RowWork, schema: Schema, keeps: Collection[str] = ()) -> Table:
        """`work(rows)` for any cut of the records: for what looks at each row alone.

        `keeps` names columns whose values stay as they are, also where rows become fewer: records that lie by blocks of
        such a column need not be moved for the next step over its blocks.
        """

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
    """A table over one Polars frame; blocks are worked on by as many threads as there are cores.

    >>> table = LocalTable(pl.DataFrame({"user": ["ann", "bob", "ann"]}), blocks=2)
    >>> schema = {"user": pl.String(), "len": pl.UInt32()}
    >>> counted = table.map_blocks("user", lambda block, rows: rows.group_by("user").len(), schema)
    >>> sorted(counted.collect().rows())
    [('ann', 2), ('bob', 1)]
    """

    def __init__(self, frame: pl.DataFrame, blocks: int | None = None) -> None:
        self.frame = frame
        self.blocks = blocks_for(frame.height) if blocks is None else blocks

    @property
    def schema(self) -> Schema:
        """The columns and their types."""
        return self.frame.schema

    def map_blocks(self, key: str, work: BlockWork, schema: Schema, combine: RowWork | None = None) -> LocalTable:
        """See `Table`."""
        if self.blocks == 1:  # which has no parts to count: the work itself says how far it is
            made = [work(0, self.frame)] if self.frame.height else []
        else:
            # Places instead of copied rows: a block's rows are gathered when their turn comes.
            numbers = block_numbers(self.frame[key], self.blocks)
            places = np.argsort(numbers.astype(np.uint16), kind="stable").astype(np.uint32)
            ends = np.cumsum(np.bincount(numbers, minlength=self.blocks))
            filled = np.flatnonzero(np.diff(ends, prepend=0)).tolist()
            what = f"going through the {GOES_THROUGH.get(key, 'records')}"
            with progress.parts(what, len(filled)) as part, ThreadPoolExecutor(cores()) as threads:

                def worked(block: int) -> pl.DataFrame:
                    with part():
                        mine = places[ends[block - 1] if block else 0 : ends[block]]
                        return work(block, self.frame[mine])

                made = _combined(threads.map(worked, filled), combine)
        return self._of(made, schema)

    def map_rows(self, work: RowWork, schema: Schema, keeps: Collection[str] = ()) -> LocalTable:
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
        return QueryLog([self.frame.sort(columns).lazy()])

    def log_of(self, pieces: Iterable[pl.DataFrame], schema: Schema) -> QueryLog:
        """See `Table`."""
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
    return rows.select(exactly(name).cast(dtype) for name, dtype in schema.items())


def cores() -> int:
    """How many cores this process may use, which in a container is fewer than there are."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

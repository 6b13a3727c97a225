"""Records that outgrow the memory, on one machine: `Table` over private files.

`Spill` is a folder that only its owner may open, with files that only their owner may read, deleted when the run ends,
or, where it is killed, when the next begins (`queryveil.log.scratch`). `SpilledTable` keeps its records there in
*groups*, each small enough for the memory. A group holds whole blocks: the number of groups and the number of blocks
are powers of two, and a value's group is its block modulo the number of groups, both by CRC-32 (`block_numbers`). So a
step over blocks goes from group to group, and within a group every block is worked on as in memory, by the same
function with the same number: what comes out is the same, whatever the number of groups. Where a step needs blocks of
another column, records are dealt out anew, a stretch of them at a time.

Every mechanism that works on `Table` works on this one.

>>> with Spill() as spill:
...     table = SpilledTable.of(spill, [pl.DataFrame({"user": ["ann", "bob", "ann"]})], {"user": pl.String()}, blocks=2)
...     schema = {"user": pl.String(), "len": pl.UInt32()}
...     counted = table.map_blocks("user", lambda block, rows: rows.group_by("user").len(), schema)
...     sorted(counted.collect().rows())
[('ann', 2), ('bob', 1)]
"""

from __future__ import annotations

import os
import shutil
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

import numpy as np
import numpy.typing as npt
import polars as pl

from queryveil import progress
from queryveil.errors import EngineError
from queryveil.log.endings import heed_endings, sweep_undisturbed, swept
from queryveil.log.query_log import GOES_THROUGH, BlockWork, LocalTable, RowWork, Schema, block_numbers, cores, shaped
from queryveil.log.scratch import Scratch, abandoned

if TYPE_CHECKING:
    from queryveil.log.query_log import QueryLog

USUAL_MEMORY: Final = 4 << 30
SHARE_AT_ONCE: Final = 64
"""A group has this part of the memory as text: what is worked out from it, two blocks at a time, takes many times as
much, and a stretch of records that is dealt out is held twice."""
MOST_GROUPS: Final = 1024
PACKED: Final = 4
"""How many bytes of records a byte of a compressed file stands for, about."""
NAME_RANGES: Final = 256
"""Fresh names are `u` and random hexadecimal digits; two digits make so many ranges."""


class Spill:
    """A private folder for parts of a log. A context manager: what lies in it is deleted at the end."""

    def __init__(self, memory: int = USUAL_MEMORY) -> None:
        """`memory`: how many bytes the work may take, beside what the program itself does; a guide, not a limit."""
        self.bytes_at_once = max(1, memory // SHARE_AT_ONCE)
        for folder in abandoned("spill"):
            shutil.rmtree(folder, ignore_errors=True)
        self._scratch = Scratch("spill")
        self._folder = self._scratch.path
        self._numbers = count()

    def __enter__(self) -> Spill:
        heed_endings()
        return self

    def __exit__(self, *error: object) -> None:
        sweep_undisturbed()
        try:
            self.close()
        finally:
            swept()

    def close(self) -> None:
        """Delete everything."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self._scratch.release()
        if self._folder.exists():
            raise EngineError(f"parts of the log are left in {self._folder}. Delete that folder by hand.")

    def groups_for(self, size: int) -> int:
        """How many groups a log of so many bytes of text needs: a power of two."""
        return int(min(MOST_GROUPS, 1 << max(0, -(-size // self.bytes_at_once) - 1).bit_length()))

    def write(self, rows: pl.DataFrame) -> Path:
        """A new file with these rows."""
        path = self._folder / f"{next(self._numbers):08}.parquet"
        try:
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                rows.write_parquet(file, compression="lz4", statistics=False)
        except OSError:
            raise EngineError(
                f"the log outgrows the memory and cannot be written to {self._folder}. Is there room? "
                "TMPDIR names another place."
            ) from None
        return path


def read_files(paths: Sequence[Path], schema: Schema) -> pl.DataFrame:
    """The rows of spilled files, the columns of a schema alone."""
    from queryveil.log.query_log import exactly

    files = [pl.scan_parquet(path, glob=False).select(map(exactly, schema)) for path in paths]
    return pl.concat(files).collect() if files else pl.DataFrame(schema=schema)


class Place(Protocol):
    """Where files go: a `Spill`, or a folder of a cluster."""

    @property
    def bytes_at_once(self) -> int:
        """How many bytes of records may wait in memory."""

    def write(self, rows: pl.DataFrame) -> Path:
        """A new file with these rows."""


class Groups:
    """Rows that come in pieces, dealt out to files by a number of each row."""

    def __init__(self, spill: Place, groups: int, number: Callable[[pl.DataFrame], npt.NDArray[np.integer]]) -> None:
        self.files: list[list[Path]] = [[] for _ in range(groups)]
        self._spill, self._number = spill, number
        self._waiting: list[pl.DataFrame] = []
        self._size = 0

    def add(self, rows: pl.DataFrame) -> None:
        """Take in a piece."""
        if rows.height:
            self._waiting.append(rows)
            self._size += size_of(rows)
            if self._size >= self._spill.bytes_at_once:
                self.flush()

    def flush(self) -> None:
        """Write what waits: one file for each group that has rows of it."""
        if not self._waiting:
            return
        rows = pl.concat(self._waiting)
        self._waiting, self._size = [], 0
        if len(self.files) == 1:
            self.files[0].append(self._spill.write(rows))
            return
        numbers = self._number(rows).astype(np.uint16)
        rows = rows[np.argsort(numbers, kind="stable").astype(np.uint32)]
        ends = np.cumsum(np.bincount(numbers, minlength=len(self.files))).tolist()
        filled = [group for group, end in enumerate(ends) if end > (ends[group - 1] if group else 0)]

        def write(group: int) -> Path:
            start = ends[group - 1] if group else 0
            return self._spill.write(rows[start : ends[group]])

        with ThreadPoolExecutor(cores()) as threads:
            for group, path in zip(filled, threads.map(write, filled), strict=True):
                self.files[group].append(path)


def size_of(rows: pl.DataFrame) -> int:
    """How many bytes the values of some rows have; Polars itself counts what rows share with others as theirs.

    >>> size_of(pl.DataFrame({"user": ["ann", "bob"], "interests": [[3, 7, 9], None]}))
    62
    """
    within = []
    for place, dtype in enumerate(rows.dtypes):
        if dtype == pl.String:
            within.append(pl.nth(place).str.len_bytes().sum())
        elif isinstance(dtype, pl.List):  # of numbers: a person's profile may have a thousand of them
            within.append(pl.nth(place).list.len().sum() * 8)
    inside: tuple[int, ...] = rows.select(within).row(0) if within else ()
    return 8 * rows.height * rows.width + sum(inside)


class SpilledTable:
    """Records in groups of files; see the top of this module."""

    def __init__(
        self, spill: Spill, files: Sequence[Sequence[Path]], schema: Schema, blocks: int, key: str | None = None
    ) -> None:
        """`key` is the column by whose blocks the records are grouped; None where they lie anyhow."""
        self._spill, self._files, self.schema, self.blocks, self._key = spill, files or [[]], dict(schema), blocks, key

    @classmethod
    def of(cls, spill: Spill, pieces: Iterable[pl.DataFrame], schema: Schema, blocks: int) -> SpilledTable:
        """The records of some pieces, which lie as they come."""
        groups = Groups(spill, 1, lambda rows: np.zeros(rows.height, np.uint32))
        for piece in pieces:
            groups.add(shaped(piece, schema))
        groups.flush()
        table = cls(spill, [[path] for path in groups.files[0]], schema, blocks)
        weakref.finalize(table, _remove, groups.files)
        return table

    @classmethod
    def by_key(
        cls, spill: Spill, pieces: Iterable[pl.DataFrame], schema: Schema, blocks: int, key: str, groups: int
    ) -> SpilledTable:
        """The records of some pieces, dealt out to groups by the blocks of a column; at most as many as blocks."""
        dealt = Groups(spill, groups, lambda rows: block_numbers(rows[key], groups))
        for piece in pieces:
            dealt.add(shaped(piece, schema))
        dealt.flush()
        table = cls(spill, dealt.files, schema, blocks, key)
        weakref.finalize(table, _remove, dealt.files)
        return table

    def map_blocks(self, key: str, work: BlockWork, schema: Schema, combine: RowWork | None = None) -> SpilledTable:
        """See `Table`."""
        grouped = self if self._key == key else self._grouped(key)

        def worked() -> Iterator[pl.DataFrame]:
            what = f"going through the {GOES_THROUGH.get(key, 'records')}"
            with progress.parts(what, len(grouped._files)) as part:
                for rows in grouped._loaded():
                    with part():
                        here = LocalTable(rows, self.blocks).map_blocks(key, work, schema, combine)
                    yield here.frame

        return self._new(worked(), schema)

    def map_rows(self, work: RowWork, schema: Schema, keeps: Collection[str] = ()) -> SpilledTable:
        """See `Table`."""
        made = (work(rows) if rows.height else pl.DataFrame(schema=schema) for rows in self._loaded())
        if self._key not in keeps:
            return self._new(made, schema)
        files = [[self._spill.write(shaped(rows, schema))] if rows.height else [] for rows in made]
        table = SpilledTable(self._spill, files, schema, self.blocks, self._key)
        weakref.finalize(table, _remove, files)
        return table

    def kept(self) -> SpilledTable:
        """See `Table`; everything here is kept anyway."""
        return self

    def collect(self) -> pl.DataFrame:
        """See `Table`."""
        return read_files([path for group in self._files for path in group], self.schema)

    def in_order(self, columns: Sequence[str]) -> QueryLog:
        """See `Table`; a part of the log for each range of names."""
        ranges = min(NAME_RANGES, self._groups_needed)
        groups = self._dealt(ranges, lambda rows: range_of_names(rows["user"], ranges))
        return self.log_of(self._sorted(groups, columns), self.schema)

    def _sorted(self, groups: Groups, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        for files in groups.files:
            yield read_files(files, self.schema).sort(columns)
            _remove([files])

    def log_of(self, pieces: Iterable[pl.DataFrame], schema: Schema) -> QueryLog:
        """See `Table`; its parts lie in the folder, and are gone with it."""
        from queryveil.log.query_log import QueryLog

        paths = [self._spill.write(shaped(piece, schema)) for piece in pieces if piece.height]
        files = [pl.scan_parquet(path, glob=False) for path in paths]
        return QueryLog(files or [pl.LazyFrame(schema=schema)])

    def _loaded(self) -> Iterator[pl.DataFrame]:
        """The records of one group after the other; the next is read while one is worked on."""
        with ThreadPoolExecutor(1) as reader:
            coming = reader.submit(read_files, self._files[0], self.schema)
            for following in [*self._files[1:], None]:
                rows = coming.result()
                if following is not None:
                    coming = reader.submit(read_files, following, self.schema)
                yield rows

    def _grouped(self, key: str) -> SpilledTable:
        """The same records, grouped by the blocks of a column."""
        wanted = min(self.blocks, self._groups_needed)
        groups = self._dealt(wanted, lambda rows: block_numbers(rows[key], wanted))
        table = SpilledTable(self._spill, groups.files, self.schema, self.blocks, key)
        weakref.finalize(table, _remove, groups.files)
        return table

    @property
    def _groups_needed(self) -> int:
        size = sum(path.stat().st_size for group in self._files for path in group)
        return self._spill.groups_for(PACKED * size)

    def _dealt(self, groups: int, number: Callable[[pl.DataFrame], npt.NDArray[np.integer]]) -> Groups:
        """The records in so many other groups."""
        made = Groups(self._spill, groups, number)
        for rows in self._loaded():
            made.add(rows)
        made.flush()
        return made

    def _new(self, made: Iterable[pl.DataFrame], schema: Schema) -> SpilledTable:
        return SpilledTable.of(self._spill, made, schema, self.blocks)


def range_of_names(names: pl.Series, ranges: int) -> npt.NDArray[np.int64]:
    """Which of so many ranges of equal probability each random name falls in.

    >>> range_of_names(pl.Series(["u00ab", "u80cd", "uffef"]), 4).tolist()
    [0, 2, 3]
    """
    if not names.str.contains("^u[0-9a-f]{2}").all():
        raise EngineError("a user of a finished log has no random name.")
    leading = names.str.slice(1, 2).str.to_integer(base=16).to_numpy().astype(np.int64)
    return np.asarray(leading * ranges // NAME_RANGES)


def _remove(files: Iterable[Iterable[Path]]) -> None:
    for group in files:
        for path in group:
            path.unlink(missing_ok=True)

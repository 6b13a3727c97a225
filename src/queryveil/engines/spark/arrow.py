"""Block functions as Spark runs them: Arrow batches in, Arrow batches out, Polars between.

Spark has no unsigned numbers; they travel as longer signed ones and are what they were again on either side. Nor can
it handle every name of a column (`a.b`, `*`, `` ` ``): such columns are numbered there, and a block function sees the
names they have in the file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import polars as pl
import pyarrow as pa  # type: ignore[import-untyped]
from pyspark.sql import types as spark_types

from queryveil.errors import QueryVeilError
from queryveil.log.query_log import BLOCK, BlockWork, RowWork, Schema, shaped

ROWS_AT_ONCE = 1 << 16
BYTES_AT_ONCE = 1 << 28
FAILED, END = "«queryveil: ", "»"
"""Around what went wrong in a block function, so that the driver finds it in Spark's text."""


Result = TypeVar("Result")


class WorkError(RuntimeError):
    """A block function failed on an executor."""


_SPARK: dict[pl.DataType, tuple[spark_types.DataType, pa.DataType]] = {
    pl.String(): (spark_types.StringType(), pa.string()),
    pl.Int32(): (spark_types.IntegerType(), pa.int32()),
    pl.Int64(): (spark_types.LongType(), pa.int64()),
    pl.UInt32(): (spark_types.LongType(), pa.int64()),
    pl.Float64(): (spark_types.DoubleType(), pa.float64()),
    pl.Boolean(): (spark_types.BooleanType(), pa.bool_()),
    pl.Datetime("us"): (spark_types.TimestampNTZType(), pa.timestamp("us")),
}


def _types(dtype: pl.DataType) -> tuple[spark_types.DataType, pa.DataType]:
    if isinstance(dtype, pl.List):
        spark_type, arrow_type = _types(dtype.inner)  # type: ignore[arg-type]
        return spark_types.ArrayType(spark_type), pa.list_(arrow_type)
    return _SPARK[dtype]


def spark_schema(schema: Schema) -> spark_types.StructType:
    """The schema as Spark knows it."""
    return spark_types.StructType(
        [spark_types.StructField(name, _types(dtype)[0], nullable=True) for name, dtype in schema.items()]
    )


def arrow_batches(rows: pl.DataFrame, schema: Schema) -> list[pa.RecordBatch]:
    """Rows as Spark takes them, in pieces small enough for its 32-bit offsets into texts."""
    fields = pa.schema([(name, _types(dtype)[1]) for name, dtype in schema.items()])
    return [batch for piece in _pieces(shaped(rows, schema)) for batch in piece.to_arrow().cast(fields).to_batches()]


def _pieces(rows: pl.DataFrame) -> Iterator[pl.DataFrame]:
    """Slices of few rows, and of texts of `BYTES_AT_ONCE` together and one row more at most."""
    for piece in rows.iter_slices(ROWS_AT_ONCE):
        sizes = [_text_bytes(values) for values in piece]
        full = sum(sizes, pl.zeros(piece.height, pl.Int64, eager=True)).cum_sum() // BYTES_AT_ONCE
        start = 0
        for length in full.rle().struct.field("len"):
            yield piece.slice(start, length)
            start += length


def _text_bytes(values: pl.Series) -> pl.Series:
    """How many bytes of text each value holds."""
    if isinstance(values.dtype, pl.List):
        return values.list.eval(pl.element().cast(pl.String).str.len_bytes()).list.sum().fill_null(0).cast(pl.Int64)
    if values.dtype == pl.String:
        return values.str.len_bytes().fill_null(0).cast(pl.Int64)
    return pl.zeros(len(values), pl.Int64, eager=True)


def polars_rows(table: pa.Table, schema: Schema) -> pl.DataFrame:
    """Rows as a block function takes them."""
    made: Any = pl.from_arrow(table)
    rows: pl.DataFrame = shaped(made, schema)
    return rows


def run_privately(work: Callable[[], Result]) -> Result:
    """What the work gives. Spark logs what goes wrong on an executor, so a message that could quote data ends here."""
    try:
        return work()
    except QueryVeilError as error:
        message = f"{type(error).__name__}: {error}"
    except Exception as error:
        message = f"{type(error).__name__} in a block"
    raise WorkError(f"{FAILED}{message}{END}") from None


@dataclass(frozen=True)
class BlockTask:
    """Runs a block function over a partition that holds whole blocks."""

    work: BlockWork
    before: Schema
    after: Schema
    names: Mapping[str, str] = field(default_factory=dict)
    """From a column's name on Spark to its name in the file, where they differ."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What Spark calls."""
        held = list(batches)
        if not held:
            return
        blocks = run_privately(lambda: _cut(held))
        for block in sorted(blocks):
            rows = blocks.pop(block)
            yield from run_privately(partial(self._work_on, block, rows))

    def _work_on(self, block: int, rows: pl.DataFrame) -> list[pa.RecordBatch]:
        return arrow_batches(self.work(block, shaped(rows, self.before).rename(self.names)), self.after)


@dataclass(frozen=True)
class RowTask:
    """Runs a function of rows over whatever comes."""

    work: RowWork
    before: Schema
    after: Schema
    names: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """What Spark calls."""
        for batch in batches:
            if batch.num_rows:
                yield from run_privately(partial(self._work_on, batch))

    def _work_on(self, batch: pa.RecordBatch) -> list[pa.RecordBatch]:
        rows = polars_rows(pa.Table.from_batches([batch]), self.before)
        return arrow_batches(self.work(rows.rename(self.names)), self.after)


def _cut(batches: list[pa.RecordBatch]) -> dict[int, pl.DataFrame]:
    """The blocks of a partition; the batches are let go."""
    rows: Any = pl.from_arrow(pa.Table.from_batches(batches))
    batches.clear()
    return {int(key[0]): part for key, part in rows.partition_by(BLOCK, as_dict=True, include_key=False).items()}

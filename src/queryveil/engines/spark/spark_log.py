"""A query log over a Spark DataFrame, and `queryveil.log.query_log.Table` over one.

Blocks are cut by CRC-32 in Spark itself and shuffled whole to tasks. Finished records are shuffled by the first digits
of their random names, sorted and committed as Parquet parts: neither the order nor the number of parts tells anything
about the order of the input.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING

import polars as pl
from pyspark.sql import functions as F  # noqa: N812  # Spark's own convention

from queryveil.engines.spark.arrow import BlockTask, RowTask, polars_rows, spark_schema
from queryveil.errors import RefusedError, Remedy
from queryveil.log.query_log import (
    BLOCK,
    COLUMNS,
    BlockWork,
    QueryLog,
    RowWork,
    Schema,
    SimilarIds,
    Table,
    blocks_for,
    shaped,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter

    from queryveil.engines.spark.cluster import Cluster

ROWS_PER_STAGED_FILE = 1 << 20
PART = "__part"
NAME_RANGES = 256
"""Names are `u` and random hexadecimal digits; two digits make this many ranges of equal probability."""


class SparkTable:
    """Records on Spark."""

    def __init__(
        self, cluster: Cluster, frame: DataFrame, schema: Schema, blocks: int, names: Mapping[str, str] | None = None
    ) -> None:
        """`names` maps columns' names on Spark to those in the file; what is made of a table has its own names."""
        self._cluster, self._frame, self._on_spark = cluster, frame, dict(schema)
        self._names = dict(names or {})
        self.schema: Schema = {self._names.get(name, name): dtype for name, dtype in schema.items()}
        self.blocks = blocks

    def map_blocks(self, key: str, work: BlockWork, schema: Schema, combine: RowWork | None = None) -> SparkTable:
        """See `Table`; nothing is combined here, where a shuffle does not need to fit anywhere."""
        text = F.coalesce(F.col(self._numbered(key)).cast("string"), F.lit(""))
        numbered = self._frame.withColumn(BLOCK, (F.crc32(text.cast("binary")) % F.lit(self.blocks)).cast("int"))
        tasks = self._cluster.tasks_for(self.blocks)
        gathered = numbered.repartitionById(tasks, F.col(BLOCK) % F.lit(tasks))
        task = BlockTask(work, self._on_spark, dict(schema), self._names)
        return self._new(gathered.mapInArrow(task, spark_schema(schema)), schema)

    def map_rows(self, work: RowWork, schema: Schema, keeps: Collection[str] = ()) -> SparkTable:
        """See `Table`."""
        task = RowTask(work, self._on_spark, dict(schema), self._names)
        return self._new(self._frame.mapInArrow(task, spark_schema(schema)), schema)

    def kept(self) -> SparkTable:
        """The same records, written to the staging place and read from there from now on."""
        place = self._cluster.staging.new_place()
        self._cluster.jobs.run(partial(writer(self._frame).parquet, place))
        copy = self._cluster.spark.read.schema(spark_schema(self._on_spark)).parquet(place)
        return SparkTable(self._cluster, copy, self._on_spark, self.blocks, self._names)

    def collect(self) -> pl.DataFrame:
        """See `Table`."""
        return polars_rows(self._cluster.jobs.run(self._frame.toArrow), self._on_spark).rename(self._names)

    def in_order(self, columns: Sequence[str]) -> QueryLog:
        """See `Table`; the parts are complete and committed when this returns.

        A log that is finished has no columns but the canonical ones and hidden ones.
        """
        parts = min(NAME_RANGES, self._cluster.tasks_for(self.blocks))
        leading = F.conv(F.substring("user", 2, 2), 16, 10).cast("int")
        random_name = F.col("user").rlike("^u[0-9a-f]{2}")
        number = F.floor(leading * F.lit(parts) / F.lit(NAME_RANGES)).cast("int")
        placed = self._frame.withColumn(
            PART, F.when(random_name, number).otherwise(F.raise_error(F.lit("a name is not a random one")).cast("int"))
        )
        place = self._cluster.staging.new_place()
        in_parts = placed.repartitionById(parts, F.col(PART)).sortWithinPartitions(PART, *map(self._numbered, columns))
        self._cluster.jobs.run(partial(writer(in_parts).partitionBy(PART).parquet, place))
        files = [pl.scan_parquet(path, glob=False) for path in self._cluster.staging.bring(place, PART)]
        return QueryLog([shaped(rows, self._on_spark) for rows in files or [pl.LazyFrame(schema=self._on_spark)]])

    def log_of(self, pieces: Iterable[pl.DataFrame], schema: Schema) -> QueryLog:
        """See `Table`; it lies on this machine, where it was made."""
        paths = [self._cluster.staging.write(shaped(piece, schema)) for piece in pieces if piece.height]
        files = [pl.scan_parquet(path, glob=False) for path in paths]
        return QueryLog(files or [pl.LazyFrame(schema=schema)])

    def _new(self, frame: DataFrame, schema: Schema) -> SparkTable:
        return SparkTable(self._cluster, frame, schema, self.blocks)

    def _numbered(self, column: str) -> str:
        """The name on Spark of a column that the file calls so."""
        return next((inside for inside, outside in self._names.items() if outside == column), column)


def writer(frame: DataFrame) -> DataFrameWriter:
    """Writes one file for each part, however large: a part's records belong together."""
    return frame.write.option("maxRecordsPerFile", 0)


class SparkLog(QueryLog):
    """A log that lies on a cluster: mechanisms work on its `table()`, and nobody reads it whole."""

    def __init__(
        self,
        cluster: Cluster,
        records: DataFrame,
        schema: Schema,
        extras: Mapping[str, str],
        count: int | None = None,
        *,
        users: pl.Series | None = None,
        similar_ids: SimilarIds = "different",
    ) -> None:
        """`extras` maps the names of extra columns, which may be any text, to their names in `records`.

        `count` and `users`, the distinct ones, are given where they are known already.
        """
        self._cluster, self._records, self._schema = cluster, records, dict(schema)
        self._extras, self._known_count, self._known_users = dict(extras), count, users
        self._similar_ids = similar_ids

    @property
    def frame(self) -> pl.DataFrame:
        """Refused: the log may not fit here."""
        raise RefusedError(
            "this needs the whole log on one machine, which Spark is there to avoid.", remedy=Remedy("engine", "local")
        )

    @cached_property
    def _count(self) -> int:
        if self._known_count is not None:
            return self._known_count
        return int(self._cluster.jobs.run(self._records.count))

    @cached_property
    def _users(self) -> pl.Series:
        if self._known_users is not None:
            return self._known_users.sort()
        distinct = self._records.select("user").distinct()
        return polars_rows(self._cluster.jobs.run(distinct.toArrow), {"user": pl.String()})["user"].sort()

    def __len__(self) -> int:
        return self._count

    def table(self, *extra: str) -> Table:
        """The canonical columns, and extra ones by name, as a table on the cluster."""
        names = {self._extras[name]: name for name in extra}
        schema = {name: self._schema[name] for name in (*COLUMNS, *names)}
        return SparkTable(self._cluster, self._records.select(*schema), schema, blocks_for(len(self)), names)

    def users(self) -> pl.Series:
        """The distinct users, sorted; on the driver, which a ledger of people needs anyway."""
        return self._users

    def user_count(self) -> int:
        """How many distinct users the log has."""
        return len(self._users)

    @property
    def extra_columns(self) -> list[str]:
        """Columns that are not canonical."""
        return list(self._extras)

    def without_users(self, excluded: Collection[str]) -> SparkLog:
        """The same log without the records of the given users."""
        users = pl.DataFrame({"user": list(excluded)}, schema={"user": pl.String()})
        place = self._cluster.staging.send(users, ROWS_PER_STAGED_FILE)
        gone = self._cluster.spark.read.schema("user string").parquet(place)
        left = self._records.join(gone, on="user", how="left_anti")
        kept = (
            None
            if self._known_users is None
            else self._known_users.filter(~self._known_users.is_in(users["user"].implode()))
        )
        return SparkLog(
            self._cluster,
            left.select(*self._schema),
            self._schema,
            self._extras,
            users=kept,
            similar_ids=self.similar_ids,
        )

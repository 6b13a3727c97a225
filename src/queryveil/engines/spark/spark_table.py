"""`queryveil.log.table.Table` over a Spark DataFrame.

Blocks are cut by CRC-32 in Spark itself and shuffled whole to tasks. Finished records are shuffled by the first digits
of their random names, sorted and committed as Parquet parts: neither the order nor the number of parts tells anything
about the order of the input.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import polars as pl
from pyspark.sql import functions as F  # noqa: N812  # Spark's own convention

from queryveil.engines.spark.arrow import BlockTask, RowTask, polars_rows, spark_schema
from queryveil.log.query_log import QueryLog
from queryveil.log.table import BLOCK, BlockWork, RowWork, Schema, shaped

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriter

    from queryveil.engines.spark.cluster import Cluster

PART = "__part"
NAME_RANGES = 256
"""Names are `u` and random hexadecimal digits; two digits make this many ranges of equal probability."""


class SparkTable:
    """Records on Spark."""

    def __init__(self, cluster: Cluster, frame: DataFrame, schema: Schema, blocks: int) -> None:
        self._cluster, self._frame = cluster, frame
        self.schema: Schema = dict(schema)
        self.blocks = blocks

    def map_blocks(self, key: str, work: BlockWork, schema: Schema) -> SparkTable:
        """See `Table`."""
        text = F.coalesce(F.col(key).cast("string"), F.lit(""))
        numbered = self._frame.withColumn(BLOCK, (F.crc32(text.cast("binary")) % F.lit(self.blocks)).cast("int"))
        tasks = self._cluster.tasks_for(self.blocks)
        gathered = numbered.repartitionById(tasks, F.col(BLOCK) % F.lit(tasks))
        task = BlockTask(work, self.schema, dict(schema))
        return self._of(gathered.mapInArrow(task, spark_schema(schema)), schema)

    def map_rows(self, work: RowWork, schema: Schema) -> SparkTable:
        """See `Table`."""
        task = RowTask(work, self.schema, dict(schema))
        return self._of(self._frame.mapInArrow(task, spark_schema(schema)), schema)

    def kept(self) -> SparkTable:
        """The same records, written to the staging place and read from there from now on."""
        place = self._cluster.staging.new_place()
        self._cluster.jobs.run(partial(writer(self._frame).parquet, place))
        return self._of(self._cluster.spark.read.schema(spark_schema(self.schema)).parquet(place), self.schema)

    def collect(self) -> pl.DataFrame:
        """See `Table`."""
        return polars_rows(self._cluster.jobs.run(self._frame.toArrow), self.schema)

    def in_order(self, columns: Sequence[str]) -> QueryLog:
        """See `Table`; the parts are complete and committed when this returns."""
        parts = min(NAME_RANGES, self._cluster.tasks_for(self.blocks))
        leading = F.conv(F.substring("user", 2, 2), 16, 10).cast("int")
        random_name = F.col("user").rlike("^u[0-9a-f]{2}")
        number = F.floor(leading * F.lit(parts) / F.lit(NAME_RANGES)).cast("int")
        placed = self._frame.withColumn(
            PART, F.when(random_name, number).otherwise(F.raise_error(F.lit("a name is not a random one")).cast("int"))
        )
        place = self._cluster.staging.new_place()
        in_parts = placed.repartitionById(parts, F.col(PART)).sortWithinPartitions(PART, *columns)
        self._cluster.jobs.run(partial(writer(in_parts).partitionBy(PART).parquet, place))
        files = [pl.scan_parquet(path, glob=False) for path in self._cluster.staging.bring(place, PART)]
        return QueryLog([shaped(rows, self.schema) for rows in files or [pl.LazyFrame(schema=self.schema)]])

    def _of(self, frame: DataFrame, schema: Schema) -> SparkTable:
        return SparkTable(self._cluster, frame, schema, self.blocks)


def writer(frame: DataFrame) -> DataFrameWriter:
    """Writes one file for each part, however large: a part's records belong together."""
    return frame.write.option("maxRecordsPerFile", 0)

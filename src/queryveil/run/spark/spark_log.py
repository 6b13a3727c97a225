"""A query log over a Spark DataFrame."""

from __future__ import annotations

from collections.abc import Collection
from functools import cached_property
from typing import TYPE_CHECKING, Any

import polars as pl
from pyspark.sql import functions as F  # noqa: N812

from queryveil.errors import RefusedError
from queryveil.log.query_log import COLUMNS, QueryLog
from queryveil.log.table import Schema, Table, blocks_for
from queryveil.run.spark.arrow import polars_rows
from queryveil.run.spark.failures import in_plain_words
from queryveil.run.spark.spark_table import SparkTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from queryveil.run.spark.cluster import Cluster


class SparkLog(QueryLog):
    """A log that lies on a cluster: mechanisms work on its `table()`, and nobody reads it whole."""

    def __init__(self, cluster: Cluster, records: DataFrame, schema: Schema, count: int | None = None) -> None:
        self._cluster, self._records, self._schema = cluster, records, dict(schema)
        self._known_count = count

    @property
    def frame(self) -> pl.DataFrame:  # type: ignore[override]
        """Refused: the log may not fit here."""
        raise RefusedError(
            "this needs the whole log on one machine, which Spark is there to avoid. Use --engine local."
        )

    @cached_property
    def _count(self) -> int:
        if self._known_count is not None:
            return self._known_count
        with in_plain_words():
            return int(self._records.count())

    @cached_property
    def _users(self) -> pl.Series:
        distinct = self._records.select("user").distinct()
        with in_plain_words():
            return polars_rows(distinct.toArrow(), {"user": pl.String()})["user"].sort()

    def __len__(self) -> int:
        return self._count

    def table(self, *extra: str) -> Table:
        """The canonical columns, and extra ones by name, as a table on the cluster."""
        schema = {name: self._schema[name] for name in (*COLUMNS, *extra)}
        return SparkTable(self._cluster, self._records.select(*schema), schema, blocks_for(len(self)))

    def users(self) -> pl.Series:
        """The distinct users, sorted; on the driver, which a ledger of people needs anyway."""
        return self._users

    def user_count(self) -> int:
        """How many distinct users the log has."""
        return len(self._users)

    @property
    def extra_columns(self) -> list[str]:
        """Columns that are not canonical."""
        return [name for name in self._schema if name not in COLUMNS]

    def without_users(self, excluded: Collection[str]) -> SparkLog:
        """The same log without the records of the given users."""
        gone: Any = self._cluster.spark.createDataFrame([(user,) for user in excluded], "user string")
        left = self._records.join(F.broadcast(gone), on="user", how="left_anti")
        return SparkLog(self._cluster, left.select(*self._schema), self._schema)

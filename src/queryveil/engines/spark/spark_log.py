"""A query log over a Spark DataFrame."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

import polars as pl

from queryveil.engines.spark.arrow import polars_rows
from queryveil.engines.spark.named_table import NamedTable
from queryveil.engines.spark.spark_table import SparkTable
from queryveil.errors import RefusedError
from queryveil.log.query_log import COLUMNS, QueryLog, SimilarIds
from queryveil.log.table import Schema, Table, blocks_for

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from queryveil.engines.spark.cluster import Cluster


ROWS_PER_STAGED_FILE = 1 << 20


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
            "this needs the whole log on one machine, which Spark is there to avoid. Use --engine local."
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
        table = SparkTable(self._cluster, self._records.select(*schema), schema, blocks_for(len(self)))
        return NamedTable(table, names) if names else table

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

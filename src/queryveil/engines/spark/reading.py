"""Read a log on Spark: Parquet from any file system that Spark knows, anything else through this machine.

Parquet is read once. Its rows are checked by the rules of every reader of the package (`checking.py`), bad ones are
counted by reason and never shown, and what is left lies in the staging place from then on: who is charged, who is left
out and what is released are all of that copy, whatever happens to the file meanwhile. A log in another format is read
here like on one machine and handed to Spark, so it must fit here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import polars as pl
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as spark_types

from queryveil.checks import require
from queryveil.engines.spark.arrow import RowTask, polars_rows, spark_schema
from queryveil.engines.spark.checking import BROKEN_TEXT, REASON, WRITTEN_ID, Checking, TimeUnit
from queryveil.engines.spark.direct_reading import DirectlyRead, read_directly
from queryveil.engines.spark.footers import Files, Kind, find_files
from queryveil.engines.spark.shared_table import SharedLog
from queryveil.engines.spark.spark_log import ROWS_PER_STAGED_FILE, SparkLog, writer
from queryveil.errors import FormatError, Remedy, UsageError
from queryveil.log import ReadReport
from queryveil.log.formats import ubi
from queryveil.log.formats.column_names import Names, match_names
from queryveil.log.formats.format import Findings
from queryveil.log.identifying import SIMILAR_IDS, ids_meant, representatives, similar_ids
from queryveil.log.query_log import COLUMNS, QueryLog, Schema, exactly
from queryveil.log.reading import PACKED_SUFFIXES, format_of_name, wrong_settings
from queryveil.release.pipeline import Source, merges, read_source, read_users

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from queryveil.engines.spark.cluster import Cluster

WANTED = {"time": "timestamps or ISO 8601 text", "rank": "whole numbers"}


def read(cluster: Cluster, source: Source) -> tuple[QueryLog, ReadReport, int]:
    """The log, what reading found, and how many of those who opted out are not in it."""
    require(*wrong_settings(source.format, source.columns, source.on_error, source.encoding, source.user_field))
    parquet = _is_parquet(source)
    if parquet and source.block_categories and (source.address or source.path.is_dir()):
        raise UsageError(
            "block_categories is applied on this machine, so with it the log must be one file here, not an address "
            "or a folder of Parquet. Leave it out, or name a file.",
            remedy=Remedy("block_categories"),
        )
    if not parquet or source.block_categories:
        log, report, unknown = read_source(source)
        return _stage(cluster, log), report, unknown
    excluded = read_users(source.exclude_users) if source.exclude_users else frozenset()
    try:
        found, written_ids, report = _read_parquet(cluster, source)
    except FormatError as error:
        raise FormatError(f"{source.path.name}: {error.message}", remedy=error.remedy) from None
    if not excluded:
        return found, report, 0
    gone, unknown = ids_meant(written_ids, excluded)
    if found.similar_ids == "same":
        gone = representatives(pl.Series(gone, dtype=pl.String)).unique().to_list()
    return found.without_users(gone), report, unknown


def _is_parquet(source: Source) -> bool:
    """Whether Spark reads it itself; a database, a packed file or UBI's folder is read here."""
    if source.database or source.path.name.lower().endswith(PACKED_SUFFIXES):
        return False
    if source.format:
        return source.format == "parquet"
    if source.address is None and source.path.is_dir():
        return ubi.files_of(source.path) == [source.path]
    named = format_of_name(source.path)
    return named == "parquet" or (named is None and source.address is not None)


def _read_parquet(cluster: Cluster, source: Source) -> tuple[SparkLog | SharedLog, pl.Series, ReadReport]:
    """The log, the distinct ids as they are in the file, and what reading found."""
    files = cluster.jobs.run(partial(find_files, cluster.spark, source))
    found = Findings(20)
    names = match_names(files.names, source.columns or {}, found)
    rows = _Rows.select(files, files.read(cluster.spark, list(names.inside)), names, found)
    schema = {**COLUMNS, **{inside: dtype for inside, dtype in rows.schema.items() if inside in names.outside}}
    merge = merges(source)
    extras = {outside: inside for inside, outside in names.outside.items() if inside in schema}
    if source.address is None and source.path.is_file() and cluster.staging.is_folder:
        direct = read_directly(cluster, source.path, names, schema, merge=merge)
        if direct is not None:
            return _reported(found, direct, list(extras), merge=merge)
    more = {WRITTEN_ID: pl.String()} if merge else {}
    checked = rows.checked({**schema, **more, REASON: pl.String()}, merge=merge)
    place = cluster.staging.new_place()
    cluster.jobs.run(partial(writer(checked).parquet, place))
    copy = cluster.spark.read.schema(checked.schema).parquet(place)
    counts = {row[REASON]: int(row["count"]) for row in cluster.jobs.run(copy.groupBy(REASON).count().collect)}
    good = counts.pop(None, 0)
    bad = sum(counts.values())
    _refuse(source, good, counts)
    for reason, rows_left_out in sorted(counts.items()):  # rows have no numbers here, so reasons are counted
        found.note(f"rows left out, {reason}", rows_left_out)
    records = copy.where(F.col(REASON).isNull()) if bad else copy
    written = records.select(F.col(WRITTEN_ID if merge else "user").alias("user")).distinct()
    written_ids = polars_rows(cluster.jobs.run(written.toArrow), {"user": pl.String()})["user"]
    if similar := similar_ids(written_ids):
        found.note(SIMILAR_IDS, similar)
    users = representatives(written_ids).unique() if merge else written_ids
    log = SparkLog(cluster, records, schema, extras, good, users=users, similar_ids="same" if merge else "different")
    return log, written_ids, ReadReport("parquet", good + bad, good, found.problems, bad, found.notes)


def _reported(
    found: Findings, direct: DirectlyRead, extras: Sequence[str], *, merge: bool
) -> tuple[SharedLog, pl.Series, ReadReport]:
    """A log that was read by tasks themselves: each of its rows is good."""
    if similar := similar_ids(direct.written_ids):
        found.note(SIMILAR_IDS, similar)
    users = representatives(direct.written_ids).unique() if merge else direct.written_ids
    log = SharedLog(direct.table, extras, direct.count, users, similar_ids="same" if merge else "different")
    return log, direct.written_ids, ReadReport("parquet", direct.count, direct.count, (), 0, found.notes)


def _refuse(source: Source, good: int, bad: dict[str, int]) -> None:
    """Refuse bad rows where that was asked for. A schema that is no log's was refused before: all else is a log, also
    one without a good row, as on one machine (`queryveil.log.reading`)."""
    if not bad or source.on_error == "skip":
        return
    count = sum(bad.values())
    reasons = [f"{reason}: {rows:,} rows" for reason, rows in sorted(bad.items())]
    listed = "\n  ".join([f"{count:,} of {good + count:,} rows cannot be read as parquet.", *reasons])
    raise FormatError(f"{listed}\nFix them, or leave them out.", remedy=Remedy("on_error", "skip"))


# Columns


@dataclass(frozen=True)
class _Rows:
    """The columns of a file that are read, as Spark hands them to a worker."""

    raw: DataFrame
    columns: dict[str, Column]
    schema: dict[str, pl.DataType]
    times: TimeUnit | None

    @classmethod
    def select(cls, files: Files, raw: DataFrame, names: Names, found: Findings) -> _Rows:
        """The canonical columns as their types or as text, and extra ones of plain types."""
        time = next((files.kinds[theirs].times for theirs, ours in names.inside.items() if ours == "time"), None)
        made = cls(raw, {}, {}, time[0] if time else None)
        for theirs, ours in names.inside.items():
            column, kind = F.col(f"`{theirs.replace('`', '``')}`"), files.kinds[theirs]
            if ours in names.outside:
                made._add_extra(ours, column, kind, found)
            elif kind.annotations == {"UNKNOWN"}:  # a column without any value has no type either
                made._add(ours, column.cast("string"), pl.String())
            elif ours == "time" and kind.times:
                made._add(ours, column, pl.Int32() if kind.times[0] == "d" else pl.Int64())
            elif any(name.startswith("TIMESTAMP") for name in kind.annotations) and _is_whole(kind.spark):
                raise _wrong_type(ours, "bigint" if ours == "time" else "timestamp")  # of nanoseconds
            else:
                made._add_canonical(ours, column, kind)
        return made

    def checked(self, schema: Schema, *, merge: bool) -> DataFrame:
        """The rows, checked on the workers."""
        texts = [name for name, dtype in self.schema.items() if dtype == pl.String()]
        valid = {name: F.is_valid_utf8(self.columns[name]) for name in texts}
        sent = {name: F.when(valid[name], column) if name in valid else column for name, column in self.columns.items()}
        broken = F.coalesce(*(F.when(~valid[name], F.lit(name)) for name in texts))
        work = Checking(tuple(self.schema), self.times, merge)
        task = RowTask(work, {**self.schema, BROKEN_TEXT: pl.String()}, dict(schema))
        rows = self.raw.select(*(column.alias(name) for name, column in sent.items()), broken.alias(BROKEN_TEXT))
        return rows.mapInArrow(task, spark_schema(schema))

    def _add(self, name: str, column: Column, dtype: pl.DataType) -> None:
        self.columns[name], self.schema[name] = column, dtype

    def _add_canonical(self, ours: str, column: Column, kind: Kind) -> None:
        times = (spark_types.TimestampType, spark_types.TimestampNTZType)
        is_text, is_whole = isinstance(kind.spark, spark_types.StringType), _is_whole(kind.spark)
        if ours == "time" and isinstance(kind.spark, times):
            self._add(ours, column.cast("timestamp_ntz"), COLUMNS["time"])  # the session's zone is UTC
        elif is_text or (is_whole and ours not in ("time", "query")):
            self._add(ours, column.cast("string"), pl.String())  # the checks are made on text, which holds any number
        else:
            raise _wrong_type(ours, kind.name)

    def _add_extra(self, ours: str, column: Column, kind: Kind, found: Findings) -> None:
        if isinstance(kind.spark, spark_types.IntegralType):
            self._add(ours, column.cast("bigint"), pl.Int64())
        elif isinstance(kind.spark, spark_types.StringType) or _is_whole(kind.spark):
            self._add(ours, column.cast("string"), pl.String())
        elif isinstance(kind.spark, spark_types.BooleanType):
            self._add(ours, column, pl.Boolean())
        else:
            found.note("columns that are neither canonical nor text, whole numbers or truth values were left out")


def _is_whole(kind: spark_types.DataType | None) -> bool:
    """Whether a type is one of whole numbers; Spark's for unsigned ones of 64 bits is a decimal of 20 digits."""
    return isinstance(kind, spark_types.IntegralType) or kind == spark_types.DecimalType(20, 0)


def _wrong_type(ours: str, kind: str) -> FormatError:
    wanted = WANTED.get(ours, "text")
    return FormatError(f"column {ours} has the type {kind}, which cannot be read as a {ours}. Write it as {wanted}.")


def _stage(cluster: Cluster, log: QueryLog) -> SparkLog:
    """A log of this machine as one of Spark's: written to the staging place in files that tasks can share."""
    numbered = {name: f"extra {number}" for number, name in enumerate(log.extra_columns)}
    plain = dict(_plain(log.frame.select(exactly(name).alias(inside) for name, inside in numbered.items())))
    schema = {**COLUMNS, **{inside: values.dtype for inside, values in plain.items()}}
    frame = log.frame.select(*COLUMNS).with_columns(pl.col("rank").cast(pl.Int64), *plain.values())
    copy = cluster.spark.read.schema(spark_schema(schema)).parquet(cluster.staging.send(frame, ROWS_PER_STAGED_FILE))
    extras = {name: inside for name, inside in numbered.items() if inside in plain}
    return SparkLog(cluster, copy, schema, extras, len(log), similar_ids=log.similar_ids)


def _plain(frame: pl.DataFrame) -> Iterable[tuple[str, pl.Series]]:
    for values in frame:
        if values.dtype.is_signed_integer() or values.dtype in (pl.UInt8, pl.UInt16, pl.UInt32):
            yield values.name, values.cast(pl.Int64)
        elif values.dtype == pl.Boolean:
            yield values.name, values
        elif values.dtype in (pl.String, pl.Null, pl.Categorical, pl.Enum, pl.UInt64):
            yield values.name, values.cast(pl.String)

"""Read a log on Spark: Parquet from any file system that Spark knows, anything else through this machine.

Parquet is checked by Spark itself for the rules that every reader of the house has (a user and a query in every row,
no field beyond the longest, ranks that are ranks); bad rows are counted by reason, never shown. A log in another format
is read here like on one machine and handed to Spark, so it must fit here.
"""

from __future__ import annotations

import re
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql import types as spark_types

from queryveil.errors import FormatError, UsageError
from queryveil.log import ReadReport
from queryveil.log.formats.named import match_names
from queryveil.log.problems import LONGEST_FIELD, Findings
from queryveil.log.query_log import COLUMNS, QueryLog
from queryveil.log.reading import format_of_name
from queryveil.run.files import Source, read_source, read_users
from queryveil.run.spark.arrow import spark_schema
from queryveil.run.spark.failures import in_plain_words
from queryveil.run.spark.spark_log import SparkLog

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from queryveil.run.spark.cluster import Cluster

LARGEST_RANK = 2**32 - 1
ROWS_PER_STAGED_FILE = 1 << 20


def read(cluster: Cluster, source: Source) -> tuple[QueryLog, ReadReport, int]:
    """The log, what reading found, and how many of those who opted out are not in it."""
    if not _is_parquet(source) or source.block_categories:
        log, report, unknown = read_source(source)
        return _staged(cluster, log), report, unknown
    log, report = _read_parquet(cluster, source)
    if not source.exclude_users:
        return log, report, 0
    excluded = read_users(source.exclude_users)
    unknown = len(excluded - set(log.users()))
    return log.without_users(excluded), report, unknown


def uri_of(source: Source) -> str:
    """The log's address as Spark writes it: a path object has lost one of the slashes of `s3a://`."""
    return re.sub(r"^([a-z][a-z0-9+.-]+):/(?!/)", r"\1://", str(source.path))


def _is_parquet(source: Source) -> bool:
    if source.format:
        return source.format == "parquet"
    return "://" in uri_of(source) or source.path.is_dir() or format_of_name(source.path) == "parquet"


def _read_parquet(cluster: Cluster, source: Source) -> tuple[SparkLog, ReadReport]:
    try:
        raw = cluster.spark.read.parquet(uri_of(source))
    except AnalysisException:  # its text names paths, never rows, but also pages of plan
        raise UsageError(f"{source.path}: Spark finds no Parquet there.") from None
    found = Findings(20)
    names = match_names(raw.columns, source.columns or {}, found)
    typed = {ours: _canonical(raw, theirs, ours) for theirs, ours in names.inside.items() if ours in COLUMNS}
    absent = {name: F.lit(None).cast(spark_schema({name: COLUMNS[name]})[name].dataType) for name in COLUMNS}
    records = raw.select(*((typed.get(name, absent[name])).alias(name) for name in COLUMNS))
    rules = _rules(list(typed))
    with in_plain_words():
        counted = records.agg(
            F.count(F.lit(1)).alias("rows"),
            *(F.count_if(broken).alias(f"broken {number}") for number, (_, broken) in enumerate(rules)),
            F.count_if(reduce(Column.__or__, (broken for _, broken in rules))).alias("bad"),
        ).first()
    assert counted is not None
    rows, bad = int(counted["rows"]), int(counted["bad"])
    reasons = [
        f"{reason}: {counted[f'broken {number}']:,} rows"
        for number, (reason, _) in enumerate(rules)
        if counted[f"broken {number}"]
    ]
    if bad and (source.on_error == "fail" or bad == rows):
        listed = "\n  ".join([f"{source.path.name}: {bad:,} of {rows:,} rows cannot be read.", *reasons])
        raise FormatError(f"{listed}\nMend them, or leave them out with --on-error skip.")
    if not rows:
        raise FormatError(f"{source.path.name}: there is no record. Is it the right place?")
    if bad:
        records = records.where(~reduce(Column.__or__, (broken for _, broken in rules)))
    texts = [name for name in ("url", "session") if name in typed]
    for name in texts:  # "" and null mean the same there
        records = records.withColumn(name, F.when(F.col(name) != "", F.col(name)))
    log = SparkLog(cluster, records, COLUMNS, rows - bad)
    return log, ReadReport("parquet", rows, rows - bad, found.problems, bad, found.notes)


def _canonical(raw: DataFrame, theirs: str, ours: str) -> Column:
    """A column of the file in the type of the table."""
    column, kind = raw[f"`{theirs.replace('`', '``')}`"], raw.schema[theirs].dataType
    whole = isinstance(kind, (spark_types.IntegralType, spark_types.DecimalType))
    if ours == "time":
        if isinstance(kind, (spark_types.TimestampType, spark_types.TimestampNTZType, spark_types.DateType)):
            return column.cast("timestamp_ntz")  # the session's zone is UTC
    elif ours == "rank":
        if whole:
            return column.cast("bigint")
    elif isinstance(kind, spark_types.StringType) or (whole and ours != "query"):
        return column.cast("string")
    raise FormatError(f"column {ours} has the type {kind.simpleString()}, which cannot be read as a {ours}.")


def _rules(columns: list[str]) -> list[tuple[str, Column]]:
    """What every row has to obey, as in `queryveil.log.problems.rules_for_all`."""
    empty = [(f"the {name} is empty", F.coalesce(F.col(name) == "", F.lit(True))) for name in ("user", "query")]
    long = [
        (
            f"the {name} is longer than {LONGEST_FIELD:,} bytes",
            F.coalesce(F.octet_length(name) > LONGEST_FIELD, F.lit(False)),
        )
        for name in columns
        if name not in ("time", "rank")
    ]
    rank = [("the rank is not a rank", F.coalesce((F.col("rank") < 0) | (F.col("rank") > LARGEST_RANK), F.lit(False)))]
    return empty + long + (rank if "rank" in columns else [])


def _staged(cluster: Cluster, log: QueryLog) -> SparkLog:
    """A log of this machine as one of Spark's: written to the staging place in files that tasks can share."""
    place = cluster.staging.send(log.frame.select(list(COLUMNS)), ROWS_PER_STAGED_FILE)
    return SparkLog(cluster, cluster.spark.read.parquet(place), COLUMNS, len(log))

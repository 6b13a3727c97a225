"""What lies at a Parquet log's address, as the footers of all its files say before a record is read.

Spark alone would take the columns of one file for those of all, pass over files in folders below without a word, refuse
a whole file for a type it does not know in a column that nobody wants, and name neither file nor column.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import types as spark_types

from queryveil.engines.spark.checking import TimeUnit
from queryveil.errors import FormatError, QueryVeilError, UsageError
from queryveil.log.formats.format import shown_name
from queryveil.log.reading import without_credentials
from queryveil.release.pipeline import Source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOT_THERE = ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA")
NO_FILE_SYSTEM = ("No FileSystem for scheme", "ClassNotFoundException")
NOT_REACHED = re.compile(
    "AccessControlException|Permission denied|AccessDenied|FileNotFoundException|UnknownHostException|ConnectException"
)
MARKERS = re.compile(r"_SUCCESS|_metadata|_common_metadata|_committed_.*|_started_.*")
"""Files that writers of Parquet leave beside the data."""
DAMAGED = "not a whole Parquet file: cut off, damaged or of a kind that is not read."
NO_COLUMN = "__none"
UNITS: dict[str, TimeUnit] = {"MILLIS": "ms", "MICROS": "us", "NANOS": "ns"}
READ = (
    spark_types.StringType,
    spark_types.IntegralType,
    spark_types.DecimalType,
    spark_types.BooleanType,
    spark_types.TimestampType,
    spark_types.TimestampNTZType,
    spark_types.DateType,
)
"""Types that a column of a log may have; no other column is opened."""


@dataclass(frozen=True)
class Kind:
    """The type of a column: Spark's, or None where it is not read; its name; and what footers call it."""

    spark: spark_types.DataType | None
    name: str
    annotations: frozenset[str]

    @property
    def times(self) -> tuple[TimeUnit, spark_types.DataType] | None:
        """What the column's times are whole numbers of, and Spark's type for those; None where they are not the same
        in all files, or are no such numbers. Spark's own types for times overflow where one is beyond the calendar."""
        if isinstance(self.spark, spark_types.DateType):
            return "d", spark_types.IntegerType()
        units = {re.sub(r".*\((\w+).*", r"\1", name) for name in self.annotations if name.startswith("TIMESTAMP")}
        alike = len(units) == 1 and all(name.startswith("TIMESTAMP") for name in self.annotations)
        return (UNITS[units.pop()], spark_types.LongType()) if alike else None


@dataclass(frozen=True)
class Files:
    """The files of a log and their columns."""

    place: str
    names: list[str]
    """Every column once; twice where a file has it twice."""
    kinds: dict[str, Kind]

    def read(self, spark: SparkSession, columns: list[str]) -> DataFrame:
        """These columns of all files; those in the names of folders come along."""
        known = {name: self.kinds[name] for name in columns if name in self.kinds}
        wanted = [(name, kind.times[1] if kind.times else kind.spark) for name, kind in known.items()]
        fields = [spark_types.StructField(name, kind, nullable=True) for name, kind in wanted if kind is not None]
        return spark.read.schema(spark_types.StructType(fields)).parquet(self.place)


def find_files(spark: SparkSession, source: Source) -> Files:
    """What lies there, or why it cannot be read."""
    # A path names one file or folder, whatever brackets are in it; an address may be a pattern, as everywhere on Spark.
    place = source.address or re.sub(r"([\\*?\[\]{}])", r"\\\1", str(source.path))
    try:
        bare = spark.read.schema(f"{NO_COLUMN} string").parquet(place)
        addresses = [address for address in bare.inputFiles() if not _hidden(address.rpartition("/")[2])]
        left = _not_read(spark, place, set(addresses))
    except (PySparkException, Py4JError) as error:  # their texts run to pages and may quote what was read
        problem = _what_is_wrong(source, str(error))
    else:
        if left:
            raise FormatError(
                f"{len(left):,} files there would not be read, {min(left)} among them. Spark reads the files of a "
                "folder and of folders in it that are called NAME=VALUE, and none whose name begins with _ or a dot. "
                "Move or rename them, or name the folder they are in."
            )
        if not addresses:
            raise _what_is_wrong(source, NOT_THERE[0])
        names, kinds = _columns(spark, _footers(spark, source, addresses))
        in_folders = {name: Kind(spark_types.StringType(), "string", frozenset()) for name in bare.columns[1:]}
        return Files(place, names + [name for name in in_folders if name not in kinds], in_folders | kinds)
    raise problem


def _hidden(name: str) -> bool:
    return name.startswith(("_", "."))


def _not_read(spark: SparkSession, place: str, addresses: set[str]) -> list[str]:
    """The names of files at the place that Spark leaves alone, but for those that hold no records."""
    java: Any = spark
    path = java._jvm.org.apache.hadoop.fs.Path(place)
    system = path.getFileSystem(java._jsc.hadoopConfiguration())
    left = []
    for root in system.globStatus(path):
        listed = system.listFiles(root.getPath(), True)
        above = len(root.getPath().toUri().toString())
        while listed.hasNext():
            address = listed.next().getPath().toUri().toString()
            if address not in addresses:
                *folders, name = address[above:].strip("/").split("/")
                of_the_system = name.startswith(".") or any(folder.startswith(".") for folder in folders)
                if not MARKERS.fullmatch(name) and (not of_the_system or name.endswith(".parquet")):
                    left.append(unquote(name))
    return left


def _what_is_wrong(source: Source, text: str) -> QueryVeilError:
    place = without_credentials(source.address or str(source.path))
    if any(condition in text for condition in NOT_THERE):
        return UsageError(f"{place}: Spark finds no Parquet there.")
    if any(sign in text for sign in NO_FILE_SYSTEM):
        scheme = place.partition(":")[0]
        return UsageError(f"{place}: this Spark knows no file system {scheme}. Add its library (spark.jars.packages).")
    return UsageError(f"{place}: Spark cannot open it. Check the address, and that Spark has the credentials for it.")


def _footers(spark: SparkSession, source: Source, addresses: list[str]) -> list[Any]:
    """The distinct schemas in the footers of all files."""
    java: Any = spark
    hadoop, settings = java._jvm.org.apache.hadoop, java._jsc.hadoopConfiguration()
    reader = java._jvm.org.apache.parquet.hadoop.ParquetFileReader

    def read(some: list[str]) -> list[Any]:
        files = java._jvm.java.util.ArrayList()
        for address in some:
            path = hadoop.fs.Path(java._jvm.java.net.URI(address))
            files.add(path.getFileSystem(settings).getFileStatus(path))
        return list(reader.readAllFootersInParallel(settings, files, True))

    problem: QueryVeilError | None = None
    try:
        distinct: dict[str, Any] = {}
        for footer in read(addresses):
            schema = footer.getParquetMetadata().getFileMetaData().getSchema()
            distinct.setdefault(str(schema.toString()), schema)
        return list(distinct.values())
    except Py4JError:
        for address in addresses:
            try:
                read([address])
            except Py4JError as error:
                problem = _broken(source, address, str(error))
                break
    raise problem or FormatError("its files change while they are read. Wait until they are written.")


def _broken(source: Source, address: str, text: str) -> QueryVeilError:
    if NOT_REACHED.search(text):
        return _what_is_wrong(source, text)
    name = unquote(address).rpartition("/")[2]
    return FormatError(DAMAGED if name == source.path.name else f"{name}: {DAMAGED}")


def _columns(spark: SparkSession, schemas: list[Any]) -> tuple[list[str], dict[str, Kind]]:
    java: Any = spark
    parquet, lists = java._jvm.org.apache.parquet.schema, java._jvm.java.util
    to_spark = java._jvm.org.apache.spark.sql.execution.datasources.parquet.ParquetToSparkSchemaConverter(
        java._jsparkSession.sessionState().conf()
    )

    def kind_of(field: Any) -> tuple[spark_types.DataType | None, str]:
        alone = lists.ArrayList()
        alone.add(field)
        try:
            made = to_spark.convert(parquet.MessageType("alone", alone)).json()
        except (PySparkException, Py4JError):
            return None, ""
        kind = spark_types.StructType.fromJson(json.loads(made))[0].dataType
        return (kind if isinstance(kind, READ) else None), kind.simpleString()

    names: list[str] = []
    seen: dict[str, dict[str, tuple[spark_types.DataType | None, str, str]]] = {}
    for schema in schemas:
        fields = list(schema.getFields())
        here = [str(field.getName()) for field in fields]
        names += [name for name in dict.fromkeys(here) if name not in seen]
        names += [name for place, name in enumerate(here) if name in here[:place]]
        for name, field in zip(here, fields, strict=True):
            known = seen.setdefault(name, {})
            text = str(field.toString())
            if text not in known:
                annotation = str(field.getLogicalTypeAnnotation())
                kind, called = kind_of(field)
                known[text] = (kind, called or annotation.partition("(")[0].lower(), annotation)
    return names, {name: _merge(name, list(known.values())) for name, known in seen.items()}


def _merge(name: str, seen: list[tuple[spark_types.DataType | None, str, str]]) -> Kind:
    """The one type of a column in all files that have it."""
    kinds = {called: kind for kind, called, _ in seen}
    called = " and ".join(sorted(kinds))
    if len(kinds) > 1 and any(kinds.values()):
        raise FormatError(
            f"the files differ in the type of column {shown_name(name)}: {called}. Write it alike in all of them; "
            "where it has no value it has no type, so leave it out there."
        )
    kind = None if len(kinds) > 1 else next(iter(kinds.values()))
    return Kind(kind, called.partition("<")[0], frozenset(annotation for _, _, annotation in seen))

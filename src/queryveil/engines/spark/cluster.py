"""Spark opened for one run, closed and swept after it.

Which cluster is Spark's own matter: `spark-submit`, `PYSPARK_SUBMIT_ARGS` or `spark-defaults.conf` name the master and
everything else; without any, all cores of this machine. What is set here unless somebody else has set it: no web
interface (it would show the queries' plan to whoever reaches the port), shuffle files encrypted on disk, times in UTC,
one thread for each Python worker. On other machines than this one, parts need a place that all see:
`spark.queryveil.staging`.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from queryveil.engines.spark.java import REMEDY, require_java
from queryveil.engines.spark.jobs import Jobs
from queryveil.engines.spark.staging import Staging
from queryveil.errors import RefusedError, Remedy, UsageError
from queryveil.log import ReadReport
from queryveil.log.endings import heed_endings, sweep_undisturbed, swept
from queryveil.log.query_log import QueryLog
from queryveil.progress import tell
from queryveil.release.mechanism import Mechanism

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from queryveil.release.pipeline import Source

ENCRYPTION = "spark.io.encryption.enabled"
STAGING = "spark.queryveil.staging"
QUIET = Path(__file__).with_name("log4j2.properties")
OF_SESSION = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(1 << 28),  # since Spark 4.1; offsets into texts have 32 bits
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",  # the user 007 of a folder user=007 is not 7
    "spark.sql.legacy.parquet.nanosAsLong": "true",  # Spark has no such times; reading.py knows which numbers are
}
SETTINGS = {
    "spark.ui.enabled": "false",
    ENCRYPTION: "true",
    "spark.executorEnv.POLARS_MAX_THREADS": "1",
    "spark.executorEnv.NUMBA_NUM_THREADS": "1",
}
LOCAL_SETTINGS = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"}
PLANNING_ONLY = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For the Java of a driver that has executors elsewhere: it plans, which is over before better code would pay."""
TASKS_PER_CORE = 3
BLOCKS_PER_TASK = 8


class Cluster:
    """Spark, and a place for parts. A context manager: what lies in the place is deleted at the end."""

    def __init__(
        self,
        master: str | None = None,
        settings: dict[str, str] | None = None,
        *,
        unencrypted_disks: bool = False,
        on_step: Callable[[str], None] = lambda step: None,
    ) -> None:
        """`unencrypted_disks`: a Spark that runs already may leave keys and users' names readable on its disks.

        `on_step` is told each step of the parts' way through the staging place.
        """
        self.spark, self._ours = _open(master, settings or {}, unencrypted_disks)
        try:
            self.jobs = Jobs(self.spark)
            self.staging = Staging(self.spark, self.jobs, self._shared_place(), on_step)
        except BaseException:
            self._stop()
            raise

    def __enter__(self) -> Cluster:
        if self._ours and threading.current_thread() is threading.main_thread():
            # Who is asked to end sweeps first; PySpark's own answer to Ctrl-C calls Java in the middle of another call.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            heed_endings()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        sweep_undisturbed()
        try:
            self.close()
        finally:
            swept()

    def close(self) -> None:
        """End this run's jobs, delete the parts, and end Spark unless somebody else had started it."""
        over = False
        try:
            over = self.jobs.end()
        finally:
            try:
                self.staging.sweep(over=over)
            finally:
                self._stop()

    def _stop(self) -> None:
        if self._ours:
            with suppress(Exception):
                self.spark.stop()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Report twice a second how far Spark is with what it is doing; how much there is to do it does not know."""
        over = threading.Event()
        tracker = self.spark.sparkContext.statusTracker()

        def watch() -> None:
            while not over.wait(0.5):
                stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
                tasks = [(stage.numCompletedTasks, stage.numTasks) for stage in stages if stage]
                if tasks:
                    tell("Spark's present tasks", sum(done for done, _ in tasks), sum(all_ for _, all_ in tasks))

        watcher = threading.Thread(target=copy_context().run, args=(watch,), daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join()

    # What a run asks of an engine

    @staticmethod
    def refuse(mechanism: Mechanism) -> None:
        """Refuse, before any data is read, what needs the whole log on one machine."""
        if not getattr(mechanism, "on_cluster", False):
            raise RefusedError(
                f"{mechanism.name} with these settings (mode {mechanism.mode}) needs the whole log on one machine; "
                "docs/scale.md lists what runs on Spark.",
                remedy=Remedy("engine", "local"),
            )

    def read(self, source: Source) -> tuple[QueryLog, ReadReport, int]:
        """The log to protect; see `queryveil.release.pipeline.read_source`."""
        from queryveil.engines.spark.reading import read

        log, report, unknown = read(self, source)
        told = [
            f"parts of the log of a killed run are left in {left}: delete them by hand" for left in self.staging.left
        ]
        return log, dataclasses.replace(report, notes=(*report.notes, *told)), unknown

    def tasks_for(self, blocks: int) -> int:
        """How many tasks share so many blocks."""
        cores = int(self.spark.sparkContext.defaultParallelism)
        return max(1, min(blocks, max(TASKS_PER_CORE * cores, blocks // BLOCKS_PER_TASK)))

    def _shared_place(self) -> str | None:
        """Where parts lie if not on this machine."""
        wanted = self.spark.sparkContext.getConf().get(STAGING, "")
        if not wanted and not str(self.spark.sparkContext.master).startswith("local"):
            raise UsageError(
                f"Spark on other machines needs a place for parts that all of them see. Set {STAGING}, "
                f"for example {STAGING}=s3a://bucket/queryveil-staging."
            )
        return wanted or None


def _not_of_py4j(record: logging.LogRecord) -> bool:
    """Py4J logs the stack of every call that Ctrl-C breaks off, also to the root of all loggers."""
    return "py4j" not in Path(record.pathname).parts


def _open(master: str | None, settings: dict[str, str], unencrypted_disks: bool) -> tuple[SparkSession, bool]:
    """A session, and whether Spark was started for it; one that runs already (in a notebook, say) is made use of."""
    try:
        from pyspark import SparkContext
        from pyspark.sql import SparkSession
    except ImportError:
        raise UsageError(f"Spark is not installed. One command brings it: {REMEDY}") from None
    running = SparkContext._active_spark_context
    if running is not None and running.getConf().get(ENCRYPTION, "false") != "true" and not unencrypted_disks:
        raise RefusedError(
            "this Spark was started without encryption of its local disks, where keys of the noise and users' names "
            f"would stay readable until it ends. Start it with {ENCRYPTION}=true, or, where nobody else reads those "
            "disks, say so: Cluster(unencrypted_disks=True)."
        )
    spark = SparkSession.builder.getOrCreate().newSession() if running is not None else _start(master, settings)
    for name, value in OF_SESSION.items():
        spark.conf.set(name, value)
    return spark, running is None


def _start(master: str | None, settings: dict[str, str]) -> SparkSession:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    launched = {"JAVA_HOME": str(require_java()), "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable)}
    named = f"--master {master}" if master else os.environ.get("PYSPARK_SUBMIT_ARGS", "")
    options = f"-Dlog4j2.configurationFile={QUIET.as_uri()}"
    if re.search(r"--master[ =]+(?!local(\[|\s|$))", named):
        options += f" {PLANNING_ONLY}"
    launched["SPARK_SUBMIT_OPTS"] = os.environ.get("SPARK_SUBMIT_OPTS", options)
    if "SPARK_LOCAL_IP" not in os.environ and re.search(r"--master[ =]+local", named):
        launched["SPARK_LOCAL_IP"] = "127.0.0.1"  # executors of their own on this machine listen to nobody else
    logging.getLogger().addFilter(_not_of_py4j)
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    with _environment(launched):
        SparkContext._ensure_initialized()  # only now is known what spark-submit and spark-defaults.conf say
    conf = SparkConf()
    if master:
        conf.setMaster(master)
    usual = dict(SETTINGS)
    if (conf.get("spark.master") or "local").startswith("local"):
        usual |= LOCAL_SETTINGS
    for name, value in usual.items():
        conf.setIfMissing(name, value)
    conf.set("spark.ui.showConsoleProgress", "false")  # Spark's shell sets it; we have a bar of our own
    for name, value in settings.items():
        conf.set(name, value)
    with _environment({"PYSPARK_PYTHON": launched["PYSPARK_PYTHON"]}):
        return SparkSession.builder.appName("queryveil").config(conf=conf).getOrCreate()


@contextmanager
def _environment(changed: dict[str, str]) -> Iterator[None]:
    """Variables for what is started meanwhile; put back as they were."""
    before = {name: os.environ.get(name) for name in changed}
    os.environ.update(changed)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value

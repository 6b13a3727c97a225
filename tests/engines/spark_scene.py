"""A real Spark on this machine, for the tests of `queryveil.engines.spark`.

`make soak` has executors in processes of their own, which can be killed; the daily tests have one Java process, which
starts and warms up in half the time, and few tasks. Python workers are processes of their own in both.
"""

import json
import os
import shutil
import signal
from pathlib import Path

import polars as pl
import pytest

from properties import SOAK
from queryveil.engines.spark.cluster import QUIET
from queryveil.log import read_with_report
from queryveil.privacy import Noise
from queryveil.release import pipeline

MASTER = "local-cluster[2,1,1024]" if SOAK else "local[2]"

QUICK = f"-Dlog4j2.configurationFile={QUIET.as_uri()} -XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java that compiles little and collects in one thread: enough for small logs."""


class SparkScene:
    """A cluster, a folder for releases, and what tests do with both."""

    def __init__(self, folder):
        pytest.importorskip("pyspark", reason="no Spark: install queryveil[spark]")
        from queryveil.engines.spark.cluster import Cluster
        from queryveil.engines.spark.java import find_java

        if find_java() is None:
            pytest.skip("no Java: install queryveil[spark]")
        self.folder, self.elsewhere = folder, folder / "elsewhere"
        self.elsewhere.mkdir()
        another_system = {"spark.hadoop.fs.viewfs.mounttable.parts.link./staging": self.elsewhere.as_uri()}
        self.events, self.disks = folder / "events", folder / "disks"
        for place in (self.events, self.disks):
            place.mkdir()
        traces = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": self.events.as_uri()}
        traces |= {"spark.eventLog.compress": "false", "spark.local.dir": str(self.disks)}
        with pytest.MonkeyPatch.context() as patched:
            if not SOAK:
                patched.setenv("SPARK_SUBMIT_OPTS", QUICK)
                traces["spark.sql.shuffle.partitions"] = "4"
            self.cluster = Cluster(MASTER, another_system | traces)

    def close(self):
        home = Path(os.environ.get("SPARK_HOME") or Path(__import__("pyspark").__file__).parent)
        application = self.cluster.spark.sparkContext.applicationId
        self.cluster.close()
        shutil.rmtree(home / "work" / application, ignore_errors=True)  # what executors printed: nothing of interest

    def release(self, mechanism, log, name, *, engine="spark", seed=5, similar_ids=None, excluded=None, **target):
        """A release by name: the folder it is in."""
        place = self.folder / name
        source = pipeline.Source(path=log, similar_ids=similar_ids, exclude_users=excluded)
        secrets = place.with_suffix(".secrets")
        goal = pipeline.Target(folder=place, format=target.pop("format", "csv"), secrets=secrets, **target)
        chosen = self.cluster if engine == "spark" else None
        pipeline.release(mechanism, source, goal, Noise.seeded(seed), engine=chosen)
        return place

    def executors(self):
        """The process ids of the executors."""
        driver = self.cluster.spark.sparkContext._gateway.proc.pid
        found = []
        for entry in Path("/proc").iterdir():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == driver and b"CoarseGrainedExecutorBackend" in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except (OSError, ValueError, IndexError):
                continue
        return found

    def busy_stages(self):
        """The numbers of the stages that have tasks at work."""
        tracker = self.cluster.spark.sparkContext.statusTracker()
        stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
        return {stage.stageId for stage in stages if stage and stage.numActiveTasks}

    def kill_an_executor(self):
        os.kill(self.executors()[0], signal.SIGKILL)


def assert_same(one, other):
    """Two releases with the same records in the same order, the same promise, and the same people behind them."""
    assert (one / "log.csv").read_bytes() == (other / "log.csv").read_bytes()
    told = [json.loads((folder / "manifest.json").read_text()) for folder in (one, other)]
    for manifest in told:
        del manifest["created"]
    assert told[0] == told[1]
    people = [pl.read_parquet(folder.with_suffix(".secrets")) for folder in (one, other)]
    assert people[0].equals(people[1])


def on_spark(scene, path, **source):
    """The log as Spark reads it, brought here; and the report."""
    log, report, _ = scene.cluster.read(pipeline.Source(path=path, similar_ids="different", **source))
    return log.table(*log.extra_columns).collect(), report


def assert_read_alike(scene, path, **source):
    """Both readers agree on the records; what they hold."""
    there, report = on_spark(scene, path, **source)
    here, local_report = read_with_report(path, **source)
    assert sorted(there.rows(), key=repr) == sorted(here.frame.select(there.columns).rows(), key=repr)
    assert (report.lines, report.records, report.problem_count) == (
        local_report.lines, local_report.records, local_report.problem_count,
    )  # fmt: skip
    return there


def written(path, **columns):
    """A Parquet file of two records, with these columns."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = {"user": ["ann", "bob"], "query": ["tulips", "roses"]} | columns
    pq.write_table(pa.table({name: values for name, values in columns.items() if values is not None}), path)
    return path

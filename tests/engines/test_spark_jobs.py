"""An interrupted run ends its own jobs before it sweeps, on a Spark of its own and as a guest."""

import os
import signal
import threading
import time
from pathlib import Path

import polars as pl
import pytest

from queryveil.engines.spark.staging import Staging
from queryveil.errors import EngineError, RefusedError
from queryveil.log import query_log, synthetic, write
from queryveil.mechanisms.suppress import Suppress
from queryveil.privacy import Noise
from queryveil.release import pipeline
from waiting import LONG

pytestmark = pytest.mark.service("spark")


@pytest.fixture
def scene(spark_scene, monkeypatch):
    monkeypatch.setattr(query_log, "RECORDS_PER_BLOCK", 1 << 11)
    return spark_scene


@pytest.fixture(scope="module")
def log_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    write(synthetic.synth(users=1_000, records=20_000, seed=3), path)
    return path


def strike(cluster, when):
    """Ctrl-C, as in a notebook, at a moment of the run."""
    tracker = cluster.spark.sparkContext.statusTracker()
    deadline = time.monotonic() + LONG
    while time.monotonic() < deadline and not when(tracker, cluster.staging._here / "parts"):
        time.sleep(0.002)
    os.kill(os.getpid(), signal.SIGINT)


def folders_with_files(parts):
    return {path.parent for path in parts.glob("*/*.parquet")}


MOMENTS = {
    "the first task": lambda tracker, parts: tracker.getActiveStageIds(),
    "the first file": lambda tracker, parts: folders_with_files(parts),
    "the second step": lambda tracker, parts: len(folders_with_files(parts)) > 1,
}
OFTEN = ("the first task", "the second step")
"""With a task at work, and where one step is done; `make soak` strikes at the other moment too."""


@pytest.mark.parametrize(
    "moment", [moment if moment in OFTEN else pytest.param(moment, marks=pytest.mark.soak) for moment in MOMENTS]
)
def test_an_interrupted_guest_leaves_no_part_of_the_log_and_no_task(scene, log_file, tmp_path, moment):
    from queryveil.engines.spark.cluster import Cluster

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt), Cluster() as guest:
            here = guest.staging._here
            assert here.stat().st_mode & 0o777 == 0o700
            threading.Thread(target=strike, args=(guest, MOMENTS[moment]), daemon=True).start()
            goal = pipeline.Target(folder=tmp_path / "out")
            pipeline.release(Suppress(k_text=5), pipeline.Source(path=log_file), goal, Noise.secure(), engine=guest)
            time.sleep(2 * LONG)  # the blow comes
    finally:
        signal.signal(signal.SIGINT, before)
    assert not here.is_dir()
    assert not scene.busy_stages()
    time.sleep(0.5)
    assert here.read_bytes() == b""  # in the folder's place, so that no late task can make it anew
    assert not (tmp_path / "out").exists()
    assert scene.cluster.spark.range(3).count() == 3


def test_what_a_task_writes_that_does_not_end_lies_in_a_folder_of_its_owner_and_is_told(scene, monkeypatch):
    from queryveil.engines.spark.cluster import Cluster

    guest = Cluster()
    monkeypatch.setattr(guest.jobs, "end", lambda: False)
    with pytest.raises(EngineError, match="Delete the folder by hand"):
        guest.close()
    late = guest.staging._here / "parts" / "late"
    late.mkdir(parents=True)  # as Hadoop's file systems do
    assert guest.staging._here.stat().st_mode & 0o777 == 0o700
    guest.staging.sweep(over=True)
    assert not guest.staging._here.is_dir()


def test_a_running_spark_with_open_disks_is_refused_unless_its_holder_accepts_that(scene, monkeypatch):
    from queryveil.engines.spark import cluster

    monkeypatch.setattr(cluster, "ENCRYPTION", "spark.nobody.has.set.this")
    with pytest.raises(RefusedError, match=r"Cluster\(unencrypted_disks=True\)"):
        cluster.Cluster()
    cluster.Cluster(unencrypted_disks=True).close()


def test_a_store_that_fails_is_told_in_plain_words(scene, monkeypatch):
    elsewhere = Staging(scene.cluster.spark, scene.cluster.jobs, "viewfs://parts/staging")
    frame = pl.DataFrame({"user": ["ann"]})
    with monkeypatch.context() as away:
        away.setattr(elsewhere, "_root", "viewfs://parts/nothing-is-mounted-here")
        with pytest.raises(EngineError, match="Spark could not finish the work"):
            elsewhere.send(frame, 10)
    with monkeypatch.context() as full:
        full.setattr(elsewhere, "_here", Path("/dev/null"))
        with pytest.raises(EngineError, match="TMPDIR names another place"):
            elsewhere.send(frame, 10)
    elsewhere.sweep(over=True)

"""A cluster with a master and two workers under host names of their own: Spark's own, all on this machine.

Only here does speculation start copies of tasks: it never puts one on the host of the original.
"""

import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from engines.spark_scene import assert_same
from free_ports import free_port
from queryveil.log import query_log, synthetic, write
from queryveil.mechanisms.semantic import Semantic
from queryveil.privacy import Noise
from queryveil.release import pipeline
from waiting import LONG, SLOWNESS, wait_until

pytestmark = [pytest.mark.service("spark"), pytest.mark.soak]

HOSTS = ("127.0.0.2", "127.0.0.3")
MECHANISM = "Semantic(epsilon=8.0, per='query', domain='disease', criterion='sqc1', time='day')"

RUN = f"""
import json, os, signal, sys, threading, time
from pathlib import Path
from queryveil.log import query_log
from queryveil.mechanisms.semantic import Semantic
from queryveil.privacy import Noise
from queryveil.release import pipeline
from queryveil.engines.spark.cluster import Cluster

query_log.RECORDS_PER_BLOCK = 1 << 13
master, source, folder = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
settings = {{
    "spark.queryveil.staging": f"file:{{folder}}/shared",
    "spark.eventLog.enabled": "true", "spark.eventLog.compress": "false",
    "spark.eventLog.dir": f"file:{{folder}}/events",
    "spark.speculation": "true", "spark.speculation.interval": "50ms", "spark.speculation.multiplier": "1.01",
    "spark.speculation.quantile": "0.1", "spark.speculation.minTaskRuntime": "1ms",
    "spark.executor.memory": "512m", "spark.locality.wait": "0s",
}}
over = threading.Event()


def processes():
    for entry in Path("/proc").iterdir():
        try:
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            yield int(entry.name), parent, (entry / "cmdline").read_bytes()
        except (OSError, ValueError, IndexError):
            continue


def workers_of_the_first_host():
    found = list(processes())
    above = [one for one, _, line in found if b"CoarseGrainedExecutorBackend" in line and b"{HOSTS[0]}" in line
             and os.readlink(f"/proc/{{one}}/cwd").startswith(str(folder))]
    below = [one for one, parent, _ in found if parent in above]
    return [one for one, parent, _ in found if parent in below]


def hold_tasks_up(tracker):
    struck = set()
    while not over.wait(0.02):
        stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
        new = {{stage.stageId for stage in stages if stage and stage.numTasks > 2 and stage.numActiveTasks}} - struck
        held = workers_of_the_first_host() if new else []
        if held:
            struck |= new
            for one in held:
                os.kill(one, signal.SIGSTOP)
            over.wait({5 * SLOWNESS})
            for one in held:
                try:
                    os.kill(one, signal.SIGCONT)
                except ProcessLookupError:
                    pass


with Cluster(master, settings) as cluster:
    holder = threading.Thread(target=hold_tasks_up, args=(cluster.spark.sparkContext.statusTracker(),))
    holder.start()
    target = pipeline.Target(folder=folder / "there", format="csv", secrets=folder / "there.secrets")
    try:
        pipeline.release({MECHANISM}, pipeline.Source(path=source), target, Noise.seeded(5), engine=cluster)
    finally:
        over.set()
        holder.join()
"""


@pytest.fixture
def master(tmp_path):
    """The address of a cluster with one core on each of two hosts."""
    pyspark = pytest.importorskip("pyspark", reason="no Spark: install queryveil[spark]")
    from queryveil.engines.spark.java import find_java

    java = find_java()
    if java is None:
        pytest.skip("no Java: install queryveil[spark]")
    home = Path(os.environ.get("SPARK_HOME") or Path(pyspark.__file__).parent)
    address, port = "127.0.0.1", free_port()
    started = []

    def start(host, kind, *arguments):
        environment = {**os.environ, "JAVA_HOME": str(java.home), "SPARK_LOCAL_IP": host, "SPARK_DAEMON_MEMORY": "256m"}
        asked = [home / "bin" / "spark-class", f"org.apache.spark.deploy.{kind}", "--host", host, "--webui-port", "0"]
        started.append(
            subprocess.Popen(
                [*map(str, asked), *map(str, arguments)],
                env=environment,
                stdout=subprocess.DEVNULL,
                stderr=(tmp_path / f"{host}.err").open("wb"),
            )
        )

    try:
        start(address, "master.Master", "--port", port)
        for host in HOSTS:
            place = tmp_path / host
            start(
                host, "worker.Worker", "--cores", 1, "--memory", "1g", "--work-dir", place, f"spark://{address}:{port}"
            )
        told = [tmp_path / f"{host}.err" for host in HOSTS]
        wait_until(lambda: all(b"Successfully registered" in path.read_bytes() for path in told), "workers are there")
        yield f"spark://{address}:{port}"
    finally:
        for process in reversed(started):
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(LONG)


def test_speculative_copies_of_tasks_draw_nothing_anew(master, tmp_path, monkeypatch):
    """The Python workers of one host are held up in every stage, so that Spark starts their tasks on the other too."""
    monkeypatch.setattr(query_log, "RECORDS_PER_BLOCK", 1 << 13)
    for name in ("shared", "events"):
        (tmp_path / name).mkdir()
    write(synthetic.synth(users=5_000, records=100_000, seed=3), tmp_path / "log.parquet")
    target = pipeline.Target(folder=tmp_path / "here", format="csv", secrets=tmp_path / "here.secrets")
    mechanism = Semantic(epsilon=8.0, per="query", domain="disease", criterion="sqc1", time="day")
    assert repr(mechanism) == repr(eval(MECHANISM))
    pipeline.release(mechanism, pipeline.Source(path=tmp_path / "log.parquet"), target, Noise.seeded(5))
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1"}
    asked = [sys.executable, "-c", RUN, master, str(tmp_path / "log.parquet"), str(tmp_path)]
    run = subprocess.run(asked, env=environment, capture_output=True, text=True, timeout=2 * LONG, check=False)
    assert run.returncode == 0, run.stderr[-3000:]
    copies, hosts = [], set()
    for path in (tmp_path / "events").rglob("events_*"):
        for line in path.read_text().splitlines():
            event = json.loads(line)
            if event["Event"] == "SparkListenerTaskEnd":
                hosts.add(event["Task Info"]["Host"])
                if event["Task Info"]["Speculative"]:
                    copies.append(event["Task End Reason"]["Reason"])
    assert hosts == set(HOSTS)
    assert "Success" in copies, "a copy must have finished before its original"
    assert_same(tmp_path / "here", tmp_path / "there")
    assert not list((tmp_path / "shared").iterdir())

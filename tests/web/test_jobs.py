"""Jobs: they survive a restart, can be cancelled, and are never paid for twice."""

import os
import signal
import subprocess
import sys
import time

import pytest

from queryveil.errors import UsageError
from queryveil.progress import tell
from queryveil.web import jobs, lock, models
from queryveil.web.app import create
from queryveil.web.job_runner import CUT_SHORT_AFTER_PAYING, DIED, JobRunner
from queryveil.web.jobs import RELEASE_STEPS
from queryveil.web.service import Service
from queryveil.web.store import INTERNAL, RELEASED, Store, new_identity
from waiting import LONG, wait_until

PURPOSE = {"recipient": "team", "task": "query frequency", "max_risk": 0.2}


@pytest.fixture
def store(settings):
    return Store(settings.folder)


@pytest.fixture
def log(store):
    """A log that is only known by name."""
    identity = new_identity()
    store.add_log(identity, title="log", file="log", size=1, sample=False, guess={}, hours=1)
    return identity


def workers():
    """The worker processes that this test started."""
    found = []
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            try:
                with open(f"/proc/{entry.name}/cmdline", "rb") as file:  # noqa: PTH123 -- may vanish meanwhile
                    command = file.read()
                with open(f"/proc/{entry.name}/stat") as file:  # noqa: PTH123
                    parent = int(file.read().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
            if b"queryveil.web.worker" in command and parent == os.getpid():
                found.append(int(entry.name))
    return found


def comparing(visitor):
    """A comparison that has its first results."""
    log = visitor.sample()
    visitor.put(f"/api/logs/{log}/purpose", PURPOSE)
    job = visitor.post(f"/api/logs/{log}/comparison").json()["id"]
    visitor.until(job, lambda found: found["points"])
    return log, job


def test_a_comparison_survives_a_killed_worker_a_restart_and_a_cancel(settings, visitor):
    log, job = comparing(visitor)
    assert visitor.post(f"/api/logs/{log}/comparison").json()["id"] == job  # asked for twice, done once
    points = visitor.get(f"/api/logs/{log}/comparison").json()["points"]
    assert all(point["risk"] is not None or point["problem"] for point in points)

    (worker,) = workers()
    os.kill(worker, signal.SIGKILL)
    assert visitor.until(job, lambda found: found["state"] == "failed")["error"] == DIED
    visitor.post(f"/api/jobs/{job}/resume")
    visitor.until(job, lambda found: found["state"] == "running")

    visitor.http.__exit__(None, None, None)  # stops the server, and its worker with it
    store = Store(settings.folder)
    before = store.points(job)
    assert (store.job(job)["state"], workers()) == ("running", [])
    visitor.http.__enter__()
    further = visitor.until(job, lambda found: len(found["points"]) > len(before))
    assert further["points"][0]["seconds"] == before[0]["seconds"]  # kept, not measured again

    assert visitor.post(f"/api/jobs/{job}/cancel").status_code == 200
    visitor.until(job, lambda found: found["state"] == "cancelled")
    assert workers() == []


def test_a_release_that_was_paid_for_is_not_started_over_by_itself(settings, store, log):
    wish = {"mechanism": "suppress", "parameters": {}, "release": new_identity(), "paying": True}
    job = store.add_job(log, "release", wish)
    store.take_next_job()
    JobRunner(store, settings)._take_up(store.job(job))
    assert store.job(job)["state"] == "failed"
    assert CUT_SHORT_AFTER_PAYING in store.job(job)["error"]
    assert "may have been debited" in store.job(job)["error"]


def test_a_release_that_was_not_paid_for_yet_is_taken_up_again(settings, store, log):
    job = store.add_job(log, "release", {"mechanism": "suppress", "parameters": {}, "release": new_identity()})
    store.take_next_job()
    JobRunner(store, settings)._take_up(store.job(job))
    assert store.job(job)["state"] == "waiting"


def test_a_release_that_is_in_place_is_only_taken_note_of(settings, store, log):
    wish = {"mechanism": "suppress", "parameters": {}, "release": new_identity(), "paying": True}
    job = store.add_job(log, "release", wish)
    store.take_next_job()
    (store.release_folder(wish["release"]) / RELEASED).mkdir(parents=True)
    JobRunner(store, settings)._take_up(store.job(job))
    assert store.job(job)["state"] == "waiting"


def test_paying_is_noted_before_the_ledger_is_debited():
    assert RELEASE_STEPS.index("log read") + 1 == RELEASE_STEPS.index("ledger debited")


def test_a_release_knows_whether_the_page_compared_or_advised_its_setting(settings, store, log):
    guess = {"format": "csv", "names": [], "columns": {}, "problem": None}
    store.set_log(log, profile={"format": "csv"}, guess=guess)
    service = Service(settings)
    settings_tried = [
        ("strict", "suppress", {"k_text": 9}),
        ("lax", "suppress", {"k_text": 4}),
        ("top", "frequency", {}),
    ]

    def chosen_by(**parameters):
        job = service.release_log(log, models.ReleaseRequest(mechanism="suppress", parameters=parameters))
        store.finish_job(job.id, "cancelled")
        return job.request["chosen_by"]

    assert chosen_by(k_text=4) == "holder"
    store.finish_job(store.add_job(log, "preview", {"mechanism": "suppress", "parameters": {"k_text": 4}}), "done")
    assert [chosen_by(k_text=4), chosen_by(k_text=6)] == ["holder", "compare"]
    job = store.add_job(log, "compare", PURPOSE)
    assert chosen_by(k_text=4) == "holder"  # nothing was shown yet
    for number, (label, name, parameters) in enumerate(settings_tried):
        kind = "mechanism" if name == "suppress" else "rule"
        store.add_point(job, number, {"label": label, "kind": kind, "mechanism": name, "parameters": parameters})
    assert chosen_by(k_text=4) == "compare"
    store.finish_job(job, "done", result={"advised": "lax"})
    assert [chosen_by(k_text=4), chosen_by(k_text=9), chosen_by(k_text=6)] == ["advise", "compare", "compare"]


def test_half_written_releases_are_swept_away_and_whole_ones_put_back(settings, store, log):
    identity = new_identity()
    folder = store.release_folder(identity)
    (folder / ".release.unfinished-1").mkdir(parents=True)
    (folder / ".release.unfinished-2.replaced").mkdir()
    (folder / ".release.unfinished-2.replaced" / "log.csv").write_text("whole")
    job = store.add_job(log, "report", {"release": identity})
    JobRunner(store, settings)._tidy_up(store.job(job))
    assert [path.name for path in folder.iterdir()] == [RELEASED]
    assert (folder / RELEASED / "log.csv").read_text() == "whole"


def test_a_waiting_job_is_cancelled_at_once(store, log):
    first, second = store.add_job(log, "profile", {}), store.add_job(log, "preview", {})
    store.finish_job(second, "cancelled")
    assert store.take_next_job()["id"] == first
    assert store.take_next_job() is None


def test_an_ended_job_stays_as_it_ended(store, log):
    job = store.add_job(log, "profile", {})
    store.finish_job(job, "done", result={"records": 1})
    store.finish_job(job, "failed", error="too late")
    assert (store.job(job)["state"], store.job(job)["result"]) == ("done", {"records": 1})


def test_only_what_stopped_can_go_on(stranger, store, log):
    job = store.add_job(log, "profile", {})
    store.finish_job(job, "done", result={})
    assert stranger.enter().post(f"/api/jobs/{job}/resume").status_code == 422


def test_a_second_server_in_the_same_folder_is_refused_until_the_first_has_ended(settings, stranger, monkeypatch):
    monkeypatch.setattr(lock, "SECONDS_FOR_AN_OLD_WORKER", 0.1)
    with pytest.raises(UsageError, match="another server works in this folder"):
        create(settings)
    stranger.http.__exit__(None, None, None)
    next_one = lock.FolderLock(settings.folder)
    next_one.acquire()
    next_one.release()
    stranger.http.__enter__()


def test_a_worker_that_outlives_its_server_keeps_the_next_one_out(settings, store, monkeypatch):
    monkeypatch.setattr(lock, "SECONDS_FOR_AN_OLD_WORKER", 0.1)
    first = lock.FolderLock(settings.folder)
    worker = subprocess.Popen(["sleep", "600"], pass_fds=(first.acquire(),))
    first.release()
    with pytest.raises(UsageError):
        lock.FolderLock(settings.folder).acquire()
    worker.kill()
    worker.wait()
    again = lock.FolderLock(settings.folder)
    again.acquire()
    again.release()


def test_an_upload_that_a_crash_cut_off_is_deleted_by_the_next_server(settings, store, log):
    store.log_folder(log).mkdir()
    cut_off = store.log_folder(new_identity())
    cut_off.mkdir()
    (cut_off / "log.tsv").write_text("half")
    runner = JobRunner(store, settings)
    runner.start()
    runner.stop()
    assert not cut_off.exists()
    assert store.log_folder(log).exists()


def test_what_is_left_of_a_deleted_release_is_swept_and_one_being_made_is_not(settings, store, log):
    made, deleted, known = new_identity(), new_identity(), new_identity()
    for release in (made, deleted, known):
        (store.release_folder(release) / INTERNAL).mkdir(parents=True)
    store.add_job(log, "release", {"release": made})
    store.add_release(known, log=log, title="", content={})
    runner = JobRunner(store, settings)
    runner.sweep()
    assert {path.name for path in (settings.folder / "releases").iterdir()} == {made, known}
    assert (store.release_folder(known) / INTERNAL).exists()
    store.add_release(known, log=new_identity(), title="", content={})  # whose log is gone
    runner.sweep()
    assert not (store.release_folder(known) / INTERNAL).exists()


class Sleeper:
    """A stand-in for `subprocess.Popen` that starts a worker which does nothing for a long time."""

    def __init__(self):
        self.started = []

    def __call__(self, command, **given):
        self.started.append(POPEN(["sleep", "600"], **given))
        return self.started[-1]


POPEN = subprocess.Popen


@pytest.fixture
def sleeper(monkeypatch):
    made = Sleeper()
    monkeypatch.setattr("queryveil.web.job_runner.subprocess.Popen", made)
    return made


def running(store, job, sleeper, number=1):
    """Wait until a job runs, in the worker of this number: its state says so a moment before there is one."""
    wait_until(lambda: store.job(job)["state"] == "running" and len(sleeper.started) == number, "the job runs")


@pytest.mark.parametrize(("kind", "budget"), [("profile", "longest_reading"), ("compare", "longest_job")])
def test_a_job_that_takes_longer_than_it_may_is_ended_and_the_next_has_its_turn(
    settings, stranger, store, log, sleeper, kind, budget
):
    object.__setattr__(settings, budget, 0.2)  # the runner looks when a job begins
    first = store.add_job(log, kind, {})
    wait_until(lambda: store.job(first)["state"] == "failed", "the job is ended")
    assert "took longer than the" in store.job(first)["error"]
    assert "Try again with fewer people's records" in store.job(first)["error"]
    object.__setattr__(settings, budget, LONG)
    second = store.add_job(log, "preview", {})
    running(store, second, sleeper, number=2)
    assert [worker.poll() is not None for worker in sleeper.started] == [True, False]


class Glutton(Sleeper):
    """Starts workers of which the first takes memory until somebody ends it."""

    def __call__(self, command, **given):
        if self.started:
            return super().__call__(command, **given)
        takes = "import time; held = b'x' * (300 << 20); time.sleep(600)"
        self.started.append(POPEN([sys.executable, "-c", takes], **given))
        return self.started[-1]


def test_a_job_that_needs_more_memory_than_it_may_is_ended_and_the_next_has_its_turn(
    settings, stranger, store, log, monkeypatch
):
    workers = Glutton()
    monkeypatch.setattr("queryveil.web.job_runner.subprocess.Popen", workers)
    object.__setattr__(settings, "most_memory", 256 << 20)
    first, second = store.add_job(log, "preview", {}), store.add_job(log, "profile", {})
    wait_until(lambda: store.job(first)["state"] == "failed", "the job is ended")
    assert "needed more than the 0.2 GiB of memory" in store.job(first)["error"]
    assert "Try again with fewer people's records" in store.job(first)["error"]
    running(store, second, workers, number=2)
    time.sleep(0.2)  # the runner looks a few times
    assert [worker.poll() is not None for worker in workers.started] == [True, False]


def test_other_work_goes_on_beside_a_comparison_and_one_at_a_time(stranger, store, log, sleeper):
    comparison = store.add_job(log, "compare", {})
    running(store, comparison, sleeper)
    other = new_identity()
    store.add_log(other, title="other", file="log", size=1, sample=False, guess={}, hours=1)
    second_comparison = store.add_job(other, "compare", {})
    preview, profile = store.add_job(log, "preview", {}), store.add_job(other, "profile", {})
    running(store, preview, sleeper, number=2)
    assert [store.job(job)["state"] for job in (comparison, second_comparison, profile)] == [
        "running",
        "waiting",
        "waiting",
    ]
    store.set_job(preview, wanted=0)
    running(store, profile, sleeper, number=3)
    store.set_job(comparison, wanted=0)
    running(store, second_comparison, sleeper, number=4)


def test_deleting_a_release_stops_its_report_first(stranger, store, log, sleeper):
    visitor, release = stranger.enter(), new_identity()
    content = {name: {} for name in ("parameters", "guarantee", "columns")} | {"records": 1, "users": 1}
    content |= {"mechanism": "suppress", "file": "log.csv", "ledger": None, "recipient": None}
    store.add_release(release, log=log, title="", content=content)
    job = store.add_job(log, "report", {"release": release})
    running(store, job, sleeper)
    assert visitor.delete(f"/api/releases/{release}").status_code == 204
    assert store.job(job)["state"] == "cancelled"
    assert [worker.poll() is not None for worker in sleeper.started] == [True]


def test_a_log_whose_time_is_up_is_gone_although_a_job_works_on_it(stranger, store, log, sleeper, monkeypatch):
    monkeypatch.setattr("queryveil.web.job_runner.SECONDS_BETWEEN_SWEEPS", 0.1)
    visitor = stranger.enter()
    other = new_identity()
    store.add_log(other, title="other", file="log", size=1, sample=False, guess={}, hours=1)
    for one in (log, other):
        store.log_folder(one).mkdir()
    running(store, store.add_job(log, "profile", {}), sleeper)
    store.set_log(other, expires=time.time() - 1)
    assert visitor.get(f"/api/logs/{other}").status_code == 404  # at once
    job = store.jobs(log=log)[0]["id"]
    store.set_log(log, expires=time.time() - 1)
    assert visitor.get(f"/api/jobs/{job}").status_code == 404
    wait_until(lambda: not any((store.folder / "logs").iterdir()), "the logs are deleted")
    assert [worker.poll() is not None for worker in sleeper.started] == [True]


@pytest.mark.parametrize("flags,told", [({"paying": True, "paid": True}, "was debited"), ({}, None)])
@pytest.mark.parametrize("state", ["cancelled", "failed"])
def test_who_stops_a_release_after_its_debit_is_told_what_it_cost(settings, store, log, sleeper, flags, told, state):
    job = store.add_job(log, "release", {"mechanism": "suppress", "parameters": {}, "release": new_identity()})
    runner = JobRunner(store, settings)
    runner.start()
    running(store, job, sleeper)
    store.set_job(job, request=store.job(job)["request"] | flags)
    if state == "cancelled":
        store.set_job(job, wanted=0)
    else:
        sleeper.started[0].kill()
    wait_until(lambda: store.job(job)["state"] != "running", "the job has ended")
    runner.stop()
    ended = store.job(job)
    assert ended["state"] == state
    assert (told or "debited") in (ended["error"] or "") if told else "debited" not in (ended["error"] or "")


def test_a_job_shows_how_far_its_step_is_and_writes_that_at_most_once_a_second(store, log, tmp_path, monkeypatch):
    written = []

    def long(task):
        monkeypatch.setattr(store, "set_job", lambda identity, **values: written.append(values))
        task.step("trying suppress", 0.5)
        for done in range(10_000):
            tell("grouping the users", done, 10_000)
            tell("going through the texts", done, 10_000)
        return {}

    monkeypatch.setitem(jobs.WORK, "preview", long)
    job = store.job(store.add_job(log, "preview", {}))
    started = time.monotonic()
    jobs.do(jobs.Task(store=store, job=job, ledger=tmp_path, largest_unpacked=1))
    assert written[:2] == [
        {"step": "trying suppress", "share": 0.5},
        {"step": "trying suppress: grouping the users"},
    ]
    assert len(written) <= 2 + (time.monotonic() - started) / jobs.SECONDS_BETWEEN_DETAILS

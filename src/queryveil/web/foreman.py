"""Who runs the jobs: one at a time, each in a process of its own, so that it can be stopped and cannot harm the server.

A job's state lives in the database and nowhere else. So a page that is loaded again, or a server that is started again,
finds it as it was: what was running when the server stopped is taken up again, except for a release that had already
been paid for, which is never paid for twice without being asked for.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import threading
import time
from typing import Final

from queryveil.web.settings import Settings
from queryveil.web.store import RELEASED, NotFoundError, Row, Store

PAUSE: Final = 0.05
SECONDS_TO_TIDY_UP: Final = 5.0
SECONDS_BETWEEN_SWEEPS: Final = 30.0
CUT_SHORT_AFTER_PAYING: Final = (
    "the server stopped after the budget of this release was debited and before it was written. "
    "Making it again will be debited again."
)
DIED: Final = "the worker stopped unexpectedly; the machine may have run out of memory. Try again with a smaller log."


class Foreman:
    """A thread that hands jobs to worker processes and deletes what has to be deleted."""

    def __init__(self, store: Store, settings: Settings, hold: int | None = None) -> None:
        self.store, self.settings = store, settings
        self._held = () if hold is None else (hold,)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="foreman", daemon=True)
        self._worker: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Take up what an earlier server left, and begin."""
        for job in self.store.jobs(state="running"):
            self._take_up(job)
        self._thread.start()

    def stop(self) -> None:
        """Stop the running worker, whose job is taken up by the next server."""
        self._stop.set()
        self._thread.join()

    def _take_up(self, job: Row) -> None:
        paid = job["kind"] == "release" and job["request"].get("paying")
        in_place = (
            job["kind"] == "release" and (self.store.release_folder(job["request"]["release"]) / RELEASED).exists()
        )
        if not job["wanted"] and not in_place:
            self.store.finish_job(job["id"], "cancelled")
        elif paid and not in_place:
            self.store.finish_job(job["id"], "failed", error=CUT_SHORT_AFTER_PAYING)
        else:
            self.store.set_job(job["id"], state="waiting", step="waiting to go on")
        self._tidy_up(job)

    def _work(self) -> None:
        swept = 0.0
        while not self._stop.is_set():
            if time.monotonic() - swept > SECONDS_BETWEEN_SWEEPS:
                self.sweep()
                swept = time.monotonic()
            job = self.store.take_next_job()
            if job is None:
                self._stop.wait(PAUSE)
            else:
                self._run(job)

    def sweep(self) -> None:
        """Delete logs whose time is up."""
        for log in self.store.expired_logs():
            self.store.delete_log(log)

    def _run(self, job: Row) -> None:
        command = [sys.executable, "-m", "queryveil.web.worker", str(self.settings.folder), job["id"]]
        command += [str(self.settings.ledger_file), str(self.settings.largest_unpacked)]
        # The worker ends when its input does, so it never outlives a server that was killed.
        worker = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=self._held,
        )
        with worker:
            while worker.poll() is None:
                if self._stop.is_set() or not self._is_wanted(job["id"]):
                    self._end(worker)
                    break
                time.sleep(PAUSE)
        self._tidy_up(job)
        if self._stop.is_set():
            return  # the job stays as it is, for the next server
        # A worker that did its work has ended the job already, and then neither of these changes anything.
        if self._is_wanted(job["id"]):
            self.store.finish_job(job["id"], "failed", error=DIED)
        else:
            self.store.finish_job(job["id"], "cancelled")

    def _is_wanted(self, job: str) -> bool:
        try:
            return bool(self.store.job(job)["wanted"])
        except NotFoundError:  # deleted together with its log
            return False

    def _end(self, worker: subprocess.Popen[bytes]) -> None:
        worker.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.wait(SECONDS_TO_TIDY_UP)
        if worker.poll() is None:
            worker.kill()
            worker.wait()

    def _tidy_up(self, job: Row) -> None:
        """Remove what a killed worker may have left half-written."""
        for draft in self.store.log_folder(job["log"]).glob(f"{job['id']}*"):
            draft.unlink(missing_ok=True)
        release = job["request"].get("release")
        if not release:
            return
        folder = self.store.release_folder(release)
        for replaced in folder.glob(".*.replaced"):  # the whole release, from between two renames
            if not (folder / RELEASED).exists():
                replaced.rename(folder / RELEASED)
        for draft in folder.glob(".*"):
            shutil.rmtree(draft, ignore_errors=True)

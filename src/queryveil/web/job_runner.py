"""Who runs the jobs, each in a process of its own, so that it can be stopped and cannot harm the server.

One at a time, and beside it one comparison: it takes minutes, gives advice early, and nobody who takes the advice
should wait for the rest. A comparison gives way where both want the same core.

A job has a budget of time and one of memory (`WebSettings`). One that outgrows either is ended, its holder is told what
to do, and the next has its turn.

A job's state lives in the database and nowhere else. So a page that is loaded again, or a server that is started again,
finds it as it was: what was running when the server stopped is taken up again, except for a release that had already
been paid for, which is never paid for twice without being asked for.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Final

from queryveil.web.formatting import cost_of_stopping
from queryveil.web.settings import WebSettings
from queryveil.web.store import RELEASED, NotFoundError, Row, Store

PAUSE: Final = 0.05
PAGE: Final = os.sysconf("SC_PAGE_SIZE")
READING: Final = "profile"
"""The kind of job that reads and counts a log."""
SECONDS_TO_TIDY_UP: Final = 5.0
SECONDS_BETWEEN_SWEEPS: Final = 5.0
CUT_SHORT_AFTER_PAYING: Final = "the server stopped before the release was written."
DIED: Final = "the worker stopped unexpectedly; the machine may have run out of memory. Try again with a smaller log."
SMALLER: Final = "Try again with fewer people's records, or on the command line, which has no such limit."


def resident(process: int) -> int:
    """How many bytes of memory a process holds; none where it is gone.

    >>> resident(os.getpid()) > 1 << 20
    True
    """
    try:
        return int(Path(f"/proc/{process}/statm").read_text().split()[1]) * PAGE
    except (OSError, IndexError):
        return 0


class JobRunner:
    """A thread that hands jobs to worker processes and deletes what has to be deleted."""

    def __init__(self, store: Store, settings: WebSettings, hold: int | None = None) -> None:
        self.store, self.settings = store, settings
        self._held = () if hold is None else (hold,)
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._work, kwargs={"comparisons": False}, name="job runner", daemon=True),
            threading.Thread(target=self._work, kwargs={"comparisons": True}, name="comparison runner", daemon=True),
            threading.Thread(target=self._delete, name="job runner's deletions", daemon=True),
        ]
        self._taking = threading.Lock()
        self._logs_in_work: dict[bool, str | None] = {}

    def start(self) -> None:
        """Delete what should be gone, take up what an earlier server left, and begin."""
        self.store.delete_unfinished_uploads()
        self.sweep()
        for job in self.store.jobs(state="running"):
            self._take_up(job)
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop the running worker, whose job is taken up by the next server."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _take_up(self, job: Row) -> None:
        paid = job["kind"] == "release" and job["request"].get("paying")
        in_place = (
            job["kind"] == "release" and (self.store.release_folder(job["request"]["release"]) / RELEASED).exists()
        )
        if not job["wanted"] and not in_place:
            self.store.finish_job(job["id"], "cancelled", error=cost_of_stopping(job["request"]))
        elif paid and not in_place:
            reason = f"{CUT_SHORT_AFTER_PAYING} {cost_of_stopping(job['request'])}"
            self.store.finish_job(job["id"], "failed", error=reason)
        else:
            self.store.set_job(job["id"], state="waiting", step="waiting to go on")
        self._tidy_up(job)

    def _work(self, comparisons: bool) -> None:
        while not self._stop.is_set():
            with self._taking:
                job = self.store.take_next_job(comparison=comparisons)
                self._logs_in_work[comparisons] = job["log"] if job else None
            if job is None:
                self._stop.wait(PAUSE)
            else:
                self._run(job)
                self._logs_in_work[comparisons] = None

    def _delete(self) -> None:
        """Sweep in a thread of its own, since a job may take longer than a log may be kept."""
        while not self._stop.wait(SECONDS_BETWEEN_SWEEPS):
            with contextlib.suppress(sqlite3.Error, OSError):  # a busy disk: the next round comes soon
                self.sweep()

    def sweep(self) -> None:
        """Delete logs whose time is up, and what no row leads to.

        A log that a worker holds open waits for the next round: its job is not wanted any more, so the worker ends.
        """
        for log in self.store.expired_logs():
            with self._taking:
                if log not in self._logs_in_work.values():
                    self.store.delete_log(log)
        self.store.delete_what_nobody_can_reach()

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
        started, reason = time.monotonic(), DIED
        with worker:
            while worker.poll() is None:
                reason = self._outgrown(job, worker.pid, time.monotonic() - started) or DIED
                if self._stop.is_set() or not self._is_wanted(job["id"]) or reason != DIED:
                    self._end(worker)
                    break
                time.sleep(PAUSE)
        self._tidy_up(job)
        if self._stop.is_set():
            return  # the job stays as it is, for the next server
        # A worker that did its work has ended the job already, and then neither of these changes anything.
        try:
            ended = self.store.job(job["id"])
        except NotFoundError:
            return  # its log's time is up: nobody is told anything more of it
        cost = cost_of_stopping(ended["request"])
        if ended["wanted"]:
            self.store.finish_job(job["id"], "failed", error=f"{reason} {cost}" if cost else reason)
        else:
            self.store.finish_job(job["id"], "cancelled", error=cost)

    def _outgrown(self, job: Row, worker: int, seconds: float) -> str | None:
        """What a job has outgrown, and what to do."""
        most = self.settings.longest_reading if job["kind"] == READING else self.settings.longest_job
        if seconds > most:
            return f"it took longer than the {most / 60:,.0f} minutes that this server gives a job. {SMALLER}"
        if resident(worker) > self.settings.most_memory:
            room = f"{self.settings.most_memory / (1 << 30):,.1f} GiB"
            return f"it needed more than the {room} of memory that this server gives a job. {SMALLER}"
        return None

    def _is_wanted(self, job: str) -> bool:
        try:
            return bool(self.store.job(job)["wanted"])
        except NotFoundError:  # deleted together with its log, or about to be
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

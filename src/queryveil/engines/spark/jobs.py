"""What a run asks Spark to do, so that all of it can be ended.

Every call that makes Spark work goes through `Jobs.run`, in a thread of its own and under a tag of this run. Who is
interrupted in the middle knows three things afterwards that parts can be swept by: the call has come back from Java
(the driver itself moves files when a job is done), no job of the tag runs, and no task of such a job is at work any
more (a task that was told to end still writes for a while, and makes anew a folder that was deleted).
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Result = TypeVar("Result")

PATIENCE_SECONDS = 60.0
LOOK_EVERY_SECONDS = 0.1
SETTLING_SECONDS = 5.0


class Jobs:
    """The work of one run on a Spark that may have other guests."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark, self._context = spark, spark.sparkContext
        self._tag = f"queryveil-{uuid4().hex}"
        self._threads: list[threading.Thread] = []

    def run(self, work: Callable[[], Result]) -> Result:
        """What the work gives, with Spark's errors in the house's words; ended if this thread is interrupted."""
        from queryveil.engines.spark.failures import in_plain_words  # needs Spark, whose absence is told before

        made: Future[Result] = Future()
        context: Any = self._context

        def answer() -> None:
            try:
                with in_plain_words():
                    context._jsc.sc().setLocalProperties(others)
                    context.addJobTag(self._tag)
                    made.set_result(work())
            except BaseException as error:
                made.set_exception(error)

        with in_plain_words():  # what others have set for this thread goes along: a pool, a group, a description
            others = context._jsc.sc().getLocalProperties().clone()
        thread = threading.Thread(target=copy_context().run, args=(answer,), daemon=True)
        self._threads.append(thread)
        try:
            thread.start()
            thread.join()
        except BaseException:
            self.end()
            raise
        self._threads.remove(thread)
        return made.result()

    def end(self) -> bool:
        """Cancel all that is left of this run, and wait until it is over; False where it does not end in time."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self._at_work():
            if time.monotonic() > deadline:
                return False
            with suppress(Exception):  # Spark may have died or be half stopped
                self._context.cancelJobsWithTag(self._tag)
            time.sleep(LOOK_EVERY_SECONDS)
        self._settle()
        return True

    def _settle(self) -> None:
        """Wait until no executor has a task, or, where others work on this Spark, for a while.

        Stages are told of through a queue; the scheduler's own count is exact, but knows no tags.
        """
        deadline = time.monotonic() + SETTLING_SECONDS
        with suppress(Exception):
            tracker: Any = self._spark._jsc.sc().statusTracker()
            while time.monotonic() < deadline and any(one.numRunningTasks() for one in tracker.getExecutorInfos()):
                time.sleep(LOOK_EVERY_SECONDS)

    def _at_work(self) -> bool:
        self._threads = [thread for thread in self._threads if thread.is_alive()]
        if self._threads:
            return True
        from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]

        try:
            java: Any = self._spark._jsc
            with suppress(Py4JJavaError):  # others' events may keep it busy for longer than it waits
                java.sc().listenerBus().waitUntilEmpty()  # or the tracker may not know yet what was begun
            tracker = self._context.statusTracker()
            jobs = [tracker.getJobInfo(number) for number in java.sc().statusTracker().getJobIdsForTag(self._tag)]
            if any(job.status in ("RUNNING", "UNKNOWN") for job in jobs if job):
                return True
            stages = [tracker.getStageInfo(number) for job in jobs if job for number in job.stageIds]
            return any(stage.numActiveTasks > 0 for stage in stages if stage)
        except Exception:  # Java is gone, and all that it did with it
            return False

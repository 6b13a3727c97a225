"""What a run asks Spark to do, so that all of it can be ended.

Every call that makes Spark work goes through `Jobs.run`, in a thread of its own and under a tag of this run. Who is
interrupted in the middle knows three things afterwards that parts can be swept by: the call has come back from Java
(the driver itself moves files when a job is done), no job of the tag runs, and no task of such a job is at work any
more (a task that was asked to end still writes for a while, and makes anew a folder that was deleted).
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote
from uuid import uuid4

from queryveil import errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Result = TypeVar("Result")

PATIENCE_SECONDS = 60.0
LOOK_EVERY_SECONDS = 0.1
SETTLING_SECONDS = 5.0
UNREAD = re.compile(r"FAILED_READ_FILE[^\n]*? file (\S+?)[.:,]?\s")


class Jobs:
    """The work of one run on a Spark that may have other guests."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark, self._context = spark, spark.sparkContext
        self._tag = f"queryveil-{uuid4().hex}"
        self._threads: list[threading.Thread] = []

    def run(self, work: Callable[[], Result]) -> Result:
        """What the work gives, with Spark's errors as the package's; ended if this thread is interrupted."""
        made: Future[Result] = Future()
        context: Any = self._context

        def answer() -> None:
            try:
                with translate_errors():
                    context._jsc.sc().setLocalProperties(others)
                    context.addJobTag(self._tag)
                    made.set_result(work())
            except BaseException as error:
                made.set_exception(error)

        with translate_errors():  # what others have set for this thread goes along: a pool, a group, a description
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

        Stages are announced through a queue; the scheduler's own count is exact, but knows no tags.
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


@contextmanager
def translate_errors() -> Iterator[None]:
    """Spark's errors as the package's.

    Spark's own texts run to pages of plan and stack and may quote values, so none of them is passed on. A block
    function's failure is described by what it said itself, where that was made to be read (`arrow.py`).
    """
    from py4j.protocol import Py4JError  # Spark may be absent, which is said before anything runs
    from pyspark.errors import PySparkException

    from queryveil.engines.spark.arrow import END, FAILED

    try:
        yield
    except (PySparkException, Py4JError) as error:
        said = re.search(rf"{FAILED}(\w+)(?:: )?(.*?){END}", str(error), re.DOTALL)
        kind = getattr(errors, said.group(1), None) if said else None
        unread = UNREAD.search(str(error))
        if said and kind not in (None, errors.ParameterError):
            problem = kind(said.group(2))
        elif unread:
            name = unquote(unread.group(1)).rpartition("/")[2]
            problem = errors.FormatError(f"{name}: Spark cannot read it to its end: cut off, damaged or gone.")
        else:
            what = said.group(1) + said.group(2) if said else type(error).__name__
            problem = errors.EngineError(
                f"Spark could not finish the work ({what}). Nothing was released; its own logs say more."
            )
    else:
        return
    raise problem

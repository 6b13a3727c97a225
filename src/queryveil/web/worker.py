"""A worker process: does one job, tells the database how far it is, and ends.

`python -m queryveil.web.worker FOLDER JOB LEDGER LARGEST_UNPACKED`, started by the job runner. It ends when its input
closes, so it never outlives the server, and tidies up when it is told to stop. It prints nothing, because what an
unexpected error says may hold data; only the kind and place of such an error are kept.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
import threading
import traceback
from pathlib import Path
from types import FrameType
from typing import Final

from polars.exceptions import PanicException

from queryveil.errors import QueryVeilError, reason_of
from queryveil.web.formatting import as_page_field, cost_of_stopping
from queryveil.web.store import NotFoundError, Store

NICE_OF_COMPARISONS: Final = 4
"""They run beside work that somebody waits for."""


def main(folder: str, job_id: str, ledger: str, largest_unpacked: str) -> None:
    """Do the job."""
    signal.signal(signal.SIGTERM, _stop)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the keyboard stops the server, and the server stops the worker
    threading.Thread(target=_end_with_the_server, daemon=True).start()
    os.umask(0o077)
    limit_memory()
    store = Store(Path(folder))
    try:
        from queryveil.web.jobs import Task, do  # loads the tables; the process can be stopped from here on

        if store.job(job_id)["kind"] == "compare":
            os.nice(NICE_OF_COMPARISONS)
        task = Task(store=store, job=store.job(job_id), ledger=Path(ledger), largest_unpacked=int(largest_unpacked))
        store.finish_job(job_id, "done", result=do(task))
    except QueryVeilError as error:
        _fail(store, job_id, error.describe(as_page_field))
    except MemoryError:
        _fail(store, job_id, "the machine has not enough memory for this log. Try again with fewer people's records.")
    except OSError as error:
        _fail(store, job_id, f"the server's disk: {reason_of(error)}.")
    except PanicException:  # of a decoder, over a file that is not what it claims to be
        _fail(store, job_id, "the log cannot be read: its content is damaged or not in its format.")
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{type(error).__name__} in {Path(place.filename).name}, line {place.lineno}"
        _fail(store, job_id, f"a fault in QueryVeil: {where}. Nothing was released.")


def limit_memory() -> None:
    """Take no more than the machine has: a file that unpacks to more ends this process, not its neighbours."""
    most = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))  # what is written to; not address space merely reserved


def _fail(store: Store, job_id: str, reason: str) -> None:
    """End the job with a reason; a failure that is told in order, before the debit, has cost nothing."""
    with contextlib.suppress(NotFoundError):  # its log was deleted meanwhile
        request = store.job(job_id)["request"]
        cost = cost_of_stopping(request) if request.get("paid") else None
        store.finish_job(job_id, "failed", error=f"{reason} {cost}" if cost else reason)


def _stop(_signal: int, _frame: FrameType | None) -> None:
    raise SystemExit(1)  # so that half-written files are removed on the way out


def _end_with_the_server() -> None:
    sys.stdin.buffer.read()
    os._exit(1)


if __name__ == "__main__":
    main(*sys.argv[1:5])

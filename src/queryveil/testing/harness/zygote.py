"""Forks one worker after another: importing everything takes seconds, and a kill test wants many processes.

Reads one JSON object a line, {"keys", "settings"} and at most one of "kill", "freeze" and "full", each a label and a
number: at that pass of the label the worker dies by SIGKILL, is frozen by SIGSTOP, or finds that no file may grow for
a quarter of a second, as on a full disk. "stdin" and "stdout" are files that it finds there. The worker runs with the
keys of that folder in a child, and the answer is one line, {"status", "error"}; of one that is frozen {"status":
"frozen", "pid"}, and {"thaw": pid} lets it go on and is answered when it has ended. A worker ends when its source does,
or after a few rounds without records.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import signal
import sys
import threading
import traceback
from contextlib import suppress
from typing import Any

import numpy as np

from queryveil.errors import QueryVeilError
from queryveil.live.config import settings_from
from queryveil.live.connector import CONNECTORS
from queryveil.live.worker import Worker
from queryveil.mechanisms.stream._gate import Gate
from queryveil.mechanisms.stream._names import Numbers
from queryveil.mechanisms.stream._tree import Rules, Tree

IDLE_ROUNDS = 3
SECONDS_FULL = 0.25
LONGEST_ERROR = 16_000
EVENTS = ("kill", "freeze", "full")


class Trouble:
    """Comes at the n-th pass of a label; at `half published` only in a commit, not where an old one is finished."""

    def __init__(self, told: dict[str, Any]) -> None:
        self.event = next((event for event in EVENTS if told.get(event)), None)
        place: tuple[str | None, int] = told[self.event] if self.event else (None, 0)
        self.label, self.left = place
        self.in_a_commit = False

    def __call__(self, label: str) -> None:
        self.in_a_commit |= label == "before commit"
        if label != self.label or not (self.in_a_commit or label != "half published"):
            return
        self.left -= 1
        if self.left:
            return
        if self.event == "full":
            fill_the_disk()
        else:
            os.kill(os.getpid(), signal.SIGKILL if self.event == "kill" else signal.SIGSTOP)


def fill_the_disk() -> None:
    """No file may grow for a moment."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    threading.Timer(SECONDS_FULL, resource.setrlimit, (resource.RLIMIT_FSIZE, before)).start()


def work(told: dict[str, Any]) -> None:
    """Be that worker."""
    os.environ["QUERYVEIL_KEYS"] = told["keys"]
    if "stdin" in told:
        os.dup2(os.open(told["stdin"], os.O_RDONLY), 0)
        os.dup2(os.open(told["stdout"], os.O_WRONLY | os.O_APPEND), 1)
    sys.dont_write_bytecode = True  # half of a module would be left where no file may grow
    Worker(settings_from(told["settings"]), on_step=Trouble(told)).run(idle_rounds=IDLE_ROUNDS)


def load_kernels() -> None:
    """Loading compiled code takes a second. Only NumPy here: Polars' threads would not survive a fork."""
    one = np.ones(1, np.int32)
    tree = Tree(Rules.safe(2, 1))
    tree.add_categories(0 * one, one)
    tree.push(one, 0 * one, 0 * one, lambda used, wanted: np.zeros(wanted, np.uint64))
    Numbers(one.astype(np.uint64)).of(one.astype(np.uint64))
    Gate(2, 9).push(one.astype(np.uint64), one.astype(np.uint64), 0 * one, one, 0 * one)


def load_connectors() -> None:
    """All whose client is installed."""
    for module, _ in CONNECTORS.values():
        with suppress(ImportError):
            importlib.import_module(f"queryveil.live.{module}")


def start(line: str) -> tuple[int, int]:
    """A child that does what the line says, and where it tells what went wrong."""
    reading, writing = os.pipe()
    child = os.fork()
    if child:
        os.close(writing)
        return child, reading
    try:
        work(json.loads(line))
        os._exit(0)
    except QueryVeilError as error:
        os.write(writing, str(error).encode()[:LONGEST_ERROR])
    except BaseException:
        os.write(writing, traceback.format_exc().encode()[-LONGEST_ERROR:])
    os._exit(1)


def main() -> None:
    """Work through the lines of stdin."""
    load_kernels()
    load_connectors()
    frozen: dict[int, int] = {}
    for line in sys.stdin:
        thawed = json.loads(line).get("thaw")
        if thawed is None:
            child, reading = start(line)
        else:
            child, reading = thawed, frozen.pop(thawed)
            os.kill(child, signal.SIGCONT)
        status = os.waitpid(child, os.WUNTRACED)[1]
        if os.WIFSTOPPED(status):
            frozen[child] = reading
            answer: dict[str, object] = {"status": "frozen", "error": "", "pid": child}
        else:
            with os.fdopen(reading, "rb") as told:
                answer = {"status": os.waitstatus_to_exitcode(status), "error": told.read().decode()}
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()
    for child in frozen:
        os.kill(child, signal.SIGKILL)


if __name__ == "__main__":
    main()

"""Forks one worker after another: importing everything takes seconds, and a kill test wants many processes.

Reads one JSON object a line, {"keys", "settings", "kill": [label, pass] or null}; runs that worker, with the keys of
that folder, in a child that dies by SIGKILL at the given pass of a label; answers with one line, {"status", "error"}.
A worker ends when its source does, or after a few rounds without records.
"""

import importlib
import json
import os
import signal
import sys
import traceback
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

import numpy as np

from queryveil.errors import QueryVeilError
from queryveil.live.config import settings_from
from queryveil.live.connector import CONNECTORS
from queryveil.live.worker import Worker
from queryveil.mechanisms.stream._gate import Gate
from queryveil.mechanisms.stream._names import Numbers
from queryveil.mechanisms.stream._tree import Rules, Tree

IDLE_ROUNDS = 3


class Killer:
    """Dies at the n-th pass of a label; of `half published` only in a commit, not where an old one is finished."""

    def __init__(self, label: str | None, passes: int) -> None:
        self.label, self.left = label, passes
        self.in_a_commit = False

    def __call__(self, label: str) -> None:
        self.in_a_commit |= label == "before commit"
        if label == self.label and (self.in_a_commit or label != "half published"):
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def work(told: dict) -> None:
    os.environ["QUERYVEIL_KEYS"] = told["keys"]
    label, passes = told.get("kill") or (None, 0)
    Worker(settings_from(told["settings"]), on_step=Killer(label, passes)).run(idle_rounds=IDLE_ROUNDS)


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


def main() -> None:
    load_kernels()
    load_connectors()
    for line in sys.stdin:
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            try:
                work(json.loads(line))
                os._exit(0)
            except QueryVeilError as error:
                os.write(writing, str(error).encode())
            except BaseException:
                os.write(writing, traceback.format_exc().encode())
            os._exit(1)
        os.close(writing)
        with os.fdopen(reading, "rb") as told:
            error = told.read().decode()
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        sys.stdout.write(json.dumps({"status": status, "error": error}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

"""Forks one release of the toy mechanism after another: importing everything takes seconds, a release takes a moment.

Reads one JSON object a line, {"log", "folder", "ledger", "secrets", "keys", "step", "seconds"}; makes that release in a
child that dies by SIGKILL when the step ends, or after so many seconds; answers with one line, {"status"}.
"""

import json
import os
import signal
import sys
import time
import traceback
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from queryveil.errors import QueryVeilError
from queryveil.privacy import Noise
from queryveil.release import pipeline
from toy_mechanisms import RandomisedResponse


def release(told: dict) -> None:
    os.environ["QUERYVEIL_KEYS"] = told["keys"]
    target = pipeline.Target(folder=Path(told["folder"]), ledger=Path(told["ledger"]), secrets=Path(told["secrets"]))

    def on_step(step: str) -> None:
        if step == told["step"]:
            os.kill(os.getpid(), signal.SIGKILL)

    pipeline.release(
        RandomisedResponse(epsilon=0.1), pipeline.Source(path=Path(told["log"])), target, Noise.secure(), on_step
    )


def main() -> None:
    Noise.secure().stream("warm up").permutation(3)  # only NumPy and Numba: Polars' threads would not survive a fork
    for line in sys.stdin:
        told = json.loads(line)
        child = os.fork()
        if not child:
            try:
                release(told)
                os._exit(0)
            except QueryVeilError:
                os._exit(1)
            except BaseException:
                traceback.print_exc()
                os._exit(70)
        if told["seconds"]:
            time.sleep(told["seconds"])
            os.kill(child, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        sys.stdout.write(json.dumps({"status": status}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

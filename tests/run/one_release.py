"""One release of the toy mechanism in a process of its own that dies by SIGKILL when a step ends, or after a while.

Usage: one_release.py LOG FOLDER LEDGER SECRETS STEP SECONDS
"""

import os
import signal
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from queryveil.privacy import Noise
from queryveil.run import files
from toy_mechanisms import RandomisedResponse


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    log, folder, ledger, secrets = map(Path, sys.argv[1:5])
    fatal_step, seconds = sys.argv[5], float(sys.argv[6])
    Noise.secure().stream("warm up").permutation(3)  # loads the kernels, so that the clock below times the release
    if seconds:
        threading.Thread(target=lambda: (time.sleep(seconds), die()), daemon=True).start()
    target = files.Target(folder=folder, ledger=ledger, secrets=secrets)
    mechanism = RandomisedResponse(epsilon=0.1)
    files.release(mechanism, files.Source(path=log), target, Noise.secure(), lambda step: step == fatal_step and die())


if __name__ == "__main__":
    main()

"""The worker of `queryveil.web`, but comparisons try few settings, and stop at the second until they may go on.

`python paced_worker.py GATE …`, then what `queryveil.web.worker` is told. A comparison waits for the file GATE, so that
a test sees it at work on any machine, however quick or slow.
"""

import sys
import time
from pathlib import Path

from queryveil.experiments import compare, sweep
from queryveil.web import worker

SETTINGS = {
    "mechanism": [{"name": "suppress", "k_text": [2, 5, 20], "time": "drop"}],
    "rule": [{"name": "frequency", "k": 5}],
}


def main(gate: Path, *told: str) -> None:
    tried, whole = 0, compare.measured

    def paced(*given):
        nonlocal tried
        tried += 1
        while tried > 1 and not gate.exists():
            time.sleep(0.02)
        return whole(*given)

    compare.measured = paced
    sweep.Sweep.usual = classmethod(lambda cls: cls.of(SETTINGS))
    worker.main(*told)


if __name__ == "__main__":
    main(Path(sys.argv[1]), *sys.argv[2:6])

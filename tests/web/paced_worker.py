"""Comparisons that try few settings, and stop at the second until they may go on.

A comparison waits for a file, so that a test sees it at work on any machine, however quick or slow.
"""

import time
from pathlib import Path

from queryveil.experiments import compare, sweep

SETTINGS = {
    "mechanism": [{"name": "suppress", "k_text": [2, 5, 20], "time": "drop"}],
    "rule": [{"name": "frequency", "k": 5}],
}


def pace(gate: Path) -> None:
    """From now on in this process, which becomes a worker (forked_workers.py)."""
    tried, whole = 0, compare.measured

    def paced(*given):
        nonlocal tried
        tried += 1
        while tried > 1 and not gate.exists():
            time.sleep(0.02)
        return whole(*given)

    compare.measured = paced
    sweep.Sweep.usual = classmethod(lambda cls: cls.of(SETTINGS))

"""How many examples a property is tried with: a third each day, all of them by `make soak`."""

import os

SOAK = os.environ.get("QUERYVEIL_SOAK") == "1"


def examples(count: int) -> int:
    return count if SOAK else -(-count // 3)

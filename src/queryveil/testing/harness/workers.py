"""Workers in processes of their own, forked from one that has everything loaded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

SECONDS_TO_END = 300.0


class Zygote:
    """Starts workers, one at a time; those that are frozen stay beside the others until they are thawed."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "queryveil.testing.harness.zygote"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    @property
    def keys(self) -> Path:
        """The key folder of whoever asks."""
        return Path(os.environ["QUERYVEIL_KEYS"])

    def run(self, settings: dict[str, object], kill: tuple[str, int] | None = None, **more: object) -> dict[str, Any]:
        """What became of a worker: its exit status, -9 for one that was killed, and what went wrong in words."""
        return self._ask({"keys": str(self.keys), "settings": settings, "kill": kill, **more})

    def thaw(self, pid: int) -> dict[str, Any]:
        """Let a frozen worker go on, and say what became of it."""
        return self._ask({"thaw": pid})

    def _ask(self, told: dict[str, object]) -> dict[str, Any]:
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps(told).encode() + b"\n")
        self.process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer

    def close(self) -> None:
        """End it, with all that are still frozen."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.close()
        self.process.wait(timeout=SECONDS_TO_END)
        self.process.stdout.close()

"""Releases on Spark whose driver is killed: what is visible is whole and paid for, and no part of the log stays behind.

Drivers release the same log with the same seed, one after the other, into one folder and with one ledger. Each is ended
somewhere: by SIGKILL, after which nobody can sweep, so the next driver must; or by SIGTERM, after which nothing may be
left. Every second one has its parts on a file system beside the driver's own. At the end one is let finish, and every
release that ever became visible must have the bytes of one that this machine made alone.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from queryveil.engines.spark.staging import PARTS
from queryveil.errors import QueryVeilError
from queryveil.log import synthetic, write
from queryveil.privacy import Ledger, Noise
from queryveil.release.manifest import verify
from queryveil.testing.harness.ends import PATIENCE
from queryveil.testing.harness.spark_driver import release

MECHANISMS = ("sanitize", "suppress")
"""One that is paid for and is drawn on the driver, one whose records come back from Spark in parts."""
IN_A_JOB = "parts begun"
LABELS = (
    *("staging made", IN_A_JOB, IN_A_JOB, IN_A_JOB, "parts brought", "log read", "ledger debited", "protected"),
    *("log written", "manifest written", "signed", "in place", "sweeping"),
)
NAMES = {signal.SIGKILL: "kills", signal.SIGTERM: "terminations"}
ENDED = 128 + signal.SIGTERM
USERS, RECORDS = 200, 3000


@dataclass(frozen=True)
class Blow:
    """A signal at the n-th pass of a label, or some seconds later."""

    label: str
    signal: int = signal.SIGKILL
    number: int = 1
    seconds: float = 0.0


def drawn_blows(count: int, seed: int) -> list[Blow]:
    """Every label about equally often, two of three times SIGKILL; in Spark's jobs at moments of their own."""
    drawn = Noise.seeded(seed).stream("harness: blows")
    blows = []
    for place in range(count):
        if not place % len(LABELS):
            order = drawn.permutation(len(LABELS))
        label = LABELS[order[place % len(LABELS)]]
        number, tenths, kind = (int(drawn.below(most, 1)[0]) for most in (3, 15, 3))
        struck = signal.SIGTERM if kind == 0 else signal.SIGKILL
        blows.append(Blow(label, struck, 1 + number, tenths / 10) if label == IN_A_JOB else Blow(label, struck))
    return blows


@dataclass
class ReleaseVerdict:
    """What was done and what came of it."""

    done: Counter[str] = field(default_factory=Counter)
    visible: int = 0
    swept: int = 0
    """How many killed drivers left parts, which the next one deleted."""
    problems: list[str] = field(default_factory=list)

    def in_words(self) -> str:
        """For people."""
        told = ", ".join(f"{self.done[name]} {name}" for name in NAMES.values())
        head = f"{told}; {self.visible} releases are visible; parts of {self.swept} killed drivers were swept."
        if not self.problems:
            return (
                f"{head} No violation: every visible release is whole, paid for and has the bytes of an undisturbed "
                "one, and no part of the log is left."
            )
        listed = [f"- {problem}" for problem in self.problems[:20]]
        return "\n".join([f"{head} {len(self.problems)} VIOLATIONS:", *listed])


class SparkTrial:
    """Drivers under attack, in a folder of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._scratch, self._shared, self.output = (folder / name for name in ("tmp", "shared", "out"))
        for place in (self._scratch, self._shared, self.output):
            place.mkdir()
        self._log, self._ledger = folder / "log.parquet", folder / "ledger.db"
        self.verdict = ReleaseVerdict()
        self._left: set[Path] = set()

    def run(self, blows: Sequence[Blow], say: Callable[[str], None] = lambda text: None) -> ReleaseVerdict:
        """Let it all happen, then let one driver finish, and look at everything after each."""
        write(synthetic.synth(users=USERS, records=RECORDS, seed=3), self._log)
        for ledger in (self._ledger, self._folder / "undisturbed.db"):
            Ledger.create(ledger, epsilon=1e6, delta=0.5)
        expected = {mechanism: self._undisturbed(mechanism) for mechanism in MECHANISMS}
        for number, blow in enumerate([*blows, None]):
            mechanism = MECHANISMS[number % len(MECHANISMS)]
            self._drive(number, mechanism, blow)
            self._look_at_parts(blow)
            self._look_at_releases(expected)
            say(f"{number + 1} of {len(blows) + 1}: {blow.label if blow else 'undisturbed'}")
        return self.verdict

    def _undisturbed(self, mechanism: str) -> bytes:
        folder = self._folder / f"undisturbed-{mechanism}"
        ledger = self._folder / "undisturbed.db"
        release({"log": self._log, "folder": folder, "ledger": ledger, "mechanism": mechanism}, None)
        return (folder / "log.csv").read_bytes()

    def _drive(self, number: int, mechanism: str, blow: Blow | None) -> None:
        folder = self.output / f"{mechanism}-{number}"
        told = {
            "log": str(self._log),
            "folder": str(folder),
            "ledger": str(self._ledger),
            "mechanism": mechanism,
            "shared": self._shared.as_uri() if number // 2 % 2 else None,
            "blow": asdict(blow) if blow else None,
        }
        done = subprocess.run(
            [sys.executable, "-m", "queryveil.testing.harness.spark_driver", json.dumps(told)],
            env=os.environ | {"TMPDIR": str(self._scratch)},
            capture_output=True,
            text=True,
            timeout=PATIENCE,
        )
        # By SIGTERM itself before a driver has anything to sweep and when all is swept; parts are looked for anyway.
        ends = () if blow is None else (-blow.signal, *([ENDED] if blow.signal == signal.SIGTERM else []))
        if blow is not None and done.returncode in ends:
            self.verdict.done[NAMES[signal.Signals(blow.signal)]] += 1
        elif done.returncode:
            last = done.stderr.strip().splitlines()[-1:]
            self.verdict.problems.append(f"a driver ended with status {done.returncode}: {''.join(last)}")
        if blow is None and not folder.exists():
            self.verdict.problems.append("a driver that nobody disturbed released nothing")

    def _look_at_parts(self, blow: Blow | None) -> None:
        """What the driver before this one left is gone; what this one left, only a kill explains."""
        now = {
            folder
            for place in (self._scratch, self._shared)
            for folder in place.glob("queryveil-*")
            if any(path.is_file() for path in (folder / PARTS).rglob("*"))
        }
        if stayed := now & self._left:
            self.verdict.problems.append(f"the next driver left parts of a killed one in {len(stayed)} folders")
        self.verdict.swept += bool(self._left)
        self._left = now
        if now and (blow is None or blow.signal != signal.SIGKILL):
            self.verdict.problems.append("parts of the log are left though nobody killed the driver")

    def _look_at_releases(self, expected: dict[str, bytes]) -> None:
        """Whatever has a name that people see is a whole release, with the bytes it must have, and is in the ledger."""
        paid, visible = [], sorted(path for path in self.output.iterdir() if not path.name.startswith("."))
        for folder in visible:
            try:
                paid.append(str(verify(folder).manifest["ledger"]))
            except QueryVeilError as error:
                self.verdict.problems.append(f"a release is visible that is not whole: {error}")
            else:
                if (folder / "log.csv").read_bytes() != expected[folder.name.partition("-")[0]]:
                    self.verdict.problems.append("a release has other bytes than an undisturbed one with its seed")
        self.verdict.problems += [f"the ledger: {problem}" for problem in Ledger(self._ledger).verify(paid)]
        self.verdict.visible = len(visible)

"""The trial: events in a random order, somebody who looks at the output after each, and a replay to compare with."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from queryveil.privacy.noise import Noise, NoiseStream
from queryveil.testing.harness.ends import End, FileEnd
from queryveil.testing.harness.records import HALF_PUBLISHED, mixed_input
from queryveil.testing.harness.workers import Zygote

KILLED = -9
LINES_BETWEEN_EVENTS = 50


@dataclass(frozen=True)
class Events:
    """How often each is tried."""

    kills: int = 100
    freezes: int = 0
    set_backs: int = 0
    full_disks: int = 0

    def in_order(self, drawn: NoiseStream) -> list[str]:
        """All of them, mixed."""
        names = [name for name, count in vars(self).items() for _ in range(count)]
        return [names[place] for place in drawn.permutation(len(names))]


@dataclass
class TrialVerdict:
    """What was done and what came of it."""

    done: Counter[str] = field(default_factory=Counter)
    """How often each event came about: a worker may be done before it reaches the place where it was to die."""
    problems: list[str] = field(default_factory=list)
    lines: int = 0
    not_tried: list[str] = field(default_factory=list)
    missing: int | None = None
    """Lines that did not come out, where that is allowed."""

    def in_words(self) -> str:
        """For people."""
        names = (("kills", "kills"), ("freezes", "freezes"), ("set_backs", "set-backs"), ("full_disks", "full disks"))
        told = ", ".join(f"{self.done[name]} {word}" for name, word in names)
        head = f"{told}; {self.lines:,} lines came out."
        if self.not_tried:
            head += f" Not tried here: {', '.join(self.not_tried)}."
        how = "byte by byte" if self.missing is None else f"of which {self.missing:,} lines are missing, as pipes may"
        if not self.problems:
            return f"{head} No violation: nothing that was seen changed, and the output is that of a replay, {how}."
        return "\n".join(
            [f"{head} {len(self.problems)} VIOLATIONS:", *(f"- {problem}" for problem in self.problems[:20])]
        )


class Trial:
    """One run under attack."""

    def __init__(self, end: End, workers: Zygote, events: Events, seed: int) -> None:
        self._end, self._workers = end, workers
        self._drawn = Noise.seeded(seed).stream("harness: events")
        self._order = events.in_order(self._drawn)
        self._lines = mixed_input(max(400, LINES_BETWEEN_EVENTS * len(self._order)), seed)[0]
        self._seen: list[bytes] = []
        self._fed = 0
        self.verdict = TrialVerdict()

    def run(self, say: Callable[[str], None] = lambda text: None) -> TrialVerdict:
        """Let it all happen, then let one finish, and compare."""
        for number, event in enumerate(self._order, start=1):
            self._feed(len(self._lines) * number // (len(self._order) + 1))
            getattr(self, f"_{event}")()
            self._look(f"after event {number} ({event})")
            say(f"{number} of {len(self._order)}: {event}")
        self._feed(len(self._lines))
        for _ in range(10):  # a busy broker may be slow to send
            self._work()
            if not self._end.left():
                break
        self._look("at the end")
        self.verdict.lines = len(self._seen)
        with _quiet_replay(self._end, self._end.taken(self._lines), self._workers) as expected:
            found = self._end.visible()
            if found != expected and (self._end.exactly_once or not _with_gaps(found, expected)):
                self.verdict.problems.append("the output is not that of a replay that nobody disturbed")
            self.verdict.missing = None if self._end.exactly_once else len(expected) - len(found)
            if not expected:
                self.verdict.problems.append("nothing came out: this shows nothing")
        return self.verdict

    # Events

    def _kills(self) -> None:
        status = self._work(kill=self._somewhere())
        self.verdict.done["kills"] += status == KILLED

    def _freezes(self) -> None:
        answer = self._workers.run(self._end.settings(), freeze=self._somewhere(), **self._end.streams())
        if answer["status"] != "frozen":
            self._judge(answer, (0,))
            return
        self.verdict.done["freezes"] += 1
        if self._end.takes_over:
            self._work()
            self._look("while a worker was frozen")
        self._judge(self._workers.thaw(answer["pid"]), (0,))

    def _full_disks(self) -> None:
        self._work(full=self._somewhere())
        self.verdict.done["full_disks"] += 1

    def _set_backs(self) -> None:
        if not self._end.sets_back:
            if "set-backs" not in self.verdict.not_tried:
                self.verdict.not_tried.append("set-backs")
            return
        self._work()
        self._end.save()
        before = self._fed
        self._feed(min(len(self._lines), before + LINES_BETWEEN_EVENTS))
        self._work(kill=self._somewhere())
        self._look("before a set-back")
        self._end.lose()
        self._fed, upto = before, self._fed
        self._feed(upto)
        self._work()
        self.verdict.done["set_backs"] += 1

    # What they are made of

    def _somewhere(self) -> tuple[str, int]:
        label = self._end.labels[self._drawn.below(len(self._end.labels), 1)[0]]
        return label, 1 if label == HALF_PUBLISHED else 1 + int(self._drawn.below(2, 1)[0])

    def _feed(self, upto: int) -> None:
        if upto > self._fed:
            self._end.feed(self._lines[self._fed : upto])
            self._fed = upto

    def _work(self, **trouble: tuple[str, int]) -> int:
        answer = self._workers.run(self._end.settings(), **trouble, **self._end.streams())
        self._judge(answer, (0, KILLED) if "kill" in trouble else (0,))
        return int(answer["status"])

    def _judge(self, answer: dict[str, object], allowed: tuple[int, ...]) -> None:
        self._end.worker_ended()
        if answer["status"] not in allowed:
            self.verdict.problems.append(f"a worker ended with status {answer['status']}: {answer['error']}")

    def _look(self, when: str) -> None:
        """What is visible now and what was seen before must be the same as far as both go."""
        now = self._end.visible()
        last = min(len(now), len(self._seen)) - 1
        if last >= 0 and (now[:last] != self._seen[:last] or not _one_begins_the_other(now[last], self._seen[last])):
            self.verdict.problems.append(f"{when}: something that was seen has changed")
        self._seen = max(now, self._seen, key=len)


def _with_gaps(found: list[bytes], expected: list[bytes]) -> bool:
    """Whether these lines are among the others, each once and in their order."""
    others = iter(expected)
    return all(line in others for line in found)


def _one_begins_the_other(one: bytes, other: bytes) -> bool:
    """The last line of a file may have been seen when only half of it was there."""
    return one.startswith(other) or other.startswith(one)


@contextmanager
def _quiet_replay(end: End, lines: list[bytes], workers: Zygote) -> Iterator[list[bytes]]:
    """The same lines from a file to a file with the same key, by one worker that nobody disturbs."""
    keys = Path(os.environ["QUERYVEIL_KEYS"])
    with tempfile.TemporaryDirectory() as folder:
        for kind in ("key", "home"):
            shutil.copy(keys / f"stream-{end.run}.{kind}", folder)
        replay = FileEnd(folder, end.run)
        replay.feed(lines)
        os.environ["QUERYVEIL_KEYS"] = folder
        try:
            answer = workers.run(replay.settings() | {"batch": 1000})
        finally:
            os.environ["QUERYVEIL_KEYS"] = str(keys)
        yield replay.visible() if answer["status"] == 0 else [str(answer["error"]).encode()]

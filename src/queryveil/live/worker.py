"""A worker: holds the shards that are its share, goes round them, waits out what is away, stops when told.

Trouble has one answer: let the shard go and open it anew from its last commit, after a while that doubles up to half a
minute. A lost connection, a full disk, a shard that another worker took over: all the same. Only what waiting cannot
mend (a foreign checkpoint, a changed input) ends the worker.

Memory is bounded: by one batch (so many records, and `READ_BYTES`), by the waiting records (`most_pending`, after which
an epoch ends early), and by a ceiling on the process (`most_memory`), looked at after every round of a shard: above it
all epochs are ended and committed, and if that does not bring it down the worker stops, its state safe, for the
supervisor to start it again. Within a round, and while a large state is written, the process may hold more.

Time is only ever measured by the monotonic clock; a clock that is set back changes nothing.
"""

from __future__ import annotations

import signal
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

from queryveil.errors import DataError, UsageError
from queryveil.live.config import MEBIBYTE, Settings
from queryveil.live.connector import AwayError, FencedError, Members, OnStep, no_step, open_members
from queryveil.live.event_log import Journal
from queryveil.live.file_urls import OneMember
from queryveil.live.metrics import Meters
from queryveil.live.pipes import UNREAD, StdinSource
from queryveil.live.shard import Engine, Round

FIRST_PAUSE, LONGEST_PAUSE = 0.1, 30.0
BETWEEN_LOOKS = 1.0
PAGE = 4096


@dataclass
class Pause:
    """How long to leave a shard alone after trouble."""

    length: float = FIRST_PAUSE
    until: float = 0.0

    def begin(self) -> None:
        """From now on, twice as long as the last time."""
        self.until = time.monotonic() + self.length
        self.length = min(2 * self.length, LONGEST_PAUSE)


class Worker:
    """Runs a live stream until its input ends or it is told to stop."""

    def __init__(
        self, settings: Settings, journal: Journal, *, meters: Meters | None = None, on_step: OnStep = no_step
    ) -> None:
        self._settings, self._journal, self._on_step = settings, journal, on_step
        self.meters = meters or Meters()
        self._stopping = threading.Event()
        self._held: dict[int, Engine] = {}
        self._ended: set[int] = set()
        self._opened: set[int] = set()
        self._pauses: dict[int, Pause] = {}
        self._pipe: StdinSource | None = None
        self._all_suppressed: set[int] = set()
        self.unread: list[str] = []
        """What of the input was left unread at its end, in words."""

    def stop(self) -> None:
        """Finish the round and stop."""
        self._stopping.set()

    def stop_on_signals(self) -> None:
        """SIGTERM and SIGINT stop after the round, with everything committed."""

        def told(number: int, frame: FrameType | None) -> None:
            self.stop()

        signal.signal(signal.SIGTERM, told)
        signal.signal(signal.SIGINT, told)

    def run(self, *, idle_rounds: int | None = None) -> None:
        """Work until the input ends, a stop is asked for, or nothing came for so many rounds."""
        self._check_the_copy()
        members = self._members()
        next_look, idle = 0.0, 0
        wanted: frozenset[int] = frozenset()
        try:
            while not self._stopping.is_set():
                if time.monotonic() >= next_look:
                    wanted = self._look(members, wanted)
                    next_look = time.monotonic() + BETWEEN_LOOKS
                rounds = self._rounds(wanted)
                if wanted and wanted <= self._ended:
                    break
                idle = 0 if any(done.read for done in rounds) or not rounds else idle + 1
                if idle_rounds is not None and idle >= idle_rounds:
                    break
                if not rounds or all(done.waiting for done in rounds):
                    self._stopping.wait(FIRST_PAUSE)
            self._stop_all(wanted)
        finally:
            for shard in list(self._held):
                self._let_go(shard)
            members.close()

    def _check_the_copy(self) -> None:
        """A folder that is not there had better be told before the work than after it."""
        path = self._settings.checkpoint
        if path is not None and not path.parent.is_dir():
            raise UsageError(f"{path.name} cannot be written: the folder given for --checkpoint does not exist.")

    def _members(self) -> Members:
        settings = self._settings
        if settings.route or settings.shards == 1 or settings.shard is not None:
            return OneMember(frozenset({settings.shard or 0}))
        return open_members(settings.sink_end(0))

    def _look(self, members: Members, before: frozenset[int]) -> frozenset[int]:
        try:
            wanted = members.wanted()
        except AwayError:
            return before
        for shard in sorted((before | self._held.keys()) - wanted):
            if shard in self._held:
                self._journal.tell("shard handed over", shard=shard)
            self._let_go(shard)
            self._pauses.pop(shard, None)
            self.meters.forget(shard)
        return wanted

    def _rounds(self, wanted: frozenset[int]) -> list[Round]:
        for shard in sorted(wanted - self._held.keys() - self._ended):
            self._open(shard)
        done = []
        for shard, engine in list(self._held.items()):
            if self._stopping.is_set():
                break
            if self._held.get(shard) is not engine:  # let go for want of memory: what it holds may be behind
                continue
            try:
                done.append(engine.round(self._settings.wait / len(self._held)))
            except (AwayError, FencedError) as trouble:
                self._trouble(shard, trouble)
                continue
            self._pauses.pop(shard, None)
            self._told(shard, done[-1])
            self._enforce_the_ceiling()
        return done

    def _open(self, shard: int) -> None:
        if self._pauses.setdefault(shard, Pause()).until > time.monotonic():
            return
        engine = None
        try:
            settings = self._settings_for(shard)
            if settings.from_url == "-" and self._pipe is None:
                self._pipe = StdinSource(longest=settings.longest)
            engine = settings.engine(shard, source=self._pipe, on_step=self._on_step)
            engine.open()
        except AwayError as trouble:
            if engine is not None:
                engine.close()
            self._trouble(shard, trouble)
            return
        except BaseException:
            if engine is not None:
                engine.close()
            raise
        self._held[shard] = engine
        self._opened.add(shard)
        self._journal.tell("shard opened", shard=shard, generation=engine.header.generation)

    def _settings_for(self, shard: int) -> Settings:
        """A checkpoint to begin from is for the first opening; after that the shard's own commits count."""
        return replace(self._settings, from_checkpoint=None) if shard in self._opened else self._settings

    def _told(self, shard: int, done: Round) -> None:
        self.meters.add(shard, done)
        if done.outcome.overflowed:
            self._journal.tell("epoch ended early: too many records waited", shard=shard)
        taken = done.header.taken - done.header.dead - done.header.idle
        if done.read and 0 < taken == done.books.suppressed and shard not in self._all_suppressed:
            self._all_suppressed.add(shard)
            self._journal.tell(
                "every record so far was left out: is the category column, or the classifier, the right one?",
                shard=shard,
            )
        if done.unread is not None:
            self.unread.append(done.unread)
            self._journal.tell("left unread", shard=shard, reason=done.unread)
        if done.ended:
            self._ended.add(shard)

    def _trouble(self, shard: int, trouble: Exception) -> None:
        pause = self._pauses.setdefault(shard, Pause())
        self._journal.tell("waiting", shard=shard, reason=str(trouble), seconds=pause.length)
        self.meters.away(shard)
        self._let_go(shard)
        pause.begin()

    def _let_go(self, shard: int) -> None:
        engine = self._held.pop(shard, None)
        if engine is not None:
            engine.close()

    def _stop_all(self, wanted: frozenset[int]) -> None:
        """The end of the input is no stop: what waits then stays, whatever `on_stop` says.

        All shards are stopped before anything that went wrong with one of them is raised.
        """
        suppress = self._settings.on_stop == "suppress" and self._stopping.is_set()
        kept = set(wanted - self._held.keys()) if suppress else set()
        wrong: list[str] = []
        for shard, engine in list(self._held.items()):
            try:
                self._leave(shard, engine)
                engine.stop(suppress=suppress)
            except (AwayError, FencedError) as trouble:
                self._trouble(shard, trouble)
                kept |= {shard} if suppress else set()
                continue
            self.meters.add(shard, engine.report())
            wrong += self._saved(shard, engine)
            self._journal.tell("shard stopped", shard=shard, generation=engine.header.generation)
        for shard in sorted(kept):
            self._journal.tell("shard stopped without suppressing what waits", shard=shard)
        if kept:
            wrong.append(
                f"what waits in {len(kept)} of {len(wanted)} shards could not be suppressed, since something is away; "
                "it is kept in the state. Start again and stop when all is there."
            )
        if self._pipe is not None and self._pipe.left:
            wrong.append(
                UNREAD
                if any(text == UNREAD for text in self.unread)
                else "records that were read from stdin could not be committed, since something is away; they are lost."
            )
        if wrong:
            raise DataError(" ".join(wrong))

    def _leave(self, shard: int, engine: Engine) -> None:
        """Only a pipe has something to tell then, and at its end it has told it already."""
        done = engine.leave()
        if self._pipe is not None and shard not in self._ended:
            self._told(shard, done)

    def _saved(self, shard: int, engine: Engine) -> list[str]:
        """Save the copy of a broker's state that was asked for; what went wrong, in words."""
        path = self._settings.checkpoint_of(shard)
        if path is None or "://" not in self._settings.to_url:
            return []
        try:
            engine.save(path)
        except OSError as error:
            reason = (error.strerror or "failed").lower()
            return [f"{path.name} could not be written ({reason}); the state itself is safe with the broker."]
        return []

    def _enforce_the_ceiling(self) -> None:
        most = self._settings.most_memory
        if resident_mebibytes() <= most:
            return
        self._journal.tell("epochs ended early: memory above the ceiling", mebibytes=most)
        for shard, engine in list(self._held.items()):
            try:
                engine.stop(suppress=True)
            except (AwayError, FencedError) as trouble:
                self._trouble(shard, trouble)
        if resident_mebibytes() > most:
            self._stop_all(frozenset(self._held))
            raise DataError(
                f"the process holds more than {most} MiB, and ending the epochs did not help. Everything is committed: "
                "start it again, with a smaller --batch or a larger --most-memory."
            )


def resident_mebibytes() -> float:
    """What the process holds in memory now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * PAGE / MEBIBYTE

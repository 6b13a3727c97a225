"""A worker: holds the shards that are its share, goes round them, waits out what is away, stops when asked to.

Trouble has one answer: let the shard go and open it anew from its last commit, after a while that doubles up to half a
minute. A lost connection, a full disk, a shard that another worker took over: all the same. Only what waiting cannot
fix (a foreign checkpoint, a changed input) ends the worker.

Memory is bounded: by one batch (so many records, and `READ_BYTES`), by the waiting records (`most_pending`, after which
an epoch ends early), and by a ceiling on the process (`most_memory`), looked at after every round of a shard: above it
all epochs are ended and committed, and if that does not bring it down the worker stops, its state safe, for the
supervisor to start it again. Within a round, and while a large state is written, the process may hold more.

Time is only ever measured by the monotonic clock; a clock that is set back changes nothing.
"""

from __future__ import annotations

import logging
import signal
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path

from queryveil.errors import DataError, Remedy, UsageError, reason_of
from queryveil.live.config import MEBIBYTE, LiveSettings
from queryveil.live.connector import (
    AwayError,
    FencedError,
    FixedMembers,
    Members,
    OnStep,
    no_step,
    open_members,
)
from queryveil.live.event_log import log_event
from queryveil.live.files import STDOUT, UNREAD, StdinSource
from queryveil.live.metrics import Meters
from queryveil.live.shard import Round, ShardLoop

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
    """Runs a live stream until its input ends or it is asked to stop."""

    def __init__(self, settings: LiveSettings, *, on_step: OnStep = no_step) -> None:
        self._settings, self._on_step = settings, on_step
        self.meters = Meters()
        self._stopping = threading.Event()
        self._held: dict[int, ShardLoop] = {}
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
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *given: self.stop())

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
        """A folder that is not there had better be found before the work than after it."""
        path = self._settings.checkpoint
        if path is not None and not path.parent.is_dir():
            raise UsageError(f"{path.name} cannot be written: the folder given for checkpoint does not exist.")

    def _members(self) -> Members:
        settings = self._settings
        if settings.route or settings.shards == 1 or settings.shard is not None:
            return FixedMembers(frozenset({settings.shard or 0}))
        return open_members(settings.sink_end(0))

    def _look(self, members: Members, before: frozenset[int]) -> frozenset[int]:
        try:
            wanted = members.wanted()
        except AwayError:
            return before
        for shard in sorted((before | self._held.keys()) - wanted):
            if shard in self._held:
                log_event("shard_handed_over", shard=shard)
            self._let_go(shard)
            self._pauses.pop(shard, None)
            self.meters.forget(shard)
        return wanted

    def _rounds(self, wanted: frozenset[int]) -> list[Round]:
        for shard in sorted(wanted - self._held.keys() - self._ended):
            self._open(shard)
        done = []
        for shard, loop in list(self._held.items()):
            if self._stopping.is_set():
                break
            if self._held.get(shard) is not loop:  # let go for want of memory: what it holds may be behind
                continue
            try:
                done.append(loop.round(self._settings.wait / len(self._held)))
            except (AwayError, FencedError) as trouble:
                self._trouble(shard, trouble)
                continue
            self._pauses.pop(shard, None)
            self._report(shard, done[-1])
            self._enforce_the_ceiling()
        return done

    def _open(self, shard: int) -> None:
        if self._pauses.setdefault(shard, Pause()).until > time.monotonic():
            return
        loop = None
        try:
            settings = self._settings_for(shard)
            if settings.from_url == "-" and self._pipe is None:
                self._pipe = StdinSource(longest=settings.longest)
            loop = ShardLoop(settings, shard, source=self._pipe, on_step=self._on_step)
            loop.open()
        except BaseException as trouble:
            if loop is not None:
                loop.close()
            if not isinstance(trouble, AwayError | FencedError):
                raise
            self._trouble(shard, trouble)
            return
        self._held[shard] = loop
        self._opened.add(shard)
        log_event("shard_opened", shard=shard, generation=loop.header.generation)

    def _settings_for(self, shard: int) -> LiveSettings:
        """A checkpoint to begin from is for the first opening; after that the shard's own commits count."""
        return replace(self._settings, from_checkpoint=None) if shard in self._opened else self._settings

    def _report(self, shard: int, done: Round) -> None:
        self.meters.add(shard, done)
        if done.result.overflowed:
            log_event("epoch_ended_early", shard=shard, reason="too many records waited")
        taken = done.header.taken - done.header.dead - done.header.idle
        if done.read and 0 < taken == done.counts.suppressed and shard not in self._all_suppressed:
            self._all_suppressed.add(shard)
            advice = "check the category column, or the classifier"
            log_event("all_records_left_out", level=logging.WARNING, shard=shard, advice=advice)
        if done.unread is not None:
            self.unread.append(done.unread)
            log_event("input_left_unread", level=logging.WARNING, shard=shard, reason=done.unread)
        if done.ended:
            self._ended.add(shard)

    def _trouble(self, shard: int, trouble: Exception) -> None:
        pause = self._pauses.setdefault(shard, Pause())
        log_event("shard_waiting", level=logging.WARNING, shard=shard, reason=str(trouble), seconds=pause.length)
        self.meters.away(shard)
        self._let_go(shard)
        pause.begin()

    def _let_go(self, shard: int) -> None:
        loop = self._held.pop(shard, None)
        if loop is not None:
            loop.close()

    def _stop_all(self, wanted: frozenset[int]) -> None:
        """The end of the input is no stop: what waits then stays, whatever `on_stop` says.

        All shards are stopped before anything that went wrong with one of them is raised.
        """
        suppress = self._settings.on_stop == "suppress" and self._stopping.is_set()
        kept = set(wanted - self._held.keys()) if suppress else set()
        wrong: list[str] = []
        for shard, loop in list(self._held.items()):
            try:
                self._leave(shard, loop)
                loop.stop(suppress=suppress)
            except (AwayError, FencedError) as trouble:
                self._trouble(shard, trouble)
                kept |= {shard} if suppress else set()
                continue
            self.meters.add(shard, loop.report())
            wrong += self._save_copy(shard, loop)
            log_event("shard_stopped", shard=shard, generation=loop.header.generation)
        for shard in sorted(kept):
            log_event("waiting_records_not_suppressed", level=logging.WARNING, shard=shard)
        if kept:
            wrong.append(
                f"what waits in {len(kept)} of {len(wanted)} shards could not be suppressed, since something is away; "
                "it is kept in the state. Start again and stop when all is there."
            )
        if self._pipe is not None and self._pipe.left:
            lost = "records that were read from stdin could not be committed, since something is away; they are lost."
            wrong.append(UNREAD if UNREAD in self.unread else lost)
        if STDOUT.rest:
            wrong += self._write_the_rest()
        if wrong:
            raise DataError(" ".join(wrong))

    def _write_the_rest(self) -> list[str]:
        """One more try to write what is committed; what cannot be done."""
        try:
            STDOUT.write()
        except AwayError as trouble:
            STDOUT.rest = b""
            return [f"{trouble} The last outputs that were committed are lost."]
        return []

    def _leave(self, shard: int, loop: ShardLoop) -> None:
        """Only a pipe has something to report then, and at its end it has reported it already."""
        done = loop.leave()
        if self._pipe is not None and shard not in self._ended:
            self._report(shard, done)

    def _save_copy(self, shard: int, loop: ShardLoop) -> list[str]:
        """Save the copy of a broker's state that was asked for; what went wrong, in words."""
        path = self._settings.checkpoint_of(shard)
        if path is None or "://" not in self._settings.to_url:
            return []
        try:
            loop.save(path)
        except OSError as error:
            return [f"{path.name} could not be written ({reason_of(error)}); the state itself is safe with the broker."]
        return []

    def _enforce_the_ceiling(self) -> None:
        most = self._settings.most_memory
        if resident_mebibytes() <= most:
            return
        log_event("memory_ceiling_exceeded", level=logging.WARNING, mebibytes=most)
        for shard, loop in list(self._held.items()):
            try:
                loop.stop(suppress=True)
            except (AwayError, FencedError) as trouble:
                self._trouble(shard, trouble)
        if resident_mebibytes() > most:
            self._stop_all(frozenset(self._held))
            raise DataError(
                f"the process holds more than {most} MiB, and ending the epochs did not help. Everything is committed: "
                "start it again, with a smaller batch or more memory.",
                remedy=Remedy("most_memory", 2 * most),
            )


def resident_mebibytes() -> float:
    """What the process holds in memory now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * PAGE / MEBIBYTE

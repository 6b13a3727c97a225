"""The loop of one shard: read, take in, commit; after any trouble open anew from the last commit.

One round reads a batch, hands its records to the work and commits outputs, dead letters, state and positions in one
step (`connector.Sink.commit`). Nothing is kept between rounds that the committed state does not hold, so `open` after
a crash, after a lost connection and on another machine is the same code.

Why nobody ever sees two different draws of one record: outputs become visible with, or after, the state that made them,
never before. If a round is repeated, either nothing of it was seen, or its commit stands and it is not repeated. Where
a broker does show more to somebody (uncommitted messages), the round is repeated with the same records, read again from
the committed positions, and with the same random words: the words are a function of the run's kept key and of the count
of words used so far, which is in the state. The outcome does not depend on where batches are cut: an epoch ends at a
certain arrival, or, where a stop or the memory ceiling ends it, at a place that is committed first. So it is the same
outcome, byte by byte (`tests/run/test_live_kills.py` kills at every label and compares).

Memory: a round holds one batch of at most `batch` records, which ends at `READ_BYTES`; the mechanism holds what waits. Before more than `most_pending` records can wait the epoch ends early: what waits is suppressed, counted, told.
"""

from __future__ import annotations

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path

from queryveil.checks import real_number, require, whole_number
from queryveil.errors import RefusedError
from queryveil.run.live import checkpoint as cp
from queryveil.run.live.connector import Batch, DeadLetter, OnStep, Sink, Source, Step, no_step
from queryveil.run.live.file_checkpoint import state_in_file
from queryveil.run.live.records import Decoder
from queryveil.run.live.work import Books, Outcome, Work


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How much is held at once, and how long is waited for more."""

    batch: int = 20_000
    wait: float = 1.0
    most_pending: int = 5_000_000

    def __post_init__(self) -> None:
        require(
            whole_number("batch", self.batch, at_least=1, at_most=10**7, suggest=20_000),
            real_number("wait", self.wait, above=0, at_most=3600, suggest=1.0),
            whole_number("most_pending", self.most_pending, at_least=1, at_most=10**9, suggest=5_000_000),
        )


@dataclass(frozen=True)
class Round:
    """What one committed round did, for meters and logs: counts and what the mechanism tells of its pools."""

    header: cp.Header
    books: Books
    read: int
    outcome: Outcome
    ended: bool = False
    waiting: bool = False
    """Whether readers of the output are so far behind that nothing was read."""


class Engine:
    """One shard at work."""

    def __init__(
        self,
        *,
        run: str,
        work: Work,
        decoder: Decoder,
        source: Source,
        sink: Sink,
        limits: Limits,
        shard: int = 0,
        shards: int = 1,
        from_checkpoint: Path | None = None,
        on_step: OnStep = no_step,
    ) -> None:
        self._work, self._decoder, self._limits = work, decoder, limits
        self._source, self._sink = source, sink
        self._from_checkpoint = from_checkpoint
        self._on_step = on_step
        self._keys = cp.RunKeys(run, shard)
        self.header = cp.Header(run=run, shard=shard, shards=shards, source=source.name)

    def open(self) -> None:
        """Claim the shard and go on where the last commit stands; a new run commits its beginning first."""
        self._on_step("before restore")
        self._sink.claim()
        content = self._sink.load()
        if self._from_checkpoint is not None:
            content = self._chosen(content, state_in_file(self._from_checkpoint))
        self._on_step("during restore")
        if content is None and self._keys.begun:
            raise RefusedError(
                f"run {self.header.run} has begun, but its state is gone. Bring it back with --from-checkpoint, or "
                "begin a new run under a new --run name: the same records would be drawn for a second time."
            )
        snapshot = None
        if content is not None:
            found, snapshot = cp.unpack(content, self._keys.seal)
            cp.refuse_foreign(found, self.header)
            self.header = found
        self._work.begin(self._keys.noise(), snapshot)
        self._on_step("during restore")
        if content is None:
            self._commit(Outcome(), [])
        self._keys.mark_begun()
        self._source.seek(self.header.positions)

    def _chosen(self, committed: bytes | None, offered: bytes) -> bytes:
        """The checkpoint offered, unless what is committed is newer: its outputs are out already."""
        if committed is not None:
            own, other = (cp.unpack(content, self._keys.seal)[0].generation for content in (committed, offered))
            if own > other:
                raise RefusedError(
                    f"the checkpoint is number {other}, but number {own} is committed and its outputs are out. Leave "
                    "--from-checkpoint out to go on from there."
                )
        return offered

    def round(self, wait: float | None = None) -> Round:
        """Read, take in, commit. Without records nothing is committed."""
        if not self._sink.ready():
            return dataclasses.replace(self.report(), waiting=True)
        if self._work.ending:  # decided before a crash
            self._commit(self._work.finish(), [])
        self._on_step("before read")
        batch = self._source.read(self._limits.batch, self._limits.wait if wait is None else wait)
        self._on_step("after read")
        if not len(batch):
            return dataclasses.replace(self.report(), ended=batch.ended)
        outcome, dead, idle = self._taken(batch)
        self.header = dataclasses.replace(
            self.header,
            positions=batch.after,
            taken=self.header.taken + len(batch),
            dead=self.header.dead + len(dead),
            idle=self.header.idle + idle,
        )
        self._commit(outcome, dead)
        return Round(self.header, self._work.books(), len(batch), outcome, batch.ended)

    def _taken(self, batch: Batch) -> tuple[Outcome, list[DeadLetter], int]:
        decoded = self._decoder(batch.lines)
        outcome = self._work.take(decoded.frame)
        bad = decoded.bad | {decoded.numbers[row]: reason for row, reason in outcome.refused.items()}
        return outcome, [DeadLetter(batch.places[number], bad[number]) for number in sorted(bad)], decoded.idle

    def stop(self, *, suppress: bool) -> None:
        """What waits stays in the committed state; with `suppress` it is suppressed, and the mix is handed out.

        No arrival tells that the epoch ends here, so that it does is committed before anything that follows from it:
        whoever opens the shard after a crash in between ends the epoch at the same place.
        """
        if suppress:
            self._work.mark_end()
            self._commit(Outcome(), [])
            self._commit(self._work.finish(), [])

    def report(self) -> Round:
        """Where things stand now."""
        return Round(self.header, self._work.books(), 0, Outcome())

    def save(self, path: Path) -> None:
        """A copy of the state, for `--from-checkpoint`. As sensitive as the log."""
        content = cp.pack(self.header, self._work.snapshot(), self._keys.seal)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(content)

    def close(self) -> None:
        """Let go of both ends; what was not committed will be read again."""
        self._source.close()
        self._sink.close()

    def _commit(self, outcome: Outcome, dead: list[DeadLetter]) -> None:
        self.header = dataclasses.replace(self.header, generation=self.header.generation + 1)
        state = cp.pack(self.header, self._work.snapshot(), self._keys.seal)
        self._on_step("before commit")
        self._sink.commit(Step(outcome.lines, dead, state, self.header.positions, outcome.routes), self._source)
        self._on_step("after commit")

"""The loop of one shard: read, take in, commit; after any trouble open anew from the last commit.

One round reads a batch, hands its records to the stage and commits outputs, dead letters, state and positions in one
step (`connector.Sink.commit`). Nothing is kept between rounds that the committed state does not hold, so `open` after
a crash, after a lost connection and on another machine is the same code.

Why nobody ever sees two different draws of one record: outputs become visible with, or after, the state that made them,
never before. If a round is repeated, either nothing of it was seen, or its commit stands and it is not repeated. Where
a broker does show more to somebody (uncommitted messages), the round is repeated with the same records, read again from
the committed positions, and with the same random words: the words are a function of the run's kept key and of the count
of words used so far, which is in the state. The outcome does not depend on where batches are cut: an epoch ends at a
certain arrival, or, where a stop or the memory ceiling ends it, at a place that is committed first. So it is the same
outcome, byte by byte (`tests/live/test_kills.py` kills at every label and compares).

Memory: a round holds one batch of at most `batch` records, which ends at `READ_BYTES`; the mechanism holds what waits.
Before more than `most_pending` records can wait the epoch ends early: what waits is suppressed, counted, logged.
"""

from __future__ import annotations

import dataclasses
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from queryveil.errors import RefusedError
from queryveil.live import checkpoint as cp
from queryveil.live.config import LiveSettings
from queryveil.live.connector import (
    AwayError,
    Batch,
    DeadLetter,
    FencedError,
    OnStep,
    RecordSource,
    Step,
    no_step,
    open_sink,
    open_source,
)
from queryveil.live.file_sink import FileCheckpoint
from queryveil.live.file_source import FileSource
from queryveil.live.files import WHOLE, StdinSource
from queryveil.live.resumption import Ends, resume
from queryveil.live.stages import Counts, StageResult
from queryveil.privacy.keys import replace_private

CUT = "perhaps only the end of a line, whose beginning was read by a worker that died"
WAIT_FOR_ROOM = 10.0
"""Seconds that a worker which is asked to stop waits for readers that are behind."""
EMPTY_READS, SHORTEST_READ = 10, 1.0
"""After so many in a row, each of so many seconds or more, what is wanted of the input is taken for gone."""


@dataclass(frozen=True)
class Round:
    """What one committed round did, for meters and logs: counts and what the mechanism tells of its pools."""

    header: cp.Header
    counts: Counts
    read: int
    result: StageResult
    ended: bool = False
    waiting: bool = False
    """Whether readers of the output are so far behind that nothing was read."""
    unread: str | None = None
    """As the batch says."""


class ShardLoop:
    """One shard at work."""

    def __init__(
        self,
        settings: LiveSettings,
        shard: int = 0,
        *,
        source: RecordSource | None = None,
        on_step: OnStep = no_step,
    ) -> None:
        """Still to be opened; with a source of its own where none is given."""
        self._settings, self._on_step = settings, on_step
        self._source = source or open_source(settings.source_end(shard))
        is_csv = settings.input_format() == "csv"
        first_line = self._source.header() if is_csv and isinstance(self._source, FileSource) else None
        self._stage, self._decoder = settings.stage(shard), settings.decoder(first_line)
        end = settings.sink_end(shard, on_step)
        self._sink, self._from_checkpoint = open_sink(end), end.from_checkpoint
        self._batch = settings.batch or self._sink.batch
        self._keys: cp.RunKeys
        self._snapshot: bytes | None = None
        self._stop_first = False
        self._known_up_to = 0
        self._to_come_again = np.empty(0, np.uint64)
        """Fingerprints of the records up to there, as they were when it was decided to go back."""
        self.header = cp.Header(
            run=f"{settings.run}-router" if settings.route else settings.run,
            shard=shard,
            shards=settings.shards,
            source=self._source.name,
            settings=settings.deciding(first_line),
        )

    def open(self) -> None:
        """Claim the shard and go on where the last commit stands; a new run commits its beginning first."""
        self._keys = cp.RunKeys(self.header.run, self.header.shard, join=self._settings.join)
        self._on_step("before restore")
        self._sink.claim(self._keys.sealing_key)
        self._sink.load(self._accept)
        self._on_step("during restore")
        self._stage.begin(self._keys.noise(), self._snapshot)
        self._on_step("during restore")
        positions = self._source.seek(self.header.positions) or self.header.positions
        self.header = dataclasses.replace(self.header, positions=positions)
        if self._snapshot is None or self._from_checkpoint is not None:
            self._commit(StageResult(), [])
        elif self._stop_first:
            self.stop(suppress=True)
        self._snapshot = None

    def _accept(self, committed: bytes | None, offered: bytes | None) -> bool:
        """Check all there is to check before the sink touches anything, and remember it beside the key.

        Returns whether the state is an older one on purpose, so that what is out may be cut back to it.
        """
        if self._from_checkpoint is not None and offered is None:
            offered = FileCheckpoint(self._keys.sealing_key).state_in(self._from_checkpoint)
        own = None if committed is None else self._open_state(committed)
        other = None if offered is None else self._open_state(offered)
        known = self._keys.marker.read()
        mark = known or self._here()
        place = mark.place if self._settings.join else self._sink.place
        cp.refuse_elsewhere(mark, dataclasses.replace(self._here(), place=place))
        mark = dataclasses.replace(mark, place=self._sink.place)
        if own is not None and self._stage.draws and (known is None or known.generation < own[0].generation):
            self._refuse_a_forgetful_server()
        chosen = resume(mark, own and own[0], other and other[0], self._ends(), self._digest_again)
        if chosen.header is None:
            self._refuse_a_key_from_elsewhere()
        else:
            found = other if chosen.offered else own
            self.header, self._snapshot = chosen.header, found and found[1]
            self._known_up_to = chosen.mark.taken if chosen.back else 0
            self._stop_first = chosen.stop_first
        # All that was decided holds for the mark as it was read: a worker that took the shard over meanwhile wrote it.
        self._keys.marker.replace(known, chosen.mark)
        return chosen.back

    def _ends(self) -> Ends:
        return Ends(
            once="at most once" in (self._source.delivery, self._sink.delivery),
            draws=self._stage.draws,
            on_purpose=self._from_checkpoint is not None,
            takes_back=self._sink.takes_back,
            forgets=self._sink.may_forget,
        )

    def _here(self) -> cp.Mark:
        return cp.Mark(source=self.header.source, place=self._sink.place)

    def _open_state(self, content: bytes) -> tuple[cp.Header, bytes]:
        header, snapshot = cp.unpack(content, self._keys.seal)
        cp.refuse_foreign(header, self.header)
        return header, snapshot

    def _refuse_a_key_from_elsewhere(self) -> None:
        if not self._keys.made_here:
            raise RefusedError(
                f"there is no state of run {self.header.run}, shard {self.header.shard}, to go on with, and its key "
                "was made elsewhere. Begin the run with the key folder that made its key."
            )

    def _refuse_a_forgetful_server(self) -> None:
        """Others made the last commits: were the server set back, only their key folder could tell."""
        advice = self._sink.advice()
        if advice is not None:
            raise RefusedError(
                f"shard {self.header.shard} was last worked on with another key folder, and a crash of the server may "
                f"take its last commits back, which cannot be noticed here. {advice} Or leave the run to that folder."
            )

    def _digest_again(self, since: cp.Header, taken: int) -> str | None:
        """The digest of the input up to a number of records, read once more; None where it ends before."""
        source = open_source(self._settings.source_end(self.header.shard))
        digest, left, empty = since.digest, taken - since.taken, 0
        fingerprints = []
        try:
            source.seek(since.positions)
            while left:
                batch = source.read(min(left, self._batch), max(self._settings.wait, SHORTEST_READ))
                fingerprints.append(self._keys.input_digest.fingerprints(taken - left, batch.lines))
                digest, left = self._keys.input_digest.sum(digest, fingerprints[-1]), left - len(batch)
                empty = 0 if len(batch) else empty + 1
                if empty == EMPTY_READS or (batch.ended and left):
                    return None
        finally:
            source.close()
        self._to_come_again = np.concatenate([*fingerprints, np.empty(0, np.uint64)])
        return digest

    def round(self, wait: float | None = None) -> Round:
        """Read, take in, commit. Without records nothing is committed."""
        if not self._sink.ready():
            return dataclasses.replace(self.report(), waiting=True)
        if self._stage.ending:  # decided before a crash
            self._commit(self._stage.finish(), [])
        self._on_step("before read")
        batch = self._source.read(self._batch, self._settings.wait if wait is None else wait)
        self._on_step("after read")
        if not len(batch):
            return dataclasses.replace(self.report(), ended=batch.ended, unread=batch.unread)
        fingerprints = self._keys.input_digest.fingerprints(self.header.taken, batch.lines)
        self._compare(fingerprints)
        result, dead, idle = self._take(batch)
        self.header = dataclasses.replace(
            self.header,
            positions=batch.after,
            taken=self.header.taken + len(batch),
            dead=self.header.dead + len(dead),
            idle=self.header.idle + idle,
            digest=self._keys.input_digest.sum(self.header.digest, fingerprints),
        )
        self._commit(result, dead)
        return Round(self.header, self._stage.counts(), len(batch), result, batch.ended, unread=batch.unread)

    def _compare(self, fingerprints: NDArray[np.uint64]) -> None:
        """What comes again must be what was looked at when it was decided to go back: a server may lose it since."""
        start = len(self._to_come_again) - (self._known_up_to - self.header.taken)
        wanted = self._to_come_again[start : start + len(fingerprints)]
        if not np.array_equal(fingerprints[: len(wanted)], wanted):
            raise FencedError("the input is not what it was when the shard was opened: the server was set back.")

    def _take(self, batch: Batch) -> tuple[StageResult, list[DeadLetter], int]:
        if self._stage.takes_bytes and not batch.cut and (records := self._decoder.plain(batch.lines)) is not None:
            return self._stage.take_bytes(records), [], 0
        decoded = self._decoder(batch.lines)
        result = self._stage.take(decoded.frame)
        bad = decoded.bad | {decoded.numbers[row]: reason for row, reason in result.refused.items()}
        if batch.cut:
            bad[0] = CUT
        return result, [DeadLetter(batch.place(number), bad[number]) for number in sorted(bad)], decoded.idle

    def leave(self) -> Round:
        """For good: what was read from a pipe is taken in, since nobody could read it again; other inputs stay as read.

        That the pipe was left between two lines is committed too, so that the next worker trusts its first line.
        """
        source, done = self._source, self.report()
        if not isinstance(source, StdinSource):
            return done
        source.stop()
        self._batch = max(self._batch, self._sink.batch)
        deadline = time.monotonic() + WAIT_FOR_ROOM
        while not done.ended and time.monotonic() < deadline:
            done = self.round(0.0)
            if done.waiting:
                time.sleep(0.1)
            else:
                deadline = time.monotonic() + WAIT_FOR_ROOM
        if not source.left:
            self.header = dataclasses.replace(self.header, positions=self.header.positions | {WHOLE: 1})
            self._commit(StageResult(), [])
        return dataclasses.replace(done, header=self.header)

    def stop(self, *, suppress: bool) -> None:
        """What waits stays in the committed state; with `suppress` it is suppressed, also what is in the mix.

        No arrival tells that the epoch ends here, so that it does is committed before anything that follows from it:
        whoever opens the shard after a crash in between ends the epoch at the same place.
        """
        if suppress:
            if self.header.taken < self._known_up_to:
                raise AwayError("records that were taken in before are not yet taken in again, which must come first.")
            self.header = dataclasses.replace(self.header, forced=self.header.forced + 1)
            self._stage.mark_end()
            self._commit(StageResult(), [])
            self._commit(self._stage.finish(), [])

    def report(self) -> Round:
        """Where things stand now."""
        return Round(self.header, self._stage.counts(), 0, StageResult())

    def save(self, path: Path) -> None:
        """A copy of the state, to begin `from_checkpoint` with. As sensitive as the log."""
        replace_private(path, cp.pack(self.header, self._stage.snapshot(), self._keys.seal))

    def close(self) -> None:
        """Let go of both ends; what was not committed will be read again."""
        self._source.close()
        self._sink.close()

    def _commit(self, result: StageResult, dead: list[DeadLetter]) -> None:
        self.header = dataclasses.replace(self.header, generation=self.header.generation + 1)
        state = cp.pack(self.header, self._stage.snapshot(), self._keys.seal)
        self._on_step("before commit")
        self._keys.marker.note(self.header, made=False, alone=self._sink.may_forget)
        self._sink.commit(Step(result.lines, dead, state, self.header.positions, result.routes), self._source)
        self._keys.marker.note(self.header, made=True)
        self._on_step("after commit")

"""What a live stream does with records: mix them (`Mixing`), or send each to the shard of its category (`Routing`).

The shard's loop knows neither. It hands over a frame of records and gets lines back; it asks for a snapshot, and
gives it back after a crash.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

import msgspec
import polars as pl

from queryveil.errors import RefusedError, UsageError
from queryveil.live.connector import shard_of
from queryveil.log import QueryLog
from queryveil.log.spans import Spans
from queryveil.mechanisms.stream import Stream
from queryveil.mechanisms.stream.emissions import Departures
from queryveil.mechanisms.stream.lines import LineFormat, LineStream, ReleasedLines
from queryveil.mechanisms.stream.live import CATEGORY
from queryveil.mechanisms.stream.records import StreamRecords
from queryveil.privacy import Noise


@dataclass(frozen=True)
class StageResult:
    """Lines that may leave, where each goes, and which rows were refused and why."""

    lines: Sequence[bytes] = field(default_factory=list)
    routes: list[int] | None = None
    refused: dict[int, str] = field(default_factory=dict)
    emissions: Sequence[Departures] = ()
    overflowed: bool = False
    """Whether an epoch ended early, because too many records waited."""


@dataclass(frozen=True)
class Counts:
    """How many records are where. `withheld` are among the pending: their text is still too rare."""

    released: int = 0
    pending: int = 0
    withheld: int = 0
    suppressed: int = 0


class Stage(Protocol):
    """What the loop needs of it; a base class for both. One without epochs need not speak of their ends."""

    draws: bool = False
    """Whether it uses random words, which other records must never meet again."""

    @property
    def ending(self) -> bool:
        """Whether the end of the epoch was decided and is still to be carried out."""
        return False

    def begin(self, noise: Noise, snapshot: bytes | None) -> None:
        """Start afresh, or where a snapshot was taken."""

    def take(self, frame: pl.DataFrame) -> StageResult:
        """Records in, lines out."""

    @property
    def takes_bytes(self) -> bool:
        """Whether records that bring their category may come as bytes, which is faster."""
        return False

    def take_bytes(self, records: StreamRecords) -> StageResult:
        """As `take`, where `takes_bytes`."""
        raise TypeError("this stage takes rows, not bytes")

    def mark_end(self) -> None:
        """Decide to end the epoch here; snapshots hold that from now on."""
        return

    def finish(self) -> StageResult:
        """End the epoch: what waits is suppressed, also in the mix."""
        return StageResult()

    def snapshot(self) -> bytes:
        """All there is to know, but for the key."""

    def counts(self) -> Counts:
        """How many records are where."""


class Mixing(Stage):
    """The stream mechanism on one shard."""

    draws = True

    def __init__(
        self,
        mechanism: Stream,
        written: LineFormat,
        *,
        most_pending: int | None = None,
        shard: int = 0,
        shards: int = 1,
    ) -> None:
        if mechanism.mode != "safe":
            raise RefusedError("a live stream publishes as it goes, which only mode=safe may do.")
        self._mechanism, self._written = mechanism, written
        self._shard, self._shards = shard, shards
        if most_pending is not None and most_pending < mechanism.mix:
            raise UsageError(f"most_pending must be at least mix, which is {mechanism.mix:,}: given {most_pending:,}.")
        if mechanism.epoch < mechanism.mix:
            raise UsageError(
                f"epoch must be at least mix, which is {mechanism.mix:,}: given {mechanism.epoch:,}. Else every epoch "
                "ends before anything could come out."
            )
        self._settings = replace(mechanism.settings(), most_pending=most_pending)
        self._live: LineStream

    def begin(self, noise: Noise, snapshot: bytes | None) -> None:
        """A live stream with this shard's noise."""
        self._live = LineStream(self._settings, noise, self._written)
        if snapshot is not None:
            self._live.restore(snapshot)

    def take(self, frame: pl.DataFrame) -> StageResult:
        """Push the records of this shard; refuse those that belong to another."""
        log = QueryLog(frame)
        frame = log.frame.select("user", "query", "time").with_columns(self._mechanism.categories(log).alias(CATEGORY))
        refused: dict[int, str] = {}
        if self._shards > 1:
            shards = _shards_of(frame[CATEGORY], self._mechanism.category_separator, self._shards)
            at_home = shards.is_null() | (shards == self._shard)
            if not at_home.all():
                reasons = zip((~at_home).arg_true().to_list(), shards.filter(~at_home).to_list(), strict=True)
                refused = {row: f"its category belongs to shard {shard}, not {self._shard}" for row, shard in reasons}
                frame = frame.filter(at_home)
        return replace(self.take_bytes(StreamRecords.of(frame)), refused=refused)

    @property
    def takes_bytes(self) -> bool:
        """Where nobody has to be asked for a category, and all are this shard's."""
        return self._mechanism.category_column is not None and self._shards == 1

    def take_bytes(self, records: StreamRecords) -> StageResult:
        """Push the records."""
        before = self._live.early_ends
        result = _published(self._live.push(records))
        return replace(result, overflowed=self._live.early_ends > before)

    @property
    def ending(self) -> bool:
        """As the live stream says."""
        return self._live.ending

    def mark_end(self) -> None:
        """Kept in the snapshot."""
        self._live.mark_end()

    def finish(self) -> StageResult:
        """End the epoch."""
        return _published(self._live.finish())

    def snapshot(self) -> bytes:
        """The live stream's."""
        return self._live.snapshot()

    def counts(self) -> Counts:
        """The live stream's."""
        live = self._live
        return Counts(live.released, live.pending, live.withheld, live.suppressed)


class Routing(Stage):
    """Sends each record, with its category, to the shard that holds its top-level category. Draws nothing."""

    def __init__(self, mechanism: Stream, shards: int) -> None:
        self._mechanism, self._shards = mechanism, shards
        self._sent = self._left_out = 0
        self._encode = msgspec.json.Encoder().encode

    def begin(self, noise: Noise, snapshot: bytes | None) -> None:
        """Only counts are kept."""
        self._sent, self._left_out = msgspec.json.decode(snapshot, type=tuple[int, int]) if snapshot else (0, 0)

    def take(self, frame: pl.DataFrame) -> StageResult:
        """Records without a category are left out here, as the mechanism would."""
        log = QueryLog(frame)
        named = log.frame.select("user", "query", pl.col("time").dt.to_string("iso:strict")).with_columns(
            self._mechanism.categories(log).alias(CATEGORY)
        )
        kept = named.filter(pl.col(CATEGORY).fill_null("") != "")
        shards = _shards_of(kept[CATEGORY], self._mechanism.category_separator, self._shards)
        self._sent += kept.height
        self._left_out += named.height - kept.height
        return StageResult([self._encode(row) for row in kept.iter_rows(named=True)], shards.to_list())

    def snapshot(self) -> bytes:
        """The counts."""
        return self._encode((self._sent, self._left_out))

    def counts(self) -> Counts:
        """Everything was sent on or left out."""
        return Counts(released=self._sent, suppressed=self._left_out)


def _published(parts: list[ReleasedLines]) -> StageResult:
    return StageResult(Spans.concat([part.lines for part in parts if len(part)]), emissions=parts)


def _shards_of(categories: pl.Series, separator: str, shards: int) -> pl.Series:
    distinct = categories.drop_nulls().unique()
    numbers = pl.Series([shard_of(category, separator, shards) for category in distinct], dtype=pl.Int64)
    return categories.replace_strict(distinct, numbers, default=None, return_dtype=pl.Int64)

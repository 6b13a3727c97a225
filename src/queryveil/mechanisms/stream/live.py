"""The stream mechanism at work on columns: batches in, batches out, a snapshot at any moment.

`RunningStream` (`running.py`) says how it goes on; here records are rows of frames, in and out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import polars as pl

from queryveil.arrays import Ints, Longs, Words
from queryveil.log import QueryLog
from queryveil.log.identifying import is_identifying
from queryveil.log.spans import NO_TIME, Spans
from queryveil.mechanisms.stream._held_rows import HeldRows
from queryveil.mechanisms.stream._names import fingerprints, pseudonyms
from queryveil.mechanisms.stream.emissions import Departures, Emissions
from queryveil.mechanisms.stream.running import RunningStream, StreamSettings, TakenIn
from queryveil.privacy import Noise
from queryveil.release.mechanism import coarsened

CATEGORY = "category"
TAKEN_IN_SAFE_MODE = ("user", "query", "time")
TAKEN_IN_PAPER_MODE = ("user", "query", "time", "rank", "url")


class LiveStream(RunningStream[pl.DataFrame, Emissions]):
    """A stream of rows. `categorise` says which category path each has."""

    _held: HeldRows

    def __init__(
        self,
        settings: StreamSettings,
        noise: Noise,
        categorise: Callable[[QueryLog], pl.Series],
        *,
        for_science: bool = False,
        all_at_once: bool = False,
    ) -> None:
        self._categorise = categorise
        super().__init__(settings, noise, for_science=for_science, all_at_once=all_at_once)

    # Batches

    def push(self, batch: QueryLog) -> QueryLog:
        """Take a batch in and hand out what may leave now, with its released `category`.

        In safe mode that is every window of arrivals that is over, shuffled; else what came out, in that order.
        """
        return self.published(self._parts(batch))

    def push_with_owners(self, batch: QueryLog) -> list[Emissions]:
        """As `push`, for the holder's own eyes: who really asked, in parts of a bounded size."""
        return list(self._parts(batch))

    def finish(self) -> QueryLog:
        """End the epoch: what waits is suppressed, never flushed; `all_at_once` what is in the mix comes out."""
        self._check_publishable()
        return self.published(self.finish_with_owners())

    def names_of(self, people: Words, users: pl.Series) -> pl.Series:
        """Who of the given users the fingerprints in emissions stand for; for the holder's own eyes."""
        marks = fingerprints(users, self._user_key)
        order = np.argsort(marks)
        return users.gather(order[np.searchsorted(marks[order], people)])

    def published(self, parts: Iterable[Emissions]) -> QueryLog:
        """What of emissions may be published: pseudonyms, texts, cut times and cut categories."""
        self._check_publishable()
        came_out = [self._public(part) for part in parts if len(part)]
        nothing = pl.DataFrame(schema=dict.fromkeys(("user", "query", CATEGORY), pl.String))
        return QueryLog(pl.concat(came_out) if came_out else nothing)

    def _parts(self, batch: QueryLog) -> Iterator[Emissions]:
        taken = TAKEN_IN_SAFE_MODE if self.settings.safe else TAKEN_IN_PAPER_MODE
        usable = pl.col(CATEGORY).is_not_null() & (pl.col(CATEGORY) != "")
        if self.settings.safe:
            usable &= ~is_identifying("query")
        kept = batch.frame.select(*taken, self._categorise(batch).alias(CATEGORY))
        chosen = kept.select(usable).to_series()
        if not chosen.all(ignore_nulls=False):
            kept = kept.filter(chosen)
        self.suppressed += len(batch) - kept.height
        yield from self._in_slices(kept)

    def _hold_rows(self, rows: pl.DataFrame | None, arrivals: Longs) -> HeldRows:
        return HeldRows() if rows is None else HeldRows.of(rows, arrivals)

    def _hold(self, kept: pl.DataFrame) -> TakenIn:
        handles = self._held.add(kept.drop("time") if self.settings.safe else kept, self.arrived)
        texts = Spans.of(kept["query"]) if self.settings.safe else Spans.nothing()
        return TakenIn(Spans.of(kept["user"]), Spans.of(kept[CATEGORY]), texts, handles)

    def _cut_times(self, kept: pl.DataFrame, triggers: Ints) -> Longs:
        cut = kept.select("time")[triggers].with_columns(coarsened(self.settings.time))["time"]
        times: Longs = cut.to_physical().fill_null(NO_TIME).to_numpy()
        return times

    def _made(self, left: Departures) -> Emissions:
        rows = self._held.take(left.handles)
        if self.settings.safe and rows.height:
            moment = pl.when(pl.col("time") != NO_TIME).then("time").cast(pl.Datetime("us"))
            rows = rows.with_columns(pl.DataFrame({"time": left.times}).select(moment).to_series().alias("time"))
        buckets = None
        if self.settings.pseudonym == "session" and rows.height:
            cut = rows.select(coarsened(self.settings.time).to_physical().fill_null(-1)).to_series()
            buckets = cut.to_numpy()
        return Emissions.of(left, rows, pseudonyms(self._name_numbers(left, buckets)))

    def _public(self, emissions: Emissions) -> pl.DataFrame:
        return emissions.rows.with_columns(
            emissions.pseudonyms,
            self._categories.cut(emissions.rows[CATEGORY], np.ascontiguousarray(emissions.depths)),
            coarsened(self.settings.time),
        )

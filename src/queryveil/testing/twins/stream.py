"""Wrong variants of stream."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import polars as pl

from queryveil.log import QueryLog
from queryveil.mechanisms.stream import Stream
from queryveil.mechanisms.stream._tree import Rules
from queryveil.mechanisms.stream.running import StreamSettings
from queryveil.privacy import Noise
from queryveil.release.release import Release
from queryveil.testing.twins.pretending import claiming


@dataclass(frozen=True, kw_only=True)
class StreamWithSmallPools(Stream):
    """Pools of three where more than k are promised."""

    def settings(self) -> StreamSettings:
        return dataclasses.replace(super().settings(), rules=Rules.safe(2, self.cap))


@dataclass(frozen=True, kw_only=True)
class StreamWithoutAGate(Stream):
    """Lets every text out, however few asked it."""

    def settings(self) -> StreamSettings:
        return dataclasses.replace(super().settings(), k_text=1)


@dataclass(frozen=True, kw_only=True)
class StreamUnderOwnNames(Stream):
    """Every record comes out under its owner's pseudonym."""

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        shown = super().protect(log, noise)
        people = shown.people().collect()
        names = pl.format("u{}", pl.lit(people["user"].rank("dense")))
        behind = people.with_columns(pseudonym=names, receiver="user").lazy()
        return claiming(self, shown, log=QueryLog(shown.log.frame.with_columns(user=names)), behind=behind)


@dataclass(frozen=True, kw_only=True)
class StreamAsPrinted(Stream):
    """The paper's draws passed off as safe ones: a text that comes back never meets its owner."""

    def settings(self) -> StreamSettings:
        return dataclasses.replace(super().settings(), rules=Rules.paper(self.k), k_text=1)


@dataclass(frozen=True, kw_only=True)
class StreamInOrderOfArrival(Stream):
    """Records leave their pools in the order in which they came."""

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        shown = super().protect(log, noise)
        people = shown.people().collect()
        came = log.frame.with_row_index("came").group_by("user", "query").agg(pl.col("came").min())
        asked = pl.DataFrame([people["user"], shown.log.frame["query"]])
        order = asked.join(came, on=["user", "query"], how="left", maintain_order="left")["came"].arg_sort()
        return claiming(self, shown, log=QueryLog(shown.log.frame[order]), behind=people[order].lazy())

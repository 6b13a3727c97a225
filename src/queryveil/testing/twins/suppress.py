"""Wrong variants of suppress."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import polars as pl

from queryveil.log import QueryLog
from queryveil.mechanisms.suppress import Suppress
from queryveil.privacy import Noise
from queryveil.release.mechanism import PSEUDONYM, time_in_words
from queryveil.release.release import Release
from queryveil.testing.twins.pretending import claiming, only


@dataclass(frozen=True, kw_only=True)
class SuppressOffByOne(Suppress):
    """One user too few is enough."""

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        return claiming(self, Suppress(k_text=self.k_text - 1, time=self.time).protect(log, noise))


@dataclass(frozen=True, kw_only=True)
class SuppressCountingRecords(Suppress):
    """Counts how often a text was asked, not by how many."""

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        frame = log.frame.filter(pl.len().over("query") >= self.k_text).select("user", "query")
        return Release.of(
            self, QueryLog(frame), noise=noise, columns={"user": PSEUDONYM, "query": "kept"},
            pseudonyms=noise.pseudonyms(frame["user"]),
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class SuppressAsPrinted(Suppress):
    """Paper mode passed off as safe: identifiers and rare clicks go through."""

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        return claiming(self, Suppress(k_text=self.k_text, time=self.time, mode="paper").protect(log, noise))


@dataclass(frozen=True, kw_only=True)
class SuppressKeepingClicks(Suppress):
    """Withholds rare texts, but not rare results clicked for a shared text."""

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        shown = Suppress(k_text=self.k_text, time=self.time, mode="paper").protect(log, noise)
        named = pl.col("query").str.contains(r"[@\d]")
        keep = shown.log.frame.select(~named).to_series()
        return claiming(self, shown, **only(shown, keep))


@dataclass(frozen=True, kw_only=True)
class SuppressWithTimes(Suppress):
    """Says that times are cut to the day and leaves them in."""

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        plain = log.frame.filter(~pl.col("query").str.contains(r"[@\d]")).with_columns(pl.lit(None).alias("url"))
        shown = Suppress(k_text=self.k_text, time="keep", mode="paper").protect(QueryLog(plain), noise)
        return claiming(self, shown, columns={**shown.columns, "time": time_in_words(self.time)})


@dataclass(frozen=True, kw_only=True)
class SuppressWithTellingRanks(Suppress):
    """The rank of a click is a number of the person who clicked."""

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        shown = super().protect(log, noise)
        person = shown.people().collect()["user"].rank("dense").cast(pl.UInt32).alias("rank")
        return claiming(self, shown, log=QueryLog(shown.log.frame.with_columns(person)))


@dataclass(frozen=True, kw_only=True)
class SuppressWithHashedNames(Suppress):
    """A pseudonym is the SHA-256 of the user, cut to sixteen digits."""

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        shown = super().protect(log, noise)
        people = shown.people().collect()
        hashed = {user: hashlib.sha256(user.encode()).hexdigest()[:16] for user in people["user"].unique()}
        names = people["user"].replace_strict(hashed, return_dtype=pl.String)
        behind = people.with_columns(pseudonym=names).lazy()
        return claiming(self, shown, log=QueryLog(shown.log.frame.with_columns(user=names)), behind=behind)

"""What a policy is: a mechanism that promises nothing, put together from named steps.

It keeps to the protocol of mechanisms, so that releases, audits and comparisons treat it as they treat those; its mode
is `rule`, which is neither safe nor a publication's. Its words say which of its numbers are assumed: those that the
public descriptions do not tell.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl

from queryveil.checks import one_of
from queryveil.experiments.policies.detectors import SETS, Detector, check_languages, load
from queryveil.experiments.policies.steps import MINI_SESSION, Step
from queryveil.log.query_log import COLUMNS, METADATA, QueryLog
from queryveil.log.shown import SHOWN
from queryveil.privacy import Charge, Guarantee, NoGuarantee, Noise
from queryveil.privacy.guarantee import COMPARED_RELEASES, KNOWN_PAST, ONE_ID_ONE_PERSON, TRUSTED_HOLDER
from queryveil.privacy.noise import fresh_names
from queryveil.release.mechanism import DROPPED, PSEUDONYM, Mode
from queryveil.release.release import Release

ASSUMED: Mapping[str, Any] = {"assumed": True}
NAMED = {
    "person": PSEUDONYM,
    MINI_SESSION: "replaced by a fresh random name for each mini-session",
    "record": "a number of its own for each record",
}


@dataclass(frozen=True, kw_only=True)
class Policy(ABC):
    """A rule that somebody proposes, orders or follows."""

    name: ClassVar[str]
    title: ClassVar[str]
    summary: ClassVar[str]
    origin: ClassVar[str] = "a rule of your own"
    """Whose rule it is, and where it is written."""
    mode: ClassVar[Mode] = "rule"
    effort: ClassVar[float] = 1.0
    reads_columns: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def in_words(self) -> str:
        """The rule in one sentence, with what is assumed."""

    def value(self, name: str) -> str:
        """A parameter in words: with "assumed" where it is a default that nobody has published.

        >>> from queryveil.experiments.policies.commission import Commission
        >>> Commission().value("words_per_query"), Commission(words_per_query=4).value("words_per_query")
        ('5 (assumed)', '4')
        """
        field = next(field for field in dataclasses.fields(self) if field.name == name)
        given = getattr(self, name)
        return f"{given:,} (assumed)" if field.metadata.get("assumed") and given == field.default else f"{given:,}"

    def guarantee(self) -> Guarantee:
        """Nothing: it is a rule."""
        return NoGuarantee(
            reason=f"a rule, no guarantee. Published are {self.in_words()}",
            assumptions=(ONE_ID_ONE_PERSON, TRUSTED_HOLDER),
            not_protected=(KNOWN_PAST, *COMPARED_RELEASES),
        )

    def charge(self) -> Charge:
        """No loss that adds up."""
        return Charge.nothing()

    @abstractmethod
    def protect(self, log: QueryLog, noise: Noise) -> Release:
        """What it publishes of a log."""


@dataclass(frozen=True, kw_only=True)
class Pipeline(Policy):
    """A policy that is steps over records, one after the other."""

    named: ClassVar[Literal["person", "mini-session", "record"]] = "record"
    """What has a name of its own in the release; where each record has one, nobody is behind any."""

    @abstractmethod
    def steps(self) -> dict[str, Step]:
        """What is done to the records, one after the other."""

    @abstractmethod
    def columns(self) -> dict[str, str]:
        """What becomes of the columns beside `user`; one that is not here is dropped."""

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        """Take the steps, and give names."""
        rows = self.applied(log)
        if self.named == "record":
            rows = rows.sort([name for name in self.columns() if name in rows.columns])  # an order that tells nothing
            rows = rows.with_columns(user="record " + pl.int_range(pl.len()).cast(pl.String))
            return Release.of(self, QueryLog(rows), noise=noise, columns=self._columns(rows), keep_order=True)
        names, order = self._named(rows, noise)
        owners = rows["user"].gather(order)
        made = QueryLog(rows.drop(MINI_SESSION, strict=False)[order].with_columns(user=names))
        return Release.of(
            self, made, noise=noise, columns=self._columns(rows), owners=owners, receivers=owners, keep_order=True
        )

    def _named(self, rows: pl.DataFrame, noise: Noise) -> tuple[pl.Series, pl.Series]:
        """A fresh name for each record, and the places of the records in the order of names and times.

        Records that tie stand in random order, so that the order tells nothing.
        """
        key = "user" if self.named == "person" else MINI_SESSION
        number = rows.select(pl.col(key).rank("dense"))[key].to_numpy()
        names = fresh_names(int(number.max(initial=0)), noise.stream("pseudonyms")).sort()
        # Names are drawn at random, so which person gets the first of them has to be drawn as well.
        place = noise.stream("pseudonyms of people").permutation(len(names)).astype(np.uint32)[number - 1]
        lot = noise.stream("release order").words(rows.height)
        sorted_by = pl.DataFrame([pl.Series("name", place), rows["time"], pl.Series("lot", lot)])
        order = sorted_by.select(pl.arg_sort_by("name", "time", "lot"))["name"]
        return names.gather(pl.Series(place).gather(order)).alias("user"), order

    def applied(self, log: QueryLog) -> pl.DataFrame:
        """The records that are left after all steps, still under their true users."""
        optional = (*METADATA, SHOWN)
        told = [name for name in optional if name in log.frame.columns and log.frame[name].null_count() < len(log)]
        # Who, when and where as numbers: a copy of tens of millions of records is then half as large.
        coded = ["user", "session", *(name for name in told if name != SHOWN)]
        rows = log.frame.select(*COLUMNS, *told).with_columns(pl.col(coded).cast(pl.Categorical))
        for step in self.steps().values():
            rows = step(rows)
        return rows.with_columns(pl.col(coded).cast(pl.String))

    def _columns(self, rows: pl.DataFrame) -> dict[str, str]:
        kept = {name: done for name, done in self.columns().items() if name in rows.columns and done != DROPPED}
        return {"user": NAMED[self.named], **kept}


@dataclass(frozen=True, kw_only=True)
class FilteringPipeline(Pipeline):
    """One that looks for identifiers in texts."""

    detectors: Literal["patterns", "libraries"] = field(
        default="patterns", metadata={"help": "what finds identifiers: patterns, or libraries as well (an extra)"}
    )
    languages: str = field(
        default="en", metadata={"help": "the languages of addresses and telephone numbers: en,de,fr"}
    )

    def filter_problems(self) -> tuple[str | None, ...]:
        """What is wrong with how identifiers are looked for, for `require`."""
        return (
            one_of("detectors", self.detectors, SETS, suggest="patterns"),
            check_languages("languages", self.languages),
        )

    def filters(self) -> tuple[Detector, ...]:
        """The detectors."""
        return load(self.detectors, self.languages)

"""Acquaintances: who is singled out in a release by a few records that somebody knows of them.

After de Montjoye et al. (2013), "Unique in the Crowd". The attacker knows m distinct records of a person that were
released: their texts alone, or with everything else that is published about them, in the
granularity in which it is published (`known_items`). They look in the release for pseudonyms that hold them all. A
person is *singled out* where exactly one pseudonym is left, and *found* where that pseudonym is really theirs, which
only the holder can tell. Where a mechanism replaces texts, what is known are texts of the raw log, drawn from all of a
person's; those that the release does not hold tell nothing, and a clever attacker goes by the others.

People are drawn at random from those who have m distinct records in the release, each with one draw of what is known,
so intervals are exact (Clopper and Pearson). Where nobody is known behind the records, pseudonyms stand for people. The
raw log beside it: the same people, by as many records of theirs there.

Cost: a few sorts of both logs; then for each person the holders of the rarest known item, until two are found.

>>> raw = QueryLog.of([("ann", "weather"), ("bob", "weather"), ("ann", "tulips"), ("bob", "chess")])
>>> released = QueryLog.of([("u1", "weather"), ("u2", "weather"), ("u1", "tulips")])
>>> found = Acquaintances(raw, released, owners=pl.Series(["ann", "bob", "ann"])).attack(2, Noise.seeded(1))
>>> found.raw, found.singled_out  # ann by weather and tulips; of bob only one query was released
(Success(right=1, tried=1), Success(right=1, tried=1))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import polars as pl

from queryveil.audit.attacks.known_items import (
    LOTS,
    Crowd,
    Longs,
    Memory,
    column_numbers,
    in_words,
    joint,
    published_columns,
    unit_of_time,
)
from queryveil.audit.attacks.normal_form import normal_form
from queryveil.audit.context import AuditContext
from queryveil.audit.finding import (
    Found,
    LeftOut,
    Question,
    Success,
    risk,
)
from queryveil.checks import require, whole_number
from queryveil.log import QueryLog
from queryveil.privacy import Noise

PEOPLE = 5000
MOST_KNOWN = 100
KNOWN = (1, 2, 3, 4, 5)


@dataclass(frozen=True)
class Acquaintance:
    """What m known records give: people with one candidate left, and those of whom it was the right one."""

    raw: Success
    """The same people by as many of their records in the raw log."""
    singled_out: Success
    found: Success | None


@dataclass(frozen=True)
class Lookup:
    """Who holds what in both logs, and what is known of whom."""

    crowd: Crowd
    memory: Memory
    raw_crowd: Crowd
    raw_memory: Memory
    records: Longs
    """How many distinct records each person has of which something could be known."""


class Acquaintances:
    """The attack, ready for any number of known records.

    `owners` tells who asked each released record and `receivers` whose name it carries, the owner where it is not
    given; `replaced` tells that released texts are not those that were asked.
    """

    def __init__(
        self,
        original: QueryLog,
        released: QueryLog,
        *,
        owners: pl.Series | None = None,
        receivers: pl.Series | None = None,
        replaced: bool = False,
    ) -> None:
        self._original, self._released, self._replaced = original.frame, released.frame, replaced
        asked, shown = original.frame["query"], released.frame["query"]
        distinct = pl.concat([asked, shown]).unique().sort()
        forms = distinct.to_frame("query").select(normal_form("query").rank("dense")).to_series().to_numpy() - 1
        self._form_of_text: Longs = forms.astype(np.int64)
        self._asked, self._shown = _places(asked, distinct), _places(shown, distinct)
        self.names = released.users()
        self._holders = _places(released.frame["user"], self.names)
        everybody = original.users()
        self._owners = self._holders
        self._behind: Longs | None = None
        self._owners_known = owners is not None and owners.null_count() < len(owners)
        if owners is not None and self._owners_known:
            receivers = owners if receivers is None else receivers
            everybody = pl.concat([everybody, owners.drop_nulls(), receivers.drop_nulls()]).unique().sort()
            self._owners, behind = _places(owners, everybody), _places(receivers, everybody)
            self._behind = np.full(len(self.names), -2)  # of whom the holder does not know
            self._behind[self._holders[behind >= 0]] = behind[behind >= 0]
        self._askers = _places(original.frame["user"], everybody)
        self.people: Longs = np.unique(self._owners[self._owners >= 0])
        """Who has a record in the release."""
        self.columns = published_columns(released.frame)

    def by_texts(self) -> Lookup:
        """What is known are texts: numbers of texts, and above them numbers of forms."""
        texts, forms = len(self._form_of_text), self._form_of_text + len(self._form_of_text)
        count = texts + int(self._form_of_text.max(initial=0)) + 1
        crowd = Crowd([self._holders] * 2, [self._shown, forms[self._shown]], count)
        if self._replaced and self._owners_known:
            known = np.where(crowd.holds(self._asked), self._asked, forms[self._asked])
            return self._lookup(crowd, self._askers, known, self._asked, self._asked)
        how = self._how_known()
        known = np.select([how == 0, how == 1], [self._shown, forms[self._shown]], -1)
        return self._lookup(crowd, self._owners, known, self._shown, self._asked)

    def by_everything(self) -> Lookup:
        """What is known are texts with all that is published about them."""
        others = column_numbers(self._released, self.columns)
        kinds = [joint(self._shown, others), joint(self._form_of_text[self._shown], others), others]
        kinds[1] += int(kinds[0].max(initial=0)) + 1
        kinds[2] += int(kinds[1].max(initial=0)) + 1
        count = int(kinds[2].max(initial=0)) + 1
        known = np.choose(self._how_known(), kinds)
        unit = unit_of_time(self._released["time"])
        asked = joint(self._asked, column_numbers(self._original, self.columns, unit))
        return self._lookup(Crowd([self._holders] * 3, kinds, count), self._owners, known, kinds[0], asked)

    def _lookup(self, crowd: Crowd, people: Longs, known: Longs, records: Longs, asked: Longs) -> Lookup:
        size = int(max(self._askers.max(initial=-1), self.people.max(initial=-1))) + 1
        there = (people >= 0) & (known >= 0)
        return Lookup(
            crowd,
            Memory(people[there], known[there], size),
            Crowd([self._askers], [asked], int(asked.max(initial=0)) + 1),
            Memory(self._askers, asked, size),
            np.diff(Memory(people[people >= 0], records[people >= 0], size).first),
        )

    def _how_known(self) -> Longs:
        """How the text of each released record is known: 0 as its owner typed it, 1 by its form, 2 not at all.

        Where texts are replaced, one that the owner asked on another day is theirs by chance.
        """
        asked, shown = [self._asked], [self._shown]
        if self._replaced and "time" in self.columns:
            logs = (self._original, self._released)
            days = pl.concat([frame["time"].dt.epoch("d") for frame in logs]).rank("dense").fill_null(0).to_numpy()
            asked, shown = [*asked, days[: len(asked[0])]], [*shown, days[len(asked[0]) :]]
        how = np.full(len(self._shown), 2)
        for kind, of_text in ((1, self._form_of_text), (0, np.arange(len(self._form_of_text)))):
            theirs = [[of_text[side[0]], *side[1:]] for side in (asked, shown)]
            if self._owners_known:
                theirs = [[side, *told] for side, told in zip((self._askers, self._owners), theirs, strict=True)]
            both = joint(*(np.concatenate(columns) for columns in zip(*theirs, strict=True)))
            how[np.isin(both[len(self._asked) :], both[: len(self._asked)])] = kind
        return how

    def attack(self, known: int, noise: Noise, people: int = PEOPLE, by: Lookup | None = None) -> Acquaintance:
        """With `known` records of each of `people` people who have so many (everybody where there are fewer)."""
        require(
            whole_number("known", known, at_least=1, at_most=MOST_KNOWN, suggest=2),
            whole_number("people", people, at_least=1, suggest=PEOPLE),
        )
        by = by or self.by_texts()
        chosen = asking = _some(self.people[by.records[self.people] >= known], people, noise, "attack: people")
        if not self._owners_known:  # then nobody can tell who of the raw log is in the release
            able = np.flatnonzero(np.diff(by.raw_memory.first) >= known)
            asking = _some(able, people, noise, "attack: people of the raw log")
        most = max(len(chosen), len(asking))
        lots = noise.stream("attack: known queries").below(LOTS, most * known).reshape(most, known)
        alone_in_raw = by.raw_crowd.candidates(by.raw_memory.drawn(asking, lots[: len(asking)]))[0] == 1
        counts, only = by.crowd.candidates(by.memory.drawn(chosen, lots[: len(chosen)]))
        alone = counts == 1
        found = None
        if self._behind is not None:
            found = Success(int((self._behind[only[alone]] == chosen[alone]).sum()), len(chosen))
        return Acquaintance(
            Success(int(alone_in_raw.sum()), len(asking)), Success(int(alone.sum()), len(chosen)), found
        )


def _some(everybody: Longs, people: int, noise: Noise, draw: str) -> Longs:
    return everybody[np.sort(noise.stream(draw).permutation(len(everybody))[:people])]


def _places(values: pl.Series, distinct: pl.Series) -> Longs:
    """The place of each value in a sorted list without repetitions; −1 for null."""
    if not len(distinct):
        return np.full(len(values), -1)
    return values.cast(pl.Enum(distinct)).to_physical().cast(pl.Int64).fill_null(-1).to_numpy()


class Uniqueness:
    """Singled out by one to five known records: by their texts, and by all that is published about them."""

    key: ClassVar[str] = "uniqueness"
    title: ClassVar[str] = "Singled out by known queries"
    question: ClassVar[Question] = "singling out"
    counts_toward_risk: ClassVar[bool] = True

    def run(self, context: AuditContext) -> Found:
        """The findings, or what is missing."""
        if not len(context.original) or not len(context.released):
            yield LeftOut(title=self.title, reason="a log is empty")
            return
        attack = Acquaintances(
            context.original, context.released, owners=context.owners, receivers=context.receivers,
            replaced=context.declares("replaces_texts"),
        )  # fmt: skip
        yield from self._findings(context, attack, attack.by_texts(), "", "")
        if attack.columns:
            beside = f" and their {in_words(context.released.frame, attack.columns)}"
            yield from self._findings(context, attack, attack.by_everything(), "all-", beside)
        if context.receivers is None:
            yield context.not_attacked("Found by known queries")

    def _findings(self, context: AuditContext, attack: Acquaintances, by: Lookup, part: str, beside: str) -> Found:
        k = context.promised_k("k-anonymity")
        bound, chance = None if k is None else 1 / k, 1 / len(attack.names)
        people = "released people" if context.owners is not None else "pseudonyms"
        for m in KNOWN:
            told = f"{m} known {'query' if m == 1 else 'queries'}{beside.replace('their', 'its') if m == 1 else beside}"
            found = attack.attack(m, context.fresh_noise(), by=by)
            if not found.singled_out.measured:  # one by one, as the figures: why one is missing must not show in public
                for title in ("Singled out", "Found")[: 1 if found.found is None else 2]:
                    yield LeftOut(title=f"{title} by {told}", reason="nobody has so many released records")
                continue
            population = people if m == 1 else f"{people} with at least {m} different ones"
            yield risk(
                f"uniqueness-{part}{m}", f"Singled out by {told}", "uniqueness", "singling out", found.singled_out,
                f"Share of {population} of whom {told}, drawn at random, leave exactly one pseudonym that holds them "
                "all; a query that is not published in any form tells nothing.",
                raw=found.raw.share, bound=bound, population=population,
            )  # fmt: skip
            if found.found is not None:
                yield risk(
                    f"found-{part}{m}", f"Found by {told}", "uniqueness", "singling out", found.found,
                    f"Share of {population} of whom {told} leave exactly one pseudonym, and it is really theirs.",
                    raw=found.raw.share, chance=chance, bound=bound, population=population,
                )  # fmt: skip

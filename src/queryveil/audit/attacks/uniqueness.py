"""Acquaintances: who is singled out in a release by a few queries that somebody knows of them.

After de Montjoye et al. (2013), "Unique in the Crowd". The attacker learns m distinct texts of a person, at random
among those in the raw log (all, if there are fewer), and looks in the release for pseudonyms that hold them all. Known
texts that the release does not hold are looked for in other letters, marks and orders of their words (`normal_form`);
those that are not there at all tell nothing, so a clever attacker goes by the others. A person is *singled
out* where exactly one pseudonym is left, and *found* where that pseudonym is really theirs, which only the holder can
tell. People are drawn at random from everybody in the raw log, each with one draw of texts, so intervals are exact
(Clopper and Pearson).

Cost: for each person the holders of the rarest known text, until two candidates are found.

>>> raw = QueryLog.of([("ann", "weather"), ("bob", "weather"), ("ann", "tulips"), ("bob", "chess")])
>>> released = QueryLog.of([("u1", "weather"), ("u2", "weather"), ("u1", "tulips")])
>>> found = Acquaintances(raw, released).attack(2, Noise.seeded(1))
>>> found.raw, found.singled_out  # ann by weather and tulips; of bob only the weather is left, which ann holds as well
(Success(right=2, tried=2), Success(right=1, tried=2))
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import polars as pl

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
NOBODY = -2
"""Behind a pseudonym of whom the holder does not know."""

Longs = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Acquaintance:
    """What m known queries give: people with one candidate left, and those of whom it was the right one."""

    raw: Success
    """The same people and queries looked up in the raw log."""
    singled_out: Success
    found: Success | None


class Holdings:
    """Who holds which text: for each text of a shared list its holders, and for each holder their texts.

    `forms`, where given, are further numbers above those of the texts: whoever holds a text holds its form as well.
    """

    def __init__(self, frame: pl.DataFrame, texts: pl.Series, forms: Longs | None = None) -> None:
        self.users = frame["user"].unique().sort()
        pairs = frame.select("user", "query").unique()
        person = self.users.search_sorted(pairs["user"]).to_numpy().astype(np.int64)
        text = texts.search_sorted(pairs["query"]).to_numpy().astype(np.int64)
        count = len(texts)
        if forms is not None and len(forms):
            count = int(forms.max()) + 1
            both = np.unique(person * count + forms[text])
            person, text = np.concatenate([person, both // count]), np.concatenate([text, both % count])
        order = np.lexsort((person, text))
        self.holders = person[order].astype(np.int32)
        self.starts = _starts(text, count)
        order = np.lexsort((text, person))
        self.texts = text[order]
        self.first = _starts(person, len(self.users))

    def candidates(self, known: Longs) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int32]]:
        """For each row of texts how many hold all that anybody holds (2 stands for more), and one of them."""
        from queryveil.audit.attacks import _uniqueness_kernel

        counts, only = np.zeros(len(known), np.int8), np.full(len(known), -1, np.int32)
        _uniqueness_kernel.find_candidates(self.starts, self.holders, known, counts, only)
        return counts, only

    def drawn(self, people: Longs, known: int, noise: Noise) -> Longs:
        """`known` texts of each person, none twice; where they have fewer, the last is repeated."""
        size = np.diff(self.first)[people]
        stream = noise.stream("attack: known queries", known)
        places = np.empty((len(people), 0), np.int64)
        for turn in range(known):
            drawn = stream.below(np.maximum(size - turn, 1)) if len(people) else np.zeros(0, np.int64)
            for taken in places.T:  # sorted: step over what was drawn before
                drawn += drawn >= taken
            places = np.sort(np.column_stack([places, np.where(turn < size, drawn, size - 1)]), axis=1)
        found: Longs = self.texts[self.first[people][:, None] + places]
        return found


class Acquaintances:
    """The attack, ready for any number of known queries; `receivers` tells whose name each released record carries."""

    def __init__(self, original: QueryLog, released: QueryLog, receivers: pl.Series | None = None) -> None:
        texts = pl.concat([original.frame["query"], released.frame["query"]]).unique().sort()
        ranks = texts.to_frame("query").select(normal_form("query").rank("dense")).to_series()
        self._forms: Longs = len(texts) - 1 + ranks.to_numpy().astype(np.int64)
        self.raw, self.shown = Holdings(original.frame, texts), Holdings(released.frame, texts, self._forms)
        self._person_behind: Longs | None = None
        if receivers is not None and receivers.null_count() < len(receivers):
            pairs = pl.DataFrame([released.frame["user"], receivers.alias("person")])
            behind = pairs.group_by("user").agg(pl.col("person").drop_nulls().min()).sort("user")["person"]
            places = self.raw.users.search_sorted(behind.fill_null("")).to_numpy().astype(np.int64)
            self._person_behind = np.where(behind.is_null().to_numpy(), NOBODY, places)

    def attack(self, known: int, noise: Noise, people: int = PEOPLE) -> Acquaintance:
        """With `known` queries of each of `people` people (everybody where there are fewer)."""
        require(
            whole_number("known", known, at_least=1, at_most=MOST_KNOWN, suggest=2),
            whole_number("people", people, at_least=1, suggest=PEOPLE),
        )
        everybody = len(self.raw.users)
        chosen = np.sort(noise.stream("attack: people", known).permutation(everybody)[:people])
        texts = self.raw.drawn(chosen, known, noise)
        raw = Success(int((self.raw.candidates(texts)[0] == 1).sum()), len(chosen))
        as_typed = np.diff(self.shown.starts)[texts] > 0
        counts, only = self.shown.candidates(np.where(as_typed, texts, self._forms[texts]))
        alone = counts == 1
        found = None
        if self._person_behind is not None:
            found = Success(int((self._person_behind[only[alone]] == chosen[alone]).sum()), len(chosen))
        return Acquaintance(raw, Success(int(alone.sum()), len(chosen)), found)


def _starts(numbers: Longs, count: int) -> Longs:
    starts = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(numbers, minlength=count), out=starts[1:])
    return starts


KNOWN = (1, 2, 3, 4, 5)


class Uniqueness:
    """Singled out by one to five known queries."""

    key: ClassVar[str] = "uniqueness"
    title: ClassVar[str] = "Singled out by known queries"
    question: ClassVar[Question] = "singling out"
    counts_toward_risk: ClassVar[bool] = True

    def run(self, context: AuditContext) -> Found:
        """The findings, or what is missing."""
        if not len(context.original) or not len(context.released):
            yield LeftOut(title=self.title, reason="a log is empty")
            return
        attack = Acquaintances(context.original, context.released, context.receivers)
        chance = 1 / len(attack.shown.users)
        k = context.promised_k("k-anonymity")
        for m in KNOWN:
            told = f"{m} known {'query' if m == 1 else 'queries'}"
            found = attack.attack(m, context.fresh_noise())
            yield risk(
                f"uniqueness-{m}", f"Singled out by {told}", "uniqueness", "singling out", found.singled_out,
                f"Share of people of the raw log of whom {told}, drawn at random, leave exactly one pseudonym of the "
                "release that holds them all; queries that the release does not hold, in whatever guise, are passed "
                "over.",
                raw=found.raw.share, bound=None if k is None else 1 / k,
            )  # fmt: skip
            if found.found is not None:
                yield risk(
                    f"found-{m}", f"Found by {told}", "uniqueness", "singling out", found.found,
                    f"Share of people of whom {told} leave exactly one pseudonym, and it is really theirs.",
                    raw=found.raw.share, chance=chance, bound=None if k is None else 1 / k,
                )  # fmt: skip
        if context.receivers is None:
            yield context.not_attacked("Found by known queries")

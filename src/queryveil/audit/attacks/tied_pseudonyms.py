"""Names that were cut apart, tied together again: which other mini-session is by the same person?

Where a person has several names in a release (mini-sessions, names that change with the day), the attacker takes one of
them and looks for another of the same person among all others, by what both have in common:

- *by texts*: rare words, whole texts (people ask the same again) and words that stay when a query is reformulated;
- *by everything published*: the same, and clicks, the time as far as it is published (what was cut out of one session
  lies close together), and all metadata as one.

The score is the likelihood of `interests`: how much likelier a candidate's own terms make the name's than everybody's.
One name of each person is tried; all names of the tried people but these are candidates. Chance is a candidate drawn at
random. Beside it stands the same attack on the raw log's own sessions.

Cost: what the lists of the inverted index take. In a release with more than `MOST_NAMES` names people are drawn who
have about so many together.

>>> names, owners = np.array([0, 1, 2, 3]), np.array([0, 0, 1, 1])
>>> terms = counts_of(names, np.array([5, 5, 6, 6]), 4, 7)
>>> tied(terms, owners, np.array([0, 2]), np.array([0.5, 0.5]))
array([ True,  True])
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import ClassVar, Final

import numpy as np
import numpy.typing as npt
import polars as pl

from queryveil.arrays import Longs
from queryveil.audit.attacks.interests import WORD, Likelihood, Table, counts_of
from queryveil.audit.context import AuditContext
from queryveil.audit.finding import Found, LeftOut, Question, Success, risk
from queryveil.log.query_log import METADATA
from queryveil.privacy.noise import NoiseStream

MOST_NAMES: Final = 200_000
MOST_TRIED: Final = 1000
PAUSE: Final = timedelta(minutes=30)
NAME, OWNER = "__name", "__owner"
TEXTS: Final = ("word", "text")
ALL: Final = (*TEXTS, "click", "time", "metadata")


class TiedPseudonyms:
    """Names of one person tied together again."""

    key: ClassVar[str] = "tied-pseudonyms"
    title: ClassVar[str] = "Names of one person tied together again"
    question: ClassVar[Question] = "linkability"
    counts_toward_risk: ClassVar[bool] = True

    def run(self, context: AuditContext) -> Found:
        """The findings, or what is missing; nothing where each person has one name."""
        if context.owners is None:
            yield context.not_attacked(self.title)
            return
        stream = context.fresh_noise().stream("attack: names to tie")
        named = context.released.frame.with_columns(context.owners.alias(OWNER), pl.col("user").alias(NAME))
        # A name that several people share is nobody's.
        alone = named.filter((pl.col(OWNER).n_unique() == 1).over(NAME), pl.col(OWNER).is_not_null())
        names = alone.select(pl.col(NAME).n_unique()).item()
        people = alone.select(pl.col(OWNER).n_unique()).item()
        if names == people:
            return
        if people < 2:
            yield LeftOut(title=self.title, reason="fewer than 2 people are in the release")
            return
        shown, raw = Names.of(alone, stream), Names.of(sessions_of(context.original.frame), stream)
        for suffix, told, kinds in (("words", "words and texts", TEXTS), ("all", "everything published", ALL)):
            yield risk(
                f"tied-by-{suffix}", f"Names of one person tied together by {told}", "names tied together",
                "linkability", shown.attacked(kinds, stream),
                f"Share of people one of whose names (a mini-session, where sessions were cut) leads to another of "
                f"theirs by {told}: the name that fits best, of all others.",
                raw=raw.attacked(kinds, stream).share if raw.tried_people else None, chance=shown.chance,
                population="people with several names",
                detail=f"{len(shown.tried):,} names, each among {shown.candidates:,}.",
            )  # fmt: skip


class Names:
    """The names of some people, numbered, and one of each person who has several."""

    def __init__(self, rows: pl.DataFrame, owners: Longs, tried: Longs) -> None:
        self._rows, self.owners, self.tried = rows, owners, tried

    @classmethod
    def of(cls, rows: pl.DataFrame, stream: NoiseStream, most: int = MOST_NAMES) -> Names:
        """Those of people drawn at random, with about so many names."""
        names = rows.group_by(OWNER).agg(pl.col(NAME).n_unique().alias("names")).sort(OWNER)
        shuffled = names[stream.permutation(names.height)]
        some = shuffled.filter(pl.col("names").cum_sum().shift(1, fill_value=0) < most)
        rows = rows.join(some.select(OWNER), on=OWNER, how="semi").with_columns(pl.col(NAME).rank("dense") - 1)
        each = rows.select(NAME, OWNER).unique().sort(NAME)
        owners = each.select(pl.col(OWNER).rank("dense") - 1).to_series().to_numpy().astype(np.int64)
        order = stream.permutation(len(owners))
        _, first = np.unique(owners[order], return_index=True)
        several = np.bincount(owners, minlength=1) > 1
        tried = order[first][several]
        return cls(rows, owners, np.sort(tried[stream.permutation(len(tried))[:MOST_TRIED]]))

    @property
    def tried_people(self) -> int:
        """How many people are tried."""
        return len(self.tried)

    @property
    def candidates(self) -> int:
        """Among how many names each is looked for."""
        return len(self.owners) - len(self.tried)

    @property
    def chance(self) -> float:
        """How often a candidate drawn at random is right, or always the same one."""
        partners = np.bincount(self.owners)[self.owners[self.tried]] - 1
        return float(max(partners.mean() / self.candidates, 1 / len(self.tried)))

    def attacked(self, kinds: Sequence[str], stream: NoiseStream) -> Success:
        """How many of the tried names lead to another of their person."""
        right = tied(self.terms(kinds), self.owners, self.tried, stream.uniform(len(self.tried)))
        return Success(int(right.sum()), len(right))

    def terms(self, kinds: Sequence[str]) -> Table:
        """How often each name has each term of these kinds."""
        terms = pl.concat([_terms(self._rows, kind) for kind in kinds]).drop_nulls()
        numbers = terms.select(pl.col("term").rank("dense") - 1).to_series().to_numpy().astype(np.int64)
        rows = terms[NAME].to_numpy().astype(np.int64)
        return counts_of(rows, numbers, len(self.owners), int(numbers.max(initial=-1)) + 1)


def tied(terms: Table, owners: Longs, tried: Longs, draws: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Whether the candidate that fits best is of the same person, for each name tried."""
    candidates = np.setdiff1d(np.arange(len(owners)), tried)
    best = Likelihood(Table(terms[candidates])).best(Table(terms[tried]), draws)
    found: npt.NDArray[np.bool_] = owners[candidates[best]] == owners[tried]
    return found


def sessions_of(frame: pl.DataFrame) -> pl.DataFrame:
    """The raw log with a name for each session: what the log says, or what a pause of 30 minutes ends."""
    rows = frame.sort("user", "time", maintain_order=True)
    pause = ((pl.col("time") - pl.col("time").shift(1)) > PAUSE).fill_null(False)
    changed = [pl.col(name).ne_missing(pl.col(name).shift(1)) for name in ("user", "session")]
    return rows.with_columns((changed[0] | changed[1] | pause).cum_sum().alias(NAME), pl.col("user").alias(OWNER))


def _terms(rows: pl.DataFrame, kind: str) -> pl.DataFrame:
    """The terms of one kind, one row for each time a name has one; null where there is none."""
    text = pl.col("query").str.to_lowercase()
    if kind == "word":
        words = rows.select(NAME, term=text.str.extract_all(WORD).list.unique()).explode("term")
        return words.with_columns(term="word " + pl.col("term"))
    if kind == "text":
        return rows.select(NAME, term="text " + text)
    if kind == "click":
        return rows.select(NAME, term="click " + pl.col("url"))
    if kind == "time":  # as it is published; exact times to the hour, so that two can have one in common
        return rows.select(NAME, term="time " + pl.col("time").dt.truncate("1h").cast(pl.String))
    told = [pl.col(name).cast(pl.String).fill_null("") for name in METADATA if name in rows.columns]
    if not told:
        return rows.select(NAME, term=pl.lit(None, dtype=pl.String))
    return rows.select(NAME, term=pl.concat_str([pl.lit("metadata "), *told], separator="|"))

"""A known pair of queries: whose name is it under which both were asked, one after the other?

Somebody looked over a person's shoulder, or was told of two searches of one evening. They look in the release for names
(pseudonyms, mini-sessions) that hold both texts and take one of them, drawn at random; they are right where it is the
person's. Mini-sessions keep together what was asked together, so that cutting sessions does not help against this.

A pair is two different texts that follow each other in a session of the raw log, one pair drawn for each person. A pair
of which a text was not published finds nothing: withholding counts. Chance is a name drawn at random. Beside it stands
the same attack on the raw log's own sessions.

>>> sessions = pl.DataFrame({NAME: [1, 1, 1, 2], OWNER: ["ann", "ann", "ann", "bob"], "query": ["x", "y", "y", "z"]})
>>> pairs_in(sessions).rows()
[('ann', 'x', 'y')]
"""

from __future__ import annotations

from typing import ClassVar, Final

import polars as pl

from queryveil.audit.attacks.known_items import Holders
from queryveil.audit.attacks.tied_pseudonyms import NAME, OWNER, sessions_of
from queryveil.audit.context import AuditContext
from queryveil.audit.finding import Found, LeftOut, Question, risk

MOST_TRIED: Final = 5000


class KnownPair:
    """People found by two queries that they asked one after the other."""

    key: ClassVar[str] = "known-pair"
    title: ClassVar[str] = "Found by a known pair of queries"
    question: ClassVar[Question] = "singling out"
    counts_toward_risk: ClassVar[bool] = True

    def run(self, context: AuditContext) -> Found:
        """One finding, or what is missing."""
        if context.receivers is None:
            yield context.not_attacked(self.title)
            return
        sessions = context.once("sessions of the raw log", lambda: sessions_of(context.original.frame))
        pairs = context.once("pairs of queries", lambda: pairs_in(sessions))
        if not pairs.height or not len(context.released):
            yield LeftOut(title=self.title, reason="nobody asked two queries in a row, or nothing is released")
            return
        stream = context.fresh_noise().stream("attack: known pairs")
        mixed = pairs[stream.permutation(pairs.height)].unique(OWNER, maintain_order=True).head(MOST_TRIED)
        known, draws = mixed.select("first", "second"), stream.uniform(mixed.height)
        shown = Holders(context.released.frame.select("query", name="user", person=context.receivers))
        asked = Holders(sessions.select("query", name=NAME, person=OWNER))
        yield risk(
            self.key, self.title, "known pair", self.question, shown.guessed(known, mixed[OWNER], draws),
            "Share of people who asked two different queries one after the other, whom somebody finds who knows these "
            "two: of the names that hold both, one is drawn, and it is theirs.",
            raw=asked.guessed(known, mixed[OWNER], draws).share, chance=shown.chance(mixed[OWNER]),
            population="people who asked two different queries in a row",
        )  # fmt: skip


def pairs_in(sessions: pl.DataFrame) -> pl.DataFrame:
    """Whose, first and second: the distinct pairs of different texts that follow each other under one name."""
    following = pl.col("query").shift(-1).over(NAME).alias("second")
    both = sessions.select(OWNER, pl.col("query").alias("first"), following)
    return both.filter(pl.col("first") != pl.col("second")).unique().sort(OWNER, "first", "second")

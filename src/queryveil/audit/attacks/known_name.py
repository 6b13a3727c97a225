"""A known family name: which name of the release is that of a person who searched for theirs?

People search for themselves and for their relatives, which is how a reporter found a searcher in AOL's log. Somebody
who knows a person's family name takes a released name (a pseudonym, a mini-session) in one of whose texts it stands,
drawn at random; they are right where it is the person's.

The family name of a person is the one that their raw queries hold most often, of those that are on a public list or
were made up for a synthetic log (`queryveil.knowledge.names`); most people have none there and are not tried. Nobody
says that it is their own. Chance is a released name drawn at random; beside it stands the raw log's own sessions.

>>> frame = pl.DataFrame({"user": ["ann", "ann", "bob"], "query": ["Mary Smith", "smith and jones", "tulips"]})
>>> family_names_of(frame).rows()
[('ann', 'smith')]
"""

from __future__ import annotations

from typing import ClassVar, Final

import polars as pl

from queryveil.audit.attacks.interests import WORD
from queryveil.audit.attacks.known_items import Holders
from queryveil.audit.attacks.tied_pseudonyms import NAME, OWNER, sessions_of
from queryveil.audit.context import AuditContext
from queryveil.audit.finding import Found, LeftOut, Question, risk
from queryveil.knowledge.names import known_family_names

MOST_TRIED: Final = 5000


class KnownName:
    """People found by a family name in their queries."""

    key: ClassVar[str] = "known-name"
    title: ClassVar[str] = "Found by a known family name"
    question: ClassVar[Question] = "singling out"
    counts_toward_risk: ClassVar[bool] = True

    def run(self, context: AuditContext) -> Found:
        """One finding, or what is missing."""
        if context.receivers is None:
            yield context.not_attacked(self.title)
            return
        named = context.once("family names", lambda: family_names_of(context.original.frame))
        if not named.height or not len(context.released):
            yield LeftOut(title=self.title, reason="nobody asked for a listed family name, or nothing is released")
            return
        stream = context.fresh_noise().stream("attack: known names")
        some = named[stream.permutation(named.height)].head(MOST_TRIED)
        known, draws = some.select("word"), stream.uniform(some.height)
        sessions = context.once("sessions of the raw log", lambda: sessions_of(context.original.frame))
        logs = (
            context.released.frame.select("query", name="user", person=context.receivers),
            sessions.select("query", name=NAME, person=OWNER),
        )
        shown, asked = (Holders(rows, words_in(rows, some["word"])) for rows in logs)
        yield risk(
            self.key, self.title, "known name", self.question, shown.guessed(known, some["user"], draws),
            "Share of people with a family name in their queries whom somebody finds who knows it: of the names in "
            "whose texts it stands, one is drawn, and it is theirs.",
            raw=asked.guessed(known, some["user"], draws).share, chance=shown.chance(some["user"]),
            population="people who searched for a family name",
        )  # fmt: skip


def family_names_of(frame: pl.DataFrame) -> pl.DataFrame:
    """The family name that each person's queries hold most often, the first by the alphabet of several."""
    listed = pl.Series("word", sorted(known_family_names()))
    found = words_in(frame.select("query", "user"), listed)
    counted = found.group_by("user", "query").len().sort("user", "len", "query", descending=[False, True, False])
    return counted.unique("user", keep="first", maintain_order=True).select("user", word="query")


def words_in(rows: pl.DataFrame, words: pl.Series) -> pl.DataFrame:
    """The rows with each of these words of their text in place of the text."""
    texts = rows.select("query").unique()
    split = texts.with_columns(pl.col("query").str.to_lowercase().str.extract_all(WORD).list.unique().alias("word"))
    some = split.explode("word").join(words.unique().to_frame("word"), on="word", how="semi")
    return rows.join(some, on="query").with_columns(query="word").drop("word")

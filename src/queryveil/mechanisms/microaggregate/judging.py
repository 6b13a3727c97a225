"""Who counts where a text is judged by how many users asked it.

Without a state everybody counts: whoever asked a text that is published has something to publish, and a group.

With a state some people wait: new ones who are fewer than k, and members of a kept group that is not whole. Their
records are not published, and so they must not decide what is: else a text that four members ask and that appears in
the release after a newcomer came would tell that the newcomer asked it. So only people count whose group is published.
That goes in rounds, because whose group is published depends in turn on who has anything to publish: those whom a round
leaves without a whole group do not count in the next, until everybody who counts is published. Where the new people
fall out that way, the rounds begin anew without them, so that nothing at all depends on what they asked.

Cost: a judgement of all texts for each round, of which there is one where nobody waits for want of publishable texts.
"""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from queryveil.log.table import Schema, Table
from queryveil.mechanisms.microaggregate.grouping import PROFILED, Chosen, Profiling, people_of
from queryveil.mechanisms.microaggregate.publishable import ASKED, PAIRS, Judging, Labels
from queryveil.mechanisms.microaggregate.reading import Reading
from queryveil.mechanisms.microaggregate.state import FrozenGroups

NAMES: Schema = {"user": pl.String()}


@dataclass(frozen=True)
class Judged:
    """What may be published of whom."""

    pairs: Table
    labels: Labels
    profiled: Table
    people: pl.DataFrame
    """Everybody who has anything that may be published."""

    @classmethod
    def of(cls, pairs: Table, labels: Labels) -> Judged:
        """Profile the people of judged pairs."""
        profiled = pairs.map_blocks("user", Profiling(labels), PROFILED).kept()
        return cls(pairs, labels, profiled, people_of(profiled))


def judged_among(table: Table, reading: Reading, k_text: int, users: pl.Series | None = None) -> Judged:
    """Judge the texts by all users of the table, or by these users alone, as if nobody else were there."""
    if users is not None:
        table = table.map_rows(Chosen(tuple(ASKED), users.to_frame("user")), ASKED)
    pairs = table.map_blocks("query", Judging(reading, k_text), PAIRS).kept()
    return Judged.of(pairs, Labels.of(pairs, reading, k_text))


def judged_among_published(table: Table, reading: Reading, k_text: int, frozen: FrozenGroups) -> Judged:
    """Judge the texts by those alone whose group is published."""
    present = table.map_blocks("user", names, NAMES).collect()["user"].sort()  # one row for each user
    able = frozen.able(present)
    judged = _settled(table, reading, k_text, frozen, able)
    if frozen.has_new(able) and not frozen.has_new(judged.people["user"]):
        judged = _settled(table, reading, k_text, frozen, frozen.able(frozen.known(present)))
    return judged


def names(block: int, rows: pl.DataFrame) -> pl.DataFrame:
    """Who is in a block of users."""
    return rows.select(pl.col("user").unique())


def _settled(table: Table, reading: Reading, k_text: int, frozen: FrozenGroups, able: pl.Series) -> Judged:
    """Judge among these users until those who count are those whose group is published; they get ever fewer."""
    while True:
        judged = judged_among(table, reading, k_text, able)
        able = frozen.able(judged.people["user"])
        if len(able) == judged.people.height:
            return judged

"""Shape: how long queries and sessions are, and at which hours people search, for people who are in neither log.

Total variation distance between held-out people's shares and the release's, for words in a query (each text of a person
once), queries in a session, and hours of the day. Who knows nothing of the log takes what has been published of others:
2.35 words in a query and 2.02 queries in a session on average (Silverstein, Henzinger, Marais and Moricz 1999,
"Analysis of a very large web search engine query log"), falling geometrically, and all hours alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import ClassVar, Final

import numpy as np

from queryveil.arrays import Floats, Longs
from queryveil.audit.context import AuditContext
from queryveil.audit.finding import LeftOut
from queryveil.audit.held_out.judgement import Judged, JudgedByOthers, distances, shares_of
from queryveil.audit.held_out.judging import Judging
from queryveil.audit.held_out.searches import Searches

MOST_COUNTED: Final = 10
"""Longer ones count as so long."""
WORDS_IN_A_QUERY, QUERIES_IN_A_SESSION = 2.35, 2.02

Cells = Callable[[Searches], tuple[Longs, Longs]]
"""Person and cell of what is counted."""


def falling(mean: float, cells: int = MOST_COUNTED) -> Floats:
    """Shares of 1, 2, … that fall geometrically with this mean; the last holds all beyond.

    >>> falling(2.0, 3).tolist()
    [0.5, 0.25, 0.25]
    """
    more = 1 - 1 / mean
    shares: Floats = (1 - more) * np.power(more, np.arange(cells, dtype=np.float64))
    shares[-1] = more ** (cells - 1)
    return shares


def query_lengths(searches: Searches) -> tuple[Longs, Longs]:
    """Person and cell of each text with a word in it."""
    person, text = searches.asked
    length = np.diff(searches.offsets)[text]
    return person[length > 0], np.minimum(length[length > 0], MOST_COUNTED) - 1


def session_lengths(searches: Searches) -> tuple[Longs, Longs]:
    """Person and cell of each session."""
    person, length = searches.session_lengths
    return person, np.minimum(length, MOST_COUNTED) - 1


def hours(searches: Searches) -> tuple[Longs, Longs]:
    """Person and hour of each query."""
    return searches.hours


class Shape(JudgedByOthers):
    """Lengths and times."""

    key: ClassVar[str] = "shape"
    title: ClassVar[str] = "Lengths, sessions and hours of other people"
    task: ClassVar[str] = "sessions and volume"

    def judged(self, context: AuditContext) -> Iterator[Judged | LeftOut]:
        """Distances of each reader."""
        judging = context.judging
        yield from _near(judging, "lengths", "Words in other people's queries", query_lengths,
                         falling(WORDS_IN_A_QUERY))  # fmt: skip
        yield from _near(judging, "sessions", "Queries in other people's sessions", session_lengths,
                         falling(QUERIES_IN_A_SESSION))  # fmt: skip
        title = "Hours at which other people search"
        if judging.judges.tells_hours and judging.raw.tells_hours and judging.released.tells_hours:
            yield from _near(judging, "hours", title, hours, np.full(24, 1 / 24))
        else:
            yield LeftOut(title=title, reason="one of the logs does not tell the hour of the day")


def _near(judging: Judging, name: str, title: str, cells: Cells, public: Floats) -> Iterator[Judged | LeftOut]:
    raw, released = (
        shares_of(cells(log)[1], len(public), public) for log in (judging.raw, judging.released)
    )  # fmt: skip
    told = f"{title}: how near their shares come in the release, by total variation distance."
    yield from judging.judge(
        title, f"shape-{name}", told, "Distance", distances(*cells(judging.judges), public, released, raw),
        better="lower",
    )  # fmt: skip

"""One question of a searcher, answered whole: the queries to send, the promise, the losses, the deniability.

>>> from queryveil.mechanisms.obfuscate import Obfuscation, Session
>>> from queryveil.privacy import Noise
>>> mechanism = Obfuscation(mechanism="tem", epsilon=10.0, n=2)
>>> given = answer(mechanism, "throat cancer", Noise.seeded(1), Session(key=bytes(32)))
>>> len(given.queries), given.losses.per_word, given.losses.per_query, len(given.deniability)
(2, 10.0, 20.0, 2)
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from queryveil.mechanisms.obfuscate.alerts import alerts
from queryveil.mechanisms.obfuscate.mechanism import Obfuscation
from queryveil.mechanisms.obfuscate.reading import stems_of
from queryveil.mechanisms.obfuscate.session import Session
from queryveil.mechanisms.obfuscate.words import WORD_MECHANISMS, Deniability
from queryveil.privacy import Guarantee, Noise


@dataclass(frozen=True)
class Losses:
    """ε for each unit of distance, by what it is counted over."""

    per_obfuscation: float
    per_word: float
    per_query: float
    session: float | None
    """Over all that the tally has seen; None where no tally is kept."""
    worst_word: float | None


@dataclass(frozen=True)
class Answer:
    """What to send and what to know before sending it. `losses` is None where nothing formal is promised."""

    queries: list[str]
    unchanged: int
    """How many keep every word of the query that the vocabulary knows: chance does that where ε is large."""
    guarantee: Guarantee
    losses: Losses | None
    deniability: tuple[Deniability, ...]
    """Of the first words of the query, at most 20; empty where it was not asked for."""
    alerts: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """For `--json`. Of the original query it holds what was drawn, the number of words, and the alerts' kinds."""
        return {
            "queries": self.queries,
            "unchanged": self.unchanged,
            "guarantee": self.guarantee.as_dict(),
            "losses": None if self.losses is None else dataclasses.asdict(self.losses),
            "deniability": [dataclasses.asdict(count) for count in self.deniability],
            "alerts": list(self.alerts),
        }


def answer(
    mechanism: Obfuscation, query: str, noise: Noise, session: Session | None, *, deniable: bool = True
) -> Answer:
    """The first `mechanism.n` obfuscations; the session, if any, is charged before anything is shown.

    `deniable` False leaves out the deniability, which takes most of the time.
    """
    n = mechanism.n
    warned = tuple(alerts(query))
    if mechanism.mechanism not in WORD_MECHANISMS:
        queries = mechanism.obfuscate(query, n, noise)
        same = sum(stems_of(sent) == stems_of(query) for sent in queries)
        return Answer(queries, same, mechanism.guarantee(), None, (), warned)
    indices = mechanism.reader.query(query)
    spent = None if session is None else session.charge(mechanism, query, n)
    losses = Losses(
        per_obfuscation=mechanism.epsilon_each,
        per_word=mechanism.epsilon_each * n,
        per_query=mechanism.epsilon_each * n * len(indices),
        session=None if spent is None else spent.epsilon_of_session,
        worst_word=None if spent is None else spent.epsilon_of_worst_word,
    )
    drawn = mechanism.draw(indices, n, noise)
    queries = [mechanism.reader.text(words) for words in drawn]
    again = mechanism.stream_of(indices, noise)
    deniability = mechanism.words.deniability(indices, drawn, again) if deniable else []
    typed = mechanism.reader.known(query)
    same = int((drawn[:, typed] == indices[typed]).all(axis=1).sum())
    return Answer(queries, same, mechanism.guarantee(), losses, tuple(deniability), warned)

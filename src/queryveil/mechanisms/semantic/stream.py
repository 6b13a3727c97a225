"""Semantic release of queries as they come, with a public maximum for each user."""

from __future__ import annotations

from fractions import Fraction

from queryveil.checks import require
from queryveil.errors import BudgetError
from queryveil.mechanisms.semantic.mechanism import SemanticRelease
from queryveil.mechanisms.semantic.records import texts_of
from queryveil.privacy import Noise


class SemanticStream:
    """Queries one at a time: ε / max for each, and query max + 1 of a user is refused.

    >>> mechanism = SemanticRelease(epsilon=1.0, per="user", domain="disease", max_queries=2, criterion="sqc1")
    >>> stream = SemanticStream(mechanism, Noise.seeded(1))
    >>> answers = [stream.push("ann", "flu"), stream.push("ann", "asthma")]
    >>> stream.spent("ann")
    Fraction(1, 1)
    >>> stream.push("ann", "measles")
    Traceback (most recent call last):
    ...
    queryveil.errors.BudgetError: this user has asked 2 queries, the public maximum; the next one is refused.
    """

    def __init__(self, mechanism: SemanticRelease, noise: Noise) -> None:
        require(
            None if mechanism.mode == "safe" else "mode must be safe for a stream; got paper.",
            None if mechanism.criterion != "hbdp" else "criterion must not be hbdp for a stream.",
        )
        self.mechanism = mechanism
        self._noise = noise
        self._asked: dict[str, int] = {}
        self._draws = 0

    def push(self, user: str, query: str) -> str:
        """The text to publish for a query."""
        if self._asked.get(user, 0) >= self.mechanism.max_queries:
            raise BudgetError(
                f"this user has asked {self.mechanism.max_queries} queries, the public maximum; "
                "the next one is refused."
            )
        self._asked[user] = self._asked.get(user, 0) + 1  # spent before the answer exists
        self._draws += 1
        concepts = self.mechanism.reader.concepts([query])
        stream = self._noise.stream("semantic: stream", self._draws)
        drawn = self.mechanism.certified.law.draw(concepts, stream)
        return str(texts_of(self.mechanism.public_domain, drawn)[0])

    def spent(self, user: str) -> Fraction:
        """The ε that a user's queries have cost so far, without δ."""
        return self.mechanism.epsilon_per_query * self._asked.get(user, 0)

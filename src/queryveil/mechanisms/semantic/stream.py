"""Semantic release of queries as they come, with a public maximum for each user and a ledger that is debited first.

A user's first query debits the whole of what the mechanism charges a person; `max_queries` answers are covered by it,
and the next query is refused. How many a user has asked is known to one run only, so every run debits anew: after a
restart nobody is answered on a debit of an earlier run, and who has too little left is left out.

Answers leave one by one, so their order and time tell when each query was asked; the promise says so. A stream cannot
tell a query's further clicks from searches that are repeated: every push counts as a query, so push a query once.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from fractions import Fraction

from queryveil.checks import require
from queryveil.errors import BudgetError, RefusedError
from queryveil.mechanisms.semantic import promise
from queryveil.mechanisms.semantic.law import draw
from queryveil.mechanisms.semantic.replacement import Semantic
from queryveil.privacy import Guarantee, Ledger, Noise
from queryveil.privacy.guarantee import rounded_up

A_PUSH = "Every text pushed is a query of its own, also one that was pushed before."
PUSHED_AGAIN = "what the answers to a query tell together that is pushed several times, as for each of its clicks"


class SemanticStream:
    """Queries one at a time, from any thread: at most `max_queries` answers for each user's debit.

    Seeded noise can be undone by whoever knows the seed: `science=True` takes it, for public or synthetic queries only.

    >>> import os, tempfile
    >>> os.environ["QUERYVEIL_KEYS"] = tempfile.mkdtemp()
    >>> ledger = Ledger.create(os.path.join(tempfile.mkdtemp(), "ledger.db"), epsilon=1.0)
    >>> mechanism = Semantic(epsilon=1.0, per="user", domain="disease", max_queries=2, criterion="sqc1")
    >>> stream = SemanticStream(mechanism, Noise.secure(), ledger)
    >>> answers = [stream.push("ann", "flu"), stream.push("ann", "asthma")]
    >>> stream.spent("ann")
    Fraction(1, 1)
    >>> stream.push("ann", "measles")
    Traceback (most recent call last):
    ...
    queryveil.errors.BudgetError: this user has asked 2 queries, the public maximum; the next one is refused.
    """

    def __init__(self, mechanism: Semantic, noise: Noise, ledger: Ledger, *, science: bool = False) -> None:
        require(
            None if mechanism.mode == "safe" else "mode must be safe for a stream; got paper.",
            None if mechanism.criterion != "hbdp" else "criterion must not be hbdp for a stream.",
            None if mechanism.counts == "public" else "counts must be public for a stream: it cannot pad; got padded.",
            None
            if mechanism.time == "drop"
            else "time must be drop for a stream: its answers are texts without a time.",
            None if isinstance(ledger, Ledger) else "ledger must be an open Ledger; make one with Ledger.create.",
        )
        noise.refuse_reuse()
        if not noise.publishable and not science:
            raise RefusedError(
                "a stream with seeded noise can be undone by whoever knows the seed. Use Noise.secure(); science=True "
                "takes it for public or synthetic queries."
            )
        self.mechanism = mechanism
        self._noise, self._ledger = noise, ledger
        self._asked: dict[str, int] = {}
        self._short: set[str] = set()  # users who have too little left; asking again costs the ledger no entry
        self._draws = 0
        self._lock = threading.Lock()
        _ = mechanism.certified, mechanism.reader  # whatever can fail does so before anybody pays

    def push(self, user: str, query: str) -> str:
        """The text to publish for a query; refused where the user's budget or maximum is spent."""
        require(None if isinstance(user, str) and isinstance(query, str) else "user and query must be texts.")
        with self._lock:  # also around the reading, whose caches are not made for several threads
            self._spend(user)
            self._draws += 1
            concepts = self.mechanism.reader.concepts([query])
            stream = self._noise.stream("semantic: stream", self._draws)
            drawn = draw(self.mechanism.certified.law, concepts, stream)
        return str(self.mechanism.public_domain.texts(drawn)[0])

    def spent(self, user: str) -> Fraction:
        """The ε that this run has debited from a user."""
        return self.mechanism.charge().epsilon if user in self._asked else Fraction(0)

    def guarantee(self) -> Guarantee:
        """The mechanism's promise for what a stream gives away besides."""
        promised = promise.in_safe_mode(self.mechanism, A_PUSH, PUSHED_AGAIN)
        bound = (
            f"At most {self.mechanism.max_queries} queries of a user are answered in a run of the stream, and every "
            "run costs the figure per user anew; queries beyond are refused."
        )
        return replace(
            promised,
            relation=f"{promised.relation}, asked in the same order at the same times",
            not_protected=("the order and the time of answers", *promised.not_protected),
            detail=f"{promised.detail} {bound}",
        )

    def statement(self) -> str:
        """The promise in plain words, with what seeded noise takes from it."""
        promised = self.guarantee().statement()
        if self._noise.publishable:
            return promised
        return f"NOT FOR PUBLICATION: made with a known seed, which undoes the noise. {promised}"

    def _spend(self, user: str) -> None:
        """Count a query before its answer exists; the first one of a user is paid for all."""
        asked, most = self._asked.get(user, 0), self.mechanism.max_queries
        if asked >= most:
            raise BudgetError(f"this user has asked {most} queries, the public maximum; the next one is refused.")
        if not asked:
            model = self.mechanism.guarantee().model
            charge = self.mechanism.charge()
            if user not in self._short:
                debit = self._ledger.debit(charge, mechanism=self.mechanism.name, model=model, people=[user])
                self._short |= debit.left_out
            if user in self._short:
                raise BudgetError(
                    f"this user has less than ε = {rounded_up(float(charge.epsilon))}, δ = "
                    f"{rounded_up(float(charge.delta))} left in the ledger, which a run costs; the query is refused."
                )
        self._asked[user] = asked + 1

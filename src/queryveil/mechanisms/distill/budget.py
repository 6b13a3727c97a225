"""What is published, which share of the budget each table has, and how much noise that makes. All of it public.

A *table* is a sum over people of vectors of whole numbers, each of length at most `UNIT`. Its cells are public (classes
of words, hours of the week), or it is a *union*: its cells are keys that people's records hold, and a key is published
where its noisy weight exceeds a threshold. `proof.md` says why all tables together are (ε, δ)-DP.

The shares were fixed once (benchmarks/distill.py) and are no parameters: chosen by looking at a log, they would cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

from queryveil.knowledge.word_prior import LEVELS
from queryveil.privacy import Concentrated
from queryveil.privacy.guarantee import decimal
from queryveil.privacy.joint_gaussian import joint_rho, joint_sigmas, joint_smoothed_rho, union_threshold

UNIT = 1 << 16
"""A vector's length in whole numbers: 2^b of the specification, with b = 16."""

CLASSES = tuple(level + 2 for level in LEVELS)
"""Classes at each level: those of GloVe, one for words without a vector, one for words outside the vocabulary."""
BEFORE = CLASSES[0] + 1
"""What may stand before a word: a word of some class, or the start."""
LENGTHS = 16
"""Queries of 1, 2, … words; the last cell counts all longer ones."""
SESSION_LENGTHS = 16
RECORD_BUCKETS = 13
"""1, 2–3, 4–7, … records."""
GAP_BUCKETS = 12
HOURS = 168
RANKS = 21
"""No click, or a click on rank 1, …, 19, or a later or unknown one."""
FOLLOWS = ("same", "word added", "word dropped", "word replaced", "new")
FOLLOW_LENGTHS = 8

CELLS: dict[str, int | None] = {
    "topics_64": CLASSES[0],
    "topics_512": CLASSES[1],
    "topics_3000": CLASSES[2],
    "phrases_64": BEFORE * CLASSES[0],
    "phrases_512": BEFORE * CLASSES[1],
    "words": None,  # as many as the vocabulary has, and one for all others
    "people": CLASSES[0] * CLASSES[0],
    "queries": None,  # as many as there are public queries
    "query_kinds": 5,
    "users": 1,
    "query_total": 1,
    "pair_total": 1,
    "head_total": 1,
    "records": RECORD_BUCKETS,
    "session_lengths": SESSION_LENGTHS,
    "lengths": LENGTHS,
    "gaps": GAP_BUCKETS,
    "hours": HOURS,
    "ranks": RANKS,
    "follows": len(FOLLOWS) * FOLLOW_LENGTHS,
    "successions": CLASSES[0] * CLASSES[0],
}
"""Tables with public cells, and how many."""

SHARES: dict[str, Fraction] = {
    name: Fraction(thousandths, 1000)
    for name, thousandths in {
        "topics_64": 65,
        "topics_512": 85,
        "topics_3000": 75,
        "phrases_64": 50,
        "phrases_512": 105,
        "words": 250,
        "queries": 87,
        "query_kinds": 5,
        "people": 25,
        "users": 3,
        "query_total": 4,
        "pair_total": 2,
        "head_total": 2,
        "records": 8,
        "session_lengths": 13,
        "lengths": 8,
        "gaps": 3,
        "hours": 4,
        "ranks": 4,
        "follows": 6,
        "successions": 10,
        "own_words": 38,
        "pairs": 53,
        "head": 65,
        "clicks": 20,
        "hosts": 10,
    }.items()
}

MOST_KEYS = {"own_words": 64, "pairs": 256, "head": 128, "clicks": 128, "hosts": 64}
"""The unions, and how many keys of a person count at most, chosen at random among the person's own."""

TOTALS = {"query_total": ("queries", 16), "pair_total": ("pairs", 256), "head_total": ("head", 128)}
"""The tables of what all of a table's things weigh in sum, and how many of a person's count at most."""

UNION_DELTA = Fraction(1, 10)
"""What part of δ all thresholds together have."""


@dataclass(frozen=True)
class Budget:
    """The noise of every table at (ε, δ)."""

    epsilon: float
    delta: float

    @cached_property
    def sigmas(self) -> Mapping[str, int]:
        """σ of each table, in units of 1/`UNIT`."""
        left = float(Fraction(self.delta) * (1 - UNION_DELTA)) * (1 - 1e-12)
        return _sigmas(self.epsilon, left)

    @cached_property
    def thresholds(self) -> Mapping[str, int]:
        """What a key of each union must exceed."""
        each = float(Fraction(self.delta) * UNION_DELTA / len(MOST_KEYS)) * (1 - 1e-12)
        return {
            name: union_threshold(sigma=self.sigmas[name], delta=each, most_keys=most, unit=UNIT)
            for name, most in MOST_KEYS.items()
        }

    @property
    def rho(self) -> Fraction:
        """All tables together are ρ-zero-concentrated, but for the δ of the thresholds."""
        return joint_rho(self.sigmas.values(), unit=UNIT)

    @property
    def concentrated(self) -> Concentrated:
        """How a ledger adds it up: one Gaussian mechanism, but for the δ of the thresholds."""
        rho = joint_smoothed_rho(self.sigmas.values(), unit=UNIT)
        return Concentrated(rho=rho, slack=decimal(self.delta) * UNION_DELTA, gaussian=True)


@lru_cache(maxsize=16)
def _sigmas(epsilon: float, delta: float) -> dict[str, int]:
    return joint_sigmas(epsilon=epsilon, delta=delta, shares=SHARES, unit=UNIT)

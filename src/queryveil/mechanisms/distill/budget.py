"""What is published, which share of the budget each table has, and how much noise that makes. All of it public.

A *table* is a sum over people of vectors of whole numbers, each of length at most `UNIT`. Its cells are public (classes
of words, hours of the week), or it is a *union*: its cells are keys that people's records hold, and a key is published
where its noisy weight exceeds a threshold. `proof.md` says why all tables together are (ε, δ)-DP.

Which table is worth most depends on how many people stand beside the noise: a small log tells classes of words, a large
one whole queries and pairs. So the number of people is published first, with a small share, and that noisy number says
which *regime* the shares of all other tables come from: ρ of the first and of the rest add up, whatever was chosen. All
shares were fixed once (benchmarks/distill.py) and are no parameters: chosen by looking at a log, they would cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Self

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

STEPS = (28, 110, 450, 1800, 7200, 28800)
"""From how many people on the next regime begins, in standard deviations of the noise of their count."""
SHARES: dict[str, tuple[int, ...]] = {
    "topics_64": (70, 60, 50, 50, 50, 45, 40),
    "topics_512": (130, 120, 80, 80, 80, 70, 60),
    "topics_3000": (110, 90, 60, 60, 50, 50, 50),
    "phrases_64": (60, 50, 30, 35, 40, 40, 40),
    "phrases_512": (115, 105, 50, 60, 75, 80, 80),
    "words": (262, 312, 468, 340, 190, 170, 150),
    "queries": (87, 87, 80, 80, 65, 60, 50),
    "query_kinds": (8, 6, 5, 5, 5, 5, 5),
    "people": (10, 12, 15, 20, 20, 20, 20),
    "users": (5, 5, 5, 5, 5, 5, 5),
    "query_total": (6, 5, 4, 4, 4, 4, 4),
    "pair_total": (2, 2, 2, 2, 2, 2, 2),
    "head_total": (2, 2, 2, 2, 2, 2, 2),
    "records": (10, 8, 8, 8, 8, 8, 8),
    "session_lengths": (16, 13, 13, 13, 12, 12, 12),
    "lengths": (24, 12, 8, 8, 8, 8, 8),
    "gaps": (4, 3, 3, 3, 3, 3, 3),
    "hours": (6, 4, 4, 4, 4, 4, 4),
    "ranks": (4, 4, 4, 4, 4, 4, 4),
    "follows": (6, 6, 6, 6, 6, 6, 6),
    "successions": (10, 10, 10, 10, 10, 10, 10),
    "own_words": (10, 14, 15, 20, 25, 25, 25),
    "pairs": (15, 26, 28, 80, 140, 230, 280),
    "head": (20, 34, 38, 80, 162, 110, 100),
    "clicks": (5, 7, 8, 14, 20, 17, 22),
    "hosts": (3, 3, 4, 7, 10, 10, 10),
}
"""The share of each table in thousandths, by regime."""
REGIMES = len(STEPS) + 1


def shares(regime: int) -> dict[str, Fraction]:
    """The share of each table in one regime."""
    return {name: Fraction(row[regime], 1000) for name, row in SHARES.items()}


MOST_KEYS = {"own_words": 64, "pairs": 256, "head": 128, "clicks": 128, "hosts": 64}
"""The unions, and how many keys of a person count at most, chosen at random among the person's own."""

TOTALS = {"query_total": ("queries", 16), "pair_total": ("pairs", 256), "head_total": ("head", 128)}
"""The tables of what all of a table's things weigh in sum, and how many of a person's count at most."""

UNION_DELTA = Fraction(1, 10)
"""What part of δ all thresholds together have."""


@dataclass(frozen=True)
class Budget:
    """The noise of every table at (ε, δ), in one regime; that of `users` is the same in all."""

    epsilon: float
    delta: float
    regime: int = 0

    def for_people(self, noisy: int) -> Self:
        """The same with the shares for a log of about so many people: a noisy count, in units of 1/`UNIT`."""
        return replace(self, regime=sum(noisy > step * self.sigmas["users"] for step in STEPS))

    @cached_property
    def sigmas(self) -> Mapping[str, int]:
        """σ of each table, in units of 1/`UNIT`."""
        return _sigmas(self.epsilon, self._left, self.regime)

    @property
    def _left(self) -> float:
        """What the thresholds leave of δ."""
        return float(Fraction(self.delta) * (1 - UNION_DELTA)) * (1 - 1e-12)

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
        """All tables together are ρ-zero-concentrated in every regime, but for the δ of the thresholds."""
        return max(joint_rho(sigmas.values(), unit=UNIT) for sigmas in self._every)

    @property
    def concentrated(self) -> Concentrated:
        """How a ledger adds it up: one Gaussian mechanism, but for the δ of the thresholds."""
        rho = max(joint_smoothed_rho(sigmas.values(), unit=UNIT) for sigmas in self._every)
        return Concentrated(rho=rho, slack=decimal(self.delta) * UNION_DELTA, gaussian=True)

    @property
    def _every(self) -> list[dict[str, int]]:
        """σ of each table in each regime."""
        return [_sigmas(self.epsilon, self._left, regime) for regime in range(REGIMES)]


@lru_cache(maxsize=64)
def _sigmas(epsilon: float, delta: float, regime: int) -> dict[str, int]:
    return joint_sigmas(epsilon=epsilon, delta=delta, shares=shares(regime), unit=UNIT)

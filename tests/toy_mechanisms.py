"""Small real mechanisms for testing the frame."""

from dataclasses import dataclass, field
from fractions import Fraction
from typing import ClassVar

import numpy as np
import polars as pl

from queryveil.checks import real_number, require, whole_number
from queryveil.log import QueryLog
from queryveil.privacy import Charge, Guarantee, Noise, PureDP
from queryveil.release.mechanism import PSEUDONYM, Mode
from queryveil.release.release import Release

ANSWERS = ("weather", "football", "recipes", "trains")


@dataclass(frozen=True, kw_only=True)
class RandomisedResponse:
    """Every user gives exactly `turns` answers, each by k-ary randomised response over a public list."""

    name: ClassVar[str] = "toy-response"
    epsilon: float = field(default=1.0, metadata={"help": "loss per user"})
    turns: int = field(default=3, metadata={"help": "answers per user"})
    mode: Mode = "safe"

    def __post_init__(self) -> None:
        require(
            real_number("epsilon", self.epsilon, above=0, at_most=50, suggest=1.0),
            whole_number("turns", self.turns, at_least=1, at_most=1000, suggest=3),
        )

    def guarantee(self) -> Guarantee:
        return PureDP(
            epsilon=self.epsilon,
            relation="one user's queries replaced by any others",
            not_protected=("that a user took part",),
        )

    def charge(self) -> Charge:
        return Charge.people(epsilon=self.epsilon)

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        users = log.users()
        said = dict(log.by_user().select("user", "query").iter_rows())
        truth = np.array(
            [ANSWERS.index(q) if q in ANSWERS else 0 for u in users for q in (said[u] * self.turns)[: self.turns]],
            dtype=np.int64,
        )
        keep = Fraction(int(np.expm1(self.epsilon / self.turns) * 10**6), 10**6)  # rounded down: never above ε
        truthful = noise.stream("toy: truthful").bernoulli(keep / (keep + len(ANSWERS)), len(truth))
        other = noise.stream("toy: other").below(len(ANSWERS), len(truth))
        answers = [ANSWERS[i] for i in np.where(truthful, truth, other)]
        frame = pl.DataFrame(
            {"user": users.gather(np.repeat(np.arange(len(users)), self.turns)), "query": answers},
            schema={"user": pl.String, "query": pl.String},
        )
        columns = {"user": PSEUDONYM, "query": "randomised response"}
        return Release.of(self, QueryLog(frame), noise=noise, columns=columns, pseudonyms=noise.pseudonyms(users))

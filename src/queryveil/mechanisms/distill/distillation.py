"""A useful log under a real promise: learn what texts are made of, publish that, and draw a synthetic log from it.

Every text in a log's tail is one person's, so no differentially private method can publish it. What a recipient needs
of the tail is not those texts but what they are made of: words, phrases, topics, how people put them together and go
on. `distill` sums that up over people in tables (`contributions.py`, `unions.py`), adds noise to all of them at once
(`tables.py`), and computes everything else from the noisy tables and public knowledge: shares of words and phrases by
raking (`estimation.py`), a model of queries (`language.py`, `model.py`), and a log of users who never were
(`synthesis.py`). The tables are published beside the log, each number with the size of its noise (`published.py`).

Beyond the papers: no publication does this for query logs. Set unions of unknown keys are those of Gopi et al. (2020),
the noise is the discrete Gaussian of Canonne, Kamath and Steinke (2020); the promise is proved in `proof.md`.

Cost: two passes over the records in blocks of people, then time in the size of the synthetic log.

>>> from queryveil import Noise, QueryLog
>>> log = QueryLog.of([(f"user {k}", "cheap flights to paris") for k in range(300)])
>>> release = Distill(epsilon=4.0, users=50).protect(log, Noise.seeded(1))
>>> release.log.user_count(), release.tables["words"].filter(word="paris")["value"].round()[0] > 100
(50, True)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, ClassVar

from queryveil.checks import one_of, real_number, require, whole_number
from queryveil.mechanisms.distill.budget import SHARES, UNION_DELTA, Budget
from queryveil.privacy import ApproxDP, Charge, Guarantee
from queryveil.privacy.guarantee import (
    COMPUTATIONAL,
    FIXED_PARAMETERS,
    ONE_ID_ONE_PERSON,
    TRUSTED_HOLDER,
    rounded_up,
)
from queryveil.release.mechanism import MODES, Mode

if TYPE_CHECKING:
    import polars as pl

    from queryveil.log import QueryLog
    from queryveil.mechanisms.distill.canaries import AddedPeople
    from queryveil.mechanisms.distill.language import Language
    from queryveil.privacy import Noise
    from queryveil.release.release import Release

LARGEST_DELTA = 1e-6
LEAST_EPSILON = 0.1
"""Below it the noise of the smallest share would be larger than the sampler's arithmetic holds."""


@dataclass(frozen=True, kw_only=True)
class Distill:
    """Publish noisy tables of what queries are made of, and a synthetic log drawn from them."""

    name: ClassVar[str] = "distill"
    title: ClassVar[str] = "Distil a synthetic log"
    summary: ClassVar[str] = "What queries are made of, with noise, and invented users who search like that."
    sweep: ClassVar = {"epsilon": [1.0, 4.0]}
    beside_rules: ClassVar = {"epsilon": [1.0, 2.0, 4.0, 8.0]}
    effort: ClassVar[float] = 15.0
    citation: ClassVar[str] = """@inproceedings{gopi2020differentially,
  author    = {Sivakanth Gopi and Pankaj Gulhane and Janardhan Kulkarni and Judy Hanwen Shen and Milad Shokouhi and
               Sergey Yekhanin},
  title     = {Differentially Private Set Union},
  booktitle = {International Conference on Machine Learning (ICML)},
  year      = {2020}
}"""
    synthetic_users: ClassVar[bool] = True
    on_cluster: ClassVar[bool] = True

    epsilon: float = field(default=4.0, metadata={"help": "privacy loss of each user; smaller is more private"})
    delta: float = field(default=1e-8, metadata={"help": "slack of the promise; at most 1e-6"})
    users: int | None = field(
        default=None, metadata={"help": "how many synthetic users to draw; by default the noisy number of people"}
    )
    mode: Mode = "safe"

    def __post_init__(self) -> None:
        require(
            real_number("epsilon", self.epsilon, at_least=LEAST_EPSILON, at_most=50, suggest=4.0),
            real_number("delta", self.delta, at_least=1e-15, at_most=LARGEST_DELTA, suggest=1e-8),
            whole_number("users", self.users, at_least=1, at_most=10**8, suggest=10_000, optional=True),
            one_of("mode", self.mode, MODES, suggest="safe"),
        )

    @property
    def budget(self) -> Budget:
        """The noise of every table."""
        return Budget(float(self.epsilon), float(self.delta))

    @property
    def rho(self) -> Fraction:
        """The release is ρ-zero-concentrated but for the δ of the unions: for an account that adds in ρ."""
        return self.budget.rho

    def guarantee(self) -> Guarantee:
        """(ε, δ)-DP of everything in the release, for all records of a person."""
        return ApproxDP(
            epsilon=float(self.epsilon),
            delta=float(self.delta),
            relation="all records of one user added or removed",
            detail=(
                "It covers everything that is published: the tables, the synthetic log, and how many records and "
                f"users it has. {len(SHARES)} tables share one Gaussian mechanism with rho = "
                f"{rounded_up(float(self.budget.rho))}, divided among them by fixed shares that go by the noisy number "
                "of people; "
                f"{float(UNION_DELTA):g} of delta is for texts, words, pairs of words and clicks that are published "
                "because enough people have them. Nobody is behind a synthetic user."
            ),
            assumptions=(ONE_ID_ONE_PERSON, TRUSTED_HOLDER, COMPUTATIONAL, FIXED_PARAMETERS),
            not_protected=("facts about large groups of people", "that the service exists and its log was used"),
        )

    def charge(self) -> Charge:
        """Everybody pays, whoever is in the log."""
        return Charge.dataset(epsilon=self.epsilon, delta=self.delta, concentrated=self.budget.concentrated)

    def canaries(self, noises: Iterator[Noise]) -> list[AddedPeople]:
        """Canaries that test the claim."""
        from queryveil.mechanisms.distill.canaries import added_people

        return added_people(self)

    def word_model(self, tables: Mapping[str, pl.DataFrame]) -> Language:
        """The model of words that the published tables make up, for who judges the release by it."""
        from queryveil.mechanisms.distill import published
        from queryveil.mechanisms.distill.language import Language

        return Language.of(published.parsed(tables, self.budget))

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        """Noisy tables, and a log drawn from them."""
        from queryveil.mechanisms.distill import published, tables
        from queryveil.mechanisms.distill.synthesis import RECORDS, Synthesis
        from queryveil.release.release import Release

        table = log.table()
        noisy = tables.collect(table, noise, self.budget)
        invented = table.log_of(Synthesis.of(noisy).records(self.users, noise), RECORDS)
        drawn = "synthetic: drawn from noisy tables"
        columns = dict.fromkeys(("query", "rank", "url"), drawn) | {
            "user": "synthetic: nobody is behind a user",
            "time": "synthetic: hours of the week and gaps from noisy tables, dates made up",
        }
        return Release.of_invented(self, invented, noise=noise, columns=columns, tables=published.frames(noisy))

"""Click logs that keep the table's shape: users, queries, clicked urls.

Hong, Vaidya, Lu and Wu (2012), "Differentially Private Search Log Sanitization with Optimal Output Utility": choose how
often each (query, url) pair shall appear, as good as the privacy constraints allow, and draw the users of each pair
from the input's own histogram. `mode="paper"` does that: O-UMP (`objective="size"`), F-UMP (`frequent`) and D-UMP
(`diversity`), rounding, sampling, and the Laplace step where `laplace_d` and `laplace_epsilon` are given.

Departs from the paper: its claim covers the sampling step only, for counts fixed independently of the data, and its
tables exceed what its own constraints allow (docs/sanitize.md). So `mode="safe"`, the default, publishes by another
procedure that is differentially private end to end: what enough people share, with noisy numbers of people, dealt out
to synthetic users. `selection="weighted"`, the default, publishes queries first and then clicks on them, with or
without a click (`weighted.py`, `proof.md`); `"capped"` publishes pairs in one step, with a fixed cap (`safe.py`).

The released log has one row for each count: a user who clicked a pair three times has three equal rows.
Cost: paper mode one linear program (`linear.py`) or local search (`diversity.py`); safe mode a few sorts.

>>> log = QueryLog.of([(f"user {k}", "weather", None, None, "sky.example") for k in range(300)])
>>> release = Sanitize(epsilon=2.0).protect(log, Noise.seeded(1))
>>> set(release.log.queries()), abs(len(release.log) - 300) < 100
({'weather'}, True)
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias

import numpy as np

from queryveil.arrays import Longs
from queryveil.checks import one_of, real_number, require, whole_number
from queryveil.errors import DataError, RefusedError, Remedy
from queryveil.log import QueryLog
from queryveil.log.query_log import Table
from queryveil.mechanisms.sanitize import blocks, diversity, laplace_step, objectives, safe, weighted
from queryveil.mechanisms.sanitize.canaries import AddedClickers, AddedSearchers, added_clickers, added_searchers
from queryveil.mechanisms.sanitize.constraints import Constraints, limit
from queryveil.mechanisms.sanitize.counts import ClickCounts
from queryveil.mechanisms.sanitize.laplace_step import NeighbourPrograms, size_segments, support_segments
from queryveil.mechanisms.sanitize.safe import Objective
from queryveil.mechanisms.sanitize.selection import Selection
from queryveil.mechanisms.sanitize.weighted_budget import WeightedSelection
from queryveil.privacy import ApproxDP, Charge, Guarantee, NoGuarantee, Noise
from queryveil.privacy.guarantee import (
    COMPARED_RELEASES,
    COMPUTATIONAL,
    FIXED_PARAMETERS,
    ONE_ID_ONE_PERSON,
    TRUSTED_HOLDER,
    rounded_up,
)
from queryveil.release.mechanism import MODES, PSEUDONYM, Mode
from queryveil.release.release import Release

OBJECTIVES: tuple[Objective, ...] = ("size", "frequent", "diversity")
SelectionName: TypeAlias = Literal["weighted", "capped"]
SELECTIONS: tuple[SelectionName, ...] = ("weighted", "capped")
CONTRIBUTIONS: dict[SelectionName, int] = {"weighted": 64, "capped": 20}
"""Queries, or pairs, of a user that are used at most, unless another number is given."""
PUBLISHED_WHERE: dict[SelectionName, dict[str, str]] = {
    "weighted": {
        "query": "published where enough people share the text, by a noisy sum of weights",
        "url": "published where enough people share the click; empty where a query had none, or none that is shared",
    },
    "capped": dict.fromkeys(("query", "url"), "published where enough people share the pair, by a noisy count"),
}
LARGEST_SAFE_DELTA = 1e-6
PAPER_DELTA = 0.5


def largest_safe_delta(population: int) -> float:
    """min(10^-6, 1/(10·N)) for a publicly known population of N."""
    return min(LARGEST_SAFE_DELTA, 1 / (10 * population))


@dataclass(frozen=True, kw_only=True)
class Sanitize:
    """Publish shared (query, url) pairs: differentially private with synthetic users, or as in the paper."""

    name: ClassVar[str] = "sanitize"
    title: ClassVar[str] = "Publish shared clicks"
    summary: ClassVar[str] = "Query and click pairs with noise, under invented users."
    sweep: ClassVar = {"epsilon": [1.0, 4.0]}
    effort: ClassVar[float] = 6.0
    paper_parameters: ClassVar = ("laplace_d", "laplace_epsilon")
    citation: ClassVar[str] = """@inproceedings{hong2012differentially,
  author    = {Yuan Hong and Jaideep Vaidya and Haibing Lu and Mingrui Wu},
  title     = {Differentially Private Search Log Sanitization with Optimal Output Utility},
  booktitle = {International Conference on Extending Database Technology (EDBT)},
  year      = {2012}
}"""
    synthetic_users: ClassVar[tuple[Mode, ...]] = ("safe",)

    objective: Objective = field(
        default="size", metadata={"help": "what to keep: size (records), frequent (shares), diversity (distinct pairs)"}
    )
    epsilon: float = field(default=2.0, metadata={"help": "privacy loss of each user; smaller is more private"})
    delta: float | None = field(
        default=None, metadata={"help": "slack; at most min(1e-6, 1/(10*population)), which is also the default"}
    )
    selection: SelectionName = field(
        default="weighted",
        metadata={"help": "weighted (queries first, then clicks on them) or capped (pairs at once, a fixed cap)"},
    )
    contribution: int | None = field(
        default=None,
        metadata={"help": "use at most this many distinct queries of a user (weighted, 64) or pairs (capped, 20)",
                  "label": "most that counts of a person", "shown": "at most {} of a person's queries or clicks count"},
    )  # fmt: skip
    support: float = field(default=0.002, metadata={"help": "frequent: the least share of a pair to be kept"})
    size: int | None = field(default=None, metadata={"help": "frequent: how many records to publish"})
    population: int = field(
        default=1_000_000, metadata={"help": "how many people the log is drawn from, as publicly known; limits delta"}
    )
    laplace_d: float | None = field(default=None, metadata={"help": "paper mode: d of the Laplace step"})
    laplace_epsilon: float | None = field(default=None, metadata={"help": "paper mode: epsilon' of the Laplace step"})
    mode: Mode = "safe"

    def __post_init__(self) -> None:
        require(
            one_of("objective", self.objective, OBJECTIVES, suggest="size"),
            real_number(
                "epsilon", self.epsilon, at_least=1e-3, at_most=100 if self.mode == "safe" else 1000, suggest=2.0
            ),
            real_number("delta", self.delta, at_least=1e-30, below=1, suggest=1e-7, optional=True),
            one_of("selection", self.selection, SELECTIONS, suggest="weighted"),
            whole_number("contribution", self.contribution, at_least=1, at_most=100_000, suggest=20, optional=True),
            real_number("support", self.support, above=0, at_most=1, suggest=0.002),
            whole_number("size", self.size, at_least=1, at_most=10**9, suggest=1000, optional=True),
            whole_number("population", self.population, at_least=1, at_most=10**11, suggest=1_000_000),
            real_number("laplace_d", self.laplace_d, above=0, at_most=10**6, suggest=1.0, optional=True),
            real_number("laplace_epsilon", self.laplace_epsilon, above=0, at_most=1000, suggest=0.1, optional=True),
            one_of("mode", self.mode, MODES, suggest="safe"),
        )
        require(
            None if self.size is None or self.objective == "frequent" else "size goes with objective frequent only.",
            None
            if (self.laplace_d is None) == (self.laplace_epsilon is None)
            else "laplace_d and laplace_epsilon go together: give both or none.",
            None
            if self.laplace_d is None or self.mode == "paper"
            else "the Laplace step belongs to mode paper; safe mode does not need it.",
        )
        if self.mode == "safe" and self.slack > largest_safe_delta(self.population):
            raise RefusedError(
                f"delta must be at most {largest_safe_delta(self.population):g} for a population of "
                f"{self.population}; got {self.delta:g}. A larger one lets somebody's records out with a probability "
                "that matters.",
                parameter="delta",
                given=f"{self.delta:g}",
                remedy=Remedy("delta"),
            )

    @property
    def slack(self) -> float:
        """δ in force: the one given, or the mode's default."""
        if self.delta is not None:
            return float(self.delta)
        return largest_safe_delta(self.population) if self.mode == "safe" else PAPER_DELTA

    @property
    def limit(self) -> float:
        """b of the paper's constraints."""
        return limit(epsilon=self.epsilon, delta=self.slack)

    @property
    def used(self) -> int:
        """How many distinct queries, or pairs, of a user are used at most."""
        return CONTRIBUTIONS[self.selection] if self.contribution is None else self.contribution

    @property
    def capped_rule(self) -> Selection:
        """Which pairs are kept with a fixed cap, and how their numbers of people are blurred."""
        return safe.rule(epsilon=self.epsilon, delta=self.slack, contribution=self.used, objective=self.objective)

    @property
    def weighted_rule(self) -> WeightedSelection:
        """The noise and the thresholds of weighted selection."""
        return WeightedSelection(
            epsilon=float(self.epsilon),
            delta=self.slack,
            most_queries=int(self.used),
            keys_only=self.objective == "diversity",
        )

    @property
    def on_cluster(self) -> bool:
        """Whether the records may lie on a cluster: in both modes, this machine sees shared pairs and sums only."""
        return True

    def guarantee(self) -> Guarantee:
        """Safe: (ε, δ)-DP of the whole procedure. Paper: the sampling step only."""
        return self._safe_promise() if self.mode == "safe" else self._paper_claim()

    def _safe_promise(self) -> Guarantee:
        return ApproxDP(
            epsilon=float(self.epsilon),
            delta=self.slack,
            relation="all records of one user added or removed",
            detail=self._weighted_detail() if self.selection == "weighted" else self._capped_detail(),
            assumptions=(ONE_ID_ONE_PERSON, TRUSTED_HOLDER, COMPUTATIONAL, FIXED_PARAMETERS),
            not_protected=("facts about large groups of people", "that the service exists and its log was used"),
        )

    def _weighted_detail(self) -> str:
        rule = self.weighted_rule
        most = rule.most_keys
        return (
            "It covers the queries, the clicks, the noisy numbers of people and everything derived from them, "
            f"synthetic users included. At most {most['queries']} distinct queries of a user were used, and "
            f"{most['clicks']} clicks on published queries, chosen at random: {rule.in_words()}. "
            f"{len(rule.sigmas)} steps, one after the other, share one Gaussian mechanism with rho = "
            f"{rounded_up(float(rule.rho))}; {rounded_up(float(rule.union_delta))} of delta is for queries and clicks "
            "of one person that come out by chance. No row corresponds to a person."
        )

    def _capped_detail(self) -> str:
        return (
            "It covers the pairs, the noisy numbers of people and everything derived from them, synthetic users "
            f"included. At most {self.used} distinct {'pair' if self.used == 1 else 'pairs'} of a "
            f"user were used, chosen at random; "
            f"{self.capped_rule.in_words()}. No row corresponds to a person."
        )

    def _paper_claim(self) -> Guarantee:
        b, chance = rounded_up(self.limit), rounded_up(-math.expm1(-self.limit))
        bound = (
            "For output counts x fixed independently of the data, and a given pair of logs "
            "differing in one user's whole log, the user-sampling step satisfies "
            f"Pr[R(D) in S] <= e^b Pr[R(D') in S] + (1 - e^-b) with b = {b}. "
        )
        appears = f"With probability up to {chance} a user's pseudonym appears with a true query and click. "
        if self.laplace_d is not None:
            bound = (
                f"The counts were computed under the constraints of b = {b}; the Laplace step then changes them and "
                "may break every user's constraint, so no bound holds; who was deleted before depends on the data. "
            )
            appears = "With any probability, also near 1, a user's pseudonym appears with a true query and click. "
        return NoGuarantee(
            reason=(
                f"sampling step only. {bound}"
                "The computation of x, the choice of pairs and the removal of unique pairs are not private. "
                f"{appears}No end-to-end differential privacy is claimed"
            ),
            assumptions=(ONE_ID_ONE_PERSON, TRUSTED_HOLDER),
            not_protected=(
                "which pairs at least two users share",
                "the output counts, which are computed from the private log",
                "what one pseudonym clicked, taken together",
                *COMPARED_RELEASES,
            ),
            evidence="paper",
        )

    def charge(self) -> Charge:
        """Safe mode spends from everybody; paper mode has no loss that adds up."""
        if self.mode != "safe":
            return Charge.nothing()
        concentrated = self.weighted_rule.concentrated if self.selection == "weighted" else None
        return Charge.dataset(epsilon=self.epsilon, delta=self.slack, concentrated=concentrated)

    def canaries(self, noises: Iterator[Noise]) -> list[AddedClickers] | list[AddedSearchers]:
        """Canaries that test the claim of safe mode."""
        if self.mode != "safe":
            return []
        return added_searchers(self.weighted_rule) if self.selection == "weighted" else added_clickers(self)

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        """Publish the log's shared pairs."""
        return self._protect_safely(log, noise) if self.mode == "safe" else self._protect_as_printed(log, noise)

    def _protect_safely(self, log: QueryLog, noise: Noise) -> Release:
        if self.selection == "weighted":
            published = weighted.publish(log.table(), noise, self.weighted_rule)
        else:
            published = safe.publish(
                log.table(), noise, epsilon=self.epsilon, contribution=self.used, selection=self.capped_rule
            )
        copies = safe.copies_for(
            published.people, objective=self.objective, support=float(self.support), size=self.size
        )
        columns = {"user": "synthetic: no row corresponds to a person", **PUBLISHED_WHERE[self.selection]}
        return Release.of(self, safe.synthetic_log(published, copies, noise), noise=noise, columns=columns)

    def _protect_as_printed(self, log: QueryLog, noise: Noise) -> Release:
        entries = blocks.shared_entries(log.table())
        counts = _count(entries)
        constraints = Constraints.of(counts, self.limit)
        if self.laplace_d is None or self.laplace_epsilon is None:
            x = self._solve(constraints, noise)
        else:
            noisy = laplace_step.with_laplace(
                constraints,
                self._printed_solve,
                self._without(constraints),
                noise,
                d=self.laplace_d,
                epsilon=self.laplace_epsilon,
            )
            counts, x = noisy.counts, noisy.x
            entries = blocks.of_users(entries, counts.user_names)
        drawn = blocks.sampled(entries, counts.pair_names, x, noise)
        sampled = "kept for the pairs that were chosen; the user of each record is sampled"
        columns = {"user": PSEUDONYM, "query": sampled, "url": sampled}
        return Release.of_table(self, drawn, noise=noise, columns=columns)

    def _solve(self, constraints: Constraints, noise: Noise) -> Longs:
        if self.objective == "diversity":
            return diversity.reproducibly_diverse(constraints, noise).y.astype(np.int64)
        optimum = self._linear_solve(constraints, "fill")
        return (objectives.searched_size(constraints, noise, optimum) if self.objective == "size" else optimum).x

    def _printed_solve(self, constraints: Constraints) -> Longs:
        """As the paper does: eliminated or rounded down."""
        if self.objective == "diversity":
            return diversity.eliminate(constraints).astype(np.int64)
        return self._linear_solve(constraints, "floor").x

    def _linear_solve(self, constraints: Constraints, rounding: objectives.Rounding) -> objectives.Optimum:
        if self.objective == "size":
            return objectives.greatest_size(constraints, rounding=rounding)
        return objectives.closest_supports(
            constraints, size=self._output_size(constraints), support=float(self.support), rounding=rounding
        )

    def _output_size(self, constraints: Constraints) -> int:
        """|O|: the one given, or what whole counts can reach."""
        return self.size or max(1, objectives.greatest_size(constraints).size)

    def _without(self, constraints: Constraints) -> laplace_step.Without:
        if self.objective == "diversity":
            return laplace_step.by_solver(constraints, self._printed_solve)
        if self.objective == "size":
            return laplace_step.by_programs(NeighbourPrograms(constraints, size_segments))
        size = self._output_size(constraints)
        segments = support_segments(size, float(self.support))
        return laplace_step.by_programs(NeighbourPrograms(constraints, segments, size=size))


def shared_counts(log: QueryLog) -> ClickCounts:
    """The clicks of a log on pairs of at least two users."""
    return _count(blocks.shared_entries(log.table()))


def _count(entries: Table) -> ClickCounts:
    """The shared entries on this machine: the solver needs all of them at once, and nothing else."""
    counts = ClickCounts.of(entries.collect())
    if not counts.pairs:
        raise DataError(
            "no (query, url) pair was clicked by two different users, so there is nothing that may be published. "
            "Check that the log has clicks (column url) and more than one user."
        )
    return counts

"""What is public about a semantic release before any data: its parameters, domain, law and losses."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal, TypeAlias, cast

import numpy as np

from queryveil.checks import one_of, real_number, require, whole_number
from queryveil.errors import KnowledgeError, RefusedError, Remedy
from queryveil.knowledge._store import file_digest
from queryveil.knowledge.odp import OpenDirectory
from queryveil.knowledge.phrases import PhraseMapper
from queryveil.knowledge.taxonomy import Taxonomy
from queryveil.knowledge.wordnet import WordNet
from queryveil.mechanisms.semantic.ball import BALL, ball, ball_repeated
from queryveil.mechanisms.semantic.calibration import Certified, Printed, calibrate, printed_loss
from queryveil.mechanisms.semantic.composition import calibrate_repeated, repeated
from queryveil.mechanisms.semantic.domain import Domain
from queryveil.mechanisms.semantic.law import Criterion
from queryveil.mechanisms.semantic.optimum import choose, choose_repeated
from queryveil.mechanisms.semantic.queries import Reader
from queryveil.release.mechanism import MODES, Mode, TimeTreatment, check_time, refuse_exact_times

Choice: TypeAlias = Literal["auto", "ball", "sqc1", "sqc2", "nsqc", "hbdp"]
PAPERS_OWN: Choice = "sqc1"
"""The paper's first criterion, which `auto` means in paper mode."""
CHOICES: tuple[Choice, ...] = ("auto", "ball", "sqc1", "sqc2", "nsqc", "hbdp")
Unit: TypeAlias = Literal["query", "user"]
Counts: TypeAlias = Literal["public", "padded"]
TaxonomySource: TypeAlias = tuple[str, str]

WORDNET = "wordnet"
LARGEST_EPSILON_PER_QUERY = 30.0
SMALLEST_EPSILON_PER_QUERY = 1e-6
LARGEST_SAFE_DELTA = 1e-6


@dataclass(frozen=True)
class Losses:
    """ε of one query; ε and δ of all queries of a user together."""

    per_query: Fraction
    per_user: Fraction
    delta: float


@dataclass(frozen=True, kw_only=True)
class SemanticParameters:
    """The public parameters, checked; and the domain, the law and the losses that follow from them."""

    epsilon: float = field(metadata={"help": "privacy loss, in the unit that per names; 1 is a usual value"})
    per: Unit = field(metadata={"help": "what epsilon is spent on: each query, or all queries of a user together"})
    criterion: Choice = field(
        default="auto",
        metadata={"help": "how replacements are preferred: auto (in paper mode sqc1), ball (the nearest few alike), "
                  "sqc1 (similar), sqc2 (similar and of the same topic), nsqc (the same or any other), hbdp (noisy "
                  "histogram)", "label": "how replacements are preferred",
                  "shown": {"auto": "nearest by default", "ball": "one of the nearest few alike",
                            "sqc1": "the more similar the likelier", "sqc2": "similar and of the same topic",
                            "nsqc": "the same query or any other", "hbdp": "drawn from a noisy histogram"}},
    )  # fmt: skip
    domain: str = field(
        default="all",
        metadata={"help": "concepts that replace each other: all, a root (disease), roots with a common one above "
                  "(disease,sport), or separate ones (disease|sport)"},
    )  # fmt: skip
    max_queries: int = field(default=100, metadata={"help": "queries published of a user at most; a public number"})
    topics: str = field(
        default="nineteen", metadata={"help": "topics that sqc2 keeps: four, nineteen, or roots (disease,sport)"}
    )
    counts: Counts = field(
        default="public",
        metadata={"help": "how many queries each user has: public, or padded to max_queries for everybody"},
    )
    delta: float = field(
        default=0.0, metadata={"help": "chance of a larger loss over all queries of a user: 0 for none, at most 1e-6"}
    )
    time: TimeTreatment = field(default="drop", metadata={"help": "what becomes of times: drop, day, hour or keep"})
    knowledge: str = field(
        default=WORDNET, metadata={"help": "the taxonomy: wordnet, or the file of an imported Open Directory"}
    )
    mode: Mode = "safe"

    def __post_init__(self) -> None:
        if self.mode == "paper" and self.criterion == "auto":
            object.__setattr__(self, "criterion", PAPERS_OWN)  # the paper chooses among no laws
        require(
            real_number("epsilon", self.epsilon, above=0, at_most=1e6, suggest=1.0),
            one_of("per", self.per, ("query", "user"), suggest="query"),
            one_of("criterion", self.criterion, CHOICES, suggest="auto"),
            whole_number("max_queries", self.max_queries, at_least=1, at_most=10**6, suggest=100),
            one_of("counts", self.counts, ("public", "padded"), suggest="public"),
            real_number("delta", self.delta, at_least=0, below=1, suggest=1e-6),
            check_time("time", self.time),
            one_of("mode", self.mode, MODES, suggest="safe"),
            *(
                None if isinstance(text, str) and text.strip() else f"{name} must be a text that is not empty."
                for name, text in (("domain", self.domain), ("topics", self.topics), ("knowledge", self.knowledge))
            ),
        )
        require(*self._combination_findings())
        refuse_exact_times(self.mode, self.time)
        if self.mode == "safe" and self.delta > LARGEST_SAFE_DELTA:
            raise RefusedError(
                f"delta must be at most {LARGEST_SAFE_DELTA:g}; got {self.delta:g}. A larger one gives somebody's "
                "queries away with a probability that matters.",
                parameter="delta",
                given=f"{self.delta:g}",
                remedy=Remedy("delta", LARGEST_SAFE_DELTA),
            )
        _ = self.public_domain  # refuses an unknown root now, not after the log was read

    def _combination_findings(self) -> list[str | None]:
        largest, smallest = LARGEST_EPSILON_PER_QUERY, SMALLEST_EPSILON_PER_QUERY
        share = float(Fraction(float(self.epsilon)) / (1 if self.per == "query" else self.max_queries))
        too_much = (
            f"epsilon must come to at most {largest:g} per query; got {share:g}, which protects nothing. Try 1.0."
        )
        too_little = (
            f"epsilon must come to at least {smallest:g} per query; got {share:g}, which is no better than drawing "
            "queries at random. Raise epsilon or lower max_queries."
        )
        paper = self.mode == "paper"
        return [
            too_much if share > largest else None,
            too_little if share < smallest else None,
            "criterion=ball is not in the paper. Use sqc1, sqc2, nsqc or hbdp in mode=paper."
            if paper and self.criterion == BALL else None,
            "delta is not in the paper. Leave it at 0 in mode=paper." if paper and self.delta else None,
            "delta has no use with hbdp, whose noise is spent once. Leave it at 0."
            if self.delta and self.criterion == "hbdp" else None,
            "counts=padded publishes queries without a time, which would show; use it with time=drop."
            if self.counts == "padded" and self.time != "drop" else None,
            "counts=padded is not in the paper. Use counts=public in mode=paper."
            if paper and self.counts == "padded" else None,
            "time=day, hour or keep has no use with hbdp, whose records are made up. Use time=drop."
            if self.criterion == "hbdp" and self.time != "drop" else None,
            "per=query is not in the paper for hbdp, which splits no ε. Use per=user in mode=paper."
            if paper and self.criterion == "hbdp" and self.per == "query" else None,
        ]  # fmt: skip

    @property
    def public_domain(self) -> Domain:
        """The concepts, before any data."""
        topics = self.topics if self.criterion == "sqc2" else None
        return _domain(self.source, self.domain, topics, self.mode == "safe")

    @cached_property
    def source(self) -> TaxonomySource:
        """The taxonomy's file and its SHA-256, taken once."""
        if self.knowledge == WORDNET:
            return WORDNET, ""
        path = Path(self.knowledge).resolve()
        try:
            return str(path), file_digest(path)
        except OSError as problem:
            raise KnowledgeError(f"cannot read the directory {path}: {problem.strerror}. Import it first.") from None

    @property
    def epsilon_per_query(self) -> Fraction:
        """ε of one query without δ: the whole of it, or an equal share of the user's."""
        return self._whole if self.per == "query" else self._whole / self.max_queries

    @property
    def _whole(self) -> Fraction:
        """A float counts as the decimal it prints as, as in the ledger."""
        return Fraction(repr(float(self.epsilon)))

    @cached_property
    def certified(self) -> Certified:
        """The law of safe mode with its certificate; calibrated on first use and kept in the cache folder."""
        domain = self.public_domain
        if self.delta and self.per == "user":
            together = (_float_down(self._whole), float(self.delta), int(self.max_queries))
            if self.criterion == "auto":
                return choose_repeated(domain, *together)
            if self.criterion == BALL:
                return ball_repeated(domain, *together)
            return calibrate_repeated(domain, self._criterion, *together)
        share = _float_down(self.epsilon_per_query)
        if self.criterion == BALL:
            return ball(domain, share)
        return choose(domain, share) if self.criterion == "auto" else calibrate(domain, self._criterion, share)

    @property
    def _criterion(self) -> Criterion:
        return cast(Criterion, self.criterion)

    @cached_property
    def losses(self) -> Losses:
        """What one query and what one user loses in safe mode; a user never less than a query."""
        plain = self.epsilon_per_query
        if not self.delta:
            return Losses(plain, plain * self.max_queries, 0.0)
        if self.per == "user":
            share = Fraction(self.certified.epsilon)
            return Losses(share, max(share, plain * self.max_queries), self.delta)
        together = Fraction(repeated(self.certified, self.max_queries, self.delta))
        return Losses(plain, max(plain, min(together, plain * self.max_queries)), self.delta)

    @cached_property
    def printed(self) -> Printed:
        """The exact worst case of the paper's own law for one phrase that is given the whole of ε."""
        return printed_loss(self.public_domain, self._criterion, float(self.epsilon))

    @property
    def reader(self) -> Reader:
        """Reads texts as concepts of the domain."""
        return _reader(self.source, self.public_domain)

    @property
    def histogram_rate(self) -> Fraction:
        """ε per user over Δ = 2·max, for hbdp."""
        return self.epsilon_per_query / 2


@lru_cache(maxsize=4)
def _taxonomy(source: TaxonomySource) -> Taxonomy:
    return WordNet.load().nouns if source[0] == WORDNET else OpenDirectory(source[0]).taxonomy()


@lru_cache(maxsize=4)
def _mapper(source: TaxonomySource) -> PhraseMapper:
    return PhraseMapper(_taxonomy(source), WordNet.load())


@lru_cache(maxsize=16)
def _domain(source: TaxonomySource, name: str, topics: str | None, outside: bool) -> Domain:
    made = Domain.named(_taxonomy(source), name, outside=outside, topics=topics)
    return made.recalled_by(_same_domain, (source, name, topics, outside, made.digest))


def _same_domain(source: TaxonomySource, name: str, topics: str | None, outside: bool, digest: str) -> Domain:
    """The domain of another process here, where the knowledge must be the same."""
    here = _domain(source, name, topics, outside)
    if here.digest != digest:
        raise KnowledgeError("the taxonomy on this machine is not the one the work was planned with. Install the same.")
    return here


@lru_cache(maxsize=8)
def _reader(source: TaxonomySource, domain: Domain) -> Reader:
    return Reader(_mapper(source), domain)


def _float_down(exact: Fraction) -> float:
    nearest = float(exact)
    return nearest if Fraction(nearest) <= exact else float(np.nextafter(nearest, 0.0))

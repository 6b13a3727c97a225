"""Differentially private queries that keep their meaning.

Sánchez, Batet, Viejo, Rodríguez-García and Castellà-Roca (2018), "A Semantic-Preserving Differentially Private Method
for Releasing Query Logs": every query becomes a concept of a public taxonomy and is replaced by a concept drawn
according to how similar it is (exponential mechanism). The release has the same users and the same number of queries
each.

Symbols: ε `epsilon`, max `max_queries`, P `topics`, D(q) `domain`, sim′ and eq. 12 `criterion`, m_x a user's queries.

Where safe mode departs from the paper, and why (spec 000-1 to 000-12):

- ε has a unit: `per` query or `per` user must be said; both figures are always told. The paper's curves need ε per
  query while its text spends ε per user.
- The exponent is calibrated to the exact loss over the public matrix (`calibration.py`); the factor 2 is not wasted.
- `criterion="auto"` takes the law that keeps most similarity: calibrated exponential mechanism, k-ary randomised
  response or, for small domains, a linear program's optimum (`chooser.py`).
- Phrases outside the domain become one public concept *outside* within the certificate, instead of being dropped.
- A query is one record: a log has one for every click, and a draw for each would spend ε as often (`records.py`).
  Where there are no times, clicks cannot be told from searches that are repeated, and every record counts as a query.
- One concept is read from each query; the text published is the concept's main label, never words of the input.
- The budget is split by a public `max_queries`; which of a user's further queries are left out is drawn at random.
- Several domains (`disease|sport`) are one law over all of them, so that the topic is paid for too.
- With `delta` (at most 10^-6), a user's queries are composed by privacy-loss distributions (`composition.py`).

Paper mode prints the paper: ε / 2Δ, every noun phrase a query, ε / m_x for each, the input's frame around the new label
(which copies its words), unmapped phrases discarded, a query stays in its domain. A user of whom nothing is mapped
keeps one record with the text for *outside*. It has no formal guarantee; the statement repeats the paper's claim.

Cost: some 50 µs to read each distinct text; one scan of the domain for each distinct concept in the log; then a binary
search for each query, whatever the size of the log.

>>> log = QueryLog.of([("ann", "asthma symptoms"), ("ann", "flu"), ("bob", "skin disease")])
>>> mechanism = SemanticRelease(epsilon=4.0, per="query", domain="disease", max_queries=10)
>>> mechanism.guarantee().headline()
'ε-differential privacy per query with ε = 4'
>>> len(mechanism.protect(log, Noise.seeded(1)).log)
3
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from pathlib import Path
from typing import ClassVar, Literal, TypeAlias, cast

import numpy as np
import polars as pl

from queryveil.checks import one_of, real_number, require, whole_number
from queryveil.errors import KnowledgeError, RefusedError
from queryveil.knowledge._store import file_digest
from queryveil.knowledge.odp import OpenDirectory
from queryveil.knowledge.phrases import PhraseMapper
from queryveil.knowledge.taxonomy import Taxonomy
from queryveil.knowledge.wordnet import WordNet
from queryveil.log import QueryLog
from queryveil.mechanisms.semantic import blocks, chooser, histogram, paper_mode, promise
from queryveil.mechanisms.semantic.calibration import Certified, calibrate
from queryveil.mechanisms.semantic.composition import calibrate_repeated, repeated
from queryveil.mechanisms.semantic.domain import Domain
from queryveil.mechanisms.semantic.law import Criterion
from queryveil.mechanisms.semantic.reader import Reader
from queryveil.privacy import Charge, Guarantee, Noise
from queryveil.release.mechanism import MODES, PSEUDONYM, Mode, Release
from queryveil.release.treatments import (
    TimeTreatment,
    check_time,
    refuse_exact_times,
    time_in_words,
)

Choice: TypeAlias = Literal["auto", "sqc1", "sqc2", "nsqc", "hbdp"]
PAPERS_OWN: Choice = "sqc1"
"""The paper's first criterion, which `auto` means in paper mode."""
CHOICES: tuple[Choice, ...] = ("auto", "sqc1", "sqc2", "nsqc", "hbdp")
Unit: TypeAlias = Literal["query", "user"]
Counts: TypeAlias = Literal["public", "padded"]
Source: TypeAlias = tuple[str, str]

WORDNET = "wordnet"
LARGEST_EPSILON_PER_QUERY = 30.0
SMALLEST_EPSILON_PER_QUERY = 1e-6
LARGEST_SAFE_DELTA = 1e-6


@dataclass(frozen=True, kw_only=True)
class SemanticRelease:
    """Replace every query by one of similar meaning, with differential privacy."""

    name: ClassVar[str] = "semantic"
    title: ClassVar[str] = "Replace by similar meaning"
    summary: ClassVar[str] = "Every query becomes one of similar meaning, at random."
    sweep: ClassVar = {"epsilon": [1.0, 10.0], "per": "query", "criterion": "nsqc"}
    text_parameters: ClassVar = ("domain", "topics")
    citation: ClassVar[str] = """@article{sanchez2018semantic,
  author  = {David S{\\'a}nchez and Montserrat Batet and Alexandre Viejo and
             Mercedes Rodr{\\'\\i}guez-Garc{\\'\\i}a and Jordi Castell{\\`a}-Roca},
  title   = {A semantic-preserving differentially private method for releasing query logs},
  journal = {Information Sciences},
  year    = {2018}
}"""

    epsilon: float = field(metadata={"help": "privacy loss, in the unit that --per names; 1 is a usual value"})
    per: Unit = field(metadata={"help": "what --epsilon is spent on: each query, or all queries of a user together"})
    criterion: Choice = field(
        default="auto",
        metadata={"help": "how replacements are preferred: auto (in paper mode sqc1), sqc1 (similar), sqc2 (similar "
                  "and of the same topic), nsqc (the same or any other), hbdp (noisy histogram)"},
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
        metadata={"help": "how many queries each user has: public, or padded to --max-queries for everybody"},
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
                "queries away with a probability that matters. Use 1e-6, or 0 for none."
            )
        _ = self.public_domain  # an unknown root is told now, not after the log was read

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

    # What is promised

    @property
    def public_domain(self) -> Domain:
        """The concepts, before any data."""
        topics = self.topics if self.criterion == "sqc2" else None
        return _domain(self.source, self.domain, topics, self.mode == "safe")

    @cached_property
    def source(self) -> Source:
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
        """ε of one query without δ: the whole of it, or an equal share of the user's.

        A float counts as the decimal it prints as, as in the ledger.
        """
        whole = Fraction(repr(float(self.epsilon)))
        return whole if self.per == "query" else whole / self.max_queries

    @cached_property
    def certified(self) -> Certified:
        """The law of safe mode with its certificate; calibrated on first use and kept in the cache folder."""
        domain = self.public_domain
        if self.delta and self.per == "user":
            together = (float(self.epsilon), float(self.delta), int(self.max_queries))
            if self.criterion == "auto":
                return chooser.choose_repeated(domain, *together)
            return calibrate_repeated(domain, self._criterion, *together)
        share = _float_down(self.epsilon_per_query)
        return chooser.choose(domain, share) if self.criterion == "auto" else calibrate(domain, self._criterion, share)

    @property
    def _criterion(self) -> Criterion:
        return cast(Criterion, self.criterion)

    @cached_property
    def losses(self) -> promise.Losses:
        """What one query and what one user loses in safe mode; a user never less than a query."""
        plain = self.epsilon_per_query
        if not self.delta:
            return promise.Losses(plain, plain * self.max_queries, 0.0)
        if self.per == "user":
            share = Fraction(self.certified.epsilon)
            return promise.Losses(share, max(share, plain * self.max_queries), self.delta)
        together = Fraction(repeated(self.certified, self.max_queries, self.delta))
        return promise.Losses(plain, max(plain, min(together, plain * self.max_queries)), self.delta)

    @cached_property
    def printed(self) -> paper_mode.Printed:
        """The exact worst case of the paper's own law for one phrase that is given the whole of ε."""
        return paper_mode.printed_loss(self.public_domain, self._criterion, float(self.epsilon))

    def guarantee(self) -> Guarantee:
        """Differential privacy for a query or a user, with the figure for the other in words; none in paper mode."""
        return promise.in_paper_mode(self) if self.mode == "paper" else promise.in_safe_mode(self)

    def charge(self) -> Charge:
        """What each person in the release loses, all queries together; paper mode has no loss that adds up."""
        if self.mode == "paper":
            return Charge.nothing()
        return Charge.people(epsilon=self.losses.per_user, delta=self.losses.delta)

    # The work

    @property
    def reader(self) -> Reader:
        """Reads texts as concepts of the domain."""
        return _reader(self.source, self.public_domain)

    @property
    def on_cluster(self) -> bool:
        """Whether a cluster can do it: paper mode counts a user's phrases over the whole log and is for small logs."""
        return self.mode == "safe"

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        """Replace every query; leave out what exceeds the public maximum."""
        if self.mode == "paper":
            return paper_mode.protect(self, log, noise)
        if self.criterion == "hbdp":
            histogram.check_size(log.user_count(), len(self.public_domain), self.histogram_rate)
        columns = {"user": PSEUDONYM, "query": promise.query_in_words(self)}
        if self.criterion != "hbdp":
            columns["time"] = time_in_words(self.time)
        replaced = blocks.replaced(self, log.table(), noise)
        return self._told(Release.of_table(self, replaced, noise=noise, columns=columns))

    @property
    def histogram_rate(self) -> Fraction:
        """ε per user over Δ = 2·max, for hbdp."""
        return self.epsilon_per_query * self.max_queries / (2 * self.max_queries)

    def closed(self, frame: pl.DataFrame, users: pl.Series, columns: Mapping[str, str], noise: Noise) -> Release:
        """The release of a finished frame, for paper mode."""
        names = noise.pseudonyms(users)
        return self._told(Release.of(self, QueryLog(frame), noise=noise, columns=columns, pseudonyms=names))

    def _told(self, release: Release) -> Release:
        """Parameters name an imported directory by content, not by a path on the holder's machine."""
        if self.knowledge == WORDNET:
            return release
        return replace(release, parameters={**release.parameters, "knowledge": f"sha256:{self.source[1]}"})


@lru_cache(maxsize=4)
def _taxonomy(source: Source) -> Taxonomy:
    return WordNet.load().nouns if source[0] == WORDNET else OpenDirectory(source[0]).taxonomy()


@lru_cache(maxsize=4)
def _mapper(source: Source) -> PhraseMapper:
    return PhraseMapper(_taxonomy(source), WordNet.load())


@lru_cache(maxsize=16)
def _domain(source: Source, name: str, topics: str | None, outside: bool) -> Domain:
    made = Domain.named(_taxonomy(source), name, outside=outside, topics=topics)
    return made.recalled_by(_same_domain, (source, name, topics, outside, made.digest))


def _same_domain(source: Source, name: str, topics: str | None, outside: bool, digest: str) -> Domain:
    """The domain of another process here, where the knowledge must be the same."""
    here = _domain(source, name, topics, outside)
    if here.digest != digest:
        raise KnowledgeError("the taxonomy on this machine is not the one the work was planned with. Install the same.")
    return here


@lru_cache(maxsize=8)
def _reader(source: Source, domain: Domain) -> Reader:
    return Reader(_mapper(source), domain)


def _float_down(exact: Fraction) -> float:
    nearest = float(exact)
    return nearest if Fraction(nearest) <= exact else float(np.nextafter(nearest, 0.0))

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
- `criterion="auto"` takes the law that keeps most similarity: the ball law (`ball.py`), the calibrated exponential
  mechanism, k-ary randomised response or, for small domains, a linear program's optimum (`optimum.py`).
- Phrases outside the domain become one public concept *outside* within the certificate, instead of being dropped.
- A query is one record: a log has one for every click, and a draw for each would spend ε as often (`queries.py`).
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
>>> mechanism = Semantic(epsilon=4.0, per="query", domain="disease", max_queries=10)
>>> mechanism.guarantee().headline()
'ε-differential privacy per query with ε = 4'
>>> len(mechanism.protect(log, Noise.seeded(1)).log)
3
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from queryveil.log import QueryLog
from queryveil.mechanisms.semantic import blocks, histogram, paper_mode, promise
from queryveil.mechanisms.semantic.canaries import ReplacedQueries, replaced_queries
from queryveil.mechanisms.semantic.parameters import WORDNET, SemanticParameters
from queryveil.mechanisms.semantic.text_law import TextLaw
from queryveil.privacy import Charge, Guarantee, Noise
from queryveil.release.mechanism import PSEUDONYM, Mode, time_in_words
from queryveil.release.release import Release


@dataclass(frozen=True, kw_only=True)
class Semantic(SemanticParameters):
    """Replace every query by one of similar meaning, with differential privacy."""

    name: ClassVar[str] = "semantic"
    title: ClassVar[str] = "Replace by similar meaning"
    summary: ClassVar[str] = "Every query becomes one of similar meaning, at random."
    sweep: ClassVar = {"epsilon": [1.0, 10.0], "per": "query", "criterion": "nsqc"}
    effort: ClassVar[float] = 4.0
    text_parameters: ClassVar = ("domain", "topics")
    citation: ClassVar[str] = """@article{sanchez2018semantic,
  author  = {David S{\\'a}nchez and Montserrat Batet and Alexandre Viejo and
             Mercedes Rodr{\\'\\i}guez-Garc{\\'\\i}a and Jordi Castell{\\`a}-Roca},
  title   = {A semantic-preserving differentially private method for releasing query logs},
  journal = {Information Sciences},
  year    = {2018}
}"""
    replaces_texts: ClassVar[bool] = True
    publishes_labels: ClassVar[tuple[Mode, ...]] = ("safe",)
    one_record_per_query: ClassVar[tuple[Mode, ...]] = ("safe",)

    def guarantee(self) -> Guarantee:
        """Differential privacy for a query or a user, with the figure for the other in words; none in paper mode."""
        return promise.in_paper_mode(self) if self.mode == "paper" else promise.in_safe_mode(self)

    def charge(self) -> Charge:
        """What each person in the release loses, all queries together; paper mode has no loss that adds up."""
        if self.mode == "paper":
            return Charge.nothing()
        return Charge.people(epsilon=self.losses.per_user, delta=self.losses.delta)

    def canaries(self, noises: Iterator[Noise]) -> list[ReplacedQueries]:
        """Canaries that test the claim of safe mode."""
        return replaced_queries(self, noises) if self.mode == "safe" else []

    def text_law(self) -> TextLaw | None:
        """How likely each text becomes each other one; None where that is not drawn query by query."""
        return TextLaw(self) if self.mode == "safe" and self.criterion != "hbdp" else None

    @property
    def on_cluster(self) -> bool:
        """Whether a cluster can do it: paper mode counts a user's phrases over the whole log and is for small logs."""
        return self.mode == "safe"

    def protect(self, log: QueryLog, noise: Noise) -> Release:
        """Replace every query; leave out what exceeds the public maximum."""
        draws = self.criterion != "hbdp"
        columns = {"user": PSEUDONYM, "query": promise.query_in_words(self)}
        if draws:
            columns["time"] = time_in_words(self.time)
        if self.mode == "paper":
            frame, users = paper_mode.replace_queries(self, log, noise)
            names = noise.pseudonyms(users)
            release = Release.of(self, QueryLog(frame), noise=noise, columns=columns, pseudonyms=names)
        else:
            if not draws:
                histogram.check_size(log.user_count(), len(self.public_domain), self.histogram_rate)
            table = blocks.replace_queries(self, log.table(), noise)
            release = Release.of_table(self, table, noise=noise, columns=columns)
        if self.knowledge == WORDNET:
            return release
        by_content = {"knowledge": f"sha256:{self.source[1]}"}  # a path would tell about the holder's machine
        return replace(release, parameters={**release.parameters, **by_content})

"""Which records of a log are one query, and which concept of a domain a query is.

The concept is that of Sánchez et al. (2018), section 3.4, by `queryveil.knowledge.phrases`. Of several senses of a
label the first that lies in the domain counts, else the phrase is outside.

Safe mode reads one concept from each query, so that how many noun phrases a query has is not revealed: the most
specific one (most subsumers), of equals the last, which an English query usually is about. Paper mode makes every noun
phrase a query of its own.

Cost: some 50 µs for every distinct text.

>>> from queryveil.knowledge.wordnet import WordNet
>>> domain = Domain.named(WordNet.load().nouns, "disease", outside=True)
>>> reader = Reader(PhraseMapper.of_nouns(WordNet.load()), domain)
>>> [domain.name_of(c) for c in reader.concepts(["flu season", "how to treat asthma", "football"])]
['(outside)', 'asthma.n.01', '(outside)']
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import polars as pl

from queryveil.arrays import Array
from queryveil.knowledge.phrases import Frame, PhraseMapper
from queryveil.log.query_log import FIRST_OF_QUERY, QUERY
from queryveil.mechanisms.semantic.domain import Domain
from queryveil.privacy.noise import NoiseStream

UNMAPPED = -1
MOST_REMEMBERED = 500_000


def asked(records: pl.DataFrame) -> pl.DataFrame:
    """One record for every query: `QUERY`, in no particular order.

    A log has one record for every click, so a query with five clicks is there five times. Five draws for it would cost
    five times its ε and tell how many clicks it had. Records without a time cannot be told from searches that were
    repeated: each of them counts as a query.

    >>> from datetime import datetime
    >>> noon = datetime(2026, 1, 2, 12)
    >>> rows = [("ann", "tulips", noon, "s"), ("ann", "tulips", noon, "s"), ("ann", "tea", None, None)]
    >>> log = pl.DataFrame(rows + rows[2:], schema=QUERY, orient="row")
    >>> sorted(asked(log)["query"])
    ['tea', 'tea', 'tulips']
    """
    return records.select(QUERY).filter(FIRST_OF_QUERY)


def within_maximum(frame: pl.DataFrame, most: int, stream: NoiseStream, weight: str | None = None) -> pl.DataFrame:
    """At most `most` records of each user, chosen at random (or so many that the column `weight` sums up to `most`)."""
    cost = "\0cost"  # cannot collide: the frame holds canonical columns only
    costly = frame.with_columns((pl.repeat(1, pl.len()) if weight is None else pl.col(weight)).alias(cost))
    if (costly.group_by("user").agg(pl.col(cost).sum())[cost] > most).any():
        shuffled = costly[stream.permutation(frame.height)]
        costly = shuffled.filter(pl.col(cost).cum_sum().over("user") <= most)
    return costly.drop(cost)


@dataclass(frozen=True, slots=True)
class QueryReading:
    """A query with the domain's concept of each of its noun phrases, −1 for those that have none."""

    frame: Frame
    concepts: tuple[int, ...]


class Reader:
    """Reads queries as concepts of one domain."""

    def __init__(self, mapper: PhraseMapper, domain: Domain) -> None:
        self.mapper, self.domain = mapper, domain
        senses = mapper.taxonomy.senses
        place = domain.places(len(mapper.taxonomy))[senses.values]
        first = np.full(len(senses) + 1, UNMAPPED, np.int32)
        inside = np.flatnonzero(place >= 0)[::-1]  # the first sense of a label is written last
        first[senses.owners()[inside]] = place[inside]
        self._by_label: list[int] = first.tolist()  # the last entry serves label −1
        self._depth: list[int] = domain.arrays.subsumer_counts.tolist()
        self._remembered: dict[str, int] = {}
        self._lock = threading.Lock()

    def concepts_of(self, queries: pl.Series) -> Array:
        """One concept for each query, each distinct text read once; the last half million texts are remembered."""
        if not len(queries):
            return np.empty(0, np.int32)
        texts = queries.unique()
        with self._lock:  # the reading keeps caches that are not made for several threads
            if len(self._remembered) > MOST_REMEMBERED:
                self._remembered.clear()
            known = self._remembered
            new = [text for text in texts.to_list() if text not in known]
            known.update(zip(new, self.concepts(new).tolist(), strict=True))
            found = pl.Series([known[text] for text in texts.to_list()], dtype=pl.Int32)
        return queries.replace_strict(texts, found, return_dtype=pl.Int32).to_numpy()

    def concepts(self, queries: Sequence[str]) -> Array:
        """One concept for each query; *outside* where no noun phrase lies in the domain."""
        by_label, depth, outside = self._by_label, self._depth, self.domain.outside
        tokens, phrases = self.mapper.tagger.tokens, self.mapper.phrases
        found = np.empty(len(queries), np.int32)
        for place, query in enumerate(queries):
            best, most = outside, 0
            for phrase in phrases(tokens(query)):
                concept = by_label[phrase.label]
                if concept >= 0 and depth[concept] >= most:
                    best, most = concept, depth[concept]
            found[place] = best
        return found

    def reading(self, query: str) -> QueryReading:
        """The query with a concept for each noun phrase, for paper mode."""
        frame = self.mapper.frame(query)
        return QueryReading(frame, tuple(self._by_label[phrase.label] for phrase in frame.phrases))

"""What obfuscated queries still find, and how much they look like the true one.

Faggioli and Ferro (2024), section 4. The searcher sends n other queries, pools the top results of all and ranks the
pool at home under the true query. Measured are

- **Jaccard** of the word sets and **similarity** (cosine of sentence vectors) of each obfuscation with the query; the
  paper calls 1 − similarity the *obfuscation*. Neither is a privacy measure: see `attacks.likelihood`.
- **pooled recall**: relevant documents in the pool, of all relevant ones. A large pool of a small collection finds much
  by luck, so the recall that a random pool of the same size has on average stands beside it. The released evaluation of
  the paper averages over queries with a hit only; `recall="paper_script"` does the same, the default counts zeros.
- **nDCG@10** of the pool after ranking it at home, by `ir-measures` (extra `retrieval`), with linear gain as there and
  in trec_eval; `gain="exponential"` counts a grade g as 2^g − 1.

>>> jaccard("throat cancer", "neck cancer")
0.3333333333333333
>>> round(expected_jaccard(words=3, keep=0.5), 4)
0.3875
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from math import comb
from typing import Any, ClassVar, Literal

import numpy as np
import polars as pl

from queryveil.audit.context import AuditContext
from queryveil.audit.finding import (
    CANNOT_BE_MADE_AGAIN,
    Found,
    LeftOut,
    kept,
)
from queryveil.checks import one_of, real_number, require, whole_number
from queryveil.errors import DataError, QueryVeilError, UsageError
from queryveil.knowledge.collections import Collection
from queryveil.knowledge.engines import LexicalEngine, SearchEngine
from queryveil.knowledge.sentences import Encoder
from queryveil.log import QueryLog
from queryveil.privacy import Noise

RecallStyle = Literal["zeros_counted", "paper_script"]
Gain = Literal["linear", "exponential"]
Judgements = Mapping[str, Mapping[str, int]]


def jaccard(query: str, other: str) -> float:
    """Shared words of all words, as sets, ignoring case; 1 for two empty queries."""
    mine, theirs = set(query.lower().split()), set(other.lower().split())
    together = mine | theirs
    return len(mine & theirs) / len(together) if together else 1.0


def expected_jaccard(*, words: int, keep: float) -> float:
    """The mean Jaccard of a query of different words of which each is kept with one probability, else made new.

    J = k / (2m − k) for k of m words kept, and k is binomial.
    """
    require(
        whole_number("words", words, at_least=1, suggest=3),
        real_number("keep", keep, at_least=0, at_most=1, suggest=0.5),
    )
    chances = (comb(words, k) * keep**k * (1 - keep) ** (words - k) for k in range(words + 1))
    return sum(chance * k / (2 * words - k) for k, chance in enumerate(chances))


def mean_jaccard(queries: Mapping[str, str], obfuscations: Mapping[str, Sequence[str]]) -> float:
    """The mean over queries of the mean over their obfuscations."""
    by_query = [
        np.mean([jaccard(queries[q], other) for other in others]) for q, others in obfuscations.items() if others
    ]
    return _mean(by_query)


def mean_similarity(queries: Mapping[str, str], obfuscations: Mapping[str, Sequence[str]], encoder: Encoder) -> float:
    """The mean cosine of sentence vectors, over queries and then over their obfuscations."""
    asked = [query for query, others in obfuscations.items() if others]
    texts = sorted({queries[query] for query in asked} | {text for query in asked for text in obfuscations[query]})
    vectors = dict(zip(texts, encoder.encode(texts), strict=True))  # a text that comes back often is read once
    return _mean(
        [np.mean([vectors[queries[query]] @ vectors[other] for other in obfuscations[query]]) for query in asked]
    )


@dataclass(frozen=True)
class PooledRecall:
    """Mean recall of pools, and the mean recall that random pools of the same sizes have on average."""

    recall: float
    by_chance: float
    pool_size: float
    """Documents in a pool, on average."""


def pools(
    collection: Collection, obfuscations: Mapping[str, Sequence[str]], engine: SearchEngine, depth: int
) -> dict[str, list[str]]:
    """For each query the documents that any of its obfuscations found within `depth`; the first found come first.

    `engine` must answer with places in the order of the collection's documents.
    """
    ids = list(collection.documents)
    texts = sorted({text for others in obfuscations.values() for text in others})
    found = dict(zip(texts, engine.search(texts, depth), strict=True))
    return {
        query: list(dict.fromkeys(ids[place] for other in others for place in found[other].tolist()))
        for query, others in obfuscations.items()
    }


def pooled_recall(
    pooled: Mapping[str, Sequence[str]],
    judgements: Judgements,
    *,
    documents: int,
    recall: RecallStyle = "zeros_counted",
) -> PooledRecall:
    """Recall of each query's pool, averaged; `documents` is the size of the collection.

    A query of the pools must have a relevant document. With `paper_script` queries without a hit do not count, neither
    for the recall nor for chance.
    """
    require(
        one_of("recall", recall, ("zeros_counted", "paper_script"), suggest="zeros_counted"),
        whole_number("documents", documents, at_least=1, suggest=1000),
    )
    shares, chances = [], []
    for query, pool in pooled.items():
        relevant = {document for document, grade in judgements[query].items() if grade >= 1}
        if not relevant:
            raise DataError("a query has no relevant document; its recall means nothing. Leave such queries out.")
        hits = len(relevant & set(pool))
        if hits or recall == "zeros_counted":
            shares.append(hits / len(relevant))
            chances.append(len(set(pool)) / documents)  # each document is in a random pool with this probability
    sizes = [len(set(pool)) for pool in pooled.values()]
    return PooledRecall(_mean(shares), _mean(chances), _mean(sizes))


def reranked(pooled: Mapping[str, Sequence[str]], order: Mapping[str, Sequence[str]]) -> dict[str, list[str]]:
    """Each pool in the order of a ranking at home; documents that the ranking does not name come last."""
    ranked = {}
    for query, pool in pooled.items():
        inside = set(pool)
        named = [document for document in order[query] if document in inside]
        ranked[query] = named + sorted(inside - set(named))
    return ranked


def home_rankings(collection: Collection, queries: Sequence[str], engine: SearchEngine) -> dict[str, list[str]]:
    """The whole collection ranked under each true query; restricted to a pool it is the ranking of the pool at home.

    A score of these engines depends on text and query alone once the index is made, so one ranking serves all pools.
    """
    ids = list(collection.documents)
    found = engine.search([collection.queries[query] for query in queries], len(ids))
    return {query: [ids[place] for place in places.tolist()] for query, places in zip(queries, found, strict=True)}


def ndcg(
    ranked: Mapping[str, Sequence[str]], judgements: Judgements, *, depth: int = 10, gain: Gain = "linear"
) -> float:
    """nDCG at a depth, averaged over the queries that were ranked; an empty ranking counts as 0."""
    require(
        one_of("gain", gain, ("linear", "exponential"), suggest="linear"),
        whole_number("depth", depth, at_least=1, at_most=10_000, suggest=10),
    )
    if find_spec("ir_measures") is None:
        raise UsageError("nDCG needs ir-measures. pip install 'queryveil[retrieval]'")
    import ir_measures

    qrels = {
        query: {document: grade if gain == "linear" else 2**grade - 1 for document, grade in judgements[query].items()}
        for query in ranked
    }
    # Scores fall with the rank; an empty ranking gets a document that nobody judged, so that it counts as 0.
    run = {
        query: {document: -float(rank) for rank, document in enumerate(documents)} or {"": 0.0}
        for query, documents in ranked.items()
    }
    measure = ir_measures.nDCG @ depth
    return float(ir_measures.calc_aggregate([measure], qrels, run)[measure])


def _mean(values: Sequence[Any]) -> float:
    return float(np.mean(values)) if len(values) else float("nan")


POOL_DEPTH = 100


class Retrieval:
    """What a search engine finds for the released texts in place of a collection's queries."""

    key: ClassVar[str] = "retrieval"
    title: ClassVar[str] = "Retrieval"
    task: ClassVar[str] = "retrieval"
    needs_collection: ClassVar[bool] = True

    def run(self, context: AuditContext) -> Found:
        """The findings, or what is missing."""
        title = self.title
        if context.collection is None:
            yield LeftOut(title=title, reason="needs a collection of documents", by_settings=True)
            return
        if not context.declares("replaces_texts"):
            reason = "texts are released as typed, or not at all: what is there finds the same"
            yield LeftOut(title=title, reason=reason, by_settings=True)
            return
        try:
            found = _retrieved(context, context.collection)
        except QueryVeilError:
            yield LeftOut(title=title, reason=CANNOT_BE_MADE_AGAIN)
            return
        (recall, true_recall), (gain, true_gain, chance_gain), queries = found
        yield kept(
            "retrieval-recall", "Relevant documents still found", "retrieval", recall.recall,
            f"Mean over the collection's queries of the share of relevant documents within the first {POOL_DEPTH} of "
            "any text released in place of the query (BM25).", raw=true_recall.recall, chance=recall.by_chance,
            trials=queries,
        )  # fmt: skip
        yield kept(
            "retrieval-ndcg", "Ranking at home (nDCG@10)", "retrieval", gain,
            "nDCG at 10 of what was found, ranked at home under the true query.", raw=true_gain, chance=chance_gain,
            trials=queries,
        )  # fmt: skip


def _retrieved(
    context: AuditContext, collection: Collection
) -> tuple[tuple[PooledRecall, PooledRecall], tuple[float, float, float], int]:
    """Pooled recall and nDCG of what is released in place of the queries, beside the true ones, and a random pool."""
    asked = QueryLog(pl.DataFrame({"user": list(collection.queries), "query": list(collection.queries.values())}))
    release = context.made_again().protect(asked, context.fresh_noise())
    assert release.owners is not None
    rows = zip(release.owners.to_list(), release.log.queries(), strict=True)
    sent: dict[str, list[str]] = {query: [] for query in collection.queries}
    for query, text in rows:
        sent[query].append(text)
    engine = LexicalEngine.bm25(list(collection.documents.values()))
    home = home_rankings(collection, list(sent), engine)
    recalls, gains = [], []
    for texts in (sent, {query: [text] for query, text in collection.queries.items()}):
        pooled = pools(collection, texts, engine, POOL_DEPTH)
        recalls.append(pooled_recall(pooled, collection.judgements, documents=len(collection.documents)))
        gains.append(ndcg(reranked(pooled, home), collection.judgements))
        if len(gains) == 1:
            drawn = _random_pools(
                collection, {query: len(pool) for query, pool in pooled.items()}, context.fresh_noise()
            )
    by_chance = ndcg(reranked(drawn, home), collection.judgements)
    return (recalls[0], recalls[1]), (gains[0], gains[1], by_chance), len(sent)


def _random_pools(collection: Collection, sizes: Mapping[str, int], noise: Noise) -> dict[str, list[str]]:
    """As many documents for each query, drawn from the collection: what is found by who knows nothing of the query."""
    ids = list(collection.documents)
    draws = noise.streams("floor: pools", len(sizes))
    return {
        query: [ids[int(place)] for place in draws[turn].permutation(len(ids))[:size]]
        for turn, (query, size) in enumerate(sizes.items())
    }

"""Releases that put other texts in place of those asked: which words they give away, and what they still find."""

from __future__ import annotations

from typing import Final

import numpy as np
import polars as pl

from queryveil.audit.attacks.likelihood import recovery
from queryveil.audit.context import Material
from queryveil.audit.finding import LeftOut
from queryveil.audit.measures.retrieval import PooledRecall, home_rankings, ndcg, pooled_recall, pools, reranked
from queryveil.audit.shaping import CANNOT_BE_MADE_AGAIN, REPLACES_TEXTS, Found, kept, risk
from queryveil.errors import QueryVeilError
from queryveil.knowledge.collections import Collection
from queryveil.knowledge.engines import LexicalEngine
from queryveil.log import QueryLog
from queryveil.mechanisms.obfuscate import Obfuscation

WORDS, SHORTLIST, DRAWS = 20, 5, 50
POOL_DEPTH: Final = 100


def likelihood(material: Material) -> Found:
    """Which words obfuscations came from, for releases that replace words one by one."""
    if material.mechanism != "obfuscate":
        return
    title = "Words recovered by likelihood"
    try:
        mechanism = material.made_again()
    except QueryVeilError:
        yield LeftOut(title=title, reason=CANNOT_BE_MADE_AGAIN, required=True, by_settings=True)
        return
    if not isinstance(mechanism, Obfuscation) or mechanism.guarantee().model != "metric-dp":
        yield LeftOut(title=title, reason="the release does not replace words one by one", by_settings=True)
        return
    numbers = mechanism.vectors.numbers
    typed = material.original.frame["query"].unique().str.to_lowercase().str.split(" ").explode().unique().sort()
    known = np.array([numbers[word] for word in typed.to_list() if word in numbers], np.int64)
    if not len(known):
        yield LeftOut(title=title, reason="no word of the raw log is in the vocabulary")
        return
    noise = material.fresh_noise()
    some = known[np.sort(noise.stream("attack: words").permutation(len(known))[:WORDS])]
    with np.errstate(divide="ignore"):  # what a word cannot give has no chance, and a logarithm of −∞
        found = recovery(mechanism.words, some, noise, shortlist=SHORTLIST, draws=DRAWS)
    for count, success in found.by_count.items():
        times = f"{count} obfuscation{'' if count == 1 else 's'}"
        yield risk(
            f"likelihood-{count}", f"Words recovered from {times}", "likelihood", "inference", success,
            f"Share of words of the raw log that are the likeliest behind {times} of them, for an "
            f"attacker who knows the mechanism and tries words near what came out.",
            raw=1.0, chance=1 / len(numbers),
        )  # fmt: skip


def retrieval(material: Material) -> Found:
    """What a search engine finds for the released texts in place of a collection's queries."""
    title = "Retrieval"
    if material.collection is None:
        yield LeftOut(title=title, reason="needs a collection of documents (--collection)", by_settings=True)
        return
    if material.mechanism not in REPLACES_TEXTS:
        reason = "texts are released as typed, or not at all: what is there finds the same"
        yield LeftOut(title=title, reason=reason, by_settings=True)
        return
    try:
        found = _retrieved(material, material.collection)
    except QueryVeilError:
        yield LeftOut(title=title, reason="the mechanism cannot be made again here, or cannot replace these queries")
        return
    (recall, true_recall), (gain, true_gain), queries = found
    yield kept(
        "retrieval-recall", "Relevant documents still found", "retrieval", recall.recall,
        f"Mean over the collection's queries of the share of relevant documents within the first {POOL_DEPTH} of any "
        "text released in place of the query (BM25).", raw=true_recall.recall, chance=recall.by_chance, trials=queries,
    )  # fmt: skip
    yield kept(
        "retrieval-ndcg", "Ranking at home (nDCG@10)", "retrieval", gain,
        "nDCG at 10 of what was found, ranked at home under the true query.", raw=true_gain, trials=queries,
    )  # fmt: skip


def _retrieved(
    material: Material, collection: Collection
) -> tuple[tuple[PooledRecall, PooledRecall], tuple[float, float], int]:
    """Pooled recall and nDCG of what is released in place of the queries, each beside that of the true ones."""
    asked = QueryLog(pl.DataFrame({"user": list(collection.queries), "query": list(collection.queries.values())}))
    release = material.made_again().protect(asked, material.fresh_noise())
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
    return (recalls[0], recalls[1]), (gains[0], gains[1]), len(sent)

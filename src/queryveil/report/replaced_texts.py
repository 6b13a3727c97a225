"""Releases that put other texts in place of those asked: which words they give away, and what they still find."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numpy as np
import polars as pl

from queryveil.errors import QueryVeilError
from queryveil.log import QueryLog
from queryveil.report.findings import LeftOut
from queryveil.report.material import Material
from queryveil.report.shaping import REPLACES_TEXTS, Found, kept, risk

WORDS, SHORTLIST, DRAWS = 20, 5, 50
POOL_DEPTH: Final = 100


def likelihood(material: Material) -> Found:
    """Which words obfuscations came from, for releases that replace words one by one."""
    if material.mechanism != "obfuscate":
        return
    title = "Words recovered by likelihood"
    if find_spec("queryveil.attacks.likelihood") is None:
        yield LeftOut(title=title, reason="this installation has no likelihood attack")
        return
    try:
        mechanism: Any = material.made_again()
    except QueryVeilError:
        yield LeftOut(title=title, reason="the mechanism cannot be made again here from the manifest's parameters")
        return
    if mechanism.guarantee().model != "metric-dp":
        yield LeftOut(title=title, reason="the release does not replace words one by one")
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
        found = import_module("queryveil.attacks.likelihood").recovery(
            mechanism.words, some, noise, shortlist=SHORTLIST, draws=DRAWS
        )
    for count, success in found.by_count.items():
        times = f"{count} obfuscation{'' if count == 1 else 's'}"
        yield risk(
            f"likelihood-{count}", f"Words recovered from {times}", "likelihood", "inference", success,
            f"Share of {success.tried:,} words of the raw log that are the likeliest behind {times} of them, for an "
            f"attacker who knows the mechanism and tries words near what came out.",
            raw=1.0, chance=1 / len(numbers),
        )  # fmt: skip


def retrieval(material: Material) -> Found:
    """What a search engine finds for the released texts in place of a collection's queries."""
    title = "Retrieval"
    if material.collection is None:
        yield LeftOut(title=title, reason="needs a collection of documents (--collection)")
        return
    if material.mechanism not in REPLACES_TEXTS:
        yield LeftOut(title=title, reason="texts are released as typed, or not at all: what is there finds the same")
        return
    if find_spec("queryveil.utility.retrieval") is None:
        yield LeftOut(title=title, reason="this installation has no measures of retrieval")
        return
    try:
        found = _retrieved(material, material.collection)
    except QueryVeilError:
        yield LeftOut(title=title, reason="the mechanism cannot be made again here, or cannot replace these queries")
        return
    (recall, true_recall), (ndcg, true_ndcg), queries = found
    yield kept(
        "retrieval-recall", "Relevant documents still found", "retrieval", recall.recall,
        f"Mean over {queries:,} queries of the share of relevant documents within the first {POOL_DEPTH} of any text "
        "released in place of the query (BM25).", raw=true_recall.recall, chance=recall.by_chance, trials=queries,
    )  # fmt: skip
    yield kept(
        "retrieval-ndcg", "Ranking at home (nDCG@10)", "retrieval", ndcg,
        "nDCG at 10 of what was found, ranked at home under the true query.", raw=true_ndcg, trials=queries,
    )  # fmt: skip


def _retrieved(material: Material, collection: Any) -> tuple[tuple[Any, Any], tuple[float, float], int]:
    measures, engines = (import_module(f"queryveil.{name}") for name in ("utility.retrieval", "knowledge.engines"))
    asked = QueryLog(pl.DataFrame({"user": list(collection.queries), "query": list(collection.queries.values())}))
    release = material.made_again().protect(asked, material.fresh_noise())
    assert release.owners is not None
    rows = zip(release.owners.to_list(), release.log.queries(), strict=True)
    sent: dict[str, list[str]] = {query: [] for query in collection.queries}
    for query, text in rows:
        sent[query].append(text)
    engine = engines.LexicalEngine.bm25(list(collection.documents.values()))
    home = measures.home_rankings(collection, list(sent), engine)
    recalls, gains = [], []
    for texts in (sent, {query: [text] for query, text in collection.queries.items()}):
        pooled = measures.pools(collection, texts, engine, POOL_DEPTH)
        recalls.append(measures.pooled_recall(pooled, collection.judgements, documents=len(collection.documents)))
        gains.append(float(measures.ndcg(measures.reranked(pooled, home), collection.judgements)))
    return (recalls[0], recalls[1]), (gains[0], gains[1]), len(sent)

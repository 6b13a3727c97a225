"""What a search through the gateway finds, how long it takes, and that the engine got what was announced and no more.

    python benchmarks/gateway.py [--data FOLDER] [--queries 30]

The engine is BM25 (bm25s, stop words out, Porter's stemmer) over Vaswani and over Cranfield, on loopback, ten results a
query. Ten obfuscations (vkr-cmp, safe mode: ε is the total) go out for each query; MiniLM ranks the pool at home.
Beside it stands the plain query: the engine's own order, and its 100 best ranked at home as the pool is.

Everything that the engine received is compared with what the gateway announced: first lines and headers of requests.
The time from Enter to results is measured in Chromium before `queryveil gateway` as users start it. No text is shown.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

from _page_client import opened
from _results import write_section
from queryveil.audit.measures.retrieval import ndcg, pooled_recall
from queryveil.knowledge.collections import Collection
from queryveil.knowledge.sentences import SentenceEncoder
from queryveil.mechanisms.obfuscate import Obfuscate, SearchSession
from queryveil.privacy import Noise
from queryveil.search.gateway import Gateway
from queryveil.search.private_search import EngineAddress, parse_answer, ranker

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from small_engine import over, running

N, DEPTH, POOL = 10, 10, 100
GRID = (50.0, 100.0, 150.0)
EXAMINED = 3
"""Queries of each setting whose words' deniability is counted: it takes long."""
LIMIT = 1.5
SITE = "https://site/"


class Remembering:
    """An encoder that reads each text once: the same documents come back for many queries."""

    def __init__(self, encoder: SentenceEncoder) -> None:
        self.encoder, self.known = encoder, dict[str, Any]()

    def encode(self, texts: list[str]) -> Any:
        """One vector for each text, those that were read before from memory."""
        new = [text for text in dict.fromkeys(texts) if text not in self.known]
        self.known |= dict(zip(new, self.encoder.encode(new), strict=True))
        return np.array([self.known[text] for text in texts])


@cache
def remembering() -> Remembering:
    """One for all."""
    return Remembering(loaded())


loaded = SentenceEncoder.load


def names(hits: list[Any]) -> list[str]:
    """The documents' ids, as the engine wrote them into addresses."""
    return [hit.key.removeprefix(SITE) for hit in hits]


def plain(collection: Collection, queries: list[str]) -> list[str]:
    """The row of the plain query."""
    deep, rank = over(collection.documents, POOL), ranker()
    best = {query: parse_answer(deep(collection.queries[query])[1]) for query in queries}
    whole = {query: names(hits) for query, hits in best.items()}
    home = {query: names(rank.ranked(collection.queries[query], hits)) for query, hits in best.items()}
    found = pooled_recall(whole, collection.judgements, documents=len(collection.documents))
    first = {query: found[:DEPTH] for query, found in whole.items()}
    judged = collection.judgements
    top = pooled_recall(first, judged, documents=len(collection.documents))
    return [
        f"| the plain query, ranked by the engine | {top.recall:.2f} (its {top.pool_size:.0f}) | "
        f"{top.by_chance:.3f} | {ndcg(first, judged):.2f} | |",
        f"| the plain query's {POOL} best, ranked at home | {found.recall:.2f} (of {found.pool_size:.0f}) | "
        f"{found.by_chance:.3f} | {ndcg(home, judged):.2f} | |",
    ]


def through_the_gateway(collection: Collection, queries: list[str], engine: Any, epsilon: float) -> tuple[str, int]:
    """The row of one ε, and how many requests were compared with what was announced."""
    gateway = Gateway(
        Obfuscate(mechanism="vkr-cmp", epsilon=epsilon, n=N),
        EngineAddress.parse(engine.template),
        noise=Noise.seeded(1),
        tally=SearchSession(key=bytes(32)),
        timeout=600,
    )
    pools, ranked, alone = {}, {}, []
    compared = 0
    for number, query in enumerate(queries):
        engine.requests.clear()
        engine.headers.clear()
        question = gateway.ask(collection.queries[query], deniable=number < EXAMINED)
        gateway.send(question)
        assert not question.failures
        expected = sorted(f"GET /search?q={quote(text, safe='')}&format=json HTTP/1.1" for text in question.sent)
        assert sorted(engine.requests) == expected, "the engine received something that was not announced"
        assert len({json.dumps(headers, sort_keys=True) for headers in engine.headers}) == 1
        compared += len(expected)
        pools[query] = ranked[query] = names(question.hits)
        alone += [word.could_be == 1 for word in question.words if word.known]
    found = pooled_recall(pools, collection.judgements, documents=len(collection.documents))
    row = (
        f"| ε = {epsilon:g} over {N} obfuscations | {found.recall:.2f} (of {found.pool_size:.0f}) | "
        f"{found.by_chance:.3f} | {ndcg(ranked, collection.judgements):.2f} | {sum(alone)} of {len(alone)} |"
    )
    return row, compared


def latencies(engine: Any, texts: list[str]) -> tuple[list[float], list[float]]:
    """Seconds in Chromium from Enter to results: at once, and after looking at what would be sent."""
    from playwright.sync_api import sync_playwright

    options = ["--engine-url", engine.template, "--mechanism", "vkr-cmp", "--epsilon", "100", "-n", str(N)]
    at_once: list[float] = []
    after_looking: list[float] = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"], timeout=0
        )
        for way, seconds in (("--at-once", at_once), ("", after_looking)):
            with opened(Path(folder), "gateway", *options, *filter(None, [way])) as entrance:
                page = browser.new_page()
                page.set_default_timeout(120_000)
                home = f"{entrance.split('/enter')[0]}/"
                page.goto(entrance)
                page.wait_for_url(home)
                for text in texts:
                    page.goto(home)
                    page.get_by_label("Your query").fill(text)
                    if not way:
                        page.keyboard.press("Enter")
                        page.locator("button:focus", has_text="Send these").wait_for()
                    began = time.perf_counter()
                    page.keyboard.press("Enter")
                    page.locator("ol.results li").first.wait_for()
                    seconds.append(time.perf_counter() - began)
                page.close()
        browser.close()
    return at_once[1:], after_looking[1:]  # the browser's own first time is left out


def main() -> None:
    """Measure and write."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--data", type=Path, default=Path(os.environ.get("QUERYVEIL_DATA", "../shared/data")))
    options.add_argument("--queries", type=int, default=30)
    given = options.parse_args()
    SentenceEncoder.load = classmethod(lambda cls: remembering())  # type: ignore[assignment, method-assign]
    parts, compared, load = [], 0, os.getloadavg()[0]
    times: tuple[list[float], list[float]] = ([], [])
    for name in ("vaswani", "cranfield"):
        collection = Collection.read(given.data / "ir" / name)
        queries = list(collection.queries)[: given.queries]
        rows = plain(collection, queries)
        with running(over(collection.documents, DEPTH)) as engine:
            for epsilon in GRID:
                row, checked = through_the_gateway(collection, queries, engine, epsilon)
                rows.append(row)
                compared += checked
            if name == "vaswani":
                times = latencies(engine, [collection.queries[query] for query in queries[:7]])
        parts.append(
            f"**{name.title()}**, {len(queries)} queries, {len(collection.documents):,} texts\n\n"
            "| sent | recall | by chance | nDCG@10 | words that only the true one fits |\n|---|---:|---:|---:|---:|\n"
            + "\n".join(rows)
        )
    seconds = [
        f"| {what} | {statistics.median(found):.2f} s ({max(found):.2f} s) | ≤ {LIMIT} s |"
        for what, found in zip(("Enter to results, at once", "Enter to results, after looking"), times, strict=True)
    ]
    section = (
        "## The gateway\n\n"
        f"`python benchmarks/gateway.py --queries {given.queries}`, {datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} "
        f"cores, load average {load:.1f} at the start, {os.getloadavg()[0]:.1f} at the end. vkr-cmp in safe mode, "
        f"{DEPTH} results a query, the pool ranked at home by MiniLM. Recall counts the whole pool. The last column is "
        f"of the words of {EXAMINED} queries, against an observer who sees the noisy points.\n\n"
        + "\n\n".join(parts)
        + f"\n\nOf {compared:,} requests each had exactly an announced query in its first line, the same headers as "
        "all others of its search, and nothing else.\n\n"
        f"| in Chromium, {N} obfuscations over Vaswani on loopback, median (slowest) of {len(times[0])} | measured | "
        "wanted |\n|---|---:|---:|\n" + "\n".join(seconds)
    )
    write_section("gateway", section)
    sys.stdout.write(section + "\n")


if __name__ == "__main__":
    main()

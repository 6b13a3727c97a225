"""What a search through the gateway finds, how long it takes, and that the engine got what was announced and no more.

    python benchmarks/gateway.py [--data FOLDER] [--queries 50]

The engine is BM25 (bm25s, stop words out, Porter's stemmer) over Vaswani and over Cranfield, on loopback, ten results a
query. Ten obfuscations (vkr-cmp, safe mode: ε is the total) go out for each query; MiniLM ranks the pool at home.
Beside it stands the plain query: the engine's own order, and its 100 best ranked at home as the pool is.

Everything that the engine received is compared with what the gateway announced: first lines and headers of requests.
The time from Enter to results is measured in Chromium before `queryveil gateway` as users start it, and beside it the
processor time of its three parts, which says something on a busy machine too: the gateway, the engine (here in a
process of its own) and the browser. No text is shown.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np

import _processor_time
from _page_client import opened
from _results import write_section
from queryveil.audit.measures.retrieval import ndcg, pooled_recall
from queryveil.knowledge.collections import Collection
from queryveil.knowledge.sentences import LONGEST, SentenceEncoder
from queryveil.mechanisms.obfuscate import Obfuscate, SearchSession
from queryveil.privacy import Noise
from queryveil.search.gateway import Gateway, rank_pool
from queryveil.search.private_search import EngineAddress, parse_answer

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from small_engine import over, running

N, DEPTH, POOL = 10, 10, 100
GRID = (50.0, 100.0, 150.0)
EXAMINED = 3
"""Queries of each setting whose words' deniability is counted: it takes long."""
LIMIT = 1.5
SEARCHES = 12
"""Whose time is measured, each way."""
PARTS = {"gateway": "main() gateway", "engine": "multiprocessing.spawn", "browser": "/chromium"}
"""What stands in the command lines of their processes."""
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


loaded = SentenceEncoder.load


@cache
def remembering(longest: int) -> Remembering:
    """One for all."""
    return Remembering(loaded(longest))


def names(hits: list[Any]) -> list[str]:
    """The documents' ids, as the engine wrote them into addresses."""
    return [hit.key.removeprefix(SITE) for hit in hits]


def plain(collection: Collection, queries: list[str]) -> list[str]:
    """The row of the plain query."""
    deep = over(collection.documents, POOL)
    best = {query: parse_answer(deep(collection.queries[query])[1]) for query in queries}
    whole = {query: names(hits) for query, hits in best.items()}
    home = {query: names(rank_pool(collection.queries[query], hits)[0]) for query, hits in best.items()}
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


def serve(folder: Path, connection: Any) -> None:
    """The engine by itself: says where it is, and ends when it is told anything."""
    with running(over(Collection.read(folder).documents, DEPTH)) as engine:
        connection.send(engine.template)
        connection.recv()


@contextmanager
def serving(folder: Path) -> Iterator[str]:
    """The address of an engine in a process of its own."""
    here, there = get_context("spawn").Pipe()
    process = get_context("spawn").Process(target=serve, args=(folder, there))
    process.start()
    try:
        yield here.recv()
    finally:
        here.send("end")
        process.join()


class Measured:
    """Seconds by the clock of each search, and processor seconds of the parts over all of them."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.busy = dict.fromkeys(PARTS, 0.0)

    def search(self, page: Any) -> None:
        """Press Enter and wait for results."""
        before, began = _processor_time.by_part(PARTS), time.perf_counter()
        page.keyboard.press("Enter")
        page.locator("ol.results li").first.wait_for()
        self.seconds.append(time.perf_counter() - began)
        after = _processor_time.by_part(PARTS)
        for part in PARTS:
            self.busy[part] += after[part] - before[part]

    def row(self, what: str) -> str:
        """As a row of the table."""
        each = [busy / len(self.seconds) for busy in self.busy.values()]
        parts = " | ".join(f"{seconds:.2f}" for seconds in each)
        middle, worst = statistics.median(self.seconds), max(self.seconds)
        return f"| {what} | {middle:.2f} s ({worst:.2f} s) | ≤ {LIMIT} s | {parts} |"


def latencies(template: str, texts: list[str]) -> tuple[Measured, Measured]:
    """In Chromium from Enter to results: at once, and after looking at what would be sent."""
    from playwright.sync_api import sync_playwright

    options = ["--engine-url", template, "--mechanism", "vkr-cmp", "--epsilon", "100", "-n", str(N)]
    at_once, after_looking = Measured(), Measured()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--no-sandbox", "--disable-gpu"], timeout=0
        )
        for way, measured in (("--at-once", at_once), ("", after_looking)):
            with opened(Path(folder), "gateway", *options, *filter(None, [way])) as entrance:
                page = browser.new_page()
                page.set_default_timeout(120_000)
                home = f"{entrance.split('/enter')[0]}/"
                page.goto(entrance)
                page.wait_for_url(home)
                for number, text in enumerate(texts):
                    page.goto(home)
                    page.get_by_label("Your query").fill(text)
                    if not way:
                        page.keyboard.press("Enter")
                        page.locator("button:focus", has_text="Send these").wait_for()
                    (measured if number else Measured()).search(page)  # the browser's own first time is left out
                page.close()
        browser.close()
    return at_once, after_looking


def main() -> None:
    """Measure and write."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--data", type=Path, default=Path(os.environ.get("QUERYVEIL_DATA", "../shared/data")))
    options.add_argument("--queries", type=int, default=50)
    given = options.parse_args()
    SentenceEncoder.load = classmethod(lambda cls, longest=LONGEST: remembering(longest))  # type: ignore[assignment, method-assign]
    parts, compared, load = [], 0, os.getloadavg()[0]
    folder = given.data / "ir" / "vaswani"
    with serving(folder) as template:
        at_once, looked = latencies(template, list(Collection.read(folder).queries.values())[: SEARCHES + 1])
    busy = os.getloadavg()[0]
    for name in ("vaswani", "cranfield"):
        collection = Collection.read(given.data / "ir" / name)
        queries = list(collection.queries)[: given.queries]
        rows = plain(collection, queries)
        with running(over(collection.documents, DEPTH)) as engine:
            for epsilon in GRID:
                row, checked = through_the_gateway(collection, queries, engine, epsilon)
                rows.append(row)
                compared += checked
        parts.append(
            f"**{name.title()}**, {len(queries)} queries, {len(collection.documents):,} texts\n\n"
            "| sent | recall | by chance | nDCG@10 | words that only the true one fits |\n|---|---:|---:|---:|---:|\n"
            + "\n".join(rows)
        )
    section = (
        "## The gateway\n\n"
        f"`python benchmarks/gateway.py --queries {given.queries}`, {datetime.now(UTC):%Y-%m-%d}, {os.cpu_count()} "
        f"cores, load average {os.getloadavg()[0]:.1f} at the end. vkr-cmp in safe mode, "
        f"{DEPTH} results a query, the pool ranked at home by shared words and MiniLM. Recall counts the whole "
        f"pool. The last column is of the words of {EXAMINED} queries, against an observer of the noisy points.\n\n"
        + "\n\n".join(parts)
        + f"\n\nOf {compared:,} requests each had exactly an announced query in its first line, the same headers as "
        "all others of its search, and nothing else.\n\n"
        f"In Chromium, {N} obfuscations over Vaswani on loopback, {SEARCHES} searches each way; the load average was "
        f"{load:.1f} before and {busy:.1f} after. The last three columns are processor seconds, in the mean over "
        "searches, and do not depend on the load as the clock does.\n\n"
        f"| from Enter to results | median (slowest) | wanted | {' | '.join(f'CPU, {part}' for part in PARTS)} |\n"
        f"|---|---:|---:|{'---:|' * len(PARTS)}\n" + at_once.row("at once") + "\n" + looked.row("after looking")
    )
    write_section("gateway", section)
    sys.stdout.write(section + "\n")


if __name__ == "__main__":
    main()

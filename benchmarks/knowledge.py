"""How fast the knowledge room is, and how much of a real log it understands.

python benchmarks/knowledge.py [--data FOLDER] [--dump-megabytes N]

CPU time of one process on one core. The AOL part is left out where the sample is absent; only shares of it are shown.
"""

from __future__ import annotations

import argparse
import datetime
import gzip
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from _results import write_section
from queryveil.knowledge.categories import Classifier, WordNetClassifier
from queryveil.knowledge.odp import OpenDirectory, import_directory
from queryveil.knowledge.phrases import PhraseMapper, stemmer
from queryveil.knowledge.tagging import Tagger
from queryveil.knowledge.wordnet import WordNet

SOURCE = Path(__file__).resolve().parents[1] / "src"
LOADS = {
    "import queryveil": "import queryveil",
    "WordNet": "from queryveil.knowledge.wordnet import WordNet; WordNet.load().nouns",
    "GloVe, with its word index": "from queryveil.knowledge.embeddings import WordVectors; WordVectors.load().numbers",
    "WordNet classifier, ready": "from queryveil.knowledge.categories import WordNetClassifier\n"
    "from queryveil.knowledge.wordnet import WordNet; WordNetClassifier(WordNet.load())",
}


def seconds_of(work: Callable[[], object]) -> float:
    started = time.process_time()
    work()
    return time.process_time() - started


def fresh_process(code: str, cache: str) -> float:
    """CPU seconds of some work in a new process, without the start of Python and NumPy."""
    timed = f"import numpy, time; start = time.process_time()\n{code}\nprint(time.process_time() - start)"
    environment = os.environ | {"PYTHONPATH": str(SOURCE), "QUERYVEIL_CACHE": cache}
    done = subprocess.run([sys.executable, "-c", timed], env=environment, capture_output=True, text=True, check=True)
    return float(done.stdout)


def loading() -> list[str]:
    lines = ["| what | first time, s | later, s | ratio |", "|---|---|---|---|"]
    with tempfile.TemporaryDirectory() as cache:
        for what, code in LOADS.items():
            first = fresh_process(code, cache)
            later = min(fresh_process(code, cache) for _ in range(3))
            lines.append(f"| {what} | {first:.2f} | {later:.2f} | {first / later:.0f}× |")
    return lines


def similarity(wordnet: WordNet) -> list[str]:
    cut = seconds_of(lambda: wordnet.nouns.under(wordnet.nouns.concept("abstraction.n.06")))
    abstraction = wordnet.nouns.under(wordnet.nouns.concept("abstraction.n.06"))
    abstraction.similarity_to_all(0)
    chosen = range(0, len(abstraction), 200)
    fast = seconds_of(lambda: [abstraction.similarity_to_all(concept) for concept in chosen]) / len(chosen)
    sets = [frozenset(abstraction.subsumers(concept).tolist()) for concept in range(len(abstraction))]

    def plainly(concept: int) -> list[float]:
        own = sets[concept]
        return [1 - np.log2(1 + 1 - len(own & other) / len(own | other)) for other in sets]

    slow = seconds_of(lambda: plainly(20_000))
    least = seconds_of(abstraction.minimum_similarity)
    return [
        f"Similarity of one concept to all {len(abstraction):,} of *abstraction*: {fast * 1e3:.2f} ms, "
        f"{slow / fast:,.0f}× as fast as Python sets ({slow * 1e3:.0f} ms). Minimum over all pairs, exact: "
        f"{least * 1e3:.0f} ms. Cutting *abstraction* out of all nouns: {cut * 1e3:.0f} ms.",
    ]


def hostile(wordnet: WordNet) -> list[str]:
    """Long texts on which a careless pattern or mapper would take quadratic time."""
    mapper = PhraseMapper.of_nouns(wordnet)
    mapper.frame("warm up")
    texts = {"a": "a", "dog": "dog ", "numbers": "1.", "addresses": "www.", "hyphens": "a-"}
    speeds = {}
    for what, part in texts.items():
        text = part * (100_000 // len(part))
        speeds[what] = len(text) / min(seconds_of(lambda text=text: mapper.frame(text)) for _ in range(3))
    return [
        "One hostile query of 100,000 characters, mapped, million characters/s: "
        + ", ".join(f"{what} {speed / 1e6:.1f}" for what, speed in speeds.items())
        + ".",
    ]


def real_log(data: Path, wordnet: WordNet) -> list[str]:
    with gzip.open(data / "aol" / "aol-1017-users.tsv.gz", "rt", encoding="utf-8") as file:
        next(file)
        records = [line.split("\t")[1] for line in file]
    queries, counts = (column.tolist() for column in np.unique(np.array(records, object), return_counts=True))
    weights = np.array(counts) / len(records)
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "sample.odp"
        import_directory([data / "odp" / "categories.tsv", data / "odp" / "pages.tsv"], index)
        directory = OpenDirectory(index)
        directory.categories(["compile the kernel"])
        mapper = PhraseMapper.of_nouns(wordnet)
        only_tokens = len(queries) / seconds_of(lambda: [Tagger.tokens(query) for query in queries])
        rows = [
            f"{len(records):,} records, {len(queries):,} distinct queries, each given once to a fresh mapper or "
            f"classifier; splitting into tokens alone does {only_tokens:,.0f} queries/s.",
            "",
            "| | distinct queries/s | share of the splitting speed | distinct queries | records |",
            "|---|---|---|---|---|",
        ]
        started = time.process_time()
        concepts = mapper.concepts(queries)
        speed = len(queries) / (time.process_time() - started)
        mapped = np.bincount(concepts.owners()[concepts.values >= 0], minlength=len(queries)) > 0
        rows.append(_row("mapped to a WordNet concept", speed, only_tokens, mapped, weights))
        depths = []
        stemmer.cache_clear()  # what the mapper learned must not help the classifier
        classifier = WordNetClassifier(wordnet)
        for name, one in (("WordNet", classifier), ("Open Directory sample", directory)):
            started = time.process_time()
            best = one.best(queries)
            speed = len(queries) / (time.process_time() - started)
            rows.append(_row(f"classified by {name}", speed, only_tokens, best >= 0, weights))
            depths.append((name, _depths(one, best, weights)))
        unclassified = classifier.best(queries) < 0
        rows += ["", "Depth of the best category, share of all records:", "", "| depth | 0 (none) |"]
        deepest = max(len(shares) for _, shares in depths)
        rows[-1] += "".join(f" {depth} |" for depth in range(1, deepest))
        rows.append("|---|" + "---|" * deepest)
        rows += [
            f"| {name} |" + "".join(f" {share:.1%} |" for share in shares) + " |" * (deepest - len(shares))
            for name, shares in depths
        ]
        rows += ["", _why(queries, unclassified, weights)]
    return rows


def _row(what: str, speed: float, baseline: float, hit: np.ndarray, weights: np.ndarray) -> str:
    return f"| {what} | {speed:,.0f} | {speed / baseline:.2f} | {hit.mean():.1%} | {weights[hit].sum():.1%} |"


def _depths(classifier: Classifier, best: np.ndarray, weights: np.ndarray) -> list[float]:
    depth = np.where(best >= 0, np.append(classifier.tree.depths, 0)[best], 0)
    return np.bincount(depth, weights).tolist()


def _why(queries: list[str], unclassified: np.ndarray, weights: np.ndarray) -> str:
    missed = [(query, weight) for query, weight, miss in zip(queries, weights, unclassified, strict=True) if miss]
    total = sum(weight for _, weight in missed)

    def share(condition: Callable[[str], bool]) -> str:
        return f"{sum(weight for query, weight in missed if condition(query)) / total:.0%}"

    def address(query: str) -> bool:
        return any(mark in f"{query} " for mark in ("www", ".com", ".org", ".net", "http", " com "))

    return (
        f"Of the records that WordNet does not classify ({total:.1%}): web addresses {share(address)}, "
        f"a single unknown word {share(lambda q: not address(q) and len(q.split()) == 1)}, "
        f"several words none of which is a noun of WordNet {share(lambda q: not address(q) and len(q.split()) > 1)}."
    )


def dump(megabytes: int) -> list[str]:
    """A made-up dump with the shape of content.rdf.u8: how fast it streams in, and how much memory that takes."""
    rng = np.random.default_rng(3)
    words = np.array([f"w{number}" for number in range(200_000)])
    paths = ["/".join(f"C{level}_{rng.integers(0, 12)}" for level in range(rng.integers(2, 8))) for _ in range(100_000)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "content.rdf.u8"
        pages = 0
        with path.open("w") as file:
            file.write("<?xml version='1.0'?>\n<RDF>\n")
            while file.tell() < megabytes << 20:
                picked = words[(rng.zipf(1.2, (2000, 20)) - 1) % len(words)]
                for row, place in zip(picked.tolist(), rng.integers(0, len(paths), 2000).tolist(), strict=True):
                    file.write(
                        f'<ExternalPage about="http://www.example.org/{pages}/">\n'
                        f"  <d:Title>{' '.join(row[:4])}</d:Title>\n"
                        f"  <d:Description>{' '.join(row[4:])}</d:Description>\n"
                        f"  <topic>Top/{paths[place]}</topic>\n</ExternalPage>\n"
                    )
                    pages += 1
        size = path.stat().st_size
        taken = seconds_of(lambda: import_directory([path], Path(folder) / "index.odp"))
        plain = seconds_of(lambda: sum(1 for _ in path.open("rb")))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        return [
            f"Open Directory import: a made-up dump of {size / 1e6:.0f} MB with {pages:,} pages in {taken:.0f} s "
            f"({size / 1e6 / taken:.1f} MB/s, {pages / taken:,.0f} pages/s; only reading its lines takes {plain:.1f} "
            f"s); peak memory of the whole benchmark {peak:.0f} MiB.",
        ]


def main() -> None:
    parser = argparse.ArgumentParser()
    default = os.environ.get("QUERYVEIL_DATA", Path(__file__).resolve().parents[2] / "shared" / "data")
    parser.add_argument("--data", type=Path, default=Path(default))
    parser.add_argument("--dump-megabytes", type=int, default=200)
    options = parser.parse_args()
    wordnet = WordNet.load()
    lines = [
        "## Knowledge",
        "",
        f"{datetime.date.today()}, `python benchmarks/knowledge.py`, Python {platform.python_version()}, "
        "CPU time, one core.",
        "",
        *loading(),
        "",
        *similarity(wordnet),
        "",
        *hostile(wordnet),
        "",
    ]
    if (options.data / "aol").is_dir():
        lines += [*real_log(options.data, wordnet), ""]
    else:
        print("the AOL sample is absent (set QUERYVEIL_DATA); its part is left out", file=sys.stderr)
    lines += dump(options.dump_megabytes)
    write_section("knowledge", "\n".join(lines))
    print("\n".join(lines))


if __name__ == "__main__":
    main()

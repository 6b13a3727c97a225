"""Would an approximate index pay? Words per CPU-second and recall on GloVe at the noise of ε = 10, beside exact search.

python benchmarks/approximate_index.py --python PYTHON

PYTHON is an environment with `faiss-cpu`, which QueryVeil does not depend on. Both sides search for the same points
with one thread; building an index is not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

EPSILON = 10.0
POINTS = 2048
CELLS = 1024
PROBES = (16, 32, 64, 128, 256, 512)
LINKS = 16
BUILD_WIDTH = 80
WIDTHS = (64, 128, 256, 512, 1024)
WANTED_RECALL = 0.95
WORTH_IT = 3.0


def approximate_search(folder: Path) -> None:
    """With faiss: time each setting and print rows as JSON."""
    import faiss

    faiss.omp_set_num_threads(1)
    matrix, points, exact = (np.load(folder / f"{name}.npy") for name in ("matrix", "points", "exact"))
    single = points.astype(np.float32)
    rows = []

    def measure(name: str, index: object) -> None:
        index.search(single[:16], 2)
        start = time.process_time()
        _, found = index.search(single, 2)
        speed = len(points) / (time.process_time() - start)
        both = np.mean([len(set(a) & set(b)) / 2 for a, b in zip(found.tolist(), exact.tolist(), strict=True)])
        rows.append([name, speed, float((found[:, 0] == exact[:, 0]).mean()), float(both)])

    cells = faiss.IndexIVFFlat(faiss.IndexFlatL2(matrix.shape[1]), matrix.shape[1], CELLS)
    cells.train(matrix[:: max(1, len(matrix) // (40 * CELLS))])
    cells.add(matrix)
    for probes in PROBES:
        cells.nprobe = probes
        measure(f"IVF, {CELLS} cells, {probes} probed", cells)
    graph = faiss.IndexHNSWFlat(matrix.shape[1], LINKS)
    graph.hnsw.efConstruction = BUILD_WIDTH
    graph.add(matrix)
    for width in WIDTHS:
        graph.hnsw.efSearch = width
        measure(f"HNSW, {LINKS} links, width {width}", graph)
    print(json.dumps({"version": faiss.__version__, "rows": rows}))


def exact_search(folder: Path) -> None:
    """With QueryVeil: leave vectors, noisy points and the exact answers in the folder, print words per CPU-second."""
    from queryveil.knowledge.embeddings import WordVectors
    from queryveil.mechanisms.obfuscate.noisy import NoisyWords
    from queryveil.privacy import Noise
    from queryveil.privacy.noise import laplace_words

    vectors = WordVectors.load()
    mechanism = NoisyWords(vectors, epsilon=EPSILON)
    words = Noise.seeded(1).stream("points").words(POINTS * laplace_words(vectors.dimension)).reshape(POINTS, -1)
    points = mechanism.points(np.arange(POINTS) * 7919 % len(vectors), words)
    mechanism.search.two(points[:16])  # compiles
    start = time.process_time()
    exact, _ = mechanism.search.two(points)
    print(json.dumps({"speed": POINTS / (time.process_time() - start), "shape": vectors.matrix.shape}))
    for name, array in (("matrix", np.asarray(vectors.matrix)), ("points", points), ("exact", exact)):
        np.save(folder / f"{name}.npy", array)


def last_line(python: str, *arguments: str) -> Any:
    """What this script prints last, as JSON, run by an interpreter with one thread for matrix products."""
    done = subprocess.run(
        [python, __file__, *arguments],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        env=os.environ | {"OPENBLAS_NUM_THREADS": "1"},
    )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    """Search exactly, have the other environment search, write the section."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", help="an interpreter with faiss-cpu")
    parser.add_argument("--exact", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--inside", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.exact:
        exact_search(given.exact)
        return
    if given.inside:
        approximate_search(given.inside)
        return
    if not given.python:
        parser.error("--python PYTHON is needed: an interpreter with faiss-cpu")
    from _results import write_section

    with tempfile.TemporaryDirectory() as folder:
        exact = last_line(sys.executable, "--exact", folder)
        found = last_line(given.python, "--inside", folder)
    ours, shape = exact["speed"], exact["shape"]
    lines = [f"| exact, QueryVeil | {ours:,.0f} | 1 | 1 | 1 |"]
    lines += [
        f"| {name} | {speed:,.0f} | {speed / ours:.2f} | {first:.3f} | {both:.3f} |"
        for name, speed, first, both in found["rows"]
    ]
    print("\n".join(lines))
    good = [speed / ours for _, speed, first, both in found["rows"] if min(first, both) >= WANTED_RECALL]
    verdict = (
        f"No setting reaches a recall of {WANTED_RECALL}."
        if not good
        else f"The fastest setting with both recalls at {WANTED_RECALL} or more is {max(good):.2f} times the exact "
        f"search; {WORTH_IT:g} times would have been worth shipping."
    )
    print(verdict)
    write_section(
        "approximate_index",
        f"## Obfuscation, approximate indexes\n\n`python benchmarks/approximate_index.py --python PYTHON`, "
        f"{date.today()}, GloVe {shape[0]:,} × {shape[1]}, {POINTS:,} points with the noise of ε = "
        f"{EPSILON:g}, faiss {found['version']}, one thread, CPU time, building not counted. Recall at 1: the nearest "
        "word is found first; at 2: share of the two nearest that are found.\n\n"
        "| search | words per CPU-second | ratio to exact | recall at 1 | recall at 2 |\n|---|---|---|---|---|\n"
        + "\n".join(lines)
        + f"\n\n{verdict}",
    )


if __name__ == "__main__":
    main()

"""Words a second of the noisy mechanisms on a CPU, exact, per CPU-second, beside pyPANTERA's published package.

python benchmarks/obfuscate.py [--pypantera PYTHON]

PYTHON is an interpreter with the package `pypantera`, which then is measured in the same run.

Each case runs in a process of its own with one thread for matrix products, so that CPU time is one core's time and the
peak of memory is the case's own.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from datetime import date
from pathlib import Path

import numpy as np

from _results import write_section
from queryveil.knowledge.embeddings import WordVectors
from queryveil.mechanisms.obfuscate import byte_codes
from queryveil.mechanisms.obfuscate.noisy import NoisyWords
from queryveil.privacy import Noise

EPSILON = 10.0
TIMES = 3
CASES = {
    "400,000 × 300, random": (400_000, 300, 2048),
    "100,000 × 100, random": (100_000, 100, 8192),
    "GloVe, 317,756 × 50": (0, 50, 8192),
    "400,000 × 50, random": (400_000, 50, 8192),
}
PYPANTERA_WORDS = {"400,000 × 300, random": 4, "100,000 × 100, random": 60}
"""How many words it is given."""
ISSUE = {"400,000 × 300, random": 1.2, "100,000 × 100, random": 30.0}
"""Its words per CPU-second as measured when the work was planned, for runs without it."""


def one_case(name: str) -> None:
    """In a process of its own: draw, look up, print figures as JSON."""
    words, dimension, count = CASES[name]
    if words:
        matrix = np.random.default_rng(1).standard_normal((words, dimension), dtype=np.float32)
        matrix *= np.float32(0.4)
        vectors = WordVectors.__new__(WordVectors)
        vectors.matrix = matrix
    else:
        vectors = WordVectors.load()
    figures = {}
    for label, t in (("cmp", 0.0), ("vkr-cmp", 0.75)):
        mechanism = NoisyWords(vectors, epsilon=EPSILON, t=t)
        stream = Noise.secure().stream("benchmark")
        indices = np.arange(count) * 7919 % len(vectors.matrix)
        mechanism.replace(indices[:8], stream)  # compiles
        seconds = []
        for _ in range(TIMES):
            start = time.process_time()
            mechanism.replace(indices, stream)
            seconds.append(time.process_time() - start)
        figures[label] = count / min(seconds)
    figures["memory"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    figures["product"] = max(bare_product(vectors.matrix) for _ in range(TIMES))
    if byte_codes.available(dimension):
        figures["left"] = left_by_bytes(mechanism, indices[:1024])
    print(json.dumps(figures))


def left_by_bytes(mechanism: NoisyWords, indices: np.ndarray) -> float:
    """How many words the first look leaves to be compared exactly, in the mean over points."""
    words = mechanism._words(len(indices), Noise.secure().stream("benchmark"))
    codes = byte_codes.ByteCodes(mechanism.vectors.matrix)
    kept = codes.candidates(mechanism.points(indices, words[:, :-1]), np.ones(len(indices), np.bool_))
    places = np.arange(kept.found.shape[1])
    return float(((places < kept.counts[:, None]) & (kept.upper >= kept.floors[:, 1:])).sum(axis=1).mean())


def bare_product(matrix: np.ndarray, points: int = 1024, width: int = 1 << 13) -> float:
    """Words per CPU-second of the matrix product alone, in single precision, which the search is beside."""
    some = np.ones((points, matrix.shape[1]), np.float32)
    room = np.empty((points, width), np.float32)
    start = time.process_time()
    for first in range(0, len(matrix), width):
        rows = matrix[first : first + width]
        np.matmul(some, rows.T, out=room[:, : len(rows)])
    return points / (time.process_time() - start)


def measured(name: str) -> dict[str, float]:
    """Figures of one case."""
    return dict(json.loads(last_line(sys.executable, __file__, "--case", name)))


def pypantera_measured(name: str, python: str) -> float:
    """Words per CPU-second of pyPANTERA's CMP on vectors of the same kind."""
    words, dimension, _ = CASES[name]
    sizes = map(str, (words, dimension, PYPANTERA_WORDS[name], EPSILON))
    return float(last_line(python, str(Path(__file__).with_name("_pypantera.py")), *sizes))


def last_line(*command: str) -> str:
    """What a command prints last, run with one thread for matrix products and without a GPU."""
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return done.stdout.splitlines()[-1]


def main() -> None:
    """Measure all cases and write the section."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--pypantera", metavar="PYTHON", help="an interpreter with pypantera, to measure it beside")
    given = parser.parse_args()
    if given.case:
        one_case(given.case)
        return
    load = os.getloadavg()[0]
    lines = [
        "| vocabulary | cmp, words per CPU-second | vkr-cmp | bare product | left by bytes | peak memory, GiB | "
        "pyPANTERA | ratio |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in CASES:
        figures = measured(name)
        theirs = ISSUE.get(name)
        if theirs is not None and given.pypantera:
            theirs = pypantera_measured(name, given.pypantera)
        beside = "| – | – |" if theirs is None else f"| {theirs:.3g} | {figures['cmp'] / theirs:.0f} |"
        rates = " | ".join(f"{figures[label]:,.0f}" for label in ("cmp", "vkr-cmp", "product"))
        left = f"{figures['left']:.1f}" if "left" in figures else "–"
        lines.append(f"| {name} | {rates} | {left} | {figures['memory']:.2f} {beside}")
        print(lines[-1])
    beside = (
        "pyPANTERA is its package from PyPI, its CMP measured in this run on vectors of the same kind."
        if given.pypantera
        else "pyPANTERA's figures are those of the issue, measured per CPU-second on the machine the work was planned "
        "on, not in this run."
    )
    text = (
        f"## Obfuscation, words a second\n\n`python benchmarks/obfuscate.py"
        f"{' --pypantera PYTHON' if given.pypantera else ''}`, {date.today()}, ε = {EPSILON:g}, one thread for matrix "
        f"products, exact search, noise included, the best of {TIMES}; load average {load:.1f} at the start. *Bare "
        f"product*: points times all vectors in single precision and nothing else, the best of {TIMES}. *Left by "
        f"bytes*: words that the first look leaves to be compared in double precision, in the mean over points; "
        f"– where the processor has no products of bytes, and the first look is in single precision. {beside}\n\n"
    )
    write_section("obfuscate", text + "\n".join(lines))


if __name__ == "__main__":
    main()

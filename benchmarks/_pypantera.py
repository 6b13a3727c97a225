"""pyPANTERA's CMP on random vectors, in its own environment: prints words per CPU-second.

PYTHON benchmarks/_pypantera.py WORDS DIMENSION COUNT EPSILON

PYTHON has the package `pypantera` installed. Its vectors come from a text file; here they are put in place directly,
because reading is not what is measured. What is timed is its `obfuscateText` on rows of one word, as it ships.
"""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace

import numpy as np
import pandas as pd
from src.EmbeddingPerturbationMechanism.cmp import CMP  # `src` is the package's real name once installed


def main() -> None:
    """Measure one case."""
    words, dimension, count = map(int, sys.argv[1:4])
    matrix = np.random.default_rng(1).standard_normal((words, dimension), dtype=np.float32) * np.float32(0.4)
    mechanism = CMP.__new__(CMP)
    mechanism.epsilon = float(sys.argv[4])
    mechanism.embMatrix = matrix
    mechanism.vocab = SimpleNamespace(embeddings={f"w{number}": row for number, row in enumerate(matrix)})
    texts = pd.DataFrame({"id": range(count), "text": [f"w{number * 7919 % words}" for number in range(count)]})
    mechanism.obfuscateText(texts.head(1).copy(), 1)
    start = time.process_time()
    mechanism.obfuscateText(texts, 1)
    print(count / (time.process_time() - start))


if __name__ == "__main__":
    main()

"""What the tests of obfuscation share: small vocabularies, exact laws on a line, a slow search, a χ² judge."""

from functools import cache

import numpy as np
from scipy import stats

from queryveil.knowledge import embeddings
from queryveil.knowledge.embeddings import WordVectors
from vectors.obfuscate import LAW_ON_THE_LINE

ALPHA = 1e-6
DRAWS = 20_000
"""Spec 003: χ² at α = 1e-6 with power .999 tells Vickrey from plain at 248 draws, t from 1 − t at 424, t = .75 from .5
at 1,184; 20,000 leave room."""

LINE = (0.0, 1.0, 3.0)
CMP_ON_THE_LINE = np.array(LAW_ON_THE_LINE[1.0]["cmp"])
VICKREY_ON_THE_LINE = np.array(LAW_ON_THE_LINE[1.0]["vickrey"])


def vocabulary(matrix, words=None) -> WordVectors:
    """Vectors in memory; words are aa, ab, ac, … unless given."""
    matrix = np.asarray(matrix, np.float32)
    names = words or [f"{chr(97 + i // 26 % 26)}{chr(97 + i % 26)}{'x' * (i // 676)}" for i in range(len(matrix))]
    return WordVectors(*embeddings._compile("toy", list(names), matrix, "all", None))


@cache
def line() -> WordVectors:
    return vocabulary([[x] for x in LINE], ["zero", "one", "three"])


@cache
def cloud(count: int = 60, dimension: int = 4, seed: int = 3) -> WordVectors:
    return vocabulary(np.random.default_rng(seed).standard_normal((count, dimension)))


def two_nearest(matrix, points):
    """By comparing with every word in double precision; ties to the first."""
    squared = ((np.asarray(matrix, np.float64)[None] - points[:, None]) ** 2).sum(axis=2)
    order = np.argsort(squared, axis=1, kind="stable")[:, :2]
    return order, np.sqrt(np.take_along_axis(squared, order, axis=1))


def p_value(drawn, probabilities) -> float:
    """χ² of drawn words against a law; cells below 5 are joined."""
    counts = np.bincount(drawn, minlength=len(probabilities)).astype(float)
    expected = np.asarray(probabilities) * len(drawn)
    expected *= len(drawn) / expected.sum()
    rare = expected < 5
    if rare.any():
        counts, expected = (
            np.append(counts[~rare], counts[rare].sum()),
            np.append(expected[~rare], expected[rare].sum()),
        )
        if expected[-1] < 1e-9:
            assert counts[-1] == 0
            counts, expected = counts[:-1], expected[:-1]
    return float(stats.chisquare(counts, expected).pvalue)

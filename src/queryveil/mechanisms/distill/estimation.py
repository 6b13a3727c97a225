"""From noisy tables to shares of words and phrases: post-processing, which costs no privacy.

*Raking with shrinkage.* Start with the public prior. For each level, from coarse to fine, compare the weight that the
noisy table gives a class with the weight x that its words have so far, and move the words by

    r = 1 + (o − x)/x · max(τ²x² / (τ²x² + v), 1 − c²v/(o − x)²)        o the noisy weight, v its variance

The first term trusts the table as far as the noise is smaller than what the prior is usually off, τ of itself; the
second takes what is clearly there, c standard errors or more (Breiman 1995, "Better subset regression using the
nonnegative garrote"): a word that the prior hardly knows and people ask is believed. The variance is that of the noise
and that of people, who are few, too. All constants are public (benchmarks/distill.py).

>>> noisy, so_far = np.array([70.0, 30.0]), np.array([0.5, 0.5])
>>> ratios(noisy, so_far, sigma=1e-9, tau=0.5).round(3).tolist()
[1.4, 0.6]
>>> ratios(noisy, so_far, sigma=1e9, tau=0.5).round(3).tolist()  # all alike, which normalising undoes
[0.889, 0.889]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from queryveil.arrays import Floats, Longs
from queryveil.mechanisms.distill.budget import BEFORE, CLASSES, UNIT
from queryveil.mechanisms.distill.contributions import classes_of_words
from queryveil.mechanisms.distill.shrinkage import USUAL_CELLS, shrunk_ratios
from queryveil.mechanisms.distill.tables import NoisyTables
from queryveil.mechanisms.distill.texts import vocabulary

TEMPER = 0.8
"""The public counts are of the web's pages; queries use its words more evenly."""
PRIOR_OTHER = 0.03
"""The public share of words outside the vocabulary."""
CLASS_TAU, WORD_TAU, PHRASE_TAU = 0.5, 0.7, 0.8
"""How far the prior is usually off, relative to itself."""
CLEAR = 3.25
"""Standard errors from which on a difference is believed, whatever the prior."""
LIKELY = 0.8
"""The cells that a table's weight is estimated from have this share of it."""
LUMP = {
    "topics_64": 0.1,
    "topics_512": 0.06,
    "topics_3000": 0.05,
    "words": 0.04,
    "queries": 0.5,
    "phrases_64": 0.05,
    "phrases_512": 0.035,
}
"""What one person usually adds to a cell, in units: the weight of a cell is of so many people, and they vary."""
LEAST_RATIO, MOST_RATIO = 0.05, 50.0
USUAL_TAU, USUAL_TAU_CELLS, LEAST_TAU, MOST_TAU = 0.4, 2.0, 0.1, 2.0
"""How far the usual shares of a small table are off, worth so many cells, and between which bounds it is estimated."""
PAIR_TEMPER, PAIR_ADAPTATION = 0.8, 0.7
"""Public pairs count by a power, times the ratio by which raking moved their second word, to a power (Kneser,
Peters and Klakow 1997, "Language model adaptation using dynamic marginals")."""


@dataclass(frozen=True)
class Words:
    """Shares of words, the last for all words outside the vocabulary, and what stands before changes of them."""

    prior: Floats
    raked: Floats
    coarse: Floats
    """Row by class before: the ratio for each class of 64."""
    fine: Floats
    """The same for each class of 512."""


def rake(tables: NoisyTables) -> Words:
    """Shares of words and ratios of phrases."""
    classes, sigmas = classes_of_words(), tables.budget.sigmas
    prior = prior_words()
    words = prior
    for level, name in enumerate(("topics_64", "topics_512", "topics_3000")):
        mass = summed(classes[level], words, CLASSES[level])
        moved = ratios(tables.cells[name], mass, sigma=sigmas[name], tau=CLASS_TAU, lump=LUMP[name])
        words = _normalised(words * moved[classes[level]])
    words = rake_words(tables.cells["words"], words, sigma=sigmas["words"], usual=USUAL_CELLS[tables.budget.regime])
    phrases = [
        phrase_ratios(
            tables.cells[name].reshape(BEFORE, -1),
            summed(classes[level], words, CLASSES[level]),
            sigma=sigmas[name],
            lump=LUMP[name],
        )
        for level, name in enumerate(("phrases_64", "phrases_512"))
    ]
    return Words(prior, words, *phrases)


def rake_words(noisy: Longs, words: Floats, *, sigma: float, usual: float = USUAL_CELLS[0]) -> Floats:
    """Shares of words, moved by their noisy weights."""
    total = _totals(noisy[None, :], words, sigma=sigma)[0]
    moved = shrunk_ratios(noisy, words * total, sigma=sigma, tau=WORD_TAU, lump=LUMP["words"], usual=usual)
    return _normalised(words * moved)


def summed(cell: Longs, values: Floats, cells: int) -> Floats:
    """The sum of the values of each cell."""
    return np.asarray(np.bincount(cell, values, minlength=cells), np.float64)


def prior_words() -> Floats:
    """The public shares of words."""
    shares = vocabulary().counts.astype(np.float64) ** TEMPER
    return np.append(shares / shares.sum() * (1 - PRIOR_OTHER), PRIOR_OTHER)


def ratios(noisy: Floats | Longs, so_far: Floats, *, sigma: float, tau: float, lump: float = 0.0) -> Floats:
    """By how much each share so far is moved."""
    total = _totals(noisy[None, :], so_far, sigma=sigma)[0]
    return _moved(noisy, np.maximum(so_far, 1e-12) * total, sigma=sigma, tau=tau, lump=lump)


def _totals(noisy: Floats | Longs, so_far: Floats, *, sigma: float) -> Floats:
    """The weight of each row, by its likeliest cells: what the others add is mostly noise. At least that noise."""
    order = np.argsort(-so_far, kind="stable")
    running = np.cumsum(so_far[order]) / so_far.sum()
    count = int(np.searchsorted(running, LIKELY)) + 1
    part = noisy[:, order[:count]].sum(axis=1) / running[count - 1]
    totals: Floats = np.maximum(part, max(sigma * np.sqrt(count) / running[count - 1], 1.0))
    return totals


def _moved(noisy: Floats | Longs, expected: Floats, *, sigma: float, tau: float, lump: float) -> Floats:
    """r of the module's docstring."""
    variance = sigma**2 + lump * UNIT * np.maximum(np.maximum(noisy, expected), 0)
    gap = noisy - expected
    trust = tau**2 / (tau**2 + variance / expected**2)
    clear = 1 - CLEAR**2 * variance / np.maximum(gap**2, 1e-30)
    moved: Floats = np.clip(1 + gap / expected * np.maximum(trust, clear), LEAST_RATIO, MOST_RATIO)
    return moved


def phrase_ratios(noisy: Longs, mass: Floats, *, sigma: float, lump: float = 0.0) -> Floats:
    """For each class before, by how much it moves the classes of the next word; with `mass`, every row adds up to 1."""
    rows = _totals(noisy, mass, sigma=sigma)
    expected = np.maximum(rows[:, None] * mass[None, :], 1e-9)
    moved = _moved(noisy, expected, sigma=sigma, tau=PHRASE_TAU, lump=lump)
    normalised: Floats = moved / (moved * mass).sum(axis=1, keepdims=True)
    return normalised


def histogram(noisy: Longs, usual: Floats, *, sigma: float, tau: float = 1.0) -> Floats:
    """Shares of a small table's cells: the usual ones, moved as far as the noise allows."""
    return _normalised(usual * np.maximum(ratios(noisy, usual, sigma=sigma, tau=tau), 1e-3))


def usually_off(noisy: Longs, usual: Floats, *, sigma: float) -> float:
    """τ of a small table as the table itself tells it (empirical Bayes), by moments.

    A gap's square is σ² and τ²x² on average; cells that noise drowns hardly count.

    >>> usual, rng = np.full(50, 0.02), np.random.default_rng(1)
    >>> alike, apart = (rng.normal(100, 10, 50), rng.normal(100, 10, 50) * rng.choice([0.5, 1.5], 50))
    >>> bool(usually_off(alike, usual, sigma=10.0) < 0.15), bool(usually_off(apart, usual, sigma=10.0) > 0.4)
    (True, True)
    """
    expected = usual * _totals(noisy[None, :], usual, sigma=sigma)[0]
    relative = (sigma / np.maximum(expected, 1e-9)) ** 2
    weight = (USUAL_TAU**2 / (USUAL_TAU**2 + relative)) ** 2
    found = ((noisy / np.maximum(expected, 1e-9) - 1) ** 2 - relative) @ weight
    square = (USUAL_TAU_CELLS * USUAL_TAU**2 + found) / (USUAL_TAU_CELLS + weight.sum())
    return float(np.sqrt(np.clip(square, LEAST_TAU**2, MOST_TAU**2)))


def _normalised(shares: Floats) -> Floats:
    normalised: Floats = shares / shares.sum()
    return normalised

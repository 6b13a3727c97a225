"""How far each of very many noisy cells is believed, as the cells themselves teach (empirical Bayes).

Of half a million words few are asked at all, and which part of them, and how much more than the public prior expects,
differs from log to log. So cells are grouped by how much is expected of them, and each group's noisy weights say how
its true ratios to what is expected are spread: the likeliest spread over a grid of ratios, by expectation maximisation
(Kiefer and Wolfowitz 1956, "Consistency of the maximum likelihood estimator in the presence of infinitely many
incidental parameters"; Robbins 1956), with some cells' worth of the usual spread in it, so that small groups stay near
that. A cell's ratio is then its mean given its noisy weight. Post-processing: it sees noisy tables only.

>>> expected = np.full(10_000, 0.1)
>>> noisy = np.random.default_rng(1).normal(np.where(np.arange(10_000) < 100, 8.0, 0.0), 1.0)
>>> moved = shrunk_ratios(noisy, expected, sigma=1.0, tau=0.7)
>>> bool(np.median(moved[:100]) > 60), bool(np.median(moved[100:]) < 2)
(True, True)
"""

from __future__ import annotations

import numpy as np

from queryveil.arrays import Floats, Longs
from queryveil.mechanisms.distill.budget import UNIT

GROUPS = np.log(1.4)
"""Cells of a group are expected to weigh alike, within this factor."""
LEAST_EXPECTED = 1e-6
STEP = 0.25
"""Noisy weights are rounded to so many standard deviations of the noise."""
MOST = 50.0
"""From so many of them on a weight is taken as it is."""
NEAR = np.geomspace(0.1, 20, 32)
FAR = 34
"""The grid: ratios near one, and so many from there to the largest weight. None is smaller: what nobody of these people
asked, others may."""
ROUNDS = 25
USUAL_CELLS = (3000.0, 3000.0, 300.0, 300.0, 300.0, 3000.0, 3000.0)
"""The usual spread counts as so many cells, by regime (`budget.STEPS`): in the middle a log that uses few words evenly
tells so itself. Where there is next to no noise, what is left is what these people happen to say more than others."""
USUAL_FAR = 1e-3
"""Of these this share are anywhere, not near one."""


def shrunk_ratios(
    noisy: Floats | Longs,
    expected: Floats,
    *,
    sigma: float,
    tau: float,
    lump: float = 0.0,
    usual: float = USUAL_CELLS[0],
) -> Floats:
    """The mean ratio of each cell to what is expected of it; `tau` is the usual spread of its logarithm, which counts
    as `usual` cells."""
    unit = float(np.hypot(sigma, lump * UNIT))  # where there is hardly any noise, what one person adds is the grain
    weight, mean = np.asarray(noisy, np.float64) / unit, np.maximum(expected / unit, LEAST_EXPECTED)
    noise, person = (sigma / unit) ** 2, lump * UNIT / unit
    group = np.floor(np.log(mean) / GROUPS).astype(np.int64)
    rounded = np.clip(np.round(weight / STEP), -MOST / STEP, MOST / STEP).astype(np.int64)
    ratios = np.where(weight > MOST, weight / mean, 1.0)
    order = np.argsort(group, kind="stable")
    for cells in np.split(order, np.flatnonzero(np.diff(group[order])) + 1) if len(order) else []:
        seen, place, count = np.unique(rounded[cells], return_inverse=True, return_counts=True)
        middle = float(np.exp(np.log(mean[cells]).mean()))
        means = _means(STEP * seen.astype(np.float64), count, middle, tau, noise, person, usual)
        within = weight[cells] <= MOST
        ratios[cells[within]] = means[place[within]]
    return ratios


def _means(
    weight: Floats, count: Longs, expected: float, tau: float, noise: float, person: float, cells: float
) -> Floats:
    """The mean ratio given each of some noisy weights, of which a group has so many."""
    grid = np.concatenate([NEAR, np.geomspace(25, max(50.0, 1.2 * MOST / expected), FAR)])
    usual = np.exp(-0.5 * (np.log(grid) / tau) ** 2)
    anywhere = 1 / grid
    usual = (1 - USUAL_FAR) * usual / usual.sum() + USUAL_FAR * anywhere / anywhere.sum()
    spread = np.sqrt(noise + person * expected * grid)
    likely = np.exp(-0.5 * ((weight[:, None] - expected * grid) / spread) ** 2) / spread + 1e-300
    shares = usual
    for _ in range(ROUNDS):
        mine = likely * shares
        shares = count @ (mine / mine.sum(axis=1, keepdims=True)) + cells * usual
        shares /= shares.sum()
    mine = likely * shares
    means: Floats = (mine @ grid) / mine.sum(axis=1)
    return means

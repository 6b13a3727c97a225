"""The exact distance between what two neighbouring logs publish, by enumeration. For tests of sanitize's safe mode.

One more user holds `shared` pairs of the others and `own` pairs of nobody else. Every pair's outcome is "not published"
or a noisy number, independently; the hockey-stick distance of the products is summed over all outcomes.
"""

import itertools
import math
from fractions import Fraction

import numpy as np

from queryveil.mechanisms.sanitize.selection import Selection
from queryveil.privacy.calibration import KEEP_UNIT
from queryveil.privacy.noise import gaussian_fraction


def outcome_law(selection: Selection, people: int) -> dict[object, float]:
    """P(outcome) of one pair: None where it is not published, else its noisy number (or True where only keys are)."""
    if people == 0:
        return {None: 1.0}
    if selection.keys:
        kept = selection.keys[min(people, len(selection.keys) - 1)] / KEEP_UNIT
        return {None: 1 - kept, True: kept}
    if selection.kind == "gaussian":
        top, bottom, _ = gaussian_fraction(selection.scale)
        reach = math.ceil(12 * math.sqrt(top / bottom)) + 2
        noise = np.arange(-reach, reach + 1)
        mass = np.exp(-(noise.astype(float) ** 2) / (2 * top / bottom))
    else:
        rate = float(1 / Fraction(selection.scale))
        reach = math.ceil(45 / rate)
        noise = np.arange(-reach, reach + 1)
        mass = np.exp(-np.abs(noise) * rate)
    mass /= mass.sum()
    law: dict[object, float] = {None: float(mass[people + noise <= selection.threshold].sum())}
    for value, probability in zip(noise, mass, strict=True):
        if people + value > selection.threshold:
            law[int(people + value)] = float(probability)
    return law


def distance(selection: Selection, epsilon: float, *, others: list[int], own: int) -> float:
    """The larger of the two directions; `others` has the number of other people of each shared pair."""
    pairs = [(outcome_law(selection, n), outcome_law(selection, n + 1)) for n in others]
    pairs += [(outcome_law(selection, 0), outcome_law(selection, 1))] * own
    ratios = []
    for without, with_her in pairs:
        cells: dict[tuple[float, float], float] = {}
        for outcome in without.keys() | with_her.keys():
            p, q = without.get(outcome, 0.0), with_her.get(outcome, 0.0)
            cells[(p, q)] = cells.get((p, q), 0) + 1
        ratios.append([(p, q, times) for (p, q), times in cells.items()])
    there = back = 0.0
    for combination in itertools.product(*ratios):
        p = math.prod(cell[0] for cell in combination)
        q = math.prod(cell[1] for cell in combination)
        times = math.prod(cell[2] for cell in combination)
        there += times * max(0.0, p - math.exp(epsilon) * q)
        back += times * max(0.0, q - math.exp(epsilon) * p)
    return max(there, back)

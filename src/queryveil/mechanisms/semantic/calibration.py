"""The exact privacy loss of a law, and the largest exponent that keeps it within a claim.

The exponential mechanism proves ε for the exponent ε / 2Δ, but here the domain is public and the true loss

    max over inputs i, i' and outputs o of ln P(o | i) / P(o | i')

can be computed outright: it is about half of the proved one, so the paper wastes half of its budget. `loss` computes it
from the law's own integers: per output the largest and the smallest probability, one scan for each input (or group of
inputs that nothing tells apart), no table of pairs. `calibrate` then searches the exponent whose loss is just below the
claim. The search may look for what it likes: what is returned is certified by `loss` alone.

Rounding is against ourselves: a weight, its total and their quotient are each within a factor 1 ± 2^-53 as floats, so
a ratio of two probabilities is within 1 ± 2^-50, which is added. The witness names the three concepts from whose
integers anybody can compute the ratio as a fraction.

Cost: O(groups · N) for one loss, about eight of them for one calibration; memory O(N). The outcome is kept in the cache
folder (`QUERYVEIL_CACHE`) under the holder's own key (`sealed.py`); a damaged or altered file is made again.

>>> from queryveil.knowledge.taxonomy import Taxonomy
>>> from queryveil.mechanisms.semantic.law import printed_exponents
>>> toy = Taxonomy.build(["R", "H", "S", "flu", "asthma", "tennis"], [[], [0], [0], [1], [1], [2]], [["r"]] * 6)
>>> domain = Domain.of([toy], outside=False)
>>> printed = ClassLaw.of(domain, "sqc1", printed_exponents(domain, "sqc1", 2.0))
>>> round(loss(printed).epsilon, 8)
1.0655152
>>> calibrated = calibrate(domain, "sqc1", 2.0)
>>> round(calibrated.epsilon, 8), round(2 * calibrated.exponent * (1 - domain.minimum_similarity), 8)
(2.0, 3.85544174)
"""

from __future__ import annotations

import hashlib
import json
import math
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from fractions import Fraction
from itertools import pairwise

import numpy as np

from queryveil.arrays import Floats
from queryveil.errors import KnowledgeError
from queryveil.mechanisms.semantic import sealed
from queryveil.mechanisms.semantic.domain import Domain
from queryveil.mechanisms.semantic.law import (
    ClassCounts,
    ClassLaw,
    Criterion,
    Law,
    in_threads,
    printed_exponents,
    scores,
)
from queryveil.progress import parts

SCHEMA = 3  # raise when laws are made, or their losses measured, differently
RELATIVE_ERROR = 2.0**-50
TOLERANCE = 1e-12
MOST_STEPS = 40
SMALLEST_LOSS = 1e-9
LARGEST_LOSS = 64.0
"""Beyond it every weight but the largest is 1 and a larger exponent changes nothing."""


@dataclass(frozen=True)
class Loss:
    """The exact worst case of a law: `epsilon` is not below ln of the `ratio`, which the witness attains."""

    epsilon: float
    output: int
    likeliest_input: int
    unlikeliest_input: int
    ratio: Fraction | None
    """None where an output is impossible for some input: then the loss is infinite."""


@dataclass(frozen=True)
class Use:
    """What a law keeps: the mean similarity of input and output over equally likely inputs; and the same for outputs
    drawn evenly, which know nothing of the input."""

    expected: float
    floor: float


@dataclass(frozen=True, eq=False)
class Certified:
    """A law with its certified loss per draw; `exponent` is None where the law is not of the exponential family."""

    law: Law
    criterion: str
    exponent: float | None
    epsilon: float
    witness: tuple[int, int, int]
    measured: float
    """What was compared with the claim: `epsilon`, or the loss of many draws together."""
    use: Use | None = None
    """Where the law was chosen by it."""

    @property
    def digest(self) -> str:
        """What the guarantee names: domain, whole-number law, losses and witness."""
        losses = (self.epsilon.hex(), self.measured.hex())
        content = [self.law.digest, self.criterion, *losses, *map(int, self.witness)]
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def loss(law: ClassLaw) -> Loss:
    """The exact worst-case log-ratio of a law, rounded up."""
    return loss_from_extremes(law, *output_extremes(law))


def loss_from_extremes(law: Law, largest: Floats, smallest: Floats) -> Loss:
    """The worst case from every output's largest and smallest probability."""
    with np.errstate(divide="ignore"):
        ratios = largest / smallest
    worst = int(ratios.argmax())
    column = law.column(worst)
    likeliest, unlikeliest = int(column.argmax()), int(column.argmin())
    least = law.probability(unlikeliest, worst)
    if not least:
        return Loss(math.inf, worst, likeliest, unlikeliest, None)
    epsilon = math.log(float(ratios[worst])) * (1 + RELATIVE_ERROR) + RELATIVE_ERROR
    return Loss(epsilon, worst, likeliest, unlikeliest, law.probability(likeliest, worst) / least)


def output_extremes(law: ClassLaw) -> tuple[Floats, Floats]:
    """For every output its largest and its smallest probability over all inputs."""
    from queryveil.mechanisms.semantic._law_kernel import extremes

    size, groups, arrays = len(law.domain), law.domain.groups, law.domain.arrays
    if law.is_response:  # every output is likeliest for itself and equally unlikely for all others
        weights = law.weights[0, [law.domain.same_class, 0]] / law.totals[0]
        return np.full(size, weights.max()), np.full(size, weights.min())
    largest, smallest = np.zeros(size), np.full(size, np.inf)
    lock = threading.Lock()

    def work(first: int, last: int) -> None:
        high, low = np.zeros(size), np.full(size, np.inf)
        extremes(first, last, groups.offsets, groups.values, arrays, law.weights, law.totals, high, low)
        with lock:
            np.maximum(largest, high, out=largest)
            np.minimum(smallest, low, out=smallest)

    in_threads(work, len(groups))
    return largest, smallest


def calibrate(domain: Domain, criterion: Criterion, epsilon: float) -> Certified:
    """The law of a criterion whose certified loss comes up to `epsilon`, and never above it; kept in the cache."""
    # Whole-number weights make the loss a staircase: the least weight moves by one in about e^-ε · 2^60 / N.
    stairs = math.exp(min(epsilon, 40.0)) * len(domain) * 2.0**-60
    tolerance = max(TOLERANCE * epsilon, 4 * stairs, 4 * RELATIVE_ERROR)
    return cached(
        float(epsilon).hex(),
        domain,
        criterion,
        lambda: search(domain, criterion, epsilon, epsilon, tolerance, lambda law, found: found.epsilon),
        epsilon,
    )


def cached(claim: str, domain: Domain, criterion: str, make: Callable[[], Certified], most: float) -> Certified:
    """What the cache holds for a claim; made and written first where that is nothing, altered or above `most`."""
    claim = f"law {SCHEMA} {domain.digest} {criterion} {claim}"
    known = sealed.read(claim)
    if known is not None:
        header, arrays = known
        one, two, three = arrays["witness"].tolist()
        law = ClassLaw(domain, arrays["weights"], arrays["totals"])
        exponent, epsilon, measured = (float(header[name]) for name in ("exponent", "epsilon", "measured"))
        if epsilon <= measured <= most:
            return Certified(law, criterion, exponent, epsilon, (one, two, three), measured)
    found = make()
    assert isinstance(found.law, ClassLaw)
    header = {"exponent": found.exponent, "epsilon": found.epsilon, "measured": found.measured}
    content = {"weights": found.law.weights, "totals": found.law.totals, "witness": np.array(found.witness)}
    sealed.write(claim, header, content)
    return found


def search(
    domain: Domain,
    criterion: Criterion,
    claim: float,
    per_draw: float,
    tolerance: float,
    measure: Callable[[ClassLaw, Loss], float],
) -> Certified:
    """The law with the largest exponent seen whose measured loss is within the claim, by bracketed secant steps.

    `measure` turns a law and its loss into what is claimed; `per_draw` is a guess of the loss of one draw.
    """
    if criterion != "nsqc":
        ClassCounts.of(domain)  # a scan of its own, told by itself
    best: Certified | None = None
    aim = claim - tolerance / 2

    def excess(exponent: float) -> float:
        nonlocal best
        with part():
            law = ClassLaw.of(domain, criterion, exponent)
            found = loss(law)
            measured = measure(law, found)
        if measured <= claim and (best is None or exponent > (best.exponent or 0.0)):
            witness = (found.output, found.likeliest_input, found.unlikeliest_input)
            best = Certified(law, criterion, exponent, found.epsilon, witness, measured)
        return measured - aim

    span = float(np.ptp(scores(domain, criterion)))
    with parts("calibrating the law") as part:
        low, high = per_draw / span / 4, per_draw / span
        low_excess, high_excess = excess(low), excess(high)
        while low_excess >= 0 and low * span > SMALLEST_LOSS:
            high, high_excess = low, low_excess
            low /= 4
            low_excess = excess(low)
        while high_excess < 0 and high * span < LARGEST_LOSS:
            low, low_excess = high, high_excess
            high *= 1.5
            high_excess = excess(high)
        moved = 0
        for _ in range(MOST_STEPS):
            if best is not None and (claim - best.measured <= tolerance or high_excess < 0):
                break
            middle = low - low_excess * (high - low) / (high_excess - low_excess)
            if not low < middle < high:
                middle = (low + high) / 2
            middle_excess = excess(middle)
            if middle_excess < 0:
                low, low_excess = middle, middle_excess
                high_excess *= 0.5 if moved < 0 else 1.0  # Illinois: an end that stays twice loses weight
                moved = -1
            else:
                high, high_excess = middle, middle_excess
                low_excess *= 0.5 if moved > 0 else 1.0
                moved = 1
    if best is None:
        raise KnowledgeError(f"no exponent keeps the loss of this domain below ε = {claim:g}. Choose a larger ε.")
    return best


@dataclass(frozen=True)
class Printed:
    """The exact worst-case log-ratio of the law as printed, within a domain, and a digest of law and loss."""

    epsilon: float
    digest: str


def printed_loss(domain: Domain, criterion: Criterion, epsilon: float) -> Printed:
    """The largest over the parts of a domain, since a concept stays in its part; kept in the cache."""
    claim = f"printed {SCHEMA} {domain.digest} {criterion} {epsilon.hex()}"
    known = sealed.read(claim)
    if known is not None:
        return Printed(**known[0])
    starts = domain.arrays.part_starts.tolist()
    content: list[str] = []
    worst = 0.0
    for part, (first, last) in zip(domain.parts, pairwise(starts), strict=True):
        alone = Domain.of([part], outside=False, topics=domain.topic_of[first:last])
        law = ClassLaw.of(alone, criterion, printed_exponents(alone, criterion, epsilon))
        found = loss(law)
        worst = max(worst, found.epsilon)
        content += [law.digest, found.epsilon.hex()]
    printed = Printed(worst, hashlib.sha256(json.dumps(content).encode()).hexdigest())
    sealed.write(claim, asdict(printed), {})
    return printed

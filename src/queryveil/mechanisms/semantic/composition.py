"""What many draws by one law cost together when a small δ is allowed: privacy-loss distributions over the public
matrix.

The loss of one draw is a random number, seldom as large as the worst case; over many draws the sum concentrates
(Dwork, Rothblum and Vadhan 2010; here numerically, `privacy/repeated_losses.py`). Upper bounds on the curve
δ(t) = max over pairs of inputs of Σ_o (P(o | i) − e^t P(o | i'))_+ are used:

- k-ary randomised response (`nsqc`): all pairs have the same three losses, so the composition is exact; the ball law
  has three losses too (`ball.py`);
- up to 640 concepts: the curve of every pair of inputs, and the largest of them at every t, which dominates all;
- any size: P(o | i') replaced by its least value over all inputs, one scan for each input.

The last two round losses up to a grid and take the best of that and of the bound that holds for every law with the
certified loss (`queryveil.privacy.accounting.repeated_pure`).

>>> from queryveil.knowledge.taxonomy import Taxonomy
>>> from queryveil.mechanisms.semantic.calibration import calibrate
>>> toy = Taxonomy.build(["R", "H", "S", "flu", "asthma", "tennis"], [[], [0], [0], [1], [1], [2]], [["r"]] * 6)
>>> certified = calibrate(Domain.of([toy], outside=False), "nsqc", 0.1)
>>> round(repeated(certified, 100, 0.0), 9), 2 < repeated(certified, 100, 1e-6) < 6
(10.0, True)
"""

from __future__ import annotations

import math
import threading
from fractions import Fraction

import numpy as np

from queryveil.arrays import Floats
from queryveil.errors import ParameterError
from queryveil.mechanisms.semantic.ball import BALL, repeated_ball
from queryveil.mechanisms.semantic.calibration import Certified, Loss, cached, output_extremes, search
from queryveil.mechanisms.semantic.domain import Domain
from queryveil.mechanisms.semantic.law import ClassLaw, Criterion, Law, in_threads
from queryveil.privacy import repeated_losses
from queryveil.privacy.accounting import float_up, repeated_pure
from queryveil.privacy.repeated_losses import Lattice, epsilon_of

CONCEPTS_FOR_ALL_PAIRS = 640
POINTS = 500
"""Points of the loss grid on each side of 0 for all pairs; four times as many where only one side is needed."""
TOLERANCE = 1e-3
CURVE_ERROR = 1e-12
"""How far summing up a curve may be off, relative to it."""


def repeated(certified: Certified, times: int, delta: float) -> float:
    """The ε for which `times` draws by this law are together (ε, delta)-DP; rounded up, never above the plain sum."""
    plain = float_up(Fraction(certified.epsilon) * times)
    if delta == 0.0:
        return plain
    if certified.criterion == BALL:
        return repeated_ball(certified, times, delta)
    return min(plain, _composed(certified.law, certified.criterion, certified.epsilon, times, delta))


def calibrate_repeated(domain: Domain, criterion: Criterion, epsilon: float, delta: float, times: int) -> Certified:
    """The law of which `times` draws are together (epsilon, delta)-DP; kept in the cache."""

    def measure(law: ClassLaw, found: Loss) -> float:
        plain = float_up(Fraction(found.epsilon) * times)
        if plain <= epsilon:
            return plain
        # One draw is never sold for more than all together, although δ might allow it.
        return max(found.epsilon, min(plain, _composed(law, criterion, found.epsilon, times, delta)))

    guess = max(epsilon / times, min(epsilon / math.sqrt(8 * times * math.log(1 / delta)), 30.0))
    certified = cached(
        f"{epsilon.hex()} {delta.hex()} {times} losses {repeated_losses.VERSION}",
        domain,
        criterion,
        lambda: search(domain, criterion, epsilon, guess, TOLERANCE * epsilon, measure),
        epsilon,
    )
    if not certified.epsilon > 0:
        raise ParameterError([f"epsilon must be larger for {times} queries at δ = {delta:g}; got {epsilon:g}."])
    return certified


def _composed(law: Law, criterion: str, epsilon: float, times: int, delta: float) -> float:
    if criterion == "nsqc":
        return epsilon_of(response_losses(law, epsilon), times, delta)
    if len(law.domain) <= CONCEPTS_FOR_ALL_PAIRS:
        gap, curve = pair_curve(law.matrix(), epsilon)
        lowest = -POINTS
    else:
        assert isinstance(law, ClassLaw)
        gap, curve = least_curve(law, epsilon)
        lowest = 0
    return min(epsilon_of(losses_above(curve, gap, lowest), times, delta), repeated_pure(epsilon, times, delta))


def response_losses(law: Law, epsilon: float) -> Lattice:
    """The privacy losses of k-ary randomised response, exactly: ε, 0 and −ε."""
    size = len(law.domain)
    same, other = float(law.probability(0, 0)), float(law.probability(0, 1))
    return Lattice(start=-epsilon, gap=epsilon, chances=np.array([other, (size - 2) * other, same]))


def losses_above(curve: Floats, gap: float, lowest: int) -> Lattice:
    """Losses on a lattice whose own curve is nowhere below this one, given at the losses lowest · gap and on.

    Doroshenko, Ghazi, Kamath, Kumar and Manurangsi (2022), "Connect the Dots": δ is convex in e^t, so straight lines
    through its points lie above it; the chance of a loss is how much the line bends there. The highest point is
    not below any loss, so that δ is 0 there. Differences of near points round; hence the curve of the result is summed
    up (of terms that are not negative) and all chances are raised until it is nowhere below.
    """
    curve = np.append(curve[:-1], 0.0)
    steps = np.diff(curve, prepend=1.0, append=0.0)
    bends = steps[1:] / math.expm1(gap) - steps[:-1] / -math.expm1(-gap)
    bends[0] = steps[1] / math.expm1(gap) + (1.0 - curve[0])  # the line to δ = 1 at e^t = 0
    chances = np.maximum(bends, 0.0)
    own = np.zeros_like(curve)
    tails = np.append(np.cumsum(chances[:0:-1])[::-1], 0.0)
    for place in range(len(curve) - 2, -1, -1):
        own[place] = own[place + 1] * math.exp(-gap) - math.expm1(-gap) * tails[place]
    wanted = curve > 0
    short = max(1 / float(chances.sum()), float((curve[wanted] / own[wanted]).max(initial=1.0)), 1.0)
    return Lattice(start=lowest * gap, gap=gap, chances=chances * (short + CURVE_ERROR))


def pair_curve(matrix: Floats, epsilon: float) -> tuple[float, Floats]:
    """δ at the losses −POINTS … POINTS times the gap: the largest over all pairs of inputs."""
    from queryveil.mechanisms.semantic._law_kernel import losses_of_all_pairs

    gap = epsilon / POINTS * (1 + 1e-9)
    curve = np.zeros(2 * POINTS + 1)
    lock = threading.Lock()

    def work(first: int, last: int) -> None:
        own = np.zeros_like(curve)
        losses_of_all_pairs(first, last, matrix, gap, -POINTS, own)
        with lock:
            np.maximum(curve, own, out=curve)

    in_threads(work, len(matrix))
    return gap, np.minimum(curve, 1.0)


def least_curve(law: ClassLaw, epsilon: float) -> tuple[float, Floats]:
    """An upper bound on δ at the losses 0 … 4·POINTS times the gap, from every output's least probability.

    For t < 0 the bound Σ_o (P(o | i) − e^t · least(o))_+ is a straight line in e^t, which is how the curve is read on.
    """
    from queryveil.mechanisms.semantic._law_kernel import losses_against_least

    points = 4 * POINTS
    gap = epsilon / points * (1 + 1e-9)
    log_least = np.log(output_extremes(law)[1])
    groups, arrays = law.domain.groups, law.domain.arrays
    first_members = groups.values[groups.offsets[:-1]].astype(np.int64)
    curve = np.zeros(points + 1)
    lock = threading.Lock()

    def work(first: int, last: int) -> None:
        own = np.zeros_like(curve)
        losses_against_least(first, last, first_members, arrays, law.weights, law.totals, log_least, gap, own)
        with lock:
            np.maximum(curve, own, out=curve)

    in_threads(work, len(first_members))
    return gap, np.minimum(curve, 1.0)

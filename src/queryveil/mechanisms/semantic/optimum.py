"""The law that keeps most similarity at a given loss.

Which law to use when nobody says (`choose`): the ball law (`ball.py`) wins where ε is small or middling, and becomes
k-ary randomised response (`nsqc`) where it is large; up to 60 concepts a linear program is as good or better. All are
known before any data: the choice compares expected similarity over equally likely inputs and is public. Of the paper's
`sqc1` one draw keeps less than the ball at every ε (`tests/mechanisms/test_semantic_ball.py`), so it is no candidate.
For many draws together it can be a little better in a domain of a few concepts; it is tried up to `FEW_CONCEPTS`, since
its calibration scans the domain some ten times.

The best law there is for a small domain (`optimum`), by linear programming:
among all laws with loss ε, the one that keeps most similarity in expectation over equally likely inputs: maximise
Σ P(o | i) · sim(i, o) with every row a distribution and u_o ≤ P(o | i) ≤ e^ε · u_o for a free u_o per output. That says
the same as comparing all pairs of inputs, with N² constraints in place of N³. The solver's answer is a float answer: it
is clipped into the constraints of a slightly smaller ε, turned into whole numbers, and certified on those like any
other.

Cost: seconds for 60 concepts, which is the limit.

>>> from queryveil.knowledge.taxonomy import Taxonomy
>>> toy = Taxonomy.build(["R", "H", "S", "flu", "asthma", "tennis"], [[], [0], [0], [1], [1], [2]], [["r"]] * 6)
>>> best = optimum(Domain.of([toy], outside=False), 1.0)
>>> best.epsilon <= 1.0, round(best.law.expected_similarity(), 3)
(True, 0.582)
>>> choose(Domain.of([toy], outside=True), 1.0).criterion
'lp'
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from functools import cached_property, partial

import numpy as np

from queryveil.arrays import Array, Floats, Longs
from queryveil.errors import KnowledgeError
from queryveil.mechanisms.semantic import sealed
from queryveil.mechanisms.semantic.ball import BALL, Nearest, ball, ball_repeated
from queryveil.mechanisms.semantic.calibration import Certified, Loss, Use, calibrate, loss_from_extremes
from queryveil.mechanisms.semantic.composition import calibrate_repeated
from queryveil.mechanisms.semantic.domain import Domain
from queryveil.mechanisms.semantic.law import Criterion, class_row_of
from queryveil.privacy.noise import LARGEST_INTEGER, NoiseStream

MOST_CONCEPTS = 60
FEW_CONCEPTS = 2000
SCHEMA = 5  # raise when the candidates or their measure change
FIRST_MARGIN = 1e-7


@dataclass(frozen=True, eq=False)
class MatrixLaw:
    """A law given by whole-number weights for every pair."""

    domain: Domain
    weights: Longs

    @cached_property
    def totals(self) -> Longs:
        """Z of every input."""
        return np.asarray(self.weights.sum(axis=1), np.int64)

    def probability(self, concept: int, output: int) -> Fraction:
        """P(output | concept), exactly."""
        return Fraction(int(self.weights[concept, output]), int(self.totals[concept]))

    def probabilities(self, concept: int) -> list[Fraction]:
        """P(· | concept), exactly."""
        return [self.probability(concept, output) for output in range(len(self.domain))]

    def column(self, output: int) -> Floats:
        """P(output | ·) for every input, as floats."""
        return np.asarray(self.weights[:, output] / self.totals)

    def matrix(self) -> Floats:
        """All probabilities as floats."""
        return np.asarray(self.weights / self.totals[:, None])

    def expected_similarity(self) -> float:
        """The mean similarity of input and output over equally likely inputs."""
        return float((self.matrix() * similarities(self.domain)).sum() / len(self.domain))

    def true_share(self) -> float:
        """How likely an input is drawn as itself, on average over inputs."""
        return float((np.diagonal(self.weights) / self.totals).mean())

    @property
    def scans(self) -> bool:
        """The matrix is at hand."""
        return False

    def numbers(self, inputs: Array, stream: NoiseStream) -> Longs:
        """A uniform number below Z for every input."""
        return stream.below(self.totals[inputs]) if len(inputs) else np.empty(0, np.int64)

    def outputs(self, inputs: Array, numbers: Longs) -> Array:
        """Where each number falls among the weights of its input's row."""
        reached = np.cumsum(self.weights, axis=1)
        outputs = np.empty(len(inputs), np.int32)
        for concept in np.unique(inputs).tolist():
            mine = inputs == concept
            outputs[mine] = np.searchsorted(reached[concept], numbers[mine], side="right")
        return outputs

    @cached_property
    def digest(self) -> str:
        """A SHA-256 over domain and weights."""
        return hashlib.sha256(self.domain.digest.encode() + np.ascontiguousarray(self.weights).tobytes()).hexdigest()


def similarities(domain: Domain) -> Floats:
    """sim of all pairs: for small domains."""
    return np.stack([domain.class_similarity[class_row_of(domain, i)] for i in range(len(domain))])


def optimum(domain: Domain, epsilon: float) -> Certified:
    """The certified law that keeps most similarity at loss `epsilon`."""
    margin = FIRST_MARGIN
    while margin < 0.1:
        law = MatrixLaw(domain, _whole(_solved(similarities(domain), epsilon - margin * epsilon), domain))
        found: Loss = loss_from_extremes(law, law.matrix().max(axis=0), law.matrix().min(axis=0))
        if found.epsilon <= epsilon:
            witness = (found.output, found.likeliest_input, found.unlikeliest_input)
            return Certified(law, "lp", None, found.epsilon, witness, found.epsilon)
        margin *= 10
    raise KnowledgeError("the solver found no law within this ε. Choose the criterion sqc1 or nsqc.")


def _solved(similarity: Floats, epsilon: float) -> Floats:
    from scipy.optimize import linprog
    from scipy.sparse import csr_array, eye_array, hstack, kron, vstack

    size = len(similarity)
    factor = math.exp(epsilon)
    # Variables: P row by row, then u.
    per_output = kron(np.ones((size, 1)), eye_array(size))  # picks u_o for each P(o | i)
    at_least = hstack([-eye_array(size * size), per_output])
    at_most = hstack([eye_array(size * size), -factor * per_output])
    rows = hstack([kron(eye_array(size), np.ones((1, size))), csr_array((size, size))])
    answer = linprog(  # type: ignore[call-overload]  # the stubs know no sparse arrays
        np.concatenate([-similarity.ravel(), np.zeros(size)]),
        A_ub=csr_array(vstack([at_least, at_most])),
        b_ub=np.zeros(2 * size * size),
        A_eq=csr_array(rows),
        b_eq=np.ones(size),
        bounds=(0, 1),
        method="highs-ipm",
    )
    if answer.x is None:
        raise KnowledgeError("the solver gave no answer for this domain. Choose the criterion sqc1 or nsqc.")
    law, least = answer.x[:-size].reshape(size, size), answer.x[-size:]
    return np.asarray(np.clip(law, least, factor * least))


def _whole(law: Floats, domain: Domain) -> Longs:
    scale = float(2 ** ((LARGEST_INTEGER // len(domain)).bit_length() - 1))
    return np.asarray(np.maximum(1, np.rint(law / law.sum(axis=1, keepdims=True) * scale)), np.int64)


def choose(domain: Domain, epsilon: float) -> Certified:
    """The law with the largest expected similarity among those with loss `epsilon` a draw."""
    make: dict[str, Callable[[], Certified]] = {"nsqc": partial(calibrate, domain, "nsqc", epsilon)}
    make[BALL] = partial(ball, domain, epsilon)
    if sum(map(len, domain.parts)) <= MOST_CONCEPTS:
        make["lp"] = partial(optimum, domain, epsilon)
    return _best(domain, epsilon.hex(), make)


def choose_repeated(domain: Domain, epsilon: float, delta: float, times: int) -> Certified:
    """The same among those of which `times` draws are together (epsilon, delta)-DP."""
    criteria: tuple[Criterion, ...] = ("sqc1", "nsqc") if len(domain) <= FEW_CONCEPTS else ("nsqc",)
    make: dict[str, Callable[[], Certified]] = {
        criterion: partial(calibrate_repeated, domain, criterion, epsilon, delta, times) for criterion in criteria
    }
    make[BALL] = partial(ball_repeated, domain, epsilon, delta, times)
    return _best(domain, f"{epsilon.hex()} {delta.hex()} {times}", make)


def _best(domain: Domain, claim: str, make: Mapping[str, Callable[[], Certified]]) -> Certified:
    """The choice is remembered, because measuring the candidates costs a scan for each input."""
    claim = f"choice {SCHEMA} {domain.digest} {claim} {sorted(make)}"
    known = sealed.read(claim)
    if known is not None:
        header = known[0]
        return replace(make[header["criterion"]](), use=Use(header["expected"], header["floor"]))
    found = {criterion: made() for criterion, made in make.items()}
    # Of laws that keep as much the first: a ball of one concept is randomised response, which needs no scans.
    kept = {criterion: round(certified.law.expected_similarity(), 6) for criterion, certified in found.items()}
    best = max(kept, key=lambda criterion: kept[criterion])
    use = Use(kept[best], Nearest.of(domain).floor)
    sealed.write(claim, {"criterion": best, **asdict(use)}, {})
    return replace(found[best], use=use)

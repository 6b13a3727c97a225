"""The ball law: the m concepts nearest to the input are equally likely, and e^ε times as likely as each other one.

Beyond the paper. The ball of an input holds the `size` concepts most similar to it, itself first, ties broken by their
numbers in the public domain. Every ball has as many concepts, so the normaliser Z = m·e^ε + N − m is one number for all
inputs, and P(o | i) / P(o | i') is e^ε, 1 or e^−ε: exactly ε-DP, with nothing to calibrate. Among laws whose weights
depend on an output's rank in similarity alone none keeps more similarity (a linear program over ranks has a two-valued
optimum). m = 1 is k-ary randomised response.

m is chosen for the domain and ε alone, by expected similarity over equally likely inputs (`best_size`): in whole
numbers, so that it is the same on every machine.

Weights are whole numbers with `near` / `far` ≤ e^ε for a fraction below e^ε. One uniform number below
Z = N·far + m·(near − far) makes a draw: the first N·far of them stand for all concepts alike, the rest for the members
of the ball; so only draws inside the ball have to know it.

The certificate (`enumerated`) looks at every input's ball: that it has m members, and where it ends.

Cost: a few hundred pieces of a row for each input, once; a draw scans the domain once for every distinct input.

>>> from queryveil.knowledge.taxonomy import Taxonomy
>>> toy = Taxonomy.build(["R", "H", "S", "flu", "asthma", "tennis"], [[], [0], [0], [1], [1], [2]], [["r"]] * 6)
>>> certified = ball(Domain.of([toy], outside=False), 2.0)
>>> certified.law.size, [round(float(p), 4) for p in certified.law.probabilities(2)]  # of flu
(1, [0.0807, 0.0807, 0.5964, 0.0807, 0.0807, 0.0807])
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property

import numpy as np

from queryveil.arrays import Array, Floats, Ints, Longs
from queryveil.errors import KnowledgeError, ParameterError
from queryveil.mechanisms.semantic import sealed
from queryveil.mechanisms.semantic.calibration import Certified, Use
from queryveil.mechanisms.semantic.domain import Domain
from queryveil.mechanisms.semantic.law import ClassCounts, class_row_of, in_threads
from queryveil.privacy.accounting import float_up
from queryveil.privacy.bounds import exponential
from queryveil.privacy.noise import LARGEST_INTEGER, NoiseStream

BALL = "ball"
SCHEMA = 2  # raise when sizes are chosen, or weights made, differently
SIMILARITY_BITS = 22
"""Similarities are summed up as whole numbers of 2^-22: N² of them are below 2^62 for the largest domain."""
MOST_ROUNDS = 6


@dataclass(frozen=True, eq=False)
class BallLaw:
    """`near` for the members of an input's ball, `far` for all others.

    A member is more similar than the input's `edges`, or as similar and its number is at most `lasts`.
    """

    domain: Domain
    size: int
    near: int
    far: int
    edges: Ints
    """For each input the rank of similarity (see `ranks`) of its farthest members."""
    lasts: Ints

    @property
    def total(self) -> int:
        """Z, the same for every input."""
        return len(self.domain) * self.far + self.size * (self.near - self.far)

    @cached_property
    def ranks(self) -> Ints:
        """For each class of pairs the rank of its similarity among all, the least first."""
        return ranks_of(self.domain)

    def members(self, concept: int) -> Array:
        """Which outputs are in the ball of an input."""
        ranks = self.ranks[class_row_of(self.domain, concept)]
        numbers = np.arange(len(self.domain))
        edge = ranks == self.edges[concept]
        return np.asarray((ranks > self.edges[concept]) | (edge & (numbers <= self.lasts[concept])))

    def probabilities(self, concept: int) -> list[Fraction]:
        """P(· | concept), exactly."""
        return [Fraction(self.near if inside else self.far, self.total) for inside in self.members(concept).tolist()]

    def probability(self, concept: int, output: int) -> Fraction:
        """P(output | concept), exactly."""
        return Fraction(self.near if self.members(concept)[output] else self.far, self.total)

    def column(self, output: int) -> Floats:
        """P(output | ·) for every input, as floats; a pair has one class whichever way it is looked at."""
        ranks = self.ranks[class_row_of(self.domain, output)]
        inside = (ranks > self.edges) | ((ranks == self.edges) & (output <= self.lasts))
        return np.where(inside, self.near / self.total, self.far / self.total)

    def matrix(self) -> Floats:
        """All probabilities as floats: for small domains."""
        return np.stack([self.column(output) for output in range(len(self.domain))], axis=1)

    def true_share(self) -> float:
        """How likely an input is drawn as itself: the same for all."""
        return self.near / self.total

    def expected_similarity(self) -> float:
        """The mean similarity of input and output over equally likely inputs."""
        nearest = Nearest.of(self.domain)
        return nearest.expected(self.size, Fraction(self.near, self.far))

    @property
    def scans(self) -> bool:
        """A ball of one is the input itself."""
        return self.size > 1

    def numbers(self, inputs: Array, stream: NoiseStream) -> Longs:
        """A uniform number below Z for every input."""
        return stream.below(self.total, len(inputs)) if len(inputs) else np.empty(0, np.int64)

    def outputs(self, inputs: Array, numbers: Longs) -> Array:
        """The first N·far numbers stand for all outputs alike, the others for members of the ball in their order."""
        from queryveil.mechanisms.semantic._ball_kernel import draw_members

        outputs = (numbers // self.far).astype(np.int32)
        inside = np.flatnonzero(numbers >= len(self.domain) * self.far)
        if not self.scans:
            outputs[inside] = inputs[inside]
            return outputs
        inside = inside[np.argsort(inputs[inside], kind="stable")]
        starts = np.flatnonzero(np.diff(inputs[inside], prepend=-1))
        starts = np.append(starts, len(inside)).astype(np.int64)
        places = (numbers[inside] - len(self.domain) * self.far) // (self.near - self.far)

        def work(first: int, last: int) -> None:
            draw_members(
                starts[first : last + 1], inputs, inside, places, self.domain.arrays, self.ranks, self.edges,
                self.lasts, outputs,
            )  # fmt: skip

        in_threads(work, len(starts) - 1)
        return outputs

    @cached_property
    def digest(self) -> str:
        """A SHA-256 over domain, weights and the ends of all balls: the law itself."""
        whole = hashlib.sha256(f"{self.domain.digest} {self.size} {self.near} {self.far}".encode())
        whole.update(np.ascontiguousarray(self.edges).data)
        whole.update(np.ascontiguousarray(self.lasts).data)
        return whole.hexdigest()


@dataclass(frozen=True, eq=False)
class Nearest:
    """Similarities by rank: reach[m] is the sum, over all inputs, of similarity to the m nearest, in 2^-22."""

    reach: Longs

    @classmethod
    def of(cls, domain: Domain) -> Nearest:
        """Counted once per domain."""
        known: Nearest | None = domain.__dict__.get("_nearest")
        if known is None:
            known = cls(_reach(domain))
            domain.__dict__["_nearest"] = known
        return known

    def __len__(self) -> int:
        return len(self.reach) - 1

    @property
    def floor(self) -> float:
        """The mean similarity of two concepts drawn at random: what a law that knows nothing keeps."""
        return int(self.reach[-1]) / (len(self) ** 2 * 2.0**SIMILARITY_BITS)

    def expected(self, size: int, ratio: Fraction) -> float:
        """The mean similarity of input and output where a ball of this size is `ratio` times as likely."""
        kept = (ratio - 1) * int(self.reach[size]) + int(self.reach[-1])
        return float(kept / ((ratio - 1) * size + len(self)) / len(self) / 2**SIMILARITY_BITS)

    def best_size(self, ratio: Fraction) -> int:
        """The m with the largest expected similarity; of several the least. Floats, but each by itself: no sums."""
        more = float(ratio - 1)
        sizes = np.arange(1, len(self), dtype=np.float64)
        kept = (more * self.reach[1:-1] + float(self.reach[-1])) / (more * sizes + len(self))
        return 1 + int(kept.argmax())


def _reach(domain: Domain) -> Longs:
    counts = ClassCounts.of(domain)
    owners, ranks = counts.owners, ranks_of(domain)
    nearest_first = np.argsort(owners * (ranks.max() + 1) - ranks[counts.classes], kind="stable")
    how_many = counts.counts[nearest_first].astype(np.int64)
    ends = np.cumsum(how_many)
    begins = ends - how_many
    begins -= np.repeat(begins[counts.offsets[:-1]], np.diff(counts.offsets))  # from each row's own first
    whole = np.rint(domain.class_similarity * 2.0**SIMILARITY_BITS).astype(np.int64)
    similarity = whole[counts.classes[nearest_first]] * np.bincount(counts.row_of)[owners]
    steps: Longs = np.zeros(len(domain) + 1, np.int64)
    np.add.at(steps, begins, similarity)
    np.subtract.at(steps, begins + how_many, similarity)
    return np.concatenate([[0], np.cumsum(np.cumsum(steps[:-1]))]).astype(np.int64)


def ranks_of(domain: Domain) -> Ints:
    """For each class of pairs the rank of its similarity among all, the least first: classes may share one."""
    return np.unique(domain.class_similarity, return_inverse=True)[1].astype(np.int32)


def ball(domain: Domain, epsilon: float, size: int | None = None) -> Certified:
    """The ball law with loss `epsilon`, of the best size for it unless told; kept in the cache."""
    ratio = exponential(Fraction(epsilon), up=False)
    return _kept(f"{epsilon.hex()} {size}", domain, lambda: (epsilon, size or Nearest.of(domain).best_size(ratio)))


def ball_repeated(domain: Domain, epsilon: float, delta: float, times: int) -> Certified:
    """The ball law of which `times` draws are together (epsilon, delta)-DP, of a good size for that."""

    def search() -> tuple[float, int]:
        """A larger ball loses more often, so size and loss of a draw depend on each other: each in turn, a few times.

        Which pair is taken decides how good the law is, never whether the promise holds.
        """
        nearest = Nearest.of(domain)
        per_draw, size, best = _equal_share(epsilon, times), 0, (0.0, 0.0, 0)
        for _ in range(MOST_ROUNDS):
            size, before = nearest.best_size(exponential(Fraction(per_draw), up=False)), size
            if size == before:
                break
            per_draw = _largest_loss(len(domain), size, epsilon, delta, times)
            best = max(best, (nearest.expected(size, exponential(Fraction(per_draw), up=False)), per_draw, size))
        if not best[1] > 0:
            raise ParameterError([f"epsilon must be larger for {times} queries at δ = {delta:g}; got {epsilon:g}."])
        return best[1:]

    def together(certified: Certified) -> float:
        return repeated_ball(certified, times, delta)

    return _kept(f"{epsilon.hex()} {delta.hex()} {times}", domain, search, together, epsilon)


def repeated_ball(certified: Certified, times: int, delta: float) -> float:
    """The ε for which `times` draws by a ball law are together (ε, delta)-DP; never above the plain sum.

    Of two inputs' balls at most min(m, N − m) members are the one's alone, and as many the other's: for these outputs
    the loss is ε and −ε, for all others 0. The more there are, the larger δ is at every ε.
    """
    from queryveil.privacy.repeated_losses import Lattice, epsilon_of

    law = certified.law
    assert isinstance(law, BallLaw)
    apart = min(law.size, len(law.domain) - law.size)
    won, lost = Fraction(apart * law.near, law.total), Fraction(apart * law.far, law.total)
    chances = np.array([float(lost), float(1 - won - lost), float(won)])
    loss = math.log1p(float(Fraction(law.near - law.far, law.far)))  # right to a few units in the last place
    together = epsilon_of(Lattice(start=-loss, gap=loss, chances=chances), times, delta)
    return min(together, float_up(Fraction(certified.epsilon) * times))


def _largest_loss(concepts: int, size: int, epsilon: float, delta: float, times: int) -> float:
    """A loss of one draw, near the largest, with which `times` draws are within (epsilon, delta)."""
    from queryveil.privacy.repeated_losses import Lattice, epsilon_of

    apart = min(size, concepts - size)

    def together(loss: float) -> float:
        total = size * math.exp(loss) + concepts - size
        won, lost = apart * math.exp(loss) / total, apart / total
        return epsilon_of(Lattice(start=-loss, gap=loss, chances=np.array([lost, 1 - won - lost, won])), times, delta)

    low, high = _equal_share(epsilon, times), min(epsilon, 30.0)
    if low >= high:
        return low
    for _ in range(24):
        middle = (low + high) / 2
        low, high = (middle, high) if together(middle) <= epsilon * (1 - 1e-9) else (low, middle)
    return low


def _equal_share(epsilon: float, times: int) -> float:
    """ε / times, rounded down: so many of it are never more than ε."""
    return -float_up(-Fraction(epsilon) / times)


def _kept(
    claim: str,
    domain: Domain,
    choose: Callable[[], tuple[float, int]],
    together: Callable[[Certified], float] | None = None,
    most: float = math.inf,
) -> Certified:
    """What the cache holds for a claim, or what is chosen now; weights and losses are computed anew in either case."""
    claim = f"{BALL} {SCHEMA} {domain.digest} {claim}"
    known = sealed.read(claim)
    if known is None:
        epsilon, size = choose()
        edges, lasts, witness = enumerated(domain, size)
        content = {"edges": edges, "lasts": lasts, "witness": np.array(witness)}
        nearest = Nearest.of(domain)
        kept = nearest.expected(size, exponential(Fraction(epsilon), up=False))
        header = {"epsilon": epsilon, "size": size, "expected": kept, "floor": nearest.floor}
        sealed.write(claim, header, content)
        known = header, content
    header, arrays = known
    made = _certified(domain, float(header["epsilon"]), int(header["size"]), arrays)
    made = replace(made, use=Use(float(header["expected"]), float(header["floor"])))
    if together is None:
        return made
    measured = max(made.epsilon, together(made))
    if measured > most:
        raise KnowledgeError("the ball law lost more than was asked for. Choose the criterion sqc1 or nsqc.")
    return replace(made, measured=measured)


def _certified(domain: Domain, epsilon: float, size: int, arrays: Mapping[str, Array]) -> Certified:
    ratio = exponential(Fraction(epsilon), up=False)
    far = math.floor(LARGEST_INTEGER / (ratio * size + len(domain) - size))
    near = math.floor(ratio * far)  # so near / far ≤ ratio < e^ε, as fractions
    law = BallLaw(domain, size, near, far, arrays["edges"], arrays["lasts"])
    one, two, three = arrays["witness"].tolist()
    return Certified(law, BALL, None, epsilon, (one, two, three), epsilon)


def enumerated(domain: Domain, size: int) -> tuple[Ints, Ints, tuple[int, int, int]]:
    """Where every input's ball ends, having counted its members; and an output with two inputs, in and out of reach."""
    from queryveil.mechanisms.semantic._ball_kernel import find_edges

    if not 1 <= size < len(domain):
        raise ParameterError([f"a ball has from 1 to {len(domain) - 1} concepts; got {size}."])
    count = len(domain)
    edges, lasts, found = np.empty(count, np.int32), np.empty(count, np.int32), np.zeros(count, np.int64)
    ranks = ranks_of(domain)
    in_threads(lambda first, last: find_edges(first, last, size, domain.arrays, ranks, edges, lasts, found), count)
    if not (found == size).all():
        raise KnowledgeError("a ball of this domain has another size than the others; no promise can be made with it.")
    far = int(np.flatnonzero(~BallLaw(domain, size, 2, 1, edges, lasts).members(0))[0])
    return edges, lasts, (far, far, 0)  # in its own ball, and not in that of the first input

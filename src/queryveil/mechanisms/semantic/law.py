"""The law of a selection: with which probability each concept is replaced by each other one, in whole numbers.

Sánchez et al. (2018), eqs. 3 and 5 to 8 and 12: P(o | i) ∝ exp(exponent · score(i, o)), where the score of the
criterion

- `sqc1` is the similarity (eq. 5),
- `sqc2` is the similarity within a topic and 0 between topics (eq. 6),
- `nsqc` is 1 for the same concept and 0 for all others (eq. 12).

The paper's exponent is ε / 2Δ (`printed_exponent`); `calibration.py` finds a better one.

Weights are whole numbers per class of pairs, ⌊2^b · e^(exponent · (score − 1))⌉ but at least 1, and the selection draws
one uniform number below their sum Z: first the class, then a member of it. So the law is exactly what the integers say
and every claim is computed on them. In paper mode a query stays in its part: the class "another part" weighs 0.

Cost: a draw is a binary search among a few dozen classes; every distinct input costs one scan of the domain.

>>> from queryveil.knowledge.taxonomy import Taxonomy
>>> toy = Taxonomy.build(["R", "H", "S", "flu", "asthma", "tennis"], [[], [0], [0], [1], [1], [2]], [["r"]] * 6)
>>> domain = Domain.of([toy], outside=False)
>>> law = ClassLaw.of(domain, "sqc1", printed_exponents(domain, "sqc1", 2.0))
>>> [round(float(p), 6) for p in law.probabilities(2)]  # of flu, in the order R, H, flu, asthma, S, tennis
[0.127545, 0.186439, 0.304154, 0.152584, 0.117385, 0.111892]
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from queryveil.arrays import Array, Floats, Longs
from queryveil.mechanisms.semantic.domain import Domain
from queryveil.privacy.noise import LARGEST_INTEGER, NoiseStream
from queryveil.progress import tell

Criterion: TypeAlias = Literal["sqc1", "sqc2", "nsqc"]
CRITERIA: tuple[Criterion, ...] = ("sqc1", "sqc2", "nsqc")

THREADS = 2
ROWS_AT_ONCE = 512


def scores(domain: Domain, criterion: Criterion) -> Floats:
    """The score of every class of pairs."""
    if criterion == "nsqc":
        return np.asarray(np.arange(len(domain.class_similarity)) == domain.same_class, np.float64)
    if criterion == "sqc2":
        return np.where(domain.class_is_same_topic, domain.class_similarity, 0.0)
    return domain.class_similarity


def sensitivities(domain: Domain, criterion: Criterion) -> Floats:
    """Δ of each part: 1 − min_sim over all pairs of its taxonomy (eq. 3), or 1 (eqs. 7 and 12)."""
    if criterion == "sqc1":
        least = domain.part_minimum_similarities
        return np.where(least < 1.0, 1.0 - least, 1.0)  # *outside* alone has no pair; its exponent does not matter
    return np.ones(len(domain.part_minimum_similarities))


def printed_exponents(domain: Domain, criterion: Criterion, epsilon: float) -> Floats:
    """The paper's exponent for each part: ε / 2Δ."""
    return epsilon / (2.0 * sensitivities(domain, criterion))


class Law(Protocol):
    """What the mechanism needs of any law."""

    @property
    def domain(self) -> Domain:
        """Over which concepts."""

    @property
    def digest(self) -> str:
        """A SHA-256 of the law itself."""

    def probability(self, concept: int, output: int) -> Fraction:
        """P(output | concept), exactly."""

    def column(self, output: int) -> Floats:
        """P(output | ·) for every input, as floats."""

    def matrix(self) -> Floats:
        """All probabilities as floats: for small domains."""

    def expected_similarity(self) -> float:
        """The mean similarity of input and output over equally likely inputs."""

    def true_share(self) -> float:
        """How likely an input is drawn as itself, on average over inputs."""

    @property
    def scans(self) -> bool:
        """Whether `outputs` scans the domain for every distinct input: then like inputs belong together."""

    def numbers(self, inputs: Array, stream: NoiseStream) -> Longs:
        """All that is random of a draw: a uniform number for every input, below its Z."""

    def outputs(self, inputs: Array, numbers: Longs) -> Array:
        """The output that each number stands for."""


@dataclass(frozen=True, eq=False)
class ClassLaw:
    """Whole-number weights per part of the input and class of the pair, and their sum Z for every input."""

    domain: Domain
    weights: Longs
    totals: Longs

    @classmethod
    def of(
        cls,
        domain: Domain,
        criterion: Criterion,
        exponents: npt.ArrayLike,
        *,
        crossing: bool = True,
        inputs: Array | None = None,
    ) -> ClassLaw:
        """The law of a criterion at an exponent, one for all parts or one each; `crossing=False` stays in the part.

        Where only some inputs will be drawn for, `inputs` names them and saves counting the others' classes.
        """
        weights = class_weights(domain, criterion, exponents, crossing=crossing)
        totals: Longs = np.zeros(len(domain), np.int64)
        if criterion == "nsqc" and crossing:
            same, other = int(weights[0, domain.same_class]), int(weights[0, 0])
            totals[:] = same + (len(domain) - 1) * other
        elif inputs is None:
            totals = ClassCounts.of(domain).totals(weights)
        else:
            distinct = np.unique(inputs).astype(np.int64)
            totals[distinct] = ClassCounts.counted(domain, distinct).totals(weights)
        return cls(domain, weights, totals)

    @cached_property
    def is_response(self) -> bool:
        """Whether all outputs but the input itself weigh the same (k-ary randomised response): needs no scans."""
        others = np.delete(self.weights, self.domain.same_class, axis=1)
        return bool(
            (others == others[0, 0]).all()
            and (self.weights[:, self.domain.same_class] == self.weights[0, self.domain.same_class]).all()
        )

    def probabilities(self, concept: int) -> list[Fraction]:
        """P(· | concept), exactly."""
        row = self.row(concept)
        weights = self.weights[self.domain.arrays.part_of[concept]]
        return [Fraction(int(weights[k]), int(self.totals[concept])) for k in row]

    def probability(self, concept: int, output: int) -> Fraction:
        """P(output | concept), exactly."""
        weight = self.weights[self.domain.arrays.part_of[concept], self.row(concept)[output]]
        return Fraction(int(weight), int(self.totals[concept]))

    def column(self, output: int) -> Floats:
        """P(output | ·) for every input, as floats; a pair has one class whichever way it is looked at."""
        if self.is_response:
            same, other = self.weights[0, self.domain.same_class], np.delete(self.weights[0], self.domain.same_class)[0]
            found = np.full(len(self.domain), float(other))
            found[output] = float(same)
            return np.asarray(found / self.totals)
        return np.asarray(self.weights[self.domain.arrays.part_of, self.row(output)] / self.totals)

    def row(self, concept: int) -> Array:
        """The class of each output for one input."""
        return class_row_of(self.domain, concept)

    def matrix(self) -> Floats:
        """All probabilities as floats: for small domains."""
        weights, part_of = self.weights.astype(np.float64), self.domain.arrays.part_of
        return np.stack([weights[part_of[i]][self.row(i)] / self.totals[i] for i in range(len(self.domain))])

    def expected_similarity(self) -> float:
        """The mean similarity of input and output over equally likely inputs, known before any data."""
        counts = ClassCounts.of(self.domain)
        owners = counts.owners
        weights = self.weights[counts.part_of[owners], counts.classes] * counts.counts
        kept = np.bincount(owners, weights * self.domain.class_similarity[counts.classes])
        return float((kept[counts.row_of] / self.totals).mean())

    def true_share(self) -> float:
        """How likely an input is drawn as itself, on average over inputs."""
        return float((self.weights[self.domain.arrays.part_of, self.domain.same_class] / self.totals).mean())

    @property
    def scans(self) -> bool:
        """All but k-ary randomised response do."""
        return not self.is_response

    def numbers(self, inputs: Array, stream: NoiseStream) -> Longs:
        """A uniform number below Z for every input."""
        return stream.below(self.totals[inputs]) if len(inputs) else np.empty(0, np.int64)

    def outputs(self, inputs: Array, numbers: Longs) -> Array:
        """First the class that a number falls into, then a member of it."""
        from queryveil.mechanisms.semantic._law_kernel import draw_members

        if not len(inputs):
            return np.empty(0, np.int32)
        if self.is_response:
            same, other = self.weights[0, self.domain.same_class], self.weights[0, 0]
            place = (numbers - same) // other  # among the outputs without the input itself
            return np.where(numbers < same, inputs, place + (place >= inputs)).astype(np.int32)
        order = np.argsort(inputs, kind="stable")
        starts = np.flatnonzero(np.diff(inputs[order], prepend=-1))
        starts = np.append(starts, len(order)).astype(np.int64)
        outputs = np.empty(len(inputs), np.int32)

        def work(first: int, last: int) -> None:
            draw_members(order, starts[first : last + 1], inputs, numbers, self.domain.arrays, self.weights, outputs)

        in_threads(work, len(starts) - 1)
        return outputs

    @cached_property
    def digest(self) -> str:
        """A SHA-256 over domain, weights and totals: the law itself."""
        whole = hashlib.sha256(self.domain.digest.encode())
        whole.update(np.ascontiguousarray(self.weights).data)
        whole.update(np.ascontiguousarray(self.totals).data)
        return whole.hexdigest()


def draw(law: Law, inputs: Array, stream: NoiseStream) -> Array:
    """An output for every input."""
    return law.outputs(inputs, law.numbers(inputs, stream))


def class_row_of(domain: Domain, concept: int) -> Array:
    """The class of each output for one input; the same seen from the output, since a pair has one class."""
    from queryveil.mechanisms.semantic._law_kernel import class_row

    row = np.empty(len(domain), np.int32)
    class_row(concept, domain.arrays, row)
    return row


def class_weights(domain: Domain, criterion: Criterion, exponents: npt.ArrayLike, *, crossing: bool = True) -> Longs:
    """The weight of every class, for inputs of each part; the largest leaves room for Z below 2^62."""
    parts = len(domain.part_minimum_similarities)
    exponent = np.broadcast_to(np.asarray(exponents, np.float64), (parts,))[:, None]
    largest = LARGEST_INTEGER // len(domain)
    bits = largest.bit_length() - 1
    whole = np.rint(np.exp2(float(bits)) * np.exp(exponent * (scores(domain, criterion)[None, :] - 1.0)))
    weights: Longs = np.maximum(1, whole).astype(np.int64)
    if not crossing:
        weights[:, ~domain.class_is_same_part] = 0
    return weights


@dataclass(frozen=True, eq=False)
class ClassCounts:
    """How many outputs of each class an input has, as lists: row `r` owns offsets[r] … offsets[r+1]−1.

    Inputs that nothing tells apart share a row.
    """

    offsets: Array
    classes: Array
    counts: Array
    part_of: Array
    """For each row the part of its inputs."""
    row_of: Array
    """For each input its row."""

    @classmethod
    def of(cls, domain: Domain) -> ClassCounts:
        """Of all inputs: counted once per domain."""
        known: ClassCounts | None = domain.__dict__.get("_class_counts")
        if known is None:
            groups = domain.groups
            once = cls.counted(domain, groups.values[groups.offsets[:-1]].astype(np.int64))
            row_of = np.empty(len(domain), np.int64)
            row_of[groups.values] = groups.owners()
            known = replace(once, row_of=row_of)
            domain.__dict__["_class_counts"] = known
        return known

    @classmethod
    def counted(cls, domain: Domain, concepts: Array) -> ClassCounts:
        """Of the given inputs, in their order."""
        from queryveil.mechanisms.semantic._law_kernel import count_classes

        blocks = range(0, len(concepts), ROWS_AT_ONCE)
        found: list[Any] = [None] * len(blocks)

        def work(first: int, last: int) -> None:
            for block in range(first, last):
                rows = concepts[blocks[block] : blocks[block] + ROWS_AT_ONCE]
                dense = np.zeros((len(rows), len(domain.class_similarity)), np.int32)
                count_classes(rows, domain.arrays, dense)
                owner, kind = np.nonzero(dense)
                found[block] = (np.count_nonzero(dense, axis=1), kind.astype(np.int32), dense[owner, kind])

        in_threads(work, len(blocks))
        none = (np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.int32))
        lengths, classes, counts = (np.concatenate([block[k] for block in [none, *found]]) for k in range(3))
        offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        return cls(offsets, classes, counts, domain.arrays.part_of[concepts], np.arange(len(concepts)))

    @property
    def owners(self) -> Array:
        """The row of every entry."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    def totals(self, weights: Longs) -> Longs:
        """Z of every input, exactly."""
        from queryveil.mechanisms.semantic._law_kernel import total_weights

        totals: Longs = np.empty(len(self.part_of), np.int64)
        total_weights(0, len(totals), self.offsets, self.classes, self.counts, weights, self.part_of, totals)
        return np.asarray(totals[self.row_of])


def in_threads(work: Callable[[int, int], None], count: int) -> None:
    """Share 0 … count−1 among threads as ranges; the kernels work without the interpreter's lock."""
    if count <= 1:
        work(0, count)
        return
    edges = np.linspace(0, count, min(count, 16 * THREADS) + 1).astype(int).tolist()
    with ThreadPoolExecutor(THREADS) as pool:
        tell("comparing concepts", 0)
        for done, _ in enumerate(pool.map(work, edges[:-1], edges[1:]), 1):
            tell("comparing concepts", done, len(edges) - 1)

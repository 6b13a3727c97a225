"""CMP, Mahalanobis and Vickrey: move a word's vector by noise, answer with a word near the place it lands.

Feyisetan, Balle, Drake and Diethe (2020), calibrated multivariate perturbation; Xu, Aggarwal, Feyisetan and Teissier
(2020, 2021), regularised Mahalanobis noise and the Vickrey choice; Faggioli and Ferro (2024) use them for queries.

- **cmp**: noise with density ∝ e^(−ε‖z‖₂); the nearest word is the answer.
- **mhl**: noise Σ^½·(that of cmp), so with density ∝ e^(−ε‖z‖_M), ‖z‖_M² = zᵀΣ⁻¹z; Σ = λ·(the vocabulary's covariance,
  trace n) + (1−λ)·I. The authors' released program scales each draw back to Euclidean length, which is another law and
  breaks the promise; it is not here.
- **vkr-…**: of the two nearest words, at distances d1 ≤ d2, the first with probability (1−t)d2 / (t·d1 + (1−t)d2).
  It only looks at the noisy point and public words, so the promise is that of the noise: t adds no privacy.

Privacy, in real arithmetic: for words at distance d (‖·‖₂, or ‖·‖_M for mhl) every answer's odds differ by at most
e^(εd), because the densities around the two vectors do and all that follows is post-processing.

Floating point: the point itself is never shown, only which public word lies nearest, so there are no low bits to read
(Mironov 2012). What is left: near the border between two cells a rounded point may fall on the other side. Cells are
convex, and the noise meets the layer of thickness η inside a convex set's border with probability at most εη (by the
coarea formula and the monotonicity of surface area: the integral of the density over the border is at most that of
|∇p| = εp over space). Summed over N first cells, and 4N for second ones (Clarkson and Shor's sampling argument), with
η = (n / 16 + 40) · 2^-52 of a length of at most 2n / ε, and √κ times that for mhl (κ the condition of Σ): the answer
differs from the ideal one with probability at most 10·N·n·(n / 16 + 40)·√κ·2^-52, `float_error`. It is the
guarantee's δ: except with probability δ the answer is that of the mechanism in real arithmetic. It is no additive slack:
two inputs at distance d may differ by (1 + e^(εd))·δ beyond the factor e^(εd).

Cost: see `nearest.py`; 2n + 1 random words for each answer.

>>> vectors = WordVectors.load(most=1000)
>>> mechanism = NoisyWords(vectors, epsilon=10.0)
>>> stream = Noise.seeded(1).stream("doctest")
>>> [vectors.words[i] for i in mechanism.replace(np.full(4, vectors.numbers["government"]), stream)]
['government', 'government', 'government', 'government']
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from queryveil.errors import RefusedError
from queryveil.knowledge.embeddings import WordVectors
from queryveil.mechanisms.obfuscate.nearest import NearestWords
from queryveil.mechanisms.obfuscate.words import Deniability, Floats, Integers
from queryveil.privacy import MetricDP
from queryveil.privacy import Noise as Noise
from queryveil.privacy.noise import Stream, Words, laplace_vectors, laplace_words

DRAWS_AT_ONCE = 2048
SMALLEST_EIGENVALUE = 1e-9
WORTH_A_GPU = 10**9
"""Scores to compute from which starting PyTorch pays."""


def vickrey_choice_probability(nearest: Floats, second: Floats, t: float) -> Floats:
    """The probability of the nearest word: (1−t)·d2 / (t·d1 + (1−t)·d2); 1 where the point lies on the nearest word.

    >>> float(vickrey_choice_probability(np.float64(1.0), np.float64(2.0), t=0.75))
    0.4
    """
    against, towards = t * nearest, (1.0 - t) * second
    total = against + towards
    return np.where(nearest == 0.0, 1.0, towards / np.where(total == 0.0, 1.0, total))


class NoisyWords:
    """Noise on the vector, then a near word. `lambda_` None is Euclidean noise; `t` 0 answers with the nearest word."""

    def __init__(self, vectors: WordVectors, *, epsilon: float, lambda_: float | None = None, t: float = 0.0) -> None:
        self.vectors = vectors
        self.epsilon = epsilon
        self.lambda_ = lambda_
        self.t = t
        if self.smallest_eigenvalue < SMALLEST_EIGENVALUE:
            raise RefusedError(
                "the vocabulary's covariance has a direction without spread, along which Mahalanobis noise hides "
                "nothing. Use lambda below 1."
            )

    @cached_property
    def search(self) -> NearestWords:
        """The index over the vocabulary, made on first use."""
        return NearestWords(self.vectors.matrix)

    @cached_property
    def _gpu(self) -> Any:
        """The same on a GPU, where PyTorch is installed and sees one."""
        from queryveil.mechanisms.obfuscate import _torch_search

        return _torch_search.on_gpu(self.vectors.matrix)

    @cached_property
    def _root(self) -> Floats | None:
        return None if self.lambda_ is None else self.vectors.covariance_root(self.lambda_)

    @cached_property
    def smallest_eigenvalue(self) -> float:
        """Of Σ_λ: how much less noise the worst direction has; distances along it count by its inverse root."""
        return float(self._spectrum[0])

    @cached_property
    def _spectrum(self) -> Floats:
        if self.lambda_ is None:
            return np.ones(1)
        return np.asarray(np.linalg.eigvalsh(self.vectors.covariance(self.lambda_)))

    @property
    def float_error(self) -> float:
        """The probability that floating point changes an answer, at most; see above."""
        dimension = self.vectors.dimension
        spread = math.sqrt(self._spectrum[-1] / self._spectrum[0])
        return 10 * len(self.vectors) * dimension * (dimension / 16 + 40) * spread * 2.0**-52

    @property
    def metric(self) -> str:
        """Euclidean, or one for each λ."""
        return "Euclidean" if self.lambda_ is None else f"Mahalanobis {self.lambda_!r}"

    @property
    def diameter(self) -> float:
        """Vectors may lie as far apart as they like."""
        return math.inf

    def points(self, indices: Integers, words: Words) -> Floats:
        """The noisy points, from one row of random words for each word."""
        noise = laplace_vectors(words, self.vectors.dimension) / self.epsilon
        if self._root is not None:
            noise = noise @ self._root
        return self.vectors.matrix[indices] + noise

    def replace(self, indices: Integers, stream: Stream) -> Integers:
        """A drawn word for each word."""
        at_once = self._at_once(len(indices))
        parts = [indices[start : start + at_once] for start in range(0, len(indices), at_once)]
        answers = [self._answers(part, self._words(len(part), stream), len(indices)) for part in parts]
        return np.concatenate([np.empty(0, np.int64), *answers])

    def replace_many(self, questions: Sequence[tuple[Integers, Stream]]) -> list[Integers]:
        """The same for many questions at once: their points are looked up together."""
        total = sum(len(indices) for indices, _ in questions)
        answers: list[Integers] = []
        waiting: list[tuple[Integers, Stream]] = []
        for number, question in enumerate(questions, 1):
            waiting.append(question)
            if sum(len(indices) for indices, _ in waiting) >= self._at_once(total) or number == len(questions):
                words = np.concatenate([self._words(len(indices), stream) for indices, stream in waiting])
                drawn = self._answers(np.concatenate([indices for indices, _ in waiting]), words, total)
                answers += np.split(drawn, np.cumsum([len(indices) for indices, _ in waiting])[:-1])
                waiting = []
        return answers

    def _at_once(self, total: int) -> int:
        return DRAWS_AT_ONCE if total * len(self.vectors) < WORTH_A_GPU or self._gpu is None else 8 * DRAWS_AT_ONCE

    def _answers(self, indices: Integers, words: Words, total: int) -> Integers:
        """From one row of random words for each word; `total` are asked for in all."""
        if total * len(self.vectors) >= WORTH_A_GPU and self._gpu is not None:
            drawn: Integers = self._gpu.replace(indices, words, epsilon=self.epsilon, root=self._root, t=self.t)
            return drawn
        nearest, distances = self.search.two(self.points(indices, words[:, :-1]))
        first = vickrey_choice_probability(distances[:, 0], distances[:, 1], self.t)
        chance = (words[:, -1] >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return np.where(chance < first, nearest[:, 0], nearest[:, 1])

    def _words(self, count: int, stream: Stream) -> Words:
        """A row of random words for each answer, so that an answer does not depend on how many follow."""
        each = laplace_words(self.vectors.dimension) + 1
        return stream.words(count * each).reshape(count, each)

    def distances(self, first: Integers, second: Integers) -> Floats:
        """Euclidean, or ‖·‖_M of Σ_λ."""
        difference = self.vectors.matrix[first].astype(np.float64) - self.vectors.matrix[second]
        if self.lambda_ is not None:
            difference = difference @ self._inverse_root
        return np.asarray(np.linalg.norm(difference, axis=-1))

    @cached_property
    def _inverse_root(self) -> Floats:
        if self.lambda_ is None:
            return np.eye(self.vectors.dimension)
        return np.asarray(np.linalg.inv(self.vectors.covariance_root(self.lambda_)))

    def deniability(self, indices: Integers, drawn: Integers, stream: Stream) -> list[Deniability]:
        """By −ε Σ ‖p − w‖, for an observer who sees the noisy points themselves: more than anyone is shown."""
        words = self._words(drawn.size, stream)[:, :-1]
        points = self.points(np.tile(indices, len(drawn)), words).reshape(*drawn.shape, -1)
        return [self._deniability(int(index), points[:, place]) for place, index in enumerate(indices)]

    def _deniability(self, index: int, points: Floats) -> Deniability:
        likely = np.zeros(len(self.vectors))
        for start in range(0, len(likely), 1 << 14):
            rows = self.vectors.matrix[start : start + (1 << 14)].astype(np.float64)
            for point in points:
                away = rows - point
                if self.lambda_ is not None:
                    away = away @ self._inverse_root
                likely[start : start + len(rows)] -= self.epsilon * np.sqrt(np.einsum("ij,ij->i", away, away))
        count = int((likely >= likely[index] - math.log(2)).sum())
        return Deniability(count, "counted exactly, against an observer who sees the noisy points themselves")

    def guarantee(self) -> MetricDP:
        """Metric privacy at ε in the distance of the noise, for an ideal mechanism equal to this but with chance δ."""
        kind = "Euclidean" if self.lambda_ is None else f"regularised Mahalanobis, λ = {self.lambda_:g},"
        return MetricDP(
            epsilon=self.epsilon,
            delta=min(self.float_error, 0.999),
            distance=f"{kind} distance of word vectors (sha256 {self.vectors.digest[:16]})",
            unit="word",
            relation="one word replaced by another of the vocabulary",
            assumptions=("the key of the noise stays secret",),
            not_protected=("which position of the query a word has",),
            detail="" if self.lambda_ is None else f"Smallest eigenvalue of Σ: {self.smallest_eigenvalue:.4g}.",
        )

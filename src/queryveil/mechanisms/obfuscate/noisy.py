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
|∇p| = εp over space). Summed over N first cells, and 4N for second ones (Clarkson and Shor's sampling argument): at
most 5Nεη. A point is rounded by at most η = c · 2^-52 · (twice the longest vector + the noise's length), with
c = n / 16 + 40, and n·√n more for the product with Σ^½ of mhl. The noise's length times ε has the law Gamma(n) and is
beyond n + √(2nx) + x with probability at most e^(−x) (Boucheron, Lugosi and Massart 2013, section 2.4); x = 52·ln 2
makes that 2^-52, for every n. For mhl lengths are measured by ‖·‖_M: √(largest eigenvalue) is in the length and
1 / √(smallest) before it. The sum of both probabilities is `float_error`, the guarantee's δ. It grows with ε, since the
cells then lie within the rounding of the vectors themselves. Except with probability δ the answer is that of the
mechanism in real arithmetic. It is no additive slack: two inputs at distance d may differ by (1 + e^(εd))·δ beyond the
factor e^(εd).

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
from scipy.special import gammaincc

from queryveil.arrays import Floats, Longs, Words
from queryveil.errors import RefusedError
from queryveil.knowledge.embeddings import WordVectors
from queryveil.mechanisms.obfuscate.nearest import NearestWords
from queryveil.mechanisms.obfuscate.words import MOST_EXAMINED, Deniability
from queryveil.privacy import MetricDP
from queryveil.privacy import Noise as Noise
from queryveil.privacy.noise import NoiseStream, laplace_vectors, laplace_words
from queryveil.progress import tell

DRAWS_AT_ONCE = 2048
ROWS_AT_ONCE, POINTS_AT_ONCE = 1 << 14, 64
SMALLEST_EIGENVALUE = 1e-9
ANGLES = 400
WORTH_A_GPU = 10**9
"""Scores to compute from which starting PyTorch pays."""

RARE = 2.0**-52
"""A unit of rounding, and the probability of noise longer than `longest_noise`."""


def longest_noise(dimension: int) -> float:
    """A length, in units of 1 / ε, that noise exceeds with probability at most 2^-52.

    >>> round(longest_noise(1), 1), round(longest_noise(300), 1)
    (45.5, 483.1)
    """
    rare = -math.log(RARE)
    return dimension + math.sqrt(2 * dimension * rare) + rare


def noise_beyond(reach: Floats, dimension: int) -> Floats:
    """The chance that noise with density ∝ e^(−‖y‖) has a first coordinate beyond `reach` ≥ 0.

    y₁ = r·cos θ, r of law Gamma(n) and θ with density ∝ sin^(n−2) θ; by the midpoint rule over θ.

    >>> noise_beyond(np.array([0.0, 3.0]), 1).round(6).tolist()  # ½ e^-x on a line
    [0.5, 0.024894]
    """
    if dimension == 1:
        return np.asarray(np.exp(-reach) / 2)
    angles = (np.arange(ANGLES) + 0.5) * (np.pi / 2 / ANGLES)
    shares = np.sin(angles) ** (dimension - 2)
    beyond = gammaincc(dimension, np.asarray(reach, np.float64)[:, None] / np.cos(angles))
    return np.asarray(beyond @ (shares / (2 * shares.sum())))


def vickrey_choice_probability(nearest: Floats, second: Floats, t: float) -> Floats:
    """The probability of the nearest word: (1−t)·d2 / (t·d1 + (1−t)·d2); 1 where the point lies on the nearest word.

    >>> float(vickrey_choice_probability(np.float64(1.0), np.float64(2.0), t=0.75))
    0.4
    """
    against, towards = t * nearest, (1.0 - t) * second
    total = against + towards
    return np.where(nearest == 0.0, 1.0, towards / np.where(total == 0.0, 1.0, total))


def _distances(rows: Floats, points: Floats) -> Floats:
    """Euclidean distances of every row to every point, by one product of matrices."""
    squared = rows @ (-2.0 * points.T)
    squared += np.einsum("ij,ij->i", rows, rows)[:, None]
    squared += np.einsum("ij,ij->i", points, points)
    return np.asarray(np.sqrt(np.maximum(squared, 0.0, out=squared), out=squared))


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
        units = dimension / 16 + 40 + (0.0 if self.lambda_ is None else dimension**1.5)
        smallest, largest = math.sqrt(self._spectrum[0]), math.sqrt(self._spectrum[-1])
        length = 2 * self.epsilon * self.search.longest + largest * longest_noise(dimension)
        return 5 * len(self.vectors) * units * RARE * length / smallest + RARE

    @property
    def metric(self) -> str:
        """Euclidean, or one for each λ."""
        return "Euclidean" if self.lambda_ is None else f"Mahalanobis {self.lambda_!r}"

    @property
    def diameter(self) -> float:
        """Vectors may lie as far apart as they like."""
        return math.inf

    def points(self, indices: Longs, words: Words) -> Floats:
        """The noisy points, from one row of random words for each word."""
        noise = laplace_vectors(words, self.vectors.dimension) / self.epsilon
        if self._root is not None:
            noise = noise @ self._root
        return self.vectors.matrix[indices] + noise

    def replace(self, indices: Longs, stream: NoiseStream) -> Longs:
        """A drawn word for each word."""
        at_once = self._at_once(len(indices))
        parts = [indices[start : start + at_once] for start in range(0, len(indices), at_once)]
        answers = [self._answers(part, self._words(len(part), stream), len(indices)) for part in parts]
        return np.concatenate([np.empty(0, np.int64), *answers])

    def replace_many(self, questions: Sequence[tuple[Longs, NoiseStream]]) -> list[Longs]:
        """The same for many questions at once: their points are looked up together."""
        total = sum(len(indices) for indices, _ in questions)
        answers: list[Longs] = []
        waiting: list[tuple[Longs, NoiseStream]] = []
        tell("drawing words", 0, len(questions))
        for number, question in enumerate(questions, 1):
            waiting.append(question)
            if sum(len(indices) for indices, _ in waiting) >= self._at_once(total) or number == len(questions):
                words = np.concatenate([self._words(len(indices), stream) for indices, stream in waiting])
                drawn = self._answers(np.concatenate([indices for indices, _ in waiting]), words, total)
                answers += np.split(drawn, np.cumsum([len(indices) for indices, _ in waiting])[:-1])
                waiting = []
                tell("drawing words", number, len(questions))
        return answers

    def _at_once(self, total: int) -> int:
        return DRAWS_AT_ONCE if total * len(self.vectors) < WORTH_A_GPU or self._gpu is None else 8 * DRAWS_AT_ONCE

    def _answers(self, indices: Longs, words: Words, total: int) -> Longs:
        """From one row of random words for each word; `total` are asked for in all."""
        if total * len(self.vectors) >= WORTH_A_GPU and self._gpu is not None:
            drawn: Longs = self._gpu.replace(indices, words, epsilon=self.epsilon, root=self._root, t=self.t)
            return drawn
        nearest, distances = self.search.two(self.points(indices, words[:, :-1]))
        first = vickrey_choice_probability(distances[:, 0], distances[:, 1], self.t)
        chance = (words[:, -1] >> np.uint64(11)).astype(np.float64) * 2.0**-53
        return np.where(chance < first, nearest[:, 0], nearest[:, 1])

    def _words(self, count: int, stream: NoiseStream) -> Words:
        """A row of random words for each answer, so that an answer does not depend on how many follow."""
        each = laplace_words(self.vectors.dimension) + 1
        return stream.words(count * each).reshape(count, each)

    def distances(self, first: Longs, second: Longs) -> Floats:
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

    def chance_unchanged(self, indices: Longs, nearest: Longs) -> Floats:
        """1 − N·P(noise reaches half as far as the nearest word, in its direction), times the choice of Vickrey.

        Noise moves a word to another at difference δ where z·δ > ‖δ‖²/2; for mhl z = Σ^½ y and ‖Σ^½ δ‖ ≤ √λ_max ‖δ‖.
        """
        away = np.linalg.norm(self.vectors.matrix[indices].astype(np.float64) - self.vectors.matrix[nearest], axis=1)
        widest = math.sqrt(self._spectrum[-1])
        reach = self.epsilon * away / (2 * widest)
        kept = np.maximum(0.0, 1 - len(self.vectors) * noise_beyond(reach, self.vectors.dimension))
        if self.t == 0:
            return kept
        longest = longest_noise(self.vectors.dimension) * widest / self.epsilon
        return kept * vickrey_choice_probability(
            np.full(len(away), longest), np.maximum(away - longest, longest), self.t
        )

    def deniability(self, indices: Longs, drawn: Longs, stream: NoiseStream) -> list[Deniability]:
        """By −ε Σ ‖p − w‖, for an observer who sees the noisy points themselves: more than anyone is shown."""
        examined = indices[:MOST_EXAMINED]
        points = np.empty((len(drawn), len(examined), self.vectors.dimension))
        at_once = max(1, DRAWS_AT_ONCE // len(indices))
        for start in range(0, len(drawn), at_once):
            part = points[start : start + at_once]
            words = self._words(len(part) * len(indices), stream).reshape(len(part), len(indices), -1)
            first = words[:, : len(examined), :-1].reshape(len(part) * len(examined), -1)
            part[:] = self._straight(self.points(np.tile(examined, len(part)), first)).reshape(part.shape)
        return [self._deniability(int(index), points[:, place]) for place, index in enumerate(examined)]

    # The law as an attacker estimates it: P(output | word) is the mass of the noise in the output's cell

    def noise_vectors(self, count: int, stream: NoiseStream) -> Floats:
        """Noise as it is put around any word."""
        words = self._words(count, stream)[:, :-1]
        noise = laplace_vectors(words, self.vectors.dimension) / self.epsilon
        return noise if self._root is None else noise @ self._root

    def cell_chances(self, words: Longs, outputs: Longs, near: Longs, noise: Floats) -> Floats:
        """P(output | word) [outputs × words], were `near` (which holds the outputs) the vocabulary.

        All noises are put around all words, and each point counts for every word by its density: see the kernel.
        """
        from queryveil.mechanisms.obfuscate import _cells_kernel as kernel  # compiles on first use

        origin = self._rows(slice(words[0], words[0] + 1))  # single precision is kept for what differs
        cells = np.asarray(self.vectors.matrix[near] - origin)
        points = np.asarray(self.vectors.matrix[words] - origin)
        straight, lengths = self._straight(points), self._straight(noise)
        scores = (points @ cells.T - np.einsum("ij,ij->i", cells, cells) / 2).astype(np.float32)
        place = np.full(len(near), -1, np.int64)
        for number, output in enumerate(outputs.tolist()):
            place[np.flatnonzero(near == output)] = number
        found = np.zeros((len(outputs), len(words)))
        kernel.chances(
            scores,
            noise.astype(np.float32) @ cells.T.astype(np.float32),
            np.einsum("ij,ij->i", points, points)[:, None] + 2 * points @ noise.T + np.einsum("ij,ij->i", noise, noise),
            self.t,
            (np.einsum("ij,ij->i", lengths, lengths), lengths @ straight.T, _distances(straight, straight) ** 2),
            self.epsilon,
            place,
            found,
        )
        return found

    def _straight(self, rows: Floats) -> Floats:
        """Rows turned so that the distance of the noise is the Euclidean one."""
        return rows if self.lambda_ is None else rows @ self._inverse_root

    def _deniability(self, index: int, points: Floats) -> Deniability:
        """`points` are straight. A word's Σ ‖p − w‖ is at least that of the mean point, which excludes most words."""
        own = float(np.linalg.norm(points - self._straight(self._rows(slice(index, index + 1))), axis=1).sum())
        most = own + math.log(2) / self.epsilon
        mean = points.mean(axis=0)[None]
        count = 0
        for start in range(0, len(self.vectors), ROWS_AT_ONCE):
            rows = self._straight(self._rows(slice(start, start + ROWS_AT_ONCE)))
            rows = rows[len(points) * _distances(rows, mean)[:, 0] <= most * (1 + 1e-9)]
            sums = np.zeros(len(rows))
            for first in range(0, len(points), POINTS_AT_ONCE):
                sums += _distances(rows, points[first : first + POINTS_AT_ONCE]).sum(axis=1)
            count += int((sums <= most).sum())
        return Deniability(count, "counted exactly, against an observer who sees the noisy points themselves")

    def _rows(self, part: slice) -> Floats:
        return np.asarray(self.vectors.matrix[part], np.float64)

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

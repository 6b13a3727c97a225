"""Words Blending Boxes: an answer that is near the word, but neither the word itself nor its nearest neighbours.

De Faveri, Faggioli and Ferro (2024), "Words Blending Boxes. Obfuscating Queries in Information Retrieval using
Differential Privacy". The words nearest to a word, itself included, are its **safe box** and never come out for it; the
next ones are its **candidate box**, from which the exponential mechanism draws: P(u | w) ∝ e^(−(ε/2) · cost(w, u)), the
cost being the distance scaled to [0, 1] in the box. Here a safe box has 5 words and a candidate box 20; distances are
Euclidean.

The paper claims ε-differential privacy. It does not hold: the box follows the word, so nearly any two words have
different boxes, and what one of them gives is impossible for the other. Paper mode draws by the paper's law and
promises nothing.

Safe mode draws from the whole vocabulary and prefers the box: a word of the box has weight A = ⌊e^ε⌋, every other word,
the word itself and its neighbours included, has weight 1. All weights of a word add up to the same, n·A + (V − n), so
that **between any two words whatever** odds differ by at most A ≤ e^ε: ε-differential privacy for a word, exactly,
since weights are whole numbers. At ε = 12.5 and the 317,756 words of GloVe, 94 % of the answers come from the box.

Cost: one distance to every word for each distinct input. Who attacks it wants the boxes of all words, which takes
minutes for GloVe once and is then kept in the cache folder.

>>> vectors = WordVectors.load(most=1000)
>>> blended = BlendedWords(vectors, epsilon=9.0, everywhere=True)
>>> blended.box_weight, len(blended.box(7)), 7 in blended.box(7)
(8103, 20, False)
>>> blended.replace(np.zeros(4, np.int64), Noise.seeded(1).stream("doctest")).shape
(4,)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from queryveil.arrays import Array, Floats, Longs
from queryveil.knowledge._store import cache_folder, compiled_once
from queryveil.knowledge.embeddings import WordVectors
from queryveil.knowledge.word_distances import WordDistances, exact_distances
from queryveil.mechanisms.obfuscate.words import MOST_EXAMINED, Deniability
from queryveil.privacy import NoGuarantee, PureDP
from queryveil.privacy import Noise as Noise
from queryveil.privacy.noise import NoiseStream, integer_weights
from queryveil.progress import each

SAFE_BOX, CANDIDATE_BOX = 5, 20
MOST_COMPARED = 64
MOST_KEPT = 1 << 14
BOXES_AT_ONCE = 256
LARGEST_EXPONENT = 36.0
"""e^36 times the words of a box is a whole number of 64 bits; a smaller exponent than promised is more private."""


class BlendedWords:
    """WBB as in the paper, or where `everywhere` mixed with all words so that it keeps its promise."""

    def __init__(self, vectors: WordVectors, *, epsilon: float, everywhere: bool) -> None:
        self.vectors = vectors
        self.epsilon = epsilon
        self.everywhere = everywhere
        self.safe_box = min(SAFE_BOX, len(vectors) - 1)
        self.size = min(CANDIDATE_BOX, len(vectors) - self.safe_box)
        # Cut below what rounding may add to the exponential: the odds are never above e^ε.
        self.box_weight = max(1, math.floor(math.exp(min(epsilon, LARGEST_EXPONENT)) * (1 - 2.0**-50)))
        self._recent: dict[int, Longs] = {}

    @property
    def metric(self) -> str:
        """Its own: any two words are 1 apart, or infinitely far."""
        return "any two words" if self.everywhere else "box"

    @property
    def diameter(self) -> float:
        """What holds between any two words is the promise itself."""
        return 1.0 if self.everywhere else math.inf

    def box(self, index: int) -> Longs:
        """The words of a candidate box, nearest first; of equally near ones those that come first."""
        if (kept := self._recent.get(index)) is None:
            away = exact_distances(self.vectors.matrix, index)
            away[index] = -1.0
            last = self.safe_box + self.size - 1
            near = np.flatnonzero(away <= np.partition(away, last)[last])
            kept = near[np.lexsort((near, away[near]))][self.safe_box : last + 1]
            if len(self._recent) >= MOST_KEPT:
                self._recent.clear()
            self._recent[index] = kept
        return kept

    def weights(self, index: int) -> tuple[Longs, Longs]:
        """The words of a box and their weights as whole numbers; where `everywhere`, all other words weigh 1."""
        box = self.box(index)
        if self.everywhere:
            return box, np.full(len(box), self.box_weight, np.int64)
        return box, integer_weights(np.exp(-self.epsilon / 2 * self._costs(index, box)))

    def _costs(self, index: int, box: Longs) -> Floats:
        """Distances scaled to [0, 1] in the box."""
        away = np.linalg.norm(self.vectors.matrix[box].astype(np.float64) - self.vectors.matrix[index], axis=1)
        return np.asarray((away - away.min()) / (np.ptp(away) or 1.0))

    @property
    def _others(self) -> int:
        """What all words outside a box weigh."""
        return len(self.vectors) - self.size if self.everywhere else 0

    def replace(self, indices: Longs, stream: NoiseStream) -> Longs:
        """A drawn word for each word."""
        laws = {int(index): self.weights(int(index)) for index in np.unique(indices)}
        sums = {index: np.cumsum(weights) for index, (_, weights) in laws.items()}
        totals = np.array([sums[int(index)][-1] + self._others for index in indices], np.int64)
        drawn = np.empty(len(indices), np.int64)
        for place, (index, chance) in enumerate(zip(indices.tolist(), stream.below(totals).tolist(), strict=True)):
            box, cumulative = laws[index][0], sums[index]
            beyond = chance - int(cumulative[-1])
            drawn[place] = (
                box[np.searchsorted(cumulative, chance, side="right")] if beyond < 0 else _outside(box, beyond)
            )
        return drawn

    def replace_many(self, questions: Sequence[tuple[Longs, NoiseStream]]) -> list[Longs]:
        """The same for many questions."""
        return [self.replace(indices, stream) for indices, stream in each("drawing words", questions)]

    def distances(self, first: Longs, second: Longs) -> Floats:
        """0 for the same word; 1 for any other in safe mode, infinite in paper mode."""
        return np.where(first == second, 0.0, self.diameter)

    def chance_unchanged(self, indices: Longs, nearest: Longs) -> Floats:
        """A word is in its own safe box: it comes out by the share of the whole vocabulary only."""
        total = self.size * self.box_weight + self._others
        return np.full(len(indices), 1 / total if self.everywhere else 0.0)

    def deniability(self, indices: Longs, drawn: Longs, stream: NoiseStream) -> list[Deniability]:
        """Words at least half as likely, among the words nearest to what was drawn: there may be more."""
        return [self._deniability(int(index), drawn[:, place]) for place, index in enumerate(indices[:MOST_EXAMINED])]

    def _deniability(self, index: int, drawn: Longs) -> Deniability:
        away = exact_distances(self.vectors.matrix, int(drawn[0]))
        compared = np.union1d(np.argsort(away, kind="stable")[:MOST_COMPARED], [index])
        likely = {int(word): self._log_chances(int(word), drawn).sum() for word in compared}
        count = sum(value >= likely[index] - math.log(2) - 1e-12 for value in likely.values())
        return Deniability(int(count), f"counted among {len(compared)} near words, there may be more")

    def _log_chances(self, word: int, outputs: Longs) -> Floats:
        """ln P(output | word), exactly; −∞ outside the box in paper mode."""
        box, weights = self.weights(word)
        inside = outputs[:, None] == box
        weight = np.where(inside.any(axis=1), inside @ weights, int(self.everywhere))
        with np.errstate(divide="ignore"):
            return np.log(weight) - math.log(int(weights.sum()) + self._others)

    # The law as an attacker computes it: P(output | word) = e^(log weight − log total)

    @cached_property
    def _sources(self) -> tuple[Longs, Longs]:
        """For each word the words whose boxes hold it, one after another, and where each word's begin."""

        def build() -> tuple[dict[str, Any], dict[str, Array]]:
            return {}, {"boxes": all_boxes(np.asarray(self.vectors.matrix), self.safe_box, self.size)}

        name = f"wbb-{self.safe_box}-{self.size}-{self.vectors.digest[:16]}.arrays"
        boxes = np.asarray(compiled_once(cache_folder() / name, build)[1]["boxes"], np.int64).ravel()
        order = np.argsort(boxes, kind="stable")
        counts = np.bincount(boxes, minlength=len(self.vectors))
        return order // self.size, np.concatenate([[0], np.cumsum(counts)])

    def sources(self, output: int) -> Longs:
        """The words whose candidate box holds a word, in the order of the vocabulary."""
        words, begins = self._sources
        return words[begins[output] : begins[output + 1]]

    def log_weights(self, outputs: Longs) -> tuple[Longs, Floats]:
        """The words that can give the outputs, in safe mode all of them, and ln of their weights."""
        found = [self.sources(int(output)) for output in outputs]
        words = np.arange(len(self.vectors)) if self.everywhere else np.unique(np.concatenate([*found, outputs[:1]]))
        weights = np.full((len(outputs), len(words)), 0.0 if self.everywhere else -np.inf)
        for row, output, sources in zip(weights, outputs.tolist(), found, strict=True):
            row[np.searchsorted(words, sources)] = [self._log_weight(int(word), output) for word in sources]
        return words, weights

    def _log_weight(self, word: int, output: int) -> float:
        """ln of the weight of a word of the box; an output that only rounding put there weighs next to nothing."""
        if self.everywhere:
            return math.log(self.box_weight)
        box = self.box(word)
        own = np.flatnonzero(box == output)
        return float(-self.epsilon / 2 * self._costs(word, box)[own[0]]) if len(own) else -math.inf

    def log_totals(self, words: Longs) -> Floats:
        """ln of the sum of each word's weights."""
        if self.everywhere:
            return np.full(len(words), math.log(self.size * self.box_weight + self._others))
        costs = (self._costs(int(word), self.box(int(word))) for word in words)
        return np.array([math.log(np.exp(-self.epsilon / 2 * cost).sum()) for cost in costs])

    def least_log_totals(self) -> Floats:
        """For every word a number that its `log_totals` is not below: in paper mode the nearest word weighs 1."""
        if self.everywhere:
            return self.log_totals(np.arange(len(self.vectors)))
        return np.zeros(len(self.vectors))

    def chances(self, output: int, inputs: Longs) -> Floats:
        """How likely a word comes out for each input."""
        able = np.isin(inputs, self.sources(output))
        found = np.where(able | (self.everywhere & (inputs >= 0)), math.exp(-self.log_totals(inputs[:1])[0]), 0.0)
        if self.everywhere:
            return np.where(able, found * self.box_weight, found)
        found[able] = [math.exp(self._log_chances(int(word), np.array([output]))[0]) for word in inputs[able]]
        return found

    def guarantee(self) -> PureDP | NoGuarantee:
        """ε-differential privacy for a word in safe mode, and nothing in paper mode."""
        if not self.everywhere:
            return NoGuarantee(
                reason="what comes out lies in the box of the word that was asked, boxes of different words differ, "
                "and a word outside the box is impossible: the paper's ε-differential privacy does not hold",
                unit="word",
                assumptions=(),
            )
        return PureDP(epsilon=self.epsilon, unit="word", relation="one word replaced by another of the vocabulary")


def all_boxes(matrix: Array, safe_box: int, size: int) -> Array:
    """The candidate box of every word, by distances in single precision: for attackers, who may err in a tie."""
    from queryveil.mechanisms.obfuscate._boxes_kernel import take_in  # compiles on first use

    distances_of = WordDistances(matrix)
    boxes = np.empty((len(matrix), size), np.int32)
    for start in each("finding the boxes of all words", range(0, len(matrix), BOXES_AT_ONCE)):
        words = np.arange(start, min(start + BOXES_AT_ONCE, len(matrix)))
        nearest = np.zeros((len(words), safe_box + size), np.int32)
        distances = np.full(nearest.shape, np.inf, np.float32)
        for columns, away in distances_of.blocks(words):
            own = np.flatnonzero((words >= columns.start) & (words < columns.stop))
            away[own, words[own] - columns.start] = -1.0  # before a twin that stands earlier
            take_in(away, columns.start, nearest, distances)
        boxes[words] = nearest[:, safe_box:]
    return boxes


def _outside(box: Longs, number: int) -> int:
    """The word with this number among the words outside a box."""
    for word in sorted(box.tolist()):
        number += word <= number
    return number

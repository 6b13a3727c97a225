"""The likelihood attack on word obfuscation: which word most likely gave these outputs?

The attacker knows the mechanism, its parameters and the vocabulary (all public), sees N obfuscations of one word, and
takes the word under which they are likeliest. For candidate words near the outputs the law P(output | word) is found by
running the mechanism; the product over the outputs decides. A mechanism may hardly ever answer with the true word and
still give it away: what matters is how the laws of different words differ, and N outputs show it N times.

Reported is the share of words recovered from N = 1, 5, 20 obfuscations, with exact intervals, beside the share of
single outputs that are the true word (what an attacker gets who believes what he reads).

`bayes_vulnerability` is the exact chance of the best guess from one output where the whole law is known.

The simulated law is smoothed by one output spread over the vocabulary, so that an output never seen under a word is
unlikely and not impossible. More candidates and more draws only help the attacker; what is reported is a lower bound of
the best attack.

Cost: distinct candidates · draws runs of the mechanism, and N · near candidates for each word.

>>> bayes_vulnerability(np.array([[0.9, 0.1], [0.3, 0.7]]))
0.8
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from queryveil.attacks.released_stream import Success
from queryveil.checks import require, whole_number
from queryveil.knowledge.embeddings import WordVectors
from queryveil.mechanisms.obfuscate import WordMechanism
from queryveil.privacy import Noise

COUNTS = (1, 5, 20)
NEAR = 20
DRAWS = 400
WORDS_AT_ONCE = 1 << 16

Words = npt.NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """What an attacker gets from obfuscations of single words."""

    by_count: dict[int, Success]
    """Words recovered from the first N outputs, for each N."""
    kept: Success
    """Single outputs that are the true word."""


def recovery(
    mechanism: WordMechanism,
    words: Words,
    noise: Noise,
    *,
    counts: Sequence[int] = COUNTS,
    near: int = NEAR,
    draws: int = DRAWS,
) -> Recovery:
    """Obfuscate each word as often as the largest count and attack it with the first N outputs for each count N."""
    require(
        whole_number("near", near, at_least=1, at_most=10_000, suggest=NEAR),
        whole_number("draws", draws, at_least=1, at_most=10**7, suggest=DRAWS),
        *(whole_number("counts", count, at_least=1, at_most=10_000, suggest=20) for count in counts),
    )
    most = max(counts)
    outputs = mechanism.replace(np.repeat(words, most), noise.stream("likelihood attack: outputs"))
    outputs = outputs.reshape(len(words), most)
    return Recovery(
        by_count={
            count: Success(int((guesses == words).sum()), len(words))
            for count, guesses in guess_words(mechanism, outputs, noise, counts=counts, near=near, draws=draws).items()
        },
        kept=Success(int((outputs == words[:, None]).sum()), outputs.size),
    )


def guess_words(
    mechanism: WordMechanism,
    outputs: Words,
    noise: Noise,
    *,
    counts: Sequence[int] = COUNTS,
    near: int = NEAR,
    draws: int = DRAWS,
) -> dict[int, Words]:
    """For each count N the likeliest word behind the first N outputs of each row."""
    vocabulary = len(mechanism.vectors)
    neighbours = _Neighbours(mechanism.vectors, np.unique(outputs), near)
    asked = {count: [neighbours.of(row) for row in outputs[:, :count]] for count in counts}
    candidates = np.unique(np.concatenate([found for rows in asked.values() for found in rows]))
    seen, times = _simulated(mechanism, candidates, np.unique(outputs), draws, noise)
    guesses: dict[int, Words] = {}
    for count, rows in asked.items():
        chosen = []
        for row, among in zip(outputs[:, :count], rows, strict=True):
            pairs = np.searchsorted(candidates, among)[:, None] * vocabulary + row[None, :]
            place = np.minimum(np.searchsorted(seen, pairs), len(seen) - 1)
            hits = np.where(seen[place] == pairs, times[place], 0)
            # Of equally likely words argmax takes the first, the one nearest to the middle of the outputs.
            chosen.append(among[np.log(hits + 1 / vocabulary).sum(axis=1).argmax()])
        guesses[count] = np.array(chosen, np.int64)
    return guesses


def bayes_vulnerability(law: npt.ArrayLike) -> float:
    """The chance that the best guess from one output is right, all words being equally likely before.

    `law[w, u]` is P(output u | word w).
    """
    table = np.asarray(law, np.float64)
    return float(table.max(axis=0).sum() / len(table))


class _Neighbours:
    """The words nearest to each output that was seen, by Euclidean distance, the word itself first."""

    def __init__(self, vectors: WordVectors, seen: Words, near: int) -> None:
        self._matrix = np.asarray(vectors.matrix, np.float32)
        self._seen = seen
        squares = np.einsum("ij,ij->i", self._matrix, self._matrix)
        kept = min(near, len(squares))
        self._near = np.empty((len(seen), kept), np.int64)
        step = max(1, (1 << 25) // len(squares))
        for start in range(0, len(seen), step):
            far = squares - 2 * (self._matrix[seen[start : start + step]] @ self._matrix.T)
            self._near[start : start + step] = np.argpartition(far, kept - 1, axis=1)[:, :kept]

    def of(self, outputs: Words) -> Words:
        """The candidates behind some outputs, those nearest to the middle of the outputs first."""
        found = np.unique(np.append(self._near[np.searchsorted(self._seen, outputs)].ravel(), outputs))
        away = np.linalg.norm(self._matrix[found] - self._matrix[outputs].mean(axis=0), axis=1)
        return np.asarray(found[np.argsort(away, kind="stable")], np.int64)


def _simulated(
    mechanism: WordMechanism, candidates: Words, wanted: Words, draws: int, noise: Noise
) -> tuple[Words, Words]:
    """How often each candidate gave each wanted output, as sorted pairs (its place · V + output) and counts."""
    vocabulary = len(mechanism.vectors)
    useful = np.zeros(vocabulary, bool)
    useful[wanted] = True
    pairs, times = [np.array([-1], np.int64)], [np.array([0], np.int64)]  # never empty, so that a search finds a place
    step = max(1, WORDS_AT_ONCE // draws)
    for block, start in enumerate(range(0, len(candidates), step)):
        places = np.repeat(np.arange(start, min(start + step, len(candidates))), draws)
        answers = mechanism.replace(candidates[places], noise.stream("likelihood attack: simulation", block))
        found, count = np.unique((places * vocabulary + answers)[useful[answers]], return_counts=True)
        pairs.append(found)
        times.append(count)
    return np.concatenate(pairs), np.concatenate(times)

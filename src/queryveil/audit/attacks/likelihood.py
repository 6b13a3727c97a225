"""The likelihood attack on word obfuscation: which word most likely gave these outputs?

The attacker knows the mechanism, its parameters and the vocabulary (all public), sees N obfuscations of one word, and
takes the word under which they are likeliest. A mechanism may hardly ever answer with the true word and still give it
away: what matters is how the laws of different words differ, and N outputs show it N times.

P(output | word) is learned by running the mechanism, in two steps. A law e^(−s·distance) over the vocabulary, with s
fitted to the mean distance of answers, picks a short list of words for each row of outputs. Then the mechanism is run
on the words of the lists, and what was counted is mixed with the fitted law; how much of each is decided by how well
the mixture foretells fresh answers. Nothing of this looks at the truth.

Reported is the share of words recovered from N = 1, 5, 20 obfuscations, with exact intervals, beside the share of
single outputs that are the true word (what an attacker gets who believes what he reads). A better attacker may get
more: what is reported is a lower bound. `bayes_vulnerability` is the exact chance of the best guess from one output
where the whole law is known.

Cost: words on the lists · draws runs of the mechanism; N distances to the whole vocabulary for each word.

>>> bayes_vulnerability(np.array([[0.9, 0.1], [0.3, 0.7]]))
0.8
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from queryveil.audit.context import AuditContext
from queryveil.audit.finding import (
    CANNOT_BE_MADE_AGAIN,
    Found,
    LeftOut,
    Question,
    Success,
    risk,
)
from queryveil.checks import require, whole_number
from queryveil.errors import QueryVeilError
from queryveil.knowledge.embeddings import WordVectors
from queryveil.privacy import Noise
from queryveil.privacy.noise import Stream

COUNTS = (1, 5, 20)
SHORTLIST = 10
DRAWS = 300
FITTED_ON = 2000
BISECTIONS = 24
"""To a ten-thousandth of a usual scale; the answers that it is fitted to tell it to a hundredth."""
MIXTURES = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 1e6)
"""Weights of the fitted law that are tried, in answers for each answer counted."""
FLOOR = 1e-12
"""Nothing is impossible to the attacker, only very unlikely; the law is fitted, not known."""
WORDS_AT_ONCE = 1 << 16
MOST_FITTED_ON = 1 << 24
DISTANCES_AT_ONCE = 1 << 19
"""Two megabytes: distances are used while they are still in the core's own cache."""

Words = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]


class ReplacesWords(Protocol):
    """What is attacked: words are numbers of a public vocabulary, each replaced by itself."""

    @property
    def vectors(self) -> WordVectors:
        """The public vocabulary."""

    def replace(self, indices: Words, stream: Stream) -> Words:
        """A drawn word for each word."""


@dataclass(frozen=True, kw_only=True)
class Recovery:
    """What an attacker gets from obfuscations of single words."""

    by_count: dict[int, Success]
    """Words recovered from the first N outputs, for each N."""
    kept: Success
    """Single outputs that are the true word."""


def recovery(
    mechanism: ReplacesWords,
    words: Words,
    noise: Noise,
    *,
    counts: Sequence[int] = COUNTS,
    shortlist: int = SHORTLIST,
    draws: int = DRAWS,
) -> Recovery:
    """Obfuscate each word as often as the largest count and attack it with the first N outputs for each count N."""
    require(
        whole_number("shortlist", shortlist, at_least=1, at_most=10_000, suggest=SHORTLIST),
        whole_number("draws", draws, at_least=1, at_most=10**7, suggest=DRAWS),
        *(whole_number("counts", count, at_least=1, at_most=10_000, suggest=20) for count in counts),
    )
    most = max(counts)
    outputs = mechanism.replace(np.repeat(words, most), noise.stream("likelihood attack: outputs"))
    outputs = outputs.reshape(len(words), most)
    guesses = guess_words(mechanism, outputs, noise, counts=counts, shortlist=shortlist, draws=draws)
    return Recovery(
        by_count={count: Success(int((found == words).sum()), len(words)) for count, found in guesses.items()},
        kept=Success(int((outputs == words[:, None]).sum()), outputs.size),
    )


def guess_words(
    mechanism: ReplacesWords,
    outputs: Words,
    noise: Noise,
    *,
    counts: Sequence[int] = COUNTS,
    shortlist: int = SHORTLIST,
    draws: int = DRAWS,
) -> dict[int, Words]:
    """For each count N the likeliest word behind the first N outputs of each row."""
    law = _DistanceLaw(mechanism, noise.stream("likelihood attack: fit"))
    lists = {count: law.shortlists(outputs[:, :count], shortlist) for count in counts}
    learned = _LearnedLaw(law, np.unique(np.concatenate([rows.ravel() for rows in lists.values()])), draws, noise)
    guesses = {}
    for count, rows in lists.items():
        likely = learned.log_chances(rows[:, :, None], outputs[:, None, :count]).sum(axis=2)
        guesses[count] = rows[np.arange(len(rows)), likely.argmax(axis=1)]  # of equal ones the fitted law's favourite
    return guesses


def bayes_vulnerability(law: npt.ArrayLike) -> float:
    """The chance that the best guess from one output is right, all words being equally likely before.

    `law[w, u]` is P(output u | word w).
    """
    table = np.asarray(law, np.float64)
    return float(table.max(axis=0).sum() / len(table))


class _DistanceLaw:
    """P(output | word) ∝ e^(−scale · Euclidean distance), the scale fitted to answers of the mechanism."""

    def __init__(self, mechanism: ReplacesWords, stream: Stream) -> None:
        self.mechanism = mechanism
        self._matrix = np.asarray(mechanism.vectors.matrix, np.float32)
        self._squares = np.einsum("ij,ij->i", self._matrix, self._matrix, dtype=np.float64).astype(np.float32)
        size = len(self._matrix)
        words = stream.below(size, FITTED_ON)
        away = np.linalg.norm(self._matrix[words] - self._matrix[mechanism.replace(words, stream)], axis=1)
        self.scale = self._fitted(words[: max(1, min(100, MOST_FITTED_ON // size))], float(away.mean()))
        self._log_totals: dict[int, float] = {}

    def _fitted(self, words: Words, mean: float) -> float:
        """The scale with that mean distance, by bisection: the larger the scale, the nearer the answers."""
        blocks = [away.copy() for _, away in self._distances(words)]
        room = np.empty_like(blocks[0])
        low, high = 0.0, 1e3
        for _ in range(BISECTIONS):
            scale = (low + high) / 2
            totals, distances = np.zeros(len(words)), np.zeros(len(words))
            for away in blocks:
                weights = np.multiply(away, np.float32(-scale), out=room[:, : away.shape[1]])
                np.exp(weights, out=weights)
                totals += weights.sum(axis=1)
                distances += np.einsum("ij,ij->i", weights, away)
            low, high = (scale, high) if (distances / totals).mean() > mean else (low, scale)
        return scale

    def _distances(self, words: Words) -> Iterator[tuple[slice, Singles]]:
        """From words to the vocabulary, some columns of it at a time; who keeps them makes a copy."""
        rows, squares = self._matrix[words], self._squares[words][:, None]
        width = max(256, DISTANCES_AT_ONCE // max(1, len(words)))
        room = np.empty((len(words), min(width, len(self._matrix))), np.float32)
        for start in range(0, len(self._matrix), width):
            columns = slice(start, min(start + width, len(self._matrix)))
            away = np.matmul(rows, self._matrix[columns].T, out=room[:, : columns.stop - start])
            away *= -2
            away += squares
            away += self._squares[columns]
            np.sqrt(np.maximum(away, 0.0, out=away), out=away)
            own = np.flatnonzero((words >= start) & (words < columns.stop))
            away[own, words[own] - start] = 0.0
            yield columns, away

    def shortlists(self, outputs: Words, length: int) -> Words:
        """The likeliest words behind each row of outputs, best first.

        The sum over the vocabulary that makes the law one of chances is dear, so it is taken for a wider list only.
        """
        length = min(length, len(self._matrix))
        wide = min(10 * length, len(self._matrix))
        rows = []
        away = np.empty(len(self._matrix))
        for row in outputs:
            for columns, some in self._distances(row):
                some.sum(axis=0, out=away[columns])
            found = np.argpartition(away, wide - 1)[:wide]
            likely = -self.scale * away[found] - len(row) * self.log_totals(found)
            rows.append(found[np.argsort(-likely, kind="stable")[:length]])
        return np.array(rows, np.int64).reshape(len(outputs), length)

    def log_totals(self, words: Words) -> Floats:
        """ln Σ_u e^(−scale · distance) of words."""
        new = np.array(sorted(set(words.tolist()) - self._log_totals.keys()), np.int64)
        totals = np.zeros(len(new))
        for _, away in self._distances(new):
            away *= np.float32(-self.scale)
            totals += np.exp(away, out=away).sum(axis=1)
        self._log_totals.update(zip(new.tolist(), np.log(totals).tolist(), strict=True))  # the word itself adds 1
        return np.array([self._log_totals[word] for word in words.tolist()])

    def chances(self, words: Words, outputs: Words) -> Floats:
        """P(output | word), pair by pair."""
        away = np.linalg.norm(self._matrix[words].astype(np.float64) - self._matrix[outputs], axis=-1)
        totals = self.log_totals(words.ravel()).reshape(words.shape)
        return np.asarray(np.exp(-self.scale * away - totals) + FLOOR, np.float64)


class _LearnedLaw:
    """What the mechanism was seen to answer for some words, mixed with the fitted law."""

    def __init__(self, law: _DistanceLaw, words: Words, draws: int, noise: Noise) -> None:
        self._law, self._words, self._draws = law, words, draws
        self._size = len(law.mechanism.vectors)
        self._pairs, self._times = self._counted(draws, noise, "simulation")
        fresh, times = self._counted(max(1, draws // 10), noise, "fresh answers")
        places, outputs = np.divmod(fresh, self._size)
        self._weight = max(
            (weight * draws for weight in MIXTURES),
            key=lambda weight: float(times @ self._mixed(words[places], outputs, weight)),
        )

    def log_chances(self, words: Words, outputs: Words) -> Floats:
        """ln P(output | word), for arrays that broadcast; the words must be among those that were run."""
        shape = np.broadcast_shapes(words.shape, outputs.shape)
        return self._mixed(np.broadcast_to(words, shape), np.broadcast_to(outputs, shape), self._weight)

    def _mixed(self, words: Words, outputs: Words, weight: float) -> Floats:
        pairs = np.searchsorted(self._words, words) * self._size + outputs
        place = np.minimum(np.searchsorted(self._pairs, pairs), len(self._pairs) - 1)
        seen = np.where(self._pairs[place] == pairs, self._times[place], 0)
        mixed = (seen + weight * self._law.chances(words, outputs)) / (self._draws + weight)
        return np.asarray(np.log(mixed), np.float64)

    def _counted(self, draws: int, noise: Noise, purpose: str) -> tuple[Words, Words]:
        """Which answers each word gave and how often, as sorted pairs (place of the word · size + answer)."""
        found = []
        step = max(1, WORDS_AT_ONCE // draws)
        for block, start in enumerate(range(0, len(self._words), step)):
            places = np.repeat(np.arange(start, min(start + step, len(self._words))), draws)
            stream = noise.stream(f"likelihood attack: {purpose}", block)
            answers = self._law.mechanism.replace(self._words[places], stream)
            found.append(np.unique(places * self._size + answers, return_counts=True))
        return np.concatenate([pairs for pairs, _ in found]), np.concatenate([times for _, times in found])


WORDS_TRIED, QUICK_SHORTLIST, QUICK_DRAWS = 20, 5, 50


class WordLikelihood:
    """Which words obfuscations came from, for releases that replace words one by one."""

    key: ClassVar[str] = "likelihood"
    title: ClassVar[str] = "Words recovered by likelihood"
    question: ClassVar[Question] = "inference"
    counts_toward_risk: ClassVar[bool] = True

    def run(self, context: AuditContext) -> Found:
        """The findings, or what is missing."""
        if not context.declares("replaces_words"):
            return
        title = self.title
        try:
            mechanism: Any = context.made_again()
        except QueryVeilError:
            yield LeftOut(title=title, reason=CANNOT_BE_MADE_AGAIN, required=True, by_settings=True)
            return
        if mechanism.guarantee().model != "metric-dp":
            yield LeftOut(title=title, reason="the release does not replace words one by one", by_settings=True)
            return
        numbers = mechanism.vectors.numbers
        typed = context.original.frame["query"].unique().str.to_lowercase().str.split(" ").explode().unique().sort()
        known = np.array([numbers[word] for word in typed.to_list() if word in numbers], np.int64)
        if not len(known):
            yield LeftOut(title=title, reason="no word of the raw log is in the vocabulary")
            return
        noise = context.fresh_noise()
        some = known[np.sort(noise.stream("attack: words").permutation(len(known))[:WORDS_TRIED])]
        with np.errstate(divide="ignore"):  # what a word cannot give has no chance, and a logarithm of −∞
            found = recovery(mechanism.words, some, noise, shortlist=QUICK_SHORTLIST, draws=QUICK_DRAWS)
        for count, success in found.by_count.items():
            times = f"{count} obfuscation{'' if count == 1 else 's'}"
            yield risk(
                f"likelihood-{count}", f"Words recovered from {times}", "likelihood", "inference", success,
                f"Share of words of the raw log that are the likeliest behind {times} of them, for an "
                f"attacker who knows the mechanism and tries words near what came out.",
                raw=1.0, chance=1 / len(numbers),
            )  # fmt: skip

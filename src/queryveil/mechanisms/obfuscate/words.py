"""What every word mechanism is: a random map from words of a public vocabulary to words of the same vocabulary."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from queryveil.arrays import Floats, Longs
from queryveil.checks import one_of, real_number, require
from queryveil.errors import KnowledgeError
from queryveil.knowledge.embeddings import WordVectors
from queryveil.privacy import MetricDP
from queryveil.privacy.noise import Stream

NOISY = ("cmp", "mhl", "vkr-cmp", "vkr-mhl")
SELECTING = ("tem", "santext", "custext")
WORD_MECHANISMS = (*NOISY, *SELECTING)
MOST_EXAMINED = 20
"""Words of a query whose deniability is counted: it takes a look at the whole vocabulary for each."""
SMALLEST_EPSILON, LARGEST_EPSILON = 1e-6, 1e6


@dataclass(frozen=True)
class Deniability:
    """How many words, the true one included, an observer finds at least half as likely as the true one."""

    words: int
    how: str
    """Whether that was counted or estimated, and against which observer."""


class WordMechanism(Protocol):
    """Replaces words, each by itself. Its law for one word is metric private; see `guarantee`."""

    @property
    def vectors(self) -> WordVectors:
        """The public vocabulary."""

    @property
    def epsilon(self) -> float:
        """The loss of one word replaced once, for each unit of distance."""

    @property
    def metric(self) -> str:
        """What a unit of distance is: losses of a word add up over all mechanisms that measure alike.

        A cut distance is measured as the whole one, which is never smaller.
        """

    @property
    def diameter(self) -> float:
        """No two words are further apart in the guarantee's sense, whatever their vectors; infinite without a cut."""

    def replace(self, indices: Longs, stream: Stream) -> Longs:
        """A drawn word for each word. Words drawn first do not depend on how many follow."""

    def replace_many(self, questions: Sequence[tuple[Longs, Stream]]) -> list[Longs]:
        """What `replace` gives for each question, faster."""

    def guarantee(self) -> MetricDP:
        """What one replacement of one word promises."""

    def distances(self, first: Longs, second: Longs) -> Floats:
        """The distance, in the guarantee's sense, between words pair by pair."""

    def deniability(self, indices: Longs, drawn: Longs, stream: Stream) -> list[Deniability]:
        """For each of the first `MOST_EXAMINED` words, how many words could as well be behind its column of `drawn`.

        `drawn` holds what `replace` gave for the words over and over; `stream` is the one it read from, repeated.
        """


def word_mechanism(
    name: str, vectors: WordVectors, *, epsilon: float, t: float = 0.75, lambda_: float = 1.0
) -> WordMechanism:
    """A word mechanism by its name: cmp, mhl, vkr-cmp, vkr-mhl, tem, santext or custext.

    `t` is the Vickrey mechanisms' leaning to the second word, `lambda_` the regularisation of the Mahalanobis ones.
    """
    require(
        one_of("mechanism", name, WORD_MECHANISMS, suggest="cmp"),
        real_number("epsilon", epsilon, at_least=SMALLEST_EPSILON, at_most=LARGEST_EPSILON, suggest=10.0),
        real_number("t", t, at_least=0, at_most=1, suggest=0.75),
        real_number("lambda", lambda_, at_least=0, at_most=1, suggest=0.5),
    )
    if len(vectors) < 2:
        raise KnowledgeError("a vocabulary needs at least two words, or there is nothing to hide among.")
    if name in NOISY:
        from queryveil.mechanisms.obfuscate.noisy import NoisyWords

        return NoisyWords(
            vectors,
            epsilon=float(epsilon),
            lambda_=float(lambda_) if name.endswith("mhl") else None,
            t=float(t) if name.startswith("vkr") else 0.0,
        )
    from queryveil.mechanisms.obfuscate.selecting import CustomisedWords, SelectedWords

    if name == "custext":
        return CustomisedWords(vectors, epsilon=float(epsilon))
    return SelectedWords(vectors, epsilon=float(epsilon), truncated=name == "tem")

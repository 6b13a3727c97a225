"""AED: other queries from WordNet, not too near to the true one and not too far.

Arampatzis, Efraimidis and Drosatos (2011), "Enhancing Deniability against Query-Logs", as Faggioli and Ferro (2024) run
it. Each term has a set of words: its synonyms and what lies up to two steps away over hypernyms and holonyms. A
candidate takes one word from each set. It is as near to the true query as the mean Wu-Palmer similarity over all pairs
of its words with the query's; the candidates nearest to the median are taken, half from above, half from below.

A word is among its own synonyms, so some true words do reach the engine (Jaccard 0.2 to 0.34 in the paper); the whole
query never does, in whatever forms of its words and in whatever order. **No formal promise**: who knows WordNet can
walk back, and nothing is random.

Where we differ: stop words and words that WordNet has neither as noun nor as verb are left out; sending them as typed
would tell them. The authors' program takes three steps for poor queries, the similarity to the best word only, and the
20 candidates nearest to the median on either side; we do what the text says.

The similarity is a sum of one number for each position, so all of them come from one outer sum. Where there are more
than `most` candidates, that many are drawn, always the same ones.

Cost: similarities of distinct pairs of words, then O(most).

>>> AED().obfuscations("throat cancer", n=4)
['canal causal agent', 'canal cause', 'digestive system planetary house', 'digestive system sign of the zodiac']
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import numpy as np

from queryveil.arrays import Floats, Longs
from queryveil.checks import require, whole_number
from queryveil.errors import DataError
from queryveil.knowledge.engines import content_words
from queryveil.knowledge.relations import Relations
from queryveil.mechanisms.obfuscate.words import stems_of
from queryveil.privacy import Noise

MOST_TERMS = 64
MOST_CANDIDATES = 100_000


class AED:
    """Queries of related words around the median similarity to the true one."""

    def __init__(
        self, relations: Relations | None = None, *, steps: int = 2, most_candidates: int = MOST_CANDIDATES
    ) -> None:
        require(
            whole_number("steps", steps, at_least=0, at_most=5, suggest=2),
            whole_number("most_candidates", most_candidates, at_least=2, at_most=10**7, suggest=MOST_CANDIDATES),
        )
        self._relations = relations or Relations.load()
        self._steps, self._most = steps, most_candidates

    def obfuscations(self, query: str, n: int = 20) -> list[str]:
        """At most n queries: half just above the median similarity, half just below, the most similar first."""
        require(whole_number("n", n, at_least=1, at_most=10_000, suggest=20))
        terms = [word for word in content_words(query)[:MOST_TERMS] if self._relations.senses(word)]
        if not terms:
            raise DataError("WordNet knows no word of the query, so there is nothing to put in its place.")
        sets = [sorted(self.related(term)) for term in terms]
        choices = _without_typed(self._candidates(sets), sets, terms)
        nearness = [np.array([self._nearness(word, terms) for word in words]) for words in sets]
        similarity = sum((near[choices[:, i]] for i, near in enumerate(nearness)), np.zeros(len(choices)))
        chosen = self._around_the_median(similarity, n)
        return [" ".join(words[choices[place, i]] for i, words in enumerate(sets)) for place in chosen]

    def related(self, term: str) -> set[str]:
        """The synonyms of a term and of all that is up to so many hypernyms or holonyms away."""
        reached = edge = set(self._relations.senses(term))
        for _ in range(self._steps):
            edge = (self._relations.hypernyms(edge) | self._relations.holonyms(edge)) - reached
            reached = reached | edge
        return self._relations.words(reached)

    def _nearness(self, word: str, terms: Sequence[str]) -> float:
        """What a word adds to the similarity of a candidate: its mean over all terms, divided by their number."""
        return sum(self._relations.similarity(word, term) for term in terms) / len(terms) ** 2

    def _candidates(self, sets: Sequence[Sequence[str]]) -> Longs:
        """One row per candidate, the place of its word in each set; all of them, or `most` drawn without a secret."""
        sizes = [len(words) for words in sets]
        if math.prod(sizes) <= self._most:
            return np.stack(np.unravel_index(np.arange(math.prod(sizes)), sizes), axis=1)
        # Public and the same each time: the draw depends on the sets alone.
        seed = int.from_bytes(hashlib.sha256(repr(sets).encode()).digest()[:7], "big")
        stream = Noise.seeded(seed).stream("aed: candidates")
        drawn = stream.below(np.tile(np.array(sizes, np.int64), self._most)).reshape(self._most, len(sizes))
        return np.unique(drawn, axis=0)

    @staticmethod
    def _around_the_median(similarity: Floats, n: int) -> list[int]:
        """The places of candidates nearest to the median, half from each side of it, the most similar first."""
        order = np.argsort(-similarity.round(12), kind="stable")  # ties stay in the order of their words
        middle = (len(order) + 1) // 2
        above = n - n // 2
        start = max(0, min(middle - above, len(order) - n))
        return [int(place) for place in order[start : start + n]]


def _without_typed(choices: Longs, sets: Sequence[Sequence[str]], terms: Sequence[str]) -> Longs:
    """All candidates but the query itself, in whatever forms of its words and whatever order."""
    typed = stems_of(" ".join(terms))
    stems = [[stems_of(word) for word in words] for words in sets]
    only_typed = [np.array([found <= typed for found in column]) for column in stems]
    kept = ~np.logical_and.reduce([column[choices[:, i]] for i, column in enumerate(only_typed)])
    for row in np.flatnonzero(~kept):  # few: only they are made of nothing but typed words
        kept[row] = frozenset().union(*(column[choices[row, i]] for i, column in enumerate(stems))) != typed
    return np.asarray(choices[kept], np.int64)

"""What texts mean, wherever they are read: a classifier that every process loads for itself, once.

A block of records is worked on where it lies. What travels there is the name of the classifier and its digest, never
the classifier; a machine with another one is refused. A process remembers what it has classified, because the same
terms come back in every block.

>>> vocabulary = Reading.of("wordnet", categories=1, levels=2).vocabulary(pl.Series(["my puppies"]))
>>> [vocabulary.tree.path(int(label)) for label in vocabulary.labels()]
[('animal', 'young')]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock

import polars as pl

from queryveil.errors import KnowledgeError
from queryveil.knowledge._arrays import Lists
from queryveil.knowledge.categories import Classifier, load_classifier
from queryveil.mechanisms.microaggregate.profiles import Vocabulary

TERMS_REMEMBERED = 1 << 18
"""Some 60 MB. Terms beyond are classified in every block they occur in."""
_ONE_AT_A_TIME = Lock()


@dataclass(frozen=True)
class Reading:
    """How texts are read: the classifier, how many categories of each term count, and how deep."""

    source: str
    digest: str
    categories: int
    levels: int

    @classmethod
    def of(cls, source: str, *, categories: int, levels: int) -> Reading:
        """The reading with the classifier of a name or path on this machine."""
        return cls(source, load_classifier(source).digest, categories, levels)

    @property
    def classifier(self) -> Classifier:
        """The classifier of this process, which must be the one that the work was planned with."""
        with _ONE_AT_A_TIME:
            here = _remembering(self.source)
        if here.digest != self.digest:
            raise KnowledgeError("the classifier on this machine is not the one the work was planned with.")
        return here

    def vocabulary(self, texts: pl.Series) -> Vocabulary:
        """What distinct texts mean."""
        return Vocabulary.of(texts, self.classifier, categories=self.categories, levels=self.levels)


class Remembering(Classifier):
    """Another classifier, asked once for each term. Threads may share it, unlike the stemmer in a classifier."""

    def __init__(self, asked: Classifier) -> None:
        self.name, self.tree, self.digest = asked.name, asked.tree, asked.digest
        self._asked = asked
        self._known: dict[tuple[int, str], Sequence[int]] = {}

    def categories(self, queries: Sequence[str], at_most: int = 1) -> Lists:
        with _ONE_AT_A_TIME:
            return self._categories(queries, at_most)

    def _categories(self, queries: Sequence[str], at_most: int) -> Lists:
        known = self._known
        found = {query: known.get((at_most, query)) for query in queries}
        missing = [query for query, categories in found.items() if categories is None]
        answers = self._asked.categories(missing, at_most)
        offsets, values = answers.offsets.tolist(), answers.values.tolist()
        for place, query in enumerate(missing):
            found[query] = categories = tuple(values[offsets[place] : offsets[place + 1]])
            if len(known) < TERMS_REMEMBERED:
                known[at_most, query] = categories
        return Lists.of(found[query] or () for query in queries)


@lru_cache(maxsize=2)
def _remembering(name: str) -> Remembering:
    return Remembering(load_classifier(name))

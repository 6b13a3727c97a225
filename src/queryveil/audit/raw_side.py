"""What audits need of the raw log alone, made once for all releases of it.

A comparison audits many releases of one log. Half of what an attack or a measure computes is about the raw log (who
its users are, what its texts are about, what the attacker knows of the past) and the same for every release. It is made
when the first audit asks for it, and kept by name; an audit by itself keeps nothing, so a large log costs no memory.

>>> raw = RawSide(QueryLog.of([("ann", "weather"), ("bob", "my puppies")]))
>>> raw.once("users", raw.log.user_count), raw.once("users", lambda: 1 / 0)
(2, 2)
>>> asked = raw.classifier("wordnet")
>>> asked is raw.classifier("wordnet"), asked.classify(["my puppies"], 1) == asked.classify(["my puppies"], 1)
(True, True)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, TypeVar

from queryveil.knowledge._arrays import Lists
from queryveil.knowledge.categories import Classifier, load_classifier
from queryveil.log import QueryLog

Made = TypeVar("Made")

MOST_REMEMBERED: Final = 1 << 20
"""Texts whose categories are kept: some 200 MB; of a larger log the others are read again each time."""


class RawSide:
    """A raw log, who judges its releases without being in it, and what was made of them so far."""

    def __init__(self, log: QueryLog, held_out: QueryLog | None = None) -> None:
        self.log, self.held_out = log, held_out
        self._made: dict[Hashable, Any] = {}

    def once(self, name: Hashable, make: Callable[[], Made]) -> Made:
        """What `make` returns, from when it was first asked for under this name; it may depend on this log alone."""
        if name not in self._made:
            self._made[name] = make()
        found: Made = self._made[name]
        return found

    def classifier(self, name: str) -> Classifier:
        """A classifier that reads each text once."""
        return self.once(("classifier", name), lambda: _Remembering(load_classifier(name)))


class _Remembering(Classifier):
    """A classifier that keeps what it said of each text: releases of one log share most of their texts."""

    def __init__(self, classifier: Classifier) -> None:
        self._classifier = classifier
        self.name, self.tree, self.digest = classifier.name, classifier.tree, classifier.digest
        self._known: dict[int, dict[str, list[int]]] = {}

    def categories(self, queries: Sequence[str], at_most: int = 1) -> Lists:
        known = self._known.setdefault(at_most, {})
        new = [query for query in dict.fromkeys(queries) if query not in known]
        lists = self._classifier.categories(new, at_most)
        found = {query: lists[place].tolist() for place, query in enumerate(new)}
        known.update(list(found.items())[: max(0, MOST_REMEMBERED - len(known))])
        return Lists.of([found[query] if query in found else known[query] for query in queries])

"""A rooted hierarchy of concepts, as flat arrays, and how similar two of its concepts are.

Sánchez et al. (2018), "A Semantic-Preserving Differentially Private Method for Releasing Query Logs": minimum
taxonomy of a domain (eq. 4), similarity from shared subsumers (eq. 5), topic of a concept (ρ, section 3). A concept
may have several parents (WordNet does); all paths count, and a concept subsumes itself.

Concepts are numbered so that parents come before children and a subtree is nearly one block of numbers. The
descendants of a concept are therefore a handful of runs, and the number of subsumers that one concept shares with
*every* other one is a sum of a few runs: O(N) with a tiny constant, no N×N matrix.

Similarity depends on two small integers only (how many subsumers are shared, how many there are together), so it
takes few values. `levels` lists them, `levels_to_all` says which one each concept has: mechanisms group candidates by
level.

Cost: building O(total subsumers · log), similarity of one concept to all O(N), minimum similarity exact by branch and
bound.

>>> toy = Taxonomy.build(
...     ["R", "H", "S", "flu", "asthma", "tennis"], [[], [0], [0], [1], [1], [2]],
...     [["thing"], ["disease"], ["sport"], ["flu", "influenza"], ["asthma"], ["tennis"]])
>>> flu = toy.concept("influenza")
>>> {toy.keys[c]: round(float(s), 6) for c, s in enumerate(toy.similarity_to_all(flu))}
{'R': 0.263034, 'H': 0.584963, 'flu': 1.0, 'asthma': 0.415037, 'S': 0.192645, 'tennis': 0.152003}
>>> round(toy.minimum_similarity(), 9)
0.152003093
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

import numpy as np
import numpy.typing as npt

from queryveil.errors import KnowledgeError
from queryveil.knowledge._arrays import Array, Floats, Ints, Lists, Strings


def similarity_of_counts(shared: npt.ArrayLike, together: npt.ArrayLike) -> Floats:
    """Equation 5 from counts: 1 − log2(1 + (|S_a ∪ S_b| − |S_a ∩ S_b|) / |S_a ∪ S_b|)."""
    common, union = np.asarray(shared, np.float64), np.asarray(together, np.float64)
    return np.asarray(1.0 - np.log2(1.0 + (union - common) / union), np.float64)


class Taxonomy:
    """A rooted directed acyclic graph of concepts 0 … N−1, parents before children; 0 is the root.

    `keys` names each concept uniquely (`disease.n.01`, `Arts/Animation`). A label (`flu`) may belong to several
    concepts; then `senses` ranks them, the most usual first. `origin` gives each concept's number in the taxonomy that
    this one was cut from, or in the lists that it was built from.
    """

    def __init__(
        self,
        *,
        keys: Strings,
        parents: Lists,
        subsumers: Lists,
        label_texts: Strings,
        concept_labels: Lists,
        senses: Lists,
        origin: Ints,
    ) -> None:
        self.keys = keys
        self.parents = parents
        self._subsumers = subsumers
        self.label_texts = label_texts
        self.concept_labels = concept_labels
        self.senses = senses
        self.origin = origin

    # Building, saving, cutting

    @classmethod
    def build(
        cls,
        keys: Sequence[str],
        parents: Sequence[Sequence[int]],
        labels: Sequence[Sequence[str]],
        senses: Mapping[str, Sequence[int]] | None = None,
    ) -> Taxonomy:
        """Number the concepts, check the shape, and derive subsumers. `origin` maps new numbers to the given ones.

        `senses` ranks the concepts of a label; a label not in it ranks its concepts in the order given.
        """
        order = _topological_order(keys, parents)
        place = np.empty(len(order), np.int32)
        place[order] = np.arange(len(order), dtype=np.int32)
        new_parents = [sorted({int(place[p]) for p in parents[old]}) for old in order]
        ranked: dict[str, list[int]] = {text: [int(place[c]) for c in cs] for text, cs in (senses or {}).items()}
        for old in range(len(keys)):
            for text in labels[old]:
                known = ranked.setdefault(text, [])
                if int(place[old]) not in known:
                    known.append(int(place[old]))
        number = {text: i for i, text in enumerate(ranked)}
        return cls(
            keys=Strings.of(keys[old] for old in order),
            parents=Lists.of(new_parents),
            subsumers=_subsumers_from(new_parents),
            label_texts=Strings.of(number),
            concept_labels=Lists.of([number[text] for text in labels[old]] for old in order),
            senses=Lists.of(ranked.values()),
            origin=np.array(order, np.int32),
        )

    def to_arrays(self) -> dict[str, Array]:
        """All there is, as named arrays, for `_store.write_arrays`."""
        strings = {"keys": self.keys, "label_texts": self.label_texts}
        lists = {
            "parents": self.parents,
            "subsumers": self._subsumers,
            "concept_labels": self.concept_labels,
            "senses": self.senses,
        }
        return (
            {f"{name}.{part}": getattr(value, part) for name, value in strings.items() for part in ("text", "offsets")}
            | {
                f"{name}.{part}": getattr(value, part)
                for name, value in lists.items()
                for part in ("offsets", "values")
            }
            | {"origin": self.origin}
        )

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Array]) -> Taxonomy:
        """The inverse of `to_arrays`."""

        def lists(name: str) -> Lists:
            return Lists(arrays[f"{name}.offsets"], arrays[f"{name}.values"])

        def strings(name: str) -> Strings:
            return Strings(arrays[f"{name}.text"], arrays[f"{name}.offsets"])

        return cls(
            keys=strings("keys"), parents=lists("parents"), subsumers=lists("subsumers"), origin=arrays["origin"],
            label_texts=strings("label_texts"), concept_labels=lists("concept_labels"), senses=lists("senses"),
        )  # fmt: skip

    def under(self, concept: int) -> Taxonomy:
        """Everything below a concept, with that concept as the root; subsumers above it are forgotten."""
        return self._cut(self.descendants(concept))

    def minimum_taxonomy(self, concepts: Iterable[int]) -> Taxonomy:
        """τ(D), eq. 4: the least common subsumer of a domain and all that lies below it."""
        return self.under(self.least_common_subsumer(concepts))

    def without(self, concepts: Iterable[int]) -> Taxonomy:
        """The taxonomy without the given concepts and everything below them."""
        gone = np.zeros(len(self), np.bool_)
        for concept in concepts:
            gone[self.descendants(concept)] = True
        if gone[0]:
            raise KnowledgeError(f"nothing would be left of the taxonomy under {self.keys[0]!r} without its root.")
        return self._cut(np.flatnonzero(~gone).astype(np.int32))

    def without_edges(self, dropped: npt.NDArray[np.bool_]) -> Taxonomy:
        """The taxonomy without some edges (a mask over `parents.values`) and what then hangs on the root no more."""
        kept = ~dropped
        parents = Lists.of_pairs(self.parents.owners()[kept], self.parents.values[kept], len(self))
        subsumers = _subsumers_from(parents[concept].tolist() for concept in range(len(self)))
        still_there = subsumers.values[subsumers.offsets[:-1]] == 0  # the least of its subsumers is the root
        return self._cut(np.flatnonzero(still_there).astype(np.int32), parents, subsumers)

    def _cut(self, kept: Ints, parents: Lists | None = None, subsumers: Lists | None = None) -> Taxonomy:
        renumber = np.full(len(self), -1, np.int32)
        renumber[kept] = np.arange(len(kept), dtype=np.int32)
        labels = self.concept_labels.gather(kept)
        used = np.unique(labels.values)
        label_number = np.full(len(self.label_texts), -1, np.int32)
        label_number[used] = np.arange(len(used), dtype=np.int32)
        return Taxonomy(
            keys=self.keys.take(kept.astype(np.int64)),
            parents=(parents or self.parents).restrict(kept, renumber),
            subsumers=(subsumers or self._subsumers).restrict(kept, renumber),
            label_texts=self.label_texts.take(used.astype(np.int64)),
            concept_labels=Lists(labels.offsets, label_number[labels.values]),
            senses=self.senses.restrict(used, renumber),
            origin=kept,
        )

    # Looking around

    def __len__(self) -> int:
        return len(self.keys)

    def __repr__(self) -> str:
        return f"Taxonomy({len(self):,} concepts under {self.keys[0]!r})"

    @cached_property
    def digest(self) -> str:
        """A SHA-256 over concepts, edges and labels: what a manifest or a certificate of this taxonomy is tied to."""
        whole = hashlib.sha256()
        for name, array in sorted(self.to_arrays().items()):
            if name != "origin":
                whole.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
                whole.update(np.ascontiguousarray(array).data)
        return whole.hexdigest()

    @cached_property
    def _key_numbers(self) -> dict[str, int]:
        return {key: number for number, key in enumerate(self.keys.to_list())}

    @cached_property
    def _label_numbers(self) -> dict[str, int]:
        numbers: dict[str, int] = {}
        for number, text in enumerate(self.label_texts.to_list()):
            numbers.setdefault(text.lower(), number)
        return numbers

    def concept(self, name: str) -> int:
        """The concept of that key, else the first sense of that label (case and underscores do not matter)."""
        found = self._key_numbers.get(name)
        if found is not None:
            return found
        label = self._label_numbers.get(name.replace("_", " ").lower())
        if label is None:
            raise KnowledgeError(
                f"no concept is called {name[:60]!r} under {self.keys[0]!r}. "
                "Use a label (disease) or a key (disease.n.01)."
            )
        return int(self.senses[label][0])

    def senses_of(self, label: str) -> Ints:
        """All concepts of a label, the most usual first; none where nothing is called so."""
        number = self._label_numbers.get(label.lower())
        return np.zeros(0, np.int32) if number is None else self.senses[number]

    def labels(self, concept: int) -> list[str]:
        """The words for a concept, the main one first."""
        return [self.label_texts[int(number)] for number in self.concept_labels[concept]]

    @cached_property
    def children(self) -> Lists:
        """The concepts directly below each concept."""
        return Lists.of_pairs(self.parents.values, self.parents.owners(), len(self))

    def subsumers(self, concept: int) -> Ints:
        """S(c): the concept and everything above it, the root first."""
        return self._subsumers[concept]

    @cached_property
    def subsumer_counts(self) -> Ints:
        """|S(c)| of every concept."""
        return self._subsumers.lengths

    @cached_property
    def _runs(self) -> tuple[npt.NDArray[np.int64], Ints, Ints]:
        """Descendants as runs: those of `c` are starts[i] … stops[i]−1 for i in offsets[c] … offsets[c+1]−1."""
        below = Lists.of_pairs(self._subsumers.values, self._subsumers.owners(), len(self))
        owner, value = below.owners(), below.values
        first = np.ones(len(value), bool)
        first[1:] = (np.diff(value) != 1) | (np.diff(owner) != 0)
        begins = np.flatnonzero(first)
        ends = np.append(begins[1:], len(value)) - 1
        offsets = np.zeros(len(self) + 1, np.int64)
        np.cumsum(np.bincount(owner[begins], minlength=len(self)), out=offsets[1:])
        return offsets, value[begins], value[ends] + 1

    @property
    def subsumer_lists(self) -> Lists:
        """S(c) of every concept, for kernels."""
        return self._subsumers

    @property
    def descendant_runs(self) -> tuple[npt.NDArray[np.int64], Ints, Ints]:
        """(offsets, starts, stops): what lies below `c`, itself included, is starts[i] … stops[i]−1 for each i in
        offsets[c] … offsets[c+1]−1. For kernels that count shared subsumers themselves."""
        return self._runs

    def descendants(self, concept: int) -> Ints:
        """The concept and everything below it, in ascending order."""
        offsets, starts, stops = self._runs
        own = range(int(offsets[concept]), int(offsets[concept + 1]))
        return np.concatenate([np.arange(starts[i], stops[i], dtype=np.int32) for i in own])

    def least_common_subsumer(self, concepts: Iterable[int]) -> int:
        """The concept that subsumes all given ones and has fewest descendants; of several the lowest number."""
        given = list(concepts)
        if not given:
            raise KnowledgeError("a domain needs at least one concept; got none.")
        common = set(self.subsumers(given[0]).tolist())
        for concept in given[1:]:
            common.intersection_update(self.subsumers(concept).tolist())
        return int(min(sorted(common), key=lambda concept: len(self.descendants(concept))))

    # Similarity (eq. 5)

    def shared_subsumers(self, concept: int) -> Ints:
        """|S(concept) ∩ S(b)| for every concept b."""
        offsets, starts, stops = self._runs
        above = self.subsumers(concept)
        first, last = offsets[above], offsets[above + 1]
        lengths = last - first
        spots = np.repeat(first - np.cumsum(lengths) + lengths, lengths) + np.arange(lengths.sum())
        steps = np.bincount(starts[spots], minlength=len(self) + 1) - np.bincount(stops[spots], minlength=len(self) + 1)
        return np.cumsum(steps[:-1]).astype(np.int32)

    @cached_property
    def _level_table(self) -> tuple[Floats, Array]:
        """Every value that similarity can take here, ascending, and the place of (shared, together) among them."""
        most = int(self.subsumer_counts.max())
        shared, together = np.meshgrid(np.arange(most + 1), np.arange(2 * most + 1), indexing="ij")
        possible = (shared >= 1) & (shared <= together)
        # Equal ratios give equal floats (division rounds correctly), so that unique() merges exactly the equal ones.
        values, place = np.unique(similarity_of_counts(shared[possible], together[possible]), return_inverse=True)
        table = np.zeros(shared.shape, np.uint16 if len(values) <= 2**16 else np.uint32)
        table[possible] = place
        return values, table

    @property
    def levels(self) -> Floats:
        """The values similarity can take in this taxonomy, ascending; the last is 1."""
        return self._level_table[0]

    def levels_to_all(self, concept: int) -> Array:
        """For every concept, the place in `levels` of its similarity to `concept`."""
        shared = self.shared_subsumers(concept)
        table = self._level_table[1]
        together = self.subsumer_counts + (self.subsumer_counts[concept] - shared)
        levels: Array = table.ravel().take(shared * np.int32(table.shape[1]) + together)
        return levels

    def similarity_to_all(self, concept: int) -> Floats:
        """sim(concept, b) of eq. 5 for every concept b."""
        return self.levels.take(self.levels_to_all(concept))

    def similarity(self, one: int, other: int) -> float:
        """sim of eq. 5 of two concepts."""
        shared = len(np.intersect1d(self.subsumers(one), self.subsumers(other), assume_unique=True))
        return float(similarity_of_counts(shared, len(self.subsumers(one)) + len(self.subsumers(other)) - shared))

    @cached_property
    def _least_level(self) -> int:
        least = len(self.levels) - 1
        table = self._level_table[1]
        # Where the deeper of a pair has s subsumers, shared ≥ 1 and together ≤ 2s − 1 bound the pair's level below.
        for concept in np.argsort(-self.subsumer_counts, kind="stable"):
            if table[1, 2 * int(self.subsumer_counts[concept]) - 1] >= least:
                break
            least = min(least, int(self.levels_to_all(int(concept)).min()))
        return least

    def minimum_similarity(self) -> float:
        """The least similarity over all pairs of concepts, exact."""
        return float(self.levels[self._least_level])

    def interchangeable(self) -> Ints:
        """A group number per concept, shared by leaves with the same parents: no third concept tells them apart."""
        groups: dict[tuple[int, ...], int] = {}
        leaf = self.children.lengths == 0
        number = np.empty(len(self), np.int32)
        for concept in range(len(self)):
            name = tuple(self.parents[concept].tolist()) if leaf[concept] else (-1, concept)
            number[concept] = groups.setdefault(name, len(groups))
        return number

    def topics(self, roots: Sequence[int]) -> Ints:
        """ρ: for every concept the place of the first given root that subsumes it, −1 where none does."""
        topic = np.full(len(self), -1, np.int32)
        for place in reversed(range(len(roots))):
            topic[self.descendants(roots[place])] = place
        return topic


def _subsumers_from(parents: Iterable[Sequence[int]]) -> Lists:
    """Each concept and all above it, ascending, for concepts numbered parents first."""
    subsumers: list[list[int]] = []
    for concept, above in enumerate(parents):
        if len(above) == 1:
            subsumers.append([*subsumers[above[0]], concept])
        else:
            subsumers.append([*sorted(set().union(*(subsumers[parent] for parent in above))), concept])
    return Lists.of(subsumers)


def _topological_order(keys: Sequence[str], parents: Sequence[Sequence[int]]) -> list[int]:
    """Depth first, a concept after the last of its parents, siblings as given; checks the shape on the way."""
    if len(set(keys)) != len(keys):
        raise KnowledgeError("a taxonomy needs unique keys; some key is there twice.")
    children: list[list[int]] = [[] for _ in keys]
    waiting = [0] * len(keys)
    for concept, above in enumerate(parents):
        for parent in set(above):
            if not 0 <= parent < len(keys):
                raise KnowledgeError(f"concept {concept} names a parent that does not exist.")
            children[parent].append(concept)
            waiting[concept] += 1
    roots = [concept for concept, count in enumerate(waiting) if count == 0]
    if len(roots) != 1:
        raise KnowledgeError(f"a taxonomy has one root; this one has {len(roots)}. Add one concept above them.")
    order: list[int] = []
    stack = roots
    while stack:
        concept = stack.pop()
        order.append(concept)
        for child in reversed(children[concept]):
            waiting[child] -= 1
            if waiting[child] == 0:
                stack.append(child)
    if len(order) != len(keys):
        raise KnowledgeError(f"{len(keys) - len(order)} concepts lie on or below a circle; a taxonomy has none.")
    return order

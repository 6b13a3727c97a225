"""The public domain: which concepts a query may be replaced by, and how alike any two of them are.

Sánchez et al. (2018), sections 3.5 and 3.6. A domain is one or several parts, each the taxonomy below a root
(τ(D), eq. 4) in which subsumers are counted; safe mode adds one more concept, *outside*, for every phrase that is not
in the domain, so that not being in it is protected too. Between two concepts of different parts there is no similarity
in the paper; here it is the least one that occurs inside a part.

What a pair of concepts is to the mechanism is its *class*: one of a few hundred similarity levels, or "another part",
each once for pairs of one topic and once for pairs of different topics (ρ of section 3.5). All weights are per class,
so nothing ever needs a table of pairs.

How a domain is named:

- `all`: every concept of the taxonomy;
- `disease`, `disease.n.01`: what lies below that concept;
- `disease,sport`: the least taxonomy that holds both (eq. 4): what lies below their least common subsumer;
- `disease|sport`: two domains, each query stays in its own (the paper's setting A and D=P);
- `four`, `nineteen`: the paper's topics (`topics.toml`), each a domain of its own.

Cost: building is linear in the number of subsumers.

>>> toy = Taxonomy.build(["R", "H", "S", "flu", "asthma", "tennis"], [[], [0], [0], [1], [1], [2]], [["r"]] * 6)
>>> domain = Domain.of([toy], outside=True)
>>> len(domain), domain.name_of(domain.outside), round(domain.minimum_similarity, 6)
(7, '(outside)', 0.152003)
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import polars as pl

from queryveil.arrays import Array, Floats, Ints
from queryveil.errors import KnowledgeError, ParameterError
from queryveil.knowledge._arrays import Lists
from queryveil.knowledge.taxonomy import Taxonomy, similarity_of_counts

WHOLE = "all"
TOPIC_LISTS = ("four", "nineteen")
OUTSIDE_TEXT = "other"
"""What is published for *outside*; no noun phrase, so nobody maps it back to a concept."""
MOST_CONCEPTS = 1 << 20
BLOCK = 64
"""Concepts in a row of which it is known in advance how many are of each kind."""


class DomainArrays(NamedTuple):
    """A domain as the kernels see it; concepts are numbered through all parts."""

    part_starts: Array  # part p holds concepts part_starts[p] … part_starts[p+1]−1
    part_of: Array
    topic_of: Array
    subsumer_counts: Array
    above_offsets: Array
    above: Array  # the subsumers of each concept
    run_offsets: Array
    run_starts: Array
    run_stops: Array  # what lies below each concept, as runs
    level_table: Array  # [shared, together] → level
    kind_of: Array  # outputs with the same number of subsumers and the same topic are of one kind
    kind_counts: Array
    kind_topics: Array
    tallies: Array  # [b, k]: how many of the first b blocks of outputs are of kind k
    most_pieces: int  # of any row


@dataclass(frozen=True, eq=False)
class Domain:
    """Parts of concepts, possibly with *outside*, and a topic for every concept."""

    parts: tuple[Taxonomy, ...]
    sources: tuple[Ints, ...]
    """For each part, the number that each concept has in the taxonomy all parts were cut from."""
    outside: int
    """The number of *outside*, or −1 where the domain has none."""
    topic_of: Ints

    def recalled_by(self, recall: Callable[..., Domain], arguments: tuple[Any, ...]) -> Domain:
        """This domain, which another process makes anew by `recall(*arguments)` instead of being sent its arrays."""
        self.__dict__["_recalled_by"] = recall, arguments
        return self

    def __reduce__(self) -> Any:
        return self.__dict__.get("_recalled_by") or super().__reduce__()

    @classmethod
    def of(
        cls,
        parts: Sequence[Taxonomy],
        *,
        outside: bool,
        sources: Sequence[Ints] | None = None,
        topics: Ints | None = None,
    ) -> Domain:
        """A domain of given parts; `topics` (one number a concept, −1 for none) is for the criterion sqc2.

        *Outside* is a topic of its own.
        """
        size = sum(map(len, parts))
        if any(len(part) < 2 for part in parts) or not parts:
            raise ParameterError(["a domain needs at least two concepts; name a concept with others below it."])
        if size > MOST_CONCEPTS:
            raise ParameterError([f"a domain has at most {MOST_CONCEPTS:,} concepts; this one has {size:,}."])
        topic_of = np.zeros(size, np.int32) if topics is None else topics.astype(np.int32)
        if outside:
            topic_of = np.append(topic_of, np.int32(topic_of.max(initial=0) + 1))
        own = tuple(np.arange(len(part), dtype=np.int32) for part in parts)
        return cls(tuple(parts), tuple(sources or own), size if outside else -1, topic_of)

    @classmethod
    def named(cls, taxonomy: Taxonomy, name: str, *, outside: bool, topics: str | None = None) -> Domain:
        """The domain that a text names within a taxonomy (see the module), with topics named alike."""
        parts, sources = [], []
        roots = [_roots(taxonomy, group) for group in _expanded(name, "|").split("|")]
        claimed = np.zeros(len(taxonomy), np.bool_)
        for group in roots:
            root = taxonomy.least_common_subsumer(group)
            below = taxonomy.descendants(root)
            part = taxonomy.under(root)
            taken = np.flatnonzero(claimed[below])
            source = below
            if len(taken):  # ρ of a concept is the first topic that holds it, so later ones go without it
                part = part.without(taken.tolist())
                source = below[part.origin]
            claimed[below] = True
            parts.append(part)
            sources.append(source.astype(np.int32))
        topic_of = None
        if topics is not None:
            all_topics = taxonomy.topics(
                [r for group in _expanded(topics, ",").split(",") for r in _roots(taxonomy, group)]
            )
            topic_of = np.concatenate([all_topics[source] for source in sources])
            if (topic_of < 0).all():
                raise ParameterError(
                    [f"topics must hold concepts of the domain {name[:60]!r}; these hold none. Name others."]
                )
        return cls.of(parts, outside=outside, sources=sources, topics=topic_of)

    def __len__(self) -> int:
        return sum(map(len, self.parts)) + (self.outside >= 0)

    @cached_property
    def arrays(self) -> DomainArrays:
        """The domain for the kernels."""
        starts, counts = [0], []
        above, runs = [], []
        for part in self.parts:
            counts.append(part.subsumer_counts)
            above.append((part.subsumer_lists.offsets, part.subsumer_lists.values))
            runs.append(part.descendant_runs)
            starts.append(starts[-1] + len(part))
        if self.outside >= 0:  # a part of its own, with one concept
            one = np.array([0, 1], np.int64)
            counts.append(np.ones(1, np.int32))
            above.append((one, np.zeros(1, np.int32)))
            runs.append((one, np.zeros(1, np.int32), np.ones(1, np.int32)))
            starts.append(starts[-1] + 1)
        shift = starts[:-1]
        subsumer_counts = np.concatenate(counts).astype(np.int32)
        above_offsets, run_offsets = (_joined([lists[0] for lists in each]) for each in (above, runs))
        subsumers = np.concatenate([values + at for (_, values), at in zip(above, shift, strict=True)]).astype(np.int32)
        kinds, kind_of = np.unique(np.stack([subsumer_counts, self.topic_of]), axis=1, return_inverse=True)
        tallies = np.zeros((-(-len(self) // BLOCK) + 1, kinds.shape[1]), np.int32)
        np.add.at(tallies, (1 + np.arange(len(self)) // BLOCK, kind_of), 1)
        return DomainArrays(
            part_starts=np.array(starts, np.int64),
            part_of=np.repeat(np.arange(len(shift), dtype=np.int32), np.diff(starts)),
            topic_of=self.topic_of,
            subsumer_counts=subsumer_counts,
            above_offsets=above_offsets,
            above=subsumers,
            run_offsets=run_offsets,
            run_starts=np.concatenate([begin + at for (_, begin, _), at in zip(runs, shift, strict=True)]).astype(
                np.int32
            ),
            run_stops=np.concatenate([end + at for (_, _, end), at in zip(runs, shift, strict=True)]).astype(np.int32),
            level_table=self._levels[1],
            kind_of=kind_of.astype(np.int32),
            kind_counts=kinds[0],
            kind_topics=kinds[1],
            tallies=np.cumsum(tallies, axis=0, dtype=np.int32),
            most_pieces=1 + 2 * int(np.add.reduceat(np.diff(run_offsets)[subsumers], above_offsets[:-1]).max()),
        )

    @cached_property
    def _levels(self) -> tuple[Floats, Array]:
        """The values similarity can take, ascending (the last is 1), and the place of [shared, together] among them."""
        most = max(int(part.subsumer_counts.max()) for part in self.parts)
        shared, together = np.meshgrid(np.arange(most + 1), np.arange(2 * most + 1), indexing="ij")
        possible = (shared >= 1) & (shared <= together)
        values, place = np.unique(similarity_of_counts(shared[possible], together[possible]), return_inverse=True)
        table = np.zeros(shared.shape, np.int32)
        table[possible] = place
        return values, table

    @cached_property
    def groups(self) -> Lists:
        """Concepts that nothing else tells apart: leaves with the same parents and topic. A law treats them alike."""
        number: list[Array] = []
        used = 0
        for part in self.parts:
            number.append(part.interchangeable() + np.int32(used))
            used = int(number[-1].max()) + 1
        if self.outside >= 0:
            number.append(np.array([used], np.int32))
        topic = self.topic_of.astype(np.int64)
        key = np.concatenate(number) * (topic.max() - topic.min() + 1) + (topic - topic.min())
        _, first, group = np.unique(key, return_index=True, return_inverse=True)
        rank = np.argsort(np.argsort(first))  # groups in the order of their first concepts
        owners = rank[group].astype(np.int32)
        return Lists.of_pairs(owners, np.arange(len(owners), dtype=np.int32), len(first))

    @property
    def level_count(self) -> int:
        """How many similarity levels there are; class `level_count` means "in another part"."""
        return len(self._levels[0])

    @cached_property
    def class_similarity(self) -> Floats:
        """For each class the similarity of its pairs."""
        once = np.append(self._levels[0], self.minimum_similarity)
        return np.concatenate([once, once])

    @cached_property
    def class_is_same_part(self) -> Array:
        """For each class whether its pairs lie in one part."""
        return np.arange(2 * (self.level_count + 1)) % (self.level_count + 1) < self.level_count

    @cached_property
    def class_is_same_topic(self) -> Array:
        """For each class whether its pairs have one topic."""
        return np.arange(2 * (self.level_count + 1)) <= self.level_count

    @property
    def same_class(self) -> int:
        """The class of a concept and itself, and of no other pair."""
        return self.level_count - 1

    @cached_property
    def part_minimum_similarities(self) -> Floats:
        """min_sim of each part, over all its pairs; 1 for *outside*."""
        least = [part.minimum_similarity() for part in self.parts]
        return np.array(least + ([1.0] if self.outside >= 0 else []))

    @cached_property
    def minimum_similarity(self) -> float:
        """The least similarity of two concepts of one part: public, from the taxonomy and not from the data."""
        return float(self.part_minimum_similarities.min())

    @cached_property
    def digest(self) -> str:
        """A SHA-256 over concepts, structure and topics; certificates are tied to it."""
        whole = hashlib.sha256(f"{self.outside}".encode())
        for part in self.parts:
            whole.update(part.digest.encode())
        whole.update(np.ascontiguousarray(self.topic_of).data)
        return whole.hexdigest()

    def name_of(self, concept: int) -> str:
        """The key of a concept."""
        if concept == self.outside:
            return "(outside)"
        part = int(self.arrays.part_of[concept])
        return str(self.parts[part].keys[concept - int(self.arrays.part_starts[part])])

    def labels(self, concept: int) -> list[str]:
        """The public words for a concept, the main one first."""
        if concept == self.outside:
            return [OUTSIDE_TEXT]
        part = int(self.arrays.part_of[concept])
        number = concept - int(self.arrays.part_starts[part])
        return self.parts[part].labels(number) or [self.name_of(concept)]

    @cached_property
    def main_labels(self) -> list[str]:
        """The main word for every concept."""
        found: list[str] = []
        for part in self.parts:
            texts, keys = part.label_texts.to_list(), part.keys.to_list()
            offsets, values = part.concept_labels.offsets.tolist(), part.concept_labels.values.tolist()
            found += [texts[values[a]] if a < b else keys[i] for i, (a, b) in enumerate(pairwise(offsets))]
        return found + ([OUTSIDE_TEXT] if self.outside >= 0 else [])

    def texts(self, concepts: Array) -> pl.Series:
        """The main word for each of these concepts."""
        return pl.Series(self.main_labels, dtype=pl.String).gather(pl.Series(concepts, dtype=pl.UInt32))

    def places(self, size: int) -> Ints:
        """For each concept of the taxonomy that the parts were cut from, its number here, or −1."""
        place = np.full(size, -1, np.int32)
        for source, start in zip(self.sources, self.arrays.part_starts, strict=False):
            place[source] = np.arange(start, start + len(source), dtype=np.int32)
        return place


def topic_names(which: str) -> list[str]:
    """The keys of the paper's `four` or `nineteen` topics, in their order."""
    listed = tomllib.loads(resources.files(__package__).joinpath("topics.toml").read_text(encoding="utf-8"))
    return [topic["name"] for topic in listed[which]]


def _expanded(name: str, joint: str) -> str:
    return joint.join(topic_names(name)) if name in TOPIC_LISTS else name


def _roots(taxonomy: Taxonomy, group: str) -> list[int]:
    if group.strip() == WHOLE:
        return [0]
    try:
        return [taxonomy.concept(root.strip()) for root in group.split(",")]
    except KnowledgeError as unknown:  # its message names the root that was asked for, which is a public parameter
        raise ParameterError([str(unknown)]) from None


def _joined(offsets: Iterable[Array]) -> Array:
    """Offsets of several lists of lists, one behind the other."""
    lengths = np.concatenate([np.diff(one) for one in offsets])
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)

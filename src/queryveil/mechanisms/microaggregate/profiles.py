"""What each user searches for: how often each category, level by level (Algorithm 1 of Erola et al. 2011).

The paper keeps one matrix M_l of users × categories for each level l. A category at level l is a node of the
classifier's tree at depth l, so all levels fit in one sparse matrix whose columns are nodes: a term filed under Sports:
Soccer counts once for the node Sports and once for the node Sports: Soccer. Each distinct term is classified once.

Cost: one pass over the distinct (user, text) pairs, twice; memory in the number of non-zero cells.

>>> from queryveil.knowledge.categories import WordNetClassifier
>>> from queryveil.knowledge.wordnet import WordNet
>>> log = CountedLog.of(pl.DataFrame({"user": ["ann", "ann"], "query": ["puppies", "puppies"]}))
>>> profiles = Vocabulary.of(log.texts, WordNetClassifier(WordNet.load()), categories=1, levels=2).profiles(log)
>>> profiles.counts.tolist()
[2, 2]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from threading import Lock

import numpy as np
import numpy.typing as npt
import polars as pl

from queryveil.arrays import Ints, Longs
from queryveil.errors import KnowledgeError
from queryveil.knowledge._arrays import Lists
from queryveil.knowledge.categories import NO_CATEGORY, CategoryTree, Classifier, load_classifier
from queryveil.knowledge.phrases import word_of
from queryveil.knowledge.tagging import STOP_WORDS, Tagger

COUNT, CATEGORIES, NODES, COUNTS = "__count", "__categories", "__nodes", "__counts"
TERMS_REMEMBERED = 1 << 18
"""Some 60 MB. Terms beyond are classified in every block they occur in."""
_ONE_AT_A_TIME = Lock()


@dataclass(frozen=True)
class CountedLog:
    """A log as numbers: how often each user asked each text. Users and texts are sorted: file order leaves no trace."""

    users: pl.Series
    texts: pl.Series
    pair_users: Ints
    pair_texts: Ints
    pair_counts: Ints
    """The pairs are sorted by user, then text."""

    @classmethod
    def of(cls, frame: pl.DataFrame) -> CountedLog:
        """Count a frame with the columns `user` and `query`."""
        return cls.of_pairs(frame.group_by("user", "query").len(COUNT))

    @classmethod
    def of_pairs(cls, pairs: pl.DataFrame) -> CountedLog:
        """A frame with the columns `user`, `query` and how often, each pair once."""
        users, texts = pairs["user"].unique().sort(), pairs["query"].unique().sort()
        coded = pl.DataFrame([_codes(pairs["user"], users), _codes(pairs["query"], texts), pairs[COUNT]])
        coded = coded.sort("user", "query")
        return cls(users, texts, *(coded[name].cast(pl.Int32).to_numpy() for name in ("user", "query", COUNT)))

    @property
    def user_offsets(self) -> Longs:
        """Where each user's pairs start."""
        return starts(self.pair_users, len(self.users))

    def sizes(self) -> Longs:
        """How many records each user has: |Q_i| of the paper."""
        return np.bincount(self.pair_users, self.pair_counts, len(self.users)).astype(np.int64)

    def askers(self) -> Ints:
        """How many distinct users asked each text."""
        return np.bincount(self.pair_texts, minlength=len(self.texts)).astype(np.int32)


@dataclass(frozen=True)
class Profiles:
    """A sparse matrix users × tree nodes of counts: row u is `nodes[offsets[u]:offsets[u+1]]` with its `counts`."""

    offsets: Longs
    nodes: Ints
    counts: Ints
    node_count: int

    @classmethod
    def of_frame(cls, frame: pl.DataFrame, node_count: int) -> Profiles:
        """The matrix of a frame with a row for each user, see `frame`."""
        nodes, counts = lists_of(frame[NODES]), lists_of(frame[COUNTS])
        return cls(nodes.offsets, nodes.values, counts.values, node_count)

    def frame(self) -> pl.DataFrame:
        """A row for each user: its nodes and counts as two lists, null for a user without any."""
        return list_columns(self.offsets, {NODES: self.nodes, COUNTS: self.counts})

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def rows(self) -> Ints:
        """For each non-zero cell the number of its row."""
        return np.repeat(np.arange(len(self), dtype=np.int32), np.diff(self.offsets))

    def totals(self) -> Longs:
        """The sum of each row: a user's similarity with themselves."""
        return np.bincount(self.rows(), self.counts, len(self)).astype(np.int64)

    def users_per_node(self) -> Longs:
        """How many users have each category."""
        return np.bincount(self.nodes, minlength=self.node_count).astype(np.int64)

    def take(self, chosen: npt.NDArray[np.integer]) -> Profiles:
        """The chosen rows, in the given order."""
        rows = Lists(self.offsets, self.nodes).gather(chosen)
        return Profiles(
            rows.offsets, rows.values, Lists(self.offsets, self.counts).gather(chosen).values, self.node_count
        )


@dataclass(frozen=True)
class Vocabulary:
    """The terms of each text, and the tree nodes each term counts for."""

    tree: CategoryTree
    text_terms: Lists
    term_categories: Lists
    """The first categories of each term, best first, cut to the deepest level used."""
    levels: int

    @classmethod
    def of(cls, texts: pl.Series, classifier: Classifier, *, categories: int, levels: int) -> Vocabulary:
        """Split distinct texts into terms and classify each distinct term once."""
        text_terms, terms = split_terms(texts)
        found = classifier.categories(terms, categories)
        cut = Lists(found.offsets, classifier.tree.truncate(found.values, levels))
        return cls(classifier.tree, text_terms, cut, levels)

    @classmethod
    def of_categories(cls, tree: CategoryTree, categories: Lists, levels: int) -> Vocabulary:
        """The vocabulary of texts whose terms' categories are known, see `text_categories`."""
        distinct, numbers = np.unique(categories.values, return_inverse=True)
        alone = Lists(np.arange(len(distinct) + 1), distinct)
        return cls(tree, Lists(categories.offsets, numbers.astype(np.int32)), alone, levels)

    def text_categories(self) -> Lists:
        """The categories of all terms of each text, with repetitions."""
        of_terms = self.term_categories.gather(self.text_terms.values)
        return Lists(of_terms.offsets[self.text_terms.offsets], of_terms.values)

    def labels(self) -> Ints:
        """For each text the best category of its last term that has one, −1 for none."""
        term_label = np.full(len(self.term_categories), NO_CATEGORY, np.int32)
        filled = self.term_categories.lengths > 0
        term_label[filled] = self.term_categories.values[self.term_categories.offsets[:-1][filled]]
        in_place = term_label[self.text_terms.values]
        found = np.flatnonzero(in_place != NO_CATEGORY)
        last = np.full(len(self.text_terms), -1, np.int64)
        last[self.text_terms.owners()[found]] = found  # the last one stays
        labels = np.full(len(self.text_terms), NO_CATEGORY, np.int32)
        labels[last >= 0] = in_place[last[last >= 0]]
        return labels

    def profiles(self, log: CountedLog) -> Profiles:
        """The classification matrices of all users (Algorithm 1)."""
        from queryveil.mechanisms.microaggregate._profile_kernel import count_cells, fill_cells  # Numba: only when used

        nodes = self._term_nodes()
        asked = (log.user_offsets, log.pair_texts, log.pair_counts, self.text_terms.offsets, self.text_terms.values)
        offsets = np.zeros(len(log.users) + 1, np.int64)
        np.cumsum(count_cells(*asked, nodes.offsets, nodes.values, len(self.tree)), out=offsets[1:])
        cell_nodes, cell_counts = fill_cells(*asked, nodes.offsets, nodes.values, len(self.tree), offsets)
        return Profiles(offsets, cell_nodes, cell_counts, len(self.tree))

    def _term_nodes(self) -> Lists:
        """For each term every node at or above its categories, with repetitions."""
        owners, at = self.term_categories.owners(), self.term_categories.values
        all_owners, all_nodes = [owners[:0]], [at[:0]]
        while len(at):
            all_owners.append(owners)
            all_nodes.append(at)
            above = self.tree.parents[at]
            owners, at = owners[above != NO_CATEGORY], above[above != NO_CATEGORY]
        return Lists.of_pairs(np.concatenate(all_owners), np.concatenate(all_nodes), len(self.term_categories))


@dataclass(frozen=True)
class TextReading:
    """How texts are read, wherever they lie: the classifier, how many categories of each term count, and how deep.

    A block of records is worked on where it lies. What travels there is the name of the classifier and its digest,
    never the classifier: every process loads it for itself, once; a machine with another one is refused.

    >>> vocabulary = TextReading.of("wordnet", categories=1, levels=2).vocabulary(pl.Series(["my puppies"]))
    >>> [vocabulary.tree.path(int(label)) for label in vocabulary.labels()]
    [('animal', 'young')]
    """

    source: str
    digest: str
    categories: int
    levels: int

    @classmethod
    def of(cls, source: str, *, categories: int, levels: int) -> TextReading:
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
    """Another classifier, asked once for each term, because the same terms come back in every block.

    Threads may share it, unlike the stemmer in a classifier.
    """

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


def split_terms(texts: pl.Series) -> tuple[Lists, list[str]]:
    """For each text the numbers of its terms, and the terms: its words without the closed list of function words."""
    known: dict[str, int] = {}
    of_tokens: dict[str, int | None] = {}  # the same tokens come back in text after text
    offsets = np.zeros(len(texts) + 1, np.int64)

    def term(token: str) -> int | None:
        word = word_of(token)
        of_tokens[token] = number = known.setdefault(word, len(known)) if word and word not in STOP_WORDS else None
        return number

    found: list[Ints] = []
    for begin in range(0, len(texts), 1 << 17):  # in pieces: Python's lists of numbers take much room
        piece: list[int] = []
        for place, text in enumerate(texts[begin : begin + (1 << 17)].to_list(), begin + 1):
            for token in Tagger.tokens(text):
                number = of_tokens[token] if token in of_tokens else term(token)
                if number is not None:
                    piece.append(number)
            offsets[place] = len(piece)
        ends = offsets[begin + 1 : begin + 1 + (1 << 17)]
        ends += offsets[begin]
        found.append(np.array(piece, np.int32))
    return Lists(offsets, np.concatenate(found) if found else np.empty(0, np.int32)), list(known)


def list_columns(offsets: Longs, columns: Mapping[str, Ints]) -> pl.DataFrame:
    """Lists that start at the same places as columns of a frame; an empty list is null."""
    owners = np.repeat(np.arange(len(offsets) - 1, dtype=np.int32), np.diff(offsets))
    filled = pl.DataFrame({"row": pl.Series(owners).set_sorted(), **columns})
    lists = filled.group_by("row", maintain_order=True).agg(*columns)
    rows = pl.DataFrame({"row": np.arange(len(offsets) - 1, dtype=np.int32)})
    return rows.join(lists, on="row", how="left", maintain_order="left").drop("row")


def lists_of(column: pl.Series) -> Lists:
    """The lists in a column that `list_columns` made."""
    offsets = np.zeros(len(column) + 1, np.int64)
    np.cumsum(column.list.len().fill_null(0).to_numpy(), out=offsets[1:])
    values = column.explode().cast(pl.Int32)  # Polars may forget the type where no row has a list
    return Lists(offsets, values.drop_nulls().to_numpy())


def starts(sorted_owners: Ints, owner_count: int) -> Longs:
    """Where each owner's part starts in an array sorted by owner."""
    offsets = np.zeros(owner_count + 1, np.int64)
    np.cumsum(np.bincount(sorted_owners, minlength=owner_count), out=offsets[1:])
    return offsets


def _codes(values: pl.Series, distinct: pl.Series) -> pl.Series:
    if not len(distinct):
        return pl.Series(values.name, [], dtype=pl.UInt32)
    return values.cast(pl.Enum(distinct)).to_physical().cast(pl.UInt32).alias(values.name)

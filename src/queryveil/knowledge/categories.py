"""From a query to the categories it belongs to, best first: what the stream and the microaggregation group by.

A `Classifier` is deterministic: the same query always gets the same categories, whoever asks. A category is a path
from general to specific. `WordNetClassifier`, the default and always there, has the 25 lexicographer files of
WordNet's nouns as its top level (food, animal, artifact …) and below it the hypernym chain inside that file, 13
levels at most. The Open Directory is in `odp.py`.

A query's noun phrases are mapped to concepts as in `phrases.py`; longer labels rank before shorter ones, earlier
phrases before later ones, first senses of all phrases before second senses. Where no phrase is a label, any word of
the query that is one counts, the right-most first; after that, words written as one (`homedepot.com`) count by their
last word. What still has no category (misspellings, names, bare numbers) gets none.

Cost: one mapping per query, then table lookups; give each distinct query once.

>>> from queryveil.knowledge.wordnet import WordNet
>>> classifier = WordNetClassifier(WordNet.load())
>>> classifier.classify(["golden retriever puppies", "xqzzt"], at_most=1)
[[('animal', 'young', 'young mammal', 'pup', 'puppy')], []]
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from functools import cached_property, lru_cache

import numpy as np
import numpy.typing as npt

from queryveil.knowledge._arrays import Ints, Lists, Strings
from queryveil.knowledge.phrases import UNMAPPED, PhraseMapper
from queryveil.knowledge.tagging import STOP_WORDS
from queryveil.knowledge.wordnet import NOUN_FILES, WordNet

WORDNET = "wordnet"
NO_CATEGORY = -1
SHORTEST_HEAD, SHORTEST_WORD = 4, 3
Path = tuple[str, ...]
Flags = npt.NDArray[np.bool_]


class CategoryTree:
    """Categories 0 … N−1, parents before children, as arrays; a top-level category has parent −1 and depth 1."""

    def __init__(self, names: Strings, parents: Ints) -> None:
        self.names = names
        self.parents = parents

    @classmethod
    def of(cls, paths: Iterable[Path]) -> tuple[CategoryTree, list[int]]:
        """The tree of all given paths and their prefixes, and the category of each given path (−1 for an empty one)."""
        names: list[str] = []
        parents: list[int] = []
        known: dict[tuple[int, str], int] = {}
        categories = []
        for path in paths:
            at = NO_CATEGORY
            for name in path:
                below = known.get((at, name))
                if below is None:
                    below = known[at, name] = len(names)
                    names.append(name)
                    parents.append(at)
                at = below
            categories.append(at)
        return cls(Strings.of(names), np.array(parents, np.int32)), categories

    def __len__(self) -> int:
        return len(self.parents)

    @cached_property
    def depths(self) -> Ints:
        """How many names each category's path has."""
        depths = np.zeros(len(self), np.int32)
        for category, parent in enumerate(self.parents.tolist()):
            depths[category] = 1 if parent == NO_CATEGORY else depths[parent] + 1
        return depths

    def path(self, category: int) -> Path:
        """The names from the top to a category."""
        names: list[str] = []
        while category != NO_CATEGORY:
            names.append(self.names[category])
            category = int(self.parents[category])
        return tuple(reversed(names))

    @cached_property
    def _numbers(self) -> dict[tuple[int, str], int]:
        names = self.names.to_list()
        return {(parent, names[category]): category for category, parent in enumerate(self.parents.tolist())}

    def find(self, path: Sequence[str]) -> int:
        """The category of a path, −1 where there is none."""
        at = NO_CATEGORY
        for name in path:
            at = self._numbers.get((at, name), NO_CATEGORY)
            if at == NO_CATEGORY:
                return NO_CATEGORY
        return at

    def truncate(self, categories: Ints, depth: int) -> Ints:
        """Each category's ancestor at a depth, or itself where it is not deeper; −1 stays −1."""
        depths = np.append(self.depths, 0)  # the last entry stands for −1
        parents = np.append(self.parents, NO_CATEGORY)
        cut = np.array(categories, np.int32)
        while (too_deep := depths[cut] > depth).any():
            cut[too_deep] = parents[cut[too_deep]]
        return cut


class Classifier(ABC):
    """Deterministic: the same query always gets the same categories."""

    name: str
    tree: CategoryTree
    digest: str
    """What the categories are made from, for a release's manifest."""

    @abstractmethod
    def categories(self, queries: Sequence[str], at_most: int = 1) -> Lists:
        """For each query the numbers of its categories in `tree`, best first, each at most once."""

    def best(self, queries: Sequence[str]) -> Ints:
        """For each query the number of its best category, −1 for none."""
        found = self.categories(queries, 1)
        best = np.full(len(queries), NO_CATEGORY, np.int32)
        best[found.lengths > 0] = found.values
        return best

    def classify(self, queries: Sequence[str], at_most: int = 5) -> list[list[Path]]:
        """For each query its category paths, best first."""
        found = self.categories(queries, at_most)
        return [[self.tree.path(int(category)) for category in found[place]] for place in range(len(found))]


class WordNetClassifier(Classifier):
    """Categories are the hypernym chains of nouns below their lexicographer files."""

    name = "wordnet"

    def __init__(self, wordnet: WordNet) -> None:
        self._mapper = PhraseMapper.of_nouns(wordnet)
        self._words = wordnet.word_counts
        self._compound_head = lru_cache(maxsize=1 << 16)(self._find_compound_head)
        self._ranked = lru_cache(maxsize=1 << 16)(self._rank)  # an audit asks for the same texts again and again
        self.tree, category_of = CategoryTree.of(_paths(wordnet))
        self._category_of = category_of
        senses = wordnet.nouns.senses
        self._sense_offsets, self._senses = senses.offsets.tolist(), senses.values.tolist()
        self.digest = wordnet.source_digest

    def concepts_under(self, categories: Iterable[int]) -> Flags:
        """For each noun whether it lies at or below one of the categories, by the tree or by any of its hypernyms."""
        wanted = np.zeros(len(self.tree) + 1, np.bool_)  # the last entry stands for −1
        wanted[list(categories)] = True
        for category, parent in enumerate(self.tree.parents.tolist()):  # parents come before their children
            wanted[category] |= wanted[parent]
        concerned = wanted[self._category_of]
        hypernyms = self._mapper.taxonomy.parents
        for concept, hypernym in zip(hypernyms.owners().tolist(), hypernyms.values.tolist(), strict=True):  # here too
            concerned[concept] |= concerned[hypernym]
        return concerned

    def labels_of(self, concepts: Flags) -> list[str]:
        """All labels of the flagged nouns, each once."""
        taxonomy = self._mapper.taxonomy
        labels = taxonomy.concept_labels.gather(np.flatnonzero(concepts)).values
        return [taxonomy.label_texts[label] for label in np.unique(labels).tolist()]

    def knows(self, word: str) -> bool:
        """Whether this is a word of WordNet, of whatever kind, or the plural of a noun."""
        return word in self._words or word in STOP_WORDS or self._mapper.exact(word) != UNMAPPED

    def categories(self, queries: Sequence[str], at_most: int = 1) -> Lists:
        rank = self._ranked
        return Lists.of([rank(query, at_most) for query in queries])

    def _rank(self, query: str, at_most: int) -> tuple[int, ...]:
        mapper = self._mapper
        tokens = mapper.tagger.tokens(query)
        phrases = [phrase for phrase in mapper.phrases(tokens) if phrase.label != UNMAPPED]
        if len(phrases) > 1:
            phrases.sort(key=lambda phrase: phrase.matched_from - phrase.matched_to)  # stable: earlier ones first
        labels = [phrase.label for phrase in phrases] or self._any_word(tokens) or self._any_compound(tokens)
        offsets = self._sense_offsets
        found: list[int] = []
        for sense in range(max((offsets[label + 1] - offsets[label] for label in labels), default=0)):
            for label in labels:
                if offsets[label] + sense < offsets[label + 1]:
                    category = self._category_of[self._senses[offsets[label] + sense]]
                    if category != NO_CATEGORY and category not in found:
                        found.append(category)
            if len(found) >= at_most:
                break
        return tuple(found[:at_most])

    def _any_compound(self, tokens: Sequence[str]) -> list[int]:
        heads = (self._compound_head(self._mapper.tagger.word(token).text) for token in reversed(tokens))
        return [label for label in heads if label != UNMAPPED]

    def _find_compound_head(self, text: str) -> int:
        """The label at the end of words written as one (homedepot), where all the rest is words too; −1 for none."""
        if text.isascii() and text.isalpha():
            for cut in range(2, len(text) - SHORTEST_HEAD + 1):
                label = self._mapper.exact(text[cut:])
                if label != UNMAPPED and self.is_words(text[:cut]):
                    return label
        return UNMAPPED

    def is_words(self, text: str) -> bool:
        """Whether letters are words written as one."""
        reached = [True] + [False] * len(text)  # reached[i]: the first i letters are words
        for stop in range(2, len(text) + 1):
            reached[stop] = any(reached[start] and self._is_word(text[start:stop]) for start in range(stop - 1))
        return reached[-1]

    def _is_word(self, text: str) -> bool:
        return text in STOP_WORDS or (len(text) >= SHORTEST_WORD and text in self._words)

    def _any_word(self, tokens: Sequence[str]) -> list[int]:
        found = []
        for token in reversed(tokens):
            word = self._mapper.tagger.word(token)
            if word.may_be_noun:
                label = self._mapper.lookup([word.text])
                if label != UNMAPPED:
                    found.append(label)
        return found


def _paths(wordnet: WordNet) -> list[Path]:
    """The category path of every noun; empty for the few that stand above all lexicographer files."""
    nouns, files = wordnet.nouns, wordnet.noun_files.tolist()
    texts, labels = nouns.label_texts.to_list(), nouns.concept_labels
    main_label = [texts[label] for label in labels.values[labels.offsets[:-1]].tolist()]
    start, hypernyms = nouns.parents.offsets.tolist(), nouns.parents.values.tolist()
    tops = NOUN_FILES.index("tops")
    paths: list[Path] = []
    for concept in range(len(nouns)):
        parents = hypernyms[start[concept] : start[concept + 1]]
        if files[concept] == tops:
            # A unique beginner (animal.n.01) is its file; what hangs between beginners belongs to the nearest above.
            named = [label for label in nouns.labels(concept) if label in NOUN_FILES]
            above = next((paths[parent] for parent in parents if paths[parent]), ())
            paths.append((named[0],) if named else (*above, main_label[concept]) if above else ())
            continue
        same_file = next((parent for parent in parents if files[parent] == files[concept]), None)
        above = (NOUN_FILES[files[concept]],) if same_file is None else paths[same_file]
        paths.append((*above, main_label[concept]))
    return paths


def load_classifier(name: str) -> Classifier:
    """The classifier of a name: `wordnet`, or the path of an imported Open Directory. Each is loaded once."""
    return _loaded(name if name == WORDNET else os.path.realpath(name))


@lru_cache(maxsize=3)
def _loaded(name: str) -> Classifier:
    if name == WORDNET:
        return WordNetClassifier(WordNet.load())
    from queryveil.knowledge.odp import OpenDirectory  # builds on this module

    return OpenDirectory(name)

"""How words hang together in WordNet: synonyms, what they are a kind of, what they are a part of, and how near two are.

Wu and Palmer (1994), "Verb Semantics and Lexical Selection": with N3 the number of concepts from the root to a common
subsumer and N1, N2 the steps from each concept up to it, the similarity is 2·N3 / (N1 + N2 + 2·N3). Where a concept has
several parents the best common subsumer counts; on a tree that is the lowest one, as in the paper. Words are as similar
as their nearest senses, nouns with nouns and verbs with verbs.

All senses of a word count, because nothing tells which one was meant. Inflected words are looked up by their base form.

Cost: a dictionary of the subsumers of each concept, made once when it is first met.

>>> relations = Relations.load()
>>> sorted(relations.synonyms("flu"))
['flu', 'grippe', 'influenza']
>>> round(relations.similarity("flu", "influenza"), 2), round(relations.similarity("flu", "tennis"), 2)
(1.0, 0.18)
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property, lru_cache

from queryveil.knowledge.tagging import Tagger
from queryveil.knowledge.taxonomy import Taxonomy
from queryveil.knowledge.wordnet import WordNet

NOUN, VERB = 0, 1
Concept = tuple[int, int]
"""A part of speech and a number in its taxonomy."""


class Relations:
    """What WordNet knows of single words."""

    def __init__(self, wordnet: WordNet) -> None:
        self._wordnet = wordnet
        self._taxonomies: tuple[Taxonomy, Taxonomy] = (wordnet.nouns, wordnet.verbs)
        self._tagger = Tagger(wordnet)
        self.senses = lru_cache(maxsize=1 << 16)(self._senses)
        self._paths = lru_cache(maxsize=1 << 17)(self._paths_up)
        self.similarity = lru_cache(maxsize=1 << 20)(self._similarity)

    @classmethod
    def load(cls) -> Relations:
        """The relations of the installed WordNet."""
        return _of_wordnet(WordNet.load())

    def _senses(self, word: str) -> tuple[Concept, ...]:
        """The concepts of a word: of the word as written, else of what it is an inflection of."""
        forms = {NOUN: [word, *self._tagger.singulars(word)], VERB: [word, *self._tagger.verb_bases(word)]}
        found: list[Concept] = []
        for speech, written in forms.items():
            of_form = (self._taxonomies[speech].senses_of(form).tolist() for form in written)
            found += [(speech, concept) for concept in next(filter(None, of_form), [])]
        return tuple(found)

    def words(self, concepts: Iterable[Concept]) -> set[str]:
        """The words for concepts, in lower case; some are several words long."""
        return {label.lower() for speech, concept in concepts for label in self._taxonomies[speech].labels(concept)}

    def hypernyms(self, concepts: Iterable[Concept]) -> set[Concept]:
        """What the concepts are kinds of, one step up; the artificial root above all verbs is none."""
        above = {(s, p) for s, concept in concepts for p in self._taxonomies[s].parents[concept].tolist()}
        return above - {(VERB, 0)}

    def hyponyms(self, concepts: Iterable[Concept]) -> set[Concept]:
        """The kinds of the concepts, one step down."""
        return {(s, child) for s, concept in concepts for child in self._taxonomies[s].children[concept].tolist()}

    def holonyms(self, concepts: Iterable[Concept]) -> set[Concept]:
        """The wholes that the concepts are a member, a part or the substance of."""
        holonyms = self._wordnet.holonyms
        return {(NOUN, whole) for s, concept in concepts if s == NOUN for whole in holonyms[concept].tolist()}

    def synonyms(self, word: str) -> set[str]:
        """All words that share a sense with a word, itself among them."""
        return self.words(self.senses(word))

    def _similarity(self, one: str, other: str) -> float:
        """Wu and Palmer's similarity of the nearest senses of two words; 0 where none are comparable."""
        mine, theirs = self.senses(one), self.senses(other)
        return max((self.concept_similarity(a, b) for a in mine for b in theirs if a[0] == b[0]), default=0.0)

    def concept_similarity(self, one: Concept, other: Concept) -> float:
        """Wu and Palmer's similarity of two concepts of one part of speech."""
        mine, theirs = self._paths(one), self._paths(other)
        depths = self._depths[one[0]]
        best = 0.0
        for subsumer in mine.keys() & theirs.keys():
            shared = 2 * (depths[subsumer] + 1)
            best = max(best, shared / (mine[subsumer] + theirs[subsumer] + shared))
        return best

    @cached_property
    def _depths(self) -> tuple[list[int], list[int]]:
        """The fewest steps from the root to every noun and to every verb."""

        def depths(taxonomy: Taxonomy) -> list[int]:
            found = [0] * len(taxonomy)
            offsets, parents = taxonomy.parents.offsets.tolist(), taxonomy.parents.values.tolist()
            for concept in range(1, len(taxonomy)):  # parents come before children
                found[concept] = 1 + min(found[p] for p in parents[offsets[concept] : offsets[concept + 1]])
            return found

        return depths(self._taxonomies[NOUN]), depths(self._taxonomies[VERB])

    def _paths_up(self, concept: Concept) -> dict[int, int]:
        """The fewest steps from a concept to each of its subsumers."""
        parents = self._taxonomies[concept[0]].parents
        steps = {concept[1]: 0}
        edge = [concept[1]]
        while edge:
            above = {parent for one in edge for parent in parents[one].tolist()} - steps.keys()
            distance = steps[edge[0]] + 1
            steps |= dict.fromkeys(above, distance)
            edge = list(above)
        return steps


@lru_cache(maxsize=2)
def _of_wordnet(wordnet: WordNet) -> Relations:
    return Relations(wordnet)

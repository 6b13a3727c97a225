"""From a query to the concepts its noun phrases name, and back.

Sánchez et al. (2018), section 3: a query is split, tagged and chunked into noun phrases; stop words are dropped;
words of the phrase and of the taxonomy's labels are reduced by Porter's stemmer; a phrase that is no label loses its
left-most word until it is one (the right-most word is the head of an English noun phrase) or nothing is left. Every
noun phrase is one query of its own to the mechanism. The inverse puts another concept's label where the phrase was
and keeps the rest
("the frame"): stop words, stripped words and the plural. It copies the input's own words, so it protects nothing by
itself; only paper mode uses it.

Where we differ, because the paper leaves it open:

- Several labels may have one stem (*universe*, *university*). The label written exactly so wins, then the one whose
  plural it is, then the one seen most often in tagged text.
- A label with a function word inside (*statue of liberty*) is looked for before chunking, which would tear it apart.
- A number after the head (*honda accord 2004*) is left out where the label does not have it.

Cost: a few dictionary lookups per query; the stem table is compiled once per taxonomy and cached.

>>> from queryveil.knowledge.wordnet import WordNet
>>> mapper = PhraseMapper.of_nouns(WordNet.load())
>>> frame = mapper.frame("stores offering the new Apple phones")
>>> [mapper.taxonomy.keys[phrase.concept] for phrase in frame.phrases]
['shop.n.01', 'telephone.n.01']
>>> frame.fill(["museum", "camera"])
'museums offering the new Apple cameras'
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from queryveil.knowledge._arrays import Array, Lists, Strings
from queryveil.knowledge._store import cache_folder, compiled_once
from queryveil.knowledge.tagging import (
    ADJECTIVE,
    BREAK,
    DETERMINER,
    NOUN,
    NUMBER,
    STOP_WORDS,
    TagFunction,
    Tagger,
    Word,
    normal_text,
    singulars,
)
from queryveil.knowledge.taxonomy import Taxonomy
from queryveil.knowledge.wordnet import WordNet

SCHEMA = 2  # raise when tables are made differently
UNMAPPED = -1
PLURAL_WINS = 10
"""A label that is a plural as well (*shoes*, "in my shoes") yields to a singular seen so many times as often."""
MOST_WORDS = 64
"""Words of a query beyond these are not read; real queries have a handful."""


@dataclass(frozen=True, slots=True)
class Phrase:
    """A noun phrase: tokens start … stop−1 of its query, of which matched_from … matched_to−1 are the label found.

    `label` is a number in the taxonomy's `label_texts`, `concept` its first sense; both are −1 where nothing was found.
    """

    start: int
    stop: int
    matched_from: int
    matched_to: int
    label: int
    concept: int
    plural: bool


@dataclass(frozen=True, slots=True)
class Frame:
    """A query as tokens with the places of its noun phrases."""

    tokens: tuple[str, ...]
    phrases: tuple[Phrase, ...]

    def words(self, phrase: Phrase) -> tuple[str, ...]:
        """The phrase as it was written."""
        return self.tokens[phrase.start : phrase.stop]

    def stripped(self, phrase: Phrase) -> tuple[str, ...]:
        """The words dropped from the left of the phrase before a label was found; stop words are not among them."""
        left = self.tokens[phrase.start : phrase.matched_from]
        return tuple(token for token in left if token.lower() not in STOP_WORDS)

    def fill(self, labels: Sequence[str | None]) -> str:
        """The query with a label in the place of each phrase's own; None leaves a phrase as it is."""
        tokens: list[str] = []
        at = 0
        for phrase, label in zip(self.phrases, labels, strict=True):
            if label is not None:
                tokens += [*self.tokens[at : phrase.matched_from], plural_of(label) if phrase.plural else label]
                at = phrase.matched_to
        return " ".join([*tokens, *self.tokens[at:]])


class PhraseMapper:
    """Maps queries to concepts of one taxonomy."""

    def __init__(self, taxonomy: Taxonomy, wordnet: WordNet, *, tag_function: TagFunction | None = None) -> None:
        self.taxonomy = taxonomy
        self.tagger = Tagger(wordnet, tag_function)
        tables = _LabelTables.of(taxonomy, wordnet)
        self._by_text, self._by_stem = tables.by_text, tables.by_stem
        self._bridged, self._longest = tables.bridged, tables.longest
        self._stem = stemmer()
        self.first_senses: list[int] = taxonomy.senses.values[taxonomy.senses.offsets[:-1]].tolist()

    @classmethod
    def of_nouns(cls, wordnet: WordNet) -> PhraseMapper:
        """Maps to any noun of WordNet."""
        return cls(wordnet.nouns, wordnet)

    def concepts(self, queries: Sequence[str]) -> Lists:
        """For each query the concept of each of its noun phrases, −1 for a phrase that is no label."""
        return Lists.of([phrase.concept for phrase in self.phrases(self.tagger.tokens(query))] for query in queries)

    def frame(self, query: str) -> Frame:
        """The query's tokens and noun phrases."""
        tokens = self.tagger.tokens(query)
        return Frame(tuple(tokens), tuple(self.phrases(tokens)))

    def stem_key(self, words: Sequence[str]) -> str:
        """The words as the stem table knows them."""
        return " ".join([self._stem(word) for word in words])

    def exact(self, text: str) -> int:
        """The label written exactly so, or in the plural; −1 for none."""
        found = self._by_text.get(text)
        if found is not None:
            return found
        start = text.rfind(" ") + 1
        for singular in self.tagger.singulars(text[start:]):
            found = self._by_text.get(text[:start] + singular)
            if found is not None:
                return found
        return UNMAPPED

    def lookup(self, words: Sequence[str]) -> int:
        """The label that these words are: as written, as a plural, or by stems; −1 for none."""
        found = self.exact(" ".join(words))
        if found == UNMAPPED and len(words) <= self._longest.get(self._stem(words[-1]), 0):
            found = self._by_stem.get(self.stem_key(words), UNMAPPED)
        return found

    def phrases(self, tokens: Sequence[str]) -> list[Phrase]:
        """The noun phrases among tokens, left to right, with their concepts."""
        tokens = tokens[:MOST_WORDS]
        known = [self.tagger.word(token) for token in tokens]
        tags = self.tagger.tags_of(known, tokens)
        found: list[Phrase] = []
        start = place = 0  # the open chunk is start … place−1
        while place <= len(tokens):
            tag = tags[place] if place < len(tokens) else BREAK
            bridge = self._bridge_at(known, place) if place < len(tokens) else 0
            if bridge == 0 and (tag in (NOUN, ADJECTIVE, NUMBER) or (tag == DETERMINER and start == place)):
                place += 1
                continue
            self._close(known, tags, start, place, found)
            if bridge:
                label = self._by_text[" ".join(word.text for word in known[place : place + bridge])]
                found.append(
                    Phrase(place, place + bridge, place, place + bridge, label, self.first_senses[label], False)
                )
                place += bridge
            elif tag != DETERMINER:
                place += 1
            start = place
        return found

    def _bridge_at(self, known: Sequence[Word], place: int) -> int:
        """How many words from here are a label with a function word inside; 0 for none."""
        for length in self._bridged.get(known[place].text, ()):
            words = known[place : place + length]
            if len(words) == length and " ".join([word.text for word in words]) in self._by_text:
                return length
        return 0

    def _close(self, known: list[Word], tags: list[str], start: int, stop: int, found: list[Phrase]) -> None:
        """Look up the chunk start … stop−1, if it has a noun, by dropping words from its left."""
        first = start
        while first < stop and tags[first] == DETERMINER:
            first += 1
        head = stop  # after the last noun
        while head > first and tags[head - 1] != NOUN:
            head -= 1
        if head == first:
            return
        ends = (stop, head) if stop > head and tags[head] == NUMBER else (head,)
        for end in ends:
            words = [word.text for word in known[first:end]]
            for left in range(len(words)):
                label = self.lookup(words[left:])
                if label != UNMAPPED:
                    plural = " ".join(words[left:]) not in self._by_text and bool(self.tagger.singulars(words[-1]))
                    found.append(Phrase(start, end, first + left, end, label, self.first_senses[label], plural))
                    return
        found.append(Phrase(start, head, first, head, UNMAPPED, UNMAPPED, False))


@dataclass(frozen=True, slots=True)
class _LabelTables:
    """Labels of a taxonomy by normal text and by stems, and the first words of labels with function words inside."""

    by_text: dict[str, int]
    by_stem: dict[str, int]
    bridged: dict[str, tuple[int, ...]]
    longest: dict[str, int]  # the most words of a label whose last stem this is: stems are dear, most are not needed

    @classmethod
    def of(cls, taxonomy: Taxonomy, wordnet: WordNet) -> _LabelTables:
        source = hashlib.sha256(f"{taxonomy.digest} {wordnet.source_digest}".encode()).hexdigest()
        path = cache_folder() / f"labels-{SCHEMA}-{source[:16]}.arrays"
        _, arrays = compiled_once(path, lambda: ({}, _compile(taxonomy, wordnet.noun_counts)))

        def table(name: str) -> dict[str, int]:
            texts = Strings(arrays[f"{name}.text"], arrays[f"{name}.offsets"]).to_list()
            return dict(zip(texts, arrays[name].tolist(), strict=True))

        lengths: dict[str, set[int]] = {}
        for text in table("bridged"):
            words = text.split(" ")
            lengths.setdefault(words[0], set()).add(len(words))
        bridged = {first: tuple(sorted(found, reverse=True)) for first, found in lengths.items()}
        return cls(table("by_text"), table("by_stem"), bridged, table("longest"))


def _compile(taxonomy: Taxonomy, counts: Mapping[str, int]) -> dict[str, Array]:
    """First senses win; of labels that come out alike the more frequent, then the shorter, then the first by name."""
    stem = stemmer()
    labels = taxonomy.label_texts.to_list()
    rank = sorted(range(len(labels)), key=lambda i: (-counts.get(labels[i].lower(), 0), len(labels[i]), labels[i]))
    by_text: dict[str, int] = {}
    by_stem: dict[str, int] = {}
    bridged: dict[str, int] = {}
    for number in rank:
        words = label_words(labels[number])
        if not words:
            continue
        text = " ".join(words)
        if not any(counts.get(one, 0) > PLURAL_WINS * counts.get(text, 0) for one in singulars(text)):
            by_text.setdefault(text, number)
        by_stem.setdefault(" ".join([stem(word) for word in words]), number)
        if len(words) > 2 and any(word in STOP_WORDS for word in words[1:-1]) and words[0] not in STOP_WORDS:
            bridged.setdefault(text, number)
    longest: dict[str, int] = {}
    for key in by_stem:
        stems = key.split(" ")
        longest[stems[-1]] = max(longest.get(stems[-1], 0), len(stems))
    arrays: dict[str, Array] = {}
    for name, table in (("by_text", by_text), ("by_stem", by_stem), ("bridged", bridged), ("longest", longest)):
        texts = Strings.of(table)
        arrays |= {f"{name}.text": texts.text, f"{name}.offsets": texts.offsets}
        arrays[name] = np.fromiter(table.values(), np.int32, len(table))
    return arrays


def label_words(label: str) -> list[str]:
    """A label as the words a query would have: lower case, no accents, no apostrophes, hyphens open."""
    return [word for word in map(word_of, Tagger.tokens(label)) if word]


def word_of(token: str) -> str:
    """A token as `label_words` has it, empty where it is no word."""
    word = normal_text(token)
    return word if word[:1].isalnum() else ""


def plural_of(label: str) -> str:
    """The regular English plural of a label's last word."""
    if label.endswith(("s", "x", "z", "ch", "sh")):
        return label + "es"
    if label.endswith("y") and label[-2:-1] not in "aeiou":
        return label[:-1] + "ies"
    return label + "s"


@lru_cache(maxsize=1)
def stemmer() -> Callable[[str], str]:
    """Porter's stemmer, which is slow, remembering its answers; it holds the word it works on, so one at a time."""
    import snowballstemmer

    stem, lock = snowballstemmer.stemmer("porter").stemWord, threading.Lock()

    def alone(word: str) -> str:
        with lock:
            stemmed: str = stem(word)
        return stemmed

    return lru_cache(maxsize=1 << 18)(alone)

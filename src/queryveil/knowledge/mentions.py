"""Whether a text mentions anything at or below given categories of WordNet, in whatever sense.

A filter for sensitive topics must not ask what a query is mostly about, as a classifier does: *cancer treatment* is
about treatment. So every word and every run of words of the text is looked up, all senses of it count, and a sense
counts that lies at or below a category by the tree of `categories.py` or by any of WordNet's hypernyms. Where in doubt
a text is flagged: *cancer* is also a genus of crabs, and blocking animals flags it.

Before that, invisible characters are taken away, letters are brought to one Unicode form, without case and accents, and
letters are parted from digits and marks (*cancer2024*). Words count by their stems (*cancers*), single letters in a row
as one word (*h.i.v.*), and words that WordNet does not know by the known words they are made of (*hivclinic*).

Not found: misspellings, other languages, letters of other scripts that look alike, names that WordNet lacks (of most
drugs, clinics and people), function words that are names as well (*who*, *or*) and single letters, words that are no
nouns (*pregnant*) unless a noun has their stem (*depressed*), and what is only implied.

Cost: a pass over the labels when it is made (half a second), then set lookups; give each distinct text once.

>>> from queryveil.knowledge.wordnet import WordNet
>>> mentions = Mentions(WordNetClassifier(WordNet.load()), [("state",)])
>>> mentions.in_texts(pl.Series(["cancer treatment", "canc\\u200ber2024", "tennis racket"])).to_list()
[True, True, False]
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

import polars as pl

from queryveil.knowledge.categories import Path, WordNetClassifier
from queryveil.knowledge.phrases import stemmer
from queryveil.knowledge.tagging import STOP_WORDS
from queryveil.log.identifying import visible

SHORTEST_PART = 3
"""Letters that a flagged word must have to be looked for inside a longer one."""
LONGEST_COMPOUND = 40
"""Longer runs of letters are not taken apart, so that a hostile text cannot cost much."""

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)*|\d+")


class Mentions:
    """Finds texts that mention what lies at or below categories."""

    def __init__(self, classifier: WordNetClassifier, categories: Iterable[Path]) -> None:
        self._classifier = classifier
        self._stem = stemmer()
        concerned = classifier.concepts_under([classifier.tree.find(path) for path in categories])
        self._texts: set[str] = set()
        self._stems: set[str] = set()
        self._starts: dict[str, set[int]] = {}  # by the first stem of longer labels, how many words they have
        for label in classifier.labels_of(concerned):
            words = words_of(label)
            if words:
                stems = [self._stem(word) for word in words]
                self._texts.add(" ".join(words))
                self._stems.add(" ".join(stems))
                if len(words) > 1:
                    self._starts.setdefault(stems[0], set()).add(len(words))
        self._word_counts = lru_cache(maxsize=1 << 18)(self._is_concerned)

    def in_texts(self, texts: pl.Series) -> pl.Series:
        """For each text whether it mentions something."""
        if not self._stems:
            return pl.repeat(False, len(texts), eager=True)
        seen = texts.to_frame("text").select(visible("text"))["text"]
        return pl.Series([self._in_words(words_of(text)) for text in seen], dtype=pl.Boolean)

    def _in_words(self, words: list[str]) -> bool:
        return any(map(self._word_counts, words)) or self._in_runs(words) or self._in_spelled(words)

    def _is_concerned(self, word: str) -> bool:
        if len(word) == 1 or word in STOP_WORDS:
            return False
        if word in self._texts or self._stem(word) in self._stems:
            return True
        if self._classifier.knows(word) or not SHORTEST_PART < len(word) <= LONGEST_COMPOUND:
            return False
        return any(
            word[start:stop] in self._texts
            and all(not rest or self._classifier.is_words(rest) for rest in (word[:start], word[stop:]))
            for start in range(len(word) - SHORTEST_PART + 1)
            for stop in range(start + SHORTEST_PART, len(word) + 1)
        )

    def _in_runs(self, words: Sequence[str]) -> bool:
        if len(words) < 2:
            return False
        stems = [self._stem(word) for word in words]
        return any(
            " ".join(stems[place : place + length]) in self._stems
            for place, stem in enumerate(stems)
            for length in self._starts.get(stem, ())
        )

    def _in_spelled(self, words: Sequence[str]) -> bool:
        """Single letters in a row, as in h.i.v. and c a n c e r."""
        return any(self._word_counts(word) for word in _spelled(words))


def words_of(text: str) -> list[str]:
    """The words and numbers of a text, apart from each other, in lower case without accents and apostrophes."""
    text = text.lower()
    if not text.isascii():
        text = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    words: list[str] = _WORD.findall(text)
    if "'" in text or "’" in text:
        words = [word.replace("’", "'").removesuffix("'s").replace("'", "") for word in words]
    return words


def _spelled(words: Sequence[str]) -> Iterator[str]:
    letters = ""
    for word in (*words, ""):
        if len(word) == 1:
            letters += word
        else:
            if len(letters) >= SHORTEST_PART:
                yield letters
            letters = ""

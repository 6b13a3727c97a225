"""FSH: queries of other words that bring up the same texts in a local corpus.

Fröbe, Schmidt and Hagen (2021), "Efficient Query Obfuscation with Keyqueries", with the settings of Faggioli and Ferro
(2024). The true query is asked at home, of a local corpus (TF-IDF); its ten best texts are the targets. Candidates are
all combinations of up to three words that stand within a window of 16 words of a target, after the query's words, their
synonyms, hypernyms and hyponyms are struck out. A candidate that finds too few texts is dropped (100 of 50,000 in the
paper, the same share of other corpora); the others are ranked by nDCG on the targets.

**No formal promise**: nothing is random, and who has the same corpus can ask which queries lead to these.

Where we differ: windows slide as in the text (the authors' program cuts the text into blocks and stops at two words).
nDCG is over all that is found, each target counts one. Of equal candidates the shorter one wins, then the first by
alphabet.

A candidate cannot do better than with all targets that hold one of its words on top. Candidates are tried in the order
of that bound, and the search stops when the bound falls below the n-th best: exact, and most are never tried.

Cost: O(words of the targets · 16²) candidates, of which a part is scored in compiled code.

>>> corpus = ["the heart pumps blood", "blood and arteries", "arteries of the heart", "ships at sea", "a ship sails"]
>>> FSH(corpus, targets=2, drop_up_to=1).obfuscations("heart", n=2)
['arteries', 'blood']
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import combinations
from pathlib import Path

import numpy as np

from queryveil.arrays import Floats, Ints, Longs
from queryveil.checks import require, whole_number
from queryveil.errors import DataError
from queryveil.knowledge.collections import read_corpus
from queryveil.knowledge.engines import LexicalEngine, content_words, terms
from queryveil.knowledge.phrases import stemmer
from queryveil.knowledge.relations import Relations

TARGETS, WINDOW, MOST_TERMS = 10, 16, 3
DROPPED_SHARE = 100 / 50_000
SCORED_AT_ONCE = 4096


class FSH:
    """Keyqueries of a local corpus: a list of texts, or a folder in BEIR's layout of which the texts are read."""

    def __init__(
        self,
        corpus: Sequence[str] | os.PathLike[str],
        relations: Relations | None = None,
        *,
        targets: int = TARGETS,
        window: int = WINDOW,
        drop_up_to: int | None = None,
    ) -> None:
        require(
            whole_number("targets", targets, at_least=1, at_most=60, suggest=TARGETS),
            whole_number("window", window, at_least=2, at_most=100, suggest=WINDOW),
            whole_number("drop_up_to", drop_up_to, at_least=0, suggest=100, optional=True),
        )
        if isinstance(corpus, (str, os.PathLike)):
            self._corpus, self._engine = _of_folder(str(Path(corpus).resolve()))
        else:
            self._corpus, self._engine = list(corpus), LexicalEngine.tfidf(corpus)
        self._relations = relations or Relations.load()
        self._targets, self._window = targets, window
        self.drop_up_to = round(DROPPED_SHARE * len(self._corpus)) if drop_up_to is None else drop_up_to
        """Candidates that find no more texts than this are dropped."""

    def obfuscations(self, query: str, n: int = 20) -> list[str]:
        """At most n queries that share no word, synonym, hypernym or hyponym with the true one, the best first."""
        require(whole_number("n", n, at_least=1, at_most=10_000, suggest=20))
        targets = self._engine.search([query], self._targets)[0]
        if not len(targets):
            raise DataError("the local corpus holds no word of the query. Give a corpus nearer to what you look for.")
        candidates = self._candidates(targets, self._struck_out(query))
        if not candidates:
            return []
        stems = stemmer()
        numbered = np.full((len(candidates), MOST_TERMS), -1, np.int32)
        for row, words in enumerate(candidates):
            numbered[row, : len(words)] = sorted(self._engine.numbers[stems(word)] for word in words)
        scores = self._scores(numbered, targets, n)
        best = np.argsort(-scores.round(12), kind="stable")[:n]
        return [" ".join(candidates[place]) for place in best if scores[place] > 0]

    def _struck_out(self, query: str) -> set[str]:
        """The stems of the query's words and of all words next to them in WordNet."""
        struck = set(terms(query))
        for word in content_words(query):
            senses = self._relations.senses(word)
            near = set(senses) | self._relations.hypernyms(senses) | self._relations.hyponyms(senses)
            for label in self._relations.words(near):
                struck.update(terms(label))
        return struck

    def _candidates(self, targets: Ints, struck: set[str]) -> list[tuple[str, ...]]:
        """All combinations of words within a window of a target, the shorter first, then by alphabet.

        Words with one stem are one word to the index: the first by alphabet stands for them.
        """
        stem = stemmer()
        spelled: dict[str, str] = {}
        texts = [[w for w in content_words(self._corpus[t]) if stem(w) not in struck] for t in targets.tolist()]
        for word in sorted({word for words in texts for word in words}):
            spelled.setdefault(stem(word), word)
        found: set[tuple[str, ...]] = set()
        for words in texts:
            found |= _combinations([spelled[stem(word)] for word in words], self._window)
        return sorted(found, key=lambda words: (len(words), words))

    def _scores(self, candidates: Ints, targets: Ints, n: int) -> Floats:
        """nDCG of the candidates on the targets; 0 for those that find too few or cannot be among the n best."""
        from queryveil.mechanisms.obfuscate._keyquery_kernel import score_candidates  # Numba: only who asks pays

        discounts = 1 / np.log2(np.arange(2, len(targets) + 2))
        bound = np.cumsum(discounts)[self._targets_with(candidates, targets) - 1]
        scores = np.zeros(len(candidates))
        order = np.argsort(-bound, kind="stable")
        scratch = np.zeros(len(self._engine)), np.empty(len(self._engine), np.int32)
        for start in range(0, len(order), SCORED_AT_ONCE):
            tried = order[start : start + SCORED_AT_ONCE]
            if start >= n and bound[tried[0]] < np.partition(scores, -n)[-n] - 1e-9:
                break
            postings = self._engine.postings
            scores[tried] = score_candidates(candidates[tried], *postings, targets, self.drop_up_to, *scratch)
        return np.asarray(scores / discounts.sum(), np.float64)

    def _targets_with(self, candidates: Ints, targets: Ints) -> Longs:
        """For each candidate how many targets hold one of its words."""
        offsets, texts, _ = self._engine.postings
        masks = np.zeros(len(offsets), np.uint64)  # the last serves "no word"
        for term in np.unique(candidates[candidates >= 0]).tolist():
            holders = np.isin(targets, texts[offsets[term] : offsets[term + 1]])
            masks[term] = sum(1 << place for place in np.flatnonzero(holders).tolist())
        together = masks[candidates[:, 0]] | masks[candidates[:, 1]] | masks[candidates[:, 2]]
        return np.asarray(np.bitwise_count(together), np.int64)


@lru_cache(maxsize=2)
def _of_folder(folder: str) -> tuple[list[str], LexicalEngine]:
    """The texts of a folder and their index, kept for the next query."""
    texts = list(read_corpus(folder).values())
    return texts, LexicalEngine.tfidf(texts)


def _combinations(words: Sequence[str], window: int) -> set[tuple[str, ...]]:
    """Sets of up to three different words that stand together within a window, each in alphabetical order."""
    found: set[tuple[str, ...]] = {(word,) for word in words}
    for place, word in enumerate(words):
        before: Iterable[str] = sorted(set(words[max(0, place - window + 1) : place]) - {word})
        for others in (*((one,) for one in before), *combinations(before, 2)):
            found.add(tuple(sorted((word, *others))))
    return found

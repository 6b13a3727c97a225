"""One query, tried: what would be sent instead, which concepts and categories it has, how well each word can be denied.

Runs in the server, because knowledge and word vectors stay loaded there; one query at a time, so that a busy slider
cannot fill the machine. Nothing of the query is kept.
"""

from __future__ import annotations

import threading
from functools import cache
from typing import Final

import numpy as np

from queryveil.knowledge.categories import WordNetClassifier
from queryveil.knowledge.phrases import UNMAPPED, PhraseMapper
from queryveil.knowledge.wordnet import WordNet
from queryveil.mechanisms.obfuscate.mechanism import Obfuscation, own_noise
from queryveil.mechanisms.obfuscate.reading import tokens_of
from queryveil.web.models import Trial, Tried, TriedWord

MOST_WORDS_DENIED: Final = 6
_one_at_a_time = threading.Lock()


def tried(wish: Trial) -> Tried:
    """Obfuscate a query and say what an observer could make of it."""
    mechanism = Obfuscation(mechanism=wish.mechanism, epsilon=wish.epsilon, n=wish.n)
    with _one_at_a_time:
        sent = mechanism.obfuscate(wish.query, wish.n, own_noise())
        words, how = _denied(mechanism, tokens_of(wish.query)[:MOST_WORDS_DENIED])
        classifier, mapper = _knowledge()
        concepts = [
            mapper.taxonomy.labels(phrase.concept)[0]
            for phrase in mapper.frame(wish.query).phrases
            if phrase.concept != UNMAPPED
        ]
        categories = [" › ".join(path) for path in classifier.classify([wish.query], at_most=3)[0]]
    return Tried(
        sent=sent,
        words=words,
        concepts=list(dict.fromkeys(concepts)),
        categories=categories,
        promise=mechanism.guarantee().headline(),
        how=how,
    )


def _denied(mechanism: Obfuscation, tokens: list[str]) -> tuple[list[TriedWord], str]:
    """For each word, how many words could as well be behind what is drawn for it."""
    numbers, noise = mechanism.vectors.numbers, own_noise()
    words, how = [], ""
    for token in tokens:
        number = numbers.get(token)
        if number is None:
            words.append(TriedWord(word=token, known=False, could_be=None))
            continue
        index = np.array([number], np.int64)
        drawn = mechanism.words.replace(np.tile(index, mechanism.n), mechanism.stream_of(index, noise))
        found = mechanism.words.deniability(number, drawn, mechanism.stream_of(index, noise))
        words.append(TriedWord(word=token, known=True, could_be=found.words))
        how = found.how
    return words, how


@cache
def _knowledge() -> tuple[WordNetClassifier, PhraseMapper]:
    wordnet = WordNet.load()
    return WordNetClassifier(wordnet), PhraseMapper.of_nouns(wordnet)

"""Try one query: what would be sent instead, which concepts and categories it has, how well each word can be denied.

Runs in the server, because knowledge and word vectors stay loaded there; one query at a time, so that a busy slider
cannot fill the machine. Nothing of the query is kept.
"""

from __future__ import annotations

import threading
from functools import cache
from typing import Final

from queryveil.errors import UsageError
from queryveil.knowledge.categories import WordNetClassifier
from queryveil.knowledge.phrases import UNMAPPED, PhraseMapper
from queryveil.knowledge.wordnet import WordNet
from queryveil.mechanisms.obfuscate import Obfuscate, answer, own_noise
from queryveil.mechanisms.obfuscate.words import tokens_of
from queryveil.web.models import TriedQuery, TriedWord, TryRequest

MOST_WORDS: Final = 12
_one_at_a_time = threading.Lock()


def try_query(wanted: TryRequest) -> TriedQuery:
    """Obfuscate one query, on this machine only, and say what an observer could make of it."""
    tokens = tokens_of(wanted.query)
    if len(tokens) > MOST_WORDS:
        raise UsageError(f"this page tries queries of at most {MOST_WORDS} words. Use fewer.")
    mechanism = Obfuscate(mechanism=wanted.mechanism, epsilon=wanted.epsilon, n=wanted.n)
    with _one_at_a_time:
        given = answer(mechanism, wanted.query, own_noise(), None)
        classifier, mapper = _knowledge()
        found = [phrase.concept for phrase in mapper.frame(wanted.query).phrases if phrase.concept != UNMAPPED]
        concepts = [mapper.taxonomy.labels(concept)[0] for concept in dict.fromkeys(found)]
        categories = [" › ".join(path) for path in classifier.classify([wanted.query], at_most=3)[0]]
    known = mechanism.vectors.numbers
    return TriedQuery(
        sent=given.queries,
        alerts=list(given.alerts),
        words=[
            TriedWord(word=token, known=token in known, could_be=count.words)
            for token, count in zip(tokens, given.deniability, strict=True)
        ],
        concepts=concepts,
        categories=categories,
        promise=given.guarantee.headline(),
        how=given.deniability[0].how,
    )


@cache
def _knowledge() -> tuple[WordNetClassifier, PhraseMapper]:
    wordnet = WordNet.load()
    return WordNetClassifier(wordnet), PhraseMapper.of_nouns(wordnet)

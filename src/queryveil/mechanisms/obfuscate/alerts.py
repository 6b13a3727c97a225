"""What a searcher should think about before a query is sent: names and numbers.

Obfuscation replaces a name by some other word, but a name or a number in several queries, or beside a rare word, still
points at a person. A word counts as a name where it is written with a capital behind the first word, or where WordNet
does not know it in any form: names, brands, misspellings. The messages never quote the query.

>>> alerts("flights to Paris for 2")
['a number was typed', 'a word may be a name']
>>> alerts("throat cancer")
[]
"""

from __future__ import annotations

from functools import lru_cache

import polars as pl

from queryveil.knowledge.tagging import STOP_WORDS, Tagger
from queryveil.knowledge.wordnet import WordNet
from queryveil.log.identifying import is_identifying
from queryveil.mechanisms.obfuscate.reading import TOKEN, tokens_of


def alerts(query: str) -> list[str]:
    """What was found, in words that tell nothing of the query."""
    found = []
    if pl.DataFrame({"query": [query]}).select(is_identifying("query")).item():
        found.append("an address, a long number or credentials were typed")
    if any(character.isdigit() for character in query):
        found.append("a number was typed")
    typed = TOKEN.findall(query)
    shouted = all(word.isupper() for word in typed)
    capital = any(word[0].isupper() for word in typed[1:]) and not shouted
    if capital or any(word.isalpha() and not _is_a_word(word) for word in tokens_of(query)):
        found.append("a word may be a name")
    return found


@lru_cache(maxsize=1)
def _tagger() -> tuple[Tagger, dict[str, tuple[int, int, int, int]]]:
    wordnet = WordNet.load()
    return Tagger(wordnet), wordnet.word_counts


def _is_a_word(word: str) -> bool:
    tagger, counts = _tagger()
    forms = [word, *tagger.singulars(word), *tagger.verb_bases(word)]
    return len(word) == 1 or word in STOP_WORDS or any(form in counts for form in forms)

"""Which part of speech each word of a short query is, from WordNet's own sense counts and a few rules.

Queries are short, in lower case and seldom sentences, so taggers trained on prose read them badly. Here a word's
reading comes from how often WordNet's tagged texts saw it as noun, verb, adjective or adverb, with a leaning to
nouns, because most queries are noun phrases; neighbours decide only where they are clear (`how to train`, `stores
offering the …`). Function words are a closed list. Words that WordNet does not know are taken for nouns: names,
brands, misspellings.

`spacy_tagger` puts a spaCy pipeline in the same place for those who have a model.

Cost: a dictionary lookup per word seen before; words seen first cost a few more.

>>> from queryveil.knowledge.wordnet import WordNet
>>> tagger = Tagger(WordNet.load())
>>> tokens = tagger.tokens("stores offering the new Apple phones")
>>> list(zip(tokens, tagger.tags(tokens)))
[('stores', 'N'), ('offering', 'V'), ('the', 'D'), ('new', 'J'), ('Apple', 'N'), ('phones', 'N')]
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from queryveil.knowledge.wordnet import WordNet

NOUN, VERB, ADJECTIVE, ADVERB, DETERMINER, NUMBER, FUNCTION, BREAK = "N", "V", "J", "R", "D", "C", "F", "B"


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


DETERMINERS = _words(
    "a an the this that these those my your his her its our their some any every each all both no another such"
)
AUXILIARIES = _words(
    "am is are was were be been being do does did done doing have has had having can could will would shall should may "
    "might must cannot cant dont doesnt didnt isnt arent wasnt wont couldnt shouldnt wouldnt"
)
FUNCTION_WORDS = AUXILIARIES | _words(
    "i me myself we us ourselves you yourself he him himself she hers herself it itself they them themselves who whom "
    "whose which what when where why how of at by for with about against between into through during before after "
    "above below to from up down in out on off over under again further then once here there and but or nor so if "
    "because as until while than too very just not only own same s t re ve ll d m vs via per without within toward "
    "towards upon onto across along around among behind beside besides beyond despite except inside near outside since "
    "throughout til till unlike whether either neither also ever never always yes ok please "
    "www http https com html htm php asp"
)
STOP_WORDS = DETERMINERS | FUNCTION_WORDS
BEFORE_A_VERB = _words(
    "i you we they he she can could will would shall should may might must do does did not lets dont"
)

BEFORE_A_NOUN = frozenset((NOUN, ADJECTIVE, DETERMINER, NUMBER))

AFTER_A_NOUN = frozenset(("of", "to", "for"))

OTHER_READING_WINS = 4
"""A verb or adjective reading must be this many times as frequent as the noun reading to win."""
FAIR_SHARE = 12
"""… and this many times, to stay a verb before a word that mostly follows nouns."""
LONGEST_WORD = 64
"""Longer runs of letters are no words; they are cut, so that a hostile query cannot cost much."""

TOP_LEVELS = "com|net|org|edu|gov|mil|info|biz|us|ca|uk|de|fr|es|it|tv|cc|ws"
TOKEN = re.compile(
    rf"(?:https?://)?(?:www\.)?(?:[\w-]{{1,63}}\.){{1,5}}(?:{TOP_LEVELS})\b(?:/\S*)?"  # an address
    r"|[^\W_]+(?:['’][^\W_]+)*"  # a word
    r"|[,;:!?|/()\"+&]",  # what separates phrases
    re.IGNORECASE,
)
ADDRESS = re.compile(rf"(?:https?://)?(?:www\.)?(?:[\w-]+\.)*?([\w-]+)(?:\.(?:co|ac|{TOP_LEVELS}))+(?:/.*)?")
SINGULAR_RULES = (("s", ""), ("ies", "y"), ("ches", "ch"), ("shes", "sh"), ("xes", "x"), ("zes", "z"), ("sses", "ss"),
                  ("ses", "s"), ("oes", "o"), ("ves", "f"), ("ves", "fe"), ("men", "man"))  # fmt: skip
VERB_RULES = (("ies", "y"), ("es", ""), ("es", "e"), ("s", ""), ("ied", "y"), ("ed", ""), ("ed", "e"), ("ing", ""),
              ("ing", "e"))  # fmt: skip
IRREGULAR_PLURALS = {
    "mice": "mouse", "lice": "louse", "geese": "goose", "feet": "foot", "teeth": "tooth", "children": "child",
    "leaves": "leaf", "oxen": "ox", "dice": "die", "pence": "penny", "criteria": "criterion", "phenomena": "phenomenon",
    "fungi": "fungus", "cacti": "cactus", "alumni": "alumnus", "vertebrae": "vertebra", "analyses": "analysis",
    "crises": "crisis", "diagnoses": "diagnosis", "theses": "thesis", "indices": "index", "matrices": "matrix",
}  # fmt: skip
"""The commonest ones, for sources without exception lists."""


class Word(NamedTuple):
    """What is known of a token by itself."""

    text: str  # lower case, without accents, apostrophes and the possessive 's; the bare name of a web address
    tag: str
    may_be_noun: bool
    verb_over_noun: bool
    may_be_verb: bool
    noun_share_is_fair: bool


def singulars(word: str) -> list[str]:
    """What a noun may be the plural of, by rule; whether such a word exists is for the caller to look up."""
    irregular = IRREGULAR_PLURALS.get(word)
    if irregular is not None:
        return [irregular]
    if len(word) < 4 or not word.endswith(("s", "men")) or word.endswith("ss"):
        return []
    return [word[: -len(ending)] + other for ending, other in SINGULAR_RULES if word.endswith(ending)]


TagFunction = Callable[[Sequence[str]], Sequence[str]]


class Tagger:
    """Splits a query into tokens and says what each one is."""

    def __init__(self, wordnet: WordNet, tag_function: TagFunction | None = None) -> None:
        self._counts = wordnet.word_counts
        self._irregular_nouns = wordnet.irregular_nouns
        self._irregular_verbs = wordnet.irregular_verbs
        self._tag_function = tag_function
        self.word = lru_cache(maxsize=1 << 18)(self._word)  # what distinct queries repeat are words

    tokens = staticmethod(TOKEN.findall)

    def singulars(self, word: str) -> list[str]:
        """`singulars`, with the source's own exceptions first."""
        irregular = self._irregular_nouns.get(word)
        if irregular is not None:
            return [irregular]
        return singulars(word)

    def verb_bases(self, word: str) -> list[str]:
        """What a verb may be a form of, by rule or by the source's exceptions."""
        irregular = self._irregular_verbs.get(word)
        if irregular is not None:
            return [irregular]
        bases = [word[: -len(ending)] + other for ending, other in VERB_RULES if word.endswith(ending)]
        doubled = [base[:-1] for base in bases if len(base) > 3 and base[-1] == base[-2]]  # stopped, running
        return bases + doubled

    def _word(self, token: str) -> Word:
        text = normal_text(token)
        if not text or not text[0].isalnum():
            return Word(text, BREAK, False, False, False, False)
        if text in DETERMINERS:
            return Word(text, DETERMINER, False, False, False, False)
        if text in FUNCTION_WORDS or (len(text) == 1 and text.isalpha() and text.isascii()):
            return Word(text, FUNCTION, False, False, False, False)
        if text[0].isdigit():
            return Word(text, NUMBER, False, False, False, False)
        noun, verb, adjective, adverb = self._counts.get(text, (0, 0, 0, 0))
        if not noun:
            noun = max((self._counts.get(base, (0,))[0] for base in self.singulars(text)), default=0)
        verb = max([verb, *(self._counts.get(base, (0, 0))[1] for base in self.verb_bases(text))])
        if not (noun or verb or adjective or adverb):
            return Word(text, NOUN, True, False, False, True)
        best = max(verb, adjective, adverb)
        if noun and best <= OTHER_READING_WINS * noun:
            tag = NOUN
        elif adjective == best or text.endswith("ed"):
            tag = ADJECTIVE
        elif adverb == best:
            tag = ADVERB
        else:
            tag = NOUN if noun and text.endswith("ing") else VERB
        return Word(text, tag, noun > 0, verb > noun, verb > 0, best <= FAIR_SHARE * noun)

    def tags(self, tokens: Sequence[str]) -> list[str]:
        """One tag per token."""
        return self.tags_of([self.word(token) for token in tokens], tokens)

    def tags_of(self, words: Sequence[Word], tokens: Sequence[str]) -> list[str]:
        """One tag per word; `tokens` are what the words were written as."""
        if self._tag_function is not None:
            return list(self._tag_function(tokens))
        tags = [word.tag for word in words]
        for place in range(1, len(words)):
            word, before = words[place], words[place - 1]
            if not word.may_be_verb:
                continue
            if tags[place] == VERB and word.may_be_noun and tags[place - 1] in BEFORE_A_NOUN:
                tags[place] = NOUN  # "honda accord", "the buy"
            how_to = before.text == "to" and (word.verb_over_noun or (place > 1 and words[place - 2].text == "how"))
            if how_to or (before.text in BEFORE_A_VERB and word.verb_over_noun):
                tags[place] = VERB
        for place in range(len(words) - 1):
            word = words[place]
            if word.may_be_verb and tags[place + 1] == DETERMINER and word.text.endswith("ing"):
                tags[place] = VERB
            elif tags[place] == VERB and word.noun_share_is_fair and words[place + 1].text in AFTER_A_NOUN:
                tags[place] = NOUN  # "guide to", "help for"
        if NOUN not in tags:  # "play", "free": somebody who types one word names something
            for place in reversed(range(len(words))):
                if words[place].may_be_noun:
                    tags[place] = NOUN
                    break
        return tags


def normal_text(token: str) -> str:
    """A token in lower case, without accents, apostrophes and possessive; a web address as its bare name."""
    text = token.lower()
    if "." in text:
        address = ADDRESS.fullmatch(text)
        text = address.group(1).replace("-", "") if address else text
    if not text.isascii():
        text = text.replace("’", "'")
        text = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    if "'" in text:
        text = text.removesuffix("'s").replace("'", "")
    return text[:LONGEST_WORD]


def spacy_tagger(pipeline: Any) -> TagFunction:
    """Use a loaded spaCy pipeline, e.g. `spacy.load("en_core_web_sm")`, in place of the built-in rules."""
    meaning = {
        "NOUN": NOUN, "PROPN": NOUN, "X": NOUN, "ADJ": ADJECTIVE, "VERB": VERB, "ADV": ADVERB, "DET": DETERMINER,
        "NUM": NUMBER, "PUNCT": BREAK, "SYM": BREAK,
    }  # fmt: skip

    def tags(tokens: Sequence[str]) -> list[str]:
        from spacy.tokens import Doc  # type: ignore[import-not-found,unused-ignore]

        document = Doc(pipeline.vocab, words=list(tokens))
        for _, component in pipeline.pipeline:
            document = component(document)
        return [meaning.get(token.pos_, FUNCTION) for token in document]

    return tags

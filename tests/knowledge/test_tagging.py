"""Parts of speech of query words: what the counts say, what neighbours change, and spaCy in the same place."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from queryveil.knowledge.phrases import PhraseMapper
from queryveil.knowledge.tagging import STOP_WORDS, Tagger, normal_text, singulars, spacy_tagger
from queryveil.knowledge.wordnet import WordNet


@pytest.fixture(scope="module")
def tagger(wordnet: WordNet) -> Tagger:
    return Tagger(wordnet)


@pytest.mark.parametrize(
    ("query", "tags"),
    [
        ("stores offering the new Apple phones", "NVDJNN"),
        ("how to train a puppy", "FFVDN"),
        ("train schedule", "NN"),
        ("wedding dress", "NN"),  # not a verb form
        ("buy shoes", "VN"),
        ("honda accord", "NN"),  # a name before it makes it a noun
        ("guide to house plants", "NFNN"),
        ("beautiful", "J"),
        ("free", "N"),  # the only word there is
        ("pizza, beer", "NBN"),
        ("2006 olympics", "CN"),
        ("the best of them", "DNFF"),
    ],
)
def test_tags(tagger: Tagger, query: str, tags: str) -> None:
    assert "".join(tagger.tags(tagger.tokens(query))) == tags


@pytest.mark.parametrize(
    ("token", "text"),
    [
        ("WWW.Google.COM", "google"),
        ("http://www.best-buy.com/shop?x=1", "bestbuy"),
        ("maps.yahoo.com", "yahoo"),
        ("bbc.co.uk", "bbc"),
        ("Women's", "women"),
        ("women’s", "women"),
        ("don't", "dont"),
        ("Café", "cafe"),
        ("naïve", "naive"),
        ("москва", "москва"),
    ],
)
def test_tokens_are_brought_to_one_form(token: str, text: str) -> None:
    assert Tagger.tokens(token) == [token]
    assert normal_text(token) == text


def test_singulars_are_guesses_by_rule() -> None:
    assert "puppy" in singulars("puppies")
    assert "cookie" in singulars("cookies")
    assert singulars("mice") == ["mouse"]
    assert "fireman" in singulars("firemen")
    assert "knife" in singulars("knives")
    assert singulars("glass") == []
    assert singulars("dog") == []


def test_irregular_forms_of_the_source_come_first() -> None:
    source = SimpleNamespace(
        word_counts={"brother": (9, 0, 0, 0)}, irregular_nouns={"brethren": "brother"}, irregular_verbs={}
    )
    tagger = Tagger(source)  # type: ignore[arg-type]
    assert tagger.singulars("brethren") == ["brother"]
    assert tagger.word("brethren").tag == "N"


def test_stop_words_hold_no_common_nouns() -> None:
    assert not STOP_WORDS & {"dog", "house", "time", "people", "music", "will smith"}
    assert {"the", "of", "what", "www"} <= STOP_WORDS


def test_spacy_takes_the_place_of_the_rules(wordnet: WordNet, monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in with spaCy's interface: a Doc made from words, components that set pos_."""

    class Doc(list):  # type: ignore[type-arg]
        def __init__(self, vocab: object, words: list[str]) -> None:
            super().__init__(SimpleNamespace(text=word, pos_="") for word in words)

    def component(document: Doc) -> Doc:
        kinds = {"dogs": "NOUN", "bark": "VERB", "!": "PUNCT", "loud": "ADJ", "two": "NUM", "the": "DET", "in": "ADP"}
        for token in document:
            token.pos_ = kinds.get(token.text, "PROPN")
        return document

    tokens = ModuleType("spacy.tokens")
    tokens.Doc = Doc  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "spacy", ModuleType("spacy"))
    monkeypatch.setitem(sys.modules, "spacy.tokens", tokens)
    tag = spacy_tagger(SimpleNamespace(vocab=None, pipeline=[("tagger", component)]))
    assert tag(["the", "two", "loud", "dogs", "bark", "in", "Rome", "!"]) == list("DCJNVFNB")
    mapper = PhraseMapper(wordnet.nouns, wordnet, tag_function=tag)
    assert [wordnet.nouns.keys[c] for c in mapper.concepts(["the two loud dogs bark in Rome !"])[0]] == [
        "dog.n.01",
        "rome.n.01",
    ]

"""Mentions: any word, any run of words, any sense; in disguise too. The slow twin looks every sense up by hand."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from properties import examples
from queryveil.knowledge.categories import WordNetClassifier
from queryveil.knowledge.mentions import Mentions, words_of
from queryveil.knowledge.wordnet import WordNet


@pytest.fixture(scope="module")
def classifier(wordnet: WordNet) -> WordNetClassifier:
    return WordNetClassifier(wordnet)


@pytest.fixture(scope="module")
def states(classifier: WordNetClassifier) -> Mentions:
    return Mentions(classifier, [("state",)])


def flagged(mentions: Mentions, *texts: str) -> list[bool]:
    return mentions.in_texts(pl.Series(texts)).to_list()


@pytest.mark.parametrize(
    "text",
    [
        "cancer",
        "cancer treatment",
        "how to live with cancer",
        "breast cancer hospital",
        "hiv clinic",
        "depression medication",
        "diabetes diet",
        "alcoholism hotline",
        "cancers",
        "CANCER",
        "canc\u200ber",
        "can\u00adcer",
        "ｃａｎｃｅｒ",
        "cáncer",
        "cancer2024",
        "2024cancer",
        "cancer_treatment",
        "www.cancer.org/treatment",
        "https://example.org/cancer/treatment",
        "breastcancer",
        "hivclinic.com",
        "h.i.v. test",
        "c a n c e r",
        "Alzheimer's help",
        "alzheimers",
        "word " * 100 + "cancer",
    ],
)
def test_a_sensitive_word_is_found_wherever_and_however_it_stands(states, text):
    assert flagged(states, text) == [True]


@pytest.mark.parametrize("text", ["tennis racket", "xqzzt", "new york hotels", "guitar", "", "2024", "?!", "who or us"])
def test_what_names_no_such_thing_is_not_flagged(states, text):
    assert flagged(states, text) == [False]


def test_any_sense_counts_not_the_likeliest_alone(classifier):
    assert flagged(Mentions(classifier, [("animal",)]), "cancer", "lung cancer", "tennis") == [True, True, False]


def test_a_run_of_words_counts_where_none_of_them_does_alone(classifier):
    spiders = Mentions(classifier, [("animal", "invertebrate", "arthropod", "arachnid", "spider")])
    assert (
        flagged(spiders, "black widow", "Black Widows bite", "widow", "black", "widow black")
        == [True, True] + [False] * 3
    )


def test_what_lies_below_by_another_hypernym_than_the_tree_s_counts(classifier, wordnet):
    nouns = wordnet.nouns
    under = classifier.concepts_under([classifier.tree.find(("animal",))])
    children = [c for c in range(len(nouns)) if any(under[parent] for parent in nouns.parents[c])]
    by_tree_alone = [c for c in children if classifier.tree.path(classifier._category_of[c])[:1] == ("animal",)]
    assert len(children) > len(by_tree_alone) > 0
    assert under[children].all()


def test_nothing_named_flags_nothing(classifier):
    assert flagged(Mentions(classifier, []), "cancer", "tennis") == [False, False]


@settings(max_examples=examples(200), deadline=None)
@given(st.data())
def test_every_label_of_every_sense_below_is_found_amid_other_words(classifier, wordnet, states, data):
    nouns = wordnet.nouns
    concept = data.draw(st.integers(0, len(nouns) - 1))
    label = data.draw(st.sampled_from(nouns.labels(concept)))
    by_hand = any(
        classifier.tree.path(category)[:1] == ("state",)
        for category in (classifier._category_of[sense] for sense in nouns.senses_of(label).tolist())
        if category >= 0
    )
    words = words_of(label)
    if by_hand and any(len(word) > 1 for word in words):
        text = " ".join([*data.draw(st.lists(st.sampled_from(["guitar", "xqzzt", "7"]))), label.upper(), "zzyq"])
        assert flagged(states, text) == [True]

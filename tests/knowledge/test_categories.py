"""Categories: the WordNet tree's shape, ranking, determinism, truncation against a slow twin, speed on real queries."""

from __future__ import annotations

import gzip

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from properties import examples
from queryveil.knowledge.categories import NO_CATEGORY, CategoryTree, WordNetClassifier
from queryveil.knowledge.phrases import PhraseMapper
from queryveil.knowledge.wordnet import NOUN_FILES, WordNet
from sample_data import SampleData

PATHS = st.lists(st.lists(st.sampled_from(["a", "b", "c/d", "é"]), max_size=4).map(tuple), max_size=12)


@pytest.fixture(scope="module")
def classifier(wordnet: WordNet) -> WordNetClassifier:
    return WordNetClassifier(wordnet)


@pytest.fixture(scope="module")
def real_queries(shared_data: SampleData) -> list[str]:
    with gzip.open(shared_data / "aol" / "aol-1017-users.tsv.gz", "rt", encoding="utf-8") as file:
        next(file)
        return sorted({line.split("\t")[1] for line in file})


def test_the_top_level_is_the_25_noun_files(classifier: WordNetClassifier) -> None:
    tree = classifier.tree
    tops = {tree.names[category] for category in np.flatnonzero(tree.parents == NO_CATEGORY)}
    assert tops == set(NOUN_FILES) - {"tops"}
    assert len(tops) == 25
    assert tree.depths.max() == 13


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("dog food", ("food", "feed", "petfood", "dog food")),
        ("animal", ("animal",)),
        ("pizza", ("food", "nutriment", "dish", "pizza")),
        ("space", ("attribute", "space")),
        ("to do list of the day", ("communication", "message", "information", "database", "list")),
    ],
)
def test_queries_have_their_place(classifier: WordNetClassifier, query: str, path: tuple[str, ...]) -> None:
    assert classifier.classify([query], at_most=1) == [[path]]


def test_what_means_nothing_or_everything_has_no_category(classifier: WordNetClassifier) -> None:
    assert classifier.classify(["xqzzt", "", "123", "entity", "🍕"]) == [[], [], [], [], []]
    assert classifier.best(["xqzzt", "dog"]).tolist() == [
        NO_CATEGORY,
        classifier.tree.find(classifier.classify(["dog"])[0][0]),
    ]


def test_longer_labels_rank_first_then_earlier_phrases_then_senses(classifier: WordNetClassifier) -> None:
    paths = classifier.classify(["hotel in new york"], at_most=3)[0]
    assert [path[-1] for path in paths[:2]] == ["New York", "hotel"]
    assert paths[2][-1] == "New York"  # the state, second sense of the longer label
    assert classifier.classify(["hotel in new york"], at_most=1)[0] == paths[:1]


def test_any_word_counts_where_no_phrase_is_known(classifier: WordNetClassifier, wordnet: WordNet) -> None:
    assert PhraseMapper.of_nouns(wordnet).concepts(["hotel xqzzt"])[0].tolist() == [-1]
    assert classifier.classify(["hotel xqzzt"], at_most=1)[0][0][-1] == "hotel"


@pytest.mark.parametrize(
    ("query", "last"),
    [("homedepot.com", "terminal"), ("cheaptickets", "ticket"), ("thehomedepot", "terminal"), ("mapquest", "MapQuest")],
)
def test_words_written_as_one_count_by_the_last(classifier: WordNetClassifier, query: str, last: str) -> None:
    assert classifier.classify([query], at_most=1)[0][0][-1] == last


def test_a_rest_that_is_no_word_is_not_cut_off(classifier: WordNetClassifier) -> None:
    assert classifier.classify(["craigslist", "xqzztdepot", "the" * 20 + "q"]) == [[], [], []]


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.text(max_size=30), max_size=5), st.integers(1, 6))
def test_categories_are_distinct_deterministic_and_prefixes_of_longer_lists(
    classifier: WordNetClassifier, queries: list[str], at_most: int
) -> None:
    found = classifier.categories(queries, at_most)
    more = classifier.categories(queries[::-1], at_most + 1)
    for place in range(len(queries)):
        ranked = found[place].tolist()
        assert len(set(ranked)) == len(ranked) <= at_most
        assert more[len(queries) - 1 - place].tolist()[:at_most] == ranked
        assert classifier.best(queries)[place] == (ranked[0] if ranked else NO_CATEGORY)


@settings(max_examples=examples(200))
@given(PATHS, st.integers(1, 5))
def test_truncation_equals_cutting_the_path(paths: list[tuple[str, ...]], depth: int) -> None:
    tree, categories = CategoryTree.of(paths)
    assert [tree.path(category) for category in categories] == paths
    assert [tree.find(path) for path in paths] == categories
    assert [int(tree.depths[category]) for category in categories if category >= 0] == [len(p) for p in paths if p]
    cut = tree.truncate(np.array(categories, np.int32), depth)
    assert [tree.path(int(category)) for category in cut] == [path[:depth] for path in paths]
    assert (tree.parents < np.arange(len(tree))).all()


def test_an_unknown_path_is_not_found(classifier: WordNetClassifier) -> None:
    assert classifier.tree.find(("food", "no such thing", "pizza")) == NO_CATEGORY


@pytest.mark.data
def test_most_real_queries_are_mapped_and_classified(
    classifier: WordNetClassifier, real_queries: list[str], wordnet: WordNet
) -> None:
    concepts = PhraseMapper.of_nouns(wordnet).concepts(real_queries)
    mapped = np.bincount(concepts.owners()[concepts.values >= 0], minlength=len(real_queries)) > 0
    assert mapped.mean() == pytest.approx(0.78, abs=0.02)
    assert (classifier.best(real_queries) >= 0).mean() == pytest.approx(0.88, abs=0.02)

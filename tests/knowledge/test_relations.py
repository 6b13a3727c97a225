"""Synonyms, hypernyms, holonyms and Wu-Palmer similarity, by hand on a small WordNet and by oracle on the real one."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from properties import examples
from queryveil.knowledge.relations import NOUN, Relations
from queryveil.knowledge.wordnet import WordNet
from small_wordnet import small_relations


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    return small_relations(tmp_path_factory.mktemp("wordnet"))


def test_a_word_shares_its_senses_with_its_synonyms(small):
    assert small.synonyms("cat") == {"cat", "true cat"}
    assert small.synonyms("unicorn") == set()


def test_an_inflected_word_is_looked_up_by_its_base_form(small):
    assert small.senses("cats") == small.senses("cat")
    assert small.words(small.senses("running")) == {"run"}


def test_hypernyms_hyponyms_and_holonyms_are_one_step_away(small):
    cat = small.senses("cat")
    assert small.words(small.hypernyms(cat)) == {"animal"}
    assert small.words(small.holonyms(cat)) == {"pack", "team"}
    assert small.words(small.hyponyms(small.senses("animal"))) == {"bird", "cat", "true cat"}


def test_the_root_that_stands_above_all_verbs_is_nobodys_hypernym(small):
    assert small.words(small.hypernyms(small.senses("run"))) == {"move"}
    assert small.hypernyms(small.senses("move")) == set()


@pytest.mark.parametrize(
    ("one", "other", "similarity"),
    [
        ("cat", "true cat", 1.0),
        ("cat", "bird", 2 * 2 / (1 + 1 + 4)),  # they meet at animal, two concepts deep
        ("cat", "robin", 2 * 2 / (1 + 2 + 4)),
        ("cat", "animal", 2 * 2 / (1 + 0 + 4)),
        ("cat", "team", 2 * 1 / (2 + 2 + 2)),  # they meet at entity
        ("run", "move", 2 * 2 / (1 + 0 + 4)),
        ("cat", "run", 0.0),
        ("cat", "unicorn", 0.0),
    ],
)
def test_similarity_is_wu_and_palmers(small, one, other, similarity):
    assert small.similarity(one, other) == pytest.approx(similarity)
    assert small.similarity(other, one) == pytest.approx(similarity)


def steps_up(taxonomy, concept):
    """Fewest steps to each subsumer, by trying all paths."""
    best = {concept: 0}
    for parent in taxonomy.parents[concept].tolist():
        for above, steps in steps_up(taxonomy, parent).items():
            best[above] = min(best.get(above, 10**6), steps + 1)
    return best


@settings(max_examples=examples(60), deadline=None)
@given(st.integers(0, 82_114), st.integers(0, 82_114))
def test_similarity_of_nouns_agrees_with_all_paths_tried(one, other):
    relations = Relations.load()
    nouns = WordNet.load().nouns
    mine, theirs = steps_up(nouns, one), steps_up(nouns, other)
    expected = max(
        2 * (depth + 1) / (mine[c] + theirs[c] + 2 * (depth + 1))
        for c in mine.keys() & theirs.keys()
        for depth in [steps_up(nouns, c)[0]]
    )
    assert relations.concept_similarity((NOUN, one), (NOUN, other)) == pytest.approx(expected)


def test_similarity_lies_between_0_and_1_and_is_1_for_the_word_itself():
    relations = Relations.load()
    words = ["throat", "cancer", "neck", "tumour", "football"]
    for one, other in product(words, words):
        assert 0 < relations.similarity(one, other) <= 1
        assert (relations.similarity(one, other) == 1) == (one == other)
    assert relations.similarity("cancer", "tumour") > relations.similarity("cancer", "football")

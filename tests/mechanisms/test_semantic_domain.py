"""Domains: what a name means, classes against a dictionary oracle, outside, topics, groups that nothing tells apart."""

import tomllib
from importlib import resources

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from properties import examples
from queryveil.errors import ParameterError
from queryveil.knowledge.taxonomy import Taxonomy
from queryveil.knowledge.wordnet import WordNet
from queryveil.mechanisms.semantic.domain import Domain, topic_names
from queryveil.mechanisms.semantic.law import class_row_of
from semantic_oracle import TOPIC, TOY, built, parent_lists, place, similarity, toy_domain


@pytest.fixture(scope="module")
def nouns() -> Taxonomy:
    return WordNet.load().nouns


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(parent_lists(), min_size=1, max_size=3), st.booleans(), st.integers(0, 5))
def test_classes_say_similarity_part_and_topic_of_every_pair(forest, outside, seed):
    topics = np.random.default_rng(seed).integers(-1, 2, sum(map(len, forest))).astype(np.int32)
    domain = Domain.of([built(parents) for parents in forest], outside=outside, topics=topics)
    least = min(similarity(parents, a, b) for parents in forest for a in parents for b in parents)
    assert domain.minimum_similarity == pytest.approx(least, abs=1e-12)
    part_of = domain.arrays.part_of
    for one in range(len(domain)):
        row = class_row_of(domain, one)
        for other in range(len(domain)):
            kind = row[other]
            assert domain.class_is_same_topic[kind] == (domain.topic_of[one] == domain.topic_of[other])
            assert domain.class_is_same_part[kind] == (part_of[one] == part_of[other])
            assert (kind == domain.same_class) == (one == other)
            if one == other == domain.outside:
                expected = 1.0
            elif part_of[one] == part_of[other]:
                expected = similarity(forest[part_of[one]], domain.name_of(one), domain.name_of(other))
            else:
                expected = least
            assert domain.class_similarity[kind] == pytest.approx(expected, abs=1e-12)


@settings(max_examples=examples(60), deadline=None)
@given(parent_lists(), st.booleans(), st.integers(0, 5))
def test_members_of_a_group_are_alike_to_everything_else(parents, outside, seed):
    topics = np.random.default_rng(seed).integers(0, 2, len(parents)).astype(np.int32)
    domain = Domain.of([built(parents)], outside=outside, topics=topics)
    assert sorted(domain.groups.values.tolist()) == list(range(len(domain)))
    for group in range(len(domain.groups)):
        members = domain.groups[group].tolist()
        rows = [np.delete(class_row_of(domain, member), members) for member in members]
        assert all((row == rows[0]).all() for row in rows)


def test_outside_is_least_similar_to_all_but_itself():
    domain = toy_domain(outside=True)
    values = domain.class_similarity[class_row_of(domain, domain.outside)]
    assert values[domain.outside] == 1.0
    assert np.delete(values, domain.outside) == pytest.approx([0.15200309344504992] * 6)


def test_a_far_concept_in_the_taxonomy_changes_the_least_similarity():
    parents = {**TOY, "deep": ["tennis"]}
    assert Domain.of([built(parents)], outside=False).minimum_similarity < toy_domain().minimum_similarity


def test_topics_of_the_toy_are_those_of_the_specification():
    domain = toy_domain(topics=True)
    for one in TOY:
        for other in TOY:
            same = domain.topic_of[place(domain, one)] == domain.topic_of[place(domain, other)]
            assert same == (TOPIC[one] == TOPIC[other])


def test_the_frozen_topics_are_the_wordnet_concepts_of_the_specification(nouns):
    wordnet = WordNet.load()
    listed = tomllib.loads(
        resources.files("queryveil.mechanisms.semantic").joinpath("topics.toml").read_text(encoding="utf-8")
    )
    for topic in listed["four"] + listed["nineteen"]:
        concept = nouns.concept(topic["name"])
        assert wordnet.offsets[concept] == topic["offset"]
        assert len(nouns.descendants(concept)) == topic["concepts"]
    assert [topic["concepts"] for topic in listed["four"]] == [606, 435, 177, 255]
    assert len(listed["nineteen"]) == 19
    below = np.unique(np.concatenate([nouns.descendants(nouns.concept(t["name"])) for t in listed["nineteen"]]))
    assert len(below) == 1159


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("disease", [606]),
        ("disease.n.01", [606]),
        ("abstraction.n.06", [39_914]),
        ("disease,science.n.01,sport,social_event", [39_914]),
        ("disease|sport", [606, 177]),
        ("four", [606, 435, 177, 255]),
        ("all", [82_115]),
    ],
)
def test_a_name_means_the_domain_it_should(nouns, name, sizes):
    domain = Domain.named(nouns, name, outside=True)
    assert [len(part) for part in domain.parts] == sizes
    assert len(domain) == sum(sizes) + 1


def test_minimum_similarities_of_the_four_roots_are_those_of_the_specification(nouns):
    least = Domain.named(nouns, "four", outside=False).part_minimum_similarities
    assert least == pytest.approx(
        [0.04890960048094639, 0.045803689613124754, 0.061400544664143464, 0.06711419585853695], abs=1e-12
    )


def test_a_concept_under_several_topics_belongs_to_the_first(nouns):
    domain = Domain.named(nouns, "nineteen", outside=False)
    assert len(domain) == 1159
    places = domain.places(len(nouns))
    roots = [nouns.concept(name) for name in topic_names("nineteen")]
    expected = nouns.topics(roots)
    inside = places >= 0
    assert (domain.arrays.part_of[places[inside]] == expected[inside]).all()
    assert (expected[~inside] == -1).all()


@pytest.mark.parametrize("name", ["no such thing", "disease|no such thing", "disease,", "", "|"])
def test_an_unknown_root_is_told(nouns, name):
    with pytest.raises(ParameterError, match="no concept is called"):
        Domain.named(nouns, name, outside=True)


def test_a_domain_of_one_concept_is_refused(nouns):
    leaf = next(c for c in range(len(nouns)) if len(nouns.descendants(c)) == 1)
    with pytest.raises(ParameterError, match="at least two concepts"):
        Domain.named(nouns, nouns.keys[leaf], outside=True)


def test_topics_that_hold_nothing_of_the_domain_are_refused(nouns):
    with pytest.raises(ParameterError, match="topics must hold concepts"):
        Domain.named(nouns, "disease", outside=True, topics="sport")


def test_labels_are_public_words_and_outside_has_one(nouns):
    domain = Domain.named(nouns, "disease|sport", outside=True)
    labels = domain.main_labels
    assert len(labels) == len(domain)
    assert labels[-1] == "other"
    assert all(labels[c] == domain.labels(c)[0] for c in range(0, len(domain), 17))

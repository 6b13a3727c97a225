"""Taxonomies: the toy of the specification exactly, random graphs against a dictionary oracle."""

from __future__ import annotations

from fractions import Fraction
from math import log2

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from properties import examples
from queryveil.errors import KnowledgeError
from queryveil.knowledge.taxonomy import Taxonomy, similarity_of_counts
from vectors.semantic import LEAST_SIMILARITY, SIMILARITY


@st.composite
def rooted_graphs(draw: st.DrawFn) -> list[list[int]]:
    size = draw(st.integers(1, 40))
    return [[]] + [
        draw(st.lists(st.integers(0, node - 1), min_size=1, max_size=3, unique=True)) for node in range(1, size)
    ]


def built(parents: list[list[int]], shuffle: int = 0) -> Taxonomy:
    """The graph, handed over in an order that is not topological."""
    order = np.random.default_rng(shuffle).permutation(len(parents)).tolist()
    place = {old: new for new, old in enumerate(order)}
    return Taxonomy.build(
        [str(old) for old in order], [[place[p] for p in parents[old]] for old in order], [[f"w{old}"] for old in order]
    )


def oracle_subsumers(parents: list[list[int]]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for node, above in enumerate(parents):
        found[str(node)] = {str(node)}.union(*(found[str(parent)] for parent in above))
    return found


def oracle_similarity(one: set[str], other: set[str]) -> float:
    ratio = Fraction(len(one | other) - len(one & other), len(one | other))
    return 1 - log2(1 + ratio)


def test_similarities_of_the_toy_are_those_of_the_papers_equation(toy: Taxonomy) -> None:
    for one, row in SIMILARITY.items():
        for other, value in row.items():
            assert toy.similarity(toy.concept(one), toy.concept(other)) == pytest.approx(value, abs=1e-12)
            assert toy.similarity_to_all(toy.concept(one))[toy.concept(other)] == pytest.approx(value, abs=1e-12)
    assert toy.minimum_similarity() == pytest.approx(LEAST_SIMILARITY, abs=1e-12)


def test_a_domain_forgets_what_is_above_it(toy: Taxonomy) -> None:
    diseases = toy.minimum_taxonomy([toy.concept("flu"), toy.concept("asthma")])
    assert sorted(diseases.keys) == ["H", "asthma", "flu"]
    assert diseases.minimum_similarity() == pytest.approx(0.2630344058337938, abs=1e-12)
    assert [toy.keys[c] for c in diseases.origin] == diseases.keys.to_list()


def test_counting_subsumers_without_the_concept_itself_would_merge_flu_and_asthma(toy: Taxonomy) -> None:
    flu, asthma = toy.concept("flu"), toy.concept("asthma")
    above = [set(toy.subsumers(c).tolist()) - {c} for c in (flu, asthma)]
    assert above[0] == above[1]
    assert toy.similarity(flu, asthma) < 1


def test_topics_take_the_first_root_in_the_given_order(toy: Taxonomy) -> None:
    topics = toy.topics([toy.concept("H"), toy.concept("R"), toy.concept("flu")])
    assert {toy.keys[c]: int(t) for c, t in enumerate(topics)} == {
        "R": 1, "H": 0, "flu": 0, "asthma": 0, "S": 1, "tennis": 1,
    }  # fmt: skip
    assert toy.topics([toy.concept("S")])[toy.concept("flu")] == -1


@settings(max_examples=examples(150), deadline=None)
@given(rooted_graphs(), st.integers(0, 5))
def test_similarity_to_all_equals_the_oracle_on_any_graph(parents: list[list[int]], shuffle: int) -> None:
    taxonomy, subsumers = built(parents, shuffle), oracle_subsumers(parents)
    keys = taxonomy.keys.to_list()
    least = 1.0
    for concept, key in enumerate(keys):
        expected = [oracle_similarity(subsumers[key], subsumers[other]) for other in keys]
        assert taxonomy.similarity_to_all(concept).tolist() == pytest.approx(expected, abs=1e-12)
        assert taxonomy.shared_subsumers(concept).tolist() == [len(subsumers[key] & subsumers[o]) for o in keys]
        assert {keys[c] for c in taxonomy.subsumers(concept)} == subsumers[key]
        assert {keys[c] for c in taxonomy.descendants(concept)} == {o for o in keys if key in subsumers[o]}
        least = min(least, *expected)
    assert taxonomy.minimum_similarity() == pytest.approx(least, abs=1e-12)


@settings(max_examples=examples(100), deadline=None)
@given(rooted_graphs(), st.data())
def test_minimum_taxonomy_equals_the_oracle_on_any_graph(parents: list[list[int]], data: st.DataObject) -> None:
    taxonomy, subsumers = built(parents), oracle_subsumers(parents)
    chosen = data.draw(st.lists(st.integers(0, len(parents) - 1), min_size=1, max_size=4))
    cut = taxonomy.minimum_taxonomy(chosen)
    common = set.intersection(*(subsumers[taxonomy.keys[c]] for c in chosen))
    below = {top: {key for key in subsumers if top in subsumers[key]} for top in common}
    assert len(cut) == min(len(members) for members in below.values())
    assert set(cut.keys) == below[cut.keys[0]]
    for concept, key in enumerate(cut.keys):
        inside = subsumers[key] & below[cut.keys[0]]
        assert {cut.keys[c] for c in cut.subsumers(concept)} == inside
        assert cut.labels(concept) == [f"w{key}"]
        assert cut.concept(f"w{key}") == concept


@settings(max_examples=examples(60), deadline=None)
@given(rooted_graphs())
def test_concepts_of_one_group_cannot_be_told_apart_by_a_third(parents: list[list[int]]) -> None:
    taxonomy = built(parents)
    groups = taxonomy.interchangeable()
    for one in range(len(taxonomy)):
        for other in np.flatnonzero(groups == groups[one]):
            first, second = taxonomy.similarity_to_all(one), taxonomy.similarity_to_all(int(other))
            third = np.setdiff1d(np.arange(len(taxonomy)), [one, other])
            assert (first[third] == second[third]).all()


@settings(max_examples=examples(60), deadline=None)
@given(rooted_graphs())
def test_arrays_hold_the_whole_taxonomy(parents: list[list[int]]) -> None:
    taxonomy = built(parents)
    again = Taxonomy.from_arrays(taxonomy.to_arrays())
    assert again.digest == taxonomy.digest
    assert again.keys.to_list() == taxonomy.keys.to_list()


def test_dropping_edges_drops_what_no_longer_hangs_on_the_root() -> None:
    taxonomy = Taxonomy.build(["a", "b", "c", "d"], [[], [0], [1, 0], [1]], [["a"], ["b"], ["c"], ["d"]])
    a, b = taxonomy.concept("a"), taxonomy.concept("b")
    edge = (taxonomy.parents.owners() == b) & (taxonomy.parents.values == a)
    kept = taxonomy.without_edges(edge)
    assert sorted(kept.keys) == ["a", "c"]
    assert kept.subsumers(kept.concept("c")).tolist() == [0, 1]


def test_levels_are_all_values_of_the_formula_and_each_once(toy: Taxonomy) -> None:
    assert toy.levels.tolist() == sorted(set(toy.levels.tolist()))
    assert toy.levels[-1] == 1.0
    assert similarity_of_counts(2, 4) == similarity_of_counts(1, 2)


def test_a_label_finds_its_first_sense_and_ignores_case_and_underscores() -> None:
    taxonomy = Taxonomy.build(
        ["root", "x", "y"], [[], [0], [0]], [["root"], ["New York", "bank"], ["bank"]], senses={"bank": [2, 1]}
    )
    assert taxonomy.keys[taxonomy.concept("new_york")] == "x"
    assert taxonomy.keys[taxonomy.concept("BANK")] == "y"
    with pytest.raises(KnowledgeError, match="no concept is called 'nowhere' under 'root'"):
        taxonomy.concept("nowhere")
    assert taxonomy.under(taxonomy.concept("x")).labels(0) == ["New York", "bank"]


@pytest.mark.parametrize(
    ("keys", "parents", "message"),
    [
        (["a", "b"], [[], []], "one root; this one has 2"),
        (["a", "b", "c"], [[], [2], [1]], "2 concepts lie on or below a circle"),
        (["a", "a"], [[], [0]], "unique keys"),
        (["a", "b"], [[], [7]], "a parent that does not exist"),
    ],
)
def test_what_is_not_a_rooted_graph_is_refused(keys: list[str], parents: list[list[int]], message: str) -> None:
    with pytest.raises(KnowledgeError, match=message):
        Taxonomy.build(keys, parents, [["x"]] * len(keys))


def test_an_empty_domain_is_refused(toy: Taxonomy) -> None:
    with pytest.raises(KnowledgeError, match="at least one concept"):
        toy.minimum_taxonomy([])


def test_a_chain_of_a_thousand_levels_works() -> None:
    chain = Taxonomy.build([str(i) for i in range(1000)], [[], *([i] for i in range(999))], [["x"]] * 1000)
    assert chain.minimum_similarity() == pytest.approx(1 - log2(1 + 999 / 1000))


@settings(max_examples=examples(60), deadline=None)
@given(rooted_graphs(), st.integers(0, 3), st.data())
def test_without_some_concepts_what_lies_below_them_goes_too_and_the_rest_keeps_its_subsumers(
    parents: list[list[int]], shuffle: int, data: st.DataObject
) -> None:
    whole = built(parents, shuffle)
    dropped = data.draw(st.lists(st.integers(1, len(whole) - 1), max_size=3)) if len(whole) > 1 else []
    cut = whole.without(dropped)
    gone = {int(below) for concept in dropped for below in whole.descendants(concept)}
    assert cut.origin.tolist() == [concept for concept in range(len(whole)) if concept not in gone]
    for concept in range(len(cut)):
        above = {whole.keys[s] for s in whole.subsumers(int(cut.origin[concept]))}
        assert {cut.keys[s] for s in cut.subsumers(concept)} == above
        assert cut.subsumer_lists[concept].tolist() == cut.subsumers(concept).tolist()


def test_nothing_is_left_without_the_root(toy: Taxonomy) -> None:
    with pytest.raises(KnowledgeError, match="without its root"):
        toy.without([0])


@given(rooted_graphs(), st.integers(0, 3))
def test_descendant_runs_hold_exactly_the_descendants(parents: list[list[int]], shuffle: int) -> None:
    taxonomy = built(parents, shuffle)
    offsets, starts, stops = taxonomy.descendant_runs
    for concept in range(len(taxonomy)):
        own = range(int(offsets[concept]), int(offsets[concept + 1]))
        assert [c for run in own for c in range(starts[run], stops[run])] == taxonomy.descendants(concept).tolist()

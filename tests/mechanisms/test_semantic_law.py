"""Laws: the vectors of the specification, the must-fail variants, whole numbers, and the sampler by χ²."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from properties import examples
from queryveil.knowledge.wordnet import WordNet
from queryveil.mechanisms.semantic.domain import Domain
from queryveil.mechanisms.semantic.law import CRITERIA, ClassCounts, ClassLaw, class_row_of, draw, printed_exponents
from queryveil.privacy import Noise
from semantic_oracle import (
    ORDER,
    TOPIC,
    TOY,
    built,
    exponential,
    in_order,
    parent_lists,
    permute_and_flip,
    place,
    similarity,
    toy_domain,
)
from vectors.semantic import (
    EXPECTED_SIMILARITY_OF_FLU,
    FLU,
    FLU_BY_PERMUTE_AND_FLIP,
    FLU_IN_H,
    FLU_WITH_SENSITIVITY_1,
    FLU_WITHOUT_FACTOR_2,
    LEAST_SIMILARITY,
    LEAST_SIMILARITY_IN_H,
    R_BY_SQC1,
    SENSITIVITY_OF_SQC1,
    SIMILARITY,
)

DRAWS = 50_000
ALPHA = 1e-6


def printed(criterion: str, epsilon: float = 2.0, domain: Domain | None = None) -> ClassLaw:
    domain = domain or toy_domain(topics=criterion == "sqc2")
    return ClassLaw.of(domain, criterion, printed_exponents(domain, criterion, epsilon), crossing=False)


def flu(law: ClassLaw) -> list[float]:
    return in_order(law.domain, law.probabilities(place(law.domain, "flu")))


@pytest.mark.parametrize("criterion", CRITERIA)
def test_the_printed_laws_of_flu_are_those_of_the_paper(criterion):
    law = flu(printed(criterion))
    assert law == pytest.approx(FLU[criterion], abs=1e-9)
    similarities = [similarity(TOY, "flu", other) for other in ORDER]
    expected = sum(p * s for p, s in zip(law, similarities, strict=True))
    assert expected == pytest.approx(EXPECTED_SIMILARITY_OF_FLU[criterion], abs=1e-9)


def test_the_printed_law_of_the_root_and_the_sensitivity_are_those_of_the_paper():
    law = printed("sqc1")
    assert in_order(law.domain, law.probabilities(place(law.domain, "R"))) == pytest.approx(R_BY_SQC1, abs=1e-9)
    assert 1 - law.domain.minimum_similarity == pytest.approx(SENSITIVITY_OF_SQC1, abs=1e-9)
    assert law.domain.minimum_similarity == pytest.approx(LEAST_SIMILARITY, abs=1e-9)


def test_a_domain_of_its_own_topic_counts_subsumers_and_least_similarity_inside_it():
    parents = {"H": [], "flu": ["H"], "asthma": ["H"]}
    law = printed("sqc1", domain=Domain.of([built(parents)], outside=False))
    row = law.probabilities(place(law.domain, "flu"))
    found = [float(row[place(law.domain, name)]) for name in parents]
    assert law.domain.minimum_similarity == pytest.approx(LEAST_SIMILARITY_IN_H, abs=1e-12)
    assert found == pytest.approx(FLU_IN_H, abs=1e-9)


def test_the_must_fail_variants_are_other_laws():
    scores = [similarity(TOY, "flu", other) for other in ORDER]
    delta = 1 - min(similarity(TOY, a, b) for a in TOY for b in TOY)
    assert exponential(scores, 2 / delta) == pytest.approx(FLU_WITHOUT_FACTOR_2, abs=1e-9)
    assert exponential(scores, 2 / 2) == pytest.approx(FLU_WITH_SENSITIVITY_1, abs=1e-9)
    ours = np.array(flu(printed("sqc1")))
    for wrong in (FLU_WITHOUT_FACTOR_2, FLU_WITH_SENSITIVITY_1, FLU["nsqc"], FLU["sqc2"]):
        assert np.abs(ours - wrong).max() > 1e-3


def test_without_the_concept_itself_flu_and_asthma_would_be_one():
    assert similarity(TOY, "flu", "asthma", itself=False) == 1.0
    domain = toy_domain()
    kind = class_row_of(domain, place(domain, "flu"))[place(domain, "asthma")]
    assert domain.class_similarity[kind] == pytest.approx(SIMILARITY["flu"]["asthma"], abs=1e-12)


def test_least_similarity_comes_from_the_taxonomy_and_not_from_the_data():
    seen = ["flu", "asthma", "H"]
    over_data = min(similarity(TOY, a, b) for a in seen for b in seen)
    assert over_data == pytest.approx(SIMILARITY["flu"]["asthma"])
    assert toy_domain().minimum_similarity == pytest.approx(LEAST_SIMILARITY)
    wrong = exponential([similarity(TOY, "flu", other) for other in ORDER], 1 / (1 - over_data))
    assert np.abs(np.array(wrong) - FLU["sqc1"]).max() > 1e-2


def test_permute_and_flip_is_another_law_than_ours():
    scores = [similarity(TOY, "flu", other) for other in ORDER]
    expected = FLU_BY_PERMUTE_AND_FLIP
    assert permute_and_flip(scores, 1 / SENSITIVITY_OF_SQC1) == pytest.approx(expected["sqc1"], abs=1e-9)
    same_topic = [s if TOPIC[o] == "H" else 0.0 for s, o in zip(scores, ORDER, strict=True)]
    assert permute_and_flip(same_topic, 1.0) == pytest.approx(expected["sqc2"], abs=1e-9)


@settings(max_examples=examples(40), deadline=None)
@given(parent_lists(), st.sampled_from(CRITERIA), st.floats(0.01, 30), st.booleans())
def test_weights_are_whole_numbers_of_at_least_one_close_to_the_exponential(parents, criterion, exponent, outside):
    topics = np.arange(len(parents), dtype=np.int32) % 3 - 1
    domain = Domain.of([built(parents)], outside=outside, topics=topics)
    law = ClassLaw.of(domain, criterion, exponent)
    assert law.weights.min() >= 1
    assert law.totals.max() <= 2**62
    for concept in range(len(domain)):
        row = class_row_of(domain, concept)
        scores = domain.class_similarity[row]
        if criterion == "sqc2":
            scores = np.where(domain.class_is_same_topic[row], scores, 0.0)
        if criterion == "nsqc":
            scores = (np.arange(len(domain)) == concept).astype(float)
        found = law.probabilities(concept)
        assert sum(found) == 1
        assert [float(p) for p in found] == pytest.approx(exponential(scores.tolist(), exponent), rel=1e-6, abs=1e-12)


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(parent_lists(), min_size=1, max_size=3), st.booleans())
def test_counts_of_classes_are_those_of_the_rows(forest, outside):
    topics = np.arange(sum(map(len, forest)), dtype=np.int32) % 2
    domain = Domain.of([built(parents) for parents in forest], outside=outside, topics=topics)
    assert_counts_are_those_of_the_rows(domain)


@pytest.mark.parametrize("topics", [None, "nineteen"])
def test_counts_of_classes_are_those_of_the_rows_where_whole_blocks_are_counted_at_once(topics):
    assert_counts_are_those_of_the_rows(
        Domain.named(WordNet.load().nouns, "disease|social_event", outside=True, topics=topics)
    )


def assert_counts_are_those_of_the_rows(domain):
    counts = ClassCounts.of(domain)
    for concept, row in enumerate(counts.row_of):
        mine = slice(counts.offsets[row], counts.offsets[row + 1])
        found = dict(zip(counts.classes[mine].tolist(), counts.counts[mine].tolist(), strict=True))
        kinds, numbers = np.unique(class_row_of(domain, concept), return_counts=True)
        assert found == dict(zip(kinds.tolist(), numbers.tolist(), strict=True))


def test_a_query_of_the_paper_stays_in_its_part_and_one_of_safe_mode_may_leave_it():
    nouns = WordNet.load().nouns
    domain = Domain.named(nouns, "contact_sport|blood_sport", outside=False)
    staying = ClassLaw.of(domain, "sqc1", 2.0, crossing=False)
    crossing = ClassLaw.of(domain, "sqc1", 2.0)
    first_part = len(domain.parts[0])
    assert sum(staying.probabilities(0)[first_part:]) == 0
    assert sum(crossing.probabilities(0)[first_part:]) > 0
    drawn = draw(staying, np.repeat(np.arange(len(domain), dtype=np.int32), 200), Noise.seeded(1).stream("x"))
    assert (domain.arrays.part_of[drawn] == np.repeat(domain.arrays.part_of, 200)).all()


def chi2_p(law: ClassLaw, concept: int, drawn: np.ndarray, expected: list[float]) -> float:
    return float(chisquare(np.bincount(drawn, minlength=len(law.domain)), np.array(expected) * len(drawn)).pvalue)


@pytest.mark.parametrize("criterion", CRITERIA)
def test_draws_follow_the_law_and_no_wrong_one(criterion):
    """n = 50,000, α = 1e-6; "no factor 2" is caught with 491 draws, "Δ = 1" with 23,096 (sqc1), P&F with 6,748."""
    law = printed(criterion)
    concept = place(law.domain, "flu")
    drawn = draw(law, np.full(DRAWS, concept, np.int32), Noise.seeded(11).stream("draws"))
    right = [float(p) for p in law.probabilities(concept)]
    assert chi2_p(law, concept, drawn, right) > ALPHA
    scores = [similarity(TOY, "flu", other) for other in ORDER]
    wrong_laws = {
        "sqc1": [FLU_WITHOUT_FACTOR_2, FLU_WITH_SENSITIVITY_1, permute_and_flip(scores, 1 / SENSITIVITY_OF_SQC1)],
        "sqc2": [FLU["sqc1"], FLU["nsqc"]],
        "nsqc": [FLU["sqc1"], FLU["sqc2"]],
    }[criterion]
    for wrong in wrong_laws:
        in_our_order = [wrong[ORDER.index(law.domain.name_of(c))] for c in range(len(law.domain))]
        assert chi2_p(law, concept, drawn, in_our_order) < ALPHA


def test_draws_of_a_large_domain_follow_the_law_class_by_class_and_member_by_member():
    """n = 200,000 draws of one input among 607, α = 1e-6 for each of two tests."""
    domain = Domain.named(WordNet.load().nouns, "disease", outside=True)
    law = ClassLaw.of(domain, "sqc1", 6.0)
    drawn = draw(law, np.full(200_000, 300, np.int32), Noise.seeded(3).stream("draws"))
    right = np.array([float(p) for p in law.probabilities(300)])
    assert chi2_p(law, 300, drawn, right.tolist()) > ALPHA
    row = class_row_of(domain, 300)
    kinds = np.unique(row)
    observed = [np.isin(drawn, np.flatnonzero(row == kind)).sum() for kind in kinds]
    expected = [right[row == kind].sum() * len(drawn) for kind in kinds]
    assert chisquare(observed, expected).pvalue > ALPHA


def test_every_uniform_number_below_the_total_belongs_to_the_output_with_its_share():
    """Exhaustive on a law with tiny weights: the kernel's whole map from numbers to outputs."""
    from queryveil.mechanisms.semantic._law_kernel import draw_members

    domain = toy_domain(outside=True)
    kinds = np.arange(len(domain.class_similarity))
    weights = np.tile((kinds * 7 % 5 + 1).astype(np.int64), (2, 1))
    totals = ClassCounts.of(domain).totals(weights)
    law = ClassLaw(domain, weights, totals)
    for concept in range(len(domain)):
        numbers = np.arange(totals[concept])
        outputs = np.empty(len(numbers), np.int32)
        inputs = np.full(len(numbers), concept, np.int32)
        draw_members(np.argsort(inputs), np.array([0, len(numbers)]), inputs, numbers, domain.arrays, weights, outputs)
        shares = [Fraction(int(n), int(totals[concept])) for n in np.bincount(outputs, minlength=len(domain))]
        assert shares == law.probabilities(concept)


def test_inputs_of_a_batch_do_not_influence_each_other():
    law = printed("sqc1")
    many = np.array([3, 1, 3, 0, 5, 5, 2, 4, 1], np.int32)
    together = draw(law, many, Noise.seeded(9).stream("x"))
    assert draw(law, many, Noise.seeded(9).stream("x")).tolist() == together.tolist()
    assert draw(law, np.empty(0, np.int32), Noise.seeded(9).stream("y")).tolist() == []
    alone = draw(law, many[:3], Noise.seeded(9).stream("x"))
    assert alone.tolist() == together[:3].tolist()


def test_sqc2_never_prefers_another_topic():
    law = printed("sqc2")
    for concept in range(len(law.domain)):
        row = [float(p) for p in law.probabilities(concept)]
        same = law.domain.topic_of == law.domain.topic_of[concept]
        if not same.all():
            assert max(np.array(row)[~same]) <= min(np.array(row)[same])


@settings(max_examples=examples(30), deadline=None)
@given(st.lists(parent_lists(), min_size=1, max_size=2), st.booleans(), st.floats(0.1, 5))
def test_response_needs_no_scans_and_is_the_law_that_scans_give(forest, outside, exponent):
    domain = Domain.of([built(parents) for parents in forest], outside=outside)
    law = ClassLaw.of(domain, "nsqc", exponent)
    assert law.is_response
    assert not ClassLaw.of(domain, "sqc1", exponent).is_response or len(domain) == 2
    assert law.totals.tolist() == ClassCounts.of(domain).totals(law.weights).tolist()
    counts = np.bincount(draw(law, np.zeros(3000, np.int32), Noise.seeded(2).stream("x")), minlength=len(domain))
    assert chisquare(counts, [float(p) * 3000 for p in law.probabilities(0)]).pvalue > ALPHA


def test_totals_of_some_inputs_are_those_of_all():
    domain = toy_domain(outside=True)
    some = ClassLaw.of(domain, "sqc1", 1.5, inputs=np.array([4, 1, 4], np.int32))
    assert some.totals[[1, 4]].tolist() == ClassLaw.of(domain, "sqc1", 1.5).totals[[1, 4]].tolist()
    assert some.totals[0] == 0

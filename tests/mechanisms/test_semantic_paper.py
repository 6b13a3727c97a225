"""Paper mode of the semantic mechanism: the publication as printed, and what its claim is worth."""

import re
from itertools import pairwise

import numpy as np
import pytest
from scipy.stats import chisquare

from mechanisms.semantic_toys import ALPHA, release, semantic
from queryveil.errors import ParameterError
from queryveil.mechanisms.semantic.calibration import loss
from queryveil.mechanisms.semantic.law import ClassLaw, printed_exponents
from queryveil.mechanisms.semantic.paper_mode import select_concepts
from queryveil.privacy import Charge, NoGuarantee, Noise
from queryveil.privacy.guarantee import rounded_up


def paper_statement(**changes):
    promised = semantic(mode="paper", max_queries=20, **changes).guarantee()
    assert isinstance(promised, NoGuarantee)
    assert (promised.model, promised.evidence) == ("none", "paper")
    assert promised.as_dict().keys().isdisjoint({"epsilon", "delta"})
    return promised.statement()


@pytest.mark.parametrize("changes", [{}, {"per": "user"}, {"per": "user", "criterion": "hbdp"}])
def test_paper_mode_promises_nothing_and_charges_nobody(changes):
    paper_statement(**changes)
    assert semantic(mode="paper", **changes).charge() == Charge.nothing()


def test_paper_mode_tells_the_papers_claim_in_both_units_for_phrases():
    by_query, by_user = paper_statement(epsilon=0.5), paper_statement(epsilon=10.0, per="user")
    assert "ε = 0.5 per query and ε = 10 per user, of whom at most 20 noun phrases are used" in by_query
    assert "ε = 10/m per query and ε = 10 per user, for a user with m noun phrases" in by_user
    for statement in (by_query, by_user):
        assert "each noun phrase of each record counting as one query" in statement
        assert "one record; a record without a time" not in statement
        assert "a query of several phrases costs as many times ε" in statement
        assert "for concept identifiers only" in statement
        assert "the same users with the same m each" in statement
        for part in ("that a user is in the log", "how many mapped phrases", "which queries were not mapped",
                     "the order of queries", "several accounts", "correlations between users"):  # fmt: skip
            assert part in statement


@pytest.mark.parametrize("criterion", ["sqc1", "sqc2", "nsqc"])
def test_paper_mode_tells_the_exact_worst_case_of_the_printed_law(criterion):
    """Against the loss of one domain's law, and against enumeration where a concept stays in its part."""
    one = semantic(mode="paper", domain="contact_sport", criterion=criterion, topics="sport")
    law = ClassLaw.of(one.public_domain, criterion, printed_exponents(one.public_domain, criterion, 2.0))
    assert one.printed.epsilon == loss(law).epsilon <= 2.0
    two = semantic(mode="paper", domain="contact_sport|skin_disease", criterion=criterion, topics="sport")
    domain = two.public_domain
    law = ClassLaw.of(domain, criterion, printed_exponents(domain, criterion, 2.0), crossing=False)
    matrix = law.matrix()
    worst = 0.0
    for first, last in pairwise(domain.arrays.part_starts.tolist()):
        block = matrix[first:last, first:last]
        worst = max(worst, float(np.log(block.max(axis=0) / block.min(axis=0)).max()))
    assert two.printed.epsilon == pytest.approx(worst, rel=1e-12)
    assert f"is e^{rounded_up(worst)} (certificate" in two.guarantee().statement()


def test_the_histogram_of_paper_mode_claims_for_users_added_or_removed_and_tells_the_double_for_replaced_ones():
    statement = paper_statement(epsilon=3.0, per="user", criterion="hbdp")
    assert "ε = 3/Δ per query and ε = 3 per user" in statement
    assert "one user's phrases added or removed" in statement
    assert "replaced by others, the loss is twice as large (ε = 6 per user)" in statement
    assert "no ε is finite" in statement
    with pytest.raises(ParameterError, match="per=query is not in the paper for hbdp"):
        semantic(mode="paper", criterion="hbdp", per="query")


def test_paper_mode_tells_that_times_are_the_same():
    assert "at the same times (cut to the day)" in paper_statement(time="day")
    assert "at the same times" not in paper_statement()


def test_paper_mode_keeps_the_frame_around_new_labels():
    mechanism = semantic(domain="all", epsilon=30.0, criterion="nsqc", mode="paper")
    for seed in range(3):
        (text,) = release(mechanism, [("ann", "stores offering the new Apple phones")], seed).log.queries()
        assert re.fullmatch(r".+ offering the new Apple .+", text)
    assert "ε is infinite" in mechanism.guarantee().statement()
    assert mechanism.guarantee().evidence == "paper"


def test_paper_mode_discards_what_is_not_mapped_and_keeps_the_user():
    rows = [("ann", "asthma"), ("ann", "zxqv"), ("bob", "football"), ("bob", "zxqv")]
    released = release(semantic(mode="paper"), rows)
    by_owner = dict(zip(released.owners, released.log.queries(), strict=True))
    assert len(released.log) == 2
    assert by_owner["bob"] == "other"


def test_paper_mode_says_that_separate_domains_reveal_the_topic():
    assert "the topic of every query" in semantic(domain="four", mode="paper").guarantee().statement()
    assert "the topic of every query" not in semantic(domain="disease", mode="paper").guarantee().statement()


def test_paper_mode_splits_a_users_epsilon_by_the_number_of_phrases():
    """n = 50,000 draws, α = 1e-6: with m = 4 and ε = 8 the law is the printed one at 2; the one at 8 is rejected."""
    mechanism = semantic(domain="contact_sport", epsilon=8.0, per="user", mode="paper")
    domain = mechanism.public_domain
    inputs = np.full(50_000, 3, np.int32)
    drawn = select_concepts(mechanism, domain, inputs, np.full(50_000, 4), Noise.seeded(1))
    observed = np.bincount(drawn, minlength=len(domain))
    for epsilon, fits in ((2.0, True), (8.0, False)):
        law = ClassLaw.of(domain, "sqc1", printed_exponents(domain, "sqc1", epsilon))
        expected = np.array([float(p) for p in law.probabilities(3)]) * 50_000
        assert (chisquare(observed, expected).pvalue > ALPHA) == fits


def test_paper_mode_gives_a_user_at_most_the_maximum_when_epsilon_is_per_query():
    mechanism = semantic(epsilon=1.0, max_queries=3, mode="paper")
    assert len(release(mechanism, [("ann", "asthma")] * 10).log) == 3
    by_user = semantic(epsilon=1.0, per="user", max_queries=3, mode="paper")
    assert len(release(by_user, [("ann", "asthma")] * 10).log) == 10


def test_a_query_keeps_its_topic_exactly_where_domains_are_topics():
    mechanism = semantic(domain="nineteen", epsilon=0.1, mode="paper")
    domain = mechanism.public_domain
    inputs = np.arange(len(domain), dtype=np.int32).repeat(20)
    drawn = select_concepts(mechanism, domain, inputs, np.ones(len(inputs), int), Noise.seeded(1))
    assert (domain.arrays.part_of[drawn] == domain.arrays.part_of[inputs]).all()
    assert (drawn != inputs).mean() > 0.9

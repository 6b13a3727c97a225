"""The semantic mechanism as a whole: units and budgets, what is published, paper mode, the histogram baseline."""

import hashlib
import json
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from fractions import Fraction
from itertools import pairwise

import numpy as np
import polars as pl
import pytest
from scipy.stats import binomtest, chisquare

from hostile_values import NOT_A_NUMBER
from queryveil.errors import BudgetError, KnowledgeError, ParameterError, RefusedError
from queryveil.knowledge.odp import import_directory
from queryveil.log import QueryLog
from queryveil.mechanisms import make
from queryveil.mechanisms.semantic import SemanticRelease, SemanticStream, histogram
from queryveil.mechanisms.semantic import mechanism as semantic_mechanism
from queryveil.mechanisms.semantic.calibration import loss
from queryveil.mechanisms.semantic.law import ClassLaw, printed_exponents
from queryveil.mechanisms.semantic.paper_mode import selected
from queryveil.privacy import ApproxDP, Charge, Ledger, NoGuarantee, Noise, PureDP
from queryveil.privacy.guarantee import rounded_up
from queryveil.testing import check_mechanism

ALPHA = 1e-6


def release(mechanism, rows, seed=1):
    return mechanism.protect(QueryLog.of(rows), Noise.seeded(seed))


def semantic(**changes):
    return SemanticRelease(**({"epsilon": 2.0, "per": "query", "domain": "disease", "criterion": "sqc1"} | changes))


@pytest.mark.parametrize(
    "mechanism",
    [
        semantic(max_queries=3),
        semantic(domain="disease|sport", epsilon=20.0, per="user", criterion="sqc2", max_queries=5, topics="four"),
        semantic(domain="sport", per="user", criterion="auto", max_queries=4, counts="padded"),
        semantic(domain="contact_sport", criterion="auto", time="day"),
        semantic(domain="contact_sport", per="user", criterion="nsqc", max_queries=8, delta=1e-6),
        semantic(domain="contact_sport", criterion="hbdp"),
        semantic(domain="four", epsilon=4.0, criterion="sqc2", mode="paper"),
        semantic(domain="four", epsilon=4.0, per="user", criterion="nsqc", mode="paper", time="keep"),
        semantic(domain="contact_sport", epsilon=40.0, per="user", criterion="hbdp", mode="paper"),
    ],
    ids=lambda m: f"{m.mode} {m.criterion} {m.domain} {m.per}",
)
def test_it_conforms(mechanism):
    check_mechanism(mechanism)


# Units and budgets


def test_the_unit_of_epsilon_must_be_said():
    with pytest.raises(TypeError, match="per"):
        SemanticRelease(epsilon=1.0)
    with pytest.raises(TypeError, match="epsilon"):
        SemanticRelease(per="user")


def test_both_figures_are_told_whichever_is_asked_for():
    by_query = semantic(epsilon=0.5, max_queries=20).guarantee()
    by_user = semantic(epsilon=10.0, per="user", max_queries=20).guarantee()
    assert isinstance(by_query, PureDP)
    assert (by_query.unit, by_query.epsilon) == ("query", 0.5)
    assert (by_user.unit, by_user.epsilon) == ("user", 10.0)
    for statement in (by_query.statement(), by_user.statement()):
        assert "ε = 0.5 per query and ε = 10 per user" in statement
        assert "at most 20 queries" in statement
        assert re.search(r"exact worst-case loss .* is 0\.5 \(certificate [0-9a-f]{64}\)", statement)


def test_a_ledger_is_charged_for_the_user_in_either_unit():
    assert semantic(epsilon=0.1, max_queries=10).charge().epsilon == 1
    assert semantic(epsilon=1.0, per="user", max_queries=10).charge().epsilon == 1


def test_shares_of_a_user_add_up_to_the_budget_as_fractions():
    for epsilon, most in ((1.0, 3), (0.1, 7), (2.5, 11)):
        share = semantic(epsilon=epsilon, per="user", max_queries=most).epsilon_per_query
        assert share * most == Fraction(str(epsilon))
    assert semantic(epsilon=1.0, per="user", max_queries=4).epsilon_per_query == Fraction(1, 4)


def test_the_certified_loss_of_a_query_times_the_maximum_is_within_the_users_budget():
    for most in (3, 7, 10, 100):
        mechanism = semantic(epsilon=1.0, per="user", max_queries=most)
        assert Fraction(mechanism.certified.epsilon) * most <= 1


@pytest.fixture
def ledger(tmp_path):
    return Ledger.create(tmp_path / "ledger.db", epsilon=2.5, delta=1e-6)


def test_a_stream_debits_the_whole_charge_at_a_users_first_query_and_refuses_one_beyond_the_maximum(ledger):
    stream = SemanticStream(semantic(epsilon=1.0, per="user", max_queries=10), Noise.secure(), ledger)
    assert stream.spent("ann") == 0
    for _ in range(10):
        assert stream.push("ann", "asthma")
        assert stream.spent("ann") == 1
    assert ledger.entries().select("mechanism", "model", "scope", "epsilon", "people").rows() == [
        ("semantic", "pure-dp", "people", 1.0, 1)
    ]
    with pytest.raises(BudgetError, match="public maximum"):
        stream.push("ann", "asthma")
    assert stream.push("bob", "nothing that is a disease")
    assert ledger.remaining()[0] == 1.5


def test_a_restart_of_a_stream_is_paid_for_again_until_nothing_is_left(ledger):
    """A budget of 2.5 pays for two runs of ε = 1; in the third the user gets no answer, and somebody new does."""
    rules = semantic(epsilon=1.0, per="user", max_queries=3)
    for _ in range(2):
        assert SemanticStream(rules, Noise.secure(), ledger).push("ann", "asthma")
    third = SemanticStream(rules, Noise.secure(), ledger)
    for _ in range(2):
        with pytest.raises(BudgetError, match="left in the ledger"):
            third.push("ann", "asthma")
    assert third.spent("ann") == 0
    assert third.push("bob", "asthma")
    assert len(ledger.entries()) == 3


def test_a_stream_debits_delta_too(ledger):
    rules = semantic(domain="contact_sport", epsilon=1.0, per="user", max_queries=10, delta=1e-6, criterion="nsqc")
    SemanticStream(rules, Noise.secure(), ledger).push("ann", "boxing")
    assert ledger.entries().select("epsilon", "delta", "model").rows() == [(1.0, 1e-6, "approx-dp")]
    with pytest.raises(BudgetError, match="left in the ledger"):
        SemanticStream(rules, Noise.secure(), ledger).push("ann", "boxing")


def test_threads_together_get_no_more_answers_than_the_maximum(ledger):
    stream = SemanticStream(semantic(epsilon=1.0, per="user", max_queries=20), Noise.secure(), ledger)

    def ask(_: int) -> bool:
        try:
            return bool(stream.push("ann", "asthma"))
        except BudgetError:
            return False

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(ask, range(60))) == 20
    assert len(ledger.entries()) == 1


def test_a_stream_takes_seeded_noise_for_science_only_and_says_so(ledger):
    with pytest.raises(RefusedError, match="seeded noise"):
        SemanticStream(semantic(), Noise.seeded(1), ledger)
    assert SemanticStream(semantic(), Noise.seeded(1), ledger, science=True).statement().startswith("NOT FOR PUBLIC")
    assert "NOT FOR PUBLIC" not in SemanticStream(semantic(), Noise.secure(), ledger).statement()


def test_a_stream_says_that_order_and_time_of_answers_are_not_protected(ledger):
    promised = SemanticStream(semantic(max_queries=7), Noise.secure(), ledger).guarantee()
    assert "the order and the time of answers" in promised.not_protected
    assert promised.relation.endswith("asked in the same order at the same times")
    assert "At most 7 queries of a user are answered in a run" in promised.statement()


def test_a_stream_draws_anew_for_each_query(ledger):
    stream = SemanticStream(semantic(epsilon=0.01, max_queries=200), Noise.seeded(4), ledger, science=True)
    assert len({stream.push("ann", "asthma") for _ in range(100)}) > 10


@pytest.mark.parametrize(
    "wrong",
    [{"mode": "paper"}, {"criterion": "hbdp"}, {"counts": "padded"}, {"time": "day"}],
    ids=lambda wrong: next(iter(wrong)),
)
def test_a_stream_is_refused_where_it_makes_no_sense(wrong, ledger):
    with pytest.raises(ParameterError, match=next(iter(wrong))):
        SemanticStream(semantic(**wrong), Noise.secure(), ledger)


def test_a_stream_needs_a_ledger_and_texts(ledger):
    with pytest.raises(ParameterError, match="ledger"):
        SemanticStream(semantic(), Noise.secure(), None)
    with pytest.raises(ParameterError, match="texts"):
        SemanticStream(semantic(), Noise.secure(), ledger).push("ann", None)
    assert len(ledger.entries()) == 0


def test_adding_queries_later_costs_their_share_and_adding_users_costs_the_others_nothing(tmp_path):
    """The specification: a = 2 more queries at ε/m cost ε(1 + a/m) = 1.5 in all, not aε = 2."""
    ledger = Ledger.create(tmp_path / "ledger.db", epsilon=1.5)
    first = semantic(epsilon=1.0, per="user", max_queries=4)
    more = semantic(epsilon=0.25, max_queries=2)
    assert not ledger.debit(first.charge(), mechanism="semantic", people=["ann"]).left_out
    assert not ledger.debit(first.charge(), mechanism="semantic", people=["bob"]).left_out
    assert not ledger.debit(more.charge(), mechanism="semantic", people=["ann"]).left_out
    one_more = semantic(epsilon=0.25, max_queries=1).charge()
    assert ledger.debit(one_more, mechanism="semantic", people=["ann", "bob"]).left_out == {"ann"}


def test_delta_buys_a_larger_share_for_each_query():
    plain = semantic(epsilon=10.0, per="user", criterion="nsqc")
    with_delta = semantic(epsilon=10.0, per="user", criterion="nsqc", delta=1e-6)
    assert plain.certified.epsilon == pytest.approx(0.1)
    assert with_delta.certified.epsilon == pytest.approx(1.444, abs=0.005)
    promised = with_delta.guarantee()
    assert isinstance(promised, ApproxDP)
    assert (promised.epsilon, promised.delta) == (10.0, 1e-6)
    assert (with_delta.charge().epsilon, with_delta.charge().delta) == (10, Fraction("1e-6"))


def test_numbers_of_any_kind_are_the_same_numbers():
    kinds = [semantic(epsilon=e, per="user", max_queries=m, delta=1e-6, domain="contact_sport")
             for e, m in ((2, 10), (2.0, np.int64(10)), (np.float64(2.0), 10), (Fraction(2), 10))]  # fmt: skip
    assert len({kind.guarantee().statement() for kind in kinds}) == 1
    assert len({kind.charge().epsilon for kind in kinds}) == 1


def test_delta_lowers_what_a_user_is_charged_when_epsilon_is_per_query():
    mechanism = semantic(epsilon=0.1, criterion="nsqc", delta=1e-6)
    assert isinstance(mechanism.guarantee(), PureDP)
    assert mechanism.charge().epsilon < 3
    assert mechanism.charge().delta == Fraction("1e-6")
    assert "with δ = 1e-06" in mechanism.guarantee().statement()


@pytest.mark.parametrize("delta", [1.1e-6, 1e-3, 0.5, 0.999])
@pytest.mark.parametrize("per", ["query", "user"])
def test_safe_mode_refuses_a_delta_that_matters(delta, per):
    with pytest.raises(RefusedError, match="delta must be at most 1e-06") as refused:
        semantic(delta=delta, per=per)
    assert refused.value.exit_code == 3


@pytest.mark.parametrize("per", ["query", "user"])
@pytest.mark.parametrize("most", [1, 2, 30])
@pytest.mark.parametrize("epsilon", [0.001, 2.0])
def test_a_user_is_never_charged_less_than_one_query_loses(per, most, epsilon):
    """At ε = 0.001 the accountant finds less than ε for one query within δ = 10^-6 at times; the charge does not."""
    mechanism = semantic(
        domain="contact_sport", criterion="nsqc", epsilon=epsilon, per=per, max_queries=most, delta=1e-6
    )
    assert mechanism.charge().epsilon >= mechanism.losses.per_query
    assert mechanism.charge().epsilon >= mechanism.certified.epsilon


def test_a_charge_holds_also_where_composition_would_find_less(monkeypatch):
    monkeypatch.setattr(semantic_mechanism, "repeated", lambda *rest: 0.25)
    assert semantic(epsilon=2.0, max_queries=3, delta=1e-6).charge().epsilon == 2


# What is published


def test_every_record_is_kept_and_becomes_a_label_of_the_domain():
    rows = [("ann", "asthma"), ("ann", "football scores"), ("bob", "zxqv"), ("bob", "skin disease treatment")]
    released = release(semantic(), rows)
    assert len(released.log) == 4
    assert released.log.user_count() == 2
    assert set(released.log.queries()) <= set(semantic().public_domain.main_labels)


def test_a_user_without_any_concept_is_still_there_with_as_many_records():
    released = release(semantic(), [("ann", "zxqv"), ("ann", "qqq"), ("bob", "asthma")])
    assert sorted(pl.Series(released.owners).value_counts()["count"]) == [1, 2]


def test_words_of_the_input_do_not_decide_beyond_the_concept():
    """Two logs that read as the same concepts give the same release under the same noise."""
    one = release(semantic(), [("ann", "asthma"), ("bob", "the worst asthma ever, ann@example.org")])
    other = release(semantic(), [("ann", "my asthma"), ("bob", "asthma")])
    assert one.log == other.log


def test_at_most_the_maximum_is_published_and_chosen_at_random():
    """n = 4,000 users with 4 records of which 2 are kept, α = 1e-6: catches a bias of 0.06 to any record."""
    texts = ["asthma", "acne", "measles", "leprosy"]
    mechanism = semantic(epsilon=29.0, criterion="nsqc", max_queries=2)  # nearly always the input itself
    released = release(mechanism, [(f"u{n}", text) for n in range(4000) for text in texts])
    assert len(released.log) == 8000
    assert released.log.frame["user"].value_counts()["count"].max() == 2
    for text in texts:
        kept = released.log.queries().count(text)
        assert binomtest(kept, 4000, 0.5).pvalue > ALPHA


def test_padding_gives_everybody_the_same_number():
    rows = [("ann", "asthma")] * 7 + [("bob", "acne")]
    released = release(semantic(max_queries=5, counts="padded"), rows)
    assert released.log.frame["user"].value_counts()["count"].to_list() == [5, 5]
    statement = semantic(max_queries=5, counts="padded").guarantee().statement()
    assert "how many queries" not in statement
    assert "how many queries" in semantic(max_queries=5).guarantee().statement()


def test_released_labels_follow_the_certified_law():
    """n = 50,000, α = 1e-6, over labels; the printed exponent at the same ε (half the tight one) is rejected."""
    mechanism = semantic(epsilon=6.0, max_queries=50_000)
    released = release(mechanism, [("ann", "asthma attack remedies for asthma")] * 50_000)
    domain, law = mechanism.public_domain, mechanism.certified.law
    concept = int(mechanism.reader.concepts(["asthma"])[0])
    assert domain.name_of(concept) == "asthma.n.01"
    printed = ClassLaw.of(domain, "sqc1", printed_exponents(domain, "sqc1", 6.0).min())
    seen = pl.Series(released.log.queries()).value_counts()
    observed = dict(zip(seen[""], seen["count"], strict=True))
    labels = sorted(set(domain.main_labels))
    fits = []
    for candidate in (law, printed):
        expected = dict.fromkeys(labels, 0.0)
        for label, probability in zip(domain.main_labels, candidate.probabilities(concept), strict=True):
            expected[label] += float(probability) * 50_000
        cells = [label for label in labels if expected[label] >= 5]
        rest = [sum(observed.values()) - sum(observed.get(c, 0) for c in cells)]
        counts = [observed.get(label, 0) for label in cells] + rest
        means = [expected[label] for label in cells] + [50_000 - sum(expected[label] for label in cells)]
        keep = [k for k, mean in enumerate(means) if mean > 1]
        counts, means = np.array(counts)[keep], np.array(means)[keep]
        fits.append(chisquare(counts, means * counts.sum() / means.sum()).pvalue)
    assert fits[0] > ALPHA
    assert fits[1] < ALPHA


def test_times_are_dropped_unless_asked_for_and_never_exact():
    rows = [("ann", "asthma", datetime(2026, 3, 4, 5, 6, 7))]
    assert release(semantic(), rows).log.frame["time"].to_list() == [None]
    assert release(semantic(time="day"), rows).log.frame["time"].to_list() == [datetime(2026, 3, 4)]
    assert "when each query was asked" in semantic(time="day").guarantee().statement()
    assert (
        semantic(time="day").guarantee().relation.endswith("replaced by any other, at the same times (cut to the day)")
    )
    assert (
        semantic(time="hour", per="user", epsilon=20.0)
        .guarantee()
        .relation.endswith("replaced by any others, at the same times (cut to the hour)")
    )
    assert "same times" not in semantic().guarantee().relation
    with pytest.raises(RefusedError, match="exact times"):
        semantic(time="keep")


def test_an_imported_open_directory_can_be_the_taxonomy(tmp_path):
    table = tmp_path / "categories.tsv"
    table.write_text("Health/Conditions/Asthma\t5\nHealth/Conditions/Flu\t3\nSports/Tennis\t4\nSports/Golf\t1\n")
    import_directory([table], tmp_path / "toy.odp")
    mechanism = semantic(knowledge=str(tmp_path / "toy.odp"), domain="all", criterion="auto", epsilon=4.0)
    assert len(mechanism.public_domain) == 9
    released = release(mechanism, [("ann", "asthma"), ("bob", "tennis"), ("bob", "weather")])
    assert set(released.log.queries()) <= {"Top", "Health", "Conditions", "Asthma", "Flu", "Sports", "Tennis", "Golf",
                                           "other"}  # fmt: skip
    with pytest.raises(KnowledgeError):
        semantic(knowledge=str(tmp_path / "absent.odp"))


@pytest.mark.parametrize("mode", ["safe", "paper"])
def test_a_release_names_an_imported_directory_by_its_content(tmp_path, mode):
    table = tmp_path / "categories.tsv"
    contents = []
    for more in ("", "Sports/Golf\t1\n"):
        table.write_text(f"Health/Conditions/Asthma\t5\nHealth/Conditions/Flu\t3\n{more}")
        (tmp_path / "toy.odp").unlink(missing_ok=True)
        import_directory([table], tmp_path / "toy.odp")
        mechanism = semantic(knowledge=str(tmp_path / "toy.odp"), domain="all", mode=mode)
        parameters = release(mechanism, [("ann", "asthma")]).parameters
        digest = hashlib.sha256((tmp_path / "toy.odp").read_bytes()).hexdigest()
        assert parameters["knowledge"] == f"sha256:{digest}"
        assert str(tmp_path) not in json.dumps(dict(parameters)) + mechanism.guarantee().statement()
        contents.append(len(mechanism.public_domain))
    assert contents[1] == contents[0] + 2  # the second file under the same name is not taken for the first


@pytest.mark.parametrize(
    "changes", [{}, {"criterion": "hbdp"}, {"mode": "paper"}, {"mode": "paper", "criterion": "hbdp", "per": "user"}]
)
def test_the_statement_names_the_taxonomy_and_the_whole_certificate(changes):
    mechanism = semantic(**changes)
    statement = mechanism.guarantee().statement()
    assert f"SHA-256 {mechanism.public_domain.digest}" in statement
    if mechanism.criterion != "hbdp":
        certificate = mechanism.printed.digest if mechanism.mode == "paper" else mechanism.certified.digest
        assert f"(certificate {certificate})" in statement
    assert semantic(domain="sport").public_domain.digest not in statement


# Paper mode


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
        assert "each noun phrase counting as one query" in statement
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
    drawn = selected(mechanism, domain, inputs, np.full(50_000, 4), Noise.seeded(1))
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
    drawn = selected(mechanism, domain, inputs, np.ones(len(inputs), int), Noise.seeded(1))
    assert (domain.arrays.part_of[drawn] == domain.arrays.part_of[inputs]).all()
    assert (drawn != inputs).mean() > 0.9


# The histogram baseline


def test_the_noise_of_the_histogram_has_the_figures_of_the_specification():
    rate = Fraction(1, 100)
    assert histogram.zero_probability(rate) == pytest.approx(0.004999958333749969, abs=1e-12)
    assert histogram.noise_variance(rate) == pytest.approx(19999.833334166877, rel=1e-9)


@pytest.mark.parametrize(("mode", "scale"), [("safe", 20), ("paper", 10)])
def test_every_bin_gets_geometric_noise_scaled_to_replacing_a_log(mode, scale):
    """n = 400 users × 20 bins, α = 1e-6 on the share of empty bins left empty and on the sum of counts.

    Safe: Δ = 2 · max = 20; paper: Δ = 10, the largest in the data. Half or twice the noise is rejected.
    """
    mechanism = semantic(domain="contact_sport", epsilon=2.0, per="user", criterion="hbdp", max_queries=10, mode=mode)
    released = release(mechanism, [(f"u{n}", "boxing") for n in range(400) for _ in range(10)])
    size = len(mechanism.public_domain)
    concept = int(mechanism.reader.concepts(["boxing"])[0])
    boxing = mechanism.public_domain.main_labels[concept]
    cells = 400 * (size - 1)
    shown = released.log.frame.filter(pl.col("query") != boxing).group_by("user", "query").len()
    surplus = shown["len"].sum()

    def right(at: int) -> bool:
        rate = Fraction(2, at)
        visible = (1 - histogram.zero_probability(rate)) / 2
        mean, spread = histogram.expected_surplus(rate), (histogram.noise_variance(rate) * cells) ** 0.5
        return binomtest(len(shown), cells, visible).pvalue > ALPHA and abs(surplus - mean * cells) < 5 * spread

    assert right(scale)
    assert not right(scale // 2)
    assert not right(scale * 2)


def test_counts_of_the_histogram_are_those_of_the_log_where_noise_is_small():
    rows = [("ann", "boxing")] * 5 + [("bob", "wrestling")] * 2
    mechanism = semantic(domain="contact_sport", epsilon=29.0, criterion="hbdp", max_queries=10)
    released = release(mechanism, rows)
    found = pl.DataFrame({"owner": released.owners, "query": released.log.queries()}).group_by("owner", "query").len()
    assert sorted(found.rows()) == [("ann", "boxing", 5), ("bob", "wrestling", 2)]


def test_a_histogram_nobody_could_read_is_refused():
    mechanism = semantic(domain="all", epsilon=0.1, per="user", criterion="hbdp")
    with pytest.raises(RefusedError, match="smaller domain"):
        release(mechanism, [(f"u{n}", "asthma") for n in range(20)])


# Wrong parameters


@pytest.mark.parametrize("value", [*NOT_A_NUMBER, 0, 0.0, 1e9])
def test_no_epsilon_but_a_finite_number_above_zero(value):
    with pytest.raises(ParameterError, match="epsilon must"):
        semantic(epsilon=value)


@pytest.mark.parametrize("value", [*NOT_A_NUMBER, 0, 1.5, 10**7])
def test_no_maximum_but_a_whole_number(value):
    with pytest.raises(ParameterError, match="max_queries must"):
        semantic(max_queries=value)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"per": "both"}, "per must be one of"),
        ({"criterion": "sqc3"}, "criterion must be one of"),
        ({"counts": "hidden"}, "counts must be one of"),
        ({"delta": 1.0}, "delta must be"),
        ({"delta": -1e-9}, "delta must be"),
        ({"domain": "no such concept"}, "no concept is called"),
        ({"domain": " "}, "domain must be a text"),
        ({"domain": None}, "domain must be a text"),
        ({"criterion": "sqc2", "topics": "no such concept"}, "no concept is called"),
        ({"criterion": "sqc2", "topics": "sport"}, "topics must hold"),
        ({"domain": "athlete's_foot"}, "at least two concepts"),
        ({"epsilon": 31.0}, "at most 30 per query"),
        ({"epsilon": 1e-3, "per": "user", "max_queries": 10_000}, "at least 1e-06 per query"),
        ({"criterion": "auto", "mode": "paper"}, "not in the paper"),
        ({"delta": 1e-6, "mode": "paper"}, "not in the paper"),
        ({"counts": "padded", "mode": "paper"}, "not in the paper"),
        ({"delta": 1e-6, "criterion": "hbdp"}, "no use with hbdp"),
        ({"time": "day", "criterion": "hbdp"}, "no use with hbdp"),
        ({"counts": "padded", "time": "day"}, "with time=drop"),
    ],
)
def test_what_cannot_be_is_told_before_any_work(changes, told):
    with pytest.raises(ParameterError, match=told):
        semantic(**changes)


def test_it_is_known_by_its_name():
    assert make("semantic", epsilon=1.0, per="query", domain="sport").name == "semantic"

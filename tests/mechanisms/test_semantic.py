"""The semantic mechanism as a whole: units and budgets, what is published, the histogram baseline."""

import hashlib
import json
import re
from datetime import datetime, timedelta
from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from scipy.stats import binomtest, chisquare

from hostile_values import NOT_A_NUMBER
from mechanisms.block_checks import ScatteredLog, depends_on_the_order_of_rows, released, whole
from mechanisms.semantic_toys import ALPHA, release, semantic
from queryveil.errors import KnowledgeError, ParameterError, RefusedError
from queryveil.knowledge.odp import import_directory
from queryveil.log import QueryLog
from queryveil.mechanisms import make
from queryveil.mechanisms.semantic import Semantic, histogram
from queryveil.mechanisms.semantic import parameters as semantic_parameters
from queryveil.mechanisms.semantic.law import ClassLaw, printed_exponents
from queryveil.privacy import ApproxDP, Ledger, Noise, PureDP
from queryveil.privacy.guarantee import COMPUTATIONAL, FIXED_PARAMETERS
from queryveil.testing import check_mechanism


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
        Semantic(epsilon=1.0)
    with pytest.raises(TypeError, match="epsilon"):
        Semantic(per="user")


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
    monkeypatch.setattr(semantic_parameters, "repeated", lambda *rest: 0.25)
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


NOON = datetime(2026, 3, 4, 12)


def clicked(user: str, text: str, times: int, when: datetime | None = NOON, session: str | None = None) -> list[tuple]:
    """One search with so many clicks, as a log holds it."""
    return [(user, text, when, rank, f"site{rank}.example", session) for rank in range(1, times + 1)]


@pytest.mark.parametrize("changes", [{}, {"criterion": "nsqc"}, {"time": "day"}, {"criterion": "auto", "per": "user"},
                                     {"criterion": "sqc2", "topics": "four"}], ids=str)  # fmt: skip
def test_a_query_with_five_clicks_is_drawn_for_once_and_becomes_one_record(changes):
    """Five draws at ε = 4 each would tell it from another query by a factor e^20, and show how often it was clicked."""
    rows = clicked("ann", "asthma", 5) + clicked("bob", "acne", 1) + [("cleo", "measles", NOON)]
    released = release(semantic(epsilon=4.0, **changes), rows)
    assert sorted(released.owners) == ["ann", "bob", "cleo"]


def test_searches_at_other_times_in_other_sessions_or_of_other_people_are_other_queries():
    rows = [*clicked("ann", "asthma", 3), *clicked("ann", "acne", 2), *clicked("bob", "asthma", 2),
            *clicked("ann", "asthma", 2, NOON + timedelta(microseconds=1)),
            *clicked("ann", "asthma", 2, NOON, "morning"), *clicked("ann", "asthma", 2, NOON, "evening")]  # fmt: skip
    assert sorted(release(semantic(time="day"), rows).owners) == ["ann"] * 5 + ["bob"]


def test_records_without_a_time_are_each_a_query_and_the_promise_says_so():
    assert len(release(semantic(), clicked("ann", "asthma", 5, None)).log) == 5
    promised = semantic().guarantee()
    assert "same text, time and session, however many clicks it has, and becomes one record" in promised.statement()
    assert "a record without a time is a query of its own" in promised.statement()
    assert any("losses add up" in gap for gap in promised.not_protected)
    by_user = semantic(per="user", epsilon=10.0).guarantee()
    assert "a record without a time is a query of its own" in by_user.statement()
    assert not any("losses add up" in gap for gap in by_user.not_protected)  # the figure per user counts them all


def test_clicks_neither_crowd_out_other_queries_nor_show_in_padding_or_a_histogram():
    """n = 2,000 users with 2 queries, one clicked 9 times, of which 1 is kept, α = 1e-6: catches a share of 0.55."""
    both = [row for n in range(2000) for row in clicked(f"u{n}", "asthma", 9) + clicked(f"u{n}", "acne", 1)]
    kept = release(semantic(epsilon=29.0, criterion="nsqc", max_queries=1), both).log.queries()
    assert binomtest(kept.count("acne"), 2000, 0.5).pvalue > ALPHA
    padded = semantic(epsilon=29.0, criterion="nsqc", max_queries=5, counts="padded")
    assert sorted(release(padded, clicked("ann", "asthma", 5)).log.queries()) == ["asthma"] + ["other"] * 4
    histogram_of_one = semantic(domain="contact_sport", epsilon=29.0, criterion="hbdp", max_queries=10)
    assert release(histogram_of_one, clicked("ann", "boxing", 5)).log.queries() == ["boxing"]


@pytest.mark.parametrize("changes", [{"time": "day"}, {"criterion": "nsqc", "max_queries": 2}], ids=str)
def test_neither_the_order_of_clicks_nor_how_they_lie_leaves_a_trace(changes, monkeypatch):
    mechanism = semantic(**changes)
    rows = [
        row
        for n in range(40)
        for turn in range(3)
        for row in clicked(f"u{n}", ("asthma", "acne", "flu")[(n + turn) % 3], 1 + turn, NOON if n % 4 else None)
    ]
    log = QueryLog.of(rows)  # fmt: skip
    assert not depends_on_the_order_of_rows(mechanism, log, monkeypatch)
    here = released(mechanism, log, monkeypatch, blocks=8)
    elsewhere = mechanism.protect(ScatteredLog(log.frame, blocks=8), Noise.seeded(1))
    assert whole(here).equals(whole(elsewhere))


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


@pytest.mark.parametrize("changes", [{}, {"per": "user", "delta": 1e-6}, {"criterion": "hbdp"}], ids=str)
def test_the_promise_says_that_it_is_computational_and_for_parameters_fixed_beforehand(changes):
    assumed = semantic(domain="contact_sport", **changes).guarantee().assumptions
    assert COMPUTATIONAL in assumed
    assert FIXED_PARAMETERS in assumed


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

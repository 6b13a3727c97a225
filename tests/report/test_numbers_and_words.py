"""Figures as people read them, the one number for risk, and what figures amount to in words."""

import pytest

from queryveil.audit.finding import NOBODY_BEHIND, LeftOut
from queryveil.audit.formatting import between, format_figure
from queryveil.audit.verdict import three_answers, verdict
from queryveil.audit.worst_case import bad_end, comparable, worst
from report_toys import audit_of, finding, manifest, utility


@pytest.mark.parametrize(
    ("value", "unit", "shown"),
    [
        (0, "share", "0 %"),
        (1, "share", "100 %"),
        (0.001, "share", "0.1 %"),
        (0.0009, "share", "< 0.1 %"),
        (0.9995, "share", "> 99.9 %"),
        (0.125, "share", "12.5 %"),
        (1.0518, "share", "105 %"),
        (3.71234, "epsilon", "ε 3.713"),
        (12345, "count", "12,345"),
        (2.5, "count", "2.5"),
        (0.25, "distance", "0.250"),
        (None, "share", "–"),
    ],
)
def test_a_figure_is_told_in_its_unit(value, unit, shown):
    assert format_figure(value, unit) == shown


def test_an_interval_is_told_where_there_is_one():
    assert between(finding(value=0.02, low=0.0004, high=0.035)) == "< 0.1 to 3.5 %"
    assert between(finding(value=0.02)) == ""
    assert between(finding(value=0.02, low=0.01)) == ""
    assert between(finding(value=3.0, low=2.0, high=4.0, unit="distance")) == "2.000 to 4.000"


# --- risk


def test_the_risk_is_the_worst_figure_at_the_bad_end_of_its_interval():
    small, wide = finding(key="a", value=0.2, low=0.1, high=0.21), finding(key="b", value=0.1, low=0.0, high=0.4)
    assert bad_end(wide) == 0.4
    assert worst(audit_of(small, wide)) == wide
    assert bad_end(finding(value=0.3, low=0.2, high=0.4, better="higher")) == 0.2


def test_false_alarms_and_second_halves_of_attacks_do_not_count():
    alarm, found = finding(key="uniqueness-3", value=0.9), finding(key="found-3", value=0.1)
    given_the_person = finding(key="author-by-name", value=1.0, question="linkability", counts_toward_risk=False)
    loss = finding(key="one-run", value=3.0, unit="epsilon", question="inference")
    assert comparable(audit_of(alarm, found, given_the_person, loss)) == [found]
    assert comparable(audit_of(alarm)) == [alarm]
    assert comparable(audit_of(alarm, left_out=(LeftOut(title="x", reason=NOBODY_BEHIND),))) == []


def test_a_question_without_a_figure_that_counts_tells_the_worst_that_does_not():
    given_the_person = finding(key="author-by-name", value=1.0, question="linkability", counts_toward_risk=False)
    assert worst(audit_of(given_the_person), "linkability") == given_the_person
    assert worst(audit_of(given_the_person)) is None
    assert worst(audit_of(), "inference") is None


# --- may this be published?


def dp(**given):
    return manifest()["guarantee"] | {"model": "pure-dp", "epsilon": 1.0} | given


@pytest.mark.parametrize(
    ("expected", "because", "findings", "changes"),
    [
        ("No", "known seed", [], {"noise": {"mode": "seeded", "publishable": False}}),
        ("No", "paper mode", [], {"mode": "paper"}),
        ("No", "does not allow", [finding(value=0.5, low=0.4, high=0.6, bound=0.2)], {}),
        ("With care", "No formal guarantee", [finding(value=0.0)], {}),
        ("With care", "Linkability", [finding(value=0.3, question="linkability")], {"guarantee": dp()}),
        ("With care", "factor of up to 22,027", [finding(value=0.0)], {"guarantee": dp(epsilon=10.0)}),
        ("With care", "more than a million", [finding(value=0.0)], {"guarantee": dp(epsilon=1e6)}),
        ("With care", "for one query", [finding(value=0.0)], {"guarantee": dp(unit="query")}),
        ("With care", "weakens with distance", [finding(value=0.0)], {"guarantee": dp(model="metric-dp")}),
        ("Yes", "compatible", [finding(value=0.02)], {"guarantee": dp()}),
        ("Yes", "compatible", [finding(value=0.3, low=0.1, high=0.5, chance=0.2)], {"guarantee": dp()}),
        ("With care", "Singling out", [finding(value=0.3, bound=0.4)], {"guarantee": dp()}),
        ("Yes", "compatible", [finding(value=0.0)], {"guarantee": dp(model="k-anonymity", k=5)}),
    ],
)
def test_the_answer_follows_fixed_rules(expected, because, findings, changes):
    found = verdict(manifest(**changes), audit_of(*findings, **changes))
    assert found.answer == expected
    assert because in " ".join(found.reasons)


def test_nothing_is_decided_about_a_log_of_another_tool():
    assert verdict({"mechanism": None}, audit_of(finding(value=0.4))).answer == "Not decided"


def test_the_three_questions_are_answered_with_the_numbers():
    audit = audit_of(
        finding(title="Found by 3", value=0.3, low=0.2, high=0.4, raw=0.9, chance=0.01),
        finding(title="Linked", question="linkability", value=0.01, low=0.0, high=0.02, chance=0.015),
        utility(value=0.5),
    )
    singling, linking, inferring = three_answers(audit)
    assert singling.sentence == (
        "In some cases. The attack that gets furthest is “Found by 3”: 30 % (20 to 40 %), raw log 90 %, by chance 1 %."
    )
    assert linking.sentence.startswith("No better than by chance.")
    assert "Not measured" in inferring.sentence


@pytest.mark.parametrize(
    ("value", "words"), [(0.0, "Not in any case"), (0.05, "Rarely"), (0.06, "In some cases"), (0.51, "Mostly")]
)
def test_how_far_an_attack_gets_is_said_in_words(value, words):
    assert three_answers(audit_of(finding(value=value)))[0].sentence.startswith(words)


def test_nothing_measured_or_a_required_attack_left_out_is_not_decided():
    k_anonymous = manifest()["guarantee"] | {"model": "k-anonymity", "k": 9}
    told = manifest(guarantee=k_anonymous)
    assert verdict(told, audit_of()).answer == "Not decided"
    fine = finding(value=0.0, trials=900)
    assert verdict(told, audit_of(fine)).answer == "Yes"
    missing = LeftOut(title="Found by known queries", reason="needs the true owners", required=True)
    assert verdict(told, audit_of(fine, left_out=(missing,))).answer == "Not decided"


def test_a_high_risk_within_its_promise_and_a_small_k_call_for_care():
    nine, two = (manifest(guarantee=manifest()["guarantee"] | {"model": "k-anonymity", "k": k}) for k in (9, 2))
    likely = finding(value=0.49, low=0.45, high=0.5, bound=0.5, trials=900)
    assert verdict(nine, audit_of(likely)).answer == "With care"
    assert "k = 2 is small" in verdict(two, audit_of(finding(value=0.0, trials=900))).reasons[0]

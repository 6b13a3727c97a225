"""Today's rules beside mechanisms: what is tried, and the figures and the page made of it."""

import re

import pytest

from queryveil import mechanisms
from queryveil.audit.finding import Audit
from queryveil.audit.survival import Survival
from queryveil.experiments.comparison import Comparison, Outcome
from queryveil.experiments.policies import RELEASED
from queryveil.experiments.rule_bench import measured
from queryveil.experiments.sweep import Setting, Sweep
from queryveil.report.rules_page import answers, rules_page
from report_toys import finding, utility


def outcome(name, findings, tail, kind="rule", model="none", **parameters):
    promise = {"model": model, "unit": "user", "epsilon": 1.0, "delta": 1e-8}
    audit = Audit(released={"guarantee": promise}, findings=tuple(findings))
    setting = Setting(kind=kind, name=name, parameters=parameters, label=name)
    kept = Survival(volume=0.5, distinct=0.4, head=0.9, torso=0.2, tail=tail)
    return Outcome(setting=setting, seconds=1.0, records=10, audit=audit, survival=kept)


@pytest.fixture
def found():
    return Comparison(
        (
            outcome(
                "commission",
                [
                    finding(key="found-1", value=0.3, trials=500),
                    finding(key="found-2", value=0.9, low=0.5, high=1.0, trials=9),  # too few
                    finding(key="known-pair", value=0.35, chance=0.01),
                    finding(key="known-name", value=0.05, chance=0.01),
                    finding(key="tied-by-words", value=0.1, chance=0.01),
                    finding(key="tied-by-all", value=0.2, chance=0.01),
                    utility(key="language", value=0.6),
                ],
                tail=0.05,
            ),
            outcome(
                "counterproposal", [finding(key="found-1", value=0.8), utility(key="language", value=1.0)], tail=0.9
            ),
            outcome("console", [utility(key="language", value=0.2)], tail=0.0),
            outcome(
                mechanisms.names()[0], [utility(key="language", value=0.4)], 0.01, kind="mechanism", model="approx-dp"
            ),
        )
    )


def test_every_rule_is_tried_beside_settings_that_a_mechanism_declares():
    sweep = Sweep.beside_rules()
    assert [setting.name for setting in sweep.only("rule")] == list(RELEASED)
    declared = [name for name in mechanisms.names() if hasattr(mechanisms.load(name), "beside_rules")]
    assert {setting.name for setting in sweep.only("mechanism")} == set(declared)
    assert [setting.parameters["epsilon"] for setting in sweep.only("mechanism")] == [1.0, 2.0, 4.0, 8.0]


def test_the_figures_are_the_worst_of_enough_trials(found):
    rows = {row.label: row for row in measured(found)}
    commission, lasting, counts = rows["commission"], rows["counterproposal"], rows["console"]
    assert (commission.found_share, commission.tied_share, commission.exposed) == (0.3, 0.2, 0.35)
    assert not commission.one_name_lasts
    assert (lasting.found_share, lasting.tied_share, lasting.one_name_lasts) == (0.8, 1.0, True)
    assert (counts.found, counts.exposed, counts.one_name_lasts) == (None, 0.0, False)


def test_the_answers_say_which_rule_keeps_and_which_protects(found):
    assert answers(measured(found)) == [
        (
            "Keeps most",
            "counterproposal: 90 % of rare queries. It exposes 80 % of the people in it to somebody who knows one to "
            "five of their queries, with all they asked.",
        ),
        (
            "Protects",
            "console: no attack tried here finds anybody; none of the rare queries is kept, and at most 20 % is "
            "learned of how other people word theirs.",
        ),
        (
            "Between",
            "commission keeps 5 % of rare queries and exposes 35 % of all people to somebody who knows two queries "
            "that they asked in a row, with a part of what they asked.",
        ),
        (
            "Beside the rules",
            "suppress, made-up queries of made-up people, with a promise to each real person (ε = 1, δ = 1e-08 for all "
            "of their records together: odds about them change by a factor of at most 3): no attack tried here finds "
            "anybody; 40 % is learned of how other people word their queries; as typed, 1 % of rare and 90 % of "
            "frequent ones are kept.",
        ),
    ]
    quiet = Comparison(tuple(one for one in found.outcomes if one.setting.name == "console"))
    (only,) = answers(measured(quiet))
    assert only == ("Keeps most", "console: 0 % of rare queries. No attack tried here finds anybody.")
    assert answers([]) == [("Nothing", "no rule could be tried.")]


def test_the_page_says_what_it_was_measured_on_and_whose_rules_these_are(found):
    page = rules_page(found, subject="log")
    assert "Measured on one log." in page and "No legal conclusion" in page
    assert "draft measures of April 2026" in page and "nobody" in page


def test_everybody_may_see_the_page_on_a_synthetic_log(found):
    page = rules_page(found, subject="made up", edition="synthetic")
    assert "about nobody" in page and "for the holder only" not in page and "findings.csv" not in page
    assert "for the holder only" in rules_page(found, subject="log")


def test_the_page_has_every_rule_with_its_words_and_three_pictures(found):
    page = rules_page(found, subject="a <b>log</b>")
    assert "<b>log" not in page
    assert page.count("<figure>") == 3
    assert len(re.findall(r"<figcaption>[^<]{40,}</figcaption>", page)) == 3
    assert "5 (assumed) words" in page and "36 (assumed) users" in page
    assert "nothing formal" in page and "no legal conclusion" in page
    assert "one name for each person" in page and "nobody is behind a name" in page
    assert page.count("<strong>") >= 4


def test_a_setting_that_could_not_be_tried_is_named(found):
    broken = Outcome(setting=Setting(kind="rule", name="console", label="broken"), seconds=0.0, problem="it is empty")
    page = rules_page(Comparison((*found.outcomes, broken)), subject="log")
    assert "broken could not be tried: it is empty" in page

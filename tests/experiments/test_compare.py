"""Comparisons: sweeps, resuming, tables, the frontier, advice."""

import json
import stat
from dataclasses import replace
from typing import ClassVar

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal
from pytest import approx

from queryveil import mechanisms
from queryveil.audit.attacks import residue
from queryveil.audit.measure import tasks
from queryveil.audit.verdict import verdict
from queryveil.errors import ParameterError, RefusedError, UsageError
from queryveil.experiments import advise as advise_module
from queryveil.experiments import compare as module
from queryveil.experiments.advise import CHOSEN_BY_LOOKING, advise
from queryveil.experiments.compare import compare, quick_first
from queryveil.experiments.comparison import Comparison, Outcome
from queryveil.experiments.policies import RULES
from queryveil.experiments.sweep import Setting, Sweep
from queryveil.log.identifying import merged
from queryveil.log.synthetic import synth
from queryveil.mechanisms import make
from queryveil.privacy import Noise
from queryveil.report.comparison_page import best_settings, comparison_page, write_comparison
from report_toys import audit_of, finding, manifest, utility

SMALL = {
    "seed": 3,
    "mechanism": [{"name": "suppress", "k_text": [2, 5]}],
    "rule": [{"name": "frequency", "k": 5, "label": "five times"}],
}


@pytest.fixture(scope="module")
def log():
    return merged(synth(users=60, records=1500))


# --- sweeps


def test_a_list_means_each_of_its_values():
    sweep = Sweep.of({"mechanism": [{"name": "suppress", "k_text": [2, 5], "time": ["day", "drop"]}]})
    assert [setting.label for setting in sweep.settings] == [
        "suppress k_text=2 time=day",
        "suppress k_text=2 time=drop",
        "suppress k_text=5 time=day",
        "suppress k_text=5 time=drop",
    ]
    assert sweep.settings[1].made() == make("suppress", k_text=2, time="drop")


def test_a_label_of_its_own_names_only_what_varies():
    sweep = Sweep.of({"rule": [{"name": "noisy-threshold", "label": "noisy", "epsilon": 1.0, "contribution": [1, 2]}]})
    assert [setting.label for setting in sweep.settings] == ["noisy contribution=1", "noisy contribution=2"]


def test_the_usual_sweep_tries_every_mechanism_and_every_kind_of_rule():
    usual = Sweep.usual()
    assert {setting.name for setting in usual.only("mechanism")} >= set(mechanisms.BUILT_IN)
    assert {setting.name for setting in usual.only("rule")} == set(RULES)
    glance = usual.at_a_glance()
    names = [setting.name for setting in glance.only("mechanism")]
    assert len(names) == len(set(names))
    assert glance.only("rule") == usual.only("rule")


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ({}, "tries nothing"),
        ({"mechanisms": []}, "unknown: mechanisms"),
        ({"mechanism": {"name": "suppress"}}, r"\[\[mechanism\]\]"),
        ({"mechanism": [{"k_text": 3}]}, "needs a name"),
        ({"mechanism": [{"name": "surpress"}]}, "no mechanism of that name"),
        ({"mechanism": [{"name": "suppress", "k_txt": 3}]}, "no parameter k_txt"),
        ({"mechanism": [{"name": "suppress", "k_text": [3, 1]}]}, "k_text must be"),
        ({"rule": [{"name": "nonsense"}]}, "no rule of that name"),
        ({"seed": "one", "rule": [{"name": "frequency"}]}, "seed must be"),
        ({"rule": [{"name": "frequency", "label": "x"}, {"name": "frequency", "label": "x"}]}, "same label"),
    ],
)
def test_a_sweep_is_checked_before_any_work_starts(content, told):
    with pytest.raises((UsageError, ParameterError), match=told):
        Sweep.of(content)


def test_a_sweep_file_that_cannot_be_read_is_told(tmp_path):
    with pytest.raises(UsageError, match="cannot read"):
        Sweep.read(tmp_path / "missing.toml")
    (tmp_path / "bad.toml").write_text("seed = = 1")
    with pytest.raises(UsageError, match="is not TOML"):
        Sweep.read(tmp_path / "bad.toml")


# --- running


@pytest.mark.soak
def test_every_mechanism_and_rule_can_be_compared(log, tmp_path):
    glance = Sweep.usual().at_a_glance()
    found = compare(log, tmp_path / "c", glance)
    assert [outcome.setting.label for outcome in found.outcomes] == [setting.label for setting in glance.settings]
    assert not [outcome.setting.label for outcome in found.outcomes if outcome.problem]


def test_a_comparison_keeps_tables_for_its_owner_alone(log, tmp_path):
    found = compare(log, tmp_path / "c", Sweep.of(SMALL))
    for name in ("settings", "findings"):
        table = pl.read_parquet(tmp_path / "c" / f"{name}.parquet")
        assert table.height == pl.read_csv(tmp_path / "c" / f"{name}.csv").height > 0
        assert stat.S_IMODE((tmp_path / "c" / f"{name}.csv").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "c").stat().st_mode) == 0o700
    loose, strict, _ = found.outcomes
    assert loose.survival.volume > strict.survival.volume


def test_a_comparison_that_was_stopped_goes_on_where_it_was(log, tmp_path, monkeypatch):
    real, calls = module.measured, []

    def stop_at_the_second(setting, raw, seed):
        calls.append(setting.label)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return real(setting, raw, seed)

    monkeypatch.setattr(module, "measured", stop_at_the_second)
    with pytest.raises(KeyboardInterrupt):
        compare(log, tmp_path / "c", Sweep.of(SMALL))
    again = compare(log, tmp_path / "c", Sweep.of(SMALL))
    assert calls == ["suppress k_text=2", "suppress k_text=5", "suppress k_text=5", "five times"]
    monkeypatch.undo()
    fresh = compare(log, tmp_path / "fresh", Sweep.of(SMALL))
    assert_frame_equal(again.settings.drop("seconds"), fresh.settings.drop("seconds"))
    assert_frame_equal(again.findings, fresh.findings)  # sums over threads differ in the last digit


def test_another_log_another_seed_or_a_damaged_result_is_tried_anew(log, tmp_path):
    first = compare(log, tmp_path / "c", Sweep.of(SMALL))
    other = compare(synth(users=60, records=1500, seed=2), tmp_path / "c", Sweep.of(SMALL))
    reseeded = compare(log, tmp_path / "c", Sweep.of(SMALL | {"seed": 4}))
    for path in (tmp_path / "c" / "runs").iterdir():
        path.write_text(path.read_text()[:-5])
    damaged = compare(log, tmp_path / "c", Sweep.of(SMALL))
    for found in (first, other, reseeded, damaged):
        assert not any(outcome.from_before for outcome in found.outcomes)
    told = []
    again = compare(log, tmp_path / "c", Sweep.of(SMALL), on_outcome=told.append)
    assert [outcome.from_before for outcome in told] == [True] * 3
    assert again.outcomes == tuple(told)  # kept ones come in the order of the sweep


def test_two_processes_give_the_same_table_as_one_and_tell_how_far_each_setting_is(log, tmp_path):
    told = []
    one = compare(log, tmp_path / "one", Sweep.of(SMALL))
    two = compare(log, tmp_path / "two", Sweep.of(SMALL), workers=2, on_progress=lambda *heard: told.append(heard))
    assert_frame_equal(two.settings.drop("seconds"), one.settings.drop("seconds"))
    assert_frame_equal(two.findings, one.findings)
    assert [o.audit.context for o in two.outcomes] == [o.audit.context for o in one.outcomes]
    assert {setting.label for setting, _, _ in told} == {setting.label for setting in Sweep.of(SMALL).settings}


class Slow:
    """A mechanism that takes long, by its own word."""

    effort: ClassVar[float] = 1e9


class Silent:
    """A mechanism that does not say how long it takes."""


def test_quick_mechanisms_are_tried_first_and_the_table_keeps_the_order_of_the_sweep(log, tmp_path):
    sweep = Sweep.of(
        {
            "mechanism": [{"name": "microaggregate", "k": 3}, {"name": "suppress", "k_text": [2, 5]}],
            "rule": [{"name": "frequency"}],
        }
    )
    came = []
    found = compare(log, tmp_path / "c", sweep, on_outcome=lambda outcome: came.append(outcome.setting.label))
    assert came == ["suppress k_text=2", "suppress k_text=5", "microaggregate k=3", "frequency"]
    assert [outcome.setting for outcome in found.outcomes] == list(sweep.settings)


def test_who_declares_no_effort_comes_in_the_middle(monkeypatch):
    kinds = {"slow": Slow, "silent": Silent, "suppress": mechanisms.load("suppress")}
    monkeypatch.setattr(mechanisms, "load", kinds.__getitem__)
    settings = [Setting(kind="mechanism", name=name, label=name) for name in kinds]
    assert [setting.name for setting in quick_first(iter(settings))] == ["suppress", "silent", "slow"]


def test_every_mechanism_of_ours_declares_its_effort():
    assert all(mechanisms.load(name).effort >= 1 for name in mechanisms.BUILT_IN)


def test_each_setting_tells_what_is_done_with_it_and_how_far_that_is(log, tmp_path):
    told = []
    compare(log, tmp_path / "c", Sweep.of(SMALL), on_progress=lambda *heard: told.append(heard))
    for setting in Sweep.of(SMALL).settings:
        mine = [(what, share) for one, what, share in told if one == setting]
        assert mine[0] == ("protecting", 0.0)
        shares = [share for what, share in mine if what == "attacking and measuring"]
        assert shares == sorted(shares)
        assert shares
        assert 0 < shares[0] <= 1


def test_what_depends_on_the_log_alone_is_made_once_for_all_settings(log, tmp_path, monkeypatch):
    searched, real = [], residue.identifiers
    monkeypatch.setattr(
        residue, "identifiers", lambda both, released: searched.append(released) or real(both, released=released)
    )
    compare(log, tmp_path / "c", Sweep.of(SMALL))
    assert searched.count(False) == 1
    assert searched.count(True) == 3


def test_a_setting_that_the_log_does_not_allow_is_an_outcome_too(log, tmp_path):
    sweep = Sweep.of({"mechanism": [{"name": "stream", "category_column": "no such column"}, {"name": "suppress"}]})
    found = compare(log, tmp_path / "c", sweep)
    failed, worked = found.outcomes
    assert failed.problem
    assert failed.risk is None
    assert worked.risk is not None
    assert found.settings["problem"].to_list()[1] is None
    assert "could not be tried" in comparison_page(found, subject="log.csv", sweep=sweep)
    assert any("could not be tried" in reason for reason in advise(found, task="frequency", max_risk=1.0).reasons)


def test_results_never_go_into_a_release_or_over_something_else(log, tmp_path):
    release = make("suppress", k_text=2).protect(log, Noise.secure()).write(tmp_path / "release")
    with pytest.raises(RefusedError):
        compare(log, release / "c", Sweep.of(SMALL))
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("years of work")
    with pytest.raises(UsageError, match="something else"):
        compare(log, tmp_path / "mine", Sweep.of(SMALL))


def test_the_page_exports_configuration_and_references(log, tmp_path):
    sweep = Sweep.of(SMALL)
    page = write_comparison(compare(log, tmp_path / "c", sweep), tmp_path / "c", subject="my log", sweep=sweep)
    assert stat.S_IMODE(page.stat().st_mode) == 0o600
    assert json.loads((tmp_path / "c" / "configuration.json").read_text())["seed"] == 3
    assert "adar2007user" in (tmp_path / "c" / "references.bib").read_text()
    text = page.read_text()
    for words in ("my log", "Today's rules", "five times", "Frontier by task", "suppress k_text=5"):
        assert words in text


# --- utility, frontier, advice


def outcome(label, risk, kept, *, kind="mechanism", records=10, found=None):
    findings = found or (utility(key="v", value=kept, raw=1.0), utility(key="p", topic="profiles", value=kept))
    setting = Setting(kind=kind, name="suppress" if kind == "mechanism" else "frequency", label=label)
    return Outcome(setting=setting, seconds=0.0, records=records, audit=audit_of(finding(value=risk), *findings))


def test_a_measure_that_a_setting_has_no_ground_for_counts_as_nothing_kept():
    everyone = utility(key="all", topic="topics", value=0.2, unit="distance", better="lower")
    person = utility(key="person", topic="topics", value=0.4, unit="distance", better="lower")
    both, one = outcome("both", 0.1, 0, found=(everyone, person)), outcome("one", 0.1, 0, found=(everyone,))
    found = Comparison((both, one))
    assert found.utility(both) == {"topics": approx(0.7)}
    assert found.utility(one) == {"topics": approx(0.4)}


def test_an_empty_release_is_good_for_nothing():
    found = Comparison((outcome("empty", 0.0, 0.9, records=0), outcome("full", 0.5, 0.5)))
    assert found.utility(found.outcomes[0]) == {"volume": 0.0, "profiles": 0.0}
    assert [o.setting.label for o in found.frontier("volume")] == ["full"]


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=12))
def test_the_frontier_is_who_nobody_beats(places):
    outcomes = tuple(outcome(f"{i}", risk / 10, kept / 10) for i, (risk, kept) in enumerate(places))
    best = {int(o.setting.label) for o in Comparison(outcomes).frontier("volume")}
    for i, (risk, kept) in enumerate(places):
        beaten = any(r <= risk and k >= kept and (r, k) != (risk, kept) for r, k in places)
        assert (i in best) != beaten


@given(
    st.lists(st.tuples(st.integers(0, 10), st.integers(0, 10), st.booleans()), min_size=1, max_size=8),
    st.integers(0, 10),
)
def test_advice_is_the_most_useful_mechanism_within_the_risk(places, limit):
    outcomes = tuple(
        outcome(f"{i}", risk / 10, kept / 10, kind="mechanism" if ours else "rule")
        for i, (risk, kept, ours) in enumerate(places)
    )
    advice = advise(Comparison(outcomes), task="volume", max_risk=limit / 10)
    allowed = [(kept, -risk) for risk, kept, ours in places if ours and risk <= limit and kept]
    if not allowed:
        assert advice.chosen is None
        return
    risk, kept, _ = places[int(advice.chosen.setting.label)]
    assert (kept, -risk) == max(allowed)


def test_advice_says_why_and_what_it_was_weighed_against():
    outcomes = (outcome("useful", 0.4, 0.9), outcome("middling", 0.04, 0.5), outcome("strict", 0.01, 0.2))
    advice = advise(Comparison(outcomes), task="volume", max_risk=0.05)
    told = " ".join(advice.reasons)
    assert advice.chosen.setting.label == "middling"
    assert "Of 3 settings tried, 2 may be published and keep every attack at 5 % or below" in told
    assert "May it be published? With care. Publish only where the points below are acceptable." in told
    assert "middling keeps most for volume: 50 %" in told
    assert "Next would be strict" in told
    assert "useful would keep more (90 % of what the raw log gives), but “An attack” gets 40 %" in told
    assert "No formal guarantee" in told


def test_advice_of_differential_privacy_says_that_the_choice_looked_at_the_log():
    dp = replace(outcome("dp", 0.01, 0.9), setting=Setting(kind="mechanism", name="sanitize", label="dp"))
    assert CHOSEN_BY_LOOKING in advise(Comparison((dp,)), task="volume", max_risk=0.05).reasons
    plain = advise(Comparison((outcome("plain", 0.01, 0.9),)), task="volume", max_risk=0.05)
    assert CHOSEN_BY_LOOKING not in plain.reasons


def test_where_nothing_meets_the_risk_the_least_risky_is_named():
    advice = advise(Comparison((outcome("a", 0.4, 0.9), outcome("b", 0.3, 0.1))), task="volume", max_risk=0.05)
    assert advice.chosen is None
    assert "The least risky is b: “An attack” gets 30 %" in " ".join(advice.reasons)


def test_a_task_is_found_by_a_part_of_its_name_only_where_that_is_clear():
    found = Comparison((outcome("a", 0.01, 0.9),))
    assert advise(found, task="prof", max_risk=0.05).chosen is not None
    with pytest.raises(UsageError, match="volume, profiles"):
        advise(found, task="cooking", max_risk=0.05)
    with pytest.raises(ParameterError, match="max_risk must be"):
        advise(found, task="volume", max_risk=5)


def test_paper_mode_and_broken_promises_are_never_advised():
    released = manifest(mode="paper")
    paper = replace(outcome("paper", 0.0, 1.0), audit=replace(outcome("x", 0.0, 1.0).audit, released=released))
    sound = outcome("sound", 0.01, 0.2)
    wrong = finding(value=0.02, bound=0.01)
    broken = replace(outcome("broken", 0.0, 0.9), audit=audit_of(wrong, utility(value=0.9)))
    advice = advise(Comparison((paper, broken, sound)), task="volume", max_risk=0.05)
    assert advice.chosen is sound
    told = " ".join(advice.reasons)
    assert (
        "Never to be published: broken. An attack: 2 %, promised at most 1 %. The promise does not allow this." in told
    )
    assert "Never to be published: paper. It reproduces a publication (paper mode)" in told
    for alone in (paper, broken):
        advice = advise(Comparison((alone,)), task="volume", max_risk=0.05)
        assert (advice.chosen, advice.reasons[0]) == (None, "No setting that was tried may be published.")


def test_the_seed_of_a_trial_does_not_speak_against_its_setting():
    seeded = replace(outcome("s", 0.01, 0.5).audit, released=manifest(noise={"mode": "seeded", "publishable": False}))
    assert verdict(seeded.released, seeded).answer == "No"
    assert replace(outcome("s", 0.01, 0.5), audit=seeded).verdict.answer == "With care"


def test_what_is_not_decided_is_advised_only_where_nothing_else_is_and_the_advice_says_why():
    few = finding(value=0.0, low=0.0, high=0.1, trials=30, successes=0)
    unsure = replace(outcome("unsure", 0.0, 1.0), audit=audit_of(few, utility(key="v", value=1.0, raw=1.0)))
    sound, risky = outcome("sound", 0.01, 0.2), outcome("risky", 0.4, 0.3)
    assert (unsure.risk, unsure.verdict.answer) == (0.0, "Not decided")
    advice = advise(Comparison((unsure, sound)), task="volume", max_risk=0.05)
    assert advice.chosen is sound
    told = " ".join(advice.reasons)
    assert "Not decided whether to be published: unsure. The attacks were tried on too few to say." in told
    assert "0 of 30 trials" in told
    alone = advise(Comparison((unsure, risky)), task="volume", max_risk=0.05)
    told = " ".join(alone.reasons)
    assert alone.chosen is unsure
    assert "though for none of them it is decided whether it may be published" in alone.reasons[0]
    assert "May it be published? Not decided. The attacks were tried on too few to say." in told
    assert "Its risk: “An attack”: too few to say: 0 of 30 trials" in told  # and no "at most" of what is only certain
    assert "; not decided whether it may be published)" in best_settings(Comparison((unsure, risky)))["volume"]


def test_an_empty_release_is_never_advised():
    empty = replace(outcome("empty", 0.0, 0.0, records=0).audit, context={"released": {"records": 0}})
    advice = advise(Comparison((replace(outcome("empty", 0.0, 1.0), audit=empty),)), task="volume", max_risk=1.0)
    assert advice.chosen is None
    assert "Never to be published: empty. It is empty: there is nothing to publish." in advice.reasons


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"task": "cooking", "max_risk": 0.05}, "no task of that name. Choose one of topic profiles, query frequency"),
        ({"task": "retrieval", "max_risk": 0.05}, "no task of that name"),  # needs documents, which a sweep has not
        ({"task": "frequency", "max_risk": 2}, "max_risk must be"),
        ({"task": "cooking", "max_risk": 2}, "no task of that name(.|\n)*max_risk must be"),
    ],
)
def test_a_request_is_checked_before_anything_is_tried(log, monkeypatch, given, told):
    monkeypatch.setattr(advise_module, "compare", lambda log: pytest.fail("the sweep was started"))
    with pytest.raises(ParameterError, match=told):
        advise(log, **given)


def test_a_task_that_nothing_was_measured_for_is_told_after_the_sweep():
    advice = advise(Comparison((outcome("a", 0.01, 0.9),)), task="query suggestion", max_risk=0.05)
    assert (advice.chosen, advice.reasons[0]) == (None, "Nothing could be measured for query suggestion on this log.")


def test_the_tasks_that_are_known_beforehand_are_those_that_a_comparison_finds(tmp_path):
    found = compare(synth(users=60, records=1500), tmp_path / "c", Sweep.of({"mechanism": [{"name": "suppress"}]}))
    assert set(found.tasks()) <= set(tasks())
    assert len(found.tasks()) > 3


def test_utility_lies_between_what_knows_nothing_and_the_raw_log():
    half = utility(key="h", topic="halves", value=0.6, chance=0.2, raw=1.0)
    noise = utility(key="h", topic="halves", value=0.2, chance=0.2, raw=1.0)
    found = Comparison((outcome("half", 0.1, 0, found=(half,)), outcome("noise", 0.1, 0, found=(noise,))))
    assert [found.utility(o)["halves"] for o in found.outcomes] == [approx(0.5), approx(0.0)]


def test_a_sweep_never_touches_the_state_of_real_releases(tmp_path):
    with pytest.raises(UsageError, match="Leave it out"):
        Sweep.of({"mechanism": [{"name": "microaggregate", "state": str(tmp_path / "groups")}]})

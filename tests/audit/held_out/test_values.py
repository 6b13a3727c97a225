"""Held-out people in audits and comparisons: who they are, and what happens without them or with the wrong ones."""

from dataclasses import replace

import polars as pl
import pytest

from queryveil.audit import auditing
from queryveil.audit.auditing import audit, described
from queryveil.audit.context import AuditContext
from queryveil.audit.held_out.judgement import NEEDS_JUDGES, JudgedByOthers
from queryveil.audit.held_out.judging import MOST_JUDGES, _some
from queryveil.audit.held_out.splitting import check_apart, hold_out
from queryveil.audit.held_out.values import held_out_values
from queryveil.audit.measure import measures
from queryveil.audit.measures.autocomplete import Autocomplete
from queryveil.audit.measures.language import Language
from queryveil.audit.raw_side import RawSide
from queryveil.errors import DataError, ParameterError
from queryveil.experiments.compare import compare
from queryveil.experiments.sweep import Sweep
from queryveil.log import QueryLog
from queryveil.log.identifying import merged
from queryveil.log.synthetic import synth
from queryveil.mechanisms import make
from queryveil.privacy import Noise

JUDGED = [measure for measure in measures() if isinstance(measure, JudgedByOthers)]


@pytest.fixture(scope="module")
def split():
    return hold_out(synth(users=240, records=6000, seed=5), 0.25)


def values(context, measure):
    return {item.key: item.judgement for item in measure.judged(context)}


def context_of(raw, release, judges):
    return AuditContext(original=raw, released=release, manifest={}, secrets=None, held_out=judges)


# --- who judges


def test_people_are_kept_aside_whole_by_their_ids_alone(split):
    seen, aside = split
    check_apart(seen, aside)
    assert len(seen) + len(aside) == 6000 and 35 <= aside.user_count() <= 85
    reversed_log = QueryLog(synth(users=240, records=6000, seed=5).frame.reverse().with_columns(query=pl.lit("x")))
    again = hold_out(reversed_log, 0.25)[1]
    assert sorted(again.users()) == sorted(aside.users())


def test_ids_that_may_be_one_person_stay_on_one_side():
    log = QueryLog.of([(name, "weather") for n in range(200) for name in (f"ann{n}", f"ANN{n} ")])
    check_apart(*hold_out(log, 0.3))
    with pytest.raises(DataError):
        check_apart(QueryLog.of([("ann", "weather")]), QueryLog.of([(" ANN", "storm")]))


@pytest.mark.parametrize("share", [-0.1, 0.6, float("nan"), True])
def test_no_more_than_half_of_the_people_are_kept_aside(share):
    with pytest.raises(ParameterError, match="hold_out"):
        hold_out(QueryLog.of([("ann", "weather")]), share)


def test_of_many_judges_some_are_asked_the_same_every_time():
    log = QueryLog.of([(f"u{n}", "weather") for n in range(MOST_JUDGES + 500)])
    chosen = _some(log)
    assert chosen.user_count() == MOST_JUDGES
    assert _some(QueryLog(log.frame.reverse())).users().equals(chosen.users())


# --- audits


@pytest.fixture
def judged_only(monkeypatch):
    """Audits that run no other parts."""
    monkeypatch.setattr(auditing, "parts", lambda: JUDGED)


def test_without_held_out_people_nothing_is_said_and_the_reason_follows_from_the_settings(split, judged_only):
    found = audit(split[0], split[0])
    missing = {item.title: item for item in found.left_out if item.reason == NEEDS_JUDGES}
    assert set(missing) == {measure.title for measure in JUDGED}
    assert all(item.by_settings and not item.required for item in missing.values())


def test_whoever_was_seen_cannot_judge(split):
    seen, aside = split
    one_of_them = QueryLog(pl.concat([aside.frame, seen.frame.head(1)]))
    with pytest.raises(DataError, match=r"1 of \d+ held-out users have an id of the original"):
        audit(seen, seen, held_out=one_of_them)
    with pytest.raises(DataError):
        held_out_values(seen, {"raw": seen}, one_of_them)


@pytest.mark.parametrize("measure", [Language(), Autocomplete()], ids=lambda measure: measure.key)
def test_a_twin_that_asks_the_people_it_saw_overstates_what_is_taught_about_others(split, measure):
    """Half of the people are released as they are. Judged by themselves their release predicts far better: of 60 judges
    the honest figure lies outside the twin's by more than a third of the gap between floor and ceiling."""
    seen, aside = split
    known = seen.users().head(60)
    shown = QueryLog(seen.frame.filter(pl.col("user").is_in(known.implode())))
    [honest] = values(context_of(seen, shown, aside), measure).values()
    [twin] = values(context_of(seen, shown, shown), measure).values()
    assert twin.value > 0.95 and honest.value < twin.value - 0.1
    overstated = (honest.release - twin.release) if measure.key == "language" else (twin.release - honest.release)
    assert overstated > abs(honest.ceiling - honest.floor) / 3


def test_an_audit_tells_the_same_as_the_function_for_benchmarks(split, judged_only):
    seen, aside = split
    release = make("suppress", k_text=3).protect(seen, Noise.seeded(1))
    told = held_out_values(seen, {"suppressed": release, "raw": seen}, aside)
    assert set(told["raw"]) >= {"language", "autocomplete", "next-words", "next-class", "head-recall", "topics-others"}
    assert all(found.value == 1 for found in told["raw"].values())
    found = {item.key: item for item in audit(seen, release, held_out=aside).utilities()}
    for key, judged in told["suppressed"].items():
        assert found[key].value == min(1, max(0, judged.value))
        assert found[key].low <= found[key].value <= found[key].high
        assert (found[key].raw, found[key].chance, found[key].trials) == (1.0, 0.0, judged.judges)


def test_a_published_model_speaks_for_its_release_and_its_log_for_itself(split):
    seen, aside = split
    release = make("distill", epsilon=8.0).protect(seen, Noise.seeded(1))
    broken = {name: table.head(1) for name, table in release.tables.items()}
    raw, manifest, told = RawSide(seen, aside), described(release), {}
    for name, tables in {"model": release.tables, "broken": broken, "log": {}}.items():
        context = replace(context_of(seen, release.log, aside), manifest=manifest, tables=tables, raw=raw)
        told[name] = values(context, Language())["language"]
    assert told["model"].value > told["log"].high
    assert told["broken"] == told["log"]  # what cannot be read is not believed


def test_a_release_folder_brings_its_tables(split, tmp_path, monkeypatch):
    seen, aside = split
    release = make("distill", epsilon=8.0, users=30).protect(seen, Noise.secure())
    monkeypatch.setattr(auditing, "parts", lambda: [Language()])
    for released in (release, release.write(tmp_path / "release")):
        [found] = audit(seen, released, held_out=aside).utilities()
        assert "the model that it publishes" in found.explanation


# --- comparisons

TWO = {"mechanism": [{"name": "suppress", "k_text": 3}], "rule": [{"name": "frequency", "k": 5}]}


def test_every_setting_is_judged_by_the_same_people_who_are_in_no_release():
    log = merged(synth(users=240, records=6000, seed=5))
    found = compare(log, sweep=Sweep.of(TWO), hold_out=0.25)
    contexts = [outcome.audit.context for outcome in found.outcomes]
    assert contexts[0]["held_out"] == contexts[1]["held_out"]
    assert contexts[0]["held_out"]["users"] + contexts[0]["original"]["users"] == 240
    assert {"language", "autocomplete"} <= set(found.tasks())
    assert all(0 < found.utility(outcome)["language"] < 1 for outcome in found.outcomes)


def test_a_small_log_keeps_everybody_and_other_judges_are_other_results(tmp_path):
    log = merged(synth(users=60, records=900, seed=6))
    sweep = Sweep.of({"rule": [{"name": "frequency", "k": 5}]})
    alone = compare(log, tmp_path / "c", sweep)
    assert "held_out" not in alone.outcomes[0].audit.context
    others = QueryLog(synth(users=30, records=900, seed=7).frame.with_columns(user="other " + pl.col("user")))
    judged = compare(log, tmp_path / "c", sweep, held_out=others)
    assert not judged.outcomes[0].from_before and judged.outcomes[0].audit.context["held_out"]["users"] == 30
    assert compare(log, tmp_path / "c", sweep, held_out=others).outcomes[0].from_before
    with pytest.raises(DataError):
        compare(log, tmp_path / "c", sweep, held_out=log)


def test_what_depends_on_the_raw_log_and_the_judges_alone_is_made_once(split):
    seen, aside = split
    raw = RawSide(seen, aside)
    one, two = (replace(context_of(seen, seen, aside), raw=raw).judging for _ in range(2))
    assert one.raw is two.raw and one.judges is two.judges and one.released is not two.released

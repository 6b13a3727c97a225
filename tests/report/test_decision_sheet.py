"""The decision sheet: what it says, that it says it twice, and that a decision is signed and limits are enforced."""

import json
import re
from dataclasses import replace

import pytest

from queryveil import mechanisms
from queryveil.audit.auditing import audit as audited
from queryveil.audit.before_after import pairs
from queryveil.audit.finding import NOBODY_BEHIND, Audit, LeftOut
from queryveil.audit.verdict import three_answers
from queryveil.audit.worst_case import about_nobody
from queryveil.errors import RefusedError, UsageError, VerificationError
from queryveil.log import QueryLog
from queryveil.mechanisms import make
from queryveil.privacy import Noise
from queryveil.release.decision import decision_in_words, is_refused
from queryveil.release.manifest import verify
from queryveil.report.approval import decide
from queryveil.report.decision_sheet import decision_sheet, promises
from queryveil.report.page import internal_folder, internal_sheet, write_report
from report_toys import audit_of, finding, manifest, utility


def contents(**shares):
    return [utility(key=f"contents-{name}", topic="contents", value=share) for name, share in shares.items()]


def test_a_sheet_tells_limit_contents_promise_and_use_in_ten_lines():
    seen = finding(key="s", question="singling out", value=0.5, low=0.4, high=0.6, trials=200, successes=100)
    rare = finding(key="i", question="inference", value=0.0, low=0.0, high=0.01, trials=300, successes=0)
    task = utility(value=0.5, raw=1.0, chance=0.0)
    sheet = decision_sheet(audit_of(seen, rare, task, *contents(typed=0.072, label=0.928)))
    assert sheet.above
    assert [line.above for line in sheet.measured] == [True, False]
    text = sheet.lines()
    assert len(text) <= 10
    assert "The limit is 5 in 100 for any attack; above it: singling out." in text
    assert "A recipient gets: 92.8 % labels, 7.2 % texts as typed." in text
    assert any("of 200 tried, 100; at most 60 in 100" in line for line in text)
    assert any("of 300 tried, none; at most 1 in 100" in line for line in text)


def test_texts_of_a_made_up_release_that_were_asked_are_told_to_be_no_records():
    log = QueryLog.of([("ann", "weather"), ("bob", "my rash")])
    released = QueryLog.of([("x", "weather"), ("x", "guitar"), ("y", "weather"), ("y", "maps")])
    made_up = audit_of(*contents(synthetic=1.0))
    sheet = internal_sheet(made_up, original=log, released=released)
    assert sheet.also_asked == sum(text == "weather" for text in released.frame["query"]) / 4 == 0.5
    assert any("50 % hold a text that is in the log too. They are nobody's records" in line for line in sheet.lines())
    assert len(sheet.lines()) <= 10
    apart = internal_sheet(made_up, original=QueryLog.of([("ann", "my rash")]), released=released)
    assert apart.coincidences == ""
    typed = internal_sheet(audit_of(*contents(typed=1.0)), original=log, released=released)
    assert (typed.also_asked, typed.coincidences) == (None, "")


def test_a_stated_purpose_stands_on_the_sheet():
    audit = audit_of()
    told = replace(audit, released=dict(audit.released) | {"purpose": "for a partner's spelling model"})
    assert "purpose" not in decision_sheet(audit).lines()[0]
    assert decision_sheet(told).lines()[0].endswith("Its purpose: for a partner's spelling model")


def test_the_limit_is_the_holders():
    seen = finding(question="singling out", value=0.08, low=0.07, high=0.09, trials=900, successes=72)
    assert decision_sheet(audit_of(seen), max_risk=0.05).above
    assert not decision_sheet(audit_of(seen), max_risk=0.1).above
    with pytest.raises(UsageError, match="max_risk"):
        decision_sheet(audit_of(seen), max_risk=1.5)


def test_a_promise_per_query_says_what_a_person_has_of_it():
    mechanism = make("semantic", epsilon=10.0, per="query", domain="disease")
    told = {
        "mechanism": mechanism.name,
        "mode": mechanism.mode,
        "parameters": {"epsilon": 10.0, "per": "query", "domain": "disease"},
        "guarantee": mechanism.guarantee().as_dict(),
    }
    person, query = promises(told)
    assert query.startswith("ε = 10 for each query: odds about them change by a factor of at most 22,027")
    assert "grows with every query" in person or "promises a person nothing" in person


def test_pairs_are_of_the_same_record_where_owners_are_known_and_texts_change():
    log = QueryLog.of([(f"u{i}", f"text {i % 7}") for i in range(40)])
    changed = QueryLog.of([(f"p{i}", f"other {i % 7}") for i in range(40)])
    shown = pairs(log, changed, owners=log.frame["user"])
    assert len(shown) == len({pair.before for pair in shown}) == 5  # no text twice, however frequent it is
    assert all(pair.same_record and pair.after == pair.before.replace("text", "other") for pair in shown)
    assert not any(pair.same_record for pair in pairs(log, changed))


def test_where_texts_stay_as_typed_it_is_shown_what_was_withheld():
    log = QueryLog.of([(f"u{i}", f"text {i % 7}") for i in range(40)] + [("ann", "my rash")])
    protected = make("suppress", k_text=2).protect(log, Noise.seeded(1))
    shown = pairs(log, protected.log, owners=protected.owners)
    assert ("my rash", "withheld") in [(pair.before, pair.after) for pair in shown]
    assert not any(pair.same_record for pair in shown)


@pytest.fixture
def released(tmp_path):
    log = QueryLog.of([(f"u{i}", text) for i in range(30) for text in ("weather", "news", f"rare {i % 9}")])
    release = make("suppress", k_text=3).protect(log, Noise.secure())
    folder = release.write(tmp_path / "release")
    return log, release, folder


def reported(released, *findings, **options):
    log, release, folder = released
    audit = audited(log, release) if not findings else audit_of(*findings, **verify(folder).manifest)
    write_report(audit, folder, original=log, released=release.log, editions=["internal"], **options)
    return folder


def test_the_same_release_has_the_same_sheet_twice(released):
    folder = reported(released)
    internal = internal_folder(folder)
    first = {name: (internal / name).read_bytes() for name in ("sheet.json", "sheet.html", "report.html")}
    reported(released)
    assert first == {name: (internal / name).read_bytes() for name in first}


def harmless():
    return [
        finding(key=question, question=question, value=0.0, low=0.0, high=0.01, trials=400, successes=0)
        for question in ("singling out", "linkability", "inference")
    ]


def test_a_decision_is_signed_and_shown(released):
    folder = reported(released, *harmless())
    made = decide(folder, "approve", internal=internal_folder(folder), name="Ada Holder")
    assert decision_in_words(verify(folder).manifest) == f"Approved by Ada Holder on {made.date}."
    assert "Approved by Ada Holder" in (internal_folder(folder) / "sheet.html").read_text()
    kept = json.loads((internal_folder(folder) / "decision.json").read_text())
    assert re.fullmatch("[0-9a-f]{64}", kept["sheet_sha256"])
    assert "sheet_sha256" not in json.dumps(verify(folder).manifest)  # a digest of exact figures could be guessed


@pytest.mark.parametrize("change", [("Ada", "Eve"), ("Approved", "x"), ("approve", "refuse")])
def test_a_changed_word_does_not_verify(released, change):
    folder = reported(released, *harmless())
    decide(folder, "approve", internal=internal_folder(folder), name="Ada", reason="Approved by the board")
    path = folder / "manifest.json"
    changed = path.read_text().replace(*change)
    assert changed != path.read_text()
    path.write_text(changed)
    with pytest.raises(VerificationError):
        verify(folder)


def test_above_the_limit_a_reason_is_needed(released):
    seen = finding(question="singling out", value=0.5, low=0.4, high=0.6, trials=400, successes=200)
    folder = reported(released, seen, *harmless()[1:])
    internal = internal_folder(folder)
    with pytest.raises(RefusedError, match="write down why"):
        decide(folder, "approve", internal=internal, name="Ada")
    assert "decision" not in verify(folder).manifest
    made = decide(folder, "approve", internal=internal, name="Ada", reason="for the court")
    assert "for the court" in made.in_words


def test_what_must_not_be_published_cannot_be_approved_and_may_be_refused(released):
    broken = finding(question="inference", value=0.9, low=0.8, high=1.0, bound=0.1, trials=400, successes=360)
    folder = reported(released, broken)
    internal = internal_folder(folder)
    with pytest.raises(RefusedError, match="cannot be approved"):
        decide(folder, "approve", internal=internal, name="Ada", reason="all the same")
    with pytest.raises(UsageError, match="why it is refused"):
        decide(folder, "refuse", internal=internal, name="Ada")
    decide(folder, "refuse", internal=internal, name="Ada", reason="the promise is broken")
    assert verify(folder).manifest["decision"]["decision"] == "refuse"


def test_a_decision_needs_an_audit_of_this_very_release(released, tmp_path):
    log, _, folder = released
    with pytest.raises(RefusedError, match="Audit it first"):
        decide(folder, "approve", internal=internal_folder(folder), name="Ada")
    reported(released, *harmless())
    other = make("suppress", k_text=4).protect(log, Noise.secure()).write(tmp_path / "other")
    with pytest.raises(RefusedError, match="another release"):
        decide(other, "approve", internal=internal_folder(folder), name="Ada")


def test_conditions_belong_to_an_approval_with_conditions(released):
    folder = reported(released, *harmless())
    internal = internal_folder(folder)
    with pytest.raises(UsageError, match="conditions belong"):
        decide(folder, "approve with conditions", internal=internal, name="Ada")
    with pytest.raises(UsageError, match="one of approve"):
        decide(folder, "perhaps", internal=internal, name="Ada")
    made = decide(folder, "approve with conditions", internal=internal, name="Ada", conditions="it stays in house")
    assert "Conditions: it stays in house" in made.in_words


def test_a_public_report_keeps_the_decision_and_the_other_way_round(released):
    log, release, folder = released
    reported(released, *harmless())
    decide(folder, "approve", internal=internal_folder(folder), name="Ada")
    write_report(audited(log, release), folder, original=log, released=release.log, editions=["public"])
    found = verify(folder).manifest
    assert found["decision"]["name"] == "Ada"
    assert found["report"]["file"] == "report.html"
    decide(folder, "refuse", internal=internal_folder(folder), name="Ben", reason="changed my mind")
    assert (folder / "report.html").is_file()
    found = verify(folder).manifest
    assert found["decision"]["name"] == "Ben"
    assert [one["name"] for one in found["earlier_decisions"]] == ["Ada"]
    assert decision_in_words(found).startswith("Refused by Ben on ")
    assert "Before that: Approved by Ada on " in decision_in_words(found)
    assert is_refused(found)


def test_what_cannot_be_tried_is_not_said_to_be_within_the_limit():
    nobody = LeftOut(title="Found by 1 known query", reason=NOBODY_BEHIND)
    singled = finding(key="uniqueness-1", value=1.0, question="singling out")
    audit = Audit(released=manifest(), findings=(singled,), left_out=(nobody,))
    assert about_nobody(audit) == [singled]
    assert {line.standing for line in decision_sheet(audit).measured} == {"not to be tried"}
    assert "made up" in three_answers(audit)[0].sentence


def test_every_mechanism_has_a_line_for_a_person_and_for_a_query():
    for name in mechanisms.names():
        described = manifest(mechanism=name)
        assert all(promises(described))

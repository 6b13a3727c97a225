"""Ids that are written alike, all the way from the file to ledger, manifest and audit."""

import dataclasses

import polars as pl
import pytest

from queryveil.audit.auditing import audit, read_release
from queryveil.errors import (
    ParameterError,
    RefusedError,
)
from queryveil.log import QueryLog, read, write
from queryveil.log.synthetic import synth
from queryveil.mechanisms.microaggregate import Microaggregate
from queryveil.mechanisms.sanitize import Sanitize
from queryveil.mechanisms.suppress import Suppress
from queryveil.privacy import Ledger, Noise
from queryveil.privacy import ledger as ledger_module
from queryveil.privacy.guarantee import ABOUT_SIMILAR_IDS
from queryveil.release import pipeline, secrets
from queryveil.release.manifest import verify
from queryveil.release.release import Release
from toy_mechanisms import RandomisedResponse

ALIKE = ["ann", "ann ", "ANN", "a\u200bnn", "ａｎｎ"]


@pytest.mark.parametrize("listed", [*ALIKE, "Ann\t", "\u00adann"])
def test_opting_out_takes_every_way_of_writing_an_id_along(tmp_path, listed):
    write(QueryLog.of([(user, "weather") for user in [*ALIKE, "bob", "anna"]]), tmp_path / "log.csv")
    (tmp_path / "out.txt").write_text(f"{listed}\nnobody\n  \n")
    source = pipeline.Source(path=tmp_path / "log.csv", exclude_users=tmp_path / "out.txt")
    log, report, unknown = pipeline.read_source(source)
    assert log.users().to_list() == ["anna", "bob"]
    assert unknown == 1
    assert any("5" in note and "ann" not in note for note in report.notes)


def written_log(folder, *users):
    path = folder / "log.csv"
    write(QueryLog.of([(user, "weather") for user in users]), path)
    return path


def test_ids_written_alike_are_one_person_unless_they_are_declared_different(tmp_path):
    source = pipeline.Source(path=written_log(tmp_path, *ALIKE, "bob"))
    three = Suppress(k_text=3)
    assert len(pipeline.dry_run(three, source, Noise.secure()).release.log) == 0
    assert len(pipeline.dry_run(Suppress(k_text=2), source, Noise.secure()).release.log) == 6
    different = dataclasses.replace(source, similar_ids="different")
    assert len(pipeline.dry_run(three, different, Noise.secure()).release.log) == 6
    paper = Suppress(k_text=3, mode="paper")
    assert len(pipeline.dry_run(paper, source, Noise.secure()).release.log) == 6
    same = dataclasses.replace(source, similar_ids="same")
    assert len(pipeline.dry_run(paper, same, Noise.secure()).release.log) == 0
    (tmp_path / "out.txt").write_text("ann\n")
    without = dataclasses.replace(source, exclude_users=tmp_path / "out.txt")
    outcome = pipeline.dry_run(three, without, Noise.secure())
    assert (outcome.unknown_users, outcome.kept) == (0, 0.0)
    with pytest.raises(ParameterError, match="similar_ids"):
        pipeline.dry_run(three, dataclasses.replace(source, similar_ids="refuse"), Noise.secure())


@pytest.mark.parametrize("declared", ["same", "different", None])
@pytest.mark.parametrize("mechanism", [Suppress(k_text=2), RandomisedResponse(), Sanitize()])
def test_whether_a_similar_id_is_in_the_log_decides_nothing(tmp_path, mechanism, declared):
    """Somebody who registers as ALICE learns nothing about alice from an exit code, a debit or a missing release."""
    seen = []
    for name, victim in (("in", "alice@example.org"), ("out", "carol@example.org")):
        (tmp_path / name).mkdir()
        users = ["ALICE@example.org", victim, *(f"user {number}" for number in range(9))]
        source = pipeline.Source(path=written_log(tmp_path / name, *users), similar_ids=declared)
        ledger = Ledger.create(tmp_path / name / "l.db", epsilon=10, delta=0.1)
        target = pipeline.Target(folder=tmp_path / name / "release", ledger=ledger.path)
        pipeline.release(mechanism, source, target, Noise.secure())
        manifest = verify(target.folder).manifest
        seen.append((manifest["similar_ids"], manifest["guarantee"], ledger.remaining(), ledger.entries()["model"][0]))
    assert seen[0] == seen[1]
    assert seen[0][0] == (declared or "same")


@pytest.mark.parametrize("twin", ["ann", "ANN", "eve"])
def test_each_id_is_read_alike_whoever_else_is_in_the_log(tmp_path, twin):
    log, _, _ = pipeline.read_source(
        pipeline.Source(path=written_log(tmp_path, twin, "Bob", "\u200b", "user 7 ", "Ann"))
    )
    assert log.frame["user"].to_list()[1:] == ["bob", "\u200b", "user 7", "ann"]
    assert log.similar_ids == "same"


def test_what_is_assumed_about_similar_ids_is_in_the_manifest_and_the_statement(tmp_path):
    told = {}
    for declared in ("same", "different"):
        source = pipeline.Source(path=written_log(tmp_path, "ann", "ANN", "bob"), similar_ids=declared)
        target = pipeline.Target(folder=tmp_path / declared, secrets=tmp_path / f"{declared}.secrets")
        pipeline.release(Suppress(k_text=2), source, target, Noise.secure())
        manifest = verify(target.folder).manifest
        assert manifest["similar_ids"] == declared
        assert ABOUT_SIMILAR_IDS[declared] in manifest["guarantee"]["assumptions"]
        assert ABOUT_SIMILAR_IDS[declared] in manifest["guarantee"]["statement"]
        told[declared] = secrets.read(target.secrets)
    assert {name: set(known.owners) for name, known in told.items()} == {
        "same": {"ann", "bob"},
        "different": {"ann", "ANN", "bob"},
    }
    assert [known.original["users"] for known in told.values()] == [2, 3]


def test_an_audit_takes_ids_as_the_release_did(tmp_path):
    rows = [(user, f"text {number % 5}") for number in range(60) for user in (f"Person {number % 9}", "person 1 ")]
    write(QueryLog.of(rows), tmp_path / "log.csv")
    original, users = read(tmp_path / "log.csv"), {"same": 9, "different": 10}
    for declared, count in users.items():
        source = pipeline.Source(path=tmp_path / "log.csv", similar_ids=declared)
        target = pipeline.Target(folder=tmp_path / declared, secrets=tmp_path / f"{declared}.secrets")
        pipeline.release(Suppress(k_text=2), source, target, Noise.secure())
        released, manifest = read_release(target.folder)
        known = secrets.read(target.secrets)
        found = audit(original, released, manifest=manifest, secrets=known)
        assert found.context["original"]["users"] == count
        assert found.context["similar_ids"] == declared
        again = audit(original, released, secrets=known)  # the log alone, without its manifest
        assert again.context["original"]["users"] == count
    one, other = (read_release(tmp_path / declared)[0] for declared in users)
    known = [secrets.read(tmp_path / f"{declared}.secrets") for declared in users]
    for first, second, mine, theirs in ((one, other, *known), (other, one, *reversed(known))):
        both = audit(original, first, secrets=mine, other=second, other_secrets=theirs)
        assert both.context["original"]["users"] == 9  # people of both can only be told where ids are merged in both


def test_an_id_of_the_original_is_found_among_the_released_ones_however_it_is_written(tmp_path):
    source = pipeline.Source(path=written_log(tmp_path, "Ann", "bob"))
    for shown in (pl.col("user"), pl.col("user").str.to_uppercase(), pl.col("user") + " "):

        class ShowsIds(RandomisedResponse):
            def protect(self, log, noise, shown=shown):
                frame = log.frame.with_columns(shown)
                return Release.of(self, QueryLog(frame), noise=noise, columns={"user": "kept", "query": "kept"})

        with pytest.raises(RefusedError, match="user id of the original"):
            pipeline.release(ShowsIds(), source, pipeline.Target(folder=tmp_path / "release"), Noise.secure())


def test_people_have_one_budget_however_their_ids_are_written_and_whatever_is_declared(tmp_path):
    ledger = Ledger.create(tmp_path / "l.db", epsilon=2.5 * float(RandomisedResponse().charge().epsilon))
    spent = [
        (["Ann", "bob"], "same", 0),
        (["ANN", "eve"], "different", 0),
        (["ann", "ANN", "Bob"], "different", 2),
        (["aNN", "BOB"], None, 2),
    ]
    for number, (users, declared, left_out) in enumerate(spent):
        source = pipeline.Source(path=written_log(tmp_path, *users), similar_ids=declared)
        target = pipeline.Target(folder=tmp_path / f"{number}", ledger=ledger.path)
        outcome = pipeline.release(RandomisedResponse(), source, target, Noise.secure())
        assert outcome.left_out == left_out
    assert len(outcome.release.log) == 0  # nobody has any left: an empty log is released, and not refused
    assert ledger.verify() == []


def test_a_ledger_that_knows_ids_as_they_were_written_does_not_pay_for_merged_people(tmp_path, monkeypatch):
    with monkeypatch.context() as earlier:
        earlier.setattr(ledger_module, "SCHEMA_VERSION", 1)
        ledger = Ledger.create(tmp_path / "l.db", epsilon=10)
    target = pipeline.Target(folder=tmp_path / "release", ledger=ledger.path)
    with pytest.raises(RefusedError, match="as they are written"):  # before the log is read: there is none
        pipeline.release(RandomisedResponse(), pipeline.Source(path=tmp_path / "none"), target, Noise.secure())
    source = pipeline.Source(path=written_log(tmp_path, "Ann", "bob"), similar_ids="different")
    assert Ledger(ledger.path).person("Ann") != Ledger(ledger.path).person("ann")
    assert pipeline.release(RandomisedResponse(), source, target, Noise.secure()).ledger_entry
    nobody_pays = pipeline.Target(folder=tmp_path / "free", ledger=ledger.path)
    assert pipeline.release(Suppress(k_text=2), pipeline.Source(path=source.path), nobody_pays, Noise.secure())


def test_groups_that_were_kept_with_ids_as_they_are_are_not_used_for_merged_people(tmp_path):
    log = synth(users=30, records=600, seed=1).frame.with_columns(pl.col("user").str.to_uppercase())
    write(QueryLog(log), tmp_path / "log.csv")
    mechanism = Microaggregate(k=3, k_text=2, state=str(tmp_path / "groups.json"))
    source = pipeline.Source(path=tmp_path / "log.csv", similar_ids="different")
    pipeline.release(mechanism, source, pipeline.Target(folder=tmp_path / "one"), Noise.secure())
    for number, declared in enumerate(("same", None)):
        other = dataclasses.replace(source, similar_ids=declared)
        with pytest.raises(RefusedError, match="people would change groups"):
            pipeline.release(mechanism, other, pipeline.Target(folder=tmp_path / f"{number}"), Noise.secure())
    pipeline.release(mechanism, source, pipeline.Target(folder=tmp_path / "two"), Noise.secure())

"""From file to folder: the right order, nobody charged twice for nothing, and whole releases whatever kills them."""

import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import polars as pl
import pytest

from queryveil import mechanisms
from queryveil.audit.auditing import audit, read_release
from queryveil.errors import (
    BudgetError,
    FormatError,
    ParameterError,
    RefusedError,
    UsageError,
    VerificationError,
)
from queryveil.log import QueryLog, read, write
from queryveil.log.synthetic import synth
from queryveil.mechanisms import make
from queryveil.mechanisms.microaggregate import Microaggregate
from queryveil.mechanisms.sanitize import Sanitize
from queryveil.mechanisms.suppress import Suppress
from queryveil.privacy import Charge, Ledger, Noise
from queryveil.privacy import ledger as ledger_module
from queryveil.privacy.guarantee import ABOUT_SIMILAR_IDS, FIXED_PARAMETERS
from queryveil.release import pipeline, secrets
from queryveil.release.manifest import verify
from queryveil.release.release import Release
from queryveil.testing import sample_log
from toy_mechanisms import RandomisedResponse

STEPS = [
    "checked",
    "log read",
    "ledger debited",
    "protected",
    "secrets written",
    "log written",
    "manifest written",
    "signed",
    "in place",
]


@pytest.fixture
def log_file(tmp_path):
    path = tmp_path / "log.jsonl"
    write(sample_log(), path)
    return path


def run(mechanism, log_file, tmp_path, name="release", **places):
    target = pipeline.Target(folder=tmp_path / name, **places)
    steps = []
    outcome = pipeline.release(mechanism, pipeline.Source(path=log_file), target, Noise.secure(), steps.append)
    return outcome, steps


def test_the_steps_come_in_the_order_the_privacy_argument_needs(log_file, tmp_path):
    ledger = Ledger.create(tmp_path / "l.db", epsilon=1)
    outcome, steps = run(
        RandomisedResponse(epsilon=0.1), log_file, tmp_path, ledger=ledger.path, secrets=tmp_path / "s"
    )
    assert steps == STEPS
    manifest = verify(outcome.folder).manifest
    assert manifest["ledger"] == ledger.entries()["id"][0]
    original = secrets.read(tmp_path / "s").original
    assert original["records"] == len(sample_log())
    assert len(original["sha256"]) == 64


def test_the_release_keeps_the_format_it_came_in_unless_told_otherwise(log_file, tmp_path):
    outcome, _ = run(Suppress(k_text=2), log_file, tmp_path)
    assert (outcome.folder / "log.jsonl").is_file()
    outcome, _ = run(Suppress(k_text=2), log_file, tmp_path, name="other", format="parquet")
    assert read(outcome.folder / "log.parquet") == outcome.release.log


def test_people_whose_budget_is_spent_are_left_out_of_the_release(log_file, tmp_path):
    ledger = Ledger.create(tmp_path / "l.db", epsilon=1)
    mechanism = RandomisedResponse(epsilon=1.0)
    part = tmp_path / "part.jsonl"
    write(QueryLog(sample_log().frame.head(20)), part)
    run(mechanism, part, tmp_path, name="first", ledger=ledger.path)
    outcome, _ = run(mechanism, log_file, tmp_path, name="second", ledger=ledger.path)
    present = QueryLog(sample_log().frame.head(20)).user_count()
    assert outcome.left_out == present
    assert outcome.release.log.user_count() == sample_log().user_count() - present


def test_a_spent_dataset_is_refused_whole_before_anything_is_written(log_file, tmp_path):
    ledger = Ledger.create(tmp_path / "l.db", epsilon=1)
    ledger.debit(Charge.dataset(epsilon=1), mechanism="earlier")
    with pytest.raises(BudgetError):
        run(RandomisedResponse(epsilon=0.1), log_file, tmp_path, ledger=ledger.path)
    assert not (tmp_path / "release").exists()


def test_excluded_users_are_gone_before_anything_is_counted(log_file, tmp_path):
    excluded = tmp_path / "optout.txt"
    excluded.write_text("person-0\r\nperson-1\n\nperson-99\n", encoding="utf-8-sig")
    source = pipeline.Source(path=log_file, exclude_users=excluded)
    log, _, unknown = pipeline.read_source(source)
    assert {"person-0", "person-1"}.isdisjoint(log.users())
    assert log.user_count() == 10
    assert unknown == 1
    excluded.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="one user id a line"):
        pipeline.read_source(source)


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


@pytest.mark.parametrize(
    "mechanism",
    [
        Sanitize(epsilon=2.0),
        make("semantic", epsilon=8.0, per="query", domain="disease", criterion="nsqc"),
        Suppress(k_text=2),
    ],
    ids=lambda mechanism: mechanism.name,
)
def test_a_release_whose_parameters_were_chosen_on_the_log_says_so(log_file, tmp_path, mechanism):
    claims = FIXED_PARAMETERS in mechanism.guarantee().assumptions
    assert claims is (mechanism.name != "suppress")
    told = {}
    for chooser in ("holder", "advise", "compare"):
        target = pipeline.Target(folder=tmp_path / chooser)
        source = pipeline.Source(path=log_file)
        outcome = pipeline.release(mechanism, source, target, Noise.secure(), chosen_by=chooser)
        looked = pipeline.dry_run(mechanism, source, Noise.secure(), chosen_by=chooser)
        assert looked.release.statement() == outcome.release.statement()
        told[chooser] = verify(target.folder).manifest
        assert told[chooser]["parameters_chosen_by"] == chooser
    assert (FIXED_PARAMETERS in told["holder"]["guarantee"]["statement"]) is claims
    for chooser in ("advise", "compare"):
        promise = told[chooser]["guarantee"]
        assert FIXED_PARAMETERS not in promise["assumptions"]
        assert "fixed without looking" not in json.dumps(promise)
        assert f"chosen by {chooser}" in promise["statement"] or not claims
        assert len(promise["assumptions"]) == len(told["holder"]["guarantee"]["assumptions"])
        assert any(f"{chooser} tried settings on this very log" in thing for thing in promise["not_protected"])
        assert promise["not_protected"][-1] in promise["statement"]


def test_nobody_else_chooses_parameters(log_file, tmp_path):
    with pytest.raises(ParameterError, match="chosen_by must be"):
        pipeline.release(
            Suppress(),
            pipeline.Source(path=tmp_path / "none"),
            pipeline.Target(folder=tmp_path / "r"),
            Noise.secure(),
            chosen_by="somebody",
        )


def test_what_can_be_refused_is_refused_before_the_log_is_read(tmp_path):
    missing = tmp_path / "missing.tsv"
    (tmp_path / "there").mkdir()
    noise = Noise.secure()
    for target, error in [
        (pipeline.Target(folder=tmp_path / "there"), UsageError),
        (pipeline.Target(folder=tmp_path / "new", secrets=tmp_path / "new" / "s"), RefusedError),
        (pipeline.Target(folder=tmp_path / "new", ledger=tmp_path / "none.db"), UsageError),
    ]:
        with pytest.raises(error):
            pipeline.release(Suppress(), pipeline.Source(path=missing), target, noise)
    with pytest.raises((UsageError, FormatError)):
        pipeline.release(Suppress(), pipeline.Source(path=missing), pipeline.Target(folder=tmp_path / "new"), noise)


class ForgetsPseudonyms(RandomisedResponse):
    def protect(self, log, noise):
        return Release.of(self, log, noise=noise, columns={"user": "kept", "query": "kept"})


class ChargesNothing(RandomisedResponse):
    def charge(self):
        return Charge.nothing()


def test_a_mechanism_that_forgets_pseudonyms_or_its_price_is_stopped_at_the_door(log_file, tmp_path):
    with pytest.raises(RefusedError, match="user id of the original"):
        run(ForgetsPseudonyms(), log_file, tmp_path, secrets=tmp_path / "s")
    with pytest.raises(RefusedError, match="charges less"):
        run(ChargesNothing(), log_file, tmp_path)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["log.jsonl"]


def test_a_blocklist_is_refused_where_it_would_break_the_promise(log_file, tmp_path):
    blocked = tmp_path / "blocked.txt"
    blocked.write_text("animal\n")
    source = pipeline.Source(path=log_file, block_categories=blocked)
    target = pipeline.Target(folder=tmp_path / "r")
    with pytest.raises(RefusedError, match="drops records by their text"):
        pipeline.release(RandomisedResponse(), source, target, Noise.secure())
    with pytest.raises(RefusedError, match="drops records by their text"):
        pipeline.dry_run(RandomisedResponse(), source, Noise.secure())
    with pytest.raises(RefusedError, match="drops records by their text"):  # pays nothing, and promises for words
        pipeline.release(make("obfuscate", mechanism="tem", epsilon=1.0), source, target, Noise.secure())
    assert pipeline.release(Suppress(k_text=2), source, target, Noise.secure()).folder == tmp_path / "r"


def test_a_format_that_cannot_hold_the_release_is_refused_before_budget_is_spent(log_file, tmp_path):
    ledger = Ledger.create(tmp_path / "l.db", epsilon=1)
    for output in ("access", "ubi"):
        with pytest.raises(UsageError, match="needs times"):
            run(RandomisedResponse(epsilon=0.1), log_file, tmp_path, ledger=ledger.path, format=output)
    with pytest.raises(ParameterError, match="format must be one of"):
        run(RandomisedResponse(epsilon=0.1), log_file, tmp_path, ledger=ledger.path, format="xml")
    assert ledger.entries().height == 0


def test_a_release_that_fails_while_written_takes_its_secrets_with_it(log_file, tmp_path):
    def fail(step):
        if step == "signed":
            raise OSError("disk full")

    target = pipeline.Target(folder=tmp_path / "release", secrets=tmp_path / "s")
    with pytest.raises(OSError, match="disk full"):
        pipeline.release(Suppress(k_text=2), pipeline.Source(path=log_file), target, Noise.secure(), fail)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["log.jsonl"]


def test_the_encoding_is_passed_on(tmp_path):
    path = tmp_path / "latin.csv"
    path.write_bytes("user,query\na,caf\xe9\nb,caf\xe9\n".encode("latin-1"))
    log, _, _ = pipeline.read_source(pipeline.Source(path=path, encoding="latin-1"))
    assert log.queries() == ["café", "café"]


def test_a_dry_run_spends_and_writes_nothing(log_file, tmp_path):
    before = sorted(tmp_path.iterdir())
    outcome = pipeline.dry_run(Suppress(k_text=2), pipeline.Source(path=log_file), Noise.secure())
    assert 0 < outcome.kept < 1
    assert sorted(tmp_path.iterdir()) == before


# --- kill tests


@pytest.fixture(scope="module")
def zygote():
    """Makes releases in processes of their own."""
    script = Path(__file__).with_name("release_zygote.py")
    process = subprocess.Popen([sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with process:  # at the end its input is closed, and it ends
        yield process


@pytest.fixture
def killed(zygote, log_file, tmp_path):
    """Make a release with a number in a process that is killed when a step ends, or after a while; its exit status."""

    def killed(number: int, *, step: str = "never", seconds: float = 0) -> int:
        places = {
            "log": str(log_file),
            "folder": str(tmp_path / f"release-{number}"),
            "ledger": str(tmp_path / "l.db"),
            "secrets": str(tmp_path / f"secrets-{number}"),
            "keys": os.environ["QUERYVEIL_KEYS"],
        }
        zygote.stdin.write(json.dumps({**places, "step": step, "seconds": seconds}) + "\n")
        zygote.stdin.flush()
        return json.loads(zygote.stdout.readline())["status"]

    return killed


def check_nothing_broke(ledger: Ledger, tmp_path: Path) -> None:
    """No budget overspent, every visible release whole and paid for, everything unfinished refused."""
    assert ledger.verify() == []
    paid = set(ledger.entries()["id"])
    for folder in tmp_path.glob("release-*"):
        assert verify(folder).manifest["ledger"] in paid
    for unfinished in tmp_path.glob(".release-*"):
        try:
            verify(unfinished)
        except VerificationError:
            continue
        manifest = json.loads((unfinished / "manifest.json").read_text())  # whole, only not yet renamed
        assert manifest["ledger"] in paid


@pytest.mark.parametrize("times", [2, pytest.param(50, marks=pytest.mark.soak)])
@pytest.mark.parametrize("step", STEPS)
def test_killed_when_a_step_ends(step, times, killed, tmp_path):
    affordable = 20
    ledger = Ledger.create(tmp_path / "l.db", epsilon=affordable * 0.1)
    debited = STEPS.index(step) >= STEPS.index("ledger debited")
    for number in range(times):
        refused = debited and number >= affordable  # whose budget was wasted by kills cannot be asked again
        assert killed(number, step=step) == (1 if refused else -signal.SIGKILL)
        check_nothing_broke(ledger, tmp_path)
    assert ledger.entries().height == (min(times, affordable) if debited else 0)
    assert len(list(tmp_path.glob("release-*"))) == (min(times, affordable) if step == "in place" else 0)


@pytest.mark.parametrize("times", [12, pytest.param(200, marks=pytest.mark.soak)])
def test_killed_at_any_moment(times, killed, tmp_path):
    ledger = Ledger.create(tmp_path / "l.db", epsilon=2.0)
    moments = random.Random(7)
    outcomes = set()
    for number in range(times):
        # Where a release is in place after so many seconds depends on the machine: halve or double to stay around it.
        seconds = moments.uniform(0.005, 0.25) if number % 2 else moments.uniform(0.02, 0.06)
        outcomes.add(killed(number, seconds=seconds))
        check_nothing_broke(ledger, tmp_path)
    assert -signal.SIGKILL in outcomes
    assert outcomes <= {-signal.SIGKILL, 0, 1}  # killed, done, or refused for what earlier kills wasted


# Logs of nothing


EVERY_MECHANISM = [
    ("suppress", {}),
    ("microaggregate", {}),
    ("sanitize", {}),
    ("sanitize", {"objective": "frequent"}),
    ("sanitize", {"objective": "diversity"}),
    ("semantic", {"epsilon": 1.0, "per": "query", "domain": "disease"}),
    ("semantic", {"epsilon": 1.0, "per": "user", "domain": "disease"}),
    ("stream", {}),
    ("obfuscate", {"mechanism": "vkr-mhl", "epsilon": 6.0}),
]


def test_every_mechanism_is_tried_on_an_empty_log():
    assert {name for name, _ in EVERY_MECHANISM} == set(mechanisms.names())


@pytest.mark.parametrize("content", ["user,query\n", "user,query\nann\n", ""], ids=["header", "bad line", "no line"])
@pytest.mark.parametrize(("name", "parameters"), EVERY_MECHANISM, ids=str)
def test_a_log_without_a_record_is_released_as_what_it_is(name, parameters, content, tmp_path):
    log = tmp_path / "log.csv"
    log.write_text(content)
    mechanism = make(name, **parameters)
    assert mechanism.mode == "safe"
    assert len(pipeline.dry_run(mechanism, pipeline.Source(path=log), Noise.secure()).release.log) == 0
    ledger = Ledger.create(tmp_path / "l.db", epsilon=100, delta=0.5)
    outcome, _ = run(mechanism, log, tmp_path, ledger=ledger.path, secrets=tmp_path / "s")
    manifest = verify(outcome.folder).manifest
    assert (manifest["output"]["records"], manifest["output"]["users"]) == (0, 0)
    assert read(outcome.folder / "log.csv") == QueryLog.empty()


def test_one_persons_only_line_decides_nothing_about_whether_there_is_a_release(tmp_path):
    """Whatever a person's lines are, bad or good, the log of everybody else is released with and without them."""
    others = "user,query\n" + "".join(f"person {number},weather\n" for number in range(9))
    for number, line in enumerate(("", "ann\n", "ann,\n", "ann,tulips\n", "ann,x,y\n")):
        log = tmp_path / f"{number}.csv"
        for written in (others + line, "user,query\n" + line):
            log.write_text(written)
            outcome, _ = run(Suppress(k_text=2), log, tmp_path, name=f"{number}-{len(written)}")
            assert len(outcome.release.log) == (9 if written.startswith(others) else 0)

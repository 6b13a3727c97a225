"""From file to folder: the right order, nobody charged twice for nothing, and whole releases whatever kills them."""

import errno
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from queryveil import mechanisms
from queryveil.errors import (
    BudgetError,
    DiskError,
    FormatError,
    ParameterError,
    RefusedError,
    UsageError,
    VerificationError,
)
from queryveil.log import QueryLog, read, write
from queryveil.mechanisms import make
from queryveil.mechanisms.sanitize import Sanitize
from queryveil.mechanisms.suppress import Suppress
from queryveil.privacy import Charge, Ledger, Noise
from queryveil.privacy.guarantee import FIXED_PARAMETERS
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


def test_the_ledger_tells_a_run_that_was_stopped_from_one_that_released(log_file, tmp_path):
    ledger = Ledger.create(tmp_path / "l.db", epsilon=1)
    mechanism = RandomisedResponse(epsilon=0.1)

    def stop(step):
        if step == "log written":
            raise KeyboardInterrupt

    target = pipeline.Target(folder=tmp_path / "stopped", ledger=ledger.path)
    with pytest.raises(KeyboardInterrupt):
        pipeline.release(mechanism, pipeline.Source(path=log_file), target, Noise.secure(), stop)
    run(mechanism, log_file, tmp_path, ledger=ledger.path)
    assert ledger.entries()["written"].to_list() == [False, True]


def test_a_purpose_is_published_where_one_is_stated(log_file, tmp_path):
    for name, purpose in (("without", ""), ("with", " for a partner's spelling model ")):
        target = pipeline.Target(folder=tmp_path / name)
        source = pipeline.Source(path=log_file)
        pipeline.release(Suppress(k_text=2), source, target, Noise.secure(), purpose=purpose)
    assert "purpose" not in verify(tmp_path / "without").manifest
    assert verify(tmp_path / "with").manifest["purpose"] == "for a partner's spelling model"
    with pytest.raises(UsageError, match="purpose"):
        pipeline.release(Suppress(k_text=2), source, target, Noise.secure(), purpose="x" * 2001)


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
            raise OSError(errno.ENOSPC, "No space left on device")

    target = pipeline.Target(folder=tmp_path / "release", secrets=tmp_path / "s")
    with pytest.raises(DiskError, match="no room left"):
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
NOISY_NUMBER_OF_USERS = [("distill", {})]
"""Whether anybody is in the log is protected, too: users are drawn by a noisy number of people."""


def test_every_mechanism_is_tried_on_an_empty_log():
    assert {name for name, _ in EVERY_MECHANISM + NOISY_NUMBER_OF_USERS} == set(mechanisms.names())


@pytest.mark.parametrize(("name", "parameters"), NOISY_NUMBER_OF_USERS, ids=str)
def test_a_release_whose_number_of_users_is_noisy_does_not_tell_that_the_log_was_empty(name, parameters, tmp_path):
    log = tmp_path / "log.csv"
    log.write_text("user,query\n")
    outcome, _ = run(make(name, **parameters), log, tmp_path)
    assert verify(outcome.folder).manifest["output"]["users"] >= 1


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

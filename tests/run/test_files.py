"""From file to folder: the right order, nobody charged twice for nothing, and whole releases whatever kills them."""

import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from queryveil.errors import (
    BudgetError,
    FormatError,
    ParameterError,
    RefusedError,
    UsageError,
    VerificationError,
)
from queryveil.log import QueryLog, read, write
from queryveil.mechanisms import make, secrets_file
from queryveil.mechanisms.certificate import verify
from queryveil.mechanisms.mechanism import Release
from queryveil.mechanisms.suppress import SuppressRare
from queryveil.privacy import Charge, Ledger, Noise
from queryveil.run import files
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
    target = files.Target(folder=tmp_path / name, **places)
    steps = []
    outcome = files.release(mechanism, files.Source(path=log_file), target, Noise.secure(), steps.append)
    return outcome, steps


def test_the_steps_come_in_the_order_the_privacy_argument_needs(log_file, tmp_path):
    ledger = Ledger.create(tmp_path / "l.db", epsilon=1)
    outcome, steps = run(
        RandomisedResponse(epsilon=0.1), log_file, tmp_path, ledger=ledger.path, secrets=tmp_path / "s"
    )
    assert steps == STEPS
    manifest = verify(outcome.folder).manifest
    assert manifest["ledger"] == ledger.entries()["id"][0]
    original = secrets_file.read(tmp_path / "s").original
    assert original["records"] == len(sample_log())
    assert len(original["sha256"]) == 64


def test_the_release_keeps_the_format_it_came_in_unless_told_otherwise(log_file, tmp_path):
    outcome, _ = run(SuppressRare(k_text=2), log_file, tmp_path)
    assert (outcome.folder / "log.jsonl").is_file()
    outcome, _ = run(SuppressRare(k_text=2), log_file, tmp_path, name="other", format="parquet")
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
    source = files.Source(path=log_file, exclude_users=excluded)
    log, _, unknown = files.read_source(source)
    assert {"person-0", "person-1"}.isdisjoint(log.users())
    assert log.user_count() == 10
    assert unknown == 1
    excluded.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="one user id a line"):
        files.read_source(source)


ALIKE = ["ann", "ann ", "ANN", "a\u200bnn", "ａｎｎ"]


@pytest.mark.parametrize("listed", [*ALIKE, "Ann\t", "\u00adann"])
def test_opting_out_takes_every_way_of_writing_an_id_along(tmp_path, listed):
    write(QueryLog.of([(user, "weather") for user in [*ALIKE, "bob", "anna"]]), tmp_path / "log.csv")
    (tmp_path / "out.txt").write_text(f"{listed}\nnobody\n  \n")
    source = files.Source(path=tmp_path / "log.csv", exclude_users=tmp_path / "out.txt")
    log, report, unknown = files.read_source(source)
    assert log.users().to_list() == ["anna", "bob"]
    assert unknown == 1
    assert any("5" in note and "ann" not in note for note in report.notes)


def test_ids_that_may_be_one_person_are_refused_in_safe_mode_unless_they_are_different_people(tmp_path):
    write(QueryLog.of([(user, "weather") for user in [*ALIKE, "bob"]]), tmp_path / "log.csv")
    ledger = Ledger.create(tmp_path / "l.db", epsilon=1, delta=0)
    target = files.Target(folder=tmp_path / "release", ledger=ledger.path)
    source = files.Source(path=tmp_path / "log.csv")
    safe = SuppressRare(k_text=2)
    for work in (
        lambda: files.release(safe, source, target, Noise.secure()),
        lambda: files.dry_run(safe, source, Noise.secure()),
    ):
        with pytest.raises(RefusedError, match="5 user ids that differ only") as caught:
            work()
        assert "ann" not in str(caught.value)
        assert caught.value.exit_code == 3
    assert not (tmp_path / "release").exists()
    different = files.Source(path=tmp_path / "log.csv", similar_ids="different")
    assert len(files.release(safe, different, target, Noise.secure()).release.log) == 6
    assert len(files.dry_run(SuppressRare(k_text=2, mode="paper"), source, Noise.secure()).release.log) == 6
    (tmp_path / "out.txt").write_text("ann\n")
    without = files.Source(path=tmp_path / "log.csv", exclude_users=tmp_path / "out.txt")
    assert files.dry_run(safe, without, Noise.secure()).unknown_users == 0


def test_what_can_be_refused_is_refused_before_the_log_is_read(tmp_path):
    missing = tmp_path / "missing.tsv"
    (tmp_path / "there").mkdir()
    noise = Noise.secure()
    for target, error in [
        (files.Target(folder=tmp_path / "there"), UsageError),
        (files.Target(folder=tmp_path / "new", secrets=tmp_path / "new" / "s"), RefusedError),
        (files.Target(folder=tmp_path / "new", ledger=tmp_path / "none.db"), UsageError),
    ]:
        with pytest.raises(error):
            files.release(SuppressRare(), files.Source(path=missing), target, noise)
    with pytest.raises((UsageError, FormatError)):
        files.release(SuppressRare(), files.Source(path=missing), files.Target(folder=tmp_path / "new"), noise)


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
    source = files.Source(path=log_file, block_categories=blocked)
    target = files.Target(folder=tmp_path / "r")
    with pytest.raises(RefusedError, match="drops records by their text"):
        files.release(RandomisedResponse(), source, target, Noise.secure())
    with pytest.raises(RefusedError, match="drops records by their text"):
        files.dry_run(RandomisedResponse(), source, Noise.secure())
    with pytest.raises(RefusedError, match="drops records by their text"):  # pays nothing, and promises for words
        files.release(make("obfuscate", mechanism="tem", epsilon=1.0), source, target, Noise.secure())
    assert files.release(SuppressRare(k_text=2), source, target, Noise.secure()).folder == tmp_path / "r"


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

    target = files.Target(folder=tmp_path / "release", secrets=tmp_path / "s")
    with pytest.raises(OSError, match="disk full"):
        files.release(SuppressRare(k_text=2), files.Source(path=log_file), target, Noise.secure(), fail)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["log.jsonl"]


def test_the_encoding_is_passed_on(tmp_path):
    path = tmp_path / "latin.csv"
    path.write_bytes("user,query\na,caf\xe9\nb,caf\xe9\n".encode("latin-1"))
    log, _, _ = files.read_source(files.Source(path=path, encoding="latin-1"))
    assert log.queries() == ["café", "café"]


def test_a_dry_run_spends_and_writes_nothing(log_file, tmp_path):
    before = sorted(tmp_path.iterdir())
    outcome = files.dry_run(SuppressRare(k_text=2), files.Source(path=log_file), Noise.secure())
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

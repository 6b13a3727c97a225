"""The command line as people meet it: results on stdout, messages on stderr, the promised exit codes, never data."""

import dataclasses
import io
import json
import logging
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from bad_files import BAD_FILES
from bad_files import CANARY as CANARY_IN_FILES
from queryveil import mechanisms
from queryveil.cli import console, demo
from queryveil.log import QueryLog, write
from queryveil.mechanisms import make
from queryveil.privacy import Charge, Ledger
from queryveil.progress import tell
from queryveil.release import pipeline
from queryveil.release.manifest import verify
from queryveil.testing import CANARY, sample_log
from waiting import wait_until


@pytest.fixture
def log_file(tmp_path):
    path = tmp_path / "log.jsonl"
    write(sample_log(), path)
    return path


def test_a_newcomers_first_commands_work(run, tmp_path):
    assert run("--version")[:2] == (0, "queryveil 0.1.0\n")
    code, out, _ = run("--help")
    assert code == 0
    for name in ("demo", "synth", "inspect", "plan", "release", "compare", "advise", "ledger", "verify", "doctor"):
        assert f" {name} " in out
    assert run("doctor")[0] == 0


def test_the_tour_finds_somebody_protects_them_and_leaves_signed_releases_and_two_pictures(run, tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "USERS", 150)
    monkeypatch.setattr(demo, "RECORDS", 2500)
    # In this process, which has everything loaded; tests/experiments/test_parallel.py has processes side by side.
    monkeypatch.setattr(demo, "side_by_side", lambda do, jobs, workers: (do(*job) for job in jobs))
    code, out, _ = run("demo", "-o", tmp_path / "tour")
    assert code == 0
    for_logs = [name for name in mechanisms.names() if not hasattr(mechanisms.load(name), "demo_parameters")]
    for name in for_logs:
        assert verify(tmp_path / "tour" / name).manifest["mechanism"] == name
        assert f"{name}: " in out
    assert len(out.splitlines()) <= 60
    for page in ("comparison/report.html", "side-by-side.html"):
        assert str(tmp_path / "tour" / page) in out.replace("\n", "")
        assert (tmp_path / "tour" / page).is_file()


def test_whom_two_queries_find_is_counted_by_pseudonyms_that_hold_both():
    rows = [("u1", f"text {n}") for n in range(10)] + [("u2", "text 0"), ("u2", "text 1"), ("u3", "other")]
    somebody = demo.Somebody.of(QueryLog.of(rows))
    assert (somebody.user, somebody.known) == ("u1", ("text 2", "text 3"))
    assert set(somebody.others) == {f"text {n}" for n in range(10)} - {"text 2", "text 3"}
    assert somebody.found_in(QueryLog.of([("a", "text 2"), ("b", "text 3")])) == "nobody"
    assert somebody.found_in(QueryLog.of([("a", "text 2"), ("a", "text 3")])) == "1 person"
    assert somebody.found_in(QueryLog.of([(user, f"text {n}") for user in "ab" for n in (2, 3)])) == "2 people"


def test_from_synthetic_log_to_verified_release(run, tmp_path):
    log, folder = tmp_path / "log.tsv", tmp_path / "release"
    assert run("synth", "--users", 50, "--records", 500, "-o", log)[0] == 0
    code, out, _ = run("inspect", log, "--json")
    assert (code, json.loads(out)["records"]) == (0, 500)
    assert run("inspect", log)[0] == 0
    code, out, err = run("release", "suppress", log, "--k-text", 2, "-o", folder)
    assert code == 0
    assert "as many records as in the log" in err
    assert "as many records as in the log" not in out
    code, out, _ = run("verify", folder)
    assert code == 0
    assert "whole" in out
    assert json.loads(run("verify", folder, "--json")[1])["whole"] is True
    assert (folder / "log.tsv").is_file()


def test_release_as_json_prints_one_object(run, log_file, tmp_path):
    code, out, _ = run("release", "suppress", log_file, "-o", tmp_path / "r", "--k-text", 2, "--json", "--seed", 1)
    told = json.loads(out)
    assert (code, told["publishable"]) == (0, False)
    assert "NOT FOR PUBLICATION" in told["guarantee"]["statement"]
    assert not verify(tmp_path / "r").manifest["noise"]["publishable"]


def test_plan_needs_no_data_and_says_the_promise(run):
    code, out, _ = run("plan", "suppress", "--k-text", 7)
    assert code == 0
    assert "at least 7 different users" in " ".join(out.split())
    assert json.loads(run("plan", "suppress", "--json")[1])["guarantee"]["model"] == "none"


def test_ledger_from_init_to_verify(run, tmp_path, log_file):
    ledger = tmp_path / "l.db"
    assert run("ledger", "init", ledger, "--epsilon", 2)[0] == 0
    assert run("release", "suppress", log_file, "-o", tmp_path / "r", "--ledger", ledger)[0] == 0
    code, out, _ = run("ledger", "show", ledger)
    assert code == 0
    assert "suppress" in out
    assert json.loads(run("ledger", "show", ledger, "--json")[1])["entries"][0]["mechanism"] == "suppress"
    assert run("ledger", "verify", ledger)[0] == 0
    Ledger(ledger).debit(Charge.dataset(epsilon=1), mechanism="stopped", awaited=True)
    told = run("ledger", "show", ledger)[1].splitlines()
    assert ["no finished release was noted" in line for line in told[:2]] == [False, True]


def test_plan_says_what_a_year_of_releases_costs_and_the_ledger_pays_for_just_that(run, tmp_path):
    code, out, err = run("plan", "distill", "--epsilon", "1", "--times", 52, "--json")
    assert code == 0, err
    together = json.loads(out)["together"]
    assert 6 < together < 8  # plain sums would be 52
    Ledger.create(tmp_path / "year", epsilon=together, delta=1e-6)
    assert times_in(tmp_path / "year", 1.0) == 52
    _, out, _ = run("plan", "distill", "--epsilon", "1", "--times", 52)
    assert "52 of them cost the same people ε = " in out and "ledger init" in out
    _, out, _ = run("plan", "suppress", "--times", 3)
    assert "cost no budget" in out
    code, _, err = run("plan", "distill", "--times", 0)
    assert (code, "times" in err) == (2, True)


def times_in(ledger, epsilon):
    """How many releases a ledger pays for."""
    charge, count = make("distill", epsilon=epsilon).charge(), 0
    ledger = Ledger(ledger)
    while ledger.affords(charge):
        ledger.debit(charge, mechanism="distill", model="approx-dp")
        count += 1
    return count


def test_a_dry_run_ends_as_the_release_would_where_the_ledger_does_not_pay(run, log_file, tmp_path):
    Ledger.create(tmp_path / "poor", epsilon=0.5, delta=1e-6)
    given = ["release", "sanitize", log_file, "--epsilon", "1", "--dry-run", "--ledger"]
    code, _, err = run(*given, tmp_path / "poor")
    assert (code, "does not suffice" in err) == (3, True)
    Ledger.create(tmp_path / "rich", epsilon=5.0, delta=1e-6)
    assert run(*given, tmp_path / "rich")[0] == 0


def test_dry_run_writes_nothing(run, log_file, tmp_path):
    before = sorted(tmp_path.iterdir())
    code, _, err = run("release", "suppress", log_file, "--dry-run", "--k-text", 2)
    assert code == 0
    assert "as many records as in the log" in err
    assert sorted(tmp_path.iterdir()) == before


def test_similar_ids_are_told_by_number_and_are_one_person_unless_told_otherwise(run, tmp_path):
    log, folder, out = tmp_path / "log.csv", tmp_path / "release", tmp_path / "out.txt"
    log.write_text("user,query\nann ,weather\nann,weather\nANN,weather\nbob,weather\neve,weather\n")
    release = ("release", "suppress", log, "--k-text", 4, "-o", folder)
    code, _, messages = run(*release)
    assert (code, folder.exists()) == (0, True)
    assert "invisible characters: 3" in " ".join(messages.split())
    assert "ann" not in messages.lower()
    assert "ids that differ only" in " ".join(run("inspect", log)[2].split())
    kept = {"same": 0, "different": 5}
    for declared, records in kept.items():
        told = run(*release[:-2], "--dry-run", "--json", "--similar-ids", declared)[1]
        assert json.loads(told)["records"] == records
    assert run(*release[:-2], "--dry-run", "--similar-ids", "refuse")[0] == 2
    out.write_text("ann \n")
    code, told, _ = run("release", "suppress", log, "--k-text", 2, "--exclude-users", out, "--dry-run", "--json")
    assert (code, json.loads(told)["records"]) == (0, 2)
    assert json.loads(told)["for_your_eyes_only"]["excluded_users_not_in_the_log"] == 0
    assert len(json.loads(told)["for_your_eyes_only"]["notes"]) == 1


def test_a_dry_run_says_that_it_leaves_the_state_alone(run, log_file, tmp_path):
    before = sorted(tmp_path.iterdir())
    looked = "release", "microaggregate", log_file, "--dry-run", "--k-text", 2
    assert "leaves the state alone" not in run(*looked)[2]
    code, out, err = run(*looked, "--state", tmp_path / "groups.json")
    assert code == 0
    assert "leaves the state alone" in err
    assert "made without this state" not in out  # it is a release without one that is looked at
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["release", "suppress", "LOG"], 2),
        (["release", "suppress", "LOG", "-o", "LOG"], 2),
        (["release", "suppress", "LOG", "-o", "NEW", "--k-text", "1"], 2),
        (["release", "suppress", "LOG", "-o", "NEW", "--k-text", "many"], 2),
        (["release", "suppress", "LOG", "-o", "NEW", "--time", "keep"], 3),
        (["release", "suppress", "LOG", "-o", "NEW", "--secrets", "NEW/s"], 3),
        (["release", "suppress", "LOG", "-o", "NEW", "--columns", "user"], 2),
        (["release", "suppress", "LOG", "-o", "NEW", "--format", "xml"], 2),
        (["release", "suppress", "LOG", "-o", "NEW", "--k-text", "2", "--format", "excite"], 1),
        (["release", "suppress", "LOG", "-o", "NEW", "--ledger", "none.db"], 2),
        (["release", "suppress", "LOG", "-o", "NEW", "--exclude-users", "none.txt"], 2),
        (["release", "suppress", "MISSING", "-o", "NEW"], None),
        (["release", "nonsense", "LOG", "-o", "NEW"], 2),
        (["release"], 2),
        (["plan", "suppress", "--epsilon", "1"], 2),
        (["verify", "NEW"], 2),
        (["verify", "FOLDER"], 1),
        (["ledger", "init", "LOG", "--epsilon", "1"], 2),
        (["ledger", "init", "NEW", "--epsilon", "nan"], 2),
        (["ledger", "show", "LOG"], 1),
        (["ledger", "verify", "NEW"], 2),
        (["synth", "-o", "NEW.tsv", "--users", "0"], 2),
        (["synth", "-o", "NEW.xyz"], 2),
        (["inspect", "LOG", "--nonsense"], 2),
        (["nonsense"], 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_mistakes_exit_with_the_promised_code_a_message_and_nothing_written(run, arguments, code, log_file, tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    before = sorted(p.name for p in tmp_path.iterdir())
    names = {"LOG": log_file, "NEW": tmp_path / "new", "NEW.tsv": tmp_path / "new.tsv", "NEW.xyz": tmp_path / "new.xyz"}
    names |= {"MISSING": tmp_path / "missing.tsv", "FOLDER": folder, "NEW/s": tmp_path / "new" / "s"}
    got, out, err = run(*(names.get(word, word) for word in arguments))
    assert got in ((1, 2) if code is None else (code,))
    assert (err + out).strip()
    assert "Traceback" not in err + out
    assert CANARY not in err + out
    assert sorted(p.name for p in tmp_path.iterdir()) == before


@pytest.mark.parametrize("case", [name for name, bad in BAD_FILES.items() if "most_problems" not in bad.options])
def test_a_bad_file_ends_with_the_right_code_and_a_bad_line_is_left_out(run, case, tmp_path):
    bad = BAD_FILES[case]
    path = bad.write(tmp_path)
    options = {"input-format" if name == "format" else name: value for name, value in bad.options.items()}
    if "columns" in options:
        options["columns"] = ",".join(f"{ours}={theirs}" for ours, theirs in options["columns"].items())
    given = [f"--{name.replace('_', '-')}={value}" for name, value in options.items()]
    code, out, err = run("release", "suppress", path, "-o", tmp_path / "r", "--format", "jsonl", *given)
    assert code == (bad.error.exit_code if bad.records is None else 0)
    told = (out + err).lower()
    assert "traceback" not in told
    assert "internal error" not in told
    for word in CANARY_IN_FILES.split():
        assert word not in told
    made = set() if bad.records is None else {"r"}
    assert {p.name for p in tmp_path.iterdir()} == {bad.name} | made
    assert bad.says in " ".join(err.split()) or bad.records is None


HOSTILE_NUMBERS = [
    *(
        "nan",
        "inf",
        "-inf",
        "-1",
        "0",
        "1e309",
        "-0.0",
        "1e-400",
        "9" * 400,
        "true",
        "",
        " ",
        "1;rm",
        "0x10",
        "١٢٣",
        "--",
    ),
    "1,000",
]


def numeric_options():
    for name in mechanisms.names():
        for field in dataclasses.fields(mechanisms.load(name)):
            if field.type in ("int", "float", "int | None", "float | None"):
                yield name, f"--{field.name.replace('_', '-')}"


@pytest.mark.parametrize(("mechanism", "option"), list(numeric_options()), ids="".join)
def test_hostile_numbers_never_end_in_a_traceback_or_a_release(run, mechanism, option, log_file, tmp_path):
    refused = 0
    for value in HOSTILE_NUMBERS:
        code, out, err = run("plan", mechanism, f"{option}={value}")
        assert code in (0, 2, 3), value[:20]
        assert "Traceback" not in out + err
        assert "internal error" not in err
        refused += code != 0
    assert refused >= 12
    code, _, _ = run("release", mechanism, log_file, "-o", tmp_path / "r", f"{option}=nan")
    assert code == 2
    assert not (tmp_path / "r").exists()


def test_an_unexpected_error_shows_its_place_and_no_data(run, monkeypatch, log_file, tmp_path):

    def fail(*_, **__):
        raise ValueError(f"while handling {CANARY}")

    monkeypatch.setattr(pipeline, "release", fail)
    code, out, err = run("release", "suppress", log_file, "-o", tmp_path / "r")
    assert code == 70
    assert "internal error: ValueError" in err
    assert CANARY not in out + err


def test_stopping_by_keyboard_leaves_nothing_half_written(run, monkeypatch, log_file, tmp_path):
    from queryveil.release import manifest

    def stop(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(manifest, "manifest", stop)
    before = sorted(tmp_path.iterdir())
    code, _, err = run("release", "suppress", log_file, "-o", tmp_path / "r", "--secrets", tmp_path / "s")
    assert (code, err.strip()) == (130, "stopped; nothing half-written was left behind.")
    assert sorted(tmp_path.iterdir()) == before


def test_a_strangers_statement_cannot_repaint_the_screen(run, log_file, tmp_path, monkeypatch):
    from queryveil.release.manifest import Verified

    forged = Verified({"guarantee": {"statement": "\x1b[2J\x1b[1;31m[bold]all safe"}}, "00" * 32, False)
    monkeypatch.setattr("queryveil.release.manifest.verify", lambda *_: forged)
    code, out, _ = run("verify", tmp_path)
    assert code == 0
    assert "\x1b" not in out
    assert "[bold]all safe" in out


def test_a_file_that_cannot_be_written_is_an_error_not_a_fault(run, log_file, tmp_path):
    code, _, err = run("release", "suppress", log_file, "-o", tmp_path / ("x" * 300))
    assert code == 2  # a name that no disk takes is a fault of the call
    assert "internal error" not in err


def test_the_canary_shows_nowhere_but_in_the_log(run, log_file, tmp_path, caplog):
    with caplog.at_level(logging.DEBUG):
        told = [run("inspect", log_file), run("release", "suppress", log_file, "-o", tmp_path / "r", "--k-text", 2)]
    everything = "".join(out + err for _, out, err in told) + caplog.text + (tmp_path / "r/manifest.json").read_text()
    for secret in (CANARY, "person-3", "private note"):
        assert secret not in everything


def test_help_of_every_command_names_its_options_in_words(run):
    for name in mechanisms.names():
        assert run("release", name, "--help")[0] == 0
        for field in dataclasses.fields(mechanisms.load(name)):
            assert field.name == "mode" or field.metadata.get("help"), f"{name}: {field.name} has no help"


def test_the_installed_program_starts(tmp_path):
    program = Path(sys.executable).parent / "queryveil"
    done = subprocess.run([program, "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "queryveil 0.1.0\n")


@pytest.mark.parametrize(
    ("command", "option"),
    [
        (["synth", "-o", "new.tsv"], "--users"),
        (["synth", "-o", "new.tsv"], "--records"),
        (["synth", "-o", "new.tsv"], "--seed"),
        (["ledger", "init", "new.db", "--epsilon=1"], "--delta"),
        (["ledger", "init", "new.db"], "--epsilon"),
        (["release", "suppress", "log.jsonl", "-o", "new"], "--seed"),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else value,
)
def test_hostile_numbers_of_the_other_commands_write_nothing(run, command, option, log_file, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = sorted(tmp_path.iterdir())
    allowed = {"--seed": {"0", "-0.0", "١٢٣"}, "--delta": {"0", "-0.0", "1e-400"}}.get(option, set())
    hostile = [value for value in HOSTILE_NUMBERS if value not in {*allowed, "١٢٣"}]
    assert len(hostile) >= 12
    for value in hostile:
        code, out, err = run(*command, f"{option}={value}")
        assert code == 2, value[:20]
        assert "Traceback" not in out + err
        assert sorted(tmp_path.iterdir()) == before


def test_in_a_pipe_the_bar_is_silent_whatever_colours_are_wished_for(run, log_file, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setattr(console, "messages", Console(stderr=True, highlight=False))
    code, _, err = run("plan", "semantic", "--epsilon", "1", "--per", "query", "--domain", "disease")
    assert (code, err) == (0, "")
    code, _, err = run("release", "suppress", log_file, "--dry-run")
    assert code == 0
    assert "\x1b[?25l" not in err  # the cursor is hidden under a bar
    assert "dry run" not in err


def test_at_a_terminal_the_bar_shows_the_step_and_what_is_told_within_it(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    seen = Terminal()
    monkeypatch.setattr(console, "messages", Console(file=seen, force_terminal=True, width=100))
    with console.steps("release", 2) as step:
        step("log read")
        tell("grouping [bold]the users", 0.25)
        shown = "release: log read: grouping [bold]the users, 25%"
        wait_until(lambda: shown in seen.getvalue(), "the bar shows the step")
    with console.steps("plan", 1):
        tell("calibrating the law", 0.5)
        wait_until(lambda: "plan: calibrating the law, 50%" in seen.getvalue(), "the bar shows the plan")

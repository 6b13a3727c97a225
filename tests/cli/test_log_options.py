"""Every command that reads a log reads it the same way: the same options, bad lines left out and told to the holder."""

import json

import pytest
import typer.main

from queryveil.cli.main import app
from queryveil.errors import UsageError
from queryveil.log import read, write
from queryveil.log.formats import FORMATS
from queryveil.log.synthetic import synth
from queryveil.release import pipeline

SWEEP = """
[[mechanism]]
name = "suppress"
k_text = [2, 5]
[[rule]]
name = "frequency"
"""
BAD = "zanzibar,\n" * 25
CHOICE = ("--config", "sweep.toml", "--workers", 1)
COMMANDS = {
    "inspect": ("inspect", "log.csv"),
    "release": ("release", "suppress", "log.csv", "-o", "release", "--k-text", 2),
    "dry run": ("release", "suppress", "log.csv", "--dry-run", "--k-text", 2),
    "audit": ("audit", "log.csv", "given.csv"),
    "compare": ("compare", "log.csv", *CHOICE),
    "advise": ("advise", "log.csv", "--task", "frequency", "--max-risk", 1, *CHOICE),
    "rules": ("rules", "log.csv", *CHOICE),
}


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a log that has bad lines, a release of another tool and a small sweep."""
    monkeypatch.chdir(tmp_path)
    write(synth(users=40, records=400).keeping(["user", "query"]), tmp_path / "given.csv")
    (tmp_path / "log.csv").write_text((tmp_path / "given.csv").read_text() + BAD)
    (tmp_path / "sweep.toml").write_text(SWEEP)
    return tmp_path


def leaves(command, context, words=()):
    """Every command there is, by its words."""
    if not hasattr(command, "list_commands"):
        yield words, command
        return
    for name in command.list_commands(context):
        yield from leaves(command.get_command(context, name), context, (*words, name))


def test_every_command_with_a_log_has_every_option_for_reading_it():
    command = typer.main.get_command(app)
    reading = {
        words: {name for parameter in leaf.params for name in parameter.opts}
        for words, leaf in leaves(command, typer.Context(command))
        if any(parameter.name == "log" for parameter in leaf.params)
    }
    assert {words[0] for words in reading} == {arguments[0] for arguments in COMMANDS.values()}
    for words, options in reading.items():
        assert options >= {"--on-error", "--columns", "--encoding", "--user-field"}, words
        assert ("--input-format" if words[0] in ("audit", "release") else "--format") in options, words


@pytest.mark.parametrize("name", COMMANDS)
def test_the_options_reach_the_reader(run, name, place, monkeypatch):
    seen = {}

    def reader(path, **given):
        seen.update(given, path=path.name)
        raise UsageError("seen")

    monkeypatch.setattr(pipeline, "open_log", reader)
    own = "--input-format" if COMMANDS[name][0] in ("release", "audit") else "--format"
    given = ("--columns", "user=uid,query=q", "--encoding", "latin-1", "--user-field", "user_id", "--on-error", "fail")
    code, _, err = run(*COMMANDS[name], *given, own, "jsonl")
    assert (code, "seen" in err) == (2, True)
    assert seen == {
        "path": "log.csv",
        "format": "jsonl",
        "columns": {"user": "uid", "query": "q"},
        "encoding": "latin-1",
        "user_field": "user_id",
        "on_error": "fail",
        "extras": (),
    }
    assert run(*COMMANDS[name], "--user-field", "name")[0] == 2
    assert run(*COMMANDS[name], "--on-error", "ignore")[0] == 2


@pytest.mark.parametrize("name", COMMANDS)
def test_bad_lines_are_left_out_and_told_on_stderr_by_number_and_reason(run, name, place):
    code, out, err = run(*COMMANDS[name], "--json")
    assert code == 0, err
    json.loads(out)
    told = " ".join(err.split())
    assert "log.csv: 25 of 426 lines cannot be read as csv and were left out." in told
    assert "line 402, column query: the query is empty line 403, column query" in told
    assert "… and 5 more" in told
    assert "zanzibar" not in out + err


@pytest.mark.parametrize("name", COMMANDS)
def test_who_would_rather_stop_at_a_bad_line_says_so(run, name, place):
    code, out, err = run(*COMMANDS[name], "--on-error", "fail")
    assert (code, out) == (1, "")
    assert "leave them out. Try --on-error skip." in " ".join(err.split())
    assert "zanzibar" not in err
    assert not (place / "release").exists()


@pytest.mark.parametrize("name", COMMANDS)
def test_an_empty_log_is_told_and_stops_only_what_makes_no_sense_of_it(run, name, place):
    (place / "log.csv").write_text("user,query\n")
    code, _, err = run(*COMMANDS[name])
    assert code == (1 if name in ("compare", "advise", "rules") else 0)
    assert "log.csv: the log is empty, it has no record." in " ".join(err.split())
    assert "internal error" not in err


def test_bad_lines_of_a_log_that_another_tool_released_are_told_as_well(run, place):
    (place / "given.csv").write_text((place / "log.csv").read_text())
    code, _, err = run("audit", "log.csv", "given.csv")
    assert code == 0
    assert "given.csv: 25 of 426 lines" in " ".join(err.split())


def test_an_aol_log_with_empty_queries_goes_through_every_command_of_the_readme(run, place):
    """As AOL's own log, of which a few queries in 10,000 are empty: nobody has to know an option to use it."""
    log = synth(users=400, records=20_000, seed=3)
    write(log.keeping(FORMATS["aol"].columns), place / "log.tsv")
    rows = (place / "log.tsv").read_text().splitlines()
    for number in range(1_000, 20_000, 3_500):
        user, _, *rest = rows[number].split("\t")
        rows[number] = "\t".join([user, "", *rest])
    (place / "log.tsv").write_text("\n".join(rows) + "\n")
    for told in (
        "inspect log.tsv",
        "plan suppress --k-text 5",
        "release suppress log.tsv --k-text 5 -o release --secrets release.secrets",
        "audit log.tsv release --secrets release.secrets",
        "verify release",
        "release semantic log.tsv --epsilon 8 --per query --domain disease -o meaning",
        "verify meaning",
        "compare log.tsv --config sweep.toml --workers 1 -o compared",
        "advise log.tsv --task frequency --max-risk 1 --config sweep.toml --workers 1 -o compared",
    ):
        code, out, err = run(*told.split())
        assert code == 0, f"{told}\n{err}"
        if "log.tsv" in told:
            assert "log.tsv: 6 of 20,001 lines cannot be read as aol" in " ".join(err.split()), told
            assert "line 1,001, column query: the query is empty" in err
            assert "cannot be read" not in out
    assert len(read(place / "log.tsv")) == 20_000 - 6

"""`queryveil audit` as people meet it."""

import json

import polars as pl
import pytest

from queryveil.audit.finding import Audit, Success, risk
from queryveil.cli.audit_commands import show
from queryveil.log import QueryLog, write
from queryveil.testing.twins import telltale_log


@pytest.fixture
def released(run, tmp_path):
    write(telltale_log(), tmp_path / "log.jsonl")
    for name in ("one", "two"):
        code, _, err = run(
            "release", "suppress", tmp_path / "log.jsonl", "-o", tmp_path / name, "--secrets", tmp_path / f"{name}.key"
        )
        assert code == 0, err
    return tmp_path


def test_an_audit_shows_risks_and_utility_and_says_what_is_left_out(run, released):
    code, out, err = run("audit", released / "log.jsonl", released / "one")
    assert code == 0, err
    for told in ("what an attacker gets", "what is kept", "Rare texts left"):
        assert told in out
    assert "Left out: Who wrote a record" in err
    assert "castle" not in out + err
    assert "person 1" not in out + err


def test_with_secrets_and_a_second_release_more_is_measured(run, released):
    code, out, _ = run(
        "audit", released / "log.jsonl", released / "one", "--secrets", released / "one.key", "--other",
        released / "two", "--other-secrets", released / "two.key", "--json",
    )  # fmt: skip
    told = json.loads(out)
    figures = {finding["key"]: finding for finding in told["findings"]}
    assert (code, told["released"]["mechanism"]) == (0, "suppress")
    assert figures["author-by-name"]["value"] == 1
    assert figures["two-releases-singled-out"]["value"] > 0.5


def test_a_log_of_another_tool_is_taken_as_it_is(run, released):
    code, out, _ = run("audit", released / "log.jsonl", released / "log.jsonl", "--json")
    assert (code, json.loads(out)["released"]["mechanism"]) == (0, None)


def test_the_internal_edition_goes_beside_the_release_and_the_public_one_into_it(run, released):
    code, out, err = run("audit", released / "log.jsonl", released / "one")
    assert (code, (released / "one-internal" / "report.html").is_file()) == (0, True), err
    assert "one-internal" in out.replace("\n", "")
    code, out, err = run("audit", released / "log.jsonl", released / "one", "--edition", "public", "--json")
    assert (code, list(json.loads(out))) == (0, ["report"]), err
    assert (released / "one" / "report.html").is_file()
    assert run("verify", released / "one")[0] == 0
    code, _, err = run("audit", released / "log.jsonl", released / "log.jsonl", "--edition", "public")
    assert (code, "--edition internal" in err) == (2, True)


def test_wrong_usage_is_told_without_data(run, released):
    assert run("audit", released / "log.jsonl", released / "one", "--input-format", "tvs")[0] == 2
    code, _, err = run("audit", released / "log.jsonl", released / "one", "--secrets", released / "two.key")
    assert (code, "another release" in err) == (1, True)
    code, _, err = run("audit", released / "log.jsonl", released / "one", "--secrets", released / "log.jsonl")
    assert (code, "not a QueryVeil secrets file" in err) == (1, True)


def test_an_audit_ends_with_the_decision_sheet_and_a_decision_can_be_signed(run, released):
    given = ["audit", released / "log.jsonl", released / "one", "--secrets", released / "one.key"]
    code, out, err = run(*given)
    assert code == 0, err
    lines = out.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("May this be published? With care."))
    sheet = [line for line in lines[start:] if not line.startswith(("Report written", "Decide:"))]
    assert len(sheet) <= 10
    assert out.index("what an attacker gets") < out.index("May this be published?")
    assert any(line.startswith("For a person: nothing formal") for line in sheet)
    _, told, _ = run(*given, "--json", "--max-risk", "0.9")
    assert json.loads(told)["verdict"]["answer"] == "With care"
    assert json.loads(told)["sheet"]["max_risk"] == 0.9
    code, out, err = run("approve", released / "one", "--name", "Ada", "--reason", "the board agreed")
    assert code == 0, err
    code, out, err = run("verify", released / "one")
    assert "Approved by Ada on " in out
    code, out, err = run("approve", released / "one", "--name", "Ada", "--decision", "refuse")
    assert (code, "say why it is refused" in err) == (2, True)
    run("approve", released / "one", "--name", "Ben", "--decision", "refuse", "--reason", "changed my mind.")
    code, out, err = run("verify", released / "one")
    assert code == 3
    assert "Reason: changed my mind. Before that: Approved by Ada" in out
    assert "has refused it" in err


def test_a_purpose_goes_from_the_command_line_to_manifest_sheet_and_report(run, released):
    purpose, folder, log = "to try a <b>speller</b>", released / "with purpose", released / "log.jsonl"
    code, _, err = run("release", "suppress", log, "--k-text", 2, "-o", folder, "--purpose", purpose)
    assert code == 0, err
    _, out, _ = run("audit", log, folder)
    assert f"Its purpose: {purpose}" in out
    assert json.loads((folder / "manifest.json").read_text())["purpose"] == purpose
    for page in ("report.html", "sheet.html"):
        told = (folder.with_name("with purpose-internal") / page).read_text()
        assert "Stated purpose: to try a &lt;b&gt;speller&lt;/b&gt;" in told


def test_what_the_attacker_knows_can_be_given(run, released):
    log = telltale_log()
    middle = log.frame["time"].median()
    write(QueryLog(log.frame.filter(pl.col("time") < middle)), released / "earlier.jsonl")
    given = ["audit", released / "log.jsonl", released / "one", "--json"]
    code, out, err = run(*given, "--known", released / "earlier.jsonl")
    assert (code, json.loads(out)["context"]["known"]) == (0, "what everybody asked in a log of earlier queries"), err
    code, out, err = run(*given, "--known-before", "2026-03-04")
    assert (code, json.loads(out)["context"]["known"]) == (0, "what everybody asked before 2026-03-04 00:00"), err


def test_people_who_were_not_seen_judge_what_is_taught_about_others(run, released):
    others = telltale_log().frame.with_columns(user="another " + pl.col("user"))
    write(QueryLog(others), released / "others.jsonl")
    given = ["audit", released / "log.jsonl", released / "one", "--json", "--held-out"]
    code, out, err = run(*given, released / "others.jsonl")
    figures = {finding["key"]: finding for finding in json.loads(out)["findings"]}
    assert (code, json.loads(out)["context"]["held_out"]["records"]) == (0, others.height), err
    assert 0 <= figures["language"]["value"] <= figures["language"]["raw"] == 1
    code, _, err = run(*given, released / "log.jsonl")
    assert (code, "who was seen cannot judge" in err) == (1, True)


def test_a_time_is_checked_before_anything_is_read(run, tmp_path):
    code, _, err = run("audit", tmp_path / "absent.csv", tmp_path / "absent", "--known-before", "soon")
    assert (code, "known_before must be a day or a time" in err) == (2, True)
    given = ["--known-before", "2026-03-04", "--known", tmp_path / "absent.csv"]
    code, _, err = run("audit", tmp_path / "absent.csv", tmp_path / "absent", *given)
    assert (code, "give one of known, known_before" in err) == (2, True)


def test_figures_of_few_trials_are_told_in_words(capsys):
    few = risk("k", "Few tried", "t", "linkability", Success(2, 3), "Why.")
    enough = risk("e", "Many tried", "t", "linkability", Success(200, 300), "Why.")
    show(Audit(released={}, findings=(few, enough)))
    out = capsys.readouterr().out
    assert "too few to say" in out
    assert "2 of 3 trials" in out
    assert "99" not in out
    assert "66.7 %" in out


def test_the_command_counts_in_blocks_and_says_that_this_is_no_whole_audit(run, released, tmp_path, monkeypatch):
    monkeypatch.setattr("queryveil.release.pipeline.IN_MEMORY", 10_000)  # as if the logs were so much larger
    code, out, err = run("audit", released / "log.jsonl", tmp_path / "one", "--memory", "64MiB")
    assert code == 0, err
    assert "not a whole audit" in " ".join(out.split()) and "Rare texts left" in out
    assert not (tmp_path / "one-internal").exists() and "person 1" not in out + err
    code, out, err = run("audit", released / "log.jsonl", tmp_path / "one", "--memory", "64MiB", "--json")
    told = json.loads(out)
    assert (code, told["report"], told["context"]["in_blocks"]) == (0, None, True)
    assert told["verdict"]["answer"] != "yes"
    code, _, err = run(
        "audit", released / "log.jsonl", tmp_path / "one", "--memory", "64MiB", "--known", released / "log.jsonl"
    )
    assert code == 2 and "memory" in err
    code, _, err = run("audit", released / "log.jsonl", tmp_path / "one", "--memory", "much")
    assert code == 2

"""Semantic release from the command line: the unit is asked for, plan says both figures, a release verifies."""

import json

import pytest

from queryveil.log import read, write
from queryveil.release.manifest import verify
from queryveil.testing import CANARY, sample_log


def test_the_unit_must_be_given(run):
    code, _, err = run("plan", "semantic", "--epsilon", "1", "--domain", "disease")
    assert code == 2
    assert "--per" in err


def test_plan_tells_both_figures_and_the_cost(run):
    code, out, _ = run(
        "plan", "semantic", "--epsilon", "1", "--per", "user", "--domain", "disease", "--max-queries", "10"
    )
    told = " ".join(out.split())
    assert code == 0
    assert "ε = 0.1 per query and ε = 1 per user" in told
    assert "Cost in a ledger: ε = 1" in told


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        (["--domain", "no such thing"], "no concept is called"),
        (["--domain", "disease", "--epsilon", "0"], "epsilon must be"),
        (["--domain", "disease", "--epsilon", "nan"], "epsilon must be"),
        (["--domain", "disease", "--epsilon", "1e9"], "epsilon must be"),
    ],
)
def test_bad_input_is_told_with_exit_code_2(run, wrong, told):
    code, _, err = run("plan", "semantic", "--per", "query", "--epsilon", "1", *wrong)
    assert code == 2
    assert told in " ".join(err.split())


def test_a_delta_that_matters_is_refused_with_exit_code_3(run):
    code, _, err = run("plan", "semantic", "--per", "user", "--epsilon", "10", "--domain", "disease", "--delta", "0.01")
    assert code == 3
    assert "delta must be at most 1e-06" in " ".join(err.split())


def test_plan_of_paper_mode_promises_nothing_and_costs_nothing(run):
    options = ["--per", "query", "--epsilon", "1", "--domain", "disease", "--criterion", "sqc1", "--mode", "paper"]
    code, out, _ = run("plan", "semantic", *options)
    told = " ".join(out.split())
    assert code == 0
    assert "No formal guarantee" in told
    assert "ε = 1 per query and ε = 100 per user" in told


def test_a_release_is_signed_says_its_certificate_and_holds_nothing_of_the_input(run, tmp_path):
    write(sample_log(), tmp_path / "log.jsonl")
    options = ["--epsilon", "4", "--per", "query", "--domain", "disease|sport", "--max-queries", "5"]
    code, _, _ = run("release", "semantic", tmp_path / "log.jsonl", "-o", tmp_path / "out", *options)
    assert code == 0
    manifest = verify(tmp_path / "out").manifest
    assert manifest["parameters"]["domain"] == "disease|sport"
    assert "certificate" in manifest["guarantee"]["statement"]
    assert CANARY not in json.dumps(manifest)
    assert CANARY not in read(tmp_path / "out" / "log.jsonl").queries()

"""A mode's defaults work: every mechanism, in both modes, with nothing but the options it demands."""

import json

import pytest

from queryveil import mechanisms

DEMANDED = {
    "semantic": ["--epsilon", "1", "--per", "query"],
    "obfuscate": ["--epsilon", "8"],
}


@pytest.fixture(scope="module")
def log_file(tmp_path_factory):
    from queryveil.log import write
    from queryveil.log.synthetic import synth

    path = tmp_path_factory.mktemp("modes") / "log.csv"
    write(synth(users=150, records=2500, seed=1), path)
    return path


@pytest.mark.parametrize("mode", ["safe", "paper"])
@pytest.mark.parametrize("name", mechanisms.names())
def test_plan_and_release_need_only_the_options_that_are_demanded(run, name, mode, log_file, tmp_path):
    options = [*DEMANDED.get(name, []), "--mode", mode]
    if (name, mode) == ("semantic", "safe"):
        options += ["--domain", "disease"]  # the law of all nouns takes a while to calibrate, see below
    assert run("plan", name, *options)[0] == 0
    code, out, err = run("release", name, log_file, *options, "-o", tmp_path / "release", "--seed", 1, "--json")
    assert code == 0, err
    assert json.loads(out)["publishable"] is False


@pytest.mark.soak
def test_the_law_of_all_nouns_is_planned_without_a_domain(run):
    assert run("plan", "semantic", *DEMANDED["semantic"], "--mode", "safe")[0] == 0

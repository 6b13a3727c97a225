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
    if name == "semantic":
        options += ["--domain", "disease"]  # the law of all nouns takes half a minute and more, see below
    assert run("plan", name, *options)[0] == 0
    code, out, err = run("release", name, log_file, *options, "-o", tmp_path / "release", "--seed", 1, "--json")
    assert code == 0, err
    assert json.loads(out)["publishable"] is False


def test_a_release_with_little_memory_is_the_same_and_told_in_full(run, log_file, tmp_path, monkeypatch):
    options = ("--k-text", 2, "--seed", 1, "--json")
    _, here, _ = run("release", "suppress", log_file, "-o", tmp_path / "here", *options)
    monkeypatch.setattr("queryveil.release.pipeline.IN_MEMORY", 10**9)
    code, there, err = run("release", "suppress", log_file, "-o", tmp_path / "there", *options, "--memory", "64MiB")
    assert code == 0, err
    one, other = (json.loads(out) for out in (here, there))
    assert one.pop("folder") != other.pop("folder") and one == other
    assert (tmp_path / "here/log.csv").read_bytes() == (tmp_path / "there/log.csv").read_bytes()


@pytest.mark.parametrize("size", ["lots", "-4GiB", "1MiB", "4", "9" * 40 + "GiB"])
def test_a_memory_that_is_no_size_is_refused(run, size, log_file, tmp_path):
    code, _, err = run("release", "suppress", log_file, "-o", tmp_path / "release", f"--memory={size}")
    assert code == 2 and "4GiB" in err


@pytest.mark.soak
@pytest.mark.parametrize("mode", ["safe", "paper"])
def test_the_law_of_all_nouns_needs_no_domain(run, mode, log_file, tmp_path):
    options = [*DEMANDED["semantic"], "--mode", mode]
    assert run("plan", "semantic", *options)[0] == 0
    code, _, err = run("release", "semantic", log_file, *options, "-o", tmp_path / "release", "--seed", 1)
    assert code == 0, err

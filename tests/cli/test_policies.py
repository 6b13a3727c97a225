"""Today's rules on the command line."""

import json

import pytest

from queryveil.log import read, write
from queryveil.log.synthetic import synth


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "log.csv"
    write(synth(users=80, records=2000), path)
    return path


def test_a_release_by_a_rule_says_that_it_promises_nothing(run, log, tmp_path):
    folder, secrets = tmp_path / "out", tmp_path / "secrets"
    code, out, err = run(
        "release", "--policy", "commission", log, "-o", folder, "--people-per-entity", 5, "--secrets", secrets
    )
    assert code == 0, err
    manifest = json.loads((folder / "manifest.json").read_text())
    assert (manifest["mechanism"], manifest["mode"]) == ("commission", "rule")
    assert manifest["guarantee"]["model"] == "none"
    assert "a rule, no guarantee" in manifest["guarantee"]["statement"] and "safe" not in json.dumps(manifest)
    assert "3 (assumed) records" in out and "least 5 people used" in out
    assert set(read(folder / "log.csv").queries()) <= set(read(log).queries())
    assert run("verify", folder)[0] == 0
    code, _, err = run("audit", log, folder, "--secrets", secrets)
    assert code == 0, err


@pytest.mark.parametrize("place", [0, 1, 3])
def test_the_option_may_stand_anywhere(run, log, tmp_path, place):
    words = [log, "-o", tmp_path / "out"]
    code, out, err = run("release", *words[:place], "--policy=frequency", *words[place:])
    assert code == 0, err
    assert "texts that at least 10 users asked" in out


def test_a_file_brings_parameters_and_the_command_line_overrides_them(run, tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('name = "commission"\npeople_per_entity = 7\nwords_per_query = 4\n')
    code, out, _ = run("plan", "--policy", file, "--words-per-query", 3)
    assert code == 0
    assert "at most 3 words" in out and "at least 7 people" in out


@pytest.mark.parametrize(
    ("name", "code", "said"), [("nonsense", 2, "no rule of that name"), ("noisy-threshold", 3, "compared with")]
)
def test_other_names_are_refused(run, log, tmp_path, name, code, said):
    found, _, err = run("release", "--policy", name, log, "-o", tmp_path / "out")
    assert found == code
    assert said in " ".join(err.split())
    assert not (tmp_path / "out").exists()

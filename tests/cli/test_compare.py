"""`queryveil compare` and `queryveil advise`."""

import html
import json
import shlex

import pytest

from queryveil.log import write
from queryveil.log.synthetic import synth
from queryveil.report import comparison_page

SWEEP = """
seed = 2
[[mechanism]]
name = "suppress"
k_text = [2, 5]
[[rule]]
name = "frequency"
"""


@pytest.fixture
def log(tmp_path):
    write(synth(users=60, records=1500), tmp_path / "log.csv")
    (tmp_path / "sweep.toml").write_text(SWEEP)
    return tmp_path / "log.csv"


def test_compare_shows_every_setting_and_where_the_report_is(run, log, tmp_path):
    code, out, _ = run("compare", log, "--config", tmp_path / "sweep.toml", "--workers", "1")
    assert code == 0
    assert "suppress" in out
    assert "log-comparison/report.html" in out.replace("\n", "")
    assert (tmp_path / "log-comparison" / "report.html").is_file()


def test_compare_prints_one_json_object(run, log, tmp_path):
    code, out, _ = run(
        "compare", log, "--config", tmp_path / "sweep.toml", "-o", tmp_path / "c", "--workers", "1", "--json"
    )
    assert code == 0
    assert [row["label"] for row in json.loads(out)["settings"]][:2] == ["suppress k_text=2", "suppress k_text=5"]


def test_advise_names_the_command_and_the_reasons(run, log, tmp_path):
    sweep = tmp_path / "sweep.toml"
    code, out, _ = run("advise", log, "--task", "frequency", "--max-risk", "1", "--config", sweep, "--workers", "1")
    assert code == 0
    assert f"queryveil release suppress {log} -o {tmp_path / 'log-release'} --k-text" in out
    assert "Of 2 settings tried, 2 keep" in out


@pytest.mark.parametrize("as_json", [False, True])
def test_the_command_that_advise_prints_runs_as_printed_and_its_release_says_who_chose(run, tmp_path, as_json):
    log = tmp_path / "my log.txt"
    write(synth(users=60, records=1500), log, format="jsonl")
    renamed = log.read_text().replace('"user":', '"uid":')
    log.write_text(renamed)
    (tmp_path / "sweep.toml").write_text(SWEEP)
    read_as = ["--format", "jsonl", "--columns", "user=uid", "--similar-ids", "different"]
    asked = ["--task", "frequency", "--max-risk", "1", "--config", tmp_path / "sweep.toml", "--workers", "1"]
    code, out, _ = run("advise", log, *read_as, *asked, *(["--json"] if as_json else []))
    assert code == 0
    printed = json.loads(out)["command"] if as_json else out.splitlines()[0].removeprefix("Take: ")
    name, *arguments = shlex.split(printed)
    assert name == "queryveil"
    assert run(*arguments)[0] == 0
    _of_a_release_chosen_by(run, tmp_path / "my log-release", "advise")


def test_the_commands_that_compare_prints_run_as_printed_and_are_on_its_page(run, log, tmp_path, monkeypatch):
    best = comparison_page.best_outcomes
    monkeypatch.setattr(comparison_page, "best_outcomes", lambda found: best(found, max_risk=1.0))  # few people here
    (tmp_path / "sweep.toml").write_text(SWEEP.replace("[2, 5]", "5"))
    code, out, _ = run("compare", log, "--config", tmp_path / "sweep.toml", "--workers", "1")
    assert code == 0
    printed = [line for line in out.splitlines() if line.startswith("queryveil release")]
    assert len(set(printed)) == 1
    page = (tmp_path / "log-comparison" / "report.html").read_text()
    assert html.escape(printed[0]) in page
    assert run(*shlex.split(printed[0])[1:])[0] == 0
    _of_a_release_chosen_by(run, tmp_path / "log-release", "compare")


def _of_a_release_chosen_by(run, folder, chooser):
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["parameters_chosen_by"] == chooser
    assert json.loads(run("verify", folder, "--json")[1])["parameters_chosen_by"] == chooser
    assert f"{chooser} tried settings on this very log, and no budget paid for it" in run("verify", folder)[1]


def test_advise_refuses_where_no_setting_meets_the_risk(run, log, tmp_path):
    given = ["--task", "frequency", "--max-risk", "0", "--config", tmp_path / "sweep.toml", "-o", tmp_path / "c"]
    given += ["--workers", "1"]
    code, out, err = run("advise", log, *given)
    assert code == 3
    assert "The least risky is" in out
    assert "no setting tried" in err
    code, out, _ = run("advise", log, *given, "--json")
    assert code == 3
    assert json.loads(out)["setting"] is None


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--config", "missing.toml"], "cannot read"),
        (["--workers", "0"], "workers must be"),
        (["--format", "nonsense"], "format must be"),
    ],
)
def test_wrong_usage_is_told_before_any_work(run, log, options, told):
    code, _, err = run("compare", log, *options)
    assert code == 2
    assert told in err.replace("\n", " ")

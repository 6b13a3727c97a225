"""`queryveil compare` and `queryveil advise`."""

import json

import pytest

from queryveil.log import write
from queryveil.log.synthetic import synth

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
    assert "queryveil release suppress LOG -o DIR --k-text" in out
    assert "Of 2 settings tried, 2 keep" in out


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

"""`queryveil rules`."""

import json

from queryveil.log import write
from queryveil.log.synthetic import synth

SWEEP = """
[[rule]]
name = "commission"
people_per_entity = 5
[[rule]]
name = "frequency"
k = 3
"""


def test_rules_are_measured_and_the_page_written(run, tmp_path):
    write(synth(users=250, records=5000, details=True), tmp_path / "log.csv")
    (tmp_path / "sweep.toml").write_text(SWEEP)
    given = ["rules", tmp_path / "log.csv", "--config", tmp_path / "sweep.toml", "--workers", 1]
    code, out, err = run(*given)
    assert code == 0, err
    assert "tied" in out and "Keeps most: " in out
    page = (tmp_path / "log-rules" / "report.html").read_text()
    assert "Which rule protects people, and which keeps the data useful?" in page
    code, out, _ = run(*given, "--json")  # what was tried is kept
    shown = json.loads(out)
    commission, frequency = shown["rules"]
    assert commission["tied"] > commission["tied_by_chance"] > 0
    assert frequency["found"] is None and frequency["tied"] is None

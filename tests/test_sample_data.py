"""No run of tests shows a row of the real logs, however a test fails; pytest by itself would show it in many ways."""

import os
import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

TESTS = Path(__file__).parent
ROW = "a row of somebody's log"
CONFTEST = """
import sys
sys.path.insert(0, {tests!r})
import pytest
from hypothesis import settings
import sample_data

settings.register_profile("here", database=None)
settings.load_profile("here")
sample_data.ROOT = __import__("pathlib").Path(__file__).parent

{installed}
"""
CONCEALED = """
from sample_data import shared_data

def pytest_configure(config):
    config.addinivalue_line("markers", "data: reads real logs")
    sample_data.install(config)
"""
PLAIN = """
import os, pathlib

def pytest_configure(config):
    config.addinivalue_line("markers", "data: reads real logs")

@pytest.fixture
def shared_data():
    return pathlib.Path(os.environ["QUERYVEIL_DATA"])
"""
FAILURES = """
import logging, os, sys
import pytest
from hypothesis import given, strategies as st

@pytest.fixture
def row(shared_data):
    return (shared_data / "log.tsv").read_text()

def test_compares(row):
    assert row == "something else"

def test_prints(row):
    print(row)
    print(row, file=sys.stderr)
    os.write(1, row.encode())
    logging.getLogger("ours").warning(row)
    raise KeyError

def test_raises(row):
    raise ValueError(row)

def test_raises_from(row):
    try:
        {}[row]
    except KeyError as error:
        raise RuntimeError("no such row") from error

def test_fails_in_words(row):
    pytest.fail(row)

def test_notes(row):
    error = TypeError("see the note")
    error.add_note(row)
    raise error

@pytest.fixture
def broken(row):
    raise LookupError(row)

def test_is_not_set_up(broken):
    pass

@pytest.fixture
def broken_later(row):
    yield
    print(row)
    raise LookupError(row)

def test_is_not_torn_down(broken_later):
    pass

@pytest.mark.data
def test_finds_an_example():
    with open(os.environ["QUERYVEIL_DATA"] + "/log.tsv") as file:
        rows = file.read()

    @given(st.just(rows))
    def falsify(example):
        assert not example

    falsify()

@pytest.mark.xfail
def test_is_expected_to_fail(row):
    print(row)
    assert row == ""

def test_passes_and_prints(row):
    print(row)

def test_has_parts(row, subtests):
    with subtests.test("part"):
        print(row)
        assert row == ""
"""


@pytest.fixture
def pytest_run(tmp_path, monkeypatch):
    """Run pytest, which shows all it can, on a file of tests with a made-up row; returns what it says."""
    data = tmp_path / "data"
    data.mkdir()
    (data / "log.tsv").write_text(ROW)

    def run(tests, *options, installed=CONCEALED):
        project = tmp_path / "project"
        project.mkdir()
        (project / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
        (project / "conftest.py").write_text(CONFTEST.format(tests=str(TESTS), installed=installed))
        (project / "test_it.py").write_text(tests)
        shows = ["-vv", "-rA", "--showlocals", "--full-trace", "--xfail-tb", "--junitxml=all.xml"]
        shows += ["-p", "xdist.plugin", "-p", "_hypothesis_pytestplugin", "--hypothesis-show-statistics"]
        command = [sys.executable, "-m", "pytest", *shows, *options]
        # Of all installed plugins only those that may show something: to load the others takes longer than the tests.
        environment = os.environ | {"QUERYVEIL_DATA": str(data), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
        done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=False)
        return done.stdout + done.stderr + (project / "all.xml").read_text()

    return run


@pytest.mark.parametrize("options", [(), ("-n", "1"), ("--tb=native",)])
def test_a_test_that_reads_real_logs_shows_none_of_their_rows_however_it_fails(pytest_run, options):
    said = pytest_run(FAILURES, *options)
    assert ROW not in said
    assert ROW.replace("'", "&apos;") not in said
    assert "9 failed, 2 passed, 1 xfailed, 2 errors" in said
    assert 'test_it.py:11: in test_compares\n    assert row == "something else"\nAssertionError' in said


def test_without_the_plugin_pytest_shows_the_row_for_each_of_these_tests(pytest_run, tmp_path):
    pytest_run(FAILURES, "-o", "junit_logging=all", installed=PLAIN)
    shown = {}
    for case in ElementTree.parse(tmp_path / "project/all.xml").iter("testcase"):
        told = [*case.itertext(), *(value for part in case.iter() for value in part.attrib.values())]
        shown[case.get("name")] = shown.get(case.get("name"), False) or any(ROW in text for text in told)
    assert set(shown) == set(re.findall(r"^def (test_\w+)", FAILURES, re.MULTILINE))
    assert [name for name, seen in shown.items() if not seen] == []


def test_a_fixture_that_is_torn_down_after_another_test_shows_nothing_either(pytest_run):
    said = pytest_run(
        """
import pytest

@pytest.fixture(scope="session")
def row(shared_data):
    text = (shared_data / "log.tsv").read_text()
    yield text
    raise ValueError(text)

def test_reads(row):
    pass

def test_reads_nothing():
    pass
"""
    )
    assert "2 passed, 1 error" in said
    assert ROW not in said


@pytest.mark.parametrize("options", ["-s", "--capture=sys", "--capture=tee-sys", "--log-cli-level=INFO"])
def test_where_output_is_shown_as_it_comes_the_logs_are_not_read(pytest_run, options):
    said = pytest_run(FAILURES, options)
    assert "12 skipped" in said
    assert ROW not in said


def test_who_asks_for_the_logs_through_any_fixture_gets_the_marker(pytest_run):
    said = pytest_run(FAILURES + "\ndef test_reads_nothing():\n    pass\n", "-m", "data", "--collect-only")
    assert "12/13 tests collected (1 deselected)" in said


def test_a_test_without_the_marker_does_not_get_at_the_logs(pytest_run):
    said = pytest_run(
        """
import os
import pytest

def test_the_variable():
    assert "QUERYVEIL_DATA" not in os.environ

def test_with_the_fixture(shared_data):
    assert os.environ["QUERYVEIL_DATA"] == str((shared_data / "log.tsv").parent)

def test_the_fixture_by_name(request):
    with pytest.raises(pytest.fail.Exception, match="must ask for shared_data, or be marked"):
        request.getfixturevalue("shared_data") / "log.tsv"

@pytest.mark.data
def test_the_fixture_by_name_with_the_marker(request):
    assert (request.getfixturevalue("shared_data") / "log.tsv").exists()
"""
    )
    assert "4 passed" in said


def test_nobody_but_the_plugin_knows_where_the_logs_are():
    own = {"sample_data.py", "test_sample_data.py"}
    others = [path for path in TESTS.rglob("*.py") if path.name not in own]
    assert len(others) > 100
    assert [
        path.name for path in others if re.search("QUERYVEIL_DATA|shared/data|shared.{1,8}data.,", path.read_text())
    ] == []

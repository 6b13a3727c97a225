"""Real sample logs, for tests that carry the marker `data`, and nothing of their rows in what a run of tests shows.

The rows are people's. pytest shows values where an assertion fails, so for tests with the marker a report has only
places in our own source, the lines of source there, and the kind of the exception: no values, no locals, no captured
output, no example of Hypothesis. A test gets the folder through the fixture `shared_data`, directly or through other
fixtures, which adds the marker; for all other tests the variable QUERYVEIL_DATA is not set.
"""

from __future__ import annotations

import linecache
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
VARIABLE = "QUERYVEIL_DATA"
HIDDEN = "values and output are not shown: this test reads real logs"


@pytest.fixture(scope="session")
def shared_data(request: pytest.FixtureRequest) -> SampleData:
    """`shared_data / "aol/…"` is a file of real logs; tests that need it are skipped where the logs are absent."""
    sample = request.config.stash[KEY]
    if not sample.folder.is_dir():
        pytest.skip(f"no sample data: set {VARIABLE} to the folder that holds it ({sample.folder.name} is absent)")
    return sample


class SampleData:
    """The folder, and a plugin that marks who asks for it and conceals values in their reports."""

    def __init__(self) -> None:
        self.folder = Path(os.environ.get(VARIABLE) or ROOT.parent / "shared" / "data")
        self._item: pytest.Item | None = None
        self._read: set[str] = set()
        """Tests with the marker that have begun."""

    def __truediv__(self, name: str) -> Path:
        """A path in the folder, for the test that runs now, which must have the marker."""
        if self._item is None or not _has_marker(self._item):
            pytest.fail("a test that reads real logs must ask for shared_data, or be marked with pytest.mark.data")
        return self.folder / name

    def pytest_itemcollected(self, item: pytest.Item) -> None:
        if "shared_data" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.data)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._item = item
        if _has_marker(item):
            self._read.add(item.nodeid)
            hidden = None
        else:
            hidden = os.environ.pop(VARIABLE, None)
        try:
            return (yield)
        finally:
            self._item = None
            if hidden is not None:
                os.environ[VARIABLE] = hidden

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        """What is shown while a test runs cannot be taken back."""
        option, ini = item.config.getoption, item.config.getini
        if _has_marker(item) and (option("capture") != "fd" or option("log_cli_level") or ini("log_cli")):
            pytest.skip("output would be shown: tests that read real logs run without -s, --capture and log_cli only")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[None]:
        report = yield
        # A fixture that many tests share is torn down after the last of them, whoever that is.
        if _has_marker(item) or (report.when == "teardown" and self._read):
            conceal(report, call.excinfo)
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Subtests add what they captured after the report is made."""
        if report.nodeid in self._read:
            report.sections.clear()


KEY = pytest.StashKey[SampleData]()


def install(config: pytest.Config) -> None:
    """To be called when pytest is configured."""
    config.stash[KEY] = SampleData()
    config.pluginmanager.register(config.stash[KEY], "sample data")


def conceal(report: pytest.TestReport, error: pytest.ExceptionInfo[BaseException] | None) -> None:
    """Leave nothing in a report that a test may have read."""
    report.sections.clear()
    if report.failed or hasattr(report, "wasxfail"):
        report.longrepr = HIDDEN if error is None else places(error)


def places(error: pytest.ExceptionInfo[BaseException]) -> str:
    """Each place of our own that an error came through, where it was raised, and its kind."""
    lines = []
    for entry in error.traceback:
        path, number = Path(str(entry.path)), entry.lineno + 1
        ours = path.is_relative_to(ROOT) and "site-packages" not in path.parts
        if ours or entry == error.traceback[-1]:
            shown = path.relative_to(ROOT) if ours else path.name
            lines += [f"{shown}:{number}: in {entry.name}", f"    {linecache.getline(str(path), number).strip()}"]
    return "\n".join([*lines, f"{error.typename} ({HIDDEN})"])


def _has_marker(item: pytest.Item) -> bool:
    return item.get_closest_marker("data") is not None

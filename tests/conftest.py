"""Fixtures for every room: keys and caches of its own, a browser, and sample data that no report shows."""

import gc
import os
import shutil
import sys

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

import sample_data
from properties import SOAK, examples
from sample_data import shared_data  # noqa: F401 -- a fixture

# A busy machine is slow; how long an example takes says nothing about the code.
settings.register_profile(
    "patient", max_examples=examples(100), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")

CHROMIUM = "/usr/bin/chromium"


def pytest_configure(config):
    sample_data.install(config)
    if hasattr(config, "workerinput"):
        import compiling

        compiling.install()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """For `make test`; who names another way to share out the tests on the command line gets that."""
    if config.getvalue("dist") == "loadscope":
        from scheduling import LongUnitsFirst

        return LongUnitsFirst(config, log)
    return None


@pytest.fixture(autouse=True)
def keys_of_its_own(tmp_path_factory, monkeypatch):
    """Tests never touch the keys of whoever runs them.

    The key of certificates is always the same here, so that laws are calibrated for one test and not for each.
    """
    folder = tmp_path_factory.mktemp("keys")
    (folder / "certificates.key").write_bytes(b"the key of certificates in tests")
    monkeypatch.setenv("QUERYVEIL_KEYS", str(folder))


@pytest.fixture(autouse=True)
def canaries_of_its_own():
    """What canaries showed of a mechanism in one test is not taken for that of its broken twin in the next."""
    yield
    if loaded := sys.modules.get("queryveil.audit.attacks.one_run"):
        loaded.forget()


@pytest.fixture(scope="session")
def browser():
    """Debian's Chromium, one for all rooms: two at once cannot be driven from one thread."""
    from waiting import LONG  # it takes a moment to measure

    if not shutil.which(CHROMIUM):
        pytest.skip("no Chromium: install Debian's package chromium")
    sync_api = pytest.importorskip("playwright.sync_api", reason="no playwright: install queryveil[test]")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"], timeout=LONG * 1000
        )
        yield running
        running.close()


@pytest.fixture(scope="session")
def axe():
    """The source of axe-core."""
    import axe_core

    try:
        return axe_core.script()
    except axe_core.NoAxeError as why:
        pytest.skip(str(why))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Where services are required (CI), a test that lacks its service fails instead of being skipped."""
    report = yield
    lacks_service = report.skipped and item.get_closest_marker("service") and not item.get_closest_marker("soak")
    if lacks_service and os.environ.get("QUERYVEIL_SERVICES_REQUIRED") == "1":
        report.outcome = "failed"
        report.longrepr = f"the service this test needs is absent: {report.longrepr}"
    return report


def pytest_collection_finish():
    """What was imported and collected stays until the end: the garbage collector need not look at it over and over."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


def pytest_collection_modifyitems(config, items):
    """Long tests run with `make soak` only; properties then too, with all their examples."""
    for item in items:
        if is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker("longer")
        if not SOAK and item.get_closest_marker("soak"):
            item.add_marker(pytest.mark.skip(reason="takes long: run with make soak"))

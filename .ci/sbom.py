"""A bill of materials (CycloneDX 1.6) of what an installation holds: the same bytes for the same lock file.

.venv/bin/python .ci/sbom.py deploy/requirements.lock build/queryveil.cdx.json
"""

from __future__ import annotations

import json
import re
import sys
import uuid
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
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


def main(lock: str, output: str) -> None:
    """Write it."""
    version = re.search(r'__version__ = "([^"]+)"', (ROOT / "src/queryveil/version.py").read_text(encoding="utf-8"))
    assert version, "the version is where it always was"
    made = bill_of_materials(Path(lock).read_text(encoding="utf-8"), version[1])
    Path(output).parent.mkdir(parents=True, exist_ok=True)
    Path(output).write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])

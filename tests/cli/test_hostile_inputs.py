"""Hostile files and every command that reads a log: a code of the table, soon, and nothing of what they hold."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hostile_files import MARKER, hostile_files, whole_files
from queryveil.release import pipeline
from waiting import SLOWNESS

CODES = {0, 1, 2, 3}
"""Of `docs/exit-codes.md`, without a fault in QueryVeil."""
MOST_SECONDS = 10 * SLOWNESS
"""Of the processor, which a busy machine makes slower too."""
MOST_KIBIBYTES = 1 << 20
SWEEP = '[[mechanism]]\nname = "suppress"\nk_text = [2]\n[[rule]]\nname = "frequency"\n'
"""Two quick settings: here it matters what a command reads, not how many mechanisms it tries on it."""


class Commands:
    """Runs commands in processes of their own, and says what became of them."""

    def __init__(self):
        script = Path(__file__).with_name("command_zygote.py")
        self._process = subprocess.Popen([sys.executable, script], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, folder, *words):
        """The answer, and all that was printed."""
        keys = os.environ["QUERYVEIL_KEYS"]
        told = {"words": list(map(str, words)), "printed": str(folder / "printed"), "keys": keys}
        self._process.stdin.write(json.dumps(told).encode() + b"\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        return answer, (folder / "printed").read_text(errors="replace")

    def close(self):
        self._process.stdin.close()
        self._process.wait()
        self._process.stdout.close()


@pytest.fixture(scope="module")
def commands():
    made = Commands()
    yield made
    made.close()


@pytest.fixture
def good(tmp_path, commands):
    """A good log, a release of it with secrets, and a sweep; and a release of other people."""
    folder = tmp_path / "good"
    folder.mkdir()
    (folder / "log.csv").write_bytes(whole_files()["log.csv"])
    (folder / "sweep.toml").write_text(SWEEP)
    (folder / "others.csv").write_bytes(whole_files()["log.csv"].replace(b"\nuser", b"\nother"))
    for log, made in (("log.csv", "out"), ("others.csv", "of-others")):
        words = ["release", "suppress", folder / log, "-o", folder / made, "--k-text", 2]
        answer, printed = commands.run(tmp_path, *words, "--secrets", folder / f"{made}.secrets")
        assert answer["code"] == 0, printed
    return folder


def readers(path, good, new, run):
    """Every way to hand a log to a command, by name; `new` is a folder that each finds empty, `run` a name."""
    log, others, released = good / "log.csv", good / "others.csv", good / "out"
    trying = ["--config", good / "sweep.toml", "--workers", 1]
    results = [*trying, "-o", new / "results"]
    yield "inspect", ["inspect", path]
    yield "inspect, strictly", ["inspect", path, "--on-error", "fail", "--json"]
    yield "release", ["release", "suppress", path, "--dry-run"]
    yield "release, a rule", ["release", "--policy", "commission", path, "--dry-run"]
    yield "release, in stretches", ["release", "suppress", path, "-o", new / "released", "--memory", "256MiB"]
    yield "release, without people", ["release", "suppress", log, "--dry-run", "--exclude-users", path]
    yield "audit", ["audit", path, released, "--secrets", good / "out.secrets"]
    yield "audit, released", ["audit", log, path]
    yield "audit, secrets", ["audit", log, released, "--secrets", path]
    yield "audit, known", ["audit", log, released, "--known", path, "--secrets", good / "out.secrets"]
    yield "audit, held out", ["audit", others, good / "of-others", "--held-out", path]
    yield "audit, other", ["audit", log, released, "--other", path]
    yield "compare", ["compare", path, *results]
    yield "compare, held out", ["compare", others, *results, "--held-out", path]
    yield "advise", ["advise", path, "--task", "frequency", "--max-risk", 1, *results]
    yield "rules", ["rules", path, *results]
    if path.suffix in (".tsv", ".csv", ".jsonl"):
        yield "stream", ["stream", "--from", path, "--to", new / "out.jsonl", "--run", run, "--k", 4]
    yield "verify", ["verify", path]


def wrong_with(answer, printed):
    """What a command did that none may do. Pages for the holder alone may show texts."""
    if answer["code"] not in CODES:
        yield f"code {answer['code']}"
    if MARKER in printed:
        yield "it printed something of the file"
    if answer["seconds"] >= MOST_SECONDS:
        yield f"{answer['seconds']:.1f} s"
    if answer["kibibytes"] >= MOST_KIBIBYTES:
        yield f"{answer['kibibytes']:,} KiB"


def tried(inputs, commands, good, tmp_path, keep=lambda number, place: True):
    """The codes of all commands on all inputs, or of those that are kept; whatever is wrong is told at the end."""
    codes, wrong = {}, []
    for number, (name, content) in enumerate(inputs):
        place, new = tmp_path / f"input{number}", tmp_path / "new"
        place.mkdir()
        (place / name).write_bytes(content)
        for at, (command, words) in enumerate(readers(place / name, good, new, f"run{number}")):
            if not keep(number, at):
                continue
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir()
            answer, printed = commands.run(tmp_path, *words)
            codes.setdefault(command, set()).add(answer["code"])
            wrong += [f"input {number} ({name}), {command}: {what}" for what in wrong_with(answer, printed)]
    assert not wrong, "\n".join(wrong)
    return codes


def test_hostile_inputs_are_told_of_soon_and_without_their_content(tmp_path, commands, good):
    """Two inputs of every damage and every command, each input with one of them."""
    codes = tried(hostile_files(18, seed=1), commands, good, tmp_path, lambda number, at: (number + at) % 18 == 0)
    assert len(codes) >= 17  # a stream does not read every format
    assert {0, 1} <= set().union(*codes.values())


@pytest.mark.soak
def test_two_hundred_hostile_inputs_are_told_of_soon_and_without_their_content(tmp_path, commands, good):
    tried(hostile_files(210, seed=2), commands, good, tmp_path)


READ_WITH_ERRORS = {"release, without people", "audit, secrets", "audit, other", "verify"}
"""What these read is no log, so a good log is refused."""


@pytest.mark.parametrize("name", ["log.csv", *(pytest.param(name, marks=pytest.mark.soak) for name in whole_files())])
def test_files_that_are_whole_are_read(name, tmp_path, run, good, monkeypatch):
    """Else the damage would show nothing. In this process: what the commands know of words is loaded once for all."""
    path, new, refused = tmp_path / name, tmp_path / "new", set()
    path.write_bytes(whole_files()[name])
    for command, words in readers(path, good, new, "run"):
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
        with monkeypatch.context() as patched:
            if "--memory" in words:
                patched.setattr(pipeline, "IN_MEMORY", 1 << 40)  # as if the log outgrew the memory
            if run(*words)[0] != 0:
                refused.add(command)
    assert refused <= READ_WITH_ERRORS

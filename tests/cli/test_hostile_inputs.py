"""Hostile files and every kind of command that reads one: a code of the table, soon, and nothing of what they hold."""

import resource
import time

import pytest

from hostile_files import MARKER, hostile_files, whole_files
from queryveil.cli import main as main_module
from waiting import SLOWNESS

CODES = {0, 1, 2, 3}
"""Of `docs/exit-codes.md`, without a fault in QueryVeil."""
MOST_SECONDS = 10 * SLOWNESS
"""Of the processor, which a busy machine makes slower too."""
MOST_KIBIBYTES = 1 << 20


def outcome(monkeypatch, capfd, *words):
    """Exit code, all that was printed, and the processor time it took."""
    monkeypatch.setattr("sys.argv", ["queryveil", *map(str, words)])
    started = time.process_time()
    try:
        main_module.main()
        code = 0
    except SystemExit as stopped:
        code = stopped.code or 0
    printed = capfd.readouterr()
    return code, printed.out + printed.err, time.process_time() - started


def commands(path, folder, number):
    """One of each kind: they share the reading, and a stream has its own."""
    yield "inspect", path
    yield "inspect", path, "--on-error", "fail", "--json"
    yield "release", "suppress", path, "--dry-run"
    if path.suffix in (".tsv", ".csv", ".jsonl"):
        yield "stream", "--from", path, "--to", folder / f"out-{number}.jsonl", "--run", f"run{number}", "--k", 4


def warm_up(folder, monkeypatch, capfd):
    """What is compiled or loaded by the first command of its kind is not held against the file that comes first."""
    (folder / "good.jsonl").write_text('{"user": "ann", "query": "weather", "time": "2026-03-01T09:00:00Z"}\n' * 9)
    for words in commands(folder / "good.jsonl", folder, "good"):
        assert outcome(monkeypatch, capfd, *words)[0] == 0


def tried(count, folder, monkeypatch, capfd, seed):
    warm_up(folder, monkeypatch, capfd)
    codes, before = [], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for number, (name, content) in enumerate(hostile_files(count, seed)):
        path = folder / name
        path.write_bytes(content)
        for words in commands(path, folder, number):
            code, printed, seconds = outcome(monkeypatch, capfd, *words)
            told = f"input {number} ({name}), {words[0]}: {code}"
            assert code in CODES, told
            assert MARKER not in printed, told
            assert seconds < MOST_SECONDS, told
            codes.append(code)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_KIBIBYTES
    return codes


def test_hostile_inputs_are_told_of_soon_and_without_their_content(tmp_path, monkeypatch, capfd):
    codes = tried(18, tmp_path, monkeypatch, capfd, seed=1)
    assert {0, 1} <= set(codes)


@pytest.mark.soak
def test_two_hundred_hostile_inputs_are_told_of_soon_and_without_their_content(tmp_path, monkeypatch, capfd):
    tried(210, tmp_path, monkeypatch, capfd, seed=2)


def test_files_that_are_whole_are_read(tmp_path, monkeypatch, capfd):
    """Else the damage would show nothing."""
    for name, content in whole_files().items():
        (tmp_path / name).write_bytes(content)
        code, printed, _ = outcome(monkeypatch, capfd, "inspect", tmp_path / name)
        assert (code, MARKER in printed) == (0, False), name

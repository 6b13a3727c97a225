"""What the tests of the command line share."""

import sys

import pytest

from queryveil.cli import main as command_line


@pytest.fixture
def run(monkeypatch, capsys):
    """Run the command line in this process; returns exit code, stdout, stderr."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["queryveil", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            command_line.main()
        told = capsys.readouterr()
        return int(stop.value.code or 0), told.out, told.err

    return run

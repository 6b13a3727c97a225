"""Every snippet of the README and docs runs: Python blocks in order, and each `queryveil …` line of shell blocks."""

import doctest
import re
import shlex
import sys
from pathlib import Path

import pytest

from queryveil.cli import main as command_line
from queryveil.experiments.sweep import Sweep
from queryveil.report import editions

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
QUICK = ("suppress", "microaggregate", "stream")
"""Mechanisms that a page's comparison tries beside the rules; `make soak` compares the others too."""
BLOCK = re.compile(r"^```(python|bash)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_snippets_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(editions, "TWIN_RECORDS", 3000)  # the audit of a twin is the longest part of a small audit
    few = Sweep(
        settings=tuple(one for one in Sweep.usual().at_a_glance().settings if one.kind == "rule" or one.name in QUICK)
    )
    monkeypatch.setattr(Sweep, "usual", classmethod(lambda cls: few))
    names: dict[str, object] = {}
    for language, code in BLOCK.findall(page.read_text(encoding="utf-8")):
        if ">>>" in code:
            continue  # the test below compares these with what they show
        if language == "python":
            exec(compile(code, f"{page.name} (Python block)", "exec"), names)
            continue
        for line in code.replace("\\\n", " ").splitlines():
            if line.startswith("queryveil "):
                monkeypatch.setattr(sys, "argv", shlex.split(line, comments=True))
                with pytest.raises(SystemExit) as stop:
                    command_line.main()
                told = capsys.readouterr()
                assert not stop.value.code, f"{line}\n{told.err}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_show_what_they_print(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert doctest.testfile(str(page), module_relative=False).failed == 0


@pytest.mark.parametrize("page", [*PAGES, *ROOT.glob("C*.md"), ROOT / "SECURITY.md"], ids=lambda page: page.name)
def test_links_between_pages_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#:]+?)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        assert (page.parent / target).exists(), f"{page.name} links to {target}, which is not there"


def test_the_readme_tells_the_two_commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "make demo" in text
    assert "make test" in text

"""The files that tell others about the project say what the code says."""

import re
from pathlib import Path

from queryveil import mechanisms
from queryveil.version import __version__

ROOT = Path(__file__).parent.parent
CITATION = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_citation_is_of_this_version():
    assert f"\nversion: {__version__}\n" in CITATION


def test_the_citation_names_the_papers_behind_the_mechanisms():
    papers = {name: mechanisms.load(name).citation for name in mechanisms.BUILT_IN}
    titles = {name: re.search(r"title\s*= \{(.*?)\}", paper)[1] for name, paper in papers.items()}
    missing = {name for name, title in titles.items() if f'title: "{title}"' not in CITATION}
    assert missing == {"suppress"}, "only the pre-filter stands on no paper of its own among the five"


def test_the_changelog_knows_this_version():
    assert "## [Unreleased]" in CHANGELOG
    assert re.search(rf"^## \[{re.escape(__version__)}\]|^Will be {re.escape(__version__)}\b", CHANGELOG, re.MULTILINE)


def test_hooks_before_a_commit_fetch_nothing():
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    assert re.findall(r"repo: (\S+)", hooks) == ["local"]
    assert set(re.findall(r"language: (\S+)", hooks)) == {"system"}


def test_who_reports_a_privacy_fault_is_sent_to_the_private_way():
    for place in (".github/ISSUE_TEMPLATE/privacy-fault.yml", ".github/ISSUE_TEMPLATE/bug.yml", "CONTRIBUTING.md"):
        assert "SECURITY.md" in (ROOT / place).read_text(encoding="utf-8")

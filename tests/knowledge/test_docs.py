"""The page about knowledge is run as written."""

from __future__ import annotations

import doctest
from pathlib import Path


def test_the_examples_of_the_page_are_true() -> None:
    page = Path(__file__).resolve().parents[2] / "docs" / "knowledge.md"
    outcome = doctest.testfile(str(page), module_relative=False)
    assert outcome.attempted > 10
    assert outcome.failed == 0

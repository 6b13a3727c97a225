"""What is in a log, each figure with its words: alike on the page and in the terminal.

>>> facts_in_words({"records": 1200, "records_with_click": 0.5355, "days": 91.98}, ("records", "records_with_click"))
{'Records': '1,200', 'Records with a click': '53.5 %'}
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from queryveil.log.statistics import SHARES, TITLES
from queryveil.report.formatting import count, percent


def facts_in_words(statistics: Mapping[str, Any], names: Sequence[str] = tuple(TITLES)) -> dict[str, str]:
    """The figures of these names, or all, in the order of the names."""
    return {TITLES[name]: _told(name, statistics[name]) for name in names}


def _told(name: str, value: float | None) -> str:
    if name in SHARES:
        return percent(value)
    return count(round(value) if name == "days" and value is not None else value)

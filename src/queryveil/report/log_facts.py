"""What is in a log, each figure with its words: alike on the page and in the terminal.

>>> facts_in_words({"records": 1200, "records_with_click": 0.5355, "days": 91.98}, ("records", "records_with_click"))
{'Records': '1,200', 'Records with a click': '53.5 %'}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from queryveil.report.formatting import count, percent


def _days(number: float | None) -> str:
    return count(None if number is None else round(number))


FACTS: Final[dict[str, tuple[str, Callable[[float | None], str]]]] = {
    "records": ("Records", count),
    "users": ("People (user ids)", count),
    "texts": ("Different query texts", count),
    "records_per_user_min": ("Records a person, fewest", count),
    "records_per_user_median": ("Records a person, median", count),
    "records_per_user_mean": ("Records a person, mean", count),
    "records_per_user_max": ("Records a person, most", count),
    "words_per_query": ("Words a query", count),
    "records_with_click": ("Records with a click", percent),
    "days": ("Days covered", _days),
    "repeat_rate": ("Records that repeat the person's own text", percent),
    "texts_of_one_user": ("Texts that one person alone typed", percent),
    "records_with_text_of_one_user": ("Records with such a text", percent),
    "users_with_text_of_their_own": ("People with such a text", percent),
    "singled_out_by_1": ("People singled out by one known query", percent),
    "singled_out_by_2": ("People singled out by two known queries", percent),
    "singled_out_by_3": ("People singled out by three known queries", percent),
    "records_with_email": ("Records with an e-mail address", count),
    "records_with_long_number": ("Records with a long number", count),
}
"""Every statistic of a log: what it is called, and how it is written."""


def facts_in_words(statistics: Mapping[str, Any], names: Sequence[str] = tuple(FACTS)) -> dict[str, str]:
    """The figures of these names, or all, in the order of the names."""
    return {FACTS[name][0]: FACTS[name][1](statistics[name]) for name in names}

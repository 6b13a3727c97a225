"""Sentences of the library, said for a page instead of a command line, and numbers as people read them.

>>> for_the_page('Fix them, or leave them out with on_error="skip".')
'Fix them, or leave them out by unticking “stop at bad lines”.'
>>> percent(0.0004), percent(0.98765), percent(1.0), percent(None)
('<0.1 %', '98.8 %', '100 %', '–')
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

_SAID_DIFFERENTLY: Final = {
    'with on_error="skip"': "by unticking “stop at bad lines”",
    "(a UTF-16 file without a mark needs --encoding utf-16-le)": "(choose the encoding utf-16-le if it is such a file)",
    "Name it with --format:": "Choose the format yourself. There are:",
    "--columns names": "the columns you chose name",
    "map it: --columns": "choose it above:",
    "Say that such ids are different people with --similar-ids different.": "Only the command line can go on with it.",
    "Leave --block-categories out": "Unblock all categories",
    "Try stronger settings in a sweep of your own (--config),": "Try stronger settings yourself, below,",
    "Try --format jsonl.": "Choose jsonl as the format of the release.",
    "--format": "the format",
}


TASKS: Final = {
    "query frequency": ("Know which queries are popular", "Suggestions, spelling, caching: which texts, how often."),
    "query suggestion": ("Suggest what to ask next", "Which query follows which."),
    "topic profiles": ("See what interests people have", "Topics of people, without who they are."),
    "categories": ("Follow subjects", "How interest spreads over categories."),
    "sessions and volume": ("Count use", "How many searches, how many people, how long a visit."),
}
"""What releases are made for, under the names that audits give their measures, for people."""


def measured_task(wanted: str, measured: Sequence[str]) -> str:
    """The task whose measures are shown: the wanted one, or the first where this log has no measure of it.

    >>> measured_task("categories", ["topic profiles", "query frequency"])
    'topic profiles'
    """
    return wanted if wanted in measured or not measured else measured[0]


def for_the_page(message: str) -> str:
    """An error message without options of the command line."""
    for option, said in _SAID_DIFFERENTLY.items():
        message = message.replace(option, said)
    return message


def cost_of_stopping(request: Mapping[str, Any]) -> str | None:
    """What a release that was stopped has cost all the same, if it had come that far.

    >>> cost_of_stopping({"paying": True, "paid": True})
    'Its budget was debited before it stopped; making it again will be debited again.'
    >>> cost_of_stopping({"paying": True})
    'Its budget may have been debited before it stopped: the ledger tells. Making it again will be debited again.'
    >>> cost_of_stopping({})
    """
    if request.get("paid"):
        return "Its budget was debited before it stopped; making it again will be debited again."
    if request.get("paying"):
        return (
            "Its budget may have been debited before it stopped: the ledger tells. "
            "Making it again will be debited again."
        )
    return None


def percent(share: float | None) -> str:
    """A share for people."""
    if share is None:
        return "–"
    if 0 < share < 0.001:
        return "<0.1 %"
    return f"{share:.0%}".replace("%", " %") if share in (0, 1) else f"{share:.1%}".replace("%", " %")


def number(value: float | None) -> str:
    """A figure for people: thousands apart, at most one decimal."""
    if value is None:
        return "–"
    return f"{value:,.0f}" if float(value).is_integer() or abs(value) >= 100 else f"{value:,.1f}"


def moment(stamp: float) -> str:
    """A time for people, in the server's zone."""
    return time.strftime("%-d %B %Y, %H:%M", time.localtime(stamp))


def until(stamp: float) -> str:
    """How long it is until a time, in hours or minutes."""
    minutes = max(0, round((stamp - time.time()) / 60))
    return f"{minutes // 60} hours" if minutes >= 120 else f"{minutes} minutes"

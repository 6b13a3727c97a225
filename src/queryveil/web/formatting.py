"""What the page says in its own words: where a remedy is found on it, what releases are for, what stopping costs.

>>> from queryveil.errors import FormatError
>>> FormatError("3 lines cannot be read.", remedy=Remedy("on_error", "skip")).describe(as_page_field)
'3 lines cannot be read. Try unticking “stop at bad lines”.'
>>> as_page_field(Remedy("encoding", "utf-16-le")), as_page_field(Remedy("format", "NAME"))
('utf-16-le under “Encoding”', 'another choice under “Format”')
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from queryveil.errors import Remedy

FIELDS: Final = {
    "format": "{value} under “Format”",
    "input_format": "{value} under “Format”",
    "encoding": "{value} under “Encoding”",
    "columns": "other choices under “Which column is which?”",
    "on_error": "unticking “stop at bad lines”",
    "similar_ids": "the command line: only there such ids can be declared different people",
    "block_categories": "ticking no topic under “Topics to keep out”",
    "config": "stronger settings under “Choose a protection yourself”",
    "port": "starting the server on another port",
    "folder": "starting the server with another folder",
}
"""Where the page has what a remedy names."""

TASKS: Final = {
    "query frequency": ("Know which queries are popular", "Suggestions, spelling, caching: which texts, how often."),
    "query suggestion": ("Suggest what to ask next", "Which query follows which."),
    "topic profiles": ("See what interests people have", "Topics of people, without who they are."),
    "categories": ("Follow subjects", "How interest spreads over categories."),
    "contents": ("Read what people typed", "How many records hold a text as it was asked."),
    "sessions and volume": ("Count use", "How many searches, how many people, how long a visit."),
}
"""What releases are made for, under the names that audits give their measures, for people."""


RECIPIENTS: Final = {"public": "anybody", "partner": "a partner under contract", "team": "another team of the holder's"}


def purpose_in_words(purpose: Mapping[str, Any]) -> str:
    """Who receives a release and what for, as the report says it.

    >>> purpose_in_words({"recipient": "public", "task": "query frequency"})
    'For anybody, to know which queries are popular (query frequency).'
    """
    task = str(purpose["task"])
    what = TASKS[task][0] if task in TASKS else f"serve the task “{task}”"
    return (
        f"For {RECIPIENTS.get(purpose['recipient'], purpose['recipient'])}, to {what[:1].lower()}{what[1:]} ({task})."
    )


def as_page_field(remedy: Remedy) -> str:
    """A remedy as the field of the page where it is chosen; a mechanism's parameters go by their names."""
    value = "nothing" if remedy.value is None else str(remedy.value)
    field = FIELDS.get(remedy.parameter, "{value} under “{name}”")
    return field.format(value="another choice" if value.isupper() else value, name=remedy.parameter.replace("_", " "))


def measured_task(wanted: str, measured: Sequence[str]) -> str:
    """The task whose measures are shown: the wanted one, or the first where this log has no measure of it.

    >>> measured_task("categories", ["topic profiles", "query frequency"])
    'topic profiles'
    """
    return wanted if wanted in measured or not measured else measured[0]


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

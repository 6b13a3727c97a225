"""The settings of a mechanism as people say them, for pages and reports, and footnotes for its short names.

A parameter's field may declare how it is said (`shown` in its metadata): words with {} for the value, or words for each
value. What every mechanism has is said here; anything else goes by its name and value.

>>> from queryveil import mechanisms
>>> in_words(mechanisms.load("suppress"), {"k_text": 5, "time": "drop"})
'texts of at least 5 people, without times'
>>> footnotes([(mechanisms.load("suppress"), {"k_text": 5}), (mechanisms.load("suppress"), {"k_text": 20})])
['suppress k_text=N: texts of at least N people']
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any, Final

Shown = str | Mapping[str, str]

USUAL: Final[dict[str, Shown]] = {
    "epsilon": "ε = {}",
    "delta": "δ = {}",
    "per": {"query": "for each query", "user": "for all queries of a person"},
    "time": {"drop": "without times", "day": "days only", "hour": "hours only", "keep": "exact times"},
    "mode": {"paper": "as in the publication"},
}
FAMILIAR: Final = frozenset({"epsilon", "delta", "per"})
"""What needs no footnote."""


def in_words(kind: type | None, parameters: Mapping[str, Any]) -> str:
    """All of a setting in one phrase."""
    return ", ".join(filter(None, (parameter_in_words(kind, name, value) for name, value in parameters.items())))


def parameter_in_words(kind: type | None, name: str, value: Any) -> str:
    """One parameter, by its name where nothing else is declared; nothing where it is not set or says nothing."""
    if value is None or value is False or (name == "mode" and value == "safe"):
        return ""
    return declared_words(kind, name, value) or f"{name.replace('_', ' ').strip()} {_number(value)}"


def declared_words(kind: type | None, name: str, value: Any) -> str:
    """The words that are declared for a parameter of this value; nothing where there are none."""
    shown = _shown(kind, name)
    return shown.format(_number(value)) if isinstance(shown, str) else (shown or {}).get(str(value), "")


def choices_in_words(kind: type, name: str) -> Mapping[str, str]:
    """What each choice of a parameter means, where that is declared."""
    shown = _shown(kind, name)
    return {} if shown is None or isinstance(shown, str) else shown


def footnotes(settings: Iterable[tuple[type, Mapping[str, Any]]]) -> list[str]:
    """What the names and values in the labels of settings mean, each once; any number is called N."""
    notes: dict[str, None] = {}
    for kind, parameters in settings:
        for name, value in parameters.items():
            shown = _shown(kind, name)
            said, told = (shown.format("N"), "N") if isinstance(shown, str) else ((shown or {}).get(str(value)), value)
            if said and name not in FAMILIAR:
                notes[f"{getattr(kind, 'name', '')} {name}={told}: {said}".strip()] = None
    return list(notes)


def _shown(kind: type | None, name: str) -> Shown | None:
    own = {} if kind is None or not dataclasses.is_dataclass(kind) else {f.name: f for f in dataclasses.fields(kind)}
    declared: Shown | None = own[name].metadata.get("shown") if name in own else None
    return declared or USUAL.get(name)


def _number(value: Any) -> str:
    if isinstance(value, bool):
        return "yes"
    if isinstance(value, float):
        return f"{value:g}"
    return f"{value:,}" if isinstance(value, int) else str(value)

"""The protectors: one paper, one module.

`load("suppress")` gives a mechanism's class by its name; `Suppress` and the others are the same classes by theirs.
Third parties add their own through the entry-point group `queryveil.mechanisms`.

>>> Suppress is load("suppress")
True

Nothing outside a mechanism knows one by its name. What reports, the page and sweeps say of it, its class may declare:
`title` and `summary` (for people who have not read the paper), `citation` (BibTeX), `sweep` (parameters that a usual
comparison tries; a list means each of its values), `beside_rules` (those that are tried beside today's rules),
`demo_parameters` (of one that can `obfuscate` a query),
`text_parameters` (free texts that name no file, so that a browser may set them) and `paper_parameters` (those without
a meaning in safe mode).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from typing import TYPE_CHECKING, Any

from queryveil.checks import no_such
from queryveil.errors import ParameterError, UsageError
from queryveil.plugins import installed

if TYPE_CHECKING:
    from queryveil.mechanisms.distill import Distill as Distill
    from queryveil.mechanisms.microaggregate import Microaggregate as Microaggregate
    from queryveil.mechanisms.obfuscate import Obfuscate as Obfuscate
    from queryveil.mechanisms.sanitize import Sanitize as Sanitize
    from queryveil.mechanisms.semantic import Semantic as Semantic
    from queryveil.mechanisms.stream import Stream as Stream
    from queryveil.mechanisms.suppress import Suppress as Suppress

__all__ = [
    "Distill",
    "Microaggregate",
    "Obfuscate",
    "Sanitize",
    "Semantic",
    "Stream",
    "Suppress",
    "load",
    "make",
    "names",
    "recreate",
]

BUILT_IN = {
    "suppress": "queryveil.mechanisms.suppress:Suppress",
    "microaggregate": "queryveil.mechanisms.microaggregate:Microaggregate",
    "sanitize": "queryveil.mechanisms.sanitize:Sanitize",
    "semantic": "queryveil.mechanisms.semantic:Semantic",
    "stream": "queryveil.mechanisms.stream:Stream",
    "obfuscate": "queryveil.mechanisms.obfuscate:Obfuscate",
    "distill": "queryveil.mechanisms.distill:Distill",
}
"""Where each mechanism lives; loaded when asked for, so that starting up stays quick."""

ENTRY_POINTS = "queryveil.mechanisms"


def names() -> list[str]:
    """The mechanisms that can be loaded: ours in their order, then third parties'."""
    return list(dict.fromkeys([*BUILT_IN, *(entry.name for entry in installed(ENTRY_POINTS))]))


def load(name: str) -> type[Any]:
    """The class of a mechanism."""
    if name in BUILT_IN:
        return _found(EntryPoint(name, BUILT_IN[name], ENTRY_POINTS))
    for entry in installed(ENTRY_POINTS):
        if entry.name == name:
            return _found(entry)
    raise UsageError(no_such("mechanism", name, names()))


def make(name: str, **parameters: Any) -> Any:
    """A mechanism by its name, with its public parameters.

    >>> make("suppress", k_text=3).guarantee().model
    'none'
    """
    mechanism = load(name)
    known = {field.name for field in dataclasses.fields(mechanism)}
    unknown = sorted(parameters.keys() - known)
    if unknown:
        raise ParameterError([f"{name} has no parameter {u}. It has {', '.join(sorted(known))}." for u in unknown])
    return mechanism(**parameters)


def recreate(manifest: Mapping[str, Any]) -> Any:
    """The mechanism that a manifest describes, without state that it kept from release to release."""
    try:
        name, parameters, mode = manifest["mechanism"], dict(manifest["parameters"]), manifest["mode"]
    except (KeyError, TypeError, ValueError):
        raise UsageError(
            "the manifest does not say which mechanism made the release, and with which settings."
        ) from None
    fields = {field.name for field in dataclasses.fields(load(name))} - {"state"}
    return make(name, **{key: value for key, value in parameters.items() if key in fields}, mode=mode)


def _found(entry: EntryPoint) -> type[Any]:
    mechanism: type[Any] = entry.load()
    return mechanism


if not TYPE_CHECKING:
    from queryveil._lazy import attach

    __getattr__, __dir__ = attach(__name__, {name.capitalize(): place for name, place in BUILT_IN.items()})

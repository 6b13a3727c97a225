"""Packages whose public names load when they are first used, so that a command loads only what it needs.

A package says where its names are, and under `TYPE_CHECKING` imports them as ever, for type checkers and readers.

>>> found, listed = attach("queryveil.privacy", {"Noise": "queryveil.privacy.noise"})
>>> found("Noise").__name__, "Noise" in listed()
('Noise', True)
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def attach(package: str, where: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` of a package; a name that is called otherwise in its module is `module:name`, and a
    module itself is `module:`."""

    def find(name: str) -> Any:
        if name not in where:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        place, colon, attribute = where[name].partition(":")
        module = import_module(place)
        found = module if colon and not attribute else getattr(module, attribute or name)
        setattr(sys.modules[package], name, found)
        return found

    def list_names() -> list[str]:
        return sorted({*vars(sys.modules[package]), *where})

    return find, list_names

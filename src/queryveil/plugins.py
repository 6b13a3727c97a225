"""Parts of third parties: what the packages installed here declare in our entry-point groups.

>>> all(entry.group == "queryveil.formats" for entry in installed("queryveil.formats"))
True
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import EntryPoint, entry_points

OURS = "queryveil."


def installed(group: str) -> tuple[EntryPoint, ...]:
    """The entry points of a group, by name."""
    return _installed_on(tuple(sys.path)).get(group, ())


@lru_cache(maxsize=4)  # looking through all that is installed takes as long as reading a small log
def _installed_on(path: tuple[str, ...]) -> Mapping[str, tuple[EntryPoint, ...]]:
    found = entry_points()
    return {
        group: tuple(sorted(found.select(group=group), key=lambda entry: entry.name))
        for group in found.groups
        if group.startswith(OURS)
    }

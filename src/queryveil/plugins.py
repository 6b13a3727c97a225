"""Parts of third parties: what the packages installed here declare in our entry-point groups.

>>> all(entry.group == "queryveil.formats" for entry in installed("queryveil.formats"))
True
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points


@cache  # looking through all that is installed takes as long as reading a small log: once a process
def installed(group: str) -> tuple[EntryPoint, ...]:
    """The entry points of a group, by name."""
    return tuple(sorted(entry_points(group=group), key=lambda entry: entry.name))

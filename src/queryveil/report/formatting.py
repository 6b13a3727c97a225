"""Values as people read them, alike in reports, on the page and on the command line.

>>> percent(0.0234), percent(None), count(1200), plain(0.123456), plain({"users": 1500})
('2.3 %', '–', '1,200', '0.1235', 'users: 1,500')
>>> size(4 << 30), size(1500), size(12)
('4 GiB', '1.46 KiB', '12 bytes')
"""

from __future__ import annotations

import time
from collections.abc import Mapping

from queryveil.audit.formatting import format_figure


def percent(share: float | None) -> str:
    """A share."""
    return format_figure(share, "share")


def count(number: float | None) -> str:
    """A number of things, or a mean of such numbers."""
    return format_figure(number, "count")


def plain(value: object) -> str:
    """A fact of any kind: four digits of a number, thousands apart, mappings in one line."""
    if isinstance(value, Mapping):
        return ", ".join(f"{name}: {plain(part)}" for name, part in value.items())
    if isinstance(value, float):
        return f"{value:,.4g}"
    if value is None:
        return "–"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def size(number: int) -> str:
    """A number of bytes."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if number >= unit:
            return f"{number / unit:.3g} {name}"
    return f"{number} bytes"


def moment(stamp: float) -> str:
    """A time, in the zone of this machine."""
    return time.strftime("%-d %B %Y, %H:%M", time.localtime(stamp))


def until(stamp: float) -> str:
    """How long it is until a time, in hours or minutes."""
    minutes = max(0, round((stamp - time.time()) / 60))
    return f"{minutes // 60} hours" if minutes >= 120 else f"{minutes} minutes"


def sentence(words: str) -> str:
    """Words with a capital at their beginning, but never a sign's: Ε would be another letter than ε.

    >>> sentence("k-anonymity holds."), sentence("ε-differential privacy holds.")
    ('K-anonymity holds.', 'ε-differential privacy holds.')
    """
    return words[:1].upper() + words[1:] if words[:1].isascii() else words

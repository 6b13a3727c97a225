"""Figures as people read them, alike on every page and on the command line.

>>> print(*(format_figure(share, "share") for share in (0.0234, 0.0, 0.00012, 0.9999)), sep=", ")
2.3 %, 0 %, < 0.1 %, > 99.9 %
>>> format_figure(1200, "count"), format_figure(0.25, "distance")
('1,200', '0.250')
"""

from __future__ import annotations

from queryveil.audit.finding import Finding, Unit
from queryveil.privacy.guarantee import rounded_up

PERCENT = " %"
TOO_FEW = "too few to say"
"""In place of a figure from fewer trials than can decide anything."""


def format_figure(value: float | None, unit: Unit) -> str:
    """One figure in its unit; a dash where there is none."""
    if value is None:
        return "–"
    if unit == "share":
        return _percent(value)
    if unit == "count":
        return f"{value:,.0f}" if float(value).is_integer() else f"{value:,.1f}"
    return f"ε {rounded_up(value)}" if unit == "epsilon" and value >= 0 else f"{value:.3f}"


def between(found: Finding) -> str:
    """The interval of a figure, or nothing where it has none."""
    if found.low is None or found.high is None or (found.low == found.high == found.value):
        return ""
    if found.unit == "share":
        return f"{_percent(found.low).removesuffix(PERCENT)} to {_percent(found.high)}"
    return f"{format_figure(found.low, found.unit)} to {format_figure(found.high, found.unit)}"


def _percent(share: float) -> str:
    percent = 100 * share
    if 0 < percent < 0.1:
        return f"< 0.1{PERCENT}"
    if 99.9 < percent < 100:
        return f"> 99.9{PERCENT}"
    return f"{_plain(percent)}{PERCENT}"


def _plain(number: float) -> str:
    return f"{number:.1f}".removesuffix(".0") if abs(number) < 100 else f"{number:,.0f}"

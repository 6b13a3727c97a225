"""Shares of several things side by side, as bars with their figures written at the end.

>>> "<script>" in bar_chart([Bars("<script>", (0.5, None))], ("head", "tail"), title="kept")
False
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from markupsafe import Markup

from queryveil.report.charts import svg, text
from queryveil.report.formatting import percent

WIDTH: Final = 640
LEFT: Final = 150
FIGURES: Final = 60
"""Room for what is written behind a bar."""
BAR: Final = 11
GAP: Final = 9


@dataclass(frozen=True)
class Bars:
    """A label, and its share in each series; None where there is nothing to show."""

    label: str
    shares: tuple[float | None, ...]


def bar_chart(rows: Sequence[Bars], series: Sequence[str], *, title: str) -> Markup:
    """One group of bars for each row; the first series is dark, the second light."""
    parts: list[Markup] = []
    top = 18
    for number, name in enumerate(series):
        at = LEFT + 150 * number
        parts += [_bar(number, at, 2, 12), text(name, at + 17, 12, "start")]
    for row in rows:
        middle = top + 4 + BAR * len(series) / 2 + 4
        parts.append(text(row.label, LEFT - 8, round(middle, 1), "end", "label"))
        for number, share in enumerate(row.shares):
            y = top + 4 + number * BAR
            length = (WIDTH - LEFT - FIGURES) * min(max(share or 0.0, 0.0), 1.0)
            parts.append(_bar(number, LEFT, y, length))
            written = "none" if share is None else percent(share)
            parts.append(text(written, LEFT + length + 4, y + BAR - 2, "start"))
        top += BAR * len(series) + GAP
    return svg("plot bars", WIDTH, top + 6, title, parts)


def _bar(number: int, x: float, y: float, length: float) -> Markup:
    kind = ("dark", "light")[number % 2]
    return Markup('<rect class="{}" x="{}" y="{}" width="{}" height="{}"/>').format(
        kind, round(x, 1), y, round(max(length, 0.6), 1), BAR - 2
    )

"""Charts as SVG made on the server: no script, printable, and readable by a screen reader through title and table.

Colours and fonts come from the style sheet by class; the Content-Security-Policy allows no inline style.

>>> "<svg" in bars([("one known query", 0.4), ("two", 0.9)], "Singled out")
True
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from markupsafe import Markup, escape

from queryveil.web.formatting import percent
from queryveil.web.models import Point

BAR_WIDTH, BAR_HEIGHT, ROW = 300.0, 14, 46
LEFT, RIGHT, TOP, BOTTOM = 46.0, 600.0, 12.0, 330.0
"""The plane of the frontier in the chart's own units."""
RISKS: Final = (0.0, 0.01, 0.05, 0.2, 0.5, 1.0)
LABEL_SIZE: Final = 17.0


def bars(items: Sequence[tuple[str, float | None]], title: str) -> Markup:
    """Horizontal bars of shares, each under its label."""
    rows = []
    for number, (label, share) in enumerate(items):
        top = number * ROW
        length = BAR_WIDTH * (share or 0.0)
        rows.append(
            f'<text class="label" x="0" y="{top + 14}">{escape(label)}</text>'
            f'<rect class="track" x="0" y="{top + 22}" width="{BAR_WIDTH:.0f}" height="{BAR_HEIGHT}" rx="3"/>'
            f'<rect class="bar" x="0" y="{top + 22}" width="{length:.1f}" height="{BAR_HEIGHT}" rx="3"/>'
            f'<text class="value" x="{BAR_WIDTH + 8:.0f}" y="{top + 34}">{percent(share)}</text>'
        )
    height = len(items) * ROW
    return Markup(
        f'<svg class="chart" role="img" aria-label="{escape(title)}" viewBox="0 0 {BAR_WIDTH + 60:.0f} {height}">'
        f"<title>{escape(title)}</title>{''.join(rows)}</svg>"
    )


def frontier(points: Sequence[Point], max_risk: float, task: str) -> Markup:
    """Settings by risk (to the right: worse) and use (up: better), numbered as in the table below the chart.

    Risk is on a square-root scale, because the decisions are made at its small end. Dots that fall together keep their
    place; their numbers step aside and a thin line leads back.
    """
    parts = [
        f'<rect class="allowed" x="{LEFT}" y="{TOP}" width="{_across(max_risk) - LEFT:.1f}" height="{BOTTOM - TOP}"/>',
        f'<text class="tick" x="{LEFT + 6}" y="{TOP + 14}">acceptable risk</text>',
    ]
    for risk in RISKS:
        x = _across(risk)
        parts.append(f'<line class="gridline" x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{BOTTOM}"/>')
        parts.append(f'<text class="tick" text-anchor="middle" x="{x:.1f}" y="{BOTTOM + 16}">{risk:.0%}</text>')
    for kept in (0.0, 0.25, 0.5, 0.75, 1.0):
        y = _up(kept)
        parts.append(f'<line class="gridline" x1="{LEFT}" y1="{y:.1f}" x2="{RIGHT}" y2="{y:.1f}"/>')
        parts.append(f'<text class="tick" text-anchor="end" x="{LEFT - 6}" y="{y + 4:.1f}">{kept:.0%}</text>')
    shown = [(number, point) for number, point in enumerate(points, 1) if is_shown(point)]
    edge = sorted((_across(p.risk or 0), _up(p.kept_for_task or 0)) for _, p in shown if p.best)
    if len(edge) > 1:
        parts.append(f'<polyline class="edge" points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in edge)}"/>')
    dots = [(_across(point.risk or 0), _up(point.kept_for_task or 0)) for _, point in shown]
    taken: list[tuple[float, float]] = []
    for number, point in shown:
        x, y = _across(point.risk or 0), _up(point.kept_for_task or 0)
        at = _free_place(x, y, taken, dots)
        taken.append(at)
        kind = "chosen" if point.advised else "best" if point.best else point.kind
        parts.append(f'<line class="lead" x1="{x:.1f}" y1="{y:.1f}" x2="{at[0]:.1f}" y2="{at[1]:.1f}"/>')
        parts.append(
            f'<circle class="dot {kind}" cx="{x:.1f}" cy="{y:.1f}" r="6"><title>{escape(point.label)}</title></circle>'
        )
        parts.append(f'<text class="number" text-anchor="middle" x="{at[0]:.1f}" y="{at[1] + 4:.1f}">{number}</text>')
    middle = (LEFT + RIGHT) / 2
    parts.append(
        f'<text text-anchor="middle" x="{middle}" y="{BOTTOM + 36}">what the best attack gets (less is better) →</text>'
    )
    title = f"Risk and use of each setting, for {task}"
    box = f"0 0 {RIGHT + 24:.0f} {BOTTOM + 44:.0f}"
    return Markup(
        f'<svg class="chart wide" role="img" aria-label="{escape(title)}" viewBox="{box}">'
        f"<title>{escape(title)}</title>{''.join(parts)}</svg>"
    )


def is_shown(point: Point) -> bool:
    """Whether a setting has a place in the plane: it was measured, and something is left."""
    return point.risk is not None and point.kept_for_task is not None and point.records > 0


def _across(risk: float) -> float:
    return LEFT + (RIGHT - LEFT) * math.sqrt(min(max(risk, 0.0), 1.0))


def _up(kept: float) -> float:
    return BOTTOM - (BOTTOM - TOP) * min(max(kept, 0.0), 1.0)


def _free_place(
    x: float, y: float, taken: Sequence[tuple[float, float]], dots: Sequence[tuple[float, float]]
) -> tuple[float, float]:
    """The nearest place for a number beside a dot where neither another number nor another dot is."""
    for ring in range(1, 12):
        for right, down in ((1, -0.6), (1, 0.6), (-1, -0.6), (-1, 0.6), (0, -1), (0, 1)):
            at = (x + right * LABEL_SIZE * ring * 0.9, y + down * LABEL_SIZE * ring * 0.9)
            inside = LEFT + 8 < at[0] < RIGHT + 12 and TOP + 20 < at[1] < BOTTOM - 8
            free = all(abs(at[0] - a) > LABEL_SIZE or abs(at[1] - b) > LABEL_SIZE * 0.8 for a, b in taken)
            if inside and free and all(math.dist(at, dot) > LABEL_SIZE * 0.75 for dot in dots):
                return at
    return x, y - LABEL_SIZE

"""Plots as SVG without scripts: they print, they work offline, and a hostile text in them stays a text.

Every mark differs by shape as well as by colour, so that a page printed in black and white says the same. Hovering a
mark tells its figures (`<title>`). All texts go through `Markup.format`, which escapes them.

>>> "<script>" in frontier_plot([Point("<script>", "m", 0.1, 0.9, True)], ["m"], risk="risk", utility="kept")
False
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

from markupsafe import Markup

from queryveil.audit.finding import Finding
from queryveil.audit.formatting import between, told

STRIP_WIDTH, STRIP_HEIGHT, MARGIN = 220, 26, 7
PLOT_WIDTH, PLOT_HEIGHT = 640, 400
LEFT, RIGHT, TOP, BOTTOM = 58, 16, 14, 46
LETTER = 5.9  # about the width of a letter at 11 px, for keeping labels apart
RISK_TICKS = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0)
SHAPES = ("circle", "square", "diamond", "triangle", "cross", "ring", "bar", "plus")

Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Point:
    """One setting in the plane of risk and utility."""

    label: str
    group: str
    risk: float
    utility: float
    on_frontier: bool


def strip(found: Finding) -> Markup:
    """A finding on a line: interval and figure, beside the raw log, chance and what the promise allows."""
    top = _top(found)

    def x(value: float) -> float:
        return round(MARGIN + (STRIP_WIDTH - 2 * MARGIN) * min(max(value / top, 0.0), 1.0), 1)

    middle = STRIP_HEIGHT / 2
    parts = [
        Markup('<line class="axis" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(x(0), middle, x(top), middle),
        *(
            Markup('<line class="tick" x1="{0}" y1="{1}" x2="{0}" y2="{2}"/>').format(
                x(top * q), middle - 3, middle + 3
            )
            for q in (0, 0.25, 0.5, 0.75, 1)
        ),
    ]
    if found.chance is not None:
        parts.append(Markup('<path class="chance" d="M{0} {1}V{2}"/>').format(x(found.chance), 3, STRIP_HEIGHT - 3))
    if found.bound is not None:
        parts.append(Markup('<path class="bound" d="M{0} 1V{1}"/>').format(x(found.bound), STRIP_HEIGHT - 1))
    if found.raw is not None:
        parts.append(_mark("open-diamond", x(found.raw), middle, 5.0))
    if found.low is not None and found.high is not None:
        parts.append(
            Markup('<line class="interval" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(
                x(found.low), middle, x(found.high), middle
            )
        )
    parts.append(_mark("value", x(found.value), middle, 4.0))
    words = f"{found.title}: {told(found.value, found.unit)} {between(found)}".strip()
    return Markup(
        '<svg class="strip" role="img" viewBox="0 0 {0} {1}" width="{0}" height="{1}"><title>{2}</title>{3}</svg>'
    ).format(STRIP_WIDTH, STRIP_HEIGHT, words, Markup().join(parts))


def axis_ends(found: Finding) -> tuple[str, str]:
    """What the two ends of a finding's line stand for."""
    top = _top(found)
    return told(0, found.unit) if found.unit != "epsilon" else "0", told(top, found.unit)


def _top(found: Finding) -> float:
    if found.unit == "share" or (found.unit == "distance" and max(_numbers(found)) <= 1):
        return 1.0
    most = max(_numbers(found))
    step = 10.0 ** len(str(int(most))) / 10
    return max(step * -(-most * 1.05 // step), 1.0)


def _numbers(found: Finding) -> list[float]:
    numbers = (found.value, found.low, found.high, found.raw, found.chance, found.bound)
    return [number for number in numbers if number is not None]


def frontier_plot(points: Sequence[Point], groups: Sequence[str], *, risk: str, utility: str) -> Markup:
    """Risk to the right, utility upwards: the best settings lie at the top left, joined by the frontier.

    Risk is on a square-root scale, since the settings one would choose among lie close to 0. `groups` orders the marks.
    """
    right_end = next(tick for tick in RISK_TICKS if tick >= max([0.1, *(min(point.risk, 1.0) for point in points)]))

    def place(point: Point) -> tuple[float, float]:
        return _x(math.sqrt(max(point.risk, 0.0) / right_end)), _y(point.utility)

    best = sorted((point for point in points if point.on_frontier), key=lambda point: (point.risk, point.utility))
    taken: list[Box] = [(x - 7, y - 7, x + 7, y + 7) for x, y in map(place, points)]
    parts = [*_axes(right_end, risk=risk, utility=utility), *_steps([place(point) for point in best], taken)]
    for point in points:
        shape = SHAPES[groups.index(point.group) % len(SHAPES)]
        words = f"{point.label}: {risk} {told(point.risk, 'share')}, {utility} {told(point.utility, 'share')}"
        style = "best" if point.on_frontier else "other"
        parts.append(
            Markup('<g class="{}"><title>{}</title>{}</g>').format(style, words, _mark(shape, *place(point), 5.5))
        )
    parts += [_label(point.label, *place(point), taken) for point in best]
    return Markup(
        '<svg class="plot" role="img" viewBox="0 0 {0} {1}" width="{0}" height="{1}"><title>{2}</title>{3}</svg>'
    ).format(PLOT_WIDTH, PLOT_HEIGHT, f"{utility} against {risk}", Markup().join(parts))


def _steps(places: Sequence[tuple[float, float]], taken: list[Box]) -> list[Markup]:
    """The frontier as a staircase from its first point to the right edge; its lines keep labels away."""
    if not places:
        return []
    corners = [places[0]]
    for x, y in places[1:]:
        corners += [(x, corners[-1][1]), (x, y)]
    corners.append((PLOT_WIDTH - RIGHT, corners[-1][1]))
    for (x1, y1), (x2, y2) in itertools.pairwise(corners):
        taken.append((min(x1, x2) - 1, min(y1, y2) - 2, max(x1, x2) + 1, max(y1, y2) + 2))
    return [Markup('<path class="frontier" d="M{}"/>').format("L".join(f"{x:.1f} {y:.1f}" for x, y in corners))]


def legend_mark(number: int) -> Markup:
    """The mark of the n-th group, for a legend or a table."""
    shape = SHAPES[number % len(SHAPES)]
    return Markup('<svg class="key" viewBox="0 0 16 16" width="16" height="16">{}</svg>').format(
        _mark(shape, 8, 8, 5.5)
    )


def bar(share: float) -> Markup:
    """A share as a bar, for a cell of a table."""
    return Markup(
        '<svg class="bar" viewBox="0 0 90 10" width="90" height="10"><rect class="whole" x="0.5" y="0.5" width="89" '
        'height="9"/><rect class="part" x="0.5" y="0.5" width="{}" height="9"/></svg>'
    ).format(round(89 * min(max(share, 0.0), 1.0), 1))


def _axes(right_end: float, *, risk: str, utility: str) -> list[Markup]:
    parts = []
    for tick in (tick for tick in RISK_TICKS if tick <= right_end):
        x = _x(math.sqrt(tick / right_end))
        parts.append(Markup('<path class="grid" d="M{} {}V{}"/>').format(x, TOP, PLOT_HEIGHT - BOTTOM))
        parts.append(_text(told(tick, "share"), x, PLOT_HEIGHT - BOTTOM + 16, "middle"))
    for number in range(5):
        y = _y(number / 4)
        parts.append(Markup('<path class="grid" d="M{} {}H{}"/>').format(LEFT, y, PLOT_WIDTH - RIGHT))
        parts.append(_text(told(number / 4, "share"), LEFT - 8, y + 4, "end"))
    parts.append(_text(f"{risk} →", (LEFT + PLOT_WIDTH - RIGHT) / 2, PLOT_HEIGHT - 8, "middle", "axis-title"))
    turned = Markup('<text class="axis-title" text-anchor="middle" transform="translate(12 {}) rotate(-90)">{}</text>')
    parts.append(turned.format((TOP + PLOT_HEIGHT - BOTTOM) / 2, f"{utility} →"))
    return parts


def _label(words: str, x: float, y: float, taken: list[Box]) -> Markup:
    """A text beside a mark where nothing else is; left out where there is no room (the table has it)."""
    width = LETTER * len(words)
    heights = (4, -8, 16, -20, 28, -32, 40)
    places = [(x + 11, y + dy, "start") for dy in heights] + [(x - 11, y + dy, "end") for dy in heights]
    for at, base, anchor in places:
        left = at if anchor == "start" else at - width
        box = (left, base - 9, left + width, base + 3)
        inside = box[0] >= LEFT and box[2] <= PLOT_WIDTH - 2 and box[1] >= 2 and box[3] <= PLOT_HEIGHT - BOTTOM
        if inside and not any(_overlap(box, other) for other in taken):
            taken.append(box)
            return _text(words, at, base, anchor, "label")
    return Markup()


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _x(share: float) -> float:
    return round(LEFT + (PLOT_WIDTH - LEFT - RIGHT) * min(max(share, 0.0), 1.0), 1)


def _y(share: float) -> float:
    return round(PLOT_HEIGHT - BOTTOM - (PLOT_HEIGHT - TOP - BOTTOM) * min(max(share, 0.0), 1.0), 1)


def _text(words: str, x: float, y: float, anchor: str, style: str = "tick-label") -> Markup:
    return Markup('<text class="{}" x="{}" y="{}" text-anchor="{}">{}</text>').format(
        style, round(x, 1), y, anchor, words
    )


def _mark(shape: str, x: float, y: float, r: float) -> Markup:
    if shape in ("circle", "ring", "value"):
        return Markup('<circle class="{}" cx="{}" cy="{}" r="{}"/>').format(shape, x, y, r)
    d = r * 1.2
    path = {
        "square": f"M{x - r} {y - r}h{2 * r}v{2 * r}h{-2 * r}z",
        "diamond": f"M{x} {y - d}l{d} {d}l{-d} {d}l{-d} {-d}z",
        "open-diamond": f"M{x} {y - d}l{d} {d}l{-d} {d}l{-d} {-d}z",
        "triangle": f"M{x} {y - d}l{d} {2 * r}h{-2 * d}z",
        "cross": f"M{x - r} {y - r}l{2 * r} {2 * r}M{x - r} {y + r}l{2 * r} {-2 * r}",
        "plus": f"M{x - d} {y}h{2 * d}M{x} {y - d}v{2 * d}",
        "bar": f"M{x - d} {y}h{2 * d}",
    }[shape]
    return Markup('<path class="{}" d="{}"/>').format(shape, path)

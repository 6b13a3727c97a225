"""Plots as SVG without scripts, for reports, for the page and for notebooks.

They print, they work offline, and a hostile text in them stays a text: all texts go through `Markup.format`, which
escapes them. Colours come from the style sheet of whoever shows them, by class, since neither reports nor the page
allow inline styles. Hovering a mark tells its figures (`<title>`).

>>> "<script>" in frontier_plot([Point("<script>", 0.1, 0.9, label="<script>")], risk="risk", utility="kept")
False
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from queryveil.audit.finding import Finding
from queryveil.audit.formatting import TOO_FEW, between, format_figure
from queryveil.log import QueryLog
from queryveil.report.formatting import percent

STRIP_WIDTH, STRIP_HEIGHT, MARGIN = 220, 26, 7
PLOT_WIDTH, PLOT_HEIGHT = 640, 400
LEFT, RIGHT, TOP, BOTTOM = 58, 22, 14, 46
LETTER = 5.9  # about the width of a letter at 11 px, for keeping labels apart
RISK_TICKS = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0)
SHAPES = ("circle", "square", "diamond", "triangle", "cross", "ring", "bar", "plus")
"""Of the groups in a report, so that a page printed in black and white says the same."""
ROUND = ("circle", "ring", "value", "dot")
FAR = 14
"""How far a label may be from its mark without a line that leads to it."""
ACTIVITY_POINTS = 400

Box = tuple[float, float, float, float]


@dataclass(frozen=True)
class Point:
    """One setting in the plane of risk and utility: its title is told on hovering, its label written beside it."""

    title: str
    risk: float
    utility: float
    on_frontier: bool = False
    label: str = ""
    shape: str = "circle"
    style: str = ""


def strip(found: Finding) -> Markup:
    """A finding on a line: interval and figure, beside the raw log, chance and what the promise allows."""
    top = _top(found)

    def x(value: float) -> float:
        return round(MARGIN + (STRIP_WIDTH - 2 * MARGIN) * min(max(value / top, 0.0), 1.0), 1)

    middle = STRIP_HEIGHT / 2
    quarters = (0, 0.25, 0.5, 0.75, 1)
    parts = [_line("axis", x(0), middle, x(top), middle)]
    parts += [_line("tick", x(top * share), middle - 3, x(top * share), middle + 3) for share in quarters]
    if found.chance is not None:
        parts.append(_line("chance", x(found.chance), 3, x(found.chance), STRIP_HEIGHT - 3))
    if found.bound is not None:
        parts.append(_line("bound", x(found.bound), 1, x(found.bound), STRIP_HEIGHT - 1))
    if found.raw is not None:
        parts.append(_mark("open-diamond", x(found.raw), middle, 5.0))
    if found.low is not None and found.high is not None:
        parts.append(_line("interval", x(found.low), middle, x(found.high), middle))
    if not found.too_few:
        parts.append(_mark("value", x(found.value), middle, 4.0))
    figure = TOO_FEW if found.too_few else f"{format_figure(found.value, found.unit)} {between(found)}"
    words = f"{found.title}: {figure}".strip()
    return svg("strip", STRIP_WIDTH, STRIP_HEIGHT, words, parts)


def axis_ends(found: Finding) -> tuple[str, str]:
    """What the two ends of a finding's line stand for."""
    top = _top(found)
    return format_figure(0, found.unit) if found.unit != "epsilon" else "0", format_figure(top, found.unit)


def _top(found: Finding) -> float:
    if found.unit == "share" or (found.unit == "distance" and max(_numbers(found)) <= 1):
        return 1.0
    most = max(_numbers(found))
    step = 10.0 ** len(str(int(most))) / 10
    return max(step * -(-most * 1.05 // step), 1.0)


def _numbers(found: Finding) -> list[float]:
    numbers = (found.value, found.low, found.high, found.raw, found.chance, found.bound)
    return [number for number in numbers if number is not None]


def frontier_plot(points: Sequence[Point], *, risk: str, utility: str, acceptable: float | None = None) -> Markup:
    """Risk to the right, utility upwards: the best settings lie at the top left, joined by the frontier.

    Risk is on a square-root scale, since the settings one would choose among lie close to 0. `acceptable` marks the
    risks up to that one.
    """
    right_end = next(tick for tick in RISK_TICKS if tick >= max([0.1, *(min(point.risk, 1.0) for point in points)]))

    def place(point: Point) -> tuple[float, float]:
        return _x(math.sqrt(max(point.risk, 0.0) / right_end)), _y(point.utility)

    best = sorted((point for point in points if point.on_frontier), key=lambda point: (point.risk, point.utility))
    taken: list[Box] = [(x - 7, y - 7, x + 7, y + 7) for x, y in map(place, points)]
    parts = [*_axes(right_end, risk=risk, utility=utility), *_steps([place(point) for point in best], taken)]
    if acceptable is not None:
        width = round(_x(math.sqrt(acceptable / right_end)) - LEFT, 1)
        area = Markup('<rect class="acceptable" x="{}" y="{}" width="{}" height="{}"/>')
        parts.insert(0, area.format(LEFT, TOP, width, PLOT_HEIGHT - BOTTOM - TOP))
    for point in points:
        words = f"{point.title}: {risk} {percent(point.risk)}, {utility} {percent(point.utility)}"
        mark = _mark(point.shape, *place(point), 5.5)
        parts.append(Markup('<g class="{}"><title>{}</title>{}</g>').format(point.style, words, mark))
    parts += [_label(point.label, *place(point), taken) for point in points if point.label]
    return svg("plot", PLOT_WIDTH, PLOT_HEIGHT, f"{utility} against {risk}", parts)


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


def activity_plot(log: QueryLog) -> NotebookPlot:
    """Records per user against the user's rank in activity, both on log axes; a straight line is Zipf's law."""
    records = log.frame.group_by("user").len()["len"].sort(descending=True).to_list()
    shares = [number / (ACTIVITY_POINTS - 1) for number in range(ACTIVITY_POINTS)] if records else []
    points = tuple((rank, records[rank - 1]) for rank in sorted({round(len(records) ** share) for share in shares}))
    across, upwards = (max(1, len(str(most))) for most in (len(records), max(records, default=0)))  # powers of ten
    places = [(_x(math.log10(rank) / across), _y(math.log10(count) / upwards)) for rank, count in points]
    line = Markup('<polyline fill="none" stroke="#0a5562" points="{}"/>')
    parts = [
        *(text(f"{10**ten:,}", _x(ten / across), PLOT_HEIGHT - BOTTOM + 16, "middle") for ten in range(across + 1)),
        *(text(f"{10**ten:,}", LEFT - 8, _y(ten / upwards) + 4, "end") for ten in range(upwards + 1)),
        *_axis_titles("rank of the user", "records"),
        line.format(" ".join(f"{x},{y}" for x, y in places)),
    ]
    return NotebookPlot(points, svg("plot", PLOT_WIDTH, PLOT_HEIGHT, "Activity of users", parts))


@dataclass(frozen=True)
class NotebookPlot:
    """A plot that shows itself as the last line of a notebook's cell, and the points in it."""

    points: tuple[tuple[float, float], ...]
    svg: Markup

    def _repr_html_(self) -> str:
        return str(self.svg)


def _axes(right_end: float, *, risk: str, utility: str) -> list[Markup]:
    parts = []
    for tick in (tick for tick in RISK_TICKS if tick <= right_end):
        x = _x(math.sqrt(tick / right_end))
        parts.append(_line("grid", x, TOP, x, PLOT_HEIGHT - BOTTOM))
        parts.append(text(percent(tick), x, PLOT_HEIGHT - BOTTOM + 16, "middle"))
    for number in range(5):
        y = _y(number / 4)
        parts.append(_line("grid", LEFT, y, PLOT_WIDTH - RIGHT, y))
        parts.append(text(percent(number / 4), LEFT - 8, y + 4, "end"))
    return [*parts, *_axis_titles(f"{risk} →", f"{utility} →")]


def _axis_titles(across: str, upwards: str) -> list[Markup]:
    turned = Markup('<text class="axis-title" text-anchor="middle" transform="translate(12 {}) rotate(-90)">{}</text>')
    return [
        text(across, (LEFT + PLOT_WIDTH - RIGHT) / 2, PLOT_HEIGHT - 8, "middle", "axis-title"),
        turned.format((TOP + PLOT_HEIGHT - BOTTOM) / 2, upwards),
    ]


def svg(kind: str, width: int, height: int, title: str, parts: Iterable[Markup]) -> Markup:
    """The whole picture."""
    return Markup(
        '<svg class="{0}" role="img" viewBox="0 0 {1} {2}" width="{1}" height="{2}" font-family="sans-serif" '
        'font-size="11"><title>{3}</title>{4}</svg>'  # a notebook has no style sheet of ours
    ).format(kind, width, height, title, Markup().join(parts))


def _label(words: str, x: float, y: float, taken: list[Box]) -> Markup:
    """A text beside a mark where nothing else is; left out where there is no room (the table has it)."""
    width = LETTER * len(words)
    heights = (4, -8, 16, -20, 28, -32, 40)
    sides = [(x + side * dx, "start" if side > 0 else "end") for dx in (11, 31) for side in (1, -1)]
    for (at, anchor), dy in itertools.product(sides, heights):
        base, left = y + dy, at if anchor == "start" else at - width
        box = (left, base - 9, left + width, base + 3)
        inside = box[0] >= LEFT and box[2] <= PLOT_WIDTH - 2 and box[1] >= 2 and box[3] <= PLOT_HEIGHT - BOTTOM
        if inside and not any(_overlap(box, other) for other in taken):
            taken.append(box)
            written = text(words, at, base, anchor, "label")
            if math.dist((x, y), (at, base - 3)) < FAR:
                return written
            return _line("lead", x, y, at, base - 3) + written
    return Markup()


def _overlap(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _x(share: float) -> float:
    return round(LEFT + (PLOT_WIDTH - LEFT - RIGHT) * min(max(share, 0.0), 1.0), 1)


def _y(share: float) -> float:
    return round(PLOT_HEIGHT - BOTTOM - (PLOT_HEIGHT - TOP - BOTTOM) * min(max(share, 0.0), 1.0), 1)


def text(words: str, x: float, y: float, anchor: str, style: str = "tick-label") -> Markup:
    """Words at a place."""
    return Markup('<text class="{}" x="{}" y="{}" text-anchor="{}">{}</text>').format(
        style, round(x, 1), y, anchor, words
    )


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> Markup:
    return Markup('<line class="{}" x1="{}" y1="{}" x2="{}" y2="{}"/>').format(kind, x1, y1, x2, y2)


def _mark(shape: str, x: float, y: float, r: float) -> Markup:
    if shape in ROUND:
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

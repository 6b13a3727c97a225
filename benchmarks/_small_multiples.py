"""Small line plots beside each other as one SVG, for the documentation: no script, prints in black and white."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

PANEL, HEIGHT, GAP, TOP, LEFT = 180, 130, 58, 64, 44
COLOURS = ("#123a6b", "#b4552d", "#4f7f52", "#8b93a1", "#8a5a9e", "#c29a2e")
DASHES = ("", "6 3", "2 3", "8 3 2 3", "1 3", "10 4")

Line = Sequence[tuple[float, float]]
"""Points (x, y); x counts ticks from 0, y is a share."""


def write_plot(
    path: Path, panels: Mapping[str, Mapping[str, Line]], *, ticks: Sequence[str], across: str, columns: int = 4
) -> None:
    """One panel for each entry, one line for each name in it; shares are cut to what lies from 0 to 1."""
    names = list(dict.fromkeys(name for lines in panels.values() for name in lines))
    rows = -(-len(panels) // columns)
    width, height = LEFT + columns * (PANEL + GAP), TOP + rows * (HEIGHT + 58)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        'font-family="sans-serif" font-size="11" fill="#1b1d22">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
        *_legend(names),
    ]
    for number, (title, lines) in enumerate(panels.items()):
        x, y = LEFT + number % columns * (PANEL + GAP), TOP + number // columns * (HEIGHT + 58)
        parts.append(f'<g transform="translate({x} {y})">{_panel(title, lines, names, ticks, across)}</g>')
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join(parts) + "</svg>\n", encoding="utf-8")


def _legend(names: Sequence[str]) -> list[str]:
    return [
        f'<g transform="translate({LEFT + 190 * (place % 4)} {16 + 18 * (place // 4)})">'
        f'<line x2="26" y1="-4" y2="-4" {_stroke(place)}/><text x="32">{escape(name)}</text></g>'
        for place, name in enumerate(names)
    ]


def _panel(title: str, lines: Mapping[str, Line], names: list[str], ticks: Sequence[str], across: str) -> str:
    step = PANEL / max(1, len(ticks) - 1)
    parts = [f'<text y="-8" font-weight="600">{escape(title)}</text>']
    for share in (0, 0.5, 1):
        y = HEIGHT * (1 - share)
        parts.append(f'<line x2="{PANEL}" y1="{y}" y2="{y}" stroke="#dfe2e7"/>')
        parts.append(f'<text x="-6" y="{y + 4}" text-anchor="end" fill="#565b66">{share:.0%}</text>')
    for place, tick in enumerate(ticks):
        x = place * step
        parts.append(f'<text x="{x}" y="{HEIGHT + 15}" text-anchor="middle" fill="#565b66">{escape(tick)}</text>')
    parts.append(f'<text x="{PANEL / 2}" y="{HEIGHT + 31}" text-anchor="middle" fill="#565b66">{escape(across)}</text>')
    for name, line in lines.items():
        points = [(x * step, HEIGHT * (1 - min(max(y, 0.0), 1.0))) for x, y in line]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        place = names.index(name)
        parts.append(f'<polyline points="{path}" fill="none" {_stroke(place)}/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.6" fill="{COLOURS[place % 6]}"/>' for x, y in points]
    return "".join(parts)


def _stroke(place: int) -> str:
    return f'stroke="{COLOURS[place % 6]}" stroke-width="2" stroke-dasharray="{DASHES[place % 6]}"'

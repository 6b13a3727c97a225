"""Charts as SVG made on the server: no script, printable, and readable by a screen reader through title and table.

Colours and fonts come from the style sheet by class; the Content-Security-Policy allows no inline style.

>>> "<svg" in bars([("one known query", 0.4), ("two", 0.9)], "Singled out")
True
"""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup, escape

from queryveil.web.words import percent

BAR_WIDTH, BAR_HEIGHT, ROW = 300.0, 14, 46


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

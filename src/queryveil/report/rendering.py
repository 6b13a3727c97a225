"""Pages from templates, inert whatever the data says.

A page holds no script, loads nothing and refers to nothing outside itself; its Content-Security-Policy allows one style
sheet, by hash, and nothing else. Every text is escaped (Jinja2's autoescape; `Markup.format` in plots), and characters
that could hide, reorder or end what surrounds them are shown by their number. Plots are SVG without scripts, so that a
page of some 40 kB works offline, on paper and in any browser, and there is nothing that a hostile query could reach.

>>> inert("ab\\u202ec\\0")
'ab⟨U+202E⟩c⟨U+0000⟩'
"""

from __future__ import annotations

import base64
import hashlib
import re
import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from queryveil.audit.finding import Finding
from queryveil.audit.formatting import PERCENT, between, format_figure
from queryveil.report import charts
from queryveil.report.formatting import sentence
from queryveil.version import __version__

LONGEST_TEXT = 6000
NUMBERED = re.compile(r"\d[\d.,]*|quer(?:y|ies)|leaves?")


def render(template: str, **values: Any) -> str:
    """A page from one of the templates, with the style sheet and its hash."""
    style = _style()
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return (
        _templates()
        .get_template(template)
        .render(
            style=Markup(style),  # our own file
            style_hash=f"sha256-{digest}",
            version=__version__,
            **values,
        )
        .encode(errors="replace")  # half a character, as a broken file may hold, cannot be written
        .decode()
    )


def inert(text: object) -> str:
    """A text for a page: not overlong, with characters that hide, reorder or end things shown by their number.

    What it returns is escaped afterwards like every other text.
    """
    plain = str(text)
    if len(plain) > LONGEST_TEXT:
        plain = plain[:LONGEST_TEXT] + "…"
    shown = "".join(c if c == "\n" or not _disguises(c) else f"⟨U+{ord(c):04X}⟩" for c in plain)
    return _kept_together(shown)


def _disguises(character: str) -> bool:
    return unicodedata.category(character) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


def _kept_together(text: str) -> str:
    """No line ends between a number and its percent sign."""
    return text.replace(PERCENT, f"\N{NO-BREAK SPACE}{PERCENT.strip()}")


def _by_topic(findings: Iterable[Finding]) -> dict[str, list[tuple[Finding, str]]]:
    """The findings of each topic with their explanations; one that only differs by a number is not told twice."""
    topics: dict[str, list[tuple[Finding, str]]] = {}
    told_before: set[tuple[str, str]] = set()
    for found in findings:
        gist = found.topic, NUMBERED.sub("", found.explanation)
        explanation = "" if gist in told_before else found.explanation
        topics.setdefault(found.topic, []).append((found, f"{explanation} {found.detail}".strip()))
        told_before.add(gist)
    return topics


@lru_cache(maxsize=1)
def _templates() -> Environment:
    templates = Environment(
        loader=PackageLoader("queryveil.report"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    templates.filters |= {"inert": inert, "sentence": sentence}
    templates.globals.update(
        format_figure=lambda value, unit: _kept_together(format_figure(value, unit)),
        between=lambda found: _kept_together(between(found)),
        strip=charts.strip,
        axis_ends=charts.axis_ends,
        bar=charts.bar,
        legend_mark=charts.legend_mark,
        by_topic=_by_topic,
    )
    return templates


@lru_cache(maxsize=1)
def _style() -> str:
    return (Path(__file__).parent / "templates" / "style.css").read_text(encoding="utf-8")

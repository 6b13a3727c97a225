"""How results look as the last line of a notebook's cell: HTML of their own, offline, in which a text stays a text."""

import re

import pytest

import queryveil as qv
from queryveil.experiments.advise import advise
from queryveil.experiments.compare import compare
from queryveil.experiments.sweep import Sweep
from queryveil.report.charts import activity_plot
from queryveil.report.comparison_page import comparison_plot
from queryveil.report.decision_sheet import decision_sheet
from report_toys import finding, full_audit

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def shown():
    """Everything that a notebook may end a cell with, by name."""
    log = qv.synth(users=60, records=1200, seed=1)
    release = qv.mechanism("suppress", k_text=2).protect(log, qv.Noise.seeded(1))
    sweep = Sweep.of({"mechanism": [{"name": "suppress", "k_text": [2, 5]}], "rule": [{"name": "frequency", "k": 2}]})
    compared = compare(log, sweep=sweep)
    return {
        "log": log,
        "statistics": qv.describe(log),
        "release": release,
        "audit": full_audit(),
        "finding": full_audit().findings[0],
        "sheet": decision_sheet(full_audit()),
        "comparison": compared,
        "advice": advise(compared, task="query frequency", max_risk=0.5),
        "activity": activity_plot(log),
        "plot": comparison_plot(compared, "frequency"),
    }


NAMES = ("log", "statistics", "release", "audit", "finding", "sheet", "comparison", "advice", "activity", "plot")


@pytest.mark.parametrize("name", NAMES)
def test_it_shows_itself_without_anything_from_outside(shown, name):
    html = shown[name]._repr_html_()
    assert len(html) > 60
    assert re.search(r"https?://|<script|<link|@import|url\(", html) is None


def test_figures_are_written_as_in_reports(shown):
    assert "2 %" in shown["finding"]._repr_html_() and "Share of people." in shown["finding"]._repr_html_()
    assert "People singled out by two known queries" in shown["statistics"]._repr_html_()
    assert "May this be published?" in shown["sheet"]._repr_html_()
    assert shown["release"]._repr_html_().count("<tr>") < 15  # five lines, not the whole statement
    assert len(shown["plot"].points) >= 2


def test_a_hostile_text_stays_a_text():
    assert HOSTILE not in finding(title=HOSTILE, explanation=HOSTILE)._repr_html_()


@pytest.mark.service("chromium")
def test_in_a_browser_nothing_is_black_or_cut_off(shown, see):
    page = see("".join(f"<section>{shown[name]._repr_html_()}</section>" for name in NAMES)).page
    filled = page.evaluate(
        "() => [...document.querySelectorAll('.queryveil svg :is(path, circle)')]"
        ".filter(one => getComputedStyle(one).fill === 'rgb(0, 0, 0)').length"
    )
    assert filled == 0
    assert page.evaluate("() => document.querySelectorAll('.queryveil svg circle').length") > 0

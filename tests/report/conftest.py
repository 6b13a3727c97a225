"""A page in a real browser, for the tests of the report."""

import pytest

from waiting import LONG


class Seen:
    """A page as a browser shows it, with everything it tried to do."""

    def __init__(self, browser, path):
        self.page = browser.new_page(viewport={"width": 1100, "height": 900})
        self.page.set_default_timeout(LONG * 1000)
        self.requests, self.dialogs, self.messages = [], [], []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("dialog", lambda dialog: (self.dialogs.append(dialog.message), dialog.dismiss()))
        self.page.on("console", lambda message: self.messages.append(message.text))
        self.page.on("pageerror", lambda error: self.messages.append(str(error)))
        self.page.goto(path.as_uri())


@pytest.fixture
def see(browser, tmp_path):
    """Open HTML in the browser and tell what happened."""
    opened = []

    def see(html, name="page.html"):
        path = tmp_path / name
        path.write_text(html, encoding="utf-8")
        opened.append(Seen(browser, path))
        return opened[-1]

    yield see
    for seen in opened:
        seen.page.close()

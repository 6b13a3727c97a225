"""A page in a real browser, for the tests of the report."""

import pytest

from waiting import LONG

VIEWPORT = {"width": 1100, "height": 900}


@pytest.fixture(scope="session")
def tab(browser):
    """One for all pages: to open another takes longer than to show a page."""
    page = browser.new_page(viewport=VIEWPORT)
    page.set_default_timeout(LONG * 1000)
    yield page
    page.close()


class Seen:
    """A page as a browser shows it, with everything it tried to do."""

    def __init__(self, tab, path):
        self.page = tab
        self.requests, self.dialogs, self.messages = [], [], []
        self._listeners = {
            "request": lambda request: self.requests.append(request.url),
            "dialog": lambda dialog: (self.dialogs.append(dialog.message), dialog.dismiss()),
            "console": lambda message: self.messages.append(message.text),
            "pageerror": lambda error: self.messages.append(str(error)),
        }
        tab.goto("about:blank")  # so that nothing of the page before is heard
        tab.set_viewport_size(VIEWPORT)
        tab.emulate_media(media="screen", color_scheme="light")
        for event, listener in self._listeners.items():
            tab.on(event, listener)
        tab.goto(path.as_uri())

    def close(self):
        for event, listener in self._listeners.items():
            self.page.remove_listener(event, listener)


@pytest.fixture
def see(tab, tmp_path):
    """Open HTML in the browser and tell what happened; the page before it is gone then."""
    shown = []

    def see(html, name="page.html"):
        path = tmp_path / name
        path.write_text(html, encoding="utf-8")
        if shown:
            shown.pop().close()
        shown.append(Seen(tab, path))
        return shown[-1]

    yield see
    for seen in shown:
        seen.close()

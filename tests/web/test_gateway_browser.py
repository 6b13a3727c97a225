"""The gateway in a real browser before a real engine: by keyboard, from the address bar, beside hostile pages."""

import json
import threading
from collections import Counter
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import quote

import pytest

import axe_core
from properties import daily
from queryveil.knowledge.collections import read_corpus
from queryveil.web.gateway import standing_key
from small_engine import MADE_UP, over, running
from waiting import LONG, wait_until
from web.conftest import visiting
from web.gateways import QUERY, gateway_serving, gateway_to

pytestmark = pytest.mark.service("chromium")
SIZES = ((1280, 900), (390, 800))


@pytest.fixture(scope="module")
def engine():
    with running(over(MADE_UP)) as engine:
        yield engine


def search_by_keyboard(page, engine, query):
    """Type, look, send; returns what was announced. Everything that the engine got was on the screen before."""
    page.get_by_label("Your query").fill(query)
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="What would be sent").wait_for()
    announced = page.locator("ol.drawn li").all_inner_texts()
    assert engine.asked == []
    for word in query.split():
        assert page.get_by_role("cell", name=word, exact=True).count() == 1
    page.locator("button:focus", has_text="Send these").wait_for()
    page.keyboard.press("Enter")
    page.locator("ol.results a").first.wait_for()
    assert sorted(engine.asked) == sorted(set(announced))
    assert not any(word in page.url for word in query.split())
    page.reload()
    page.locator("ol.results a").first.wait_for()
    assert len(engine.asked) == len(set(announced))
    return announced


def test_type_look_and_send(browser, engine, axe):
    engine.asked.clear()
    gateway = gateway_to(engine, limit=500.0)
    with gateway_serving(gateway) as server, visiting(browser, server) as page:
        faults = []

        def look(name):
            for width, height in SIZES:
                page.set_viewport_size({"width": width, "height": height})
                wider = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
                assert wider <= 0, f"{name} is wider than {width} px"
                for scheme, rules in axe_core.BY_SCHEME.items():
                    page.emulate_media(color_scheme=scheme)
                    faults.extend(f"{name}, {width}: {fault}" for fault in axe_core.faults(page, axe, *rules))

        look("box")
        search_by_keyboard(page, engine, QUERY)
        assert page.get_by_role("status").inner_text().startswith("Spent ε = 270 of 500")
        look("results")
        page.get_by_label("Your query").fill(QUERY)
        page.keyboard.press("Enter")
        page.get_by_text("Asked before: the same queries go out again").wait_for()
        look("asked before")
        page.get_by_label("Your query").fill("rose gardens tea")
        page.get_by_role("button", name="Search at once").click()
        page.get_by_text("its limit is 500").wait_for()
        assert page.get_by_label("Your query").input_value() == "rose gardens tea"
        look("refused")
        assert faults == []


def test_over_a_shared_collection(browser, shared_data):
    documents = read_corpus(shared_data / "ir/vaswani")
    with (
        running(over(documents)) as engine,
        gateway_serving(gateway_to(engine)) as server,
        visiting(browser, server) as page,
    ):
        search_by_keyboard(page, engine, "dielectric constant measurement")
        assert page.locator("ol.results li").count() >= 10


def test_the_address_bar_searches_for_the_owner(browser, engine):
    engine.asked.clear()
    gateway = gateway_to(engine)
    with gateway_serving(gateway, at_once=True) as server, browser.new_context() as visit:
        page = visit.new_page()
        page.set_default_timeout(LONG * 1000)
        page.goto(f"{server.address}/search?key={standing_key()}&q={quote(QUERY)}")  # nobody was let in before
        page.locator("ol.results a").first.wait_for()
        assert len(engine.asked) == 6
        assert page.url.startswith(f"{server.address}/asked/")


PAGE = """<!doctype html><title>hostile</title><a id="link" href="{there}/search?q=evil">click</a>
<img src="{there}/search?q=evil"><iframe src="{there}/search?q=evil"></iframe>
<form id="get" action="{there}/search" target="a"><input name="q" value="evil"></form>
<form id="post" method="post" action="{there}/ask" target="b">
<input name="query" value="evil"><input name="way" value="send"></form>
<iframe name="a"></iframe><iframe name="b"></iframe>
<script>
const read = []
const tries = ["/search?q=evil", "/", "/opensearch.xml"].map(path =>
  fetch("{there}" + path, {{credentials: "include"}}).then(answer => answer.text())
    .then(text => read.push(text), () => 0))
tries.push(fetch("{there}/search?q=evil", {{mode: "no-cors", credentials: "include"}}).catch(() => 0))
document.getElementById("get").submit()
document.getElementById("post").submit()
Promise.all(tries).then(() => {{ document.title = "tried " + read.length }})
</script>"""


@contextmanager
def another_server(body=b""):
    """Another server on this machine; remembers the headers of whoever comes."""
    seen = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            seen.append(dict(self.headers))
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *given):
            pass

    with serving(Handler) as port:
        yield port, seen


@contextmanager
def serving(handler):
    """The port of a server that answers by a handler."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def hostile_page(browser, engine, host):
    """A hostile page, on another server of this machine, in the browser of somebody who was let in."""
    engine.asked.clear()
    gateway = gateway_to(engine)
    with gateway_serving(gateway, at_once=True) as server, browser.new_context() as visit:
        page = visit.new_page()
        page.set_default_timeout(LONG * 1000)
        page.goto(server.entrance)
        page.wait_for_url(f"{server.address}/")
        with another_server(PAGE.format(there=server.address).encode()) as (port, _):
            page.goto(f"http://{host}:{port}/")
            wait_until(lambda: page.title().startswith("tried"), "the page has tried everything")
            yield page, gateway


@pytest.mark.parametrize("host", daily([("127.0.0.1",), ("localhost",)], 1))
def test_a_hostile_page_in_the_owner_s_browser_neither_searches_nor_reads(browser, engine, host):
    """From another port, which is the same site and has the cookie sent along, and from another site."""
    with hostile_page(browser, engine, host) as (page, gateway):
        assert page.title() == "tried 0"
        page.get_by_role("link", name="click").click()
        page.get_by_text("comes from another page").wait_for()
        assert not gateway._questions
        assert engine.asked == []


def test_without_the_guard_a_hostile_page_would_search(browser, engine, monkeypatch):
    """The broken twin, so that the test above is known to try in earnest."""
    monkeypatch.setattr("queryveil.web.middleware.is_foreign", lambda headers: False)
    monkeypatch.setattr("queryveil.web.gateway.refuse_what_nobody_asked", lambda request: None)
    monkeypatch.setattr("queryveil.web.gateway.with_key", lambda request, key: request.app.state.sessions)
    with hostile_page(browser, engine, "127.0.0.1"):
        wait_until(lambda: engine.asked, "something is sent")


WAYS = ("typed", "reloaded", "back")
FIRST = {
    "reloaded": "<title>once</title>",
    "back": "<script>onload = () => setTimeout(() => { location = '/onward' }, 100)</script>",
    "onward": "<script>onload = () => setTimeout(() => history.back(), 100)</script>",
}


@contextmanager
def redirecting(there):
    """A server whose pages come once, and then lead on; a browser that loads one again says that no page asked."""
    seen = Counter()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            way = self.path.strip("/")
            seen[way] += 1
            leads_on = way in WAYS and (way not in FIRST or seen[way] > 1)
            self.send_response(302 if leads_on else 200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Cache-Control", "no-store")
            if leads_on:
                self.send_header("Location", f"{there}/search?q=evil")
            self.end_headers()
            self.wfile.write(b"" if leads_on else FIRST.get(way, "").encode())

        def log_message(self, *given):
            pass

    with serving(Handler) as port:
        yield port


@contextmanager
def led_there(browser, engine, way):
    """The owner's browser at an address of a hostile server, which brings it to the gateway without a page's asking."""
    engine.asked.clear()
    gateway = gateway_to(engine)
    with gateway_serving(gateway, at_once=True) as server, browser.new_context() as visit:
        page = visit.new_page()
        page.set_default_timeout(LONG * 1000)
        page.goto(server.entrance)
        page.wait_for_url(f"{server.address}/")
        with redirecting(server.address) as port:
            page.goto(f"http://127.0.0.1:{port}/{way}", wait_until="commit")
            if way == "reloaded":
                page.reload(wait_until="commit")
            page.wait_for_url(f"{server.address}/**")
            yield page, gateway


@pytest.mark.parametrize("way", WAYS)
def test_no_redirect_makes_the_owner_s_browser_search(browser, engine, way):
    with led_there(browser, engine, way) as (page, gateway):
        page.get_by_text("is not that of this gateway").wait_for()
        assert not gateway._questions
        assert engine.asked == []


@pytest.mark.parametrize("way", daily(((way,) for way in WAYS), 1))
def test_without_the_key_a_redirect_would_search(browser, engine, monkeypatch, way):
    """The broken twin: the browser says that no page asked, and sends the cookie."""
    monkeypatch.setattr("queryveil.web.gateway.with_key", lambda request, key: request.app.state.sessions)
    with led_there(browser, engine, way):
        wait_until(lambda: engine.asked, "something is sent")


def test_no_result_leads_to_the_gateway(browser):
    own = []

    def answer(query):
        results = [{"url": f"{address}/search?q=evil", "title": address} for address in (*own, "https://site")]
        return 200, json.dumps({"results": results}).encode()

    with (
        running(answer) as engine,
        gateway_serving(gateway_to(engine)) as server,
        visiting(browser, server) as page,
    ):
        own += [server.address, server.address.replace("127.0.0.1", "localhost")]
        page.get_by_label("Your query").fill(QUERY)
        page.get_by_role("button", name="Search at once").click()
        page.locator("ol.results a").first.wait_for()
        assert page.locator("ol.results a").all_inner_texts() == ["https://site"]
        assert page.locator("ol.results li").count() == 3


def test_a_result_is_not_told_where_its_reader_came_from(browser):
    with another_server(b"<title>the result</title>") as (port, seen):
        documents = {"throat": "cancer of the throat and its treatment"}

        def answer(query):
            status, body = over(documents)(query)
            return status, body.replace(b"https://site/throat", f"http://127.0.0.1:{port}/throat".encode())

        with running(answer) as engine, gateway_serving(gateway_to(engine)) as server, browser.new_context() as visit:
            page = visit.new_page()
            page.set_default_timeout(LONG * 1000)
            page.goto(server.entrance)
            page.wait_for_url(f"{server.address}/")
            page.get_by_label("Your query").fill(QUERY)
            page.get_by_role("button", name="Search at once").click()
            page.locator("ol.results a").first.wait_for()
            assert seen == []  # nothing of a result is fetched before somebody wants it
            page.locator("ol.results a").first.click()
            page.wait_for_url(f"http://127.0.0.1:{port}/throat")
        assert "Referer" not in seen[0]
        assert "Origin" not in seen[0]

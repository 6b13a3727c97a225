"""Who may search through the gateway, and what it leaves behind: everybody but its owner is refused, and nothing."""

import logging
import os
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from starlette.testclient import TestClient

from queryveil.knowledge.sentences import SentenceEncoder
from queryveil.search.private_search import EngineAddress, Hit
from queryveil.web.gateway import create, link_of, standing_key
from queryveil.web.settings import Listening
from small_engine import MADE_UP, over, running
from web.conftest import Visitor
from web.gateways import QUERY, gateway_to

TYPED = {"sec-fetch-site": "none", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}


@pytest.fixture(autouse=True)
def by_words(monkeypatch):
    monkeypatch.setattr(SentenceEncoder, "available", staticmethod(lambda: False))


@pytest.fixture(scope="module")
def engine():
    with running(over(MADE_UP)) as engine:
        yield engine


@pytest.fixture
def gateway(engine):
    engine.asked.clear()
    return gateway_to(engine, limit=1000.0)


@pytest.fixture
def at_once():
    return False


@pytest.fixture
def stranger(gateway, at_once):
    settings, tokens = Listening(port=8643), []
    app = create(settings, gateway, tokens.append, at_once=at_once)
    with TestClient(app, base_url=settings.address, follow_redirects=False) as http:
        yield Visitor(http, settings, tokens)


@pytest.fixture
def owner(stranger):
    """Whoever opened the printed address."""
    assert stranger.get(f"/enter?token={stranger.tokens[-1]}", headers=TYPED).status_code == 200
    stranger.headers = {"x-csrf-token": next(iter(stranger.http.app.sessions._sessions.values())).csrf}
    return stranger


def ask(owner, query=QUERY, way="look", **given):
    headers = owner.headers | given.pop("headers", {})
    return owner.http.post("/ask", data={"query": query, "way": way}, headers=headers, **given)


# The owner


def test_a_query_is_shown_first_and_sent_when_told_to(owner, engine, gateway):
    place = ask(owner).headers["location"]
    shown = owner.get(place).text
    assert engine.asked == []
    question = gateway.question(place.rsplit("/", 1)[1])
    assert all(f"<li>{text}</li>" in shown for text in question.given.queries)
    assert "Send these 6 queries" in shown
    assert "Costs ε = 270" in shown
    assert owner.http.post(f"{place}/send", headers=owner.headers).status_code == 303
    found = owner.get(place).text
    assert sorted(engine.asked) == sorted(question.sent)
    assert 'rel="noreferrer noopener"' in found
    assert "ε = 270</strong> of 1000" in found
    owner.get(place)
    assert len(engine.asked) == 6  # a page that is loaded again sends nothing


def test_no_address_holds_the_query(owner):
    for query in (QUERY, "tea"):
        assert not set(query.split()) & set(ask(owner, query).headers["location"].split("/"))


def test_the_address_bar_works_for_whoever_has_the_key_and_only_for_them(stranger, engine):
    description = stranger.get(f"/opensearch.xml?key={standing_key()}")
    assert description.headers["content-type"].startswith("application/opensearchdescription+xml")
    [url] = ElementTree.fromstring(description.text).findall("{*}Url")
    template = url.get("template")
    assert template.count("{searchTerms}") == 1
    assert stranger.get("/").headers["location"] == "/enter"
    answer = stranger.get(template.replace("{searchTerms}", quote(QUERY)), headers=TYPED)
    assert answer.status_code == 303
    place = answer.headers["location"]
    assert place.startswith("/asked/")
    assert "SameSite=strict" in answer.headers["set-cookie"]
    assert "What would be sent" in stranger.get(place, headers=TYPED).text  # by the cookie
    assert engine.asked == []
    again = stranger.get(template.replace("{searchTerms}", "tea"), headers=TYPED)
    assert again.headers["location"].startswith("/asked/")
    assert "set-cookie" not in again.headers
    assert stranger.get(template.replace("{searchTerms}", "%20"), headers=TYPED).headers["location"] == "/"


@pytest.mark.parametrize("at_once", [True])
def test_at_once_the_address_bar_sends(stranger, engine, at_once):
    place = stranger.get(f"/search?key={standing_key()}&q={quote(QUERY)}", headers=TYPED).headers["location"]
    assert len(engine.asked) == 6
    assert "results of 6 queries" in stranger.get(place).text


def test_above_the_limit_a_query_is_shown_and_refused(owner, engine, gateway):
    gateway.limit = 200.0
    place = ask(owner).headers["location"]
    assert "above your limit of 200" in owner.get(place).text
    refused = owner.http.post(f"{place}/send", headers=owner.headers)
    assert refused.status_code == 409
    assert "Nothing was sent" in refused.text
    assert "limit is 200" in ask(owner, way="send").text
    assert engine.asked == []


def test_forgetting_forgets_and_keeps_what_was_spent(owner, gateway):
    place = ask(owner, way="send").headers["location"]
    owner.http.post("/forget", headers=owner.headers)
    assert owner.get(place).status_code == 404
    assert gateway.standing().epsilon_of_session == 270.0


# Everybody else


def test_a_stranger_gets_nothing(stranger, engine, gateway):
    for path in ("/", "/asked/x", "/opensearch.xml", "/opensearch.xml?key=wrong"):
        assert stranger.get(path, headers=TYPED).status_code in (303, 403)
    for key in ("", "key=&", "key=wrong&", f"key={'A' * 43}&"):
        assert stranger.get(f"/search?{key}q=tea", headers=TYPED).status_code == 403
    assert stranger.http.post("/ask", data={"query": "tea", "way": "send"}).status_code == 401
    assert engine.asked == []
    assert not gateway._questions


@pytest.mark.parametrize(
    "headers",
    [
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate"},
        {"sec-fetch-site": "same-site", "sec-fetch-mode": "navigate"},
        {"sec-fetch-site": "same-origin", "sec-fetch-mode": "navigate"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"},
        {"sec-fetch-site": "cross-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "iframe"},
        {},
        {"origin": "https://evil.example"},
        TYPED | {"sec-purpose": "prefetch;prerender"},
        TYPED | {"purpose": "prefetch"},
        TYPED | {"x-moz": "prefetch"},
    ],
)
def test_no_other_page_makes_the_owner_s_browser_search(owner, engine, gateway, headers):
    """Though the cookie came along, and even if the key were known."""
    for key in ("", f"key={standing_key()}&"):
        assert owner.get(f"/search?{key}q=tea", headers=headers).status_code == 403
    assert not gateway._questions
    assert engine.asked == []


def test_a_cookie_without_the_key_neither_searches_nor_gets_the_key(owner, engine, gateway):
    """A page can go back to an address that redirects here: the cookie comes along, and the browser says `none`."""
    for key in ("", "key=&", "key=wrong&") * 10:  # and cannot keep the owner out by wrong keys
        assert owner.get(f"/search?{key}q=tea", headers=TYPED).status_code == 403
        assert owner.get(f"/opensearch.xml?{key}", headers=TYPED).status_code == 403
    assert not gateway._questions
    assert engine.asked == []
    assert owner.get(f"/search?key={standing_key()}&q=tea", headers=TYPED).status_code == 303


def test_the_standing_key_is_no_token(stranger):
    assert stranger.get(f"/enter?token={standing_key()}", headers=TYPED).status_code == 403
    answer = stranger.http.post("/enter", data={"password": standing_key()})
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


def test_a_name_bound_to_loopback_gets_no_answer(owner):
    for host in ("evil.example:8643", "localhost:8643", "127.0.0.1"):
        assert owner.get(f"/search?key={standing_key()}&q=tea", headers=TYPED | {"host": host}).status_code == 421


def test_forms_of_others_are_refused(owner, engine, gateway):
    assert ask(owner, headers={"origin": "https://evil.example"}).status_code == 403
    assert ask(owner, headers={"x-csrf-token": "wrong"}).status_code == 403
    assert ask(owner, headers={"sec-fetch-site": "same-site"}).status_code == 403
    assert owner.http.post("/search?q=tea", headers=owner.headers).status_code == 405
    assert not gateway._questions


# What is left behind


def test_no_answer_may_be_kept_framed_or_read_by_others(owner):
    place = ask(owner, way="send").headers["location"]
    for path in ("/", place, f"/opensearch.xml?key={standing_key()}", "/nothing"):
        headers = owner.get(path, headers=TYPED).headers
        assert headers["cache-control"] == "no-store"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert "default-src 'none'; script-src 'none'" in headers["content-security-policy"]
        assert "img-src 'self'" in headers["content-security-policy"]
        assert "access-control-allow-origin" not in headers


def test_nothing_of_a_query_is_written_or_logged(owner, caplog, tmp_path_factory):
    caplog.set_level(logging.DEBUG)
    ask(owner, way="send")
    owner.get(f"/search?key={standing_key()}&q={quote(QUERY)}", headers=TYPED)
    ask(owner, "qwfpgj zzxkcd")  # an error, which is shown and not logged
    own = [record for record in caplog.records if not record.name.startswith(("httpx", "httpcore"))]  # the client's
    told = " ".join(record.getMessage() for record in own)
    assert not [word for word in (*QUERY.split(), "qwfpgj", standing_key()) if word in told]
    written = [path for path in Path(os.environ["QUERYVEIL_KEYS"]).rglob("*") if path.is_file()]
    assert {path.name for path in written} >= {"gateway.key"}
    assert not [path.name for path in written for word in QUERY.split() if word.encode() in path.read_bytes()]


def test_what_an_engine_says_is_text_and_only_web_addresses_are_links(gateway, owner, monkeypatch):
    hostile = [
        Hit("javascript:alert(1)", "<script>alert(1)</script>", "<img src=https://evil.example/x>"),
        Hit("https://site/1", "tea\u202egpj.exe", "text"),
        Hit('https://site/"onmouseover="alert(1)', "quotes", ""),
    ]
    monkeypatch.setattr(
        "queryveil.search.gateway.ask_together", lambda address, texts, timeout: dict.fromkeys(texts, hostile)
    )
    found = owner.get(ask(owner, way="send").headers["location"]).text
    assert "<script" not in found
    assert "<img" not in found
    assert 'href="javascript' not in found
    assert '"onmouseover' not in found
    assert "\u202e" not in found
    assert found.count('rel="noreferrer noopener"') == 2


@pytest.mark.parametrize(
    "address",
    [
        *("data:text/html,x", "file:///etc/passwd", "//site/x", "d17", "https:///x", "http://[x", "http://a:99999/"),
        *("http://127.0.0.1:8643/search?q=evil", "https://127.0.0.1:8643/", "http://LOCALHOST:8643/", "http://0:8643/"),
        *("http://127.1:8643/", "http://2130706433:8643/", "http://0x7f.0.0.1:8643/", "http://[::1]:8643/x"),
        *("http://[::ffff:127.0.0.1]:8643/", "http://a.localhost.:8643/", "http://127%2e0.0.1:8643/"),
        *("http://１２７.0.0.1:8643/", "http://user@127.0.0.1:8643/", "http://127.0.0.1:8643\\\\@site/"),
        "http://127.0.0.1:86\n43/search?q=evil",
    ],
)
def test_what_is_no_web_address_or_one_of_ours_is_no_link(address):
    assert link_of(Hit(address, "", ""), 8643) is None


@pytest.mark.parametrize(
    "address", ["https://site/x", "http://127.0.0.1:8644/", "http://site:8643/", "http://[2001::1]/"]
)
def test_other_web_addresses_are_links(address):
    assert link_of(Hit(address, "", ""), 8643) == address


def test_a_query_too_long_is_refused_and_not_repeated(owner, engine):
    answer = ask(owner, "secretword " * 100)
    assert answer.status_code == 422
    assert "secretword" not in answer.text
    refused = owner.get(f"/search?key={standing_key()}&q={'secretword' * 40}", headers=TYPED)
    assert refused.status_code == 422
    assert "secretword" not in refused.text


def test_one_hostile_answer_costs_its_own_results_alone(owner, engine, gateway, monkeypatch):
    wholesome, hostile = over(MADE_UP), iter((b"[" * 300_000, b'{"results": [{"url": "http://a/\xff"}]}'))

    def answer(query):
        body = next(hostile, None)
        return wholesome(query) if body is None else (200, body)

    with running(answer) as sick:
        monkeypatch.setattr(gateway, "address", EngineAddress.parse(sick.template))
        found = owner.get(ask(owner, way="send").headers["location"]).text
    assert "2 of 6 queries were not answered" in found
    assert "results of 4 queries" in found


def test_a_fault_is_not_told_to_have_changed_nothing(owner, gateway, monkeypatch):
    """It may come after the session was charged."""
    monkeypatch.setattr("queryveil.search.gateway.pool_answers", lambda answers: 1 / 0)
    answer = ask(owner, way="send")
    assert answer.status_code == 500
    assert gateway.standing().epsilon_of_session == 270.0
    assert "nothing was changed" not in answer.text


def test_the_template_of_a_description_names_this_server_and_a_strong_key(stranger):
    content = stranger.get(f"/opensearch.xml?key={standing_key()}").text
    [url] = ElementTree.fromstring(content).findall("{*}Url")
    parts = urlsplit(url.get("template"))
    assert parts.netloc == "127.0.0.1:8643"
    assert len(parse_qs(parts.query)["key"][0]) == 43

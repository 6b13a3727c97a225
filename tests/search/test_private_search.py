"""Searching against a real server on loopback: what is sent, what is not, and what happens when the engine fails."""

import json
import re
import socketserver
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queryveil.errors import DataError, EngineError, ParameterError, RefusedError, UsageError
from queryveil.knowledge.sentences import SentenceEncoder
from queryveil.privacy import Noise
from queryveil.search import private_search
from queryveil.search.private_search import EngineAddress, Hit, parse_answer, pool_answers, search
from small_engine import opensearch, running, searxng, suggestions
from waiting import LONG

QUERY = "throat cancer"
PATIENT = min(LONG, 600)  # seconds; more cannot be asked for


@pytest.fixture
def by_words(monkeypatch):
    """Rank as where the extra neural is not installed."""
    monkeypatch.setattr(SentenceEncoder, "available", staticmethod(lambda: False))


def ask(engine, others, timeout=PATIENT, seed=1):
    return search(QUERY, others, EngineAddress.parse(engine.template), order=Noise.seeded(seed), timeout=timeout)


OTHERS = ["neck tumour", "gullet growth", "red tea", "neck tumour"]


@pytest.mark.parametrize("answer", [searxng, opensearch, suggestions])
def test_other_queries_are_sent_once_each_and_the_true_one_never(answer, by_words):
    with running(answer) as engine:
        found = ask(engine, OTHERS)
    assert sorted(engine.asked) == ["gullet growth", "neck tumour", "red tea"]
    assert sorted(found.sent) == sorted(engine.asked)
    assert not {"throat", "cancer"} & {word for text in engine.asked for word in text.split()}
    assert len(found.hits) >= 6


def test_the_pool_is_ranked_under_the_true_query_at_home(by_words):
    with running() as engine:
        found = ask(engine, OTHERS)
    assert found.hits[0].key == "https://site/throat"
    assert found.ranked_by == private_search.BY_WORDS
    assert len({hit.key for hit in found.hits}) == len(found.hits)


@pytest.mark.skipif(not SentenceEncoder.available(), reason="the extra neural is not installed")
def test_ranking_is_by_meaning_where_the_model_is_installed():
    with running() as engine:
        found = ask(engine, ["tumour", "football"])
    assert found.ranked_by == private_search.BY_MEANING
    keys = [hit.key for hit in found.hits]
    assert keys.index("https://site/tumour") < keys.index("https://site/football")


def test_the_order_of_sending_is_shuffled(by_words):
    others = [f"word{i}" for i in range(8)]
    orders = set()
    with running() as engine:
        for seed in range(4):
            engine.asked.clear()
            ask(engine, others, seed=seed)
            orders.add(tuple(engine.asked))
    # Four equal orders by chance: 1 in 8!^3, far below 1e-6; an engine that sees no shuffling shows one order.
    assert len(orders) > 1


def test_a_draw_that_is_what_was_typed_is_sent_as_drawn(by_words):
    # Taking it back would tell the engine which query it was not, which the mechanism's promise forbids.
    with running() as engine:
        ask(engine, ["throat cancer", "neck tumour"])
    assert sorted(engine.asked) == ["neck tumour", "throat cancer"]


def test_nothing_identifies_the_searcher_in_the_request(by_words):
    with running() as engine:
        ask(engine, OTHERS)
    assert all("Cookie" not in headers and "Referer" not in headers for headers in engine.headers)
    assert {headers["User-Agent"] for headers in engine.headers} == {"Mozilla/5.0"}


@pytest.mark.parametrize(
    ("others", "options", "error"),
    [
        ([], {}, RefusedError),
        (["  "], {}, RefusedError),
        (OTHERS, {"timeout": 0}, ParameterError),
        (OTHERS, {"timeout": float("nan")}, ParameterError),
    ],
)
def test_nothing_is_sent_when_anything_fails_before(others, options, error, by_words):
    with running() as engine:
        with pytest.raises(error):
            ask(engine, others, **options)
        assert engine.asked == []


def test_nothing_is_sent_when_the_ranking_model_is_damaged(monkeypatch):
    from queryveil.knowledge import sentences

    if not SentenceEncoder.available():
        pytest.skip("the extra neural is not installed")
    sentences._loaded.cache_clear()
    monkeypatch.setattr(sentences, "MODEL", (*sentences.MODEL[:2], "0" * 64))
    with running() as engine:
        with pytest.raises(DataError, match="not the published file"):
            ask(engine, OTHERS)
        assert engine.asked == []
    sentences._loaded.cache_clear()


@pytest.mark.parametrize(
    ("status", "body", "told"),
    [
        (200, b"<html>secretword</html>", "neither SearXNG's nor OpenSearch's JSON"),
        (200, b"", "neither"),
        (200, b"\xff\xfe", "neither"),
        (200, b'{"results": [{"url": "http://a/\xff"}]}', "neither"),
        (200, b"[" * 300_000, "neither"),
        (200, b"[]", "neither"),
        (200, b'{"hits": 3}', "neither"),
        (200, b'["q", ["a"], [], ["u"]]', "neither"),
        (403, b"secretword", "HTTP 403.*search.formats"),
        (404, b"", "HTTP 404"),
        (429, b"", "too many queries"),
        (500, b"", "HTTP 500"),
        (302, b"", "elsewhere"),
    ],
)
def test_a_bad_answer_ends_the_search_and_nothing_more_is_sent(status, body, told, by_words):
    with running(lambda query: (status, body)) as engine:
        with pytest.raises(EngineError, match=told) as problem:
            ask(engine, OTHERS)
        assert len(engine.asked) == 1
    shown = str(problem.value)
    assert "Nothing more was sent" in shown
    assert problem.value.__cause__ is None
    for word in ("secretword", "throat", "cancer", "neck", "tumour", "gullet", "tea", "127.0.0.1"):
        assert word not in shown


def test_a_slow_engine_is_given_up(by_words):
    with running(delay=30) as engine, pytest.raises(EngineError, match=r"within 0\.3 s.*timeout=SECONDS"):
        ask(engine, OTHERS, timeout=0.3)


def test_an_engine_that_dribbles_its_answer_is_given_up_as_well(by_words):
    long = (200, b" " * 3000)  # whoever waits for all of it finds that it is not JSON
    with running(lambda query: long, dribble=0.1) as engine, pytest.raises(EngineError, match=r"within 0\.5 s"):
        ask(engine, OTHERS, timeout=0.5)


def holding(*lines, then):
    """A server that answers with some lines and then with another, again and again."""

    class Handler(socketserver.StreamRequestHandler):
        def handle(self):
            try:
                while self.rfile.readline().strip():
                    pass
                self.wfile.write(b"".join(lines))
                while not stopping.wait(0.02):
                    self.wfile.write(then)
            except OSError:
                pass  # the client went away

    stopping = threading.Event()
    server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
    server.stopping = stopping
    return server


@pytest.mark.parametrize(
    ("lines", "then"),
    [
        ([b"HTTP/1.1 200 OK\r\nX-A: "], b"a"),
        ([], b"HTTP/1.1 100 Continue\r\n\r\n"),
        ([b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n"], b"x: y\r\n"),
        ([b"HTTP/1.1 302 Found\r\nX-A: "], b"a"),
    ],
)
def test_no_answer_without_end_holds_a_search_beyond_its_time(by_words, lines, then):
    with holding(*lines, then=then) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        address = EngineAddress.parse(f"http://127.0.0.1:{server.server_address[1]}/?q={{query}}")
        found = []
        asking = threading.Thread(
            target=lambda: found.append(private_search.ask_together(address, ["tea"], timeout=0.5)), daemon=True
        )
        asking.start()
        asking.join(min(LONG, 60))  # a server that sends something all the while held it for ever
        server.stopping.set()
        server.shutdown()
        thread.join()
    assert found
    assert re.search(r"within 0\.5 s|elsewhere", found[0]["tea"].message)


def test_an_engine_on_this_machine_is_asked_without_a_proxy(by_words, monkeypatch):
    with running() as engine:
        monkeypatch.delenv("no_proxy")
        for name in ("http_proxy", "HTTP_PROXY"):
            monkeypatch.setenv(name, "http://127.0.0.1:9")
        assert ask(engine, OTHERS).hits


def test_of_one_answer_only_so_many_results_are_kept(monkeypatch):
    monkeypatch.setattr(private_search, "MOST_RESULTS", 3)
    words = " ".join(f"w{number}" for number in range(9))
    for answer in (searxng, opensearch, suggestions):
        assert len(parse_answer(answer(words)[1])) == 3


def test_an_endless_answer_is_cut(monkeypatch, by_words):
    monkeypatch.setattr(private_search, "LARGEST_ANSWER", 1000)
    with running(lambda query: (200, b" " * 5000)) as engine, pytest.raises(EngineError, match="broke off"):
        ask(engine, OTHERS)


def test_no_engine_at_all_is_a_clear_error(by_words):
    with running() as engine:
        pass
    with pytest.raises(EngineError, match=r"cannot be reached.*ConnectionRefusedError") as problem:
        ask(engine, OTHERS)
    assert "neck" not in str(problem.value)


def test_no_results_are_no_error(by_words):
    with running(lambda query: (200, b'{"results": []}')) as engine:
        assert ask(engine, OTHERS).hits == ()


@pytest.mark.parametrize(
    "template",
    [
        "https://host/search?q=tea",
        "https://host/{query}?q={query}",
        "ftp://host/{query}",
        "file:///etc/passwd?{query}",
        "host/search?q={query}",
        "https://{query}.host/",
        "https:///search?q={query}",
        "https://user:sesame@host/?q={query}",
        "https://host/a b?q={query}",
        "https://hôst/?q={query}",
        "https://host:port/?q={query}",
        "https://[host/?q={query}",
        "",
    ],
)
def test_an_address_that_is_none_is_refused_and_not_repeated(template):
    with pytest.raises(UsageError) as problem:
        EngineAddress.parse(template)
    assert "sesame" not in str(problem.value)


@given(st.text(max_size=40))
def test_whatever_the_words_they_stay_in_their_place_of_the_address(text):
    from urllib.parse import parse_qs, urlsplit

    url = EngineAddress.parse("https://host/search?q={query}&format=json").url(text.encode("utf-8", "replace").decode())
    parts = parse_qs(urlsplit(url).query, keep_blank_values=True)
    assert parts == {"q": [text.encode("utf-8", "replace").decode()], "format": ["json"]}
    assert urlsplit(url).netloc == "host"


def test_an_open_address_is_known_as_such():
    assert EngineAddress.parse("http://engine.example/?q={query}").readable_on_the_way
    assert not EngineAddress.parse("https://engine.example/?q={query}").readable_on_the_way
    assert not EngineAddress.parse("http://localhost:8888/?q={query}").readable_on_the_way
    assert not EngineAddress.parse("http://127.0.0.2:8888/?q={query}").readable_on_the_way


@given(st.recursive(st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(
    st.sampled_from(["results", "hits", "url", "title", "_source", "_id"]), x), max_leaves=20))  # fmt: skip
def test_any_json_gives_hits_or_a_clear_error(content):
    try:
        hits = parse_answer(json.dumps(content).encode("utf-8", "replace"))
    except EngineError:
        return
    assert all(isinstance(hit, Hit) and hit.key for hit in hits)


def test_what_more_queries_found_comes_first_in_the_pool():
    a, b, c = (Hit(key, "", "") for key in "abc")
    assert pool_answers([[a, b], [c, b, b]]) == [b, a, c]
    assert pool_answers([]) == []

"""UBI's indices in a real OpenSearch, and what its client does with a server that is busy or half there."""

import http.server
import json
import random
import threading
import urllib.request

import pytest

from queryveil.errors import EngineError, UsageError
from queryveil.log import QueryLog, read, read_with_report
from queryveil.log.databases import database
from queryveil.log.databases._search_api import MOST_TRIES, SearchApi

SECRET = "chlamydia in portland"


def documents(count=5000):
    """Queries and events as an engine's plugin writes them, some of them bad."""
    queries, events = [], []
    for number in range(count):
        who = f"client{number % 70}"
        text = "2026-03-01" if number == 0 else f"{SECRET} {number}"
        at = {"timestamp": f"2026-03-01T12:{number % 60:02}:00.000Z"}
        queries.append({"query_id": f"q{number}", "client_id": who, "user_query": text, **at, "extra": {"a": [SECRET]}})
        if number % 3 == 0:
            item = {"object": {"object_id": f"d{number}", "name": SECRET}, "position": {"ordinal": number % 10}}
            events.append({"action_name": "item_click", "query_id": f"q{number}", "client_id": who, "session_id": "s",
                           **at, "event_attributes": item})  # fmt: skip
    queries.append({"query_id": "q1", "client_id": "client1", "user_query": f"{SECRET} again"})  # an id twice
    queries.append({"query_id": "q-none", "user_query": SECRET})  # nobody
    events.append({"action_name": "click", "query_id": "q2", "client_id": "somebody else"})
    return queries, events


def put(url, index, lines):
    body = "".join(f'{{"index":{{}}}}\n{json.dumps(line)}\n' for line in lines).encode()
    headers = {"Content-Type": "application/json"}
    mapping = json.dumps({"mappings": {"enabled": False}}).encode()
    urllib.request.urlopen(urllib.request.Request(f"{url}/{index}", mapping, headers, method="PUT")).close()
    answer = urllib.request.urlopen(urllib.request.Request(f"{url}/{index}/_bulk?refresh=true", body, headers))
    assert not json.load(answer)["errors"]


@pytest.mark.service("opensearch")
def test_indices_are_read_as_files_are_and_their_order_does_not_matter(opensearch, tmp_path):
    queries, events = documents()
    for name, seed in (("one", 1), ("other", 2)):
        draw = random.Random(seed)
        for kind, lines in (("queries", queries), ("events", events)):
            put(opensearch.url, f"{name}_{kind}", draw.sample(lines, k=len(lines)))
    (one, report), (other, _) = (read_with_report(opensearch.address(name)) for name in ("one", "other"))
    assert one == other
    (tmp_path / "ubi_queries.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in queries))
    (tmp_path / "ubi_events.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in events))
    filed, of_file = read_with_report(tmp_path)
    columns = ["time", "user", "query", "rank", "url", "session"]
    # Which of the two queries with one id counts is a matter of order, which a file has.
    assert one.frame.filter(user="client1").height == filed.frame.filter(user="client1").height
    same = [log.frame.remove(user="client1").select(columns).sort(columns) for log in (one, filed)]
    assert same[0].equals(same[1])
    assert report.problem_count == of_file.problem_count == 3
    assert all(SECRET not in str(problem) for problem in report.problems)


@pytest.mark.service("opensearch")
def test_texts_that_look_like_something_else_and_long_ones_are_copied(opensearch):
    texts = ["2026-03-01", "true", "17", "x" * 100_000, '{"a": 1}', "null"]
    log = QueryLog.of((f"u{number}", text) for number, text in enumerate(texts))
    database(opensearch.address("texts")).write(log)
    assert sorted(read(opensearch.address("texts")).queries()) == sorted(texts)
    with pytest.raises(UsageError, match="no index nowhere_queries"):
        read(opensearch.address("nowhere"))


def test_addresses_that_are_none(monkeypatch):
    for wrong, said in (
        ("opensearch:ftp://host?queries=a&events=b", "the address looks like"),
        ("opensearch:https://host/path?queries=a&events=b", "the address looks like"),
        ("opensearch:https://ann@host?queries=a&events=b", "the address looks like"),
        ("opensearch:https://host?queries=a,b&events=c", "two indices"),
        ("opensearch:https://host?queries=*&events=c", "two indices"),
        ("opensearch:https://host?queries=a%2F_delete&events=c", "two indices"),
        ("opensearch:https://host?queries=a&events=a", "two indices"),
        ("opensearch:https://host?table=a", "table is not known"),
    ):
        with pytest.raises(UsageError, match=said):
            read(wrong)
    with pytest.raises(UsageError, match="columns has no meaning"):
        read("opensearch:https://host?queries=a&events=b", columns={"user": "uid"})
    monkeypatch.setenv("OPENSEARCH_USERNAME", "ann")
    monkeypatch.setenv("OPENSEARCH_PASSWORD", "hunter2")
    with pytest.raises(UsageError, match="unencrypted") as refusal:
        read("opensearch:http://search.example:9200?queries=a&events=b")
    assert "hunter2" not in str(refusal.value)


class Script(http.server.BaseHTTPRequestHandler):
    """Answers from a list, one after the other, whatever is asked; remembers what that was."""

    def answer(self):
        self.server.asked.append((self.path, self.headers.get("Authorization"), self.rfile.read(self.length())))
        status, headers, content = self.server.answers.pop(0) if self.server.answers else (500, {}, b"{}")
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)

    def length(self):
        return int(self.headers.get("Content-Length") or 0)

    do_GET = do_POST = do_PUT = do_HEAD = do_DELETE = answer  # noqa: N815

    def log_message(self, *_):
        pass


@pytest.fixture
def scripted():
    """A server that follows a script, and a client whose pauses are counted in place of waited for."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Script)
    server.asked, server.answers, server.pauses = [], [], []
    running = threading.Thread(target=server.serve_forever)
    running.start()
    url = f"http://127.0.0.1:{server.server_port}"
    server.url = url
    server.api = lambda: SearchApi("opensearch", url, pause=server.pauses.append)
    yield server
    server.shutdown()
    running.join()
    server.server_close()


def test_a_busy_server_is_asked_again_as_late_as_it_says_and_not_for_ever(scripted):
    busy = (429, {"Retry-After": "7"}, b"{}")
    scripted.answers = [busy, (503, {}, b""), (200, {}, b"{}")]
    assert scripted.api().is_there("index")
    assert scripted.pauses == [7.0, 1.0]
    scripted.answers = [
        (429, {"Retry-After": "999999"}, f'{{"error": {{"reason": "{SECRET}"}}}}'.encode())
    ] * MOST_TRIES
    scripted.pauses.clear()
    with pytest.raises(EngineError, match="HTTP 429") as refusal:
        scripted.api().must("GET", "/", shape=dict)
    assert SECRET not in str(refusal.value)
    assert scripted.pauses == [30.0] * (MOST_TRIES - 1)


def test_documents_that_were_put_off_are_sent_again_and_no_others(scripted):
    def items(*statuses):
        return 200, {}, json.dumps({"items": [{"index": {"status": status}} for status in statuses]}).encode()

    scripted.answers = [items(201, 429, 201), items(201)]
    scripted.api().put_documents("index", [(str(number), b"{}") for number in range(3)])
    assert [body.count(b"_id") for _, _, body in scripted.asked] == [3, 1]
    assert b'"1"' in scripted.asked[1][2]
    refused = {"index": {"status": 400, "error": {"type": "mapper_parsing_exception", "reason": SECRET}}}
    scripted.answers = [(200, {}, json.dumps({"items": [refused]}).encode())]
    with pytest.raises(EngineError, match="HTTP 400, mapper_parsing_exception") as refusal:
        scripted.api().put_documents("index", [("1", b"{}")])
    assert SECRET not in str(refusal.value)


def page(count, total, failed=0):
    hits = {"hits": [{"_source": {"user_query": SECRET}}] * count, "total": {"value": total}}
    return 200, {}, json.dumps({"_scroll_id": "s", "_shards": {"failed": failed}, "hits": hits}).encode()


@pytest.mark.parametrize("answers", [[page(2, 3), page(0, 3)], [page(3, 3, failed=1)], [page(2, 3), (404, {}, b"{}")]])
def test_a_part_of_an_index_is_not_taken_for_the_whole(scripted, answers):
    scripted.answers = [*answers, (200, {}, b"{}")]
    with pytest.raises(EngineError):
        list(scripted.api().documents("index", ["user_query"]))
    scripted.answers = [page(2, 3), page(1, 3), page(0, 3), (200, {}, b"{}")]
    assert len(list(scripted.api().documents("index", ["user_query"]))) == 3


def test_credentials_come_from_the_environment_and_go_to_one_host(scripted, monkeypatch):
    monkeypatch.setenv("OPENSEARCH_USERNAME", "ann")
    monkeypatch.setenv("OPENSEARCH_PASSWORD", "hunter2")
    elsewhere = {"Location": "http://127.0.0.1:1/"}
    scripted.answers = [(200, {}, b"{}"), (302, elsewhere, b"{}"), (401, {}, b'{"error": "hunter2"}')]
    assert scripted.api().is_there("index")
    assert scripted.asked[0][1] == "Basic YW5uOmh1bnRlcjI="
    for told in ("HTTP 302", "HTTP 401.*in the environment"):
        with pytest.raises(EngineError, match=told) as refusal:
            scripted.api().must("GET", "/", shape=dict)
        assert "hunter2" not in str(refusal.value)
    monkeypatch.setenv("OPENSEARCH_API_KEY", "abc")
    scripted.answers = [(200, {}, b"{}")]
    assert scripted.api().is_there("index")
    assert scripted.asked[-1][1] == "ApiKey abc"


def test_a_server_that_is_not_there_is_told(scripted):
    pauses = []
    with pytest.raises(EngineError, match="no answer"):
        SearchApi("opensearch", "http://127.0.0.1:1", pause=pauses.append).is_there("index")
    assert len(pauses) == MOST_TRIES - 1
    for content in (b"<html>", b'{"a": "\xff"}', b'{"a": ' + b"[" * 300_000):
        scripted.answers = [(200, {}, content)]
        with pytest.raises(EngineError, match="not one of such a server"):
            scripted.api().must("GET", "/", shape=dict)

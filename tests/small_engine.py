"""A small search engine on loopback for tests: real HTTP, answers as told, remembers what it was asked."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest


def searxng(query):
    words = query.split()
    found = [{"url": f"https://site/{w}", "title": w, "content": f"all about {w}", "score": 1.0} for w in words]
    shared = {"url": "https://site/throat", "title": "Sore throats", "content": "cancer of the throat"}
    return 200, json.dumps({"query": query, "results": [*found, shared], "infoboxes": []}).encode()


def opensearch(query):
    hits = [
        {"_id": word, "_score": 1.0, "_source": {"title": word, "body": f"all about {word}"}} for word in query.split()
    ]
    return 200, json.dumps({"took": 1, "hits": {"total": {"value": len(hits)}, "hits": hits}}).encode()


def suggestions(query):
    words = query.split()
    return 200, json.dumps([query, words, [""] * len(words), [f"https://wiki/{w}" for w in words]]).encode()


class Engine:
    def __init__(self, port):
        self.port = port
        self.asked = []
        self.headers = []
        self.template = f"http://127.0.0.1:{port}/search?q={{query}}&format=json"


@contextmanager
def running(answer=searxng, *, dribble=0.0, delay=0.0):
    """An engine that answers with answer(query) → (status, body), whole or a byte at a time."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            query = parse_qs(urlsplit(self.path).query)["q"][0]
            engine.asked.append(query)
            engine.headers.append(dict(self.headers))
            stopping.wait(delay)
            status, body = answer(query)
            self.send_response(status)
            if 300 <= status < 400:
                self.send_header("Location", f"http://127.0.0.1:{engine.port}/search?q=elsewhere")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            try:
                for start in range(0, len(body), 1 if dribble else max(1, len(body))):
                    self.wfile.write(body[start : start + (1 if dribble else len(body))])
                    if dribble and stopping.wait(dribble):
                        return
            except OSError:
                pass  # the client went away

        def log_message(self, *given):
            pass

    stopping = threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    engine = Engine(server.server_port)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("no_proxy", "127.0.0.1")  # a proxy of whoever runs the tests must not see them
            yield engine
    finally:
        stopping.set()
        server.shutdown()
        server.server_close()
        thread.join()

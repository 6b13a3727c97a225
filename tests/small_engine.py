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


def over(documents, depth=10):
    """BM25 (bm25s) over texts by id, answering as SearXNG does; a text's first words are its title."""
    import bm25s
    import snowballstemmer

    names, texts = list(documents), list(documents.values())
    read = {"stopwords": "en", "stemmer": snowballstemmer.stemmer("porter"), "show_progress": False}
    index = bm25s.BM25()
    index.index(bm25s.tokenize(texts, **read), show_progress=False)

    def answer(query):
        words = bm25s.tokenize([query], return_ids=False, **read)
        places, scores = index.retrieve(words, k=min(depth, len(names)), show_progress=False)
        found = [int(place) for place, score in zip(places[0], scores[0], strict=True) if score > 0]
        results = [
            {
                "url": f"https://site/{names[place]}",
                "title": " ".join(texts[place].split()[:8]),
                "content": texts[place],
            }
            for place in found
        ]
        return 200, json.dumps({"results": results}).encode()

    return answer


class Engine:
    def __init__(self, port):
        self.port = port
        self.asked = []
        self.headers = []
        self.requests = []
        """The first line of each request."""
        self.template = f"http://127.0.0.1:{port}/search?q={{query}}&format=json"


MADE_UP = {
    "throat": "Cancer of the throat: its symptoms, its treatment, and what to ask a doctor.",
    "neck": "Tumours of the neck and how surgeons remove them in hospitals.",
    "tea": "Green tea and black tea, and where they are grown.",
    "flu": "Influenza, or a sore throat and a fever: when to see a doctor.",
    "chemo": "Chemotherapy and other treatments of cancers, and what patients feel.",
    "rose": "Gardens of the north, their roses and their disease.",
}
"""A small collection."""


@contextmanager
def running(answer=searxng, *, dribble=0.0, delay=0.0):
    """An engine that answers with answer(query) → (status, body), whole or a byte at a time."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            query = parse_qs(urlsplit(self.path).query)["q"][0]
            engine.asked.append(query)
            engine.requests.append(self.requestline)
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

"""The part of OpenSearch's and Elasticsearch's HTTP API that logs need: the same requests of both.

Python's own client is enough for that, and follows no redirects, so that credentials go to the named host alone. They
come from the environment (`OPENSEARCH_USERNAME` and `OPENSEARCH_PASSWORD`, or `OPENSEARCH_API_KEY`; `ELASTICSEARCH_…`
for the other) and are sent without encryption only within this machine. Nothing that a server answers is shown but
codes and the names of its errors, since its sentences quote documents.
"""

from __future__ import annotations

import base64
import http.client
import os
import re
import ssl
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec

from queryveil.errors import EngineError, UsageError

BUSY = (429, 502, 503, 504)
MOST_TRIES = 8
LONGEST_WAIT = 30.0
SECONDS_PER_ANSWER = 120.0
DOCUMENTS_AT_ONCE = 2_000
BYTES_AT_ONCE = 4 << 20
SCROLL = "5m"
_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
Shape = TypeVar("Shape")


class SearchApi:
    """One server. `pause` waits between tries."""

    def __init__(self, kind: str, url: str, pause: Any = time.sleep) -> None:
        try:
            parts = urlsplit(url)
            self._host, self._port = parts.hostname, parts.port
        except ValueError:
            parts, self._host = urlsplit(""), None
        if (
            parts.scheme not in ("http", "https")
            or not self._host
            or "@" in parts.netloc
            or parts.path not in ("", "/")
        ):
            raise UsageError(f"{kind}: the address looks like {kind}:https://host:9200?queries=NAME&events=NAME.")
        self._kind, self._encrypted, self._pause = kind, parts.scheme == "https", pause
        self._headers = {"Content-Type": "application/json", **_authorization(kind)}
        if "Authorization" in self._headers and not self._encrypted and self._host not in _THIS_MACHINE:
            raise UsageError(f"{kind}: name and password do not go over the network unencrypted. Use https.")
        self._connection: http.client.HTTPConnection | None = None

    def ask(self, method: str, path: str, body: bytes | object = None, *, again: bool = True) -> tuple[int, bytes]:
        """Status and content of an answer; a server that is busy, or gone for a moment, is asked again.

        Without `again` a lost answer is an error: not every request may be made twice.
        """
        content = body if isinstance(body, bytes) or body is None else msgspec.json.encode(body)
        for wait in [*(min(LONGEST_WAIT, 0.5 * 2**number) for number in range(MOST_TRIES - 1)), None]:
            try:
                status, asked_for, answer = self._once(method, path, content)
            except (OSError, http.client.HTTPException) as error:
                self.close()
                if wait is None or not again or isinstance(error, ssl.SSLError):
                    raise EngineError(f"{self._kind}: no answer ({type(error).__name__}). Does it run there?") from None
            else:
                if status not in BUSY or wait is None:
                    return status, answer
                wait = min(LONGEST_WAIT, asked_for if asked_for is not None else wait)
            self._pause(wait)
        raise AssertionError("the last try ends the loop")

    def must(
        self, method: str, path: str, body: bytes | object = None, *, shape: type[Shape], again: bool = True
    ) -> Shape:
        """The content of an answer that says yes and looks as it should."""
        status, content = self.ask(method, path, body, again=again)
        if status >= 300:
            raise self.refusal(status, content)
        try:
            return msgspec.json.decode(content, type=shape)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            raise EngineError(f"{self._kind}: the answer is not one of such a server.") from None

    def refusal(self, status: int, content: bytes) -> EngineError:
        """What was refused, by number and the name of the error."""
        named = re.search(rb'"type"\s*:\s*"([a-z_]{1,60})"', content)
        why = f", {named[1].decode()}" if named else ""
        advice = " Set its name and password in the environment." if status in (401, 403) else ""
        return EngineError(f"{self._kind}: the server refused (HTTP {status}{why}).{advice}")

    def is_there(self, name: str) -> bool:
        """Whether there is an index or alias of this name."""
        status, content = self.ask("HEAD", f"/{name}")
        if status not in (200, 404):
            raise self.refusal(status, content)
        return status == 200

    def documents(self, index: str, fields: list[str]) -> Iterator[bytes]:
        """These fields of every document of an index, as they were at one moment; `EngineError` unless all came."""
        first = {"size": DOCUMENTS_AT_ONCE, "sort": ["_doc"], "_source": fields, "track_total_hits": True}
        page = self.must("POST", f"/{index}/_search?scroll={SCROLL}", first, shape=_Page)
        total, count = page.hits.total.value, 0
        try:
            while page.hits.hits and not page.timed_out and not page.shards.failed:
                count += len(page.hits.hits)
                for hit in page.hits.hits:
                    yield bytes(hit.source).replace(b"\n", b" ")  # in JSON a line end is a blank between values
                following = {"scroll": SCROLL, "scroll_id": page.scroll_id}
                page = self.must("POST", "/_search/scroll", following, shape=_Page, again=False)
        finally:
            with suppress(EngineError):
                self.ask("DELETE", "/_search/scroll", {"scroll_id": page.scroll_id}, again=False)
        if count != total:
            raise EngineError(f"{self._kind}: only {count:,} of {total:,} documents came. Nothing was read. Try again.")

    def put_documents(self, index: str, documents: Iterable[tuple[str, bytes]]) -> None:
        """Write documents under their ids; one that is there already under its id is written over."""
        waiting: list[tuple[str, bytes]] = []
        size = 0
        for each in documents:
            waiting.append(each)
            size += len(each[1])
            if size >= BYTES_AT_ONCE or len(waiting) >= DOCUMENTS_AT_ONCE:
                self._put(index, waiting)
                waiting, size = [], 0
        self._put(index, waiting)

    def _put(self, index: str, documents: list[tuple[str, bytes]]) -> None:
        for wait in [*(0.5 * 2**number for number in range(MOST_TRIES - 1)), None]:
            if not documents:
                return
            lines = b"".join(b'{"index":{"_id":"%s"}}\n%s\n' % (name.encode(), line) for name, line in documents)
            answer = self.must("POST", f"/{index}/_bulk", lines, shape=_Written)
            items = [item.index for item in answer.items]
            for item in items:
                if item.status >= 300 and item.status not in BUSY:
                    raise self.refusal(item.status, bytes(item.error))
            documents = [each for each, item in zip(documents, items, strict=True) if item.status in BUSY]
            if documents:
                if wait is None:
                    raise EngineError(f"{self._kind}: the server is too busy to take documents. Try again later.")
                self._pause(min(LONGEST_WAIT, wait))

    def _once(self, method: str, path: str, body: bytes | None) -> tuple[int, float | None, bytes]:
        if self._connection is None:
            kind = http.client.HTTPSConnection if self._encrypted else http.client.HTTPConnection
            self._connection = kind(str(self._host), self._port, timeout=SECONDS_PER_ANSWER)
        self._connection.request(method, path, body, self._headers)
        response = self._connection.getresponse()
        asked_for = response.headers.get("Retry-After", "")
        return response.status, float(asked_for) if asked_for.isdigit() else None, response.read()

    def close(self) -> None:
        """Let go of the connection; the next request opens another."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _authorization(kind: str) -> dict[str, str]:
    key, name, password = (os.environ.get(f"{kind.upper()}_{what}", "") for what in ("API_KEY", "USERNAME", "PASSWORD"))
    if key:
        return {"Authorization": f"ApiKey {key}"}
    both = base64.b64encode(f"{name}:{password}".encode()).decode()
    return {"Authorization": f"Basic {both}"} if name else {}


class _Total(msgspec.Struct):
    value: int = 0


class _Hit(msgspec.Struct):
    source: msgspec.Raw = msgspec.field(default=msgspec.Raw(b"{}"), name="_source")


class _Hits(msgspec.Struct):
    hits: list[_Hit]
    total: _Total = msgspec.field(default_factory=_Total)


class _Shards(msgspec.Struct):
    failed: int


class _Page(msgspec.Struct):
    """A page of a scroll."""

    hits: _Hits
    shards: _Shards = msgspec.field(name="_shards")
    scroll_id: str = msgspec.field(name="_scroll_id")
    timed_out: bool = False


class _Item(msgspec.Struct):
    status: int
    error: msgspec.Raw = msgspec.Raw(b"")


class _Indexed(msgspec.Struct):
    index: _Item


class _Written(msgspec.Struct):
    """What became of each document of a bulk request."""

    items: list[_Indexed]

"""A search without the true query: other queries go out, the results are pooled and ranked at home.

Faggioli and Ferro (2024), the searcher's side. `search` takes the queries that a mechanism drew, sends each different
one once in a shuffled order to an engine of your choice, pools what comes back and ranks the pool under the true query
on this machine: by meaning where the extra `neural` is installed, else by shared words.

What never leaves the machine: the query itself, the ranking, and which results are looked at. What does: the words that
the mechanism drew. By its law it may draw the very words that were typed. Taking such a draw back would tell the engine
which query it was not, and break the mechanism's promise; so what was drawn is sent, and the caller counts such draws.

Everything that can fail without the engine fails before the first request. After that, the first failure ends the
search: nothing more is sent. `ask_together` asks many at one time instead, and a failure of one stops none of the
others. Redirects are not followed, because they could lead anywhere. No cookie is kept, and every request has the same
headers. A request has a deadline, at which its connection is cut, whatever the engine still sends; only looking up the
engine's name and the opening of a connection (through a proxy) have limits of their own.

`address` is a URL with `{query}` in it. Engines answer in JSON: SearXNG (`…/search?q={query}&format=json`), OpenSearch
and Elasticsearch (`…/index/_search?q={query}`), or OpenSearch Suggestions (MediaWiki's
`…/api.php?action=opensearch&search={query}`).

>>> EngineAddress.parse("https://searx.example/search?q={query}&format=json").url("red tea")
'https://searx.example/search?q=red%20tea&format=json'
"""

from __future__ import annotations

import http.client
import ipaddress
import socket
import threading
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import Any
from urllib.parse import quote, urlsplit

import msgspec

from queryveil.checks import real_number, require
from queryveil.errors import EngineError, RefusedError, Remedy, UsageError
from queryveil.knowledge.engines import DenseEngine, LexicalEngine, SearchEngine, content_words
from queryveil.knowledge.sentences import LONGEST, SentenceEncoder
from queryveil.privacy import Noise

QUERY = "{query}"
LARGEST_ANSWER = 8 << 20
READ_AT_ONCE = 1 << 16
LONGEST_TEXT = 2000
MOST_RESULTS = 300
"""Of one answer; more are not read."""
MOST_AT_ONCE = 10
"""Requests under way at one time."""
TEXT_FIELDS = ("text", "content", "body", "abstract", "description", "snippet", "summary")
TITLE_FIELDS = ("title", "name", "headline")
URL_FIELDS = ("url", "link", "uri", "href")
BY_MEANING, BY_WORDS = "meaning (MiniLM)", "shared words (TF-IDF)"
ENCRYPTED, OPEN = "https", "http"
NOTHING_MORE = "Nothing more was sent."
HINTS = {
    403: ": SearXNG answers so where JSON is not among search.formats in its settings",
    429: ": too many queries; wait, or use fewer",
}
"""What some of HTTP's codes mean here."""


@dataclass(frozen=True)
class EngineAddress:
    """Where an engine is asked."""

    template: str

    @classmethod
    def parse(cls, template: str) -> EngineAddress:
        """A checked address. Errors never repeat it: it may hold a key."""
        if template.count(QUERY) != 1:
            raise UsageError(
                "the engine's URL needs {query} once, where the words go: https://host/search?q={query}&format=json"
            )
        try:
            parts = urlsplit(template)
            host, _ = parts.hostname, parts.port
        except ValueError:
            raise UsageError("the engine's URL cannot be read. It looks like https://host/search?q={query}") from None
        if parts.scheme not in (ENCRYPTED, OPEN) or not host or QUERY in parts.netloc:
            raise UsageError("the engine's URL must begin with https:// or http:// and a host without {query}.")
        if any(character <= " " for character in template) or not template.isascii():
            raise UsageError("the engine's URL must be plain ASCII without blanks; write others as %20 and so on.")
        if parts.username is not None or parts.password is not None:
            raise UsageError("the engine's URL must not hold a user name or a password.")
        return cls(template)

    @property
    def on_this_machine(self) -> bool:
        """Whether the engine runs here, so that no proxy and nobody on a network sees what is sent."""
        return is_this_machine(urlsplit(self.template).hostname or "")

    @property
    def readable_on_the_way(self) -> bool:
        """Whether others on the network can read what is sent."""
        return urlsplit(self.template).scheme == OPEN and not self.on_this_machine

    def url(self, query: str) -> str:
        """The address for one query."""
        return self.template.replace(QUERY, quote(query, safe=""))


def is_this_machine(host: str) -> bool:
    """Whether a host is loopback, however its number is written.

    >>> [is_this_machine(host) for host in ("localhost", "127.1", "0x7f000001", "::1", "::ffff:127.0.0.1", "a.example")]
    [True, True, True, True, True, False]
    """
    name = host.lower().rstrip(".")
    try:
        address = ipaddress.ip_address(socket.inet_aton(name) if ":" not in name else name)
    except (OSError, ValueError):
        return name == "localhost"
    address = getattr(address, "ipv4_mapped", None) or address
    return address.is_loopback or address.is_unspecified


@dataclass(frozen=True)
class Hit:
    """One result: `key` tells results apart (a URL or a document's id)."""

    key: str
    title: str
    text: str


@dataclass(frozen=True, kw_only=True)
class SearchResult:
    """The pool, best first under the true query."""

    hits: tuple[Hit, ...]
    sent: tuple[str, ...]
    ranked_by: str


def no_step(step: str) -> None:
    """For callers that do not follow along."""


def search(
    query: str,
    others: Sequence[str],
    address: EngineAddress,
    *,
    order: Noise,
    timeout: float = 10.0,
    on_step: Callable[[str], None] = no_step,
) -> SearchResult:
    """Send the other queries, pool, rank under the query. `order` shuffles what is sent."""
    require(real_number("timeout", timeout, above=0, at_most=600, suggest=10.0))
    rank = ranker()
    shuffled = to_send(others, order)
    answers = []
    for number, text in enumerate(shuffled, 1):
        try:
            answers.append(ask(address, text, timeout=timeout, label=f"query {number} of {len(shuffled)}"))
        except EngineError as error:
            raise EngineError(f"{error.message} {NOTHING_MORE}", remedy=error.remedy) from None
        on_step(f"{number} of {len(shuffled)} answered")
    pool = pool_answers(answers)
    hits = tuple(rank.ranked(query, pool))
    on_step("ranked")
    return SearchResult(hits=hits, sent=tuple(shuffled), ranked_by=rank.name)


def to_send(others: Sequence[str], order: Noise) -> list[str]:
    """Each different query once, in a shuffled order; refuses where there is none."""
    texts = list(dict.fromkeys(text for text in others if text.strip()))
    if not texts:
        raise RefusedError("no other query could be made of this one; nothing was sent.")
    return [texts[place] for place in order.stream("search: order").permutation(len(texts)).tolist()]


# Asking


def ask_together(address: EngineAddress, texts: Sequence[str], *, timeout: float) -> dict[str, list[Hit] | EngineError]:
    """Begin with the texts in their order, a few at one time: the engine's results for each, or why there are none."""

    def outcome(text: str) -> list[Hit] | EngineError:
        try:
            return ask(address, text, timeout=timeout)
        except EngineError as error:
            return error

    with ThreadPoolExecutor(MOST_AT_ONCE) as pool:
        return dict(zip(texts, pool.map(outcome, texts), strict=True))


class _Deadline:
    """Cuts one connection off when its time is over: a byte now and then must not hold us longer."""

    def __init__(self, seconds: float) -> None:
        self.passed = False
        self._connection: socket.socket | None = None
        self._lock = threading.Lock()
        self._timer = threading.Timer(seconds, self._pass)
        self._timer.daemon = True

    def __enter__(self) -> _Deadline:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def watch(self, connection: socket.socket) -> None:
        """Cut this one; a duplicate is kept, since encryption takes the first away."""
        with self._lock:
            self._connection = connection.dup()
            self._cut()

    def _pass(self) -> None:
        with self._lock:
            self.passed = True
            self._cut()

    def _cut(self) -> None:
        if self.passed and self._connection is not None:
            with suppress(OSError):  # it was closed from the other side
                self._connection.shutdown(socket.SHUT_RDWR)


class _Plain(http.client.HTTPConnection):
    deadline: _Deadline

    def connect(self) -> None:
        """Connect, and be watched from then on."""
        super().connect()
        self.deadline.watch(self.sock)


class _Encrypted(http.client.HTTPSConnection, _Plain):
    """Watched as soon as there is a connection, before it is encrypted."""


class _Watched(urllib.request.HTTPHandler, urllib.request.HTTPSHandler):
    def __init__(self, deadline: _Deadline) -> None:
        super().__init__()
        self._deadline = deadline

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Without encryption."""
        return self._opened(_Plain, req)

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """With encryption."""
        return self._opened(_Encrypted, req)

    def _opened(self, kind: type[_Plain], req: urllib.request.Request) -> http.client.HTTPResponse:
        def connection(host: str, **options: Any) -> _Plain:
            made = kind(host, **options)
            made.deadline = self._deadline
            return made

        return self.do_open(connection, req)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *given: Any) -> None:
        """Follow none; the caller then sees the redirect as an error."""


def ask(address: EngineAddress, text: str, *, timeout: float, label: str = "the query") -> list[Hit]:
    """The engine's results for one query; `label` is what an error calls it."""
    headers = {"Accept": "application/json", "User-Agent": "Mozilla/5.0"}
    request = urllib.request.Request(address.url(text), headers=headers)
    with _Deadline(timeout) as deadline:
        handlers = [_NoRedirects(), _Watched(deadline), *([urllib.request.ProxyHandler({})] * address.on_this_machine)]
        opener = urllib.request.build_opener(*handlers)
        return parse_answer(_received(opener, request, deadline, timeout, label), label)


def _received(
    opener: urllib.request.OpenerDirector,
    request: urllib.request.Request,
    deadline: _Deadline,
    timeout: float,
    label: str,
) -> bytes:
    """The answer's content. Foreign errors quote the URL, and with it the words: only their kind is shown."""
    try:
        with opener.open(request, timeout=timeout) as response:
            answer = _read(response)
        if deadline.passed:  # what was cut off can look like an end
            raise TimeoutError
        return answer
    except urllib.error.HTTPError as error:
        error.close()
        if 300 <= error.code < 400:
            problem = f"the engine sends {label} elsewhere (HTTP {error.code}); give its final address"
        else:
            problem = f"the engine refused {label} (HTTP {error.code}){HINTS.get(error.code, '')}"
        raise EngineError(f"{problem}.") from None
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(reason, TimeoutError) or deadline.passed:
            slow = f"the engine did not answer {label} within {timeout:g} s."
            raise EngineError(slow, remedy=Remedy("timeout", "SECONDS")) from None
        kind = type(reason).__name__ if isinstance(reason, Exception) else "no connection"
        happened = f"cannot be reached for {label}" if reason is not error else f"broke off its answer to {label}"
        raise EngineError(f"the engine {happened} ({kind}).") from None


def _read(response: Any) -> bytes:
    """The whole answer, unless it is too large."""
    parts: list[bytes] = []
    size = 0
    while part := response.read1(READ_AT_ONCE):
        parts.append(part)
        size += len(part)
        if size > LARGEST_ANSWER:
            raise ValueError
    return b"".join(parts)


# Reading answers


def parse_answer(answer: bytes, label: str = "the query") -> list[Hit]:
    """Results from JSON of SearXNG, OpenSearch or OpenSearch Suggestions."""
    try:
        content = msgspec.json.decode(answer)
    except (msgspec.DecodeError, ValueError, RecursionError):  # the latter two: bad UTF-8, nesting without end
        content = None
    hits = None
    if isinstance(content, dict):
        results, outer = content.get("results"), content.get("hits")
        inner = outer.get("hits") if isinstance(outer, dict) else None
        if isinstance(results, list):
            hits = [_hit(result) for result in results[:MOST_RESULTS] if isinstance(result, dict)]
        elif isinstance(inner, list):
            hits = [_stored_hit(result) for result in inner[:MOST_RESULTS] if isinstance(result, dict)]
    elif isinstance(content, list) and len(content) == 4 and all(isinstance(part, list) for part in content[1:]):
        titles, texts, urls = content[1:]
        if len(titles) == len(texts) == len(urls):
            rows = islice(zip(titles, texts, urls, strict=True), MOST_RESULTS)
            hits = [Hit(_text(url), _text(title), _text(text)) for title, text, url in rows]
    if hits is None:
        raise EngineError(
            f"the engine's answer to {label} is neither SearXNG's nor OpenSearch's JSON. "
            "For SearXNG add &format=json to the URL."
        )
    return [hit for hit in hits if hit.key]


def _hit(fields: dict[str, Any]) -> Hit:
    url, title, text = (_first(fields, names) for names in (URL_FIELDS, TITLE_FIELDS, TEXT_FIELDS))
    return Hit(url, title, text)


def _stored_hit(result: dict[str, Any]) -> Hit:
    source = result.get("_source")
    hit = _hit(source if isinstance(source, dict) else {})
    return hit if hit.key else Hit(_text(result.get("_id")), hit.title, hit.text)


def _first(fields: dict[str, Any], names: Sequence[str]) -> str:
    return next((_text(fields[name]) for name in names if _text(fields.get(name))), "")


def _text(value: Any) -> str:
    return value[:LONGEST_TEXT].strip() if isinstance(value, str) else ""


# Pooling and ranking


def pool_answers(answers: Sequence[Sequence[Hit]]) -> list[Hit]:
    """All different results: those that more queries found first, then by their best place."""
    votes: Counter[str] = Counter()
    places: dict[str, int] = {}
    hits: dict[str, Hit] = {}
    for answer in answers:
        votes.update({hit.key for hit in answer})
        for place, hit in enumerate(answer):
            places[hit.key] = min(places.get(hit.key, place), place)
            hits.setdefault(hit.key, hit)
    return sorted(hits.values(), key=lambda hit: (-votes[hit.key], places[hit.key], hit.key))


@dataclass(frozen=True)
class Ranker:
    """Ranks texts under a query on this machine."""

    name: str
    index: Callable[[Sequence[str]], SearchEngine]

    def ranked(self, query: str, hits: Sequence[Hit]) -> list[Hit]:
        """The results, best first."""
        return [hits[place] for place in self.order(query, [f"{hit.title} {hit.text}" for hit in hits])]

    def order(self, query: str, texts: Sequence[str]) -> list[int]:
        """The places of the texts, best first; those that the ranking does not tell apart stay in their order."""
        if not any(content_words(text) for text in texts):
            return list(range(len(texts)))
        best = [int(place) for place in self.index(texts).search([query], len(texts))[0]]
        return best + sorted(set(range(len(texts))) - set(best))


def ranker(longest: int = LONGEST) -> Ranker:
    """By meaning where the sentence model is installed, by the first `longest` tokens; else by shared words."""
    if SentenceEncoder.available():
        encoder = SentenceEncoder.load(longest)
        return Ranker(BY_MEANING, lambda texts: DenseEngine(texts, encoder))
    return by_shared_words()


def by_shared_words() -> Ranker:
    """The one that needs nothing more to be installed."""
    return Ranker(BY_WORDS, LexicalEngine.tfidf)

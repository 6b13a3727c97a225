"""The gateway's pages: a search box on this machine, what would be sent and how deniable it is, and the results.

The same guard stands before them as before the page (`middleware`), and adds nothing that a browser would load from
elsewhere. A question has a random number for its address, so that no query stands in an address of ours, in the
history, or in what another site is told; loading it again sends nothing.

A browser that took the gateway for its search engine asks `GET /search?key=…&q=…`. That one address takes a query in it
and may send it. Other pages must not make a browser ask it, nor read the answer:

- the Host must be ours (a hostile name that resolves to loopback is refused), as everywhere;
- the key is 256 random bits that only the owner's browser has, from the description at `/opensearch.xml?key=…`, to
  which only pages of somebody who was let in point. It is asked for always: a cookie comes along with requests that
  another page brought about, by going back or by a redirect of an address that somebody typed or loaded again;
- the browser must say that no page asked (`Sec-Fetch-Site: none`). That alone is no proof, for the same reason, but a
  link on another page says otherwise, and a browser that says nothing is refused too;
- no result that the engine sends leads to an address of ours;
- what the browser fetches before anybody pressed Enter (prefetching) is refused;
- the answer is a redirect to an address without the query, and no other origin may read or frame any answer.
"""

from __future__ import annotations

import base64
import unicodedata
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Final
from urllib.parse import unquote, urlsplit

from fastapi import APIRouter, FastAPI, Form, Query, Request
from fastapi.responses import HTMLResponse, Response
from starlette.types import ASGIApp

from queryveil.errors import QueryVeilError
from queryveil.privacy import keys
from queryveil.search.gateway import Gateway, Question
from queryveil.search.private_search import Hit, is_this_machine
from queryveil.web import entrance
from queryveil.web.formatting import as_page_field
from queryveil.web.middleware import HEADERS, OPEN_TO_ALL, Guard
from queryveil.web.refusals import answer_errors
from queryveil.web.rendering import page as _page
from queryveil.web.rendering import render, to
from queryveil.web.sessions import RefusedRequest, Sessions, set_cookie
from queryveil.web.settings import Listening
from queryveil.web.store import NotFoundError

KEY: Final = "gateway.key"
COOKIE: Final = "queryveil-gateway"
"""Another than the page's: browsers share cookies between all ports of a machine."""
SEARCH, DESCRIPTION = "/search", "/opensearch.xml"
# No page of ours has a script; that of the shared entrance is for the other page, and is not run here.
POLICY: Final = "content-security-policy"
WITHOUT_SCRIPTS: Final = HEADERS | {POLICY: HEADERS[POLICY].replace("script-src 'self'", "script-src 'none'")}
LONGEST_QUERY: Final = 300
SHOWN: Final = 50
Typed = Annotated[str, Form(max_length=LONGEST_QUERY)]


def standing_key() -> str:
    """The secret in the address that a browser keeps: made on first use, in the key folder."""
    return base64.urlsafe_b64encode(keys.own(KEY)).decode().rstrip("=")


def create(
    settings: Listening, gateway: Gateway, on_new_token: Callable[[str], None] = lambda token: None, *, at_once: bool
) -> ASGIApp:
    """The application with its guard. With `at_once`, Enter and the address bar send without showing it first."""
    key = standing_key()
    sessions = Sessions(None, on_new_token, cookie=COOKIE, standing_key=key)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        sessions.open()
        yield
        gateway.forget()

    app = FastAPI(title="QueryVeil gateway", docs_url=None, redoc_url=None, openapi_url=None, lifespan=lifespan)
    app.state.sessions = sessions
    app.include_router(entrance.router())
    app.include_router(router(settings, gateway, key, at_once=at_once))
    answer_errors(app)
    return Guard(app, settings, sessions, open_to_all=(*OPEN_TO_ALL, SEARCH, DESCRIPTION), headers=WITHOUT_SCRIPTS)


def router(settings: Listening, gateway: Gateway, standing: str, *, at_once: bool) -> APIRouter:
    """The routes, over one gateway."""
    page = APIRouter(default_response_class=HTMLResponse)

    def shown(request: Request, template: str, **values: object) -> HTMLResponse:
        common = {"gateway": gateway, "standing": gateway.standing(), "at_once": at_once, "longest": LONGEST_QUERY}
        return _page(request, template, **common, description=f"{DESCRIPTION}?key={standing}", **values)

    def asked(query: str, *, send: bool) -> Question:
        question = gateway.ask(query, deniable=not send)
        if send:
            gateway.send(question)
        return question

    def found(number: str) -> Question:
        question = gateway.question(number)
        if question is None:
            raise NotFoundError("this question was forgotten: the gateway keeps the last few, and only while it runs.")
        return question

    @page.get("/")
    def box(request: Request) -> Response:
        return shown(request, "gateway_box.html", query="", problem=None)

    @page.post("/ask")
    def ask(request: Request, query: Typed = "", way: Annotated[str, Form()] = "") -> Response:
        try:
            return to(_address(asked(query, send=way == "send")))
        except QueryVeilError as error:
            return shown(request, "gateway_box.html", query=query, problem=error.describe(as_page_field))

    @page.get(SEARCH)
    def from_address_bar(
        request: Request, q: Annotated[str, Query(max_length=LONGEST_QUERY)] = "", key: str = ""
    ) -> Response:
        refuse_what_nobody_asked(request)
        sessions = with_key(request, key)
        answer = to("/")
        if request.scope.get("state", {}).get("session") is None:
            set_cookie(sessions, answer, sessions.enter_with_key(key))
        if q.strip():
            answer.headers["location"] = _address(asked(q, send=at_once))
        return answer

    @page.get("/asked/{number}")
    def question_page(request: Request, number: str) -> Response:
        question = found(number)
        hits = [(hit, link_of(hit, settings.port)) for hit in question.hits[:SHOWN]]
        price = gateway.price(question)
        return shown(request, "gateway_asked.html", question=question, hits=hits, price=price, query=question.query)

    @page.post("/asked/{number}/send")
    def send(number: str) -> Response:
        gateway.send(found(number))
        return to(_address(found(number)))

    @page.post("/forget")
    def forget() -> Response:
        gateway.forget()
        return to("/")

    @page.get(DESCRIPTION)
    def description(request: Request, key: str = "") -> Response:
        with_key(request, key)
        search = f"{settings.address}{SEARCH}?key={standing}&q={{searchTerms}}"
        content = render("opensearch.xml", None, address=settings.address, search=search)
        return Response(content, media_type="application/opensearchdescription+xml")

    return page


def with_key(request: Request, key: str) -> Sessions:
    """Go on only with the standing key, whoever was let in."""
    sessions: Sessions = request.app.state.sessions
    if not sessions.is_standing_key(key):
        raise RefusedRequest(403, "the key in this address is not that of this gateway. Add the search engine anew.")
    return sessions


def refuse_what_nobody_asked(request: Request) -> None:
    """Go on only where the browser says that no page asked for this, and that it asks now."""
    if request.headers.get("sec-fetch-site") != "none":
        raise RefusedRequest(403, "this request comes from another page, or from a browser too old to tell.")
    if any(name in request.headers for name in ("sec-purpose", "purpose", "x-moz")):
        raise RefusedRequest(403, "nothing is searched before somebody presses Enter.")


def link_of(hit: Hit, own_port: int) -> str | None:
    """Where a result leads, if that is a page of the web and not one of ours; whatever else an engine says is shown.

    >>> results = "javascript:alert(1)", "http://localhost:8643/search", "https://site/a b"
    >>> [link_of(Hit(key, "", ""), 8643) for key in results]
    [None, None, 'https://site/a b']
    """
    try:
        parts = urlsplit(hit.key)
        host = unicodedata.normalize("NFKC", unquote(parts.hostname or "")).lower()  # as browsers read it
        port = parts.port or {"http": 80, "https": 443}.get(parts.scheme)
    except ValueError:
        return None
    if not host or port is None or "\\" in hit.key or "@" in parts.netloc:  # browsers take \ for /
        return None
    return None if port == own_port and (is_this_machine(host) or host.rstrip(".").endswith(".localhost")) else hit.key


def _address(question: Question) -> str:
    return f"/asked/{question.id}"

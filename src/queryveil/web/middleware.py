"""What stands between the network and the application: every request passes here first, every answer last.

In this order: the Host must be the address this server was started under (a hostile name that resolves to it is not);
what changes something must come from our own pages (Origin, Sec-Fetch-Site) with the session's CSRF token; everybody
else than a browser that was let in gets the entrance and nothing more; a body must be small (but for an upload, which
has a limit of its own) and must keep coming. Answers carry a Content-Security-Policy without any inline script or
style, and are never cached. What goes wrong unexpectedly is told by kind and place alone, since its text may hold data.
"""

from __future__ import annotations

import asyncio
import logging
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs

from polars.exceptions import PanicException
from starlette.datastructures import Headers
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from queryveil.web.rendering import message_page
from queryveil.web.sessions import BrowserSession, RefusedRequest, Sessions
from queryveil.web.settings import Listening

SMALL_BODY: Final = 256 << 10
SLOWEST: Final = 2048
"""Bytes a second, on average, below which a sender is taken for an attacker."""
LONGEST_PATH: Final = 2000
MOST_AT_ONCE: Final = 64
"""Requests that are answered at one time."""
MOST_OF_STRANGERS: Final = 8
"""Requests with a body at one time from one address by whom nobody let in yet: they can be slow, and nothing else."""
TRY_AGAIN_AFTER: Final = 5
"""Seconds."""
SAFE_METHODS: Final = ("GET", "HEAD")
METHODS: Final = (*SAFE_METHODS, "POST", "PUT", "DELETE")
OPEN_TO_ALL: Final = ("/enter", "/api/session")
STATIC: Final = "/static/"
API: Final = "/api/"
UPLOADS: Final = (("POST", "/logs"), ("POST", "/api/logs"))
HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",  # with no-referrer, browsers send our own forms with the origin null
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
    "cache-control": "no-store",
}
messages = logging.getLogger("queryveil.web")


class Guard:
    """The outermost ASGI layer."""

    def __init__(
        self,
        app: ASGIApp,
        settings: Listening,
        sessions: Sessions,
        open_to_all: Sequence[str] = OPEN_TO_ALL,
        headers: Mapping[str, str] = HEADERS,
    ) -> None:
        """`open_to_all` are paths that answer without a cookie, and ask for a secret themselves."""
        self.app, self.settings, self.sessions, self.open_to_all = app, settings, sessions, open_to_all
        self._headers = [(name.encode(), value.encode()) for name, value in headers.items()]
        self._at_work = 0
        self._strangers: Counter[str] = Counter()
        self._uploading: set[int] = set()
        """Sessions, which live as long as this."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":
            return  # nobody speaks WebSocket here
        answer = Answer(send, self._headers)
        try:
            body = Body(receive, self.settings.patience, _limit(scope, self.settings), answer)
            session = self._admit(scope)
            is_stranger = session is None and scope["method"] not in SAFE_METHODS
            with self._one_more(scope, is_stranger=is_stranger), self._one_upload(scope, session):
                if session is not None:
                    await self._check_token(scope, session, body)
                    scope.setdefault("state", {})["session"] = session
                await self.app(scope, body.receive, answer.send)
        except RefusedRequest as refused:
            answer.refusal = refused
        except (Exception, PanicException) as error:  # the latter is no Exception, and would end the connection
            place = traceback.extract_tb(error.__traceback__)[-1]
            messages.error("%s in %s, line %d", type(error).__name__, Path(place.filename).name, place.lineno)
            answer.refusal = RefusedRequest(500, "a fault in QueryVeil. See what was done before you try again.")
        if answer.refusal is not None and not answer.begun:
            await _answer(scope, answer.refusal)(scope, receive, answer.send_last)

    @contextmanager
    def _one_more(self, scope: Scope, *, is_stranger: bool) -> Iterator[None]:
        """Count a request while it is answered, and refuse one too many for the moment."""
        address = scope["client"][0] if scope.get("client") else ""
        if self._at_work >= MOST_AT_ONCE or (is_stranger and self._strangers[address] >= MOST_OF_STRANGERS):
            raise RefusedRequest(503, "too much is asked at once. Try again in a moment.")
        self._at_work += 1
        self._strangers[address] += is_stranger
        try:
            yield
        finally:
            self._at_work -= 1
            self._strangers[address] -= is_stranger
            if not self._strangers[address]:
                del self._strangers[address]

    @contextmanager
    def _one_upload(self, scope: Scope, session: BrowserSession | None) -> Iterator[None]:
        """Each session sends one log at a time: an upload may fill the disk, and takes as long as it likes."""
        if session is None or (scope["method"], scope["path"]) not in UPLOADS:
            yield
            return
        if id(session) in self._uploading:
            raise RefusedRequest(503, "another log of yours is being sent; send one at a time.")
        self._uploading.add(id(session))
        try:
            yield
        finally:
            self._uploading.discard(id(session))

    def _admit(self, scope: Scope) -> BrowserSession | None:
        """The session of a request that may go on; None for the few paths that need none."""
        headers = Headers(scope=scope)
        path, method = scope["path"], scope["method"]
        if headers.getlist("host") != [self._host()]:
            raise RefusedRequest(421, "this server does not answer under that name.")
        if method not in METHODS:
            raise RefusedRequest(405, "this method is not used here.")
        if len(scope.get("raw_path", b"")) + len(scope.get("query_string", b"")) > LONGEST_PATH:
            raise RefusedRequest(414, "the address is too long.")
        if "\\" in path or "\0" in path or ".." in path.split("/"):
            raise RefusedRequest(404, "there is nothing of that name here.")
        self._check_origin(method, headers)
        if path in self.open_to_all and scope.get("query_string") and is_foreign(headers):
            # Links elsewhere lead nowhere in here; as guesses they would be counted, and keep the holder out.
            raise RefusedRequest(403, "this request comes from another page.")
        if path.startswith(STATIC) and method in SAFE_METHODS:
            return None
        session = self.sessions.find(self.sessions.cookie_of(headers))
        if session is None and path not in self.open_to_all:
            raise RefusedRequest(401, "open the address that was printed in the terminal.")
        if path in self.open_to_all and method == "POST":
            return None  # there is no session yet whose token could be asked for
        return session

    def _host(self) -> str:
        return self.settings.address.removeprefix("http://")

    def _check_origin(self, method: str, headers: Headers) -> None:
        origin = headers.get("origin")
        if origin is not None and origin != self.settings.address:
            raise RefusedRequest(403, "this request comes from another page.")
        if is_foreign(headers) and (method not in SAFE_METHODS or headers.get("sec-fetch-mode") != "navigate"):
            raise RefusedRequest(403, "this request comes from another page.")

    async def _check_token(self, scope: Scope, session: BrowserSession, body: Body) -> None:
        if scope["method"] in SAFE_METHODS:
            return
        headers = Headers(scope=scope)
        token = headers.get("x-csrf-token")
        kind = headers.get("content-type", "").split(";")[0].strip().lower()
        if token is None and kind == "application/x-www-form-urlencoded":
            fields = parse_qs((await body.peek()).decode("utf-8", errors="replace"))
            token = fields.get("csrf", [""])[0]
        if token is None and kind == "multipart/form-data" and (scope["method"], scope["path"]) == UPLOADS[0]:
            return  # the token is the first field of the upload; `pages.upload` takes nothing before it has seen it
        if not session.has_token(token):
            raise RefusedRequest(403, "the page is out of date, or the request comes from another page. Load it again.")


class Answer:
    """What is sent back: with our headers, and nothing of the application's once the request was refused."""

    def __init__(self, send: Send, headers: Sequence[tuple[bytes, bytes]]) -> None:
        self._send, self._headers = send, headers
        self.begun = False
        self.refusal: RefusedRequest | None = None

    async def send(self, message: Message) -> None:
        """Send for the application, which may have made an answer of its own of our refusal."""
        if self.refusal is None or self.begun:
            await self.send_last(message)

    async def send_last(self, message: Message) -> None:
        """Send, with our headers."""
        if message["type"] == "http.response.start":
            self.begun = True
            given = message.get("headers", [])
            present = {name.lower() for name, _ in given}
            message["headers"] = [*given, *(header for header in self._headers if header[0] not in present)]
        await self._send(message)


class Body:
    """The body of a request as it comes in: counted, timed, and readable twice where it is small."""

    def __init__(self, receive: Receive, patience: float, limit: int, answer: Answer) -> None:
        self._receive, self._patience, self._limit, self._answer = receive, patience, limit, answer
        self._kept: list[Message] = []
        self._size = 0
        self._ended = False
        self._began = time.monotonic()

    async def receive(self) -> Message:
        """The next message, for the application."""
        return self._kept.pop(0) if self._kept else await self._next()

    async def peek(self) -> bytes:
        """The whole of a small body; the application gets it again."""
        while not self._ended:
            self._kept.append(await self._next())
        return b"".join(message.get("body", b"") for message in self._kept)

    async def _next(self) -> Message:
        if self._ended:
            return await self._receive()  # only a disconnect can follow, and nobody waits for it in vain
        try:
            message = await asyncio.wait_for(self._receive(), self._patience)
        except TimeoutError:
            raise self._refuse(408, "the request took too long to arrive.") from None
        if message["type"] != "http.request":
            self._ended = True
            return message
        self._size += len(message.get("body", b""))
        self._ended = not message.get("more_body", False)
        if self._size > self._limit:
            raise self._refuse(413, "that is more than this server takes.")
        waited = time.monotonic() - self._began
        if not self._ended and waited > self._patience and self._size < SLOWEST * waited:
            raise self._refuse(408, "the request took too long to arrive.")
        return message

    def _refuse(self, status: int, reason: str) -> RefusedRequest:
        self._answer.refusal = RefusedRequest(status, reason)
        return self._answer.refusal


def is_foreign(headers: Headers) -> bool:
    """Whether the browser says that another page is behind a request."""
    return headers.get("sec-fetch-site") not in (None, "same-origin", "none")


def _limit(scope: Scope, settings: Listening) -> int:
    limit = settings.largest_upload + SMALL_BODY if (scope["method"], scope["path"]) in UPLOADS else SMALL_BODY
    length = Headers(scope=scope).get("content-length", "0")
    if length.isdecimal() and int(length) > limit:
        raise RefusedRequest(413, "that is more than this server takes.")
    return limit


def _answer(scope: MutableMapping[str, Any], refused: RefusedRequest) -> Response:
    headers = {"connection": "close"} if refused.status in (408, 413, 503) else {}
    if refused.status == 503:
        headers["retry-after"] = str(TRY_AGAIN_AFTER)
    if scope["path"].startswith(API):
        return JSONResponse({"error": refused.reason}, refused.status, headers=headers)
    if refused.status == 401 and scope["method"] == "GET":
        return RedirectResponse("/enter", 303)
    return HTMLResponse(message_page(refused.status, refused.reason), refused.status, headers=headers)

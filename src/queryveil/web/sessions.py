"""Who may use the page: whoever has the one-time token of the printed address, or the password, and then a cookie.

A token works once; the next one is printed in the terminal. Guesses are counted, and after `MOST_GUESSES` within a
minute nobody is let in for the rest of it, so that 256 random bits need not be the only defence. Cookies are kept as
digests, so that what the server holds in memory does not open it either. Wrong standing keys are not counted: hostile
pages can make a browser try some, which would keep its owner out.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Final

from fastapi import Request, Response
from starlette.datastructures import Headers

from queryveil.errors import RefusedError
from queryveil.web.models import SessionView

COOKIE: Final = "queryveil"
MOST_GUESSES: Final = 10
GUESSING_WINDOW: Final = 60.0
LONGEST_IDLE: Final = 12 * 3600.0
MOST_SESSIONS: Final = 50


class TooManyGuessesError(RefusedError):
    """Somebody is guessing."""


class RefusedRequest(Exception):  # noqa: N818 -- an answer rather than an error
    """A request that is answered with a status and a reason, and goes no further."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status, self.reason = status, reason


@dataclass
class BrowserSession:
    """A browser that was let in."""

    csrf: str = field(repr=False)
    seen: float

    def has_token(self, token: str | None) -> bool:
        """Whether this is the session's CSRF token."""
        return hmac.compare_digest((token or "").encode("utf-8", "replace"), self.csrf.encode())


class Sessions:
    """Tokens, the password and the browsers that were let in; everything in memory, gone with the server."""

    def __init__(
        self,
        password: str | None,
        on_new_token: Callable[[str], None],
        *,
        cookie: str = COOKIE,
        standing_key: str | None = None,
    ) -> None:
        """`standing_key` is a long random secret that works again and again, for an address that a browser keeps."""
        self._salt = secrets.token_bytes(16)
        self._password = None if password is None else self._stretched(password)
        self._on_new_token = on_new_token
        self._sessions: dict[str, BrowserSession] = {}
        self._wrong: deque[float] = deque(maxlen=MOST_GUESSES)
        self._lock = threading.Lock()
        self._token: str | None = None
        self.cookie_name = cookie
        self._standing_key = standing_key

    @property
    def wants_password(self) -> bool:
        """Whether people enter with a password instead of a token."""
        return self._password is not None

    def open(self) -> None:
        """Make the first token, where there is no password."""
        if not self.wants_password:
            self._token = secrets.token_urlsafe(32)
            self._on_new_token(self._token)

    def enter(self, secret: str) -> str | None:
        """The cookie for whoever knows the token or the password; None for everybody else."""
        with self._lock:
            now = time.monotonic()
            if len(self._wrong) == MOST_GUESSES and now - self._wrong[0] < GUESSING_WINDOW:
                raise TooManyGuessesError("too many wrong tries. Wait a minute.")
            if not self._matches(secret):
                self._wrong.append(now)
                return None
            if not self.wants_password:
                self.open()  # the token is used up; this one is for another browser
            return self._new_cookie(now)

    def enter_with_key(self, secret: str) -> str | None:
        """The cookie for whoever has the standing key; None for everybody else."""
        with self._lock:
            return self._new_cookie(time.monotonic()) if self.is_standing_key(secret) else None

    def _new_cookie(self, now: float) -> str:
        cookie = secrets.token_urlsafe(32)
        self._forget_idle(now)
        self._sessions[_digest(cookie)] = BrowserSession(csrf=secrets.token_urlsafe(32), seen=now)
        return cookie

    def find(self, cookie: str | None) -> BrowserSession | None:
        """The session of a cookie."""
        if not cookie:
            return None
        now = time.monotonic()
        with self._lock:
            found = self._sessions.get(_digest(cookie))
            if found is None or now - found.seen > LONGEST_IDLE:
                return None
            found.seen = now
            return found

    def cookie_of(self, headers: Headers) -> str | None:
        """The session's cookie among those that a browser sent."""
        try:
            morsel = SimpleCookie(headers.get("cookie", "")).get(self.cookie_name)
        except CookieError:
            return None
        return morsel.value if morsel else None

    def leave(self, cookie: str | None) -> None:
        """End a session."""
        with self._lock:
            self._sessions.pop(_digest(cookie or ""), None)

    def is_standing_key(self, secret: str) -> bool:
        """Whether this is the secret that works again and again."""
        return self._standing_key is not None and hmac.compare_digest(_digest(secret), _digest(self._standing_key))

    def _matches(self, secret: str) -> bool:
        if self._password is not None:
            return hmac.compare_digest(self._stretched(secret), self._password)
        return self._token is not None and hmac.compare_digest(_digest(secret), _digest(self._token))

    def _stretched(self, password: str) -> bytes:
        return hashlib.scrypt(password.encode("utf-8", "surrogatepass"), salt=self._salt, n=1 << 14, r=8, p=1)

    def _forget_idle(self, now: float) -> None:
        by_age = sorted(self._sessions.items(), key=lambda item: item[1].seen, reverse=True)[: MOST_SESSIONS - 1]
        self._sessions = {digest: one for digest, one in by_age if now - one.seen <= LONGEST_IDLE}


def log_in(request: Request, response: Response, secret: str) -> SessionView:
    """Set the cookie on the answer, or refuse."""
    sessions: Sessions = request.app.state.sessions
    return set_cookie(sessions, response, sessions.enter(secret))


def set_cookie(sessions: Sessions, response: Response, cookie: str | None) -> SessionView:
    """Set a new session's cookie on the answer; refuse where there is none."""
    session = sessions.find(cookie)
    if cookie is None or session is None:
        raise RefusedRequest(403, "that is not the token or password of this server, or it was used before.")
    # No `secure`: on loopback there is no TLS. Strict: no other site can make the browser send it.
    response.set_cookie(sessions.cookie_name, cookie, httponly=True, samesite="strict", path="/")
    return SessionView(csrf=session.csrf)


def current_session(request: Request) -> BrowserSession:
    """The session that the guard found."""
    session: BrowserSession | None = request.scope.get("state", {}).get("session")
    if session is None:
        raise RefusedRequest(401, "nobody was let in with this cookie.")
    return session


def log_out(request: Request, response: Response) -> None:
    """Forget the session and its cookie."""
    sessions: Sessions = request.app.state.sessions
    sessions.leave(sessions.cookie_of(request.headers))
    response.delete_cookie(sessions.cookie_name, path="/")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

"""Who may use the page: whoever has the one-time token of the printed address, or the password, and then a cookie.

A token works once; the next one is printed in the terminal. Guesses are counted, and after `MOST_GUESSES` within a
minute nobody is let in for the rest of it, so that 256 random bits need not be the only defence. Cookies are kept as
digests, so that what the server holds in memory does not open it either.
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
from typing import Final

from queryveil.errors import RefusedError

MOST_GUESSES: Final = 10
GUESSING_WINDOW: Final = 60.0
LONGEST_IDLE: Final = 12 * 3600.0
MOST_SESSIONS: Final = 50


class TooManyGuessesError(RefusedError):
    """Somebody is guessing."""


@dataclass
class Session:
    """A browser that was let in."""

    csrf: str = field(repr=False)
    seen: float


class Sessions:
    """Tokens, the password and the browsers that were let in; everything in memory, gone with the server."""

    def __init__(self, password: str | None, on_new_token: Callable[[str], None]) -> None:
        self._salt = secrets.token_bytes(16)
        self._password = None if password is None else self._stretched(password)
        self._on_new_token = on_new_token
        self._sessions: dict[str, Session] = {}
        self._wrong: deque[float] = deque(maxlen=MOST_GUESSES)
        self._lock = threading.Lock()
        self._token: str | None = None

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
            cookie = secrets.token_urlsafe(32)
            self._forget_idle(now)
            self._sessions[_digest(cookie)] = Session(csrf=secrets.token_urlsafe(32), seen=now)
            return cookie

    def find(self, cookie: str | None) -> Session | None:
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

    def leave(self, cookie: str | None) -> None:
        """End a session."""
        with self._lock:
            self._sessions.pop(_digest(cookie or ""), None)

    def _matches(self, secret: str) -> bool:
        if self._password is not None:
            return hmac.compare_digest(self._stretched(secret), self._password)
        return self._token is not None and hmac.compare_digest(_digest(secret), _digest(self._token))

    def _stretched(self, password: str) -> bytes:
        return hashlib.scrypt(password.encode("utf-8", "surrogatepass"), salt=self._salt, n=1 << 14, r=8, p=1)

    def _forget_idle(self, now: float) -> None:
        by_age = sorted(self._sessions.items(), key=lambda item: item[1].seen, reverse=True)[: MOST_SESSIONS - 1]
        self._sessions = {digest: one for digest, one in by_age if now - one.seen <= LONGEST_IDLE}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

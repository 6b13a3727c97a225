"""Letting a browser in and out: the cookie, and the session behind a request."""

from __future__ import annotations

from fastapi import Request, Response

from queryveil.web.middleware import COOKIE, RefusedRequest, cookie_of
from queryveil.web.models import SessionView
from queryveil.web.sessions import Session, Sessions


def let_in(request: Request, response: Response, secret: str) -> SessionView:
    """Set the cookie on the answer, or refuse."""
    sessions: Sessions = request.app.state.sessions
    cookie = sessions.enter(secret)
    session = sessions.find(cookie)
    if cookie is None or session is None:
        raise RefusedRequest(403, "that is not the token or password of this server, or it was used before.")
    # No `secure`: on loopback there is no TLS. Strict: no other site can make the browser send it.
    response.set_cookie(COOKIE, cookie, httponly=True, samesite="strict", path="/")
    return SessionView(csrf=session.csrf)


def current_session(request: Request) -> Session:
    """The session that the guard found."""
    session: Session | None = request.scope.get("state", {}).get("session")
    if session is None:
        raise RefusedRequest(401, "nobody was let in with this cookie.")
    return session


def end_session(request: Request, response: Response) -> None:
    """Forget the session and its cookie."""
    request.app.state.sessions.leave(cookie_of(request.headers))
    response.delete_cookie(COOKIE, path="/")

"""The way in and out, and the files that every page needs."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse, Response

from queryveil.web import assets
from queryveil.web.forms import only, small_form
from queryveil.web.rendering import page as _page
from queryveil.web.rendering import to as _to
from queryveil.web.sessions import log_in, log_out


def router() -> APIRouter:
    """The routes."""
    page = APIRouter(default_response_class=HTMLResponse)

    @page.get("/static/{name}")
    def static(name: Literal["style.css", "icon.svg", "htmx.js"]) -> Response:
        content = assets.htmx() if name == "htmx.js" else assets.own(name)
        kind = {"css": "text/css", "svg": "image/svg+xml", "js": "text/javascript"}[name.split(".")[-1]]
        age = "no-cache" if name == "style.css" else "max-age=86400"
        return Response(content, media_type=kind, headers={"cache-control": age})

    @page.get("/enter")
    def enter(request: Request, token: str = "") -> Response:
        sessions = request.app.state.sessions
        if not token or sessions.wants_password:
            return _page(None, "enter.html", wants_password=sessions.wants_password, entered=False)
        answer = _page(None, "enter.html", wants_password=False, entered=True)
        log_in(request, answer, token)
        return answer

    @page.post("/enter")
    async def enter_with_password(request: Request) -> Response:
        answer = _page(None, "enter.html", wants_password=True, entered=True)
        log_in(request, answer, only(await small_form(request), "password"))
        return answer

    @page.post("/leave")
    def leave(request: Request) -> Response:
        answer = _to("/enter")
        log_out(request, answer)
        return answer

    return page

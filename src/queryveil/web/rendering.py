"""How pages are made of templates: always escaped, with the session's token, for all pages that a browser can open."""

from __future__ import annotations

from functools import cache
from typing import Any

import jinja2
from fastapi import Request
from fastapi.responses import HTMLResponse, RedirectResponse

from queryveil.privacy.guarantee import rounded_down, rounded_up
from queryveil.progress import about
from queryveil.report import charts
from queryveil.report.formatting import count, moment, percent, sentence, size, until
from queryveil.version import __version__
from queryveil.web.sessions import current_session

STEPS = ("Log", "Purpose", "Compare", "Release", "Download")


def to(address: str) -> RedirectResponse:
    """See there; with GET, so that loading the page again repeats nothing."""
    return RedirectResponse(address, 303)


def message_page(status: int, reason: str) -> str:
    """A page that says why something was refused."""
    titles = {401: "Please enter first", 404: "Nothing here", 409: "Refused for privacy", 500: "Something went wrong"}
    return render("message.html", None, title=titles.get(status, "That did not work"), reason=reason)


def page(request: Request | None, template: str, **values: Any) -> HTMLResponse:
    """A template as a page of the session that a request belongs to; without a request, as anybody may see it."""
    return HTMLResponse(render(template, request, **values))


def render(template: str, request: Request | None, **values: Any) -> str:
    """A template filled in."""
    csrf = current_session(request).csrf if request is not None else ""
    path = request.url.path if request is not None else ""
    return _templates().get_template(template).render(csrf=csrf, path=path, entered_already=bool(csrf), **values)


def visible(text: str) -> str:
    """A stranger's text without characters that hide, or turn the text around them.

    >>> visible("tea\u202epdf\x07")
    'teapdf'
    """
    return "".join(character for character in text if character.isprintable())


@cache
def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("queryveil.web"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["version"] = __version__
    environment.globals["steps"] = STEPS
    environment.globals["bar"] = charts.bar
    environment.filters |= {
        "number": count,
        "percent": percent,
        "moment": moment,
        "until": until,
        "about": about,
        "sentence": sentence,
        "size": size,
        "loss": rounded_up,
        "budget": rounded_down,
        "visible": visible,
    }
    return environment

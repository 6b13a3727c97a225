"""The API: one route for each thing the service can do, described by OpenAPI at /api/openapi.json.

A route is a method of the service, whose signature and docstring say what it takes and gives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import FileResponse

from queryveil.web import models
from queryveil.web.service import Part, Service
from queryveil.web.sessions import current_session, log_in, log_out
from queryveil.web.try_query import try_query
from queryveil.web.week import week

REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": models.Failure, "description": reason}
    for status, reason in (
        (400, "The request cannot be understood."),
        (401, "Nobody was let in with this cookie."),
        (403, "The request comes from another page, or lacks the CSRF token."),
        (404, "There is nothing of that identity."),
        (405, "This method is not used here."),
        (408, "The request took too long to arrive."),
        (409, "Refused for privacy: the budget is spent, or the setting cannot keep its promise."),
        (413, "More than the server takes."),
        (414, "The address is too long."),
        (421, "The server does not answer under that name."),
        (422, "A value is not allowed, or something in the data stops the work."),
        (429, "Too many wrong tries."),
        (503, "Too much is asked at once; Retry-After says in how many seconds to try again."),
    )
}
RAW_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}


def router(service: Service) -> APIRouter:
    """The routes, over one service."""
    api = APIRouter(prefix="/api", responses=REFUSALS)
    plain: tuple[tuple[str, str, str, Callable[..., Any], int], ...] = (
        ("logs", "POST", "/logs/sample", service.add_sample, 201),
        ("logs", "GET", "/logs/{log}", service.log, 200),
        ("logs", "DELETE", "/logs/{log}", service.delete_log, 204),
        ("logs", "PUT", "/logs/{log}/reading", service.confirm, 202),
        ("logs", "PUT", "/logs/{log}/purpose", service.set_purpose, 200),
        ("logs", "GET", "/topics", service.topics, 200),
        ("mechanisms", "GET", "/mechanisms", service.mechanisms, 200),
        ("mechanisms", "POST", "/plan", service.plan, 200),
        ("mechanisms", "GET", "/mechanisms/{mechanism}/week", week, 200),
        ("mechanisms", "POST", "/logs/{log}/comparison", service.compare, 202),
        ("mechanisms", "GET", "/logs/{log}/comparison", service.comparison, 200),
        ("mechanisms", "POST", "/try", try_query, 200),
        ("releases", "POST", "/logs/{log}/preview", service.preview, 202),
        ("releases", "POST", "/logs/{log}/release", service.release_log, 202),
        ("releases", "GET", "/releases", service.releases, 200),
        ("releases", "GET", "/releases/{release}", service.release, 200),
        ("releases", "DELETE", "/releases/{release}", service.delete_release, 204),
        ("releases", "POST", "/releases/{release}/verify", service.verify_release, 200),
        ("releases", "POST", "/releases/{release}/decision", service.decide, 200),
        ("jobs", "GET", "/jobs/{job}", service.job, 200),
        ("jobs", "POST", "/jobs/{job}/cancel", service.cancel, 200),
        ("jobs", "POST", "/jobs/{job}/resume", service.resume, 200),
        ("ledger", "GET", "/ledger", service.ledger, 200),
        ("ledger", "POST", "/ledger", service.make_ledger, 201),
        ("ledger", "POST", "/ledger/verify", service.verify_ledger, 200),
    )
    for tag, method, path, endpoint, status in plain:
        api.add_api_route(path, endpoint, methods=[method], tags=[tag], status_code=status)

    @api.post("/session", tags=["session"])
    def enter(login: models.Login, request: Request, response: Response) -> models.SessionView:
        """Exchange the one-time token, or the password, for a cookie and a CSRF token."""
        return log_in(request, response, login.secret)

    @api.get("/session", tags=["session"])
    def session(request: Request) -> models.SessionView:
        """The CSRF token of this session."""
        return models.SessionView(csrf=current_session(request).csrf)

    @api.delete("/session", tags=["session"], status_code=204)
    def leave(request: Request, response: Response) -> None:
        """End this session."""
        log_out(request, response)

    @api.get("/logs", tags=["logs"])
    def logs() -> list[models.LogView]:
        """The uploaded logs, newest first."""
        return service.logs()

    @api.post("/logs", tags=["logs"], status_code=201, openapi_extra=RAW_BODY)
    async def upload(
        request: Request, name: Annotated[str, Query(max_length=300, description="the file's name, for people")] = "log"
    ) -> models.LogView:
        """Upload a log as the raw body; it goes to disk as it arrives."""
        return await service.receive(name, request.stream())

    @api.get(
        "/releases/{release}/files/{part}",
        tags=["releases"],
        response_class=FileResponse,
        responses={200: {"content": {"application/octet-stream": {}, "application/zip": {}}}},
    )
    def download(release: models.Identity, part: Part) -> FileResponse:
        """A file of a release, or all of them as one archive."""
        found = service.download(release, part)
        return FileResponse(found.path, media_type=found.media_type, filename=found.name)

    return api

"""The API: one route for each thing the page can do, described by OpenAPI at /api/openapi.json."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import FileResponse

from queryveil.web import models
from queryveil.web.login import current_session, end_session, let_in
from queryveil.web.service import Service

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

    @api.post("/session", tags=["session"])
    def enter(entrance: models.Entrance, request: Request, response: Response) -> models.SessionView:
        """Exchange the one-time token, or the password, for a cookie and a CSRF token."""
        return let_in(request, response, entrance.secret)

    @api.get("/session", tags=["session"])
    def session(request: Request) -> models.SessionView:
        """The CSRF token of this session."""
        return models.SessionView(csrf=current_session(request).csrf)

    @api.delete("/session", tags=["session"], status_code=204)
    def leave(request: Request, response: Response) -> None:
        """End this session."""
        end_session(request, response)

    @api.get("/logs", tags=["logs"])
    def logs() -> list[models.LogView]:
        """The uploaded logs."""
        return service.logs()

    @api.post("/logs", tags=["logs"], status_code=201, openapi_extra=RAW_BODY)
    async def upload(
        request: Request, name: Annotated[str, Query(max_length=300, description="the file's name, for people")] = "log"
    ) -> models.LogView:
        """Upload a log as the raw body; it goes to disk as it arrives."""
        return await service.receive(name, request.stream())

    @api.post("/logs/sample", tags=["logs"], status_code=201)
    def sample() -> models.LogView:
        """Add a synthetic log to try things on."""
        return service.add_sample()

    @api.get("/logs/{log}", tags=["logs"])
    def log(log: models.Identity) -> models.LogView:
        """One log."""
        return service.log(log)

    @api.delete("/logs/{log}", tags=["logs"], status_code=204)
    def delete_log(log: models.Identity) -> None:
        """Delete a log and everything exact about it."""
        service.delete_log(log)

    @api.put("/logs/{log}/reading", tags=["logs"], status_code=202)
    def confirm(log: models.Identity, reading: models.Reading) -> models.JobView:
        """Confirm format and columns; starts reading and counting."""
        return service.confirm(log, reading)

    @api.put("/logs/{log}/purpose", tags=["logs"])
    def purpose(log: models.Identity, purpose: models.Purpose) -> models.LogView:
        """Say who receives the release, for what, and how much risk is acceptable."""
        return service.set_purpose(log, purpose)

    @api.get("/topics", tags=["logs"])
    def topics() -> list[models.TopicView]:
        """The topics that can be kept out of a release."""
        return service.topics()

    @api.post("/logs/{log}/comparison", tags=["mechanisms"], status_code=202)
    def compare(log: models.Identity) -> models.JobView:
        """Try many settings for the stated purpose."""
        return service.compare(log)

    @api.get("/logs/{log}/comparison", tags=["mechanisms"])
    def comparison(log: models.Identity) -> models.Comparison | None:
        """What the comparison has found so far."""
        return service.comparison(log)

    @api.post("/try", tags=["mechanisms"])
    def try_query(wish: models.Trial) -> models.Tried:
        """Obfuscate one query, on this machine only."""
        return service.try_query(wish)

    @api.post("/logs/{log}/preview", tags=["releases"], status_code=202)
    def preview(log: models.Identity, setting: models.Setting) -> models.JobView:
        """Try a setting on a copy; nothing is spent or written."""
        return service.preview(log, setting)

    @api.post("/logs/{log}/release", tags=["releases"], status_code=202)
    def make_release(log: models.Identity, wish: models.Wish) -> models.JobView:
        """Make a signed release; its budget is debited first."""
        return service.release_log(log, wish)

    @api.get("/jobs/{job}", tags=["jobs"])
    def job(job: models.Identity) -> models.JobView:
        """How far a piece of work is."""
        return service.job(job)

    @api.post("/jobs/{job}/cancel", tags=["jobs"])
    def cancel(job: models.Identity) -> models.JobView:
        """Stop a piece of work."""
        return service.cancel(job)

    @api.post("/jobs/{job}/resume", tags=["jobs"])
    def resume(job: models.Identity) -> models.JobView:
        """Go on with what was cancelled or failed."""
        return service.resume(job)

    @api.get("/mechanisms", tags=["mechanisms"])
    def mechanisms() -> list[models.MechanismView]:
        """The mechanisms and their parameters."""
        return service.mechanisms()

    @api.post("/plan", tags=["mechanisms"])
    def plan(setting: models.Setting) -> models.Plan:
        """What a setting would promise, in words; no data is read."""
        return service.plan(setting)

    @api.get("/releases", tags=["releases"])
    def releases() -> list[models.ReleaseView]:
        """The finished releases."""
        return service.releases()

    @api.get("/releases/{release}", tags=["releases"])
    def release(release: models.Identity) -> models.ReleaseView:
        """One release."""
        return service.release(release)

    @api.delete("/releases/{release}", tags=["releases"], status_code=204)
    def delete_release(release: models.Identity) -> None:
        """Delete a release from this server; the ledger keeps its entry."""
        service.delete_release(release)

    @api.post("/releases/{release}/verify", tags=["releases"])
    def verify_release(release: models.Identity) -> models.Verdict:
        """Check files, hash and signature."""
        return service.verify_release(release)

    @api.get(
        "/releases/{release}/files/{part}",
        tags=["releases"],
        response_class=FileResponse,
        responses={200: {"content": {"application/octet-stream": {}, "application/zip": {}}}},
    )
    def download(
        release: models.Identity, part: Literal["log", "manifest", "signature", "report", "internal", "all"]
    ) -> FileResponse:
        """A file of a release, or all of them as one archive."""
        found = service.download(release, part)
        return FileResponse(found.path, media_type=found.media_type, filename=found.name)

    @api.get("/ledger", tags=["ledger"])
    def ledger() -> models.LedgerView:
        """Budgets and what was spent."""
        return service.ledger()

    @api.post("/ledger", tags=["ledger"], status_code=201)
    def make_ledger(budget: models.Budget) -> models.LedgerView:
        """Make the ledger that pays for every release from now on."""
        return service.make_ledger(budget)

    @api.post("/ledger/verify", tags=["ledger"])
    def verify_ledger() -> models.Verdict:
        """Check that no entry was changed and nobody's budget is overspent."""
        return service.verify_ledger()

    return api

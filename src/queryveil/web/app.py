"""The application: service, API, pages and guard, put together.

`create(settings)` gives the ASGI application; `serve` in `server.py` runs it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp

from queryveil.errors import QueryVeilError, RefusedError
from queryveil.version import __version__
from queryveil.web import api, assets, models, pages
from queryveil.web.formatting import as_page_field
from queryveil.web.job_runner import JobRunner
from queryveil.web.lock import FolderLock
from queryveil.web.middleware import API, Guard
from queryveil.web.service import Service
from queryveil.web.sessions import RefusedRequest, Sessions, TooManyGuessesError
from queryveil.web.settings import WebSettings
from queryveil.web.store import NotFoundError
from queryveil.web.uploads import TooLargeError

STATUS: tuple[tuple[type[QueryVeilError], int], ...] = (
    (NotFoundError, 404),
    (TooLargeError, 413),
    (TooManyGuessesError, 429),
    (RefusedError, 409),
    (QueryVeilError, 422),
)
FIELD_NAMES = frozenset(
    name
    for kind in (models.Login, models.Reading, models.Purpose, models.ReleaseRequest, models.Budget, models.TryRequest)
    for name in kind.model_fields
)


def create(settings: WebSettings, on_new_token: Callable[[str], None] = lambda token: None) -> ASGIApp:
    """The application, with its guard around it and its job runner behind it."""
    assets.htmx()  # a wrong script is found now and not in the browser
    service = Service(settings)
    lock = FolderLock(settings.folder)
    lock.acquire()
    sessions = Sessions(settings.password, on_new_token)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        runner = JobRunner(service.store, settings, hold=lock.acquire())
        try:
            runner.start()
            sessions.open()
            yield
            runner.stop()
        finally:
            lock.release()

    app = FastAPI(
        title="QueryVeil",
        version=__version__,
        description="Protect a query log and download a signed release. The page does nothing that is not here.",
        docs_url=None,  # both of FastAPI's viewers load scripts from the network
        redoc_url=None,
        openapi_url="/api/openapi.json",
        lifespan=lifespan,
    )
    app.state.sessions = sessions
    app.state.service = service
    app.include_router(api.router(service))
    app.include_router(pages.router(service), include_in_schema=False)
    app.add_exception_handler(QueryVeilError, _failed)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RefusedRequest, _refused)
    return Guard(app, settings, sessions)


def _answer(request: Request, status: int, reason: str) -> Response:
    if request.url.path.startswith(API):
        return JSONResponse({"error": reason}, status)
    return HTMLResponse(pages.message_page(status, reason), status)


def _failed(request: Request, error: Exception) -> Response:
    assert isinstance(error, QueryVeilError)
    status = next(status for kind, status in STATUS if isinstance(error, kind))
    return _answer(request, status, error.describe(as_page_field))


def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusedRequest)
    return _answer(request, error.status, error.reason)


def _http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    reasons = {404: "there is nothing of that name here.", 405: "this method is not used here."}
    return _answer(request, error.status_code, reasons.get(error.status_code, "the request cannot be understood."))


def _invalid(request: Request, error: Exception) -> Response:
    """Which fields are wrong and by which rule; never what was given, which may be data."""
    assert isinstance(error, RequestValidationError)
    problems = []
    for problem in error.errors():
        place = [str(part) for part in problem["loc"][1:] if part in FIELD_NAMES]
        problems.append(f"{'.'.join(place) or str(problem['loc'][0])}: {problem['msg']}")
    return _answer(request, 422, "; ".join(problems[:10]))

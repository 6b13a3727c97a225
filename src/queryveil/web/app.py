"""The application: service, API, pages and guard, put together.

`create(settings)` gives the ASGI application; `serve` in `server.py` runs it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from fastapi import FastAPI
from starlette.types import ASGIApp

from queryveil.version import __version__
from queryveil.web import api, assets, entrance, pages
from queryveil.web.job_runner import JobRunner
from queryveil.web.lock import FolderLock
from queryveil.web.middleware import Guard
from queryveil.web.refusals import answer_errors
from queryveil.web.service import Service
from queryveil.web.sessions import Sessions
from queryveil.web.settings import WebSettings


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
    app.include_router(entrance.router(), include_in_schema=False)
    app.include_router(pages.router(service), include_in_schema=False)
    answer_errors(app)
    return Guard(app, settings, sessions)

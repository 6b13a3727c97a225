"""How errors are answered: with a status and a reason in words, never with anything of the data."""

from __future__ import annotations

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse, Response
from starlette.exceptions import HTTPException

from queryveil.errors import QueryVeilError, RefusedError
from queryveil.web import models
from queryveil.web.formatting import as_page_field
from queryveil.web.middleware import API
from queryveil.web.rendering import message_page
from queryveil.web.sessions import RefusedRequest, TooManyGuessesError
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


def answer_errors(app: FastAPI) -> None:
    """Let an application answer its errors so."""
    app.add_exception_handler(QueryVeilError, _failed)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(RefusedRequest, _refused)


def _answer(request: Request, status: int, reason: str) -> Response:
    if request.url.path.startswith(API):
        return JSONResponse({"error": reason}, status)
    return HTMLResponse(message_page(status, reason), status)


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

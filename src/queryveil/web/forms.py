"""Forms as browsers send them: small ones become requests of the API, an upload a stream never held in memory."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from typing import Any, Final
from urllib.parse import parse_qs

from fastapi import Request
from pydantic import ValidationError
from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from queryveil.errors import UsageError
from queryveil.web.sessions import RefusedRequest, current_session

LONGEST_FIELD: Final = 1000
LONGEST_BOUNDARY: Final = 70  # RFC 2046
logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # its messages quote bytes of the body


async def small_form(request: Request) -> dict[str, list[str]]:
    """The fields of an url-encoded form; the guard has checked its size and its token."""
    try:
        return parse_qs((await request.body()).decode(), keep_blank_values=True, max_num_fields=500)
    except ValueError:
        raise RefusedRequest(400, "the form cannot be understood.") from None


def only(fields: dict[str, list[str]], name: str, default: str = "") -> str:
    """The first value of a field."""
    return fields.get(name, [default])[0]


def parse_number(text: str) -> float:
    """A number of a form."""
    try:
        return float(text)
    except ValueError:
        raise UsageError("one of the numbers is not a number.") from None


def parse_whole_number(text: str) -> int:
    """A whole number of a form."""
    found = parse_number(text)
    if not found.is_integer():  # neither is an infinity nor what is not a number
        raise UsageError("one of the numbers is not a whole number.")
    return int(found)


def validate(kind: type[Any], **values: Any) -> Any:
    """The API's request made from a form's fields, checked by the same rules; never tells what was given."""
    try:
        return kind(**values)
    except ValidationError as error:
        problems = [f"{problem['loc'][0]}: {problem['msg']}" for problem in error.errors()]
    raise UsageError("; ".join(problems))


class UploadForm:
    """A multipart form with two fields, in this order: the CSRF token, and the file, whose bytes are handed on."""

    def __init__(self, request: Request) -> None:
        kind, options = parse_options_header(request.headers.get("content-type", ""))
        if kind != b"multipart/form-data" or b"boundary" not in options:
            raise RefusedRequest(400, "the form cannot be understood.")
        self.filename = "log"
        self._session = current_session(request)
        self._stream = request.stream()
        self._events: list[tuple[str, bytes]] = []
        if len(options[b"boundary"]) > LONGEST_BOUNDARY:
            raise RefusedRequest(400, "the form cannot be understood.")
        self._parser = MultipartParser(
            options[b"boundary"],
            {
                "on_part_begin": lambda: self._events.append(("begin", b"")),
                "on_header_begin": lambda: self._events.append(("header", b"")),
                "on_header_field": lambda data, start, end: self._events.append(("field", data[start:end])),
                "on_header_value": lambda data, start, end: self._events.append(("value", data[start:end])),
                "on_headers_finished": lambda: self._events.append(("headers", b"")),
                "on_part_data": lambda data, start, end: self._events.append(("data", data[start:end])),
                "on_part_end": lambda: self._events.append(("end", b"")),
            },
        )

    @classmethod
    async def open(cls, request: Request) -> UploadForm:
        """Read up to the first byte of the file; refuses unless the session's token came before it."""
        form = cls(request)
        header, headers, content, trusted = b"", b"", b"", False
        async for kind, data in form._parsed():
            if kind == "begin":
                headers, content = b"", b""
            elif kind == "header":
                header = b""
            elif kind == "field":
                header += data.lower()  # a name may come in pieces
            elif kind == "value" and header == b"content-disposition":
                headers += data
            elif kind == "headers":
                _, options = parse_options_header(headers)
                if options.get(b"name") == b"file":
                    if not trusted:
                        break
                    form.filename = options.get(b"filename", b"log").decode("utf-8", errors="replace")
                    return form
            elif kind == "data":
                content += data
                if len(content) > LONGEST_FIELD:
                    break
            elif kind == "end":
                trusted = form._session.has_token(content.decode("utf-8", errors="replace"))
        raise RefusedRequest(403, "the page is out of date, or the request comes from another page. Load it again.")

    async def chunks(self) -> AsyncIterator[bytes]:
        """The file's bytes as they come in."""
        async for kind, data in self._parsed():
            if kind == "end":
                return
            yield data

    async def _parsed(self) -> AsyncIterator[tuple[str, bytes]]:
        while True:
            while self._events:
                yield self._events.pop(0)
            try:
                chunk = await anext(self._stream)
                self._parser.write(chunk)
            except StopAsyncIteration:
                return
            except FormParserError:
                raise RefusedRequest(400, "the form cannot be understood.") from None
